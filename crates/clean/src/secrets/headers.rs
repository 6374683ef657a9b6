//! Credentials that stand where a protocol puts them: authorization headers and addresses.

use std::ops::Range;

use super::super::class::Class;
use super::super::decode::{from_base64, reads_as_text};
use super::super::detect::{Hit, Runs};
use super::proof::{is_placeholder, mixture};

/// What announces an authorization.
pub(crate) const HEADERS: [&str; 2] = ["bearer ", "basic "];

/// Passwords that documents write in addresses.
const NO_PASSWORDS: [&str; 24] = [
    "password", "passwd", "pass", "pwd", "secret", "token", "user", "username", "admin", "root", "test",
    "postgres", "mysql", "guest", "changeme", "example", "foo", "bar", "x", "xxx", "key", "api_key", "pw",
    "rabbitmq",
];

/// Hosts that documents write in addresses.
const EXAMPLE_HOSTS: [&str; 6] =
    ["example.com", "example.org", "example.net", ".example", ".invalid", "hostname"];

/// Looks whether a scheme of authorization is followed by what it takes.
pub(crate) fn find_header(bytes: &[u8], place: &Range<usize>, runs: &mut Runs<'_>) -> Option<Hit> {
    let end = runs.end(Class::Opaque, place.end);
    let value = bytes.get(place.end..end)?;
    let has_digit = value.iter().any(u8::is_ascii_digit);
    if bytes.get(place.start)?.eq_ignore_ascii_case(&b'b') && place.len() == "bearer ".len() {
        let fits = value.len() >= 20 && has_digit && mixture(value) >= 350 && !is_placeholder(value);
        return fits.then(|| Hit {
            rank: 2,
            goes_on: Some(Class::Opaque),
            ..Hit::secret("bearer-authorization", place.end..end)
        });
    }
    let text = from_base64(value.get(..256.min(value.len()))?);
    let fits = value.len() >= 8 && text.len() >= 6 && text.contains(&b':') && reads_as_text(&text);
    fits.then(|| Hit { rank: 2, ..Hit::secret("basic-authorization", place.end..end) })
}

/// Looks whether an address has a password in it: `scheme://name:password@host`.
pub(crate) fn find_password(bytes: &[u8], place: &Range<usize>) -> Option<Hit> {
    let rest = bytes.get(place.end..(place.end + 320).min(bytes.len()))?;
    let length = rest.iter().position(|byte| {
        matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'(' | b')' | b'|')
            || !(b'!'..=b'~').contains(byte)
    });
    let authority = rest.get(..length.unwrap_or(rest.len()))?;
    let at = authority.iter().rposition(|byte| *byte == b'@')?;
    let (user, host) = (authority.get(..at)?, authority.get(at + 1..)?);
    if !host.first().is_some_and(|first| first.is_ascii_alphanumeric() || matches!(first, b'[' | b'$' | b'{'))
    {
        return None;
    }
    let Some(colon) = user.iter().position(|byte| *byte == b':') else {
        let fits = user.len() >= 20 && mixture(user) >= 340 && user.iter().any(u8::is_ascii_digit);
        return (fits && !is_stand_in(user))
            .then(|| Hit { rank: 2, ..Hit::secret("url-token", place.end..place.end + at) });
    };
    if EXAMPLE_HOSTS.iter().any(|known| host.windows(known.len()).any(|part| part == known.as_bytes())) {
        return None;
    }
    let password = user.get(colon + 1..)?;
    let start = place.end + colon + 1;
    let fits = password.len() >= 3 && !is_stand_in(password);
    fits.then(|| Hit { rank: 2, ..Hit::secret("connection-password", start..start + password.len()) })
}

fn is_stand_in(password: &[u8]) -> bool {
    let is_known = NO_PASSWORDS.iter().any(|known| password.eq_ignore_ascii_case(known.as_bytes()));
    let is_template = [&b"$"[..], b"{", b"<", b"%("].iter().any(|start| password.starts_with(start))
        || (password.iter().any(|byte| b"$*{}[]%".contains(byte)) && mixture(password) < 350);
    let is_word = password.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    let has = |word: &[u8]| password.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    let masked = password.len() < 16
        && (has(b"pass") || has(b"ssw0rd") || has(b"secret") || has(b"sesame") || has(b"anon"));
    is_known || is_template || is_word || masked || is_placeholder(password)
}
