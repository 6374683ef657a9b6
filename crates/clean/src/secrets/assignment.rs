//! Values that something called a password, a token or a key is given, if they are as mixed as a credential.

use std::ops::Range;

use super::super::class::Class;
use super::super::detect::Hit;
use super::proof::{has_luhn, is_placeholder, mixture};

/// What values are called that should stay secret.
pub(crate) const ASSIGNED: [&str; 23] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "accesskey",
    "access-key",
    "private_key",
    "privatekey",
    "auth_key",
    "authkey",
    "encryption_key",
    "signing_key",
    "accountkey",
    "sharedaccesskey",
    "credential",
    "_auth",
    "card_number",
];

/// The rest of a name that still means the value itself.
const NAME_ENDS: [&str; 17] = [
    "", "s", "key", "_key", "-key", "value", "_value", "_prod", "_dev", "_test", "_live", "_staging",
    "_base64", "_b64", "_default", "token", "_token",
];

/// How much is read of a value, in bytes.
const MOST_VALUE: usize = 512;

/// Looks whether a word is given a value that should not be shown.
pub(crate) fn find_assignment(bytes: &[u8], place: &Range<usize>) -> Option<Hit> {
    let word = bytes.get(place.clone())?;
    let is_password =
        word.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'p')) && !word.ends_with(b"key");
    let rest = bytes.get(place.end..(place.end + MOST_VALUE + 96).min(bytes.len()))?;
    let is_card = word.eq_ignore_ascii_case(b"card_number");
    let mut at = name_end(rest)?;
    let given = given(rest.get(at..)?);
    if given.is_none() && is_password {
        return after_login(bytes, place);
    }
    at += given?;
    let (quote, value) = value(rest.get(at..)?)?;
    let start = place.end + at + quote.map_or(0, |quote| quote.len());
    let range = start..start + value.len();
    if is_card {
        let digits: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b' ' | b'-')).collect();
        let is_number = digits.iter().all(u8::is_ascii_digit) && has_luhn(&digits);
        return is_number.then(|| Hit::secret("card-number", range));
    }
    let rule = if is_password { "assigned-password" } else { "assigned-secret" };
    let rule = if is_cloud_key(bytes, place, value) { "cloud-secret-key" } else { rule };
    let fits = match rule {
        "cloud-secret-key" => mixture(value) >= 380,
        "assigned-password" => is_password_value(value, quote.is_some()),
        _ => is_secret_value(value, quote.is_some()),
    };
    (fits && !is_stand_in(value)).then(|| Hit { rank: 3, ..Hit::secret(rule, range) })
}

/// Where a name ends that begins with the word, if it still means the value.
fn name_end(rest: &[u8]) -> Option<usize> {
    let length = Class::Slug.run_up_to(rest, 12);
    let end = rest.get(..length)?;
    let known = NAME_ENDS.iter().any(|known| end.eq_ignore_ascii_case(known.as_bytes()));
    (known || end.iter().all(u8::is_ascii_digit)).then_some(length)
}

/// How far it is from a name to the value it is given: quotes, blanks, a type, one operator.
fn given(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    let peek = |at: usize| rest.get(at).copied();
    if peek(at) == Some(b'\\') {
        at += 1;
    }
    if matches!(peek(at), Some(b'"' | b'\'' | b'`')) {
        at += 1;
    }
    if peek(at) == Some(b']') {
        at += 1;
    }
    at += blanks(rest, at);
    match (peek(at)?, peek(at + 1)) {
        (b'=', Some(b'>' | b'=')) | (b':', Some(b'=')) => at += 2,
        (b'=', _) => at += 1,
        (b':', _) => {
            at += 1;
            at += typed(rest.get(at..)?);
        }
        (b'(', Some(b'"' | b'\'')) => at += 1,
        (b',', Some(b' ' | b'"' | b'\'')) => {
            at += 1;
            at += blanks(rest, at);
            return matches!(peek(at), Some(b'"' | b'\'')).then_some(at);
        }
        _ => return None,
    }
    Some(at + blanks(rest, at))
}

fn blanks(rest: &[u8], at: usize) -> usize {
    rest.iter().skip(at).take(24).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// How long a type is that stands between a name and `=`, as in `token: &str = "…"`.
fn typed(rest: &[u8]) -> usize {
    let name = rest
        .iter()
        .take(40)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b" &'<>[]?_.:".contains(byte))
        .count();
    if name > 0 && rest.get(name) == Some(&b'=') { name + 1 } else { 0 }
}

/// The value, and the quote it stands in.
fn value(rest: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let prefix = match rest {
        [b'b' | b'r' | b'f' | b'u' | b'@' | b'$', b'"' | b'\'', ..] => 1,
        _ => 0,
    };
    let quote_length = match rest.get(prefix..)? {
        [b'\\', b'"' | b'\'', ..] => 2,
        [b'"' | b'\'' | b'`', ..] => 1,
        _ => {
            let ends = |byte: &u8| {
                !(b'!'..=b'~').contains(byte)
                    || matches!(
                        byte,
                        b'"' | b'\''
                            | b'`'
                            | b','
                            | b';'
                            | b'<'
                            | b'>'
                            | b'('
                            | b')'
                            | b'{'
                            | b'}'
                            | b'['
                            | b']'
                            | b'|'
                            | b'&'
                            | b'\\'
                    )
            };
            let length = rest.iter().take(MOST_VALUE).position(ends).unwrap_or(rest.len().min(MOST_VALUE));
            // What is called or indexed is a name.
            let is_name = matches!(rest.get(length), Some(b'(' | b'['));
            return (!is_name).then_some((None, rest.get(..length)?));
        }
    };
    let quote = rest.get(..prefix + quote_length)?;
    let mark = *quote.last()?;
    let inner = rest.get(quote.len()..)?;
    let length = inner.iter().take(MOST_VALUE).position(|byte| *byte == mark || *byte == b'\n')?;
    let value = inner.get(..length)?;
    Some((Some(quote), value.strip_suffix(b"\\").unwrap_or(value)))
}

/// Forty characters of base64 that a name with `secret` or `aws` in it is given.
fn is_cloud_key(bytes: &[u8], place: &Range<usize>, value: &[u8]) -> bool {
    let name = bytes.get(place.start.saturating_sub(16)..place.end).unwrap_or_default();
    let says = |word: &[u8]| name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    value.len() == 40
        && Class::Base64.run(value) == 40
        && !value.iter().all(u8::is_ascii_hexdigit)
        && (says(b"secret") || says(b"aws"))
}

fn is_password_value(value: &[u8], quoted: bool) -> bool {
    let least = if quoted { 8 } else { 10 };
    (least..=128).contains(&value.len())
        && mixture(value) >= if quoted { 275 } else { 300 }
        && kinds(value) >= 3
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().all(|byte| (b'!'..=b'~').contains(byte))
        && !is_code(value)
        && in_words(value) * 3 <= value.len() * 2
}

fn is_secret_value(value: &[u8], quoted: bool) -> bool {
    let least = if quoted { 16 } else { 20 };
    let plain = Class::Opaque.run(value) == value.len();
    (least..=MOST_VALUE).contains(&value.len())
        && plain
        && mixture(value) >= if value.iter().all(u8::is_ascii_hexdigit) { 300 } else { 350 }
        && value.iter().filter(|byte| byte.is_ascii_digit()).count() >= 2
        && kinds(value) >= 2
        && !is_identifier(value)
        && !is_code(value)
        && in_words(value) * 2 <= value.len()
}

/// Of how many kinds its characters are: small, capital, digit, other.
fn kinds(value: &[u8]) -> usize {
    let has = |is: fn(&u8) -> bool| usize::from(value.iter().any(is));
    has(u8::is_ascii_lowercase)
        + has(u8::is_ascii_uppercase)
        + has(u8::is_ascii_digit)
        + has(u8::is_ascii_punctuation)
}

/// UUIDs and digests with a name are identifiers; so are dates and versions.
fn is_identifier(value: &[u8]) -> bool {
    let is_uuid = value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let named = [&b"sha"[..], b"md5", b"urn:", b"arn:", b"uuid"];
    is_uuid || named.iter().any(|name| value.starts_with(name))
}

/// A path, a call, an address or a name of something else.
fn is_code(value: &[u8]) -> bool {
    let starts =
        [&b"/"[..], b"./", b"../", b"~/", b"$", b"%", b"@", b"http", b"file:", b"env.", b"process.", b"os."];
    let has = |part: &[u8]| value.windows(part.len()).any(|window| window == part);
    starts.iter().any(|start| value.starts_with(start))
        || has(b"::")
        || has(b"->")
        || has(b"://")
        || has(b"()")
        || is_constant(value)
        || is_dotted_name(value)
}

/// How much of it is words: runs of three or more letters, small ones after the first, or capitals.
fn in_words(value: &[u8]) -> usize {
    let small = value.chunk_by(|one, next| one.is_ascii_alphabetic() && next.is_ascii_lowercase());
    let capital = value.chunk_by(|one, next| one.is_ascii_uppercase() && next.is_ascii_uppercase());
    let small =
        small.filter(|run| run.len() >= 3 && run.iter().all(u8::is_ascii_alphabetic) && can_be_said(run));
    let capital = capital.filter(|run| run.len() >= 4 && run.iter().all(u8::is_ascii_uppercase));
    small.chain(capital).map(<[u8]>::len).sum()
}

/// Whether letters could be a word: a vowel, and never more than three consonants in a row.
fn can_be_said(letters: &[u8]) -> bool {
    let is_vowel = |letter: &u8| b"aeiouyAEIOUY".contains(letter);
    letters.iter().any(is_vowel) && !letters.windows(4).any(|four| !four.iter().any(is_vowel))
}

/// Names with dots between them.
fn is_dotted_name(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b'.');
    let is_name = |part: &[u8]| {
        part.first().is_some_and(u8::is_ascii_alphabetic) && Class::Word.run(part) == part.len()
    };
    value.contains(&b'.') && parts.all(is_name) && in_words(value) * 3 >= value.len()
}

/// The name of a constant, or a number.
fn is_constant(value: &[u8]) -> bool {
    let named = value.contains(&b'_') && value.iter().all(|byte| Class::Upper.has(*byte) || *byte == b'_');
    named || value.starts_with(b"0x")
}

/// What stands for a value that is elsewhere.
fn is_stand_in(value: &[u8]) -> bool {
    let marks = [
        &b"${"[..],
        b"{{",
        b"$(",
        b"%(",
        b"%s",
        b"<",
        b"{",
        b"*",
        b"test",
        b"sample",
        b"secret",
        b"token",
        b"password",
        b"{0}",
    ];
    let has = |part: &[u8]| value.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    marks.iter().any(|mark| has(mark)) || is_placeholder(value)
}

/// `machine HOST login NAME password VALUE`, as in `.netrc`.
fn after_login(bytes: &[u8], place: &Range<usize>) -> Option<Hit> {
    let before = bytes.get(place.start.saturating_sub(160)..place.start)?;
    let has = |part: &[u8]| before.windows(part.len()).any(|window| window == part);
    let rest = bytes.get(place.end..(place.end + 160).min(bytes.len()))?;
    let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let value = rest.get(blank..)?;
    let length = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
    let value = value.get(..length)?;
    let fits = has(b"login ") && (has(b"machine ") || has(b"default ")) && blank > 0 && value.len() >= 6;
    let start = place.end + blank;
    (fits && !is_stand_in(value))
        .then(|| Hit { rank: 3, ..Hit::secret("login-password", start..start + length) })
}
