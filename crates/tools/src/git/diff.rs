//! `git.diff`: what differs between the files, the index and commits.

use std::sync::Arc;

use contract::{ContractError, Definition, Example, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::names::Revision;
use super::patch::{DIFFERENCE, Difference, FileChange};
use super::{Answer, Verb, Work, definition, failing, shortened};
use crate::tool::Tool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// Compare this commit. Without it the index is compared.
    from: Option<String>,
    /// With this one. Without it the files as they are.
    to: Option<String>,
    /// Compare what is to be committed, instead of the files as they are.
    #[serde(default)]
    staged: bool,
    /// Only these files and directories, relative to the repository.
    #[serde(default)]
    paths: Vec<String>,
    /// Lines around each change, at most 100. The default is 3.
    #[schemars(range(max = 100))]
    context: Option<u8>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffOutput {
    /// Each file that differs.
    pub(super) files: Vec<FileChange>,
    /// How many more there are that are not listed.
    pub(super) more_files: usize,
    /// The difference as a patch, cut in the middle if it is long.
    pub(super) patch: String,
    /// Whether something of the patch is left out here; the artifact `patch` has it.
    pub(super) truncated: bool,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Show differences".into(),
        description: "Shows what differs: by default between the index and the files as they are (`staged`: between the \
            last commit and the index; `from` and `to`: between commits). Gives the numbers of each file and the patch. \
            Files with names that are hidden, such as `.env`, are left out."
            .into(),
        examples: vec![
            Example::of("what did I change?", json!({})),
            Example::of("what will be committed?", json!({ "staged": true })),
            Example::of("what did the last commit do to src?", json!({ "from": "HEAD~1", "to": "HEAD", "paths": ["src"] })),
        ],
        failure_modes: failing(&["bad_arguments: `from` or `to` is a range, or `to` is given without `from`"]),
        ..definition::<DiffInput, DiffOutput>("git.diff")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &DiffInput) -> Result<Work, Reason> {
    let revision = |text: &Option<String>| text.as_deref().map(Revision::parse).transpose();
    let (from, to) = (revision(&input.from)?, revision(&input.to)?);
    if to.is_some() && (from.is_none() || input.staged) {
        return Err(Reason::bad_arguments("`to` goes with `from`, and not with `staged`"));
    }
    let line = Line::of("diff").words(DIFFERENCE).option("--unified", input.context.unwrap_or(3));
    let line = if input.staged { line.words(&["--cached"]) } else { line };
    Ok(Work::look(input.repository.as_ref(), line.revisions(from.iter().chain(&to)).seeing(&input.paths)?))
}

fn read(_: &DiffInput, bytes: &[u8]) -> Result<Answer<DiffOutput>, Reason> {
    Ok(answer_of(Difference::read(bytes)?))
}

/// A difference as an answer.
pub(super) fn answer_of(difference: Difference<'_>) -> Answer<DiffOutput> {
    let Difference { files, more_files, patch } = difference;
    let (cut, artifacts) = shortened(patch, "patch");
    let content = if files.is_empty() { "nothing differs\n".to_owned() } else { cut.text.clone() };
    let structured = DiffOutput { files, more_files, patch: cut.text, truncated: cut.truncated };
    Answer { structured, content, artifacts, findings: cut.findings }
}
