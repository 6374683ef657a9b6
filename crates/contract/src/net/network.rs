//! A range of addresses, as `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::host::{Host, HostError};

/// A range of addresses with a common beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// Why a text is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// What stands before the slash is no host at all.
    #[error(transparent)]
    Host(#[from] HostError),
    /// What stands before the slash is a name.
    #[error("`{text}` is no range of addresses, as `192.0.2.0/24` is one")]
    NoAddress {
        /// What was given.
        text: String,
    },
    /// What stands after the slash is no number of bits.
    #[error("`{text}` has no number of bits from 0 to {most} after the `/`")]
    Bits {
        /// What was given.
        text: String,
        /// The most there could be.
        most: u8,
    },
    /// The address goes on after the bits that count.
    #[error("`{text}` is an address inside a range; the range is `{range}`")]
    Inside {
        /// What was given.
        text: String,
        /// The range that it is in.
        range: Network,
    },
}

impl Network {
    /// Reads a range: an address, and after a `/` how many of its bits count. Without that, all do.
    pub fn parse(text: &str) -> Result<Network, NetworkError> {
        let (host, bits) = match text.split_once('/') {
            Some((host, bits)) => (host, Some(bits)),
            None => (text, None),
        };
        // A mapped range would be one of IPv4, with other bits than it says.
        let mapped = host.trim_start_matches('[').trim_end_matches(']').parse::<Ipv6Addr>().is_ok();
        let address = Host::parse(host)?.address().filter(|address| address.is_ipv6() == mapped);
        let address = address.ok_or_else(|| NetworkError::NoAddress { text: text.to_owned() })?;
        let most = width(address);
        let count = match bits {
            None => most,
            Some(bits) => super::reach::digits(bits)
                .and_then(|count| u8::try_from(count).ok())
                .filter(|count| *count <= most)
                .ok_or_else(|| NetworkError::Bits { text: text.to_owned(), most })?,
        };
        let range = Network::of(address, count);
        if range.first != address {
            return Err(NetworkError::Inside { text: text.to_owned(), range });
        }
        Ok(range)
    }

    /// The range of this many bits that an address is in.
    pub(super) fn of(address: IpAddr, bits: u8) -> Network {
        let bits = bits.min(width(address));
        let first = match address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !rest_v4(bits))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !rest_v6(bits))),
        };
        Network { first, bits }
    }

    /// Whether an address is in it.
    pub fn holds(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && Network::of(address, self.bits).first == self.first
    }

    /// Whether every address of another range is in it.
    pub fn holds_all(&self, other: &Network) -> bool {
        self.bits <= other.bits && self.holds(other.first)
    }

    /// Whether it has an address in common with another range.
    pub(super) fn meets(&self, other: &Network) -> bool {
        self.holds_all(other) || other.holds_all(self)
    }

    /// The only address in it, if there is only one.
    pub fn only(&self) -> Option<IpAddr> {
        (self.bits == width(self.first)).then_some(self.first)
    }

    /// The first address in it.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address in it.
    pub fn last(&self) -> IpAddr {
        match self.first {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | rest_v4(self.bits))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | rest_v6(self.bits))),
        }
    }

    /// As it stands before a port: an IPv6 address in brackets.
    pub(super) fn before_port(&self) -> String {
        format!("{}/{}", Host::from(self.first).before_port(), self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn rest_v4(bits: u8) -> u32 {
    u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0)
}

fn rest_v6(bits: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;
    fn try_from(text: String) -> Result<Network, NetworkError> {
        Network::parse(&text)
    }
}

impl From<Network> for String {
    fn from(network: Network) -> String {
        network.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_addresses_and_no_other() {
        let range = Network::parse("172.16.0.0/12").unwrap();
        assert_eq!(
            (range.first(), range.last()),
            ("172.16.0.0".parse().unwrap(), "172.31.255.255".parse().unwrap())
        );
        assert!(range.holds("172.20.1.1".parse().unwrap()));
        assert!(!range.holds("172.32.0.0".parse().unwrap()));
        assert!(!range.holds("::172.20.1.1".parse().unwrap()));
        let everything = Network::parse("::/0").unwrap();
        assert!(
            everything.holds("ff02::1".parse().unwrap()) && !everything.holds("1.1.1.1".parse().unwrap())
        );
        assert_eq!(Network::parse("1.2.3.4").unwrap().only(), Some("1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "::/129",
            "a.com/8",
            "10/8",
            "0x0a.0.0.0/8",
            "::ffff:10.0.0.0/104",
            "10.0.0.1/8",
            "",
            "/8",
        ] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
        let error = Network::parse("10.1.2.3/8").unwrap_err().to_string();
        assert_eq!(error, "`10.1.2.3/8` is an address inside a range; the range is `10.0.0.0/8`");
    }
}
