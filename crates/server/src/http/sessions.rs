//! Sign-in links and the sessions they open. In memory only: a restart signs everybody out.
//!
//! A link is one operator's, and so is the session it opens: whoever asks with it asks as them, for as long as they are
//! one.
//!
//! A session is two secrets: a cookie, which the page's own script cannot read, and a page token, which no other
//! server can: browsers send cookies of `127.0.0.1` to every port of it, but keep storage per port.
//!
//! # Invariants
//! - A link opens one session, once, in its time.
//! - Secrets are kept and compared as digests.
//! - Whoever opens many ends their own, and nobody else's. A challenge takes no room until it was answered well.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use contract::{Digest, OperatorName};
use engine::Credential;

/// How long a link can be used, in milliseconds.
const LINK_LASTS: i64 = 10 * 60 * 1000;
/// How long a session lasts at most, in milliseconds.
const SESSION_LASTS: i64 = 12 * 60 * 60 * 1000;
/// How long it lasts without a request.
const IDLE_LASTS: i64 = 2 * 60 * 60 * 1000;
/// How long a challenge to an authenticator can be answered.
const CHALLENGE_LASTS: i64 = 5 * 60 * 1000;
/// How many unused links, and how many sessions, one operator can have.
const MOST: usize = 16;
/// How many challenges one operator can answer in their time.
const MOST_ANSWERED: usize = 64;

/// The system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRandom;

/// What a browser gets when it signs in.
pub(super) struct Opened {
    pub(super) cookie: String,
    pub(super) page: String,
}

/// Which session a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionKey(Digest);

#[derive(Default)]
pub(super) struct Sessions {
    /// Unused links.
    links: Mutex<HashMap<Digest, Link>>,
    sessions: Mutex<HashMap<Digest, Session>>,
    /// By which our own challenges are known.
    challenger: OnceLock<[u8; 32]>,
    /// Challenges that were answered, until they are too old anyway.
    answered: Mutex<HashMap<Digest, Answered>>,
}

/// What a challenge was given out for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Somebody wants to come in.
    ComeIn,
    /// An operator adds a key of their own.
    AddKey(OperatorName),
}

struct Answered {
    owner: Digest,
    too_old_at: i64,
}

struct Link {
    whose: Arc<Credential>,
    owner: Digest,
    too_old_at: i64,
}

struct Session {
    whose: Arc<Credential>,
    /// As whose it counts.
    owner: Digest,
    page: Digest,
    /// When its owner has proved to be there.
    proved_at: i64,
    last_seen: i64,
    ends_at: i64,
}

impl Session {
    fn goes_on(&self, now: i64) -> bool {
        now < self.ends_at && now < self.last_seen.saturating_add(IDLE_LASTS)
    }
}

impl Sessions {
    /// The code of a new link, for the operator whose credential it is.
    pub(super) fn new_link(&self, whose: Arc<Credential>, now: i64) -> Result<String, NoRandom> {
        let code = secret()?;
        let mut links = hold(&self.links);
        links.retain(|_, link| now < link.too_old_at);
        let owner = whose.digest();
        make_room(&mut links, |link| (link.owner == owner).then_some(link.too_old_at));
        let link = Link { whose, owner, too_old_at: now.saturating_add(LINK_LASTS) };
        links.insert(Digest::of(code.as_bytes()), link);
        Ok(code)
    }

    /// Uses a link up. Nothing if it is not a link, or not any more.
    pub(super) fn open(&self, code: &str, now: i64) -> Result<Option<(Opened, Arc<Credential>)>, NoRandom> {
        // ATTACK(link-used-twice): whoever finds the link in a history finds nothing.
        let known = hold(&self.links).remove(&Digest::of(code.as_bytes()));
        let Some(link) = known.filter(|link| now < link.too_old_at) else { return Ok(None) };
        // ATTACK(link-of-a-viewer): the session is theirs whose link it was, not the gate's own.
        Ok(Some((self.open_for(Arc::clone(&link.whose), link.owner, now)?, link.whose)))
    }

    /// Opens a session for somebody who has just proved to be there.
    pub(super) fn open_for(
        &self,
        whose: Arc<Credential>,
        owner: Digest,
        now: i64,
    ) -> Result<Opened, NoRandom> {
        let opened = Opened { cookie: secret()?, page: secret()? };
        let session = Session {
            whose,
            owner,
            page: Digest::of(opened.page.as_bytes()),
            proved_at: now,
            last_seen: now,
            ends_at: now.saturating_add(SESSION_LASTS),
        };
        let mut sessions = hold(&self.sessions);
        sessions.retain(|_, session| session.goes_on(now));
        // ATTACK(pushed-out): somebody else's stay.
        make_room(&mut sessions, |session| (session.owner == owner).then_some(session.ends_at));
        sessions.insert(Digest::of(opened.cookie.as_bytes()), session);
        Ok(opened)
    }

    /// A challenge for an authenticator: when it is too old, something random, and by what we know it as ours. Nothing is
    /// kept of it, so that whoever asks for many takes nobody's away.
    pub(super) fn new_challenge(&self, purpose: &Purpose, now: i64) -> Result<Vec<u8>, NoRandom> {
        if self.challenger.get().is_none() {
            let mut key = [0_u8; 32];
            getrandom::fill(&mut key).map_err(|_| NoRandom)?;
            // Another may have been faster.
            let _ = self.challenger.set(key);
        }
        let mut random = [0_u8; 24];
        getrandom::fill(&mut random).map_err(|_| NoRandom)?;
        let mut challenge = now.saturating_add(CHALLENGE_LASTS).to_be_bytes().to_vec();
        challenge.extend_from_slice(&random);
        let mark = self.mark(&challenge, purpose).ok_or(NoRandom)?;
        challenge.extend_from_slice(mark.as_bytes());
        Ok(challenge)
    }

    /// Whether a challenge was given out for this, and can still be answered.
    pub(super) fn is_challenge(&self, challenge: &[u8], purpose: &Purpose, now: i64) -> bool {
        let Some((body, mark)) = challenge.split_at_checked(32) else { return false };
        // By digests: how long a comparison takes tells nothing.
        let ours = self.mark(body, purpose).map(|ours| Digest::of(ours.as_bytes()));
        ours == Some(Digest::of(mark))
            && too_old_at(challenge).is_some_and(|at| now < at)
            && !hold(&self.answered).contains_key(&Digest::of(challenge))
    }

    /// Uses a challenge up that an operator has answered. Whether it was the first time.
    pub(super) fn use_up(&self, challenge: &[u8], by: &OperatorName, now: i64) -> bool {
        let Some(too_old_at) = too_old_at(challenge) else { return false };
        let owner = Digest::of(by.as_str().as_bytes());
        let mut answered = hold(&self.answered);
        answered.retain(|_, answered| now < answered.too_old_at);
        if answered.values().filter(|answered| answered.owner == owner).count() >= MOST_ANSWERED {
            return false;
        }
        answered.insert(Digest::of(challenge), Answered { owner, too_old_at }).is_none()
    }

    fn mark(&self, body: &[u8], purpose: &Purpose) -> Option<Digest> {
        let mut marked = self.challenger.get()?.to_vec();
        marked.extend_from_slice(body);
        match purpose {
            Purpose::ComeIn => marked.push(0),
            Purpose::AddKey(name) => {
                marked.push(1);
                marked.extend_from_slice(name.as_str().as_bytes());
            }
        }
        Some(Digest::of(&marked))
    }

    /// The session of a cookie and a page token, whose it is, and when they proved to be there, if both belong together
    /// and it has not ended.
    pub(super) fn session(
        &self,
        cookie: &str,
        page: &str,
        now: i64,
    ) -> Option<(SessionKey, Arc<Credential>, i64)> {
        let key = Digest::of(cookie.as_bytes());
        let mut sessions = hold(&self.sessions);
        let session = sessions.get_mut(&key).filter(|session| session.goes_on(now))?;
        if session.page != Digest::of(page.as_bytes()) {
            return None;
        }
        session.last_seen = session.last_seen.max(now);
        Some((SessionKey(key), session.whose.clone(), session.proved_at))
    }

    /// The session of a cookie, whatever page it comes from.
    #[cfg(feature = "weaken")]
    pub(super) fn session_of_cookie(
        &self,
        cookie: &str,
        now: i64,
    ) -> Option<(SessionKey, Arc<Credential>, i64)> {
        let key = Digest::of(cookie.as_bytes());
        let sessions = hold(&self.sessions);
        let session = sessions.get(&key).filter(|session| session.goes_on(now))?;
        Some((SessionKey(key), session.whose.clone(), session.proved_at))
    }

    /// Whether a session goes on.
    pub(super) fn goes_on(&self, key: SessionKey, now: i64) -> bool {
        hold(&self.sessions).get(&key.0).is_some_and(|session| session.goes_on(now))
    }

    pub(super) fn close(&self, key: SessionKey) {
        hold(&self.sessions).remove(&key.0);
    }

    /// Ends the session of a cookie, if it is one's.
    pub(super) fn close_of_cookie(&self, cookie: &str) {
        self.close(SessionKey(Digest::of(cookie.as_bytes())));
    }
}

/// Lets the oldest of somebody's go if they have too many; `age` is nothing for those of others.
fn make_room<T>(entries: &mut HashMap<Digest, T>, age: impl Fn(&T) -> Option<i64>) {
    loop {
        let theirs: Vec<(i64, Digest)> =
            entries.iter().filter_map(|(key, entry)| Some((age(entry)?, *key))).collect();
        if theirs.len() < MOST {
            return;
        }
        let Some((_, oldest)) = theirs.into_iter().min_by_key(|(age, _)| *age) else { return };
        entries.remove(&oldest);
    }
}

/// When a challenge of ours is too old.
fn too_old_at(challenge: &[u8]) -> Option<i64> {
    challenge.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
}

/// 256 random bits.
fn secret() -> Result<String, NoRandom> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here can be half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Arc<Credential> {
        Arc::new(Credential::presented("mine"))
    }

    #[test]
    fn a_session_is_of_whoever_asked_for_the_link() {
        let sessions = Sessions::default();
        let theirs = Arc::new(Credential::presented("theirs"));
        let codes = [sessions.new_link(me(), 0).unwrap(), sessions.new_link(theirs, 0).unwrap()];
        for (code, whose) in codes.iter().zip(["mine", "theirs"]) {
            let (opened, _) = sessions.open(code, 1).unwrap().unwrap();
            let (_, credential, _) = sessions.session(&opened.cookie, &opened.page, 2).unwrap();
            assert_eq!(credential.digest(), Credential::presented(whose).digest());
        }
    }

    #[test]
    fn a_link_works_once() {
        let sessions = Sessions::default();
        let code = sessions.new_link(me(), 0).unwrap();
        assert!(sessions.open(&code, 1).unwrap().is_some());
        assert!(sessions.open(&code, 2).unwrap().is_none());
    }

    #[test]
    fn a_link_that_is_too_old_does_not_work_and_neither_does_a_guess() {
        let sessions = Sessions::default();
        let code = sessions.new_link(me(), 0).unwrap();
        assert!(sessions.open("", 1).unwrap().is_none());
        assert!(sessions.open(&"0".repeat(64), 1).unwrap().is_none());
        assert!(sessions.open(&code, LINK_LASTS).unwrap().is_none());
    }

    #[test]
    fn a_session_needs_both_secrets_and_ends() {
        let sessions = Sessions::default();
        let code = sessions.new_link(me(), 0).unwrap();
        let first = sessions.open(&code, 0).unwrap().unwrap().0;
        let code = sessions.new_link(me(), 0).unwrap();
        let second = sessions.open(&code, 0).unwrap().unwrap().0;
        assert!(sessions.session(&first.cookie, &first.page, 1).is_some());
        assert!(sessions.session(&first.cookie, &second.page, 1).is_none());
        assert!(sessions.session(&first.cookie, "", 1).is_none());
        assert!(sessions.session(&first.page, &first.page, 1).is_none());
        assert!(sessions.session(&first.cookie, &first.page, SESSION_LASTS).is_none());
    }

    #[test]
    fn a_session_ends_when_nobody_asks_and_in_any_case() {
        let sessions = Sessions::default();
        let opened = sessions.open_for(me(), me().digest(), 0).unwrap();
        let look = |now| sessions.session(&opened.cookie, &opened.page, now).is_some();
        let mut now = 0;
        while now + IDLE_LASTS - 1 < SESSION_LASTS {
            now += IDLE_LASTS - 1;
            assert!(look(now), "{now}");
        }
        assert!(!look(SESSION_LASTS));
        let opened = sessions.open_for(me(), me().digest(), 0).unwrap();
        assert!(sessions.session(&opened.cookie, &opened.page, IDLE_LASTS).is_none());
    }

    #[test]
    fn a_challenge_is_answered_once_in_its_time_for_its_purpose() {
        let sessions = Sessions::default();
        let own = Purpose::AddKey(OperatorName::parse("me").unwrap());
        let first = sessions.new_challenge(&Purpose::ComeIn, 0).unwrap();
        let me = OperatorName::parse("me").unwrap();
        assert!(sessions.is_challenge(&first, &Purpose::ComeIn, 1));
        assert!(sessions.use_up(&first, &me, 1));
        assert!(!sessions.is_challenge(&first, &Purpose::ComeIn, 1));
        assert!(!sessions.use_up(&first, &me, 1));
        let second = sessions.new_challenge(&own, 0).unwrap();
        assert!(!sessions.is_challenge(&second, &Purpose::ComeIn, 1));
        assert!(sessions.is_challenge(&second, &own, 1));
        let other = Purpose::AddKey(OperatorName::parse("you").unwrap());
        assert!(!sessions.is_challenge(&second, &other, 1));
        assert!(!sessions.is_challenge(&second, &own, CHALLENGE_LASTS));
        // Not ours, or not any more as we made it.
        assert!(!Sessions::default().is_challenge(&second, &own, 1));
        for at in 0..second.len() {
            let mut changed = second.clone();
            *changed.get_mut(at).unwrap() ^= 1;
            assert!(!sessions.is_challenge(&changed, &own, 1), "{at}");
        }
        assert!(!sessions.is_challenge(&[0; 32], &own, 1) && !sessions.is_challenge(&[], &own, 1));
    }

    #[test]
    fn whoever_asks_often_takes_nothing_from_others() {
        let sessions = Sessions::default();
        let theirs = Arc::new(Credential::presented("theirs"));
        let waiting = sessions.new_challenge(&Purpose::ComeIn, 0).unwrap();
        let link = sessions.new_link(me(), 0).unwrap();
        let mine = sessions.open_for(me(), me().digest(), 0).unwrap();
        let first = sessions.open_for(theirs.clone(), theirs.digest(), 0).unwrap();
        for now in 1..200 {
            sessions.new_challenge(&Purpose::ComeIn, now).unwrap();
            sessions.new_link(theirs.clone(), now).unwrap();
            sessions.open_for(theirs.clone(), theirs.digest(), now).unwrap();
        }
        assert!(sessions.is_challenge(&waiting, &Purpose::ComeIn, 200));
        assert!(sessions.open(&link, 200).unwrap().is_some());
        assert!(sessions.session(&mine.cookie, &mine.page, 200).is_some());
        assert!(sessions.session(&first.cookie, &first.page, 200).is_none());
    }

    #[test]
    fn a_closed_session_is_over() {
        let sessions = Sessions::default();
        let code = sessions.new_link(me(), 0).unwrap();
        let (opened, _) = sessions.open(&code, 0).unwrap().unwrap();
        let (key, ..) = sessions.session(&opened.cookie, &opened.page, 1).unwrap();
        sessions.close(key);
        assert!(!sessions.goes_on(key, 1));
        assert!(sessions.session(&opened.cookie, &opened.page, 1).is_none());
    }

    #[test]
    fn old_ones_make_room_for_new_ones() {
        let sessions = Sessions::default();
        let oldest = sessions.new_link(me(), 0).unwrap();
        let codes: Vec<String> = (1..=16).map(|now| sessions.new_link(me(), now).unwrap()).collect();
        assert!(sessions.open(&oldest, 17).unwrap().is_none());
        assert!(sessions.open(codes.last().unwrap(), 17).unwrap().is_some());
        assert_eq!(hold(&sessions.links).len(), 15);
    }
}
