//! Sign-in links and the sessions they open. In memory only: a restart signs everybody out.
//!
//! A session is two secrets: a cookie, which the page's own script cannot read, and a page token, which no other
//! server can: browsers send cookies of `127.0.0.1` to every port of it, but keep storage per port.
//!
//! # Invariants
//! - A link opens one session, once, in its time.
//! - Secrets are kept and compared as digests.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::Digest;

/// How long a link can be used, in milliseconds.
const LINK_LASTS: i64 = 10 * 60 * 1000;
/// How long a session lasts, in milliseconds.
const SESSION_LASTS: i64 = 12 * 60 * 60 * 1000;
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
pub(super) struct Doors {
    /// Unused links, with the time at which each is too old.
    links: Mutex<HashMap<Digest, i64>>,
    sessions: Mutex<HashMap<Digest, Session>>,
}

struct Session {
    page: Digest,
    ends_at: i64,
}

impl Doors {
    /// The code of a new link.
    pub(super) fn new_link(&self, now: i64) -> Result<String, NoRandom> {
        let code = secret()?;
        let mut links = hold(&self.links);
        links.retain(|_, too_old| now < *too_old);
        make_room(&mut links, |too_old| *too_old);
        links.insert(Digest::of(code.as_bytes()), now.saturating_add(LINK_LASTS));
        Ok(code)
    }

    /// Uses a link up. Nothing if it is not a link, or not any more.
    pub(super) fn open(&self, code: &str, now: i64) -> Result<Option<Opened>, NoRandom> {
        let opened = Opened { cookie: secret()?, page: secret()? };
        // ATTACK(link-used-twice): whoever finds the link in a history finds nothing.
        let known = hold(&self.links).remove(&Digest::of(code.as_bytes()));
        if known.is_none_or(|too_old| now >= too_old) {
            return Ok(None);
        }
        let session =
            Session { page: Digest::of(opened.page.as_bytes()), ends_at: now.saturating_add(SESSION_LASTS) };
        let mut sessions = hold(&self.sessions);
        sessions.retain(|_, session| now < session.ends_at);
        make_room(&mut sessions, |session| session.ends_at);
        sessions.insert(Digest::of(opened.cookie.as_bytes()), session);
        Ok(Some(opened))
    }

    /// The session of a cookie and a page token, if both belong together and it has not ended.
    pub(super) fn session(&self, cookie: &str, page: &str, now: i64) -> Option<SessionKey> {
        let key = Digest::of(cookie.as_bytes());
        let sessions = hold(&self.sessions);
        let session = sessions.get(&key).filter(|session| now < session.ends_at)?;
        (session.page == Digest::of(page.as_bytes())).then_some(SessionKey(key))
    }

    /// Whether a session goes on.
    pub(super) fn goes_on(&self, key: SessionKey, now: i64) -> bool {
        hold(&self.sessions).get(&key.0).is_some_and(|session| now < session.ends_at)
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

    #[test]
    fn a_link_works_once() {
        let doors = Doors::default();
        let code = doors.new_link(0).unwrap();
        assert!(doors.open(&code, 1).unwrap().is_some());
        assert!(doors.open(&code, 2).unwrap().is_none());
    }

    #[test]
    fn a_link_that_is_too_old_does_not_work_and_neither_does_a_guess() {
        let doors = Doors::default();
        let code = doors.new_link(0).unwrap();
        assert!(doors.open("", 1).unwrap().is_none());
        assert!(doors.open(&"0".repeat(64), 1).unwrap().is_none());
        assert!(doors.open(&code, LINK_LASTS).unwrap().is_none());
    }

    #[test]
    fn a_session_needs_both_secrets_and_ends() {
        let doors = Doors::default();
        let code = doors.new_link(0).unwrap();
        let first = doors.open(&code, 0).unwrap().unwrap();
        let code = doors.new_link(0).unwrap();
        let second = doors.open(&code, 0).unwrap().unwrap();
        assert!(doors.session(&first.cookie, &first.page, 1).is_some());
        assert!(doors.session(&first.cookie, &second.page, 1).is_none());
        assert!(doors.session(&first.cookie, "", 1).is_none());
        assert!(doors.session(&first.page, &first.page, 1).is_none());
        assert!(doors.session(&first.cookie, &first.page, SESSION_LASTS).is_none());
    }

    #[test]
    fn a_closed_session_is_over() {
        let doors = Doors::default();
        let code = doors.new_link(0).unwrap();
        let opened = doors.open(&code, 0).unwrap().unwrap();
        let key = doors.session(&opened.cookie, &opened.page, 1).unwrap();
        doors.close(key);
        assert!(!doors.goes_on(key, 1));
        assert!(doors.session(&opened.cookie, &opened.page, 1).is_none());
    }

    #[test]
    fn old_ones_make_room_for_new_ones() {
        let doors = Doors::default();
        let oldest = doors.new_link(0).unwrap();
        let codes: Vec<String> = (1..=64).map(|now| doors.new_link(now).unwrap()).collect();
        assert!(doors.open(&oldest, 65).unwrap().is_none());
        assert!(doors.open(codes.last().unwrap(), 65).unwrap().is_some());
        assert_eq!(hold(&doors.links).len(), 63);
    }
}
