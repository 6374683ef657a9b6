//! `git.show`: what a commit changed, or what a file was in it.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{ContractError, Definition, Example, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::diff::{DiffOutput, answer_of};
use super::line::Line;
use super::log::{COMMIT, Commit};
use super::names::Revision;
use super::patch::{DIFFERENCE, Difference};
use super::{Answer, Verb, Work, definition, failing, shortened};
use crate::path::Beneath;
use crate::pipeline::SHOWN;
use crate::tool::Tool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// The commit. The default is `HEAD`.
    revision: Option<String>,
    /// A file, relative to the repository: gives what it was in that commit, instead of what the commit changed.
    path: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowOutput {
    /// The commit, if no path was given.
    commit: Option<Commit>,
    /// What it changed, compared with the first commit before it; if no path was given.
    difference: Option<DiffOutput>,
    /// The file, if a path was given.
    file: Option<FileThen>,
}

/// What a file was.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileThen {
    /// Its content, cut in the middle if it is long; nothing if it is long and not text.
    content: String,
    /// `utf-8` or `base64`.
    encoding: Encoding,
    /// How long it is.
    bytes: usize,
    /// Whether something is left out here; the artifact `file` has it.
    truncated: bool,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
enum Encoding {
    #[serde(rename = "utf-8")]
    Text,
    #[serde(rename = "base64")]
    Base64,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Show a commit or an old file".into(),
        description: "Shows one commit, with its message, the numbers of each file and the patch; or, with `path`, what a \
            file was in that commit. Files with names that are hidden, such as `.env`, are left out."
            .into(),
        examples: vec![
            Example::of("the last commit", json!({})),
            Example::of("a file as it was two commits ago", json!({ "revision": "HEAD~2", "path": "src/main.rs" })),
        ],
        failure_modes: failing(&["bad_arguments: the revision is a range, or holds a path"]),
        ..definition::<ShowInput, ShowOutput>("git.show")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &ShowInput) -> Result<Work, Reason> {
    let revision = Revision::parse(input.revision.as_deref().unwrap_or("HEAD"))?;
    let repository = input.repository.as_ref();
    let Some(path) = &input.path else {
        let line = Line::of("log")
            .words(COMMIT)
            .words(DIFFERENCE)
            .words(&["--max-count=1", "--diff-merges=first-parent"]);
        return Ok(Work::look(repository, line.revisions([&revision]).seeing(&[])?));
    };
    // Neither part of it can begin with `-`, nor can the name end before its colon.
    let object = format!("{}:{}", revision.as_str(), Beneath::parse(path)?.text());
    let line = Line::of("cat-file").words(&["blob"]).names([object.as_str()]);
    Ok(Work { paths: vec![path.clone()], ..Work::look(repository, line) })
}

fn read(input: &ShowInput, mut bytes: &[u8]) -> Result<Answer<ShowOutput>, Reason> {
    if input.path.is_some() {
        return Ok(read_file(bytes));
    }
    let commit = Commit::read(&mut bytes)?.ok_or_else(|| Reason::bad_output("git showed no commit"))?;
    // Between the commit and its numbers there is a line break.
    let rest = bytes.strip_prefix(b"\n").unwrap_or(bytes);
    let Answer { structured, content, artifacts, findings } = answer_of(Difference::read(rest)?);
    let content = format!("{}\n{content}", commit.shown());
    let structured = ShowOutput { commit: Some(commit), difference: Some(structured), file: None };
    Ok(Answer { structured, content, artifacts, findings })
}

fn read_file(bytes: &[u8]) -> Answer<ShowOutput> {
    let of = |content, encoding, truncated| FileThen { content, encoding, bytes: bytes.len(), truncated };
    let is_text = str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    let whole = || vec![("file".to_owned(), bytes.to_vec())];
    let (file, content, artifacts, findings) = if is_text {
        let (cut, artifacts) = shortened(bytes, "file");
        (of(cut.text.clone(), Encoding::Text, cut.truncated), cut.text, artifacts, cut.findings)
    } else {
        let is_short = bytes.len() <= SHOWN / 2;
        let content = if is_short { STANDARD.encode(bytes) } else { String::new() };
        let said = format!("{} bytes that are not text\n", bytes.len());
        let kept = if is_short { Vec::new() } else { whole() };
        (of(content, Encoding::Base64, !is_short), said, kept, clean::Findings::default())
    };
    Answer {
        structured: ShowOutput { commit: None, difference: None, file: Some(file) },
        content,
        artifacts,
        findings,
    }
}
