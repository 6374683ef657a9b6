//! What a grant's network was used for: every attempt, every refusal, and the bytes.
//!
//! Knows no socket. The host of an event may be whatever the sandbox said; it is kept short and printable here.
//!
//! # Invariants
//! - An attempt is one event; the same again counts it up. At most [`MAX_EVENTS`] are kept, and the rest are counted;
//!   refusals leave room for what went through.
//! - Bytes are counted per granted host, as they cross the gate's own socket to it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use contract::Special;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::hello::BadHello;
use crate::pipe::LARGE_BUFFERS_OF_ONE;

/// So many different events of one grant are kept.
const MAX_EVENTS: usize = 1000;

/// Beyond so many, refusals are only counted, and of each no more is kept than this: they can be made up without end, and are
/// no way to write on the record, nor to crowd out what went through.
const MAX_REFUSALS: usize = 64;
const LONGEST_REFUSED: usize = 80;

/// What a grant's network was used for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes sent to and received from each host.
    pub bytes_per_host: BTreeMap<String, Bytes>,
    /// What was tried, in the order of the first time.
    pub events: Vec<Event>,
    /// Further events that were not kept.
    pub more: u64,
}

/// Bytes that went to a host and came from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// To the host.
    pub sent: u64,
    /// From the host.
    pub received: u64,
}

/// One attempt to reach something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in milliseconds since 1970; the first time, if it happened again.
    pub at: i64,
    /// The host that was asked for: a name, an address, or what was sent in place of one.
    pub host: String,
    /// The port; 0 where none was named, as in a question to the DNS.
    pub port: u16,
    /// By which way.
    pub way: Way,
    /// What came of it.
    pub outcome: Outcome,
    /// How often.
    pub times: u64,
}

impl Event {
    /// Whom it was meant for, so that it can be told from every other: what is no host is quoted.
    pub fn place(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let host = match &self.host {
            host if !host.is_empty() && host.bytes().all(is_plain) => host.clone(),
            host if host.parse::<Ipv6Addr>().is_ok() => format!("[{host}]"),
            odd => format!("{odd:?}"),
        };
        if self.port == 0 { host } else { format!("{host}:{}", self.port) }
    }
}

/// The way an attempt took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A question to the DNS.
    Dns,
    /// A connection.
    Tcp,
    /// A connection that speaks TLS.
    Tls,
    /// A request of HTTP.
    Http,
    /// The CONNECT method of the HTTP door.
    Connect,
    /// The SOCKS door.
    Socks,
    /// The ssh agent that the gate is.
    Signer,
}

impl Way {
    /// A word for it that stays the same.
    pub fn as_str(self) -> &'static str {
        match self {
            Way::Dns => "dns",
            Way::Tcp => "tcp",
            Way::Tls => "tls",
            Way::Http => "http",
            Way::Connect => "connect",
            Way::Socks => "socks",
            Way::Signer => "signer",
        }
    }
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was let through.
    Allow,
    /// It was not.
    Deny(Denial),
}

/// Why something was not let through. The text is for the tool: it says no more than the tool could know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Denial {
    /// The name is in no grant of the call.
    #[error("this call may not reach that host")]
    HostNotGranted,
    /// The host is granted, this port of it is not.
    #[error("this call may not reach that port of the host")]
    PortNotGranted,
    /// The address was never given for a name of this call, and is not granted itself.
    #[error("this call may not reach that address")]
    AddressNotGranted,
    /// No name of a host, or no address.
    #[error("what was asked for is no host")]
    BadName,
    /// A name under a pattern that is too long or too deep.
    #[error("the part of the name under the granted pattern is too long")]
    NameTooLong,
    /// Too many different names under patterns.
    #[error("this call has used as many names under granted patterns as it may")]
    TooManyNames,
    /// The host has no address.
    #[error("the host has no address")]
    NotFound,
    /// One of the host's addresses is blocked.
    #[error("the host leads to an address that no call may reach")]
    Blocked,
    /// One of the host's addresses is special and not listed.
    #[error("the host is {}, which has to be granted by its range", .kind.describe())]
    SpecialAddress {
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: Special,
    },
    /// The name itself is special and not listed.
    #[error("the host is {} by its name, which has to be granted by itself", .kind.describe())]
    SpecialName {
        /// What it is.
        kind: Special,
    },
    /// Nothing listens there, or nothing answers.
    #[error("the host cannot be reached")]
    Unreachable,
    /// The host's certificate does not prove its name.
    #[error("the host cannot prove its name: its certificate is not trusted")]
    Untrusted,
    /// The port demands TLS.
    #[error("this port is for TLS only")]
    NotTls,
    /// The grant demands HTTP.
    #[error("only HTTP is allowed here")]
    NotHttp,
    /// A ClientHello that cannot be read.
    #[error("the TLS ClientHello cannot be read: {0}")]
    BadHello(#[serde(serialize_with = "display")] BadHello),
    /// No server name indication.
    #[error("the TLS ClientHello names no server")]
    NoServerName,
    /// The server name is not the one that was connected to.
    #[error("the TLS ClientHello names another server than the one connected to")]
    OtherServerName,
    /// An encrypted ClientHello.
    #[error("the TLS ClientHello hides the server's name (ECH)")]
    HiddenServerName,
    /// The client did not come to the end of a handshake with the gate.
    #[error(
        "the TLS handshake with the gate was not finished; the program may not trust the gate's certificate"
    )]
    BrokenHandshake,
    /// A request without a Host, or with two.
    #[error("the request does not name its host once")]
    NoHost,
    /// A request for another host than the one connected to.
    #[error("the request is for another host than the one connected to")]
    OtherHost,
    /// The grant only reads.
    #[error("this call may only read: GET and HEAD")]
    Method,
    /// A header that asks for another method than the request has.
    #[error("this call may only read, and the request asks to be taken for another method")]
    MethodOverride,
    /// A change of protocol on a connection that is checked request by request.
    #[error("the protocol cannot be changed on this connection")]
    Upgrade,
    /// CONNECT where no proxy is.
    #[error("CONNECT is only for the proxy")]
    ConnectNotHere,
    /// Bytes that are no request.
    #[error("the request cannot be read")]
    BadRequest,
    /// Not CONNECT, a kind of address that SOCKS has and the gate has not, or what agents of ssh do besides signing.
    #[error("that is not offered here")]
    NotOffered,
    /// A credential is configured for the host, and could not be had.
    #[error("the credential for the host could not be had")]
    NoCredential,
    /// TRACE to a host that gets a credential: the answer would show it.
    #[error("TRACE is not for a host that gets a credential")]
    ShowsCredential,
    /// A body that has to be looked at, and is too long for that.
    #[error("the request's body is too long to put a credential into it")]
    BodyTooLong,
    /// The key for the host is encrypted.
    #[error("the key for the host is encrypted, and the gate has no passphrase for it")]
    EncryptedKey,
    /// The key for the host is none that the gate can sign with.
    #[error("the key for the host is none that the gate can sign with")]
    UnfitKey,
    /// A signature was asked for before the signer was told for which session.
    #[error(
        "a signature is only for a session with the host, and none was named (it takes OpenSSH 8.9 or newer)"
    )]
    NoSession,
    /// The session is with a host whose key is not among those that are known for the granted one.
    #[error("the session is with a host that has another key than the one that is known")]
    OtherHostKey,
    /// The host has not signed the session.
    #[error("the host has not signed the session that was named")]
    UnprovenSession,
    /// The session was passed on.
    #[error("the session is one that is passed on to another host")]
    ForwardedSession,
    /// A signature for another session than the one that was named.
    #[error("the signature is for another session than the one that was named")]
    OtherSession,
    /// A request to log in as somebody else.
    #[error("the signature is for another user than the one of the call")]
    OtherUser,
    /// What is to be signed is no request to log in with the key.
    #[error("only a request to log in is signed, and with the key for the host")]
    NotALogin,
    /// More messages than anybody needs.
    #[error("more was asked than logging in takes")]
    TooManyRequests,
    /// As many connections at once as the grant has.
    #[error("this call has as many connections open as it may")]
    TooManyConnections,
    /// As many bytes as the grant has.
    #[error("this call has moved as many bytes as it may")]
    TooManyBytes,
    /// Nothing moved for too long.
    #[error("nothing moved on the connection for too long")]
    Idle,
    /// The client did not say what it wants in time.
    #[error("the client was too slow to say what it wants")]
    TooSlow,
}

impl Denial {
    /// Whether it is about whom was asked for, and not about how, or about what became of it.
    pub fn is_about_the_place(&self) -> bool {
        matches!(
            self,
            Denial::HostNotGranted
                | Denial::PortNotGranted
                | Denial::AddressNotGranted
                | Denial::BadName
                | Denial::NameTooLong
                | Denial::TooManyNames
                | Denial::Blocked
                | Denial::SpecialAddress { .. }
                | Denial::SpecialName { .. }
                | Denial::NoServerName
                | Denial::OtherServerName
                | Denial::HiddenServerName
                | Denial::OtherHost
        )
    }

    /// A word for it that stays the same.
    pub fn code(&self) -> &'static str {
        match self {
            Denial::HostNotGranted => "host_not_granted",
            Denial::PortNotGranted => "port_not_granted",
            Denial::AddressNotGranted => "address_not_granted",
            Denial::BadName => "bad_name",
            Denial::NameTooLong => "name_too_long",
            Denial::TooManyNames => "too_many_names",
            Denial::NotFound => "not_found",
            Denial::Blocked => "blocked",
            Denial::SpecialAddress { .. } => "special_address",
            Denial::SpecialName { .. } => "special_name",
            Denial::Unreachable => "unreachable",
            Denial::Untrusted => "untrusted",
            Denial::NotTls => "not_tls",
            Denial::NotHttp => "not_http",
            Denial::BadHello(_) => "bad_hello",
            Denial::NoServerName => "no_server_name",
            Denial::OtherServerName => "other_server_name",
            Denial::HiddenServerName => "hidden_server_name",
            Denial::BrokenHandshake => "broken_handshake",
            Denial::NoHost => "no_host",
            Denial::OtherHost => "other_host",
            Denial::Method => "method",
            Denial::MethodOverride => "method_override",
            Denial::Upgrade => "upgrade",
            Denial::ConnectNotHere => "connect_not_here",
            Denial::BadRequest => "bad_request",
            Denial::NotOffered => "not_offered",
            Denial::NoCredential => "no_credential",
            Denial::ShowsCredential => "shows_credential",
            Denial::BodyTooLong => "body_too_long",
            Denial::EncryptedKey => "encrypted_key",
            Denial::UnfitKey => "unfit_key",
            Denial::NoSession => "no_session",
            Denial::OtherHostKey => "other_host_key",
            Denial::UnprovenSession => "unproven_session",
            Denial::ForwardedSession => "forwarded_session",
            Denial::OtherSession => "other_session",
            Denial::OtherUser => "other_user",
            Denial::NotALogin => "not_a_login",
            Denial::TooManyRequests => "too_many_requests",
            Denial::TooManyConnections => "too_many_connections",
            Denial::TooManyBytes => "too_many_bytes",
            Denial::Idle => "idle",
            Denial::TooSlow => "too_slow",
        }
    }
}

fn display<S: serde::Serializer>(what: &BadHello, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(what)
}

/// Takes down what a grant's network is used for.
#[derive(Debug)]
pub(crate) struct Record {
    clock: fn() -> i64,
    kept: Mutex<Kept>,
    meters: Mutex<BTreeMap<String, Arc<Meter>>>,
    moved: Arc<AtomicU64>,
    most: u64,
    /// Its share of large buffers.
    large: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Kept {
    events: Vec<Event>,
    /// How many of them are refusals.
    refusals: usize,
    more: u64,
}

impl Kept {
    fn has_room(&self, is_refused: bool) -> bool {
        let has_room = self.events.len() < MAX_EVENTS;
        has_room && (!is_refused || self.refusals < MAX_REFUSALS)
    }
}

impl Record {
    pub(crate) fn new(clock: fn() -> i64, most_bytes: u64) -> Record {
        Record {
            clock,
            kept: Mutex::default(),
            meters: Mutex::default(),
            moved: Arc::default(),
            most: most_bytes,
            large: Arc::new(Semaphore::new(LARGE_BUFFERS_OF_ONE)),
        }
    }

    pub(crate) fn note(&self, host: &str, port: u16, way: Way, outcome: Outcome) {
        let is_refused = outcome != Outcome::Allow;
        let host = if is_refused { shortened(printable(host)) } else { printable(host) };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |event: &&mut Event| {
            event.port == port && event.way == way && event.outcome == outcome && event.host == host
        };
        if let Some(event) = kept.events.iter_mut().rev().find(same) {
            event.times = event.times.saturating_add(1);
        } else if kept.has_room(is_refused) {
            kept.refusals += usize::from(is_refused);
            kept.events.push(Event { at: (self.clock)(), host, port, way, outcome, times: 1 });
        } else {
            kept.more = kept.more.saturating_add(1);
        }
    }

    /// The meter of one host; the same for every connection to it.
    pub(crate) fn meter(&self, host: &str) -> Arc<Meter> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || {
            let moved = Arc::clone(&self.moved);
            let (sent, received, large) = (AtomicU64::new(0), AtomicU64::new(0), Arc::clone(&self.large));
            Arc::new(Meter { sent, received, moved, most: self.most, large })
        };
        Arc::clone(meters.entry(host.to_owned()).or_insert_with(fresh))
    }

    pub(crate) fn usage(&self) -> Usage {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(host, meter): (&String, &Arc<Meter>)| (host.clone(), meter.read());
        Usage {
            bytes_per_host: meters.iter().map(read).collect(),
            events: kept.events.clone(),
            more: kept.more,
        }
    }
}

/// Counts the bytes of one host, against what the grant may move in all.
#[derive(Debug)]
pub(crate) struct Meter {
    sent: AtomicU64,
    received: AtomicU64,
    moved: Arc<AtomicU64>,
    most: u64,
    /// The share of the grant.
    large: Arc<Semaphore>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Out,
    In,
}

impl Meter {
    /// A large buffer, if the grant may have one more.
    pub(crate) fn large_buffer(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large).try_acquire_owned().ok()
    }

    /// How many bytes the grant may still move.
    pub(crate) fn left(&self) -> u64 {
        self.most.saturating_sub(self.moved.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, direction: Direction, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let counter = if direction == Direction::Out { &self.sent } else { &self.received };
        counter.fetch_add(bytes, Ordering::Relaxed);
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Bytes {
        Bytes { sent: self.sent.load(Ordering::Relaxed), received: self.received.load(Ordering::Relaxed) }
    }
}

fn shortened(host: String) -> String {
    match host.char_indices().nth(LONGEST_REFUSED) {
        Some((end, _)) => format!("{}…", host.get(..end).unwrap_or_default()),
        None => host,
    }
}

/// At most 255 characters, and none that a terminal or a log would act on.
fn printable(host: &str) -> String {
    host.chars().take(255).map(|c| if c.is_ascii_graphic() { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_from_every_other() {
        let place = |host: &str, port| {
            let (way, outcome) = (Way::Dns, Outcome::Allow);
            Event { at: 0, host: host.to_owned(), port, way, outcome, times: 1 }.place()
        };
        assert_eq!(place("a.test", 443), "a.test:443");
        assert_eq!(place("a.test", 0), "a.test");
        assert_eq!(place("", 0), r#""""#);
        assert_eq!(place("2001:db8::1", 443), "[2001:db8::1]:443");
        assert_eq!(place("a.test:443", 0), r#""a.test:443""#);
        assert_eq!(place("a\n`b", 80), r#""a\n`b":80"#);
    }

    #[test]
    fn the_same_again_is_counted_and_the_number_of_events_is_bounded() {
        let record = Record::new(|| 7, 100);
        for _ in 0..3 {
            record.note("a.test", 443, Way::Tcp, Outcome::Allow);
        }
        for other in 0..MAX_EVENTS {
            record.note(&format!("{other}.test"), 0, Way::Dns, Outcome::Deny(Denial::HostNotGranted));
        }
        record.note("b.test", 443, Way::Tcp, Outcome::Allow);
        let usage = record.usage();
        assert_eq!((usage.events.len(), usage.more), (MAX_REFUSALS + 2, 936));
        assert_eq!(usage.events.last().map(|event| event.host.as_str()), Some("b.test"));
        assert_eq!((usage.events[0].times, usage.events[0].at), (3, 7));
    }

    #[test]
    fn what_a_sandbox_called_a_host_is_kept_printable() {
        let record = Record::new(|| 0, 0);
        record.note("a\u{1b}[2Jb\n", 0, Way::Socks, Outcome::Deny(Denial::BadName));
        assert_eq!(record.usage().events[0].host, "a\u{fffd}[2Jb\u{fffd}");
    }

    #[test]
    fn the_meters_of_all_hosts_share_what_is_left() {
        let record = Record::new(|| 0, 100);
        record.meter("a.test").count(Direction::Out, 60);
        record.meter("b.test").count(Direction::In, 30);
        assert_eq!(record.meter("a.test").left(), 10);
        let bytes = record.usage().bytes_per_host;
        assert_eq!(bytes["a.test"], Bytes { sent: 60, received: 0 });
        assert_eq!(bytes["b.test"], Bytes { sent: 0, received: 30 });
    }
}
