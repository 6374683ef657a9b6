//! What the signer answers to one connection, message by message.
//!
//! Pure: no socket, no clock. It knows one key, one host and, once it was told, one session.

use super::HostKey;
use super::key::{Scheme, SigningKey};
use super::wire::{Fields, string};
use crate::events::Denial;
use crate::guards::{Guard, Guards};

const FAILURE: u8 = 5;
const SUCCESS: u8 = 6;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
const EXTENSION: u8 = 27;
const EXTENSION_FAILURE: u8 = 28;

const SESSION_BIND: &[u8] = b"session-bind@openssh.com";
/// The first byte of a request to log in, after the session.
const USERAUTH_REQUEST: u8 = 50;
/// No hash that names a session is longer.
const MAX_SESSION: usize = 64;

/// The signer of one connection.
pub(super) struct Signer<'a> {
    key: &'a SigningKey,
    /// The keys of the host that the key is for.
    known: Vec<&'a HostKey>,
    user: Option<&'a str>,
    guards: Guards,
    session: Option<Session>,
}

/// The session that a connection is for.
struct Session {
    id: Vec<u8>,
    host_key: Vec<u8>,
}

/// What is answered, and what became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing that counts was asked.
    Told(Vec<u8>),
    /// A signature.
    Signed(Vec<u8>),
    /// No.
    Refused(Vec<u8>, Denial),
}

impl<'a> Signer<'a> {
    pub(super) fn new(
        key: &'a SigningKey,
        known: Vec<&'a HostKey>,
        user: Option<&'a str>,
        guards: Guards,
    ) -> Signer<'a> {
        Signer { key, known, user, guards, session: None }
    }

    /// Answers one message, without its length.
    pub(super) fn answer(&mut self, message: &[u8]) -> Answer {
        let mut fields = Fields::of(message);
        let kind = fields.byte();
        let answered = match kind {
            Some(REQUEST_IDENTITIES) if fields.is_empty() => Ok(Answer::Told(self.identities())),
            Some(SIGN_REQUEST) => self.sign(fields).map(Answer::Signed),
            Some(EXTENSION) => self.extend(fields).map(|()| Answer::Told(vec![SUCCESS])),
            // Nothing is added, removed, locked or unlocked by whoever is inside.
            Some(_) => Err(Denial::NotOffered),
            None => Err(Denial::BadRequest),
        };
        let no = if kind == Some(EXTENSION) { EXTENSION_FAILURE } else { FAILURE };
        answered.unwrap_or_else(|denial| Answer::Refused(vec![no], denial))
    }

    /// The one key, which is public, and nothing about whose it is.
    fn identities(&self) -> Vec<u8> {
        let one = 1_u32.to_be_bytes();
        [&[IDENTITIES_ANSWER][..], &one, &string(self.key.blob()), &string(b"")].concat()
    }

    fn extend(&mut self, mut fields: Fields<'_>) -> Result<(), Denial> {
        let name = fields.string().ok_or(Denial::BadRequest)?;
        if name != SESSION_BIND {
            return Err(Denial::NotOffered);
        }
        let session = self.bind(fields)?;
        self.session = Some(session);
        Ok(())
    }

    /// ATTACK(ssh-signer-session): the host itself has to have signed the session, with a key that is known for it. What a
    /// program inside says about whom it talks to counts for nothing.
    fn bind(&self, mut fields: Fields<'_>) -> Result<Session, Denial> {
        let mut read = || Some((fields.string()?, fields.string()?, fields.string()?, fields.byte()?));
        let (host_key, id, signature, is_forwarded) = read().ok_or(Denial::BadRequest)?;
        if !fields.is_empty() || id.is_empty() || id.len() > MAX_SESSION {
            return Err(Denial::BadRequest);
        }
        // One connection, one session.
        if self.session.is_some() {
            return Err(Denial::OtherSession);
        }
        if is_forwarded != 0 {
            return Err(Denial::ForwardedSession);
        }
        let session = Session { id: id.to_vec(), host_key: host_key.to_vec() };
        if !self.guards.stands(Guard::Sessions) {
            return Ok(session);
        }
        let known = self.known.iter().find(|known| known.blob() == host_key).ok_or(Denial::OtherHostKey)?;
        if !known.has_signed(id, signature) {
            return Err(Denial::UnprovenSession);
        }
        Ok(session)
    }

    fn sign(&self, mut fields: Fields<'_>) -> Result<Vec<u8>, Denial> {
        let mut read = || Some((fields.string()?, fields.string()?, fields.number()?));
        let (key, data, flags) = read().ok_or(Denial::BadRequest)?;
        if !fields.is_empty() {
            return Err(Denial::BadRequest);
        }
        let session = self.session.as_ref().ok_or(Denial::NoSession)?;
        let scheme = self.key.scheme(flags).filter(|_| key == self.key.blob()).ok_or(Denial::NotALogin)?;
        self.check_login(session, data, scheme)?;
        let signature = self.key.sign(data, scheme).ok_or(Denial::UnfitKey)?;
        Ok([&[SIGN_RESPONSE][..], &string(&signature)].concat())
    }

    /// INVARIANT(signed-for-one-host): what is signed can be used in this session, and for nothing but logging in.
    fn check_login(&self, session: &Session, data: &[u8], scheme: Scheme) -> Result<(), Denial> {
        let login = UserAuth::read(data).ok_or(Denial::NotALogin)?;
        if login.session != session.id {
            return Err(Denial::OtherSession);
        }
        let is_ours = login.service == b"ssh-connection"
            && login.scheme == scheme.name().as_bytes()
            && login.key == self.key.blob();
        if !is_ours {
            return Err(Denial::NotALogin);
        }
        if login.host_key.is_some_and(|host_key| host_key != session.host_key) {
            return Err(Denial::OtherHostKey);
        }
        match self.user {
            Some(user) if login.user != user.as_bytes() => Err(Denial::OtherUser),
            _ => Ok(()),
        }
    }
}

/// A request to log in with a key, as it is signed (RFC 4252, and OpenSSH's way of naming the host in it).
struct UserAuth<'a> {
    session: &'a [u8],
    user: &'a [u8],
    service: &'a [u8],
    scheme: &'a [u8],
    key: &'a [u8],
    host_key: Option<&'a [u8]>,
}

impl<'a> UserAuth<'a> {
    fn read(data: &'a [u8]) -> Option<UserAuth<'a>> {
        let mut fields = Fields::of(data);
        let session = fields.string()?;
        if fields.byte()? != USERAUTH_REQUEST {
            return None;
        }
        let (user, service, method) = (fields.string()?, fields.string()?, fields.string()?);
        // That a signature comes with it.
        if fields.byte()? != 1 {
            return None;
        }
        let (scheme, key) = (fields.string()?, fields.string()?);
        let host_key = match method {
            b"publickey" => None,
            b"publickey-hostbound-v00@openssh.com" => Some(fields.string()?),
            _ => return None,
        };
        fields.is_empty().then_some(UserAuth { session, user, service, scheme, key, host_key })
    }
}
