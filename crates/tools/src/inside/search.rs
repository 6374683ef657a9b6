//! `fs.search`.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use clean::Findings;
use contract::Reason;
use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use rustix::fs::{Mode, OFlags, fstat, openat};

use super::list::{kind_of, names_in, open_in, path_text};
use super::root::{Root, check_file};
use crate::files::{Kind, Match, Scope, SearchInput, SearchOutput};

const LIMIT: u32 = 100;
const MOST: u32 = 1000;
/// Entries that one search looks at.
const MOST_ENTRIES: u64 = 200_000;
/// Bytes that one search reads.
const MOST_BYTES: u64 = 512 * 1024 * 1024;
/// Characters of a line that are shown.
const LINE: usize = 300;
const MAX_PATTERN: usize = 4096;
const DEEPEST: usize = 64;
/// How much of a file is looked at to tell whether it is text.
const PEEK: usize = 8 * 1024;

pub(super) fn search(
    root: &Root<'_>,
    input: &SearchInput,
    findings: &mut Findings,
) -> Result<SearchOutput, Reason> {
    let mut search = Search {
        root,
        scope: input.scope,
        pattern: pattern_of(input)?,
        glob: input.glob.as_deref().map(glob_of).transpose()?,
        limit: usize::try_from(input.limit.unwrap_or(LIMIT).clamp(1, MOST)).unwrap_or(1),
        entries: 0,
        bytes: 0,
        findings: Findings::default(),
        output: SearchOutput { matches: Vec::new(), searched: 0, skipped: 0, truncated: false },
    };
    let place = root.find(&input.path)?;
    match (kind_of(&place.status()?), &place.name) {
        (Kind::File, Some(name)) => search.look_at_file(&place.directory, name, &place.path),
        _ => search.look_into(&place.open_directory()?, &place.path, 0),
    }
    findings.absorb(search.findings);
    Ok(search.output)
}

fn pattern_of(input: &SearchInput) -> Result<Regex, Reason> {
    if input.pattern.is_empty() || input.pattern.len() > MAX_PATTERN {
        return Err(Reason::bad_arguments("the pattern is empty, or longer than 4096 bytes"));
    }
    let text = if input.regex { input.pattern.clone() } else { regex::escape(&input.pattern) };
    // The engine takes time in proportion to the text, whatever the pattern; its size is what has to be limited.
    RegexBuilder::new(&text)
        .case_insensitive(input.ignore_case)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 21)
        .build()
        .map_err(|error| Reason::bad_arguments(format!("the pattern is not accepted: {error}")))
}

fn glob_of(text: &str) -> Result<GlobMatcher, Reason> {
    let invalid =
        || Reason::bad_arguments("the glob is not valid").with_hint("such as `*.rs` or `src/**/*.ts`");
    if text.len() > MAX_PATTERN {
        return Err(invalid());
    }
    // A glob without a directory is about the file's name, wherever the file is.
    let text = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
    let glob = GlobBuilder::new(&text).literal_separator(true).build().map_err(|_| invalid())?;
    Ok(glob.compile_matcher())
}

struct Search<'a> {
    root: &'a Root<'a>,
    scope: Scope,
    pattern: Regex,
    glob: Option<GlobMatcher>,
    limit: usize,
    entries: u64,
    bytes: u64,
    findings: Findings,
    output: SearchOutput,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.output.truncated
    }

    fn look_into(&mut self, handle: &OwnedFd, path: &Path, depth: usize) {
        let Ok((names, more)) = names_in(handle) else {
            self.output.skipped += 1;
            return;
        };
        self.output.truncated |= more || depth > DEEPEST;
        for name in names {
            if self.is_over() {
                return;
            }
            self.look_at(handle, &name, &path.join(&name), depth);
        }
    }

    fn look_at(&mut self, handle: &OwnedFd, name: &OsStr, path: &Path, depth: usize) {
        self.entries += 1;
        if self.entries > MOST_ENTRIES {
            self.output.truncated = true;
            return;
        }
        if self.root.guard.against_reading(path).is_some() {
            self.output.skipped += 1;
            return;
        }
        if name.eq_ignore_ascii_case(".git") {
            return;
        }
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let Ok(status) = rustix::fs::statat(handle, name, flags) else { return };
        let kind = kind_of(&status);
        if self.scope == Scope::Names {
            self.output.searched += 1;
            let text = path_text(path);
            if self.wants(path) && self.pattern.is_match(&text) {
                self.note(Match { path: text, line: None, text: None });
            }
        }
        match kind {
            Kind::Directory => match open_in(handle, name) {
                Ok(next) => self.look_into(&next, path, depth + 1),
                Err(_) => self.output.skipped += 1,
            },
            Kind::File if self.scope == Scope::Contents => self.look_at_file(handle, name, path),
            Kind::File | Kind::Link | Kind::Special => {}
        }
    }

    fn wants(&self, path: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.is_match(path))
    }

    fn look_at_file(&mut self, handle: &OwnedFd, name: &OsStr, path: &Path) {
        if !self.wants(path) {
            return;
        }
        let Some(bytes) = self.text_in(handle, name) else {
            self.output.skipped += 1;
            return;
        };
        self.output.searched += 1;
        self.bytes += bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes);
        let mut start = 0;
        for (number, whole) in text.split_inclusive('\n').enumerate() {
            if self.is_over() {
                return;
            }
            let line = whole.strip_suffix('\n').unwrap_or(whole);
            let line = line.strip_suffix('\r').unwrap_or(line);
            if self.pattern.is_match(line) {
                let length = line.char_indices().nth(LINE).map_or(line.len(), |(at, _)| at);
                let shown = clean::excerpt(text.as_bytes(), start..start + length);
                self.findings.absorb(shown.findings);
                let text = Some(shown.text);
                self.note(Match { path: path_text(path), line: Some(number as u64 + 1), text });
            }
            start += whole.len();
        }
        self.output.truncated |= self.bytes > MOST_BYTES;
    }

    /// What is in a file, if that is text of a sensible size, and the file has no name elsewhere.
    fn text_in(&self, handle: &OwnedFd, name: &OsStr) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(handle, name, flags, Mode::empty()).ok()?;
        let status = fstat(&file).ok()?;
        check_file("", &status).ok()?;
        if u64::try_from(status.st_size).ok()? > self.root.max_bytes {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::from(file).take(self.root.max_bytes).read_to_end(&mut bytes).ok()?;
        let is_binary = bytes.get(..bytes.len().min(PEEK)).is_some_and(|start| start.contains(&0));
        (!is_binary).then_some(bytes)
    }

    fn note(&mut self, found: Match) {
        if self.output.matches.len() < self.limit {
            self.output.matches.push(found);
        } else {
            self.output.truncated = true;
        }
    }
}
