//! What git says about differences: how much of each file, and the text of it.

use contract::Reason;
use schemars::JsonSchema;
use serde::Serialize;

/// As many files as are listed.
const MOST_FILES: usize = 1000;

/// Options of every difference: numbers first, then the text; by no program of the repository's.
///
/// ATTACK(repository-diff-driver): a driver may name a program for what to show.
pub(super) const DIFFERENCE: &[&str] = &[
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--find-renames",
    "--numstat",
    "--patch",
    "-z",
];

/// How much of one file differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileChange {
    /// The file, relative to the repository.
    pub(super) path: String,
    /// What it was called before, if that is another name.
    pub(super) renamed_from: Option<String>,
    /// Lines that are new; none for what is not text.
    pub(super) added: Option<u64>,
    /// Lines that are gone; none for what is not text.
    pub(super) removed: Option<u64>,
}

/// A difference.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference<'a> {
    pub(super) files: Vec<FileChange>,
    /// Files that are not listed.
    pub(super) more_files: usize,
    pub(super) patch: &'a [u8],
}

impl Difference<'_> {
    /// Reads what [`DIFFERENCE`] gives: numbers of each file, an empty record, then the text.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Difference<'_>, Reason> {
        let mut found = Difference::default();
        while let Some(record) = next_record(&mut bytes) {
            if record.is_empty() {
                found.patch = bytes;
                break;
            }
            let change = read_change(&record, &mut bytes)
                .ok_or_else(|| Reason::bad_output("git's numbers of a difference are not understood"))?;
            if found.files.len() < MOST_FILES {
                found.files.push(change);
            } else {
                found.more_files += 1;
            }
        }
        Ok(found)
    }
}

/// The bytes up to the next NUL, as text. Nothing at the end.
pub(super) fn next_record(bytes: &mut &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let record = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    *bytes = parts.next().unwrap_or_default();
    Some(record)
}

/// `3\t1\tpath`, or `3\t1\t` with two more records: the old path and the new one.
fn read_change(record: &str, rest: &mut &[u8]) -> Option<FileChange> {
    let mut parts = record.splitn(3, '\t');
    let mut number = || match parts.next()? {
        "-" => Some(None),
        digits => digits.parse().ok().map(Some),
    };
    let (added, removed) = (number()?, number()?);
    let (path, renamed_from) = match parts.next()? {
        "" => {
            let from = next_record(rest)?;
            (next_record(rest)?, Some(from))
        }
        path => (path.to_owned(), None),
    };
    Some(FileChange { path, renamed_from, added, removed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_text_are_told_apart() {
        let bytes = b"3\t1\ta b\0-\t-\tlogo.png\x000\t0\t\0old\0new\0\0diff --git a/x b/x\n\0tail";
        let found = Difference::read(bytes).unwrap();
        let change = |path: &str, from: Option<&str>, added, removed| FileChange {
            path: path.to_owned(),
            renamed_from: from.map(str::to_owned),
            added,
            removed,
        };
        let expected = [
            change("a b", None, Some(3), Some(1)),
            change("logo.png", None, None, None),
            change("new", Some("old"), Some(0), Some(0)),
        ];
        assert_eq!(
            (found.files.as_slice(), found.patch),
            (&expected[..], &b"diff --git a/x b/x\n\0tail"[..])
        );
        assert_eq!(Difference::read(b"").unwrap(), Difference::default());
    }

    #[test]
    fn what_is_not_understood_is_no_answer() {
        for bytes in [&b"x\ty\tz\0"[..], b"1\0", b"1\t2\0", b"1\t2\t\0old"] {
            assert_eq!(Difference::read(bytes).unwrap_err().code.as_str(), "bad_output", "{bytes:?}");
        }
    }
}
