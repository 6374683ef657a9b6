//! `fs.read`.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clean::Findings;
use contract::Reason;
use rustix::fs::OFlags;

use super::root::{Place, Root, failed_io};
use crate::files::{Encoding, ReadInput, ReadOutput};
use crate::path::shown;

/// Lines that are given if nothing else is asked for.
const LINES: u64 = 2000;
/// Bytes of text that are given at once.
const TEXT: usize = 256 * 1024;

pub(super) fn read(
    root: &Root<'_>,
    input: &ReadInput,
    findings: &mut Findings,
) -> Result<ReadOutput, Reason> {
    let place = root.find(&input.path)?;
    let bytes = read_whole(root, &place)?;
    let size = bytes.len() as u64;
    let path = place.path.to_string_lossy().into_owned();
    match input.encoding {
        Encoding::Base64 if input.offset.is_some() || input.limit.is_some() => {
            Err(Reason::bad_arguments("`offset` and `limit` count lines, so they need the encoding `text`"))
        }
        Encoding::Base64 => Ok(ReadOutput {
            path,
            encoding: Encoding::Base64,
            content: STANDARD.encode(bytes),
            size,
            first_line: None,
            lines: None,
            truncated: false,
        }),
        Encoding::Text => {
            let text = text_of(&input.path, bytes)?;
            let part = lines_of(&text, input.offset, input.limit)?;
            let shown = clean::excerpt(text.as_bytes(), part.place.clone());
            findings.absorb(shown.findings);
            Ok(ReadOutput {
                path,
                encoding: Encoding::Text,
                content: shown.text,
                size,
                first_line: Some(part.first),
                lines: Some(part.all),
                truncated: part.truncated,
            })
        }
    }
}

/// Everything that is in a file, if it is not too large.
pub(super) fn read_whole(root: &Root<'_>, place: &Place) -> Result<Vec<u8>, Reason> {
    let (file, status) = place.open_file(OFlags::RDONLY)?;
    check_size(root, &place.text, u64::try_from(status.st_size).unwrap_or(u64::MAX))?;
    read_all(root, place, file)
}

/// The same of a file that is open. It may have grown since it was looked at.
pub(super) fn read_all(root: &Root<'_>, place: &Place, file: File) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    file.take(root.max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| failed_io("read", &place.text, &error))?;
    check_size(root, &place.text, bytes.len() as u64)?;
    Ok(bytes)
}

pub(super) fn check_size(root: &Root<'_>, text: &str, size: u64) -> Result<(), Reason> {
    if size <= root.max_bytes {
        return Ok(());
    }
    let (shown, most) = (shown(text), root.max_bytes);
    Err(Reason::tool_failed(format!(
        "`{shown}` has {size} bytes, and at most {most} are read or written at once"
    ))
    .with_hint("look at a part of it with `shell`, such as `head` or `sed -n`"))
}

/// Bytes as text, or why they are none.
pub(super) fn text_of(text: &str, bytes: Vec<u8>) -> Result<String, Reason> {
    String::from_utf8(bytes).map_err(|_| {
        Reason::bad_arguments(format!("`{}` is not UTF-8 text", shown(text)))
            .with_hint("read it with the encoding `base64`")
    })
}

/// Some lines of a text.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// Where they are.
    place: Range<usize>,
    first: u64,
    all: u64,
    truncated: bool,
}

/// The lines that are asked for, as many as are given at once. A single line that is longer is cut in it, between
/// characters.
fn lines_of(text: &str, offset: Option<u64>, limit: Option<u64>) -> Result<Part, Reason> {
    let all = text.split_inclusive('\n').count() as u64;
    let first = offset.unwrap_or(1);
    if first == 0 || limit == Some(0) {
        return Err(Reason::bad_arguments("lines are counted from 1, and at least one is read"));
    }
    if first > all.max(1) {
        return Err(Reason::bad_arguments(format!("the file has {all} lines, so none is number {first}")));
    }
    let wanted = limit.unwrap_or(LINES);
    let (mut begin, mut end, mut number) = (text.len(), text.len(), 0);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        number += 1;
        if number == first {
            begin = at;
        }
        let too_long = number > first && at + line.len() - begin.min(at) > TEXT;
        if number >= first.saturating_add(wanted) || (number >= first && too_long) {
            end = at;
            break;
        }
        at += line.len();
    }
    let end = text.floor_char_boundary(end.min(begin + TEXT));
    Ok(Part { place: begin..end, first, all, truncated: end < text.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(place: Range<usize>, first: u64, all: u64, truncated: bool) -> Part {
        Part { place, first, all, truncated }
    }

    #[test]
    fn lines_are_counted_from_one_and_keep_their_ends() {
        let text = "a\nb\r\nc";
        assert_eq!(lines_of(text, None, None), Ok(part(0..6, 1, 3, false)));
        assert_eq!(lines_of(text, Some(2), Some(1)), Ok(part(2..5, 2, 3, true)));
        assert_eq!(lines_of(text, Some(3), Some(9)), Ok(part(5..6, 3, 3, false)));
        assert_eq!(lines_of("", None, None), Ok(part(0..0, 1, 0, false)));
        assert!(lines_of(text, Some(4), None).is_err());
        assert!(lines_of(text, Some(0), None).is_err());
        assert_eq!(lines_of(text, Some(1), Some(u64::MAX)), Ok(part(0..6, 1, 3, false)));
    }

    #[test]
    fn a_long_text_is_given_in_parts_that_join_without_a_gap() {
        let text: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        let first = lines_of(&text, None, None).unwrap();
        assert_eq!((first.all, first.truncated), (5000, true));
        let second = lines_of(&text, Some(2001), None).unwrap();
        assert_eq!((first.place.start, first.place.end), (0, second.place.start));
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let text = "é".repeat(TEXT);
        let part = lines_of(&text, None, None).unwrap();
        assert_eq!((part.truncated, part.place), (true, 0..TEXT));
    }
}
