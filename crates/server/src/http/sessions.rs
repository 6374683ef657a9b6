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

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
/// How many unused links there can be, and how many sessions.
const MOST: usize = 64;

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
    /// Challenges that nobody has answered.
    challenges: Mutex<HashMap<Digest, Challenge>>,
}

/// What a challenge was given out for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Somebody wants to come in.
    ComeIn,
    /// An operator adds a key of their own.
    AddKey(OperatorName),
}

struct Challenge {
    purpose: Purpose,
    too_old_at: i64,
}

struct Link {
    whose: Arc<Credential>,
    too_old_at: i64,
}

struct Session {
    whose: Arc<Credential>,
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
        make_room(&mut links, |link| link.too_old_at);
        let link = Link { whose, too_old_at: now.saturating_add(LINK_LASTS) };
        links.insert(Digest::of(code.as_bytes()), link);
        Ok(code)
    }

    /// Uses a link up. Nothing if it is not a link, or not any more.
    pub(super) fn open(&self, code: &str, now: i64) -> Result<Option<(Opened, Arc<Credential>)>, NoRandom> {
        // ATTACK(link-used-twice): whoever finds the link in a history finds nothing.
        let known = hold(&self.links).remove(&Digest::of(code.as_bytes()));
        let Some(link) = known.filter(|link| now < link.too_old_at) else { return Ok(None) };
        // ATTACK(link-of-a-viewer): the session is theirs whose link it was, not the gate's own.
        Ok(Some((self.open_for(Arc::clone(&link.whose), now)?, link.whose)))
    }

    /// Opens a session for somebody who has just proved to be there.
    pub(super) fn open_for(&self, whose: Arc<Credential>, now: i64) -> Result<Opened, NoRandom> {
        let opened = Opened { cookie: secret()?, page: secret()? };
        let session = Session {
            whose,
            page: Digest::of(opened.page.as_bytes()),
            proved_at: now,
            last_seen: now,
            ends_at: now.saturating_add(SESSION_LASTS),
        };
        let mut sessions = hold(&self.sessions);
        sessions.retain(|_, session| session.goes_on(now));
        make_room(&mut sessions, |session| session.ends_at);
        sessions.insert(Digest::of(opened.cookie.as_bytes()), session);
        Ok(opened)
    }

    /// A challenge for an authenticator.
    pub(super) fn new_challenge(&self, purpose: Purpose, now: i64) -> Result<[u8; 32], NoRandom> {
        let mut challenge = [0_u8; 32];
        getrandom::fill(&mut challenge).map_err(|_| NoRandom)?;
        let mut challenges = hold(&self.challenges);
        challenges.retain(|_, challenge| now < challenge.too_old_at);
        make_room(&mut challenges, |challenge| challenge.too_old_at);
        let kept = Challenge { purpose, too_old_at: now.saturating_add(CHALLENGE_LASTS) };
        challenges.insert(Digest::of(&challenge), kept);
        Ok(challenge)
    }

    /// Uses a challenge up. Whether it was given out for this, and can still be answered.
    pub(super) fn take_challenge(&self, challenge: &[u8], purpose: &Purpose, now: i64) -> bool {
        let known = hold(&self.challenges).remove(&Digest::of(challenge));
        known.is_some_and(|known| known.purpose == *purpose && now < known.too_old_at)
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
}

/// Lets the oldest go if there are too many.
fn make_room<T>(entries: &mut HashMap<Digest, T>, age: impl Fn(&T) -> i64) {
    while entries.len() >= MOST {
        let Some(oldest) = entries.iter().min_by_key(|(_, entry)| age(entry)).map(|(key, _)| *key) else {
            return;
        };
        entries.remove(&oldest);
    }
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
        let opened = sessions.open_for(me(), 0).unwrap();
        let look = |now| sessions.session(&opened.cookie, &opened.page, now).is_some();
        let mut now = 0;
        while now + IDLE_LASTS - 1 < SESSION_LASTS {
            now += IDLE_LASTS - 1;
            assert!(look(now), "{now}");
        }
        assert!(!look(SESSION_LASTS));
        let opened = sessions.open_for(me(), 0).unwrap();
        assert!(sessions.session(&opened.cookie, &opened.page, IDLE_LASTS).is_none());
    }

    #[test]
    fn a_challenge_is_answered_once_in_its_time_for_its_purpose() {
        let sessions = Sessions::default();
        let own = Purpose::AddKey(OperatorName::parse("me").unwrap());
        let first = sessions.new_challenge(Purpose::ComeIn, 0).unwrap();
        assert!(sessions.take_challenge(&first, &Purpose::ComeIn, 1));
        assert!(!sessions.take_challenge(&first, &Purpose::ComeIn, 1));
        let second = sessions.new_challenge(own.clone(), 0).unwrap();
        assert!(!sessions.take_challenge(&second, &Purpose::ComeIn, 1));
        let third = sessions.new_challenge(own.clone(), 0).unwrap();
        assert!(!sessions.take_challenge(&third, &own, CHALLENGE_LASTS));
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
        let codes: Vec<String> = (1..=64).map(|now| sessions.new_link(me(), now).unwrap()).collect();
        assert!(sessions.open(&oldest, 65).unwrap().is_none());
        assert!(sessions.open(codes.last().unwrap(), 65).unwrap().is_some());
        assert_eq!(hold(&sessions.links).len(), 63);
    }
}
