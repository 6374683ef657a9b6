//! Addresses of the web, read by one strict parser: what it takes is dialled as it was read.
//!
//! # Invariants
//! - Only `http` and `https`; no user, no fragment, nothing that two readers read differently.
//! - What is read is written anew, and reading that gives the same.

use std::fmt;

use contract::{Host, Reach, Reason, Target};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::path::{shown, shown_address};

const MAX_URL: usize = 8192;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    pub(crate) target: Target,
    /// With the query, if there is one.
    pub(crate) path: String,
}

/// Whether TLS is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Address, Reason> {
        let refuse = |why: &str| Reason::bad_arguments(format!("`{}` {why}", shown_address(text)));
        if text.len() > MAX_URL {
            return Err(Reason::bad_arguments("a URL is longer than 8192 characters"));
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| refuse("is not a URL").with_hint("such as `https://example.com/path?query`"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return Err(refuse("is neither https nor http")),
        };
        if text.contains('#') {
            return Err(refuse("has a fragment, which no server is ever sent; leave it out"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // ATTACK(userinfo-host): whoever reads `a@b` may take either for the host.
        if authority.contains('@') {
            return Err(refuse("holds a user or a password")
                .with_hint("use the header `Authorization`, or a credential of the gate"));
        }
        let target = read_place(authority, scheme.port()).map_err(|why| refuse(&why))?;
        if let Some(odd) = odd_part(path) {
            let why = format!("holds `{}`, which does not stand in a URL", odd.escape_debug());
            return Err(refuse(&why).with_hint("write it as `%` and two hexadecimal digits"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Address { scheme, target, path })
    }

    /// Where a redirect from here leads.
    pub(crate) fn led_to(&self, location: &str) -> Result<Address, Reason> {
        let odd =
            || Reason::tool_failed(format!("a redirect leads to `{}`, which is no URL", shown(location)));
        // What one reader skips and another takes for a slash is not guessed at.
        if location.len() > MAX_URL || location.contains(|c: char| c.is_control() || c == '\\' || c == ' ') {
            return Err(odd());
        }
        let here = Url::parse(&self.to_string()).map_err(|_| odd())?;
        let mut there = here.join(location).map_err(|_| odd())?;
        there.set_fragment(None);
        Address::parse(there.as_str()).map_err(|_| odd())
    }

    /// Whether what is meant for one may be sent to the other.
    pub(crate) fn is_same_origin(&self, other: &Address) -> bool {
        self.scheme == other.scheme && self.target == other.target
    }

    /// Whether one of these covers it.
    pub(crate) fn is_in(&self, reach: &[Reach]) -> bool {
        reach.iter().any(|reach| reach.covers(&self.target))
    }

    /// The value of the header `Host`.
    pub(crate) fn host(&self) -> String {
        let place = self.target.to_string();
        let usual = format!(":{}", self.scheme.port());
        place.strip_suffix(&usual).unwrap_or(&place).to_owned()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.scheme.as_str(), self.host(), self.path)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        Address::parse(&text).map_err(|reason| reason.message)
    }
}

/// Reads `host` or `host:port`, as it stands in a URL; else says what is wrong with it.
pub(crate) fn read_place(text: &str, usual: u16) -> Result<Target, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => usual,
        Some(port) => read_port(port).ok_or("has a port that is none")?,
    };
    Ok(Target { host: read_host(host)?, port })
}

pub(crate) fn read_host(text: &str) -> Result<Host, String> {
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host =
        Host::parse(inside.unwrap_or(text)).map_err(|error| format!("has a host that is none: {error}"))?;
    let is_v6 = host.address().is_some_and(|address| address.is_ipv6());
    if is_v6 == inside.is_some() {
        Ok(host)
    } else {
        Err("has a host that is none: an IPv6 address stands in brackets, and nothing else does".to_owned())
    }
}

fn read_port(text: &str) -> Option<u16> {
    let is_plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port > 0)
}

/// The first part of a path and query that does not belong there.
fn odd_part(text: &str) -> Option<char> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?%[]".contains(c);
    if let Some(odd) = text.chars().find(|c| !is_plain(*c)) {
        return Some(odd);
    }
    let is_hex = |rest: &str| {
        let digits: Vec<u8> = rest.bytes().take(2).collect();
        digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit)
    };
    text.split('%').skip(1).any(|rest| !is_hex(rest)).then_some('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_spelling() {
        for (text, written, target) in [
            ("https://Example.com", "https://example.com/", "example.com:443"),
            ("HTTP://example.com:80/a?b=c", "http://example.com/a?b=c", "example.com:80"),
            ("https://example.com:8443?x", "https://example.com:8443/?x", "example.com:8443"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/", "xn--bcher-kva.example:443"),
            ("https://[2606:4700::1]/%41", "https://[2606:4700::1]/%41", "[2606:4700::1]:443"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.target.to_string().as_str()),
                (written, target)
            );
            assert_eq!(Address::parse(written).unwrap(), address, "{text}");
        }
    }

    #[test]
    fn what_two_readers_read_differently_is_refused() {
        for text in [
            "",
            "example.com",
            "ftp://a.example/",
            "file:///etc/passwd",
            "javascript://a",
            "https:/a.example/",
            "https:a.example",
            "https://",
            "https:///a",
            "https://user@a.example/",
            "https://a.example:80@b.example/",
            "https://a.example#@b.example/",
            "https://a.example/#x",
            "https://a.example\\@b.example/",
            "https://a.example\\b",
            "https://a.example/a b",
            "https://a.example/\r\nX: y",
            "https://a.example/\0",
            "https://a.example/%",
            "https://a.example/%zz",
            "https://a.example/é",
            "https://a.example:/",
            "https://a.example:0/",
            "https://a.example:0443/",
            "https://a.example:99999/",
            "https://a.example:+1/",
            "https://0177.0.0.1/",
            "https://2130706433/",
            "https://127.1/",
            "https://[::1/",
            "https://::1/",
            "https://[a.example]/",
            "https://a.example%00.b.example/",
            "https://a..b/",
            "https://a.example,b.example/",
            "https://a.example\t/",
            "https://a.example/<x>",
            "https://a.example/\u{202e}",
        ] {
            assert_eq!(
                Address::parse(text).map_err(|reason| reason.code.to_string()),
                Err("bad_arguments".to_owned()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_redirect_leads_where_its_text_says() {
        let here = Address::parse("https://a.example/x/y?z").unwrap();
        for (location, there) in [
            ("/b", "https://a.example/b"),
            ("w", "https://a.example/x/w"),
            ("../w#part", "https://a.example/w"),
            ("?q", "https://a.example/x/y?q"),
            ("//b.example/c", "https://b.example/c"),
            ("http://B.example:80", "http://b.example/"),
        ] {
            assert_eq!(here.led_to(location).unwrap().to_string(), there, "{location}");
        }
        for location in [
            "ftp://a.example/",
            "https://u:p@a.example/",
            "/\\b.example",
            "\thttps://b.example",
            "https://[::1",
            "https://a b/",
        ] {
            assert_eq!(here.led_to(location).unwrap_err().code.as_str(), "tool_failed", "{location}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let address = |text| Address::parse(text).unwrap();
        let here = address("https://a.example/x");
        assert!(here.is_same_origin(&address("https://A.example:443/y")));
        for other in ["http://a.example/x", "https://a.example:444/x", "https://b.a.example/x"] {
            assert!(!here.is_same_origin(&address(other)), "{other}");
        }
    }
}
