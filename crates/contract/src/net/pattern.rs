//! Which hosts are meant: one, those below a name, those of a range, or any of the outside.

use std::fmt;

use serde::{Serialize, Serializer};

use super::host::{Host, HostError};
use super::network::{Network, NetworkError};

/// A set of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// This one.
    Exact(Host),
    /// Every name below this one, at any depth, and not the name itself: `*.example.com`.
    Below(Zone),
    /// Every address of this range. A name is not in it, wherever it leads.
    Network(Network),
    /// Any host of the outside. No text of a grant means this; only a setting of its own does.
    Public,
}

/// The name that a pattern begins above.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone(String);

impl Zone {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Zone, HostError> {
        match Host::parse(text)?.name() {
            Some(name) => Ok(Zone(name.to_owned())),
            None => Err(HostError::Number { text: text.to_owned() }),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether it is a top-level name, such as `com`, where everybody may have a name below.
    pub fn is_top_level(&self) -> bool {
        !self.0.contains('.')
    }
}

impl HostPattern {
    /// Reads `name`, `*.name`, an address or a range of addresses.
    pub fn parse(text: &str) -> Result<HostPattern, NetworkError> {
        if let Some(zone) = text.strip_prefix("*.") {
            return Ok(HostPattern::Below(Zone::parse(zone)?));
        }
        if text.contains('/') {
            return Network::parse(text).map(HostPattern::Network);
        }
        Ok(HostPattern::Exact(Host::parse(text)?))
    }

    /// Whether a host is meant. That it is a special one, and refused for that, is another question.
    pub fn covers(&self, host: &Host) -> bool {
        match self {
            HostPattern::Exact(exact) => exact == host,
            HostPattern::Below(zone) => host
                .name()
                .and_then(|name| name.strip_suffix(zone.name()))
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            HostPattern::Network(network) => host.address().is_some_and(|address| network.holds(address)),
            // Names only: an address would be reached round whatever is blocked by its name.
            HostPattern::Public => host.name().is_some() && host.special().is_none(),
        }
    }

    /// As it stands before a port: an IPv6 address in brackets.
    pub(super) fn before_port(&self) -> String {
        match self {
            HostPattern::Exact(host) => host.before_port(),
            HostPattern::Network(network) => network.before_port(),
            HostPattern::Below(_) | HostPattern::Public => self.to_string(),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => host.fmt(f),
            HostPattern::Below(zone) => write!(f, "*.{}", zone.0),
            HostPattern::Network(network) => network.fmt(f),
            HostPattern::Public => f.write_str("*"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, host: &str) -> bool {
        HostPattern::parse(pattern).unwrap().covers(&Host::parse(host).unwrap())
    }

    #[test]
    fn a_name_means_itself_alone() {
        assert!(covers("example.com", "EXAMPLE.com."));
        assert!(!covers("example.com", "www.example.com"));
        assert!(!covers("example.com", "example.com.evil.test"));
    }

    #[test]
    fn a_star_means_everything_below_and_not_the_name_itself() {
        assert!(covers("*.example.com", "www.example.com"));
        assert!(covers("*.example.com", "a.b.example.com"));
        for host in ["example.com", "notexample.com", "evil-example.com", "example.com.evil.test"] {
            assert!(!covers("*.example.com", host), "{host}");
        }
    }

    #[test]
    fn a_range_means_addresses_and_no_names() {
        assert!(covers("10.0.0.0/8", "10.1.2.3"));
        assert!(covers("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!covers("10.0.0.0/8", "11.1.2.3"));
        assert!(!covers("10.0.0.0/8", "10.example.com"));
    }

    #[test]
    fn any_public_host_is_never_a_special_one() {
        let public = |host| HostPattern::Public.covers(&Host::parse(host).unwrap());
        assert!(public("example.com") && !public("1.1.1.1"), "a host is a name");
        assert!(!public("localhost") && !public("10.0.0.1") && !public("metadata.google.internal"));
    }

    #[test]
    fn stars_elsewhere_are_refused() {
        for text in ["*", "*.", "a.*.com", "*a.com", "**.a.com", "*.*.com", "*.10.0.0.1", "*.0x7f.1"] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }
}
