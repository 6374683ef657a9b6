//! Links and images that carry data away in their address, or that act when they are shown.
//!
//! An address that holds readable text (encoded, or as words), or a blank that the reader is meant to fill with what it
//! knows, is there to carry it. Signatures, digests and identifiers decode to noise, and stay.

use std::ops::Range;

use super::class::Class;
use super::decode::{from_base64, from_hex, from_percent, reads_as_text};
use super::detect::{Hit, Runs};
use super::finding::{Action, Category};

/// Markdown whose target is a program.
pub(super) const SCHEMES: [&str; 8] = [
    "](javascript:",
    "](javascript&colon;",
    "](javascript&#58;",
    "](vbscript:",
    "](data:text/html",
    "]: javascript:",
    "](<javascript:",
    "]: data:text/html",
];

/// What stands between a scheme and a host, also as Markdown and browsers read it.
pub(super) const BEFORE_HOST: [&str; 12] = [
    "://",
    "](//",
    "=\"//",
    "&#58;//",
    "&#x3a;//",
    "&colon;//",
    ":&#47;&#47;",
    ":&#x2f;&#x2f;",
    ":&sol;&sol;",
    ":/&#47;",
    ":&#47;/",
    ":\\\\",
];

pub(super) const RULES: [(&str, Action); 7] = [
    ("active-link", Action::Masked),
    ("bare-address", Action::Flagged),
    ("html-address", Action::Masked),
    ("image-address", Action::Masked),
    ("link-address", Action::Masked),
    ("reference-address", Action::Masked),
    ("style-address", Action::Masked),
];

/// How much of an address is judged, in bytes.
const MOST_JUDGED: usize = 4096;

/// Where an address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Image,
    Link,
    Reference,
    Html,
    Style,
    Bare,
}

/// Blanks that nothing but an order to a model leaves in an address.
const TELLING: [&[u8]; 16] = [
    b"conversation",
    b"chathistory",
    b"history",
    b"systemprompt",
    b"userdata",
    b"userinput",
    b"usermessage",
    b"secrets",
    b"credentials",
    b"apikey",
    b"exfil",
    b"base64",
    b"encoded",
    b"summary",
    b"memory",
    b"stolen",
];

/// Blanks that would be odd in an image.
const ODD: [&[u8]; 9] =
    [b"secret", b"password", b"token", b"data", b"message", b"answer", b"response", b"context", b"prompt"];

/// Looks whether a target is a program.
pub(super) fn find_scheme(bytes: &[u8], place: &Range<usize>) -> Option<Hit> {
    let mark = bytes.get(place.clone())?.iter().position(|byte| matches!(byte, b'(' | b':'))? + 1;
    let start = place.start + mark;
    let end = place.end + Class::Address.run_up_to(bytes.get(place.end..)?, MOST_JUDGED);
    Some(hit("active-link", Action::Masked, start..end))
}

/// Looks whether an address carries data.
pub(super) fn find_link(place: &Range<usize>, runs: &mut Runs<'_>) -> Option<Hit> {
    let bytes = runs.bytes();
    let start = match bytes.get(place.start)? {
        b':' | b'&' => place.start - Class::Letter.run_back(bytes.get(..place.start)?, 16),
        _ => place.end - 2,
    };
    let end = with_blank(bytes, runs.end(Class::Address, place.end));
    let judged = end.min(place.end + MOST_JUDGED);
    runs.judged = judged;
    let rest = bytes.get(place.end..judged)?;
    let host = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let tail = rest.get(host..)?;
    // Too short to carry anything, as nearly all are.
    if tail.len() < 6 {
        return None;
    }
    let around = Around::of(bytes.get(start.saturating_sub(256)..start)?);
    let carries = has_blank(tail, around.place) || has_text(tail, around.place);
    carries.then(|| {
        let (rule, action) = match around.place {
            Place::Image => ("image-address", Action::Masked),
            Place::Link => ("link-address", Action::Masked),
            Place::Reference => ("reference-address", Action::Masked),
            Place::Html => ("html-address", Action::Masked),
            Place::Style => ("style-address", Action::Masked),
            Place::Bare => ("bare-address", Action::Flagged),
        };
        Hit { goes_on: Some(Class::Address), ..hit(rule, action, start..end) }
    })
}

fn hit(rule: &'static str, action: Action, range: Range<usize>) -> Hit {
    Hit {
        start: range.start,
        end: range.end,
        category: Category::Exfiltration,
        rule,
        action,
        rank: 5,
        goes_on: None,
    }
}

struct Around {
    place: Place,
}

impl Around {
    /// What the text before an address makes of it.
    fn of(before: &[u8]) -> Around {
        let quoted = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'")).unwrap_or(before);
        let opened = before.strip_suffix(b"<").unwrap_or(before);
        let place = if let Some(text) = opened.strip_suffix(b"](") {
            let label = text.iter().rposition(|byte| *byte == b'[').and_then(|at| text.get(..at));
            if label.is_some_and(|label| label.ends_with(b"!")) { Place::Image } else { Place::Link }
        } else if opened.trim_ascii_end().ends_with(b"]:") {
            Place::Reference
        } else if [&b"src="[..], b"srcset=", b"href=", b"action=", b"poster=", b"data=", b"background="]
            .iter()
            .any(|name| ends_with(quoted, name))
        {
            Place::Html
        } else if ends_with(quoted, b"url(") {
            Place::Style
        } else {
            Place::Bare
        };
        Around { place }
    }
}

fn ends_with(text: &[u8], end: &[u8]) -> bool {
    text.len()
        .checked_sub(end.len())
        .and_then(|at| text.get(at..))
        .is_some_and(|last| last.eq_ignore_ascii_case(end))
}

/// Where an address ends if a blank such as `<NAME>` or `[NAME]` follows it.
fn with_blank(bytes: &[u8], end: usize) -> usize {
    let rest = bytes.get(end..).unwrap_or_default();
    let close = match rest.first() {
        Some(b'<') => b'>',
        Some(b'[') => b']',
        _ => return end,
    };
    let length = rest.iter().take(64).position(|byte| *byte == close);
    let name = length.and_then(|length| rest.get(1..length)).unwrap_or_default();
    let fits =
        !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_- ".contains(byte));
    if fits { end + name.len() + 2 } else { end }
}

/// Whether it has a blank for what a model knows.
fn has_blank(tail: &[u8], place: Place) -> bool {
    let mut rest = tail;
    while let Some(open) = rest.iter().position(|byte| matches!(byte, b'{' | b'<' | b'[')) {
        rest = rest.get(open + 1..).unwrap_or_default();
        let name = rest.get(..48.min(rest.len())).unwrap_or_default();
        let Some(close) = name.iter().position(|byte| matches!(byte, b'}' | b'>' | b']')) else { continue };
        let name: Vec<u8> = name
            .iter()
            .take(close)
            .filter(|byte| byte.is_ascii_alphanumeric())
            .map(u8::to_ascii_lowercase)
            .collect();
        let says =
            |words: &[&[u8]]| words.iter().any(|word| name.windows(word.len()).any(|part| part == *word));
        let strict = matches!(place, Place::Image | Place::Reference);
        if says(&TELLING) && place != Place::Bare || strict && says(&ODD) {
            return true;
        }
    }
    false
}

/// Whether one of its parts is readable text, as words or encoded.
fn has_text(tail: &[u8], place: Place) -> bool {
    // What is loaded without a click needs less to be one too many.
    let loads = matches!(place, Place::Image | Place::Html | Place::Style);
    let least = if place == Place::Bare { 48 } else { 24 };
    tail.split(|byte| matches!(byte, b'/' | b'?' | b'&' | b'#' | b';' | b'=' | b','))
        .filter(|part| part.len() >= least)
        .any(|part| is_prose(part, if loads { 7 } else { 16 }) || is_escaped(part) || is_encoded(part, least))
        || (loads
            && tail.iter().position(|byte| *byte == b'?').is_some_and(|query| tail.len() - query > 1500))
}

/// So many words or more in one value.
fn is_prose(part: &[u8], least: usize) -> bool {
    let blanks = part.windows(3).filter(|three| *three == b"%20").count()
        + part.iter().filter(|byte| **byte == b'+').count();
    blanks + 1 >= least && {
        let text = from_percent(part);
        let words = text.split(|byte| *byte == b' ').filter(|word| {
            word.len() > 1
                && word.iter().filter(|byte| byte.is_ascii_alphabetic()).count() * 4 >= word.len() * 3
        });
        reads_as_text(&text) && words.count() >= least
    }
}

/// Letters and digits need no escapes: whoever writes several so has something to hide.
fn is_escaped(part: &[u8]) -> bool {
    let escapes = part.windows(3).filter(|three| match three {
        [b'%', digits @ ..] => from_hex(digits).first().is_some_and(u8::is_ascii_alphanumeric),
        _ => false,
    });
    escapes.count() >= 8
}

fn is_encoded(part: &[u8], least: usize) -> bool {
    if Class::AnyHex.run(part) == part.len() {
        let text = from_hex(part);
        return text.len() * 2 >= least && reads_as_text(&text) && !is_known_text(&text);
    }
    let text = from_base64(part);
    text.len() * 4 / 3 + 2 >= part.len().min(least)
        && text.len() >= 18
        && reads_as_text(&text)
        && !is_known_text(&text)
}

/// A picture, or the address of one, is no secret.
fn is_known_text(text: &[u8]) -> bool {
    text.starts_with(b"<svg")
        || text.starts_with(b"<?xml")
        || (text.starts_with(b"http") && !text.contains(&b'?') && !text.contains(&b' '))
}
