//! Hosts that are never on the outside: this machine, its neighbours, and the services that hand out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a host, as it stands in a URL, is literally a special-purpose address or a name for one.
///
/// A name that resolves to such an address is caught where the address is dialled.
pub fn is_special_host(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_local_name = bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.ends_with(".internal")
        || bare.ends_with(".local");
    is_local_name || numeric(bare).is_some_and(is_special)
}

fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => is_special_v6(address),
    }
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    match first {
        0 | 10 | 127 | 224.. => true,
        100 => second & 0xc0 == 64,
        169 => second == 254,
        172 => second & 0xf0 == 16,
        192 => second == 168 || (second == 0 && matches!(third, 0 | 2)) || (second == 88 && third == 99),
        198 => matches!(second, 18 | 19) || (second == 51 && third == 100),
        203 => second == 0 && third == 113,
        _ => false,
    }
}

fn is_special_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // ATTACK(address-in-address): an IPv4 address inside a mapped, compatible or translated one is that address.
    matches!(
        (first, second),
        (0 | 0x100 | 0x2002 | 0xfc00..=0xfdff | 0xfe80..=0xffff, _)
            | (0x64, 0xff9b)
            | (0x2001, 0 | 0x2 | 0xdb8)
    )
}

/// A host in any of the numeric forms that resolvers take: dotted, short, octal, hexadecimal, one number.
fn numeric(host: &str) -> Option<IpAddr> {
    if let Ok(address) = host.split('%').next().unwrap_or(host).parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(address));
    }
    let number = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(part, 8).ok(),
        None => part.parse().ok(),
    };
    let parts: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    let room = 8 * (4 - u32::try_from(leading.len()).ok().filter(|count| *count < 4)?);
    if leading.iter().any(|part| *part > 255) || (room < 32 && *last >= 1 << room) {
        return None;
    }
    let high = leading.iter().enumerate().map(|(place, part)| part << (24 - 8 * place)).sum::<u32>();
    Some(IpAddr::V4(Ipv4Addr::from(high | last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_its_neighbours_are_special_in_every_spelling() {
        let special = [
            "localhost",
            "LOCALHOST.",
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "0xa9fea9fe",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "[::1]",
            "::",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fe80::1%eth0",
            "fd00::1",
            "metadata.google.internal",
        ];
        for host in special {
            assert!(is_special_host(host), "{host}");
        }
    }

    #[test]
    fn hosts_of_the_outside_are_not() {
        for host in [
            "example.com",
            "1.1.1.1",
            "8.8.8.8",
            "2606:4700::1111",
            "10.example.com",
            "172.32.0.1",
            "dead.beef",
        ] {
            assert!(!is_special_host(host), "{host}");
        }
    }
}
