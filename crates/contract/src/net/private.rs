//! Which special addresses and names somebody has opted in to, one by one.

use std::net::IpAddr;

use serde::Serialize;
use thiserror::Error;

use super::host::Host;
use super::network::{Network, NetworkError};
use super::pattern::HostPattern;
use super::special::{Special, blocks, special_name, special_purpose};

/// The special addresses and names that may be reached all the same. By default, none.
///
/// A metadata service is never meant by a range or a `*.` pattern: it has to be named itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Private {
    entries: Vec<HostPattern>,
}

/// Why a text opts in to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PrivateError {
    /// It is neither a host nor a range.
    #[error(transparent)]
    Unreadable(#[from] NetworkError),
    /// It would open more than special addresses, or nothing that is closed.
    #[error("`{text}` is not wholly private, and needs no entry here for what is not")]
    NotSpecial {
        /// What was given.
        text: String,
    },
}

impl Private {
    /// Nothing is opted in to.
    pub fn none() -> Private {
        Private::default()
    }

    /// Adds an address, a range, a special name or a `*.` pattern over special names.
    pub fn add(&mut self, text: &str) -> Result<(), PrivateError> {
        let entry = HostPattern::parse(text)?;
        let is_special = match &entry {
            HostPattern::Exact(host) => host.special().is_some(),
            HostPattern::Below(zone) => special_name(zone.name()).is_some(),
            // INVARIANT(opt-in-is-narrow): `0.0.0.0/0` is no private range, though there are private ones in it.
            HostPattern::Network(network) => blocks().any(|(block, _)| block.holds_all(network)),
            HostPattern::Public => false,
        };
        if !is_special {
            return Err(PrivateError::NotSpecial { text: text.to_owned() });
        }
        self.entries.push(entry);
        Ok(())
    }

    /// What was opted in to.
    pub fn entries(&self) -> &[HostPattern] {
        &self.entries
    }

    /// Why an address may not be reached: it is special, and nobody has opted in to it. To be asked before each dial.
    pub fn refuses(&self, address: IpAddr) -> Option<Special> {
        special_purpose(address).filter(|special| {
            !self.opens(
                *special,
                &|entry| match entry {
                    HostPattern::Exact(host) => host.address() == Some(address),
                    HostPattern::Network(network) => network.holds(address),
                    HostPattern::Below(_) | HostPattern::Public => false,
                },
                &|entry| only(entry) == Some(address),
            )
        })
    }

    /// Why a host may not be reached, as far as its text says so.
    pub fn refuses_host(&self, host: &Host) -> Option<Special> {
        match host.address() {
            Some(address) => self.refuses(address),
            None => host.special().filter(|special| {
                !self.opens(*special, &|entry| entry.covers(host), &|entry| {
                    *entry == HostPattern::Exact(host.clone())
                })
            }),
        }
    }

    /// Why a pattern may not be granted: something that it covers by its very text may not be reached.
    pub(super) fn refuses_pattern(&self, pattern: &HostPattern) -> Option<Special> {
        match pattern {
            HostPattern::Exact(host) => self.refuses_host(host),
            HostPattern::Below(zone) => special_name(zone.name()).filter(|special| {
                !self.opens(*special, &|entry| holds_zone(entry, pattern), &|entry| entry == pattern)
            }),
            HostPattern::Network(network) => match network.only() {
                Some(address) => self.refuses(address),
                // What has to be named by itself stays closed at the dial.
                None if self.entries.iter().any(|entry| holds_range(entry, network)) => None,
                None => blocks().find(|(block, _)| block.meets(network)).map(|(_, special)| special),
            },
            HostPattern::Public => None,
        }
    }

    fn opens(
        &self,
        special: Special,
        covers: &dyn Fn(&HostPattern) -> bool,
        names: &dyn Fn(&HostPattern) -> bool,
    ) -> bool {
        // ATTACK(metadata-in-a-range): whoever opens the local link does not mean the service with the credentials.
        match special {
            Special::Metadata => self.entries.iter().any(names),
            _ => self.entries.iter().any(covers),
        }
    }
}

fn only(entry: &HostPattern) -> Option<IpAddr> {
    match entry {
        HostPattern::Exact(host) => host.address(),
        HostPattern::Network(network) => network.only(),
        HostPattern::Below(_) | HostPattern::Public => None,
    }
}

fn holds_range(entry: &HostPattern, range: &Network) -> bool {
    matches!(entry, HostPattern::Network(opened) if opened.holds_all(range))
}

/// Whether every name below a pattern's zone is covered by an entry.
fn holds_zone(entry: &HostPattern, pattern: &HostPattern) -> bool {
    match (entry, pattern) {
        (HostPattern::Below(wide), HostPattern::Below(narrow)) => {
            wide == narrow || Host::parse(narrow.name()).is_ok_and(|name| entry.covers(&name))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private(entries: &[&str]) -> Private {
        let mut private = Private::none();
        for entry in entries {
            private.add(entry).unwrap();
        }
        private
    }

    #[test]
    fn nothing_special_is_reached_that_nobody_opted_in_to() {
        let address = |text: &str| text.parse().unwrap();
        assert_eq!(Private::none().refuses(address("10.0.0.1")), Some(Special::Private));
        assert_eq!(Private::none().refuses(address("1.1.1.1")), None);
        let lan = private(&["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(lan.refuses(address("10.0.0.1")), None);
        assert_eq!(lan.refuses(address("fd12::1")), None);
        assert_eq!(lan.refuses(address("192.168.0.1")), Some(Special::Private));
        assert_eq!(lan.refuses(address("::ffff:10.0.0.1")), Some(Special::Private));
        assert_eq!(lan.refuses(address("64:ff9b::a00:1")), Some(Special::Private));
    }

    #[test]
    fn a_metadata_service_is_opened_by_its_own_name_alone() {
        let address = "169.254.169.254".parse().unwrap();
        assert_eq!(private(&["169.254.0.0/16"]).refuses(address), Some(Special::Metadata));
        assert_eq!(private(&["169.254.169.254"]).refuses(address), None);
        assert_eq!(private(&["169.254.169.254/32"]).refuses(address), None);
        let host = Host::parse("metadata.google.internal").unwrap();
        assert_eq!(private(&["*.google.internal"]).refuses_host(&host), Some(Special::Metadata));
        assert_eq!(private(&["metadata.google.internal"]).refuses_host(&host), None);
    }

    #[test]
    fn names_of_the_house_are_opened_by_name() {
        let refused = |private: &Private, host| private.refuses_host(&Host::parse(host).unwrap());
        assert_eq!(refused(&Private::none(), "db.internal"), Some(Special::Private));
        assert_eq!(refused(&private(&["db.internal"]), "db.internal"), None);
        assert_eq!(refused(&private(&["*.internal"]), "db.internal"), None);
        assert_eq!(refused(&private(&["10.0.0.0/8"]), "db.internal"), Some(Special::Private));
    }

    #[test]
    fn an_entry_that_would_open_more_than_special_addresses_is_refused() {
        for text in ["0.0.0.0/0", "::/0", "8.8.8.8", "example.com", "*.example.com", "192.0.0.0/8"] {
            assert_eq!(
                Private::none().add(text),
                Err(PrivateError::NotSpecial { text: text.into() }),
                "{text}"
            );
        }
        assert!(Private::none().add("*").is_err());
    }
}
