//! Strings shaped like a credential.
//!
//! Knows formats, not services: nothing is asked whether a credential is still good.

mod assignment;
mod blocks;
mod formats;
mod headers;
mod proof;

use std::ops::Range;

pub(super) use assignment::{ASSIGNED, find_assignment};
pub(super) use blocks::{ENCODED_KEY, KEY_BLOCKS, find_encoded_key, find_key_block};
pub(super) use formats::{FORMATS, Format};
pub(super) use headers::{HEADERS, find_header, find_password};

use super::class::Class;
use super::detect::{Hit, Runs};
use formats::{Part, Proof};
use proof::{has_crc_hex, has_crc62, is_token_header, looks_random};

/// Rules that are not in the table of formats.
pub(super) const OTHER_RULES: [&str; 12] = [
    "assigned-password",
    "assigned-secret",
    "basic-authorization",
    "bearer-authorization",
    "card-number",
    "cloud-secret-key",
    "connection-password",
    "encoded-private-key",
    "login-password",
    "private-key",
    "static-key",
    "url-token",
];

/// Looks whether a format's prefix is followed by the rest of it.
pub(super) fn find_format(format: &Format, place: &Range<usize>, runs: &mut Runs<'_>) -> Option<Hit> {
    let bytes = runs.bytes();
    if bytes.get(place.clone())? != format.prefix.as_bytes() {
        return None;
    }
    let mut start = place.start;
    if let Some((class, least, most)) = format.before {
        let run = class.run_back(bytes.get(..start)?, most + 1);
        if !(least..=most).contains(&run) {
            return None;
        }
        start -= run;
    }
    let mut at = place.end;
    let mut last = Class::Alnum;
    let mut open = false;
    let mut ends = [0; 2];
    for (number, part) in format.parts.iter().enumerate() {
        match part {
            Part::Take(class, least, most) => {
                let end = runs.end(*class, at);
                if !(*least..=*most).contains(&(end - at)) {
                    return None;
                }
                (at, last, open) = (end, *class, *most == usize::MAX);
            }
            Part::Is(text) => {
                let end = at + text.len();
                if bytes.get(at..end)? != text.as_bytes() {
                    return None;
                }
                (at, open) = (end, false);
            }
        }
        if let Some(end) = ends.get_mut(number) {
            *end = at;
        }
    }
    let is_free = || starts_freely(bytes, start) && !bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let body = bytes.get(place.end..at)?;
    // What stands around it proves as much as what follows.
    let judged = if format.before.is_some() { bytes.get(start..at)? } else { body };
    let holds = match format.proof {
        Proof::Random => is_free() && looks_random(judged),
        Proof::Crc62 => has_crc62(body) || (is_free() && looks_random(body)),
        Proof::CrcHex => has_crc_hex(bytes.get(start..at)?) || (is_free() && looks_random(body)),
        Proof::Jwt => is_free() && is_token_header(bytes.get(start..ends[0])?),
    };
    holds.then(|| {
        let goes_on = open.then_some(last);
        Hit { rank: 0, goes_on, ..Hit::secret(format.rule, start..at) }
    })
}

/// Whether nothing before a place belongs to the same word: an escape sequence of source code or of an address does not.
fn starts_freely(bytes: &[u8], start: usize) -> bool {
    let before = bytes.get(..start).unwrap_or_default();
    match before {
        [.., b'\\', b'n' | b't' | b'r' | b'b' | b'f'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., last] => !(last.is_ascii_alphanumeric() || *last == b'_'),
        [] => true,
    }
}
