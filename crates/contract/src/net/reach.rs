//! One place that a call may reach, and one that it names: a host and a port.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::host::{Host, HostError, LONGEST};
use super::lookalike::misleading;
use super::network::NetworkError;
use super::pattern::HostPattern;
use super::private::Private;
use super::special::Special;
use crate::scan::show_hidden;

/// Hosts, and a port of theirs, that a call may reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reach {
    /// Which hosts.
    pub host: HostPattern,
    /// Which port; never 0 in one that was read.
    pub port: u16,
}

/// One host, and a port of it, that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// Which host.
    pub host: Host,
    /// Which port.
    pub port: u16,
}

/// Why a text is no place that may be reached. Each says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReachError {
    /// Nothing was given.
    #[error("a place to reach is empty; write `host:port`")]
    Empty,
    /// A star for everything.
    #[error("`{text}` would be every host; name the hosts, as in `example.com:443` or `*.example.com:443`")]
    Everything {
        /// What was given.
        text: String,
    },
    /// A star over a whole top-level domain.
    #[error(
        "`{text}` would be every host below `{zone}`, where anybody can have one; name a domain below it"
    )]
    TopLevel {
        /// What was given.
        text: String,
        /// The top-level name.
        zone: String,
    },
    /// A URL.
    #[error("`{text}` is a URL; write the host and the port alone: `{instead}`")]
    Url {
        /// What was given.
        text: String,
        /// What may have been meant.
        instead: String,
    },
    /// There is a name or a password of a user in it.
    #[error("a place to reach has no user: write what stands after the `@` alone")]
    User,
    /// There is a path in it.
    #[error("`{text}` has a path; a place is reached as a whole: write `host:port`")]
    Path {
        /// What was given.
        text: String,
    },
    /// There is no port.
    #[error("`{text}` has no port; write `{text}:443`, if that is the one")]
    NoPort {
        /// What was given.
        text: String,
    },
    /// An IPv6 address without brackets, of which the end may be a port.
    #[error(
        "`{text}` may be an address with or without a port; write `[{text}]:443`, or put the address in brackets"
    )]
    Brackets {
        /// What was given.
        text: String,
    },
    /// The port is none.
    #[error("`{port}` is no port: a number from 1 to 65535")]
    Port {
        /// What was given.
        port: String,
    },
    /// The host is none.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The range of addresses is none.
    #[error(transparent)]
    Network(NetworkError),
    /// It looks like another name.
    #[error("`{text}` looks like another name than it is; write `{plain}`, if that is meant")]
    LookAlike {
        /// What was given.
        text: String,
        /// Its plain spelling.
        plain: String,
    },
    /// It is not on the outside.
    #[error("`{text}` is {special}; list it under `private` as well, if it is meant")]
    Special {
        /// What was given.
        text: String,
        /// Why not.
        special: Special,
    },
    /// There is no such preset.
    #[error("there is no preset `{name}`; there are {there_are}")]
    NoPreset {
        /// What was given.
        name: String,
        /// The known ones.
        there_are: String,
    },
}

impl Reach {
    /// Reads `host:port`, where the host may be `*.name` or a range. It says nothing about special addresses: what people
    /// write as a grant is read by [`Reach::permit`].
    pub fn parse(text: &str) -> Result<Reach, ReachError> {
        let (host, port) = read(text)?;
        Ok(Reach { host, port: port? })
    }

    /// Reads a grant: special addresses are refused that nobody has opted in to.
    pub fn permit(text: &str, private: &Private) -> Result<Reach, ReachError> {
        let (host, port) = read(text)?;
        if let Some(special) = private.refuses_pattern(&host) {
            return Err(ReachError::Special { text: host.to_string(), special });
        }
        Ok(Reach { host, port: port? })
    }

    /// Whether a place is meant.
    pub fn covers(&self, target: &Target) -> bool {
        self.port == target.port && self.host.covers(&target.host)
    }
}

impl Target {
    /// Reads `host:port`.
    pub fn parse(text: &str) -> Result<Target, ReachError> {
        let reach = Reach::parse(text)?;
        match reach.host {
            HostPattern::Exact(host) => Ok(Target { host, port: reach.port }),
            HostPattern::Below(_) | HostPattern::Network(_) | HostPattern::Public => {
                Err(ReachError::Everything { text: text.to_owned() })
            }
        }
    }
}

/// A number in plain digits, without a sign or zeros before it.
pub(super) fn digits(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

/// The host of a text, and its port or what is wrong with that.
fn read(text: &str) -> Result<(HostPattern, Result<u16, ReachError>), ReachError> {
    refuse_urls(text)?;
    let (host, port) = split(text)?;
    if host == "*" {
        return Err(ReachError::Everything { text: text.to_owned() });
    }
    let bare = host.strip_prefix("*.").unwrap_or(host);
    if let Some(plain) = misleading(bare) {
        let star = if bare == host { "" } else { "*." };
        let end = port.map(|port| format!(":{port}")).unwrap_or_default();
        return Err(ReachError::LookAlike { text: text.to_owned(), plain: format!("{star}{plain}{end}") });
    }
    let pattern = pattern(host, text)?;
    if let HostPattern::Below(zone) = &pattern
        && zone.is_top_level()
    {
        return Err(ReachError::TopLevel { text: text.to_owned(), zone: zone.name().to_owned() });
    }
    let port = match port {
        None => Err(ReachError::NoPort { text: pattern.before_port() }),
        Some(port) => digits(port)
            .and_then(|number| u16::try_from(number).ok())
            .filter(|number| *number != 0)
            .ok_or_else(|| ReachError::Port { port: show_hidden(port) }),
    };
    Ok((pattern, port))
}

fn refuse_urls(text: &str) -> Result<(), ReachError> {
    if text.is_empty() {
        return Err(ReachError::Empty);
    }
    if text.len() > LONGEST {
        return Err(HostError::Length { text: text.chars().take(64).chain(['…']).collect() }.into());
    }
    // A password may stand before it, and is not repeated.
    if text.contains('@') {
        return Err(ReachError::User);
    }
    let Some((scheme, rest)) = text.split_once("://") else { return Ok(()) };
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => 80,
        "ssh" => 22,
        "ftp" => 21,
        _ => 443,
    };
    let has_port = split(host).is_ok_and(|(_, port)| port.is_some());
    let instead = if has_port { host.to_owned() } else { format!("{host}:{port}") };
    Err(ReachError::Url { text: show_hidden(text), instead: show_hidden(&instead) })
}

/// What stands before the port, and the port.
fn split(text: &str) -> Result<(&str, Option<&str>), ReachError> {
    // The colons of an address in brackets are not the one before the port; after a range's bits it is.
    let from = text.find(']').unwrap_or(0);
    let (_, tail) = text.split_at(from);
    match (tail.matches(':').count(), text.rsplit_once(':')) {
        (0, _) | (_, None) => Ok((text, None)),
        (1, Some((host, port))) => Ok((host, Some(port))),
        _ => Err(ReachError::Brackets { text: show_hidden(text) }),
    }
}

fn pattern(host: &str, text: &str) -> Result<HostPattern, ReachError> {
    HostPattern::parse(host).map_err(|error| match error {
        NetworkError::Host(error) => ReachError::Host(error),
        // `a.com/x:443`, or a path after the port, which would be no number.
        NetworkError::NoAddress { .. } => ReachError::Path { text: show_hidden(text) },
        other => ReachError::Network(other),
    })
}

impl From<Target> for Reach {
    /// That place alone.
    fn from(target: Target) -> Reach {
        Reach { host: HostPattern::Exact(target.host), port: target.port }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host.before_port(), self.port)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host.before_port(), self.port)
    }
}

impl TryFrom<String> for Reach {
    type Error = ReachError;
    fn try_from(text: String) -> Result<Reach, ReachError> {
        Reach::parse(&text)
    }
}

impl From<Reach> for String {
    fn from(reach: Reach) -> String {
        reach.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = ReachError;
    fn try_from(text: String) -> Result<Target, ReachError> {
        Target::parse(&text)
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Reach::permit(text, &Private::none())
            .map_or_else(|error| error.to_string(), |reach| format!("read as {reach}"))
    }

    #[test]
    fn a_place_is_read_and_shown_in_one_spelling() {
        for (text, shown) in [
            ("Example.COM.:443", "example.com:443"),
            ("*.example.com:8443", "*.example.com:8443"),
            ("1.1.1.1:53", "1.1.1.1:53"),
            ("[2606:4700::1111]:443", "[2606:4700::1111]:443"),
            ("140.82.112.0/20:22", "140.82.112.0/20:22"),
            ("[2606:4700::]/32:443", "[2606:4700::]/32:443"),
            ("münchen.de:443", "xn--mnchen-3ya.de:443"),
        ] {
            assert_eq!(refused(text), format!("read as {shown}"), "{text}");
        }
    }

    #[test]
    fn a_bad_grant_says_what_to_write_instead() {
        for (text, error) in [
            ("", "a place to reach is empty; write `host:port`"),
            ("*", "`*` would be every host; name the hosts, as in `example.com:443` or `*.example.com:443`"),
            (
                "*:443",
                "`*:443` would be every host; name the hosts, as in `example.com:443` or `*.example.com:443`",
            ),
            (
                "*.com:443",
                "`*.com:443` would be every host below `com`, where anybody can have one; name a domain below it",
            ),
            ("http://x", "`http://x` is a URL; write the host and the port alone: `x:80`"),
            (
                "https://x.org:8443/a",
                "`https://x.org:8443/a` is a URL; write the host and the port alone: `x.org:8443`",
            ),
            ("x.org", "`x.org` has no port; write `x.org:443`, if that is the one"),
            ("x:99999", "`99999` is no port: a number from 1 to 65535"),
            ("x:0", "`0` is no port: a number from 1 to 65535"),
            ("x:", "`` is no port: a number from 1 to 65535"),
            ("x:+443", "`+443` is no port: a number from 1 to 65535"),
            ("x:https", "`https` is no port: a number from 1 to 65535"),
            ("x:*", "`*` is no port: a number from 1 to 65535"),
            ("me:secret@x.org:443", "a place to reach has no user: write what stands after the `@` alone"),
            ("x.org/a:443", "`x.org/a:443` has a path; a place is reached as a whole: write `host:port`"),
            ("x.org:443/a", "`443/a` is no port: a number from 1 to 65535"),
            (
                "pаypal.com:443",
                "`pаypal.com:443` looks like another name than it is; write `xn--pypal-4ve.com:443`, if that is meant",
            ),
            (
                "*.аррӏе.com:443",
                "`*.аррӏе.com:443` looks like another name than it is; write `*.xn--80ak6aa92e.com:443`, if that is meant",
            ),
            (
                "10.0.0.0/8",
                "`10.0.0.0/8` is in a private network; list it under `private` as well, if it is meant",
            ),
            (
                "10.0.0.0/8:443",
                "`10.0.0.0/8` is in a private network; list it under `private` as well, if it is meant",
            ),
            (
                "0.0.0.0/0:443",
                "`0.0.0.0/0` is a metadata service; list it under `private` as well, if it is meant",
            ),
            (
                "169.254.169.254:80",
                "`169.254.169.254` is a metadata service; list it under `private` as well, if it is meant",
            ),
            (
                "localhost:80",
                "`localhost` is this machine itself; list it under `private` as well, if it is meant",
            ),
            ("127.1:80", "`127.1` is another spelling of the address 127.0.0.1; write that, if it is meant"),
            ("10.0.0.1/8:80", "`10.0.0.1/8` is an address inside a range; the range is `10.0.0.0/8`"),
            (
                "::1:443",
                "`::1:443` may be an address with or without a port; write `[::1:443]:443`, or put the address in brackets",
            ),
            ("a b:443", "a host may not hold ` `"),
            ("a\0b:443", "a host may not hold `⟨U+0000⟩`"),
        ] {
            assert_eq!(refused(text), error, "{text}");
        }
    }

    #[test]
    fn a_private_place_is_granted_to_whoever_opted_in() {
        let mut private = Private::none();
        private.add("10.0.0.0/8").unwrap();
        private.add("*.internal").unwrap();
        private.add("169.254.0.0/16").unwrap();
        for text in
            ["10.0.0.0/8:5432", "10.2.0.0/16:80", "10.0.0.1:80", "db.internal:5432", "*.db.internal:80"]
        {
            assert_eq!(Reach::permit(text, &private).unwrap().to_string(), text);
        }
        for text in [
            "8.0.0.0/5:80",
            "192.168.0.1:80",
            "metadata.google.internal:80",
            "169.254.169.254:80",
            "169.254.169.254/32:80",
            "printer.local:80",
        ] {
            assert!(Reach::permit(text, &private).is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_covers_its_hosts_at_its_port() {
        let reach = Reach::parse("*.example.com:443").unwrap();
        assert!(reach.covers(&Target::parse("a.example.com:443").unwrap()));
        assert!(!reach.covers(&Target::parse("a.example.com:80").unwrap()));
        assert!(!reach.covers(&Target::parse("example.com:443").unwrap()));
    }
}
