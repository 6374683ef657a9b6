//! What holds for every host, whatever the text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{Host, HostPattern, Network, Reach, special_purpose};

/// Texts that are near to hosts: whole ones, parts in odd spellings, and noise.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z0-9_-]{1,6}",
        "(0x)?[0-9a-fA-FX]{1,9}",
        "[0-9０-９]{1,4}",
        "(xn--)?[a-z0-9-]{1,8}",
        "[à-ÿа-я]{1,4}",
        "\\PC{1,3}",
    ];
    let joined = proptest::collection::vec(part, 1..5);
    let joined = (joined, prop_oneof![Just("."), Just("。"), Just("．"), Just("..")], "[.。]?");
    prop_oneof![
        joined.prop_map(|(parts, dot, end)| format!("{}{end}", parts.join(dot))),
        any::<u128>().prop_map(|bits| format!("[{}]", Ipv6Addr::from_bits(bits))),
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_string()),
        ".*",
    ]
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    let v4 = prop_oneof![
        any::<u32>(),
        (
            prop::sample::select(vec![0_u32, 10, 100, 127, 169, 172, 192, 198, 203, 224, 240, 255]),
            any::<u32>()
        )
            .prop_map(|(first, rest)| (first << 24) | (rest >> 8)),
    ];
    let first = prop::sample::select(vec![
        0_u128, 0x64, 0x100, 0x2001, 0x2002, 0x2620, 0x3fff, 0x5f00, 0xfc00, 0xfd00, 0xfe80, 0xfec0, 0xff02,
    ]);
    let v6 = prop_oneof![
        any::<u128>(),
        (first, any::<u128>()).prop_map(|(first, rest)| (first << 112) | (rest >> 16))
    ];
    prop_oneof![
        v4.prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        v6.prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_spelling_of_a_host_is_read_as_that_host(text in texts()) {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
            let reach = Reach { host: HostPattern::Exact(host), port: 443 };
            prop_assert_eq!(Reach::parse(&reach.to_string()), Ok(reach));
        }
    }

    #[test]
    fn an_accepted_name_is_plain_and_no_number(text in texts()) {
        if let Ok(host) = Host::parse(&text) && let Some(name) = host.name() {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
            prop_assert!(name.chars().all(is_plain), "{name}");
            prop_assert!(name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len())), "{name}");
            let last = name.rsplit('.').next().unwrap();
            prop_assert!(!last.chars().all(|c| c.is_ascii_digit()) && !last.starts_with("0x"), "{name}");
            prop_assert!(name.parse::<IpAddr>().is_err(), "{name}");
        }
    }

    #[test]
    fn case_and_a_last_dot_make_no_other_host(name in "[a-z0-9]{1,8}(\\.[a-z][a-z0-9]{0,8}){1,3}") {
        let host = Host::parse(&name).unwrap();
        prop_assert_eq!(Host::parse(&name.to_uppercase()), Ok(host.clone()));
        prop_assert_eq!(Host::parse(&format!("{name}.")), Ok(host));
    }

    #[test]
    fn an_address_is_read_as_itself_and_mapped_ones_as_their_own(address in addresses()) {
        let host = Host::parse(&address.to_string()).unwrap();
        prop_assert_eq!(host.address(), Some(address.to_canonical()));
        if let IpAddr::V4(v4) = address {
            prop_assert_eq!(Host::parse(&v4.to_ipv6_mapped().to_string()), Ok(host));
        }
    }

    #[test]
    fn what_the_standard_library_calls_special_is_special(address in addresses()) {
        let is_special = match address {
            IpAddr::V4(v4) => {
                v4.is_unspecified() || v4.is_loopback() || v4.is_private() || v4.is_link_local()
                    || v4.is_broadcast() || v4.is_documentation() || v4.is_multicast()
            }
            IpAddr::V6(v6) => {
                v6.is_unspecified() || v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local()
                    || v6.is_multicast() || v6.to_ipv4().is_some()
            }
        };
        prop_assert!(!is_special || special_purpose(address).is_some(), "{address}");
    }

    #[test]
    fn a_mapped_address_is_special_if_its_own_is(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        let own = special_purpose(v4.into());
        prop_assert!(own.is_none() || special_purpose(v4.to_ipv6_mapped().into()) == own);
    }

    #[test]
    fn a_range_is_read_as_shown_and_holds_what_it_was_made_of(address in addresses(), bits in 0..=128_u8) {
        prop_assume!(address.to_canonical() == address);
        let range = Network::of(address, bits);
        prop_assert!(range.holds(address) && range.holds(range.first()) && range.holds(range.last()));
        prop_assume!(range.first().to_canonical() == range.first());
        prop_assert_eq!(Network::parse(&range.to_string()), Ok(range));
    }

    #[test]
    fn no_text_is_read_as_every_host(text in ".*|[*.:0-9a-z]{0,8}") {
        prop_assert!(Reach::parse(&text).ok().is_none_or(|reach| reach.host != HostPattern::Public));
    }
}
