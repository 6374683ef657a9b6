//! What goes into the `fs` tools and what comes out of them. The same types cross to the worker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{BindInput, Looked};

/// How a file's bytes are written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    /// As UTF-8 text.
    #[default]
    Text,
    /// As base64, for anything else.
    Base64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadInput {
    /// The file, relative to the workspace.
    pub(crate) path: String,
    /// `text` (the default) or `base64`.
    #[serde(default)]
    pub(crate) encoding: Encoding,
    /// The first line wanted, counted from 1. Only with `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    /// How many lines are wanted. Only with `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadOutput {
    /// The file.
    pub(crate) path: String,
    /// How `content` is written.
    pub(crate) encoding: Encoding,
    /// What is in it, or the lines that were asked for.
    pub(crate) content: String,
    /// The size of the whole file, in bytes.
    pub(crate) size: u64,
    /// For text: which line `content` begins with.
    pub(crate) first_line: Option<u64>,
    /// For text: how many lines the file has.
    pub(crate) lines: Option<u64>,
    /// Whether there is more after `content`; read on with `offset`.
    pub(crate) truncated: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteInput {
    /// The file, relative to the workspace.
    pub(crate) path: String,
    /// All that is to be in it.
    pub(crate) content: String,
    /// How `content` is written: `text` (the default) or `base64`.
    #[serde(default)]
    pub(crate) encoding: Encoding,
    /// Fail if the file exists.
    #[serde(default)]
    pub(crate) create_only: bool,
    /// Make the directories it is in, if they are missing.
    #[serde(default)]
    pub(crate) parents: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteOutput {
    /// The file.
    pub(crate) path: String,
    /// Its size now, in bytes.
    pub(crate) size: u64,
    /// Whether it was not there before.
    pub(crate) created: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendInput {
    /// The file, relative to the workspace. It is made if it is missing.
    pub(crate) path: String,
    /// What is to be added at its end. No line break is added.
    pub(crate) content: String,
    /// How `content` is written: `text` (the default) or `base64`.
    #[serde(default)]
    pub(crate) encoding: Encoding,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditInput {
    /// The file, relative to the workspace.
    pub(crate) path: String,
    /// The text to be replaced, exactly as it stands in the file. It must be there once, unless `all` is set.
    pub(crate) old: String,
    /// The text to stand there instead.
    pub(crate) new: String,
    /// Replace every occurrence.
    #[serde(default)]
    pub(crate) all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditOutput {
    /// The file.
    pub(crate) path: String,
    /// How many occurrences were replaced.
    pub(crate) replaced: u64,
    /// Its size now, in bytes.
    pub(crate) size: u64,
    /// The lines that changed, `-` before and `+` after.
    pub(crate) diff: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListInput {
    /// The directory, relative to the workspace; `.` (the default) is the workspace itself.
    #[serde(default = "here")]
    pub(crate) path: String,
    /// List what is in its directories too.
    #[serde(default)]
    pub(crate) recursive: bool,
    /// With `recursive`: how many levels down, at most 32 (the default is 8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) depth: Option<u32>,
    /// How many entries at most, up to 10000 (the default is 1000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
}

fn here() -> String {
    ".".to_owned()
}

/// What kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Its path, relative to the directory that was listed. Bytes that are not UTF-8 are written as `\xNN`.
    pub(crate) path: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// Its size in bytes, if it is a file.
    pub(crate) size: Option<u64>,
    /// Whether it is kept from agents: its name usually means credentials.
    pub(crate) hidden: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListOutput {
    /// The directory.
    pub(crate) path: String,
    /// What is in it, sorted by name.
    pub(crate) entries: Vec<Entry>,
    /// Whether there is more than was listed.
    pub(crate) truncated: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatInput {
    /// The file or directory, relative to the workspace.
    pub(crate) path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatOutput {
    /// The file or directory.
    pub(crate) path: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its permissions, such as `0644`.
    pub(crate) mode: String,
    /// When its content last changed, in milliseconds since 1970.
    pub(crate) modified: i64,
    /// How many names it has.
    pub(crate) links: u64,
    /// Of a symbolic link: what it leads to.
    pub(crate) target: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeDirectoryInput {
    /// The directory to be made, relative to the workspace.
    pub(crate) path: String,
    /// Make the directories it is in too, and be content if it exists.
    #[serde(default)]
    pub(crate) parents: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeDirectoryOutput {
    /// The directory.
    pub(crate) path: String,
    /// Whether it was not there before.
    pub(crate) created: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveInput {
    /// What is to be moved, relative to the workspace.
    pub(crate) from: String,
    /// Its new path, relative to the workspace.
    pub(crate) to: String,
    /// Replace a file that is there already. Without it, that is an error.
    #[serde(default)]
    pub(crate) overwrite: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveOutput {
    /// Its old path.
    pub(crate) from: String,
    /// Its new path.
    pub(crate) to: String,
    /// Whether a file was replaced.
    pub(crate) replaced: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteInput {
    /// What is to be deleted, relative to the workspace.
    pub(crate) path: String,
    /// Delete a directory with everything in it.
    #[serde(default)]
    pub(crate) recursive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteOutput {
    /// What was deleted.
    pub(crate) path: String,
    /// How many files and directories are gone.
    pub(crate) removed: u64,
}

/// What a search looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// The lines of text files.
    #[default]
    Contents,
    /// The paths of files and directories.
    Names,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchInput {
    /// What to look for: a literal text, or a regular expression if `regex` is set.
    pub(crate) pattern: String,
    /// Where to look, relative to the workspace; `.` (the default) is the workspace itself.
    #[serde(default = "here")]
    pub(crate) path: String,
    /// `contents` (the default) or `names`.
    #[serde(default)]
    pub(crate) scope: Scope,
    /// Take `pattern` for a regular expression.
    #[serde(default)]
    pub(crate) regex: bool,
    /// Take capital and small letters for the same.
    #[serde(default)]
    pub(crate) ignore_case: bool,
    /// Look only at files whose path matches this, such as `*.rs` or `src/**/*.ts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) glob: Option<String>,
    /// How many matches at most, up to 1000 (the default is 100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Match {
    /// The file, relative to the workspace.
    pub(crate) path: String,
    /// Which line of it, counted from 1; nothing where names were searched.
    pub(crate) line: Option<u64>,
    /// That line, cut to a sensible length.
    pub(crate) text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchOutput {
    /// What was found, sorted by path and line.
    pub(crate) matches: Vec<Match>,
    /// How many files were looked at.
    pub(crate) searched: u64,
    /// How many were not: hidden, binary, too large, or known by another name elsewhere.
    pub(crate) skipped: u64,
    /// Whether there may be more than was found.
    pub(crate) truncated: bool,
}

/// One call of an `fs` tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FileCall {
    Read(ReadInput),
    Write(WriteInput),
    Append(AppendInput),
    Edit(EditInput),
    List(ListInput),
    Stat(StatInput),
    MakeDirectory(MakeDirectoryInput),
    Move(MoveInput),
    Delete(DeleteInput),
    Search(SearchInput),
    /// Not a call of its own: what others name, before people are asked about them.
    Bind(BindInput),
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FileResult {
    Read(ReadOutput),
    Write(WriteOutput),
    Append(WriteOutput),
    Edit(EditOutput),
    List(ListOutput),
    Stat(StatOutput),
    MakeDirectory(MakeDirectoryOutput),
    Move(MoveOutput),
    Delete(DeleteOutput),
    Search(SearchOutput),
    Bind(Vec<Looked>),
}
