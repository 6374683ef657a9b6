//! Addresses and names that are never on the outside: IANA's special-purpose registries, and the services that hand out
//! credentials.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use super::network::Network;

/// What a special address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Special {
    /// A service that tells a machine about itself, and gives it credentials.
    Metadata,
    /// No address yet, or this network: `0.0.0.0/8`, `::`.
    Unspecified,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// Shared by the customers of a provider: `100.64.0.0/10`.
    Shared,
    /// The neighbours on this link.
    LinkLocal,
    /// Many hosts at once.
    Multicast,
    /// All hosts of this link.
    Broadcast,
    /// Only ever written in documentation.
    Documentation,
    /// Measurements of network devices.
    Benchmarking,
    /// Assigned to protocols, not to hosts.
    Protocol,
    /// An IPv4 address inside an IPv6 one: mapped or compatible.
    Embedded,
    /// An IPv4 address behind a translator (NAT64).
    Translated,
    /// Tunnels through Teredo servers.
    Teredo,
    /// Tunnels through 6to4 relays.
    SixToFour,
    /// Names of cryptographic keys, not of hosts.
    Orchid,
    /// Whatever is sent there is thrown away.
    Discard,
    /// Segments of a route.
    Segment,
    /// Reserved, and assigned to nobody.
    Reserved,
}

impl Special {
    /// What it is, for people: goes after "is".
    pub fn describe(self) -> &'static str {
        match self {
            Special::Metadata => "a metadata service",
            Special::Unspecified => "no address of a host",
            Special::Loopback => "this machine itself",
            Special::Private => "in a private network",
            Special::Shared => "in a provider's shared network",
            Special::LinkLocal => "on the local link",
            Special::Multicast => "a multicast group",
            Special::Broadcast => "a broadcast address",
            Special::Documentation => "an address for documentation",
            Special::Benchmarking => "an address for benchmarks",
            Special::Protocol => "assigned to protocols",
            Special::Embedded => "an IPv4 address inside an IPv6 one",
            Special::Translated => "behind a translator of addresses",
            Special::Teredo => "a Teredo tunnel",
            Special::SixToFour => "a 6to4 tunnel",
            Special::Orchid => "the name of a key",
            Special::Discard => "an address that discards",
            Special::Segment => "a segment of a route",
            Special::Reserved => "reserved",
        }
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// What an address is for, if it is not one of the outside.
pub fn special_purpose(address: IpAddr) -> Option<Special> {
    let own = || blocks().find(|(block, _)| block.holds(address)).map(|(_, special)| special);
    match address {
        // ATTACK(address-in-address): an IPv4 address inside a mapped, compatible or translated one is that address.
        IpAddr::V6(address) => {
            embedded(address).and_then(|inner| special_purpose(IpAddr::V4(inner))).or_else(own)
        }
        IpAddr::V4(_) => own(),
    }
}

/// What a name stands for, if it is for no host of the outside. It is in the spelling of a [`super::Host`].
pub fn special_name(name: &str) -> Option<Special> {
    let is_below =
        |zone: &str| name == zone || name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'));
    if METADATA_NAMES.into_iter().any(is_below) {
        Some(Special::Metadata)
    } else if is_below("localhost") || is_below("localdomain") {
        Some(Special::Loopback)
    } else if is_below("local") {
        Some(Special::LinkLocal)
    } else {
        ["internal", "home.arpa", "intranet", "private", "corp", "home", "lan"]
            .into_iter()
            .any(is_below)
            .then_some(Special::Private)
    }
}

/// Every special block, the narrower before the wider.
pub(super) fn blocks() -> impl Iterator<Item = (Network, Special)> {
    let v4 =
        V4.iter().map(|(address, bits, special)| (IpAddr::V4(Ipv4Addr::from(*address)), *bits, *special));
    let v6 =
        V6.iter().map(|(address, bits, special)| (IpAddr::V6(Ipv6Addr::from(*address)), *bits, *special));
    v4.chain(v6).map(|(address, bits, special)| (Network::of(address, bits), special))
}

/// The IPv4 address that an IPv6 one carries, where it stands at a known place.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (first, second, third, fourth, fifth, sixth) {
        // Mapped; translated without state; compatible, but for `::` and `::1`; NAT64.
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => {
            Some(of(seventh, eighth))
        }
        (0, 0, 0, 0, 0, 0) => (address.to_bits() > 1).then(|| of(seventh, eighth)),
        // NAT64 of a network's own, as most lay it out.
        (0x64, 0xff9b, 1, ..) => Some(of(seventh, eighth)),
        (0x2002, high, low, ..) => Some(of(high, low)),
        (0x2001, 0, ..) => Some(of(!seventh, !eighth)),
        _ => None,
    }
}

type Block<const N: usize> = ([u8; N], u8, Special);

/// Names of metadata services, and of everything below them.
const METADATA_NAMES: [&str; 11] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "instance-data",
    "instance-data.ec2.internal",
    "rancher-metadata",
];

const V4: &[Block<4>] = &[
    ([169, 254, 169, 254], 32, Special::Metadata), // most clouds
    ([169, 254, 169, 253], 32, Special::Metadata), // AWS, its resolver
    ([169, 254, 169, 123], 32, Special::Metadata), // AWS, its clock
    ([169, 254, 170, 2], 32, Special::Metadata),   // AWS, tasks of containers
    ([169, 254, 170, 23], 32, Special::Metadata),  // AWS, identities of pods
    ([169, 254, 0, 23], 32, Special::Metadata),    // Tencent
    ([169, 254, 42, 42], 32, Special::Metadata),   // Scaleway
    ([100, 100, 100, 200], 32, Special::Metadata), // Alibaba
    ([192, 0, 0, 192], 32, Special::Metadata),     // Oracle
    ([168, 63, 129, 16], 32, Special::Metadata),   // Azure
    ([255, 255, 255, 255], 32, Special::Broadcast),
    ([0, 0, 0, 0], 8, Special::Unspecified),
    ([10, 0, 0, 0], 8, Special::Private),
    ([100, 64, 0, 0], 10, Special::Shared),
    ([127, 0, 0, 0], 8, Special::Loopback),
    ([169, 254, 0, 0], 16, Special::LinkLocal),
    ([172, 16, 0, 0], 12, Special::Private),
    ([192, 0, 0, 0], 24, Special::Protocol),
    ([192, 0, 2, 0], 24, Special::Documentation),
    ([192, 31, 196, 0], 24, Special::Protocol),
    ([192, 52, 193, 0], 24, Special::Protocol),
    ([192, 88, 99, 0], 24, Special::SixToFour),
    ([192, 168, 0, 0], 16, Special::Private),
    ([192, 175, 48, 0], 24, Special::Protocol),
    ([198, 18, 0, 0], 15, Special::Benchmarking),
    ([198, 51, 100, 0], 24, Special::Documentation),
    ([203, 0, 113, 0], 24, Special::Documentation),
    ([224, 0, 0, 0], 4, Special::Multicast),
    ([240, 0, 0, 0], 4, Special::Reserved),
];

const V6: &[Block<16>] = &[
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]), 128, Special::Metadata), // AWS
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253]), 128, Special::Metadata), // AWS, its resolver
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x123]), 128, Special::Metadata), // AWS, its clock
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23]), 128, Special::Metadata),  // AWS, identities of pods
    (v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]), 128, Special::Metadata),   // Scaleway
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]), 128, Special::Metadata),  // Google
    (v6([0, 0, 0, 0, 0, 0, 0, 0]), 128, Special::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1]), 128, Special::Loopback),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0]), 96, Special::Embedded),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0]), 96, Special::Embedded),
    (v6([0, 0, 0, 0, 0, 0, 0, 0]), 96, Special::Embedded),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0]), 96, Special::Translated),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0]), 48, Special::Translated),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0]), 64, Special::Discard),
    (v6([0x100, 0, 0, 1, 0, 0, 0, 0]), 64, Special::Discard),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 32, Special::Teredo),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0]), 48, Special::Benchmarking),
    (v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0]), 28, Special::Orchid),
    (v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0]), 28, Special::Orchid),
    (v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0]), 28, Special::Orchid),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 23, Special::Protocol),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), 32, Special::Documentation),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0]), 16, Special::SixToFour),
    (v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0]), 48, Special::Protocol),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0]), 20, Special::Documentation),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0]), 16, Special::Segment),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0]), 7, Special::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10, Special::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0]), 10, Special::Private),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8, Special::Multicast),
    // All but 2000::/3, which alone is given out to networks.
    (v6([0, 0, 0, 0, 0, 0, 0, 0]), 3, Special::Reserved),
    (v6([0x4000, 0, 0, 0, 0, 0, 0, 0]), 2, Special::Reserved),
    (v6([0x8000, 0, 0, 0, 0, 0, 0, 0]), 1, Special::Reserved),
];

const fn v6(segments: [u16; 8]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Addr::new(a, b, c, d, e, f, g, h).octets()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Option<Special> {
        special_purpose(text.parse().unwrap())
    }

    #[test]
    fn every_registered_block_is_special_at_both_ends() {
        for (block, _) in blocks() {
            assert!(special_purpose(block.first()).is_some(), "{block}");
            assert!(special_purpose(block.last()).is_some(), "{block}");
        }
    }

    #[test]
    fn addresses_have_the_class_of_the_narrowest_block() {
        let classes = [
            ("0.0.0.0", Special::Unspecified),
            ("0.1.2.3", Special::Unspecified),
            ("10.1.2.3", Special::Private),
            ("100.64.0.1", Special::Shared),
            ("100.100.100.200", Special::Metadata),
            ("127.255.0.1", Special::Loopback),
            ("168.63.129.16", Special::Metadata),
            ("169.254.1.1", Special::LinkLocal),
            ("169.254.169.254", Special::Metadata),
            ("169.254.170.2", Special::Metadata),
            ("172.31.0.1", Special::Private),
            ("192.0.0.9", Special::Protocol),
            ("192.0.0.192", Special::Metadata),
            ("192.31.196.1", Special::Protocol),
            ("192.52.193.1", Special::Protocol),
            ("192.88.99.1", Special::SixToFour),
            ("192.175.48.1", Special::Protocol),
            ("198.19.0.1", Special::Benchmarking),
            ("224.0.0.1", Special::Multicast),
            ("240.0.0.1", Special::Reserved),
            ("255.255.255.255", Special::Broadcast),
            ("::", Special::Unspecified),
            ("::1", Special::Loopback),
            ("::2", Special::Unspecified),
            ("::808:808", Special::Embedded),
            ("::ffff:8.8.8.8", Special::Embedded),
            ("64:ff9b::808:808", Special::Translated),
            ("64:ff9b:1::1", Special::Unspecified),
            ("64:ff9b:1::808:808", Special::Translated),
            ("100::1", Special::Discard),
            ("100:0:0:1::1", Special::Discard),
            ("2001:0:808:808::", Special::Broadcast),
            ("2001::ffff:ffff", Special::Unspecified),
            ("2001::1:f7f7:f7f7", Special::Teredo),
            ("2001:1::1", Special::Protocol),
            ("2001:2::1", Special::Benchmarking),
            ("2001:3::1", Special::Protocol),
            ("2001:4:112::1", Special::Protocol),
            ("2001:1f::1", Special::Orchid),
            ("2001:2f::1", Special::Orchid),
            ("2001:3f::1", Special::Orchid),
            ("2001:db8::1", Special::Documentation),
            ("2002:808:808::1", Special::SixToFour),
            ("2620:4f:8000::1", Special::Protocol),
            ("3fff::1", Special::Documentation),
            ("4000::1", Special::Reserved),
            ("5f00::1", Special::Segment),
            ("8000::1", Special::Reserved),
            ("fd00::1", Special::Private),
            ("fd00:ec2::254", Special::Metadata),
            ("fd20:ce::254", Special::Metadata),
            ("fe80::1", Special::LinkLocal),
            ("fec0::1", Special::Private),
            ("ff02::1", Special::Multicast),
        ];
        for (address, special) in classes {
            assert_eq!(class(address), Some(special), "{address}");
        }
    }

    #[test]
    fn an_address_inside_an_address_is_that_address() {
        for address in [
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::",
            "2001:0:1:2:3:4:5601:5601",
        ] {
            assert_eq!(class(address), Some(Special::Metadata), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_outside_are_not_special() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2a00:1450::1",
            "3ffe::1",
        ] {
            assert_eq!(class(address), None, "{address}");
        }
    }

    #[test]
    fn names_that_stay_at_home_are_special_and_others_are_not() {
        for name in ["localhost", "a.localhost", "printer.local", "db.internal", "nas.home.arpa", "nas.lan"] {
            assert!(special_name(name).is_some(), "{name}");
        }
        for name in ["metadata.google.internal", "metadata", "instance-data"] {
            assert_eq!(special_name(name), Some(Special::Metadata), "{name}");
        }
        for name in
            ["example.com", "local.example.com", "notlocalhost", "mylocal", "example.test", "home.example"]
        {
            assert_eq!(special_name(name), None, "{name}");
        }
    }
}
