//! A host, as it stands in a URL, a command or a grant: a name or an address, in one spelling.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::number;
use super::special::{Special, special_name, special_purpose};
use crate::scan::{is_hidden, is_odd_blank, show_hidden};

/// A name or an address, in its one spelling: small letters, A-labels, no dot at the end, plain numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Name(String),
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostError {
    /// Nothing was given.
    #[error("a host is empty")]
    Empty,
    /// It holds what no host holds.
    #[error("a host may not hold `{}`", show_hidden(.found.encode_utf8(&mut [0; 4])))]
    Character {
        /// The first such character.
        found: char,
    },
    /// It is an address in another than the plain spelling.
    #[error("`{text}` is another spelling of the address {address}; write that, if it is meant")]
    OddAddress {
        /// What was given.
        text: String,
        /// What resolvers would make of it.
        address: Ipv4Addr,
    },
    /// It ends in a number, as only addresses do.
    #[error("`{text}` ends in a number, and is no address")]
    Number {
        /// What was given.
        text: String,
    },
    /// There is something else than an IPv6 address in brackets.
    #[error("`{text}` is no IPv6 address")]
    NoAddress {
        /// What was given.
        text: String,
    },
    /// A label is empty or too long, or the whole is.
    #[error("`{text}` is no name: a label has 1 to 63 characters, a name at most 253")]
    Length {
        /// What was given.
        text: String,
    },
    /// It breaks the rules of names, also of international ones (UTS 46).
    #[error("`{text}` is no name: labels are letters, digits and inner hyphens, by the rules of UTS 46")]
    Label {
        /// What was given.
        text: String,
    },
}

/// What ASCII a name may hold, besides letters, digits, dots and hyphens: an underscore, which is looked at after.
const PERMITTED: AsciiDenyList = AsciiDenyList::new(true, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~");

/// The longest text that is looked at. No longer one can be a name.
pub(super) const LONGEST: usize = 1024;

impl Host {
    /// Reads a host. Nothing is trimmed; there is neither a port nor a zone.
    pub fn parse(text: &str) -> Result<Host, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > LONGEST {
            return Err(HostError::Length { text: text.chars().take(64).chain(['…']).collect() });
        }
        if let Some(address) = plain_address(text)? {
            return Ok(Host::from(address));
        }
        // What one reader ends a host at, and another reads over.
        let is_foreign =
            |c: char| c.is_whitespace() || is_hidden(c) || is_odd_blank(c) || STRANGERS.contains(&c);
        if let Some(found) = text.chars().find(|character| is_foreign(*character)) {
            return Err(HostError::Character { found });
        }
        let name = canonical_name(text)?;
        // INVARIANT(names-are-no-numbers): also after full-width digits and ideographic dots have become plain ones.
        if number::ends_in_a_number(&name) {
            let text = text.to_owned();
            return Err(match number::meant(&name) {
                Some(address) => HostError::OddAddress { text, address },
                None => HostError::Number { text },
            });
        }
        Ok(Host(Kind::Name(name)))
    }

    /// The name, if it is one.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Name(name) => Some(name),
            Kind::Address(_) => None,
        }
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.0 {
            Kind::Name(_) => None,
            Kind::Address(address) => Some(*address),
        }
    }

    /// Why it is not on the outside, as far as the text itself says so.
    pub fn special(&self) -> Option<Special> {
        match &self.0 {
            Kind::Name(name) => special_name(name),
            Kind::Address(address) => special_purpose(*address),
        }
    }

    /// As it stands before a port: an IPv6 address in brackets.
    pub(super) fn before_port(&self) -> String {
        match &self.0 {
            Kind::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.to_string(),
        }
    }
}

/// Characters that separate a host from something else, or escape it.
const STRANGERS: [char; 9] = ['@', '/', '?', '#', '\\', ':', '[', ']', '*'];

fn plain_address(text: &str) -> Result<Option<IpAddr>, HostError> {
    // A zone makes an address mean something else on every machine.
    if let Some(found) = text.chars().find(|character| *character == '%') {
        return Err(HostError::Character { found });
    }
    let Some(inner) = text.strip_prefix('[') else { return Ok(text.parse().ok()) };
    let address = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
    address
        .map(|address| Some(IpAddr::V6(address)))
        .ok_or_else(|| HostError::NoAddress { text: show_hidden(text) })
}

fn canonical_name(text: &str) -> Result<String, HostError> {
    let label = || HostError::Label { text: text.to_owned() };
    let name = Uts46::new()
        .to_ascii(text.as_bytes(), PERMITTED, Hyphens::Check, DnsLength::Ignore)
        .map_err(|_| label())?;
    let name = name.strip_suffix('.').unwrap_or(&name);
    if !idna::uts46::verify_dns_length(name, false) {
        return Err(HostError::Length { text: text.to_owned() });
    }
    // Service names begin with an underscore (`_acme-challenge`); no other place in a label is for one.
    let is_label = |part: &str| !part.strip_prefix('_').unwrap_or(part).is_empty();
    let has_inner = |part: &str| part.strip_prefix('_').unwrap_or(part).contains('_');
    match name.split('.').all(|part| is_label(part) && !has_inner(part)) {
        true => Ok(name.to_owned()),
        false => Err(label()),
    }
}

impl From<IpAddr> for Host {
    /// An IPv4 address that is written as an IPv6 one is that IPv4 address.
    fn from(address: IpAddr) -> Host {
        Host(Kind::Address(address.to_canonical()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Name(name) => f.write_str(name),
            Kind::Address(address) => address.fmt(f),
        }
    }
}

impl TryFrom<String> for Host {
    type Error = HostError;
    fn try_from(text: String) -> Result<Host, HostError> {
        Host::parse(&text)
    }
}

impl From<Host> for String {
    fn from(host: Host) -> String {
        host.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        Host::parse(text).map_or_else(|error| format!("refused: {error}"), |host| host.to_string())
    }

    #[test]
    fn one_host_has_one_spelling() {
        let spellings = [
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("example。com", "example.com"),
            ("ｅxample.com", "example.com"),
            ("MÜNCHEN.de", "xn--mnchen-3ya.de"),
            ("mu\u{308}nchen.de", "xn--mnchen-3ya.de"),
            ("XN--MNCHEN-3YA.de", "xn--mnchen-3ya.de"),
            ("_acme-challenge.example.com", "_acme-challenge.example.com"),
            ("10.example.com", "10.example.com"),
            ("dead.beef", "dead.beef"),
            ("1.1.1.1", "1.1.1.1"),
            ("[2606:4700::1111]", "2606:4700::1111"),
            ("2606:4700:0:0::1111", "2606:4700::1111"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("[::FFFF:A9FE:A9FE]", "169.254.169.254"),
        ];
        for (text, host) in spellings {
            assert_eq!(read(text), host, "{text}");
        }
    }

    #[test]
    fn an_address_in_an_odd_spelling_is_refused_with_the_address_that_it_is() {
        let spellings = [
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0X7F000001", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("１２７.0.0.1", "127.0.0.1"),
            ("169。254。169。254", "169.254.169.254"),
            ("0xa9fea9fe", "169.254.169.254"),
            ("010.0.0.1", "8.0.0.1"),
            ("0", "0.0.0.0"),
            ("1.0x", "1.0.0.0"),
        ];
        for (text, address) in spellings {
            let address = address.parse().unwrap();
            assert_eq!(
                Host::parse(text),
                Err(HostError::OddAddress { text: text.into(), address }),
                "{text}"
            );
        }
        for text in ["256.1.1.1", "1.2.3.4.5", "example.123", "08", "4294967296", "a.0xff"] {
            assert_eq!(Host::parse(text), Err(HostError::Number { text: text.into() }), "{text}");
        }
    }

    #[test]
    fn what_ends_a_host_for_one_reader_is_refused_by_this_one() {
        for (text, found) in [
            ("a.com\0.b.com", '\0'),
            (" a.com", ' '),
            ("a.com\n", '\n'),
            ("a%2ecom", '%'),
            ("fe80::1%eth0", '%'),
            ("[fe80::1%25eth0]", '%'),
            ("u@a.com", '@'),
            ("a.com/x", '/'),
            ("a.com?x", '?'),
            ("a.com#x", '#'),
            ("a.com\\@b.com", '\\'),
            ("a.com:443", ':'),
            ("*.a.com", '*'),
            ("a\u{200b}.com", '\u{200b}'),
            ("a\u{ad}b.com", '\u{ad}'),
            ("a\u{a0}.com", '\u{a0}'),
        ] {
            assert_eq!(Host::parse(text), Err(HostError::Character { found }), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = [&"a".repeat(63); 4].map(String::as_str).join(".");
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a.com..",
            &"a".repeat(64),
            &long,
            &"a".repeat(9999),
            "[::1",
            "[a.com]",
            "[1.1.1.1]",
        ] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
        for text in [
            "-a.com",
            "a-.com",
            "ab--cd.com",
            "a_b.com",
            "__a.com",
            "_.com",
            "xn--a.com",
            "xn--.com",
            "_é.com",
            "a,b.com",
            "a$b",
            "a％b.com",
        ] {
            assert_eq!(Host::parse(text), Err(HostError::Label { text: text.into() }), "{text}");
        }
    }

    #[test]
    fn a_host_says_why_it_is_not_on_the_outside() {
        let special = |text| Host::parse(text).unwrap().special();
        assert_eq!(special("LOCALHOST."), Some(Special::Loopback));
        assert_eq!(special("::ffff:127.0.0.1"), Some(Special::Loopback));
        assert_eq!(special("metadata.google.internal"), Some(Special::Metadata));
        assert_eq!(special("example.com"), None);
        assert_eq!(special("1.1.1.1"), None);
    }
}
