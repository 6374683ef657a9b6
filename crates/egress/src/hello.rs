//! Reads a TLS ClientHello as far as the gate needs: which server is asked for, and whether that is hidden.
//!
//! Strict, and pure: bytes in, a [`Hello`] or a fault out. Knows no cryptography; what it cannot read to the last byte it
//! refuses, so that no server behind it can read something else.
//!
//! # Invariants
//! - A hello counts only when it is whole, however it is cut into records and segments.
//! - No extension twice, one server name at most.

/// What a client asks of a server in its first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The server name indication, as sent.
    pub(crate) server_name: Option<String>,
    /// Whether another hello may be hidden in this one.
    pub(crate) hides: Hides,
}

/// Whether a hello carries an encrypted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hides {
    /// No.
    Nothing,
    /// Yes, or what looks like one.
    AnotherHello,
}

/// How far the bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Not whole yet.
    More,
    /// All of it.
    Whole(Hello),
}

/// The bytes are no ClientHello that the gate can vouch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHello {
    /// A record of another kind, or of a length that none may have.
    #[error("a record that belongs to no ClientHello")]
    Record,
    /// Longer than any client's.
    #[error("a ClientHello of more than {MAX_HELLO} bytes")]
    TooLong,
    /// Lengths that do not add up.
    #[error("a ClientHello whose lengths do not add up")]
    Lengths,
    /// Twice the same extension.
    #[error("a ClientHello that has an extension twice")]
    Twice,
    /// A server name that is no single name of a host.
    #[error("a server name that names no host")]
    ServerName,
}

/// Post-quantum key shares make some 2 kB; nobody needs more than this.
pub(crate) const MAX_HELLO: usize = 16 * 1024;

const RECORD_HEADER: usize = 5;
const MAX_RECORD: usize = 1 << 14;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HOST_NAME: u8 = 0;
const SERVER_NAME: u16 = 0;
/// `encrypted_client_hello`, and the draft before it.
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// Whether the first byte can begin TLS.
pub(crate) fn begins_tls(first: u8) -> bool {
    first == HANDSHAKE
}

/// Reads what a client sent so far.
pub(crate) fn hear(sent: &[u8]) -> Result<Heard, BadHello> {
    let message = match join_records(sent)? {
        Some(message) => message,
        None => return Ok(Heard::More),
    };
    read_hello(&message).map(Heard::Whole)
}

/// The handshake message out of its records, once it is whole.
fn join_records(sent: &[u8]) -> Result<Option<Vec<u8>>, BadHello> {
    let mut rest = Reader(sent);
    let mut message = Vec::new();
    loop {
        // Every byte is looked at as soon as it is there: what is no TLS shall not be waited for.
        let Some(&kind) = rest.0.first() else { return Ok(None) };
        if kind != HANDSHAKE {
            return Err(BadHello::Record);
        }
        if rest.0.get(1).is_some_and(|major| *major != 3) {
            return Err(BadHello::Record);
        }
        let Some(header) = rest.0.get(..RECORD_HEADER) else { return Ok(None) };
        rest = Reader(rest.0.get(RECORD_HEADER..).unwrap_or_default());
        let &[_, _, _, high, low] = header else { return Err(BadHello::Record) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length == 0 || length > MAX_RECORD {
            return Err(BadHello::Record);
        }
        let part = rest.0.get(..length.min(rest.0.len())).unwrap_or_default();
        message.extend_from_slice(part);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(BadHello::Record);
        }
        if let Some(&[_, a, b, c]) = message.get(..4) {
            let whole = 4 + usize::from_be_bytes([0, 0, 0, 0, 0, a, b, c]);
            if whole > MAX_HELLO {
                return Err(BadHello::TooLong);
            }
            if message.len() >= whole {
                // A hello ends its record: what follows it there would be read by the server only.
                let is_last = part.len() == length && message.len() == whole;
                return if is_last { Ok(Some(message)) } else { Err(BadHello::Lengths) };
            }
        }
        if part.len() < length {
            return Ok(None);
        }
        rest = Reader(rest.0.get(length..).unwrap_or_default());
    }
}

fn read_hello(message: &[u8]) -> Result<Hello, BadHello> {
    let mut body = Reader(message);
    body.take(4)?;
    body.take(2)?; // version
    body.take(32)?; // random
    let session = usize::from(body.byte()?);
    if session > 32 {
        return Err(BadHello::Lengths);
    }
    body.take(session)?;
    let suites = body.length()?;
    if suites < 2 || suites % 2 != 0 {
        return Err(BadHello::Lengths);
    }
    body.take(suites)?;
    let compressions = usize::from(body.byte()?);
    if compressions == 0 {
        return Err(BadHello::Lengths);
    }
    body.take(compressions)?;
    let mut hello = Hello { server_name: None, hides: Hides::Nothing };
    if body.is_empty() {
        return Ok(hello);
    }
    let length = body.length()?;
    let mut extensions = Reader(body.take(length)?);
    if !body.is_empty() {
        return Err(BadHello::Lengths);
    }
    let mut seen = Vec::new();
    while !extensions.is_empty() {
        let kind = extensions.number()?;
        let length = extensions.length()?;
        let content = extensions.take(length)?;
        if seen.contains(&kind) {
            return Err(BadHello::Twice);
        }
        seen.push(kind);
        if kind == SERVER_NAME {
            hello.server_name = Some(read_server_name(content)?);
        } else if ENCRYPTED.contains(&kind) {
            hello.hides = Hides::AnotherHello;
        }
    }
    Ok(hello)
}

fn read_server_name(content: &[u8]) -> Result<String, BadHello> {
    let mut list = Reader(content);
    let length = list.length()?;
    let mut names = Reader(list.take(length)?);
    if !list.is_empty() || names.byte()? != HOST_NAME {
        return Err(BadHello::ServerName);
    }
    let length = names.length()?;
    let name = names.take(length)?;
    // Bytes that a C string ends at, or that no host name has, are no name.
    let is_plain = name.iter().all(|byte| byte.is_ascii_graphic());
    if !names.is_empty() || name.is_empty() || !is_plain {
        return Err(BadHello::ServerName);
    }
    String::from_utf8(name.to_vec()).map_err(|_not_text| BadHello::ServerName)
}

/// Takes bytes from the front; too few are a fault.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BadHello> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(BadHello::Lengths)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, BadHello> {
        match self.take(1)? {
            &[byte] => Ok(byte),
            _ => Err(BadHello::Lengths),
        }
    }

    fn number(&mut self) -> Result<u16, BadHello> {
        match self.take(2)? {
            &[high, low] => Ok(u16::from_be_bytes([high, low])),
            _ => Err(BadHello::Lengths),
        }
    }

    fn length(&mut self) -> Result<usize, BadHello> {
        self.number().map(usize::from)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        bytes.extend(content);
        bytes
    }

    fn names(name: &[u8]) -> Vec<u8> {
        let length = u16::try_from(name.len()).unwrap();
        let mut bytes = (length + 3).to_be_bytes().to_vec();
        bytes.push(HOST_NAME);
        bytes.extend(length.to_be_bytes());
        bytes.extend(name);
        bytes
    }

    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let extensions = extensions.concat();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0x13, 0x01, 1, 0]);
        body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend(extensions);
        let mut bytes = vec![CLIENT_HELLO, 0];
        bytes.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let mut bytes = vec![HANDSHAKE, 3, 1];
            bytes.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
            bytes.extend(part);
            bytes
        };
        message.chunks(size).flat_map(record).collect()
    }

    fn named(name: &str) -> Heard {
        Heard::Whole(Hello { server_name: Some(name.into()), hides: Hides::Nothing })
    }

    proptest! {
        #[test]
        fn however_it_is_cut_a_hello_says_the_same(size in 1_usize..400, cut in 0_usize..200) {
            let sent = records(&message(&[extension(SERVER_NAME, &names(b"a.test"))]), size);
            prop_assert_eq!(hear(&sent), Ok(named("a.test")));
            let cut = cut.min(sent.len() - 1);
            prop_assert_eq!(hear(&sent[..cut]), Ok(Heard::More));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = hear(&bytes);
            let mut sent = records(&message(&[extension(SERVER_NAME, &names(b"a.test"))]), 60);
            for (at, byte) in bytes.iter().enumerate().take(3) {
                let place = (usize::from(*byte) * 7 + at) % sent.len();
                sent[place] ^= byte | 1;
            }
            let _ = hear(&sent);
        }
    }

    #[test]
    fn a_hello_without_a_name_has_none() {
        let hello = Hello { server_name: None, hides: Hides::Nothing };
        assert_eq!(hear(&records(&message(&[]), 100)), Ok(Heard::Whole(hello)));
    }

    #[test]
    fn a_hidden_hello_is_seen() {
        for kind in ENCRYPTED {
            let sent =
                records(&message(&[extension(SERVER_NAME, &names(b"a.test")), extension(kind, &[1])]), 900);
            let Ok(Heard::Whole(hello)) = hear(&sent) else { panic!("no hello") };
            assert_eq!(hello.hides, Hides::AnotherHello);
        }
    }

    #[test]
    fn two_names_a_nul_or_bytes_after_the_hello_are_refused() {
        let name = extension(SERVER_NAME, &names(b"a.test"));
        assert_eq!(hear(&records(&message(&[name.clone(), name.clone()]), 900)), Err(BadHello::Twice));
        let mut two = names(b"a.test");
        two.extend_from_slice(&names(b"b.test")[2..]);
        let length = u16::try_from(two.len() - 2).unwrap().to_be_bytes();
        two[..2].copy_from_slice(&length);
        assert_eq!(hear(&records(&message(&[extension(SERVER_NAME, &two)]), 900)), Err(BadHello::ServerName));
        for bad in [&b"a.test\0.b.test"[..], b"", b"a test", b"\xc3\xa4.test"] {
            let sent = records(&message(&[extension(SERVER_NAME, &names(bad))]), 900);
            assert_eq!(hear(&sent), Err(BadHello::ServerName), "{bad:?}");
        }
        let mut longer = message(&[name]);
        longer.push(0);
        assert_eq!(hear(&records(&longer, 900)), Err(BadHello::Lengths));
    }

    #[test]
    fn what_is_no_hello_is_known_by_its_first_bytes() {
        assert_eq!(hear(b"GET / HTTP/1.1"), Err(BadHello::Record));
        assert_eq!(hear(&[HANDSHAKE, 2]), Err(BadHello::Record));
        assert_eq!(hear(&[HANDSHAKE, 3, 1, 0, 0]), Err(BadHello::Record));
        assert_eq!(hear(&[HANDSHAKE, 3, 1, 0xff, 0xff]), Err(BadHello::Record));
        assert_eq!(hear(&[HANDSHAKE, 3, 1, 0, 1, 2]), Err(BadHello::Record));
        assert_eq!(hear(&[HANDSHAKE, 3, 1, 0, 9, 1, 0xff, 0xff, 0xff]), Err(BadHello::TooLong));
    }
}
