//! The odd spellings of an IPv4 address: short, octal, hexadecimal, one number.

use std::net::Ipv4Addr;

/// Whether a resolver could take a name for a number, because its last label is one or begins like one.
pub(super) fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.starts_with("0x") || last.chars().all(|digit| digit.is_ascii_digit())
}

/// The address that such a name is to those who take these spellings.
pub(super) fn meant(name: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = name.split('.').map(part).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    let taken = u32::try_from(leading.len()).ok().filter(|count| *count < 4)?;
    let room = 8 * (4 - taken);
    if leading.iter().any(|part| *part > 255) || (room < 32 && *last >= 1 << room) {
        return None;
    }
    let high: u32 = leading.iter().zip([24, 16, 8]).map(|(part, shift)| part << shift).sum();
    Some(Ipv4Addr::from(high | last))
}

fn part(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}
