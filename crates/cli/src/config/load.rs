//! Finds and reads the configuration.
//!
//! # Invariants
//! - A file that is there and cannot be understood is an error; nothing falls back to the defaults.
//! - Reading ends: only regular files, at most [`MOST_BYTES`], no anchor that expands without end.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use contract::show_hidden;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{NonFiniteFloatPolicy, alias_limits, budget, options};
use thiserror::Error;

use super::at::Place;
use super::environment;
use super::file::File;
use super::meaning::Meaning;
use super::problem::Problem;
use super::written::Written;

/// The name looked for where none is given.
pub(crate) const FILE_NAME: &str = "toolgate.yaml";

/// No configuration is larger.
const MOST_BYTES: u64 = 1 << 20;

/// More would not be read anyway.
const MOST_PROBLEMS: usize = 20;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    #[error("cannot read `{file}`")]
    Unreadable { file: String, source: io::Error },
    #[error("`{file}` is {what}, not a file")]
    NotAFile { file: String, what: &'static str },
    #[error("`{file}` is not trusted: {why}")]
    NotTrusted { file: String, why: &'static str },
    #[error("`{file}` is larger than a configuration may be: 1 MiB")]
    TooLarge { file: String },
    /// What is wrong with its text, in the order of the file.
    #[error("{}", problems.iter().map(|problem| format!("{file}:{problem}")).collect::<Vec<_>>().join("\n"))]
    Invalid { file: String, problems: Vec<Problem> },
}

/// A configuration that was understood.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Where it comes from.
    pub(crate) source: Source,
    /// What it means.
    pub(crate) meaning: Meaning,
    /// Where its keys stand.
    pub(crate) written: Written,
    /// What a person should know about it.
    pub(crate) warnings: Vec<String>,
}

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// This file.
    File(PathBuf),
    /// There is no file.
    BuiltIn,
}

/// The configuration in force: the file named, else `TOOLGATE_CONFIG`, else `toolgate.yaml` in the state folder, else
/// what is built in.
///
/// DECISION(0006): never one that merely lies in the current directory. That is the workspace, and
/// whoever wrote it, an agent or the author of a cloned repository, would decide what agents may do.
pub(crate) fn load(named: Option<&Path>) -> Result<Loaded, LoadError> {
    if let Some(path) = chosen(named) {
        return load_file(&path);
    }
    let own = environment::state_folder().map(|folder| folder.join(FILE_NAME));
    let mut loaded = match &own {
        // A link that leads nowhere is there all the same: it is an error, not a reason to go without.
        Some(path) if !is_missing(path) => load_file(path)?,
        _ => Loaded {
            source: Source::BuiltIn,
            meaning: Meaning::default(),
            written: Written::default(),
            warnings: strays_beside(own.clone()),
        },
    };
    if !is_missing(Path::new(FILE_NAME)) {
        let home = own.as_deref().map_or("TOOLGATE_HOME".to_owned(), quoted);
        let warning = format!(
            "`{FILE_NAME}` here is not read: if it is yours, move it to {home}, or out of the workspace and name it with `--config`"
        );
        loaded.warnings.push(warning);
    }
    Ok(loaded)
}

/// Reads a configuration that is decided beside another; or says why it cannot be.
pub(crate) fn load_shadow(file: &Path) -> Result<Loaded, String> {
    let loaded = load_file(file).map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    match loaded.meaning.while_running.shadow {
        None => Ok(loaded),
        Some(_) => Err(format!("{} is a shadow, and has none itself", quoted(file))),
    }
}

/// Where the configuration is, or would be.
pub(crate) fn place(named: Option<&Path>) -> Option<PathBuf> {
    chosen(named).or_else(|| environment::state_folder().map(|folder| folder.join(FILE_NAME)))
}

/// The file that somebody has chosen.
fn chosen(named: Option<&Path>) -> Option<PathBuf> {
    named.map(Path::to_owned).or_else(environment::config_file)
}

/// Files in the state folder that somebody may take for the configuration.
fn strays_beside(own: Option<PathBuf>) -> Vec<String> {
    let strays = own.iter().flat_map(|path| ["yml", "json"].map(|end| path.with_extension(end)));
    let warn = |path: PathBuf| format!("{} is not read: the name looked for is `{FILE_NAME}`", quoted(&path));
    strays.filter(|path| !is_missing(path)).map(warn).collect()
}

/// Reads one file.
pub(crate) fn load_file(path: &Path) -> Result<Loaded, LoadError> {
    understand(&read(path)?, path)
}

/// What the text of a configuration means that is no file of this machine. It has no say in which files are looked at: hooks
/// are left out, and rules stand in it or nowhere.
pub(crate) fn understand_text(text: &str) -> Result<Loaded, LoadError> {
    const NAME: &str = "candidate.yaml";
    let (file, path) = (NAME.to_owned(), Path::new(NAME));
    if text.len() as u64 > MOST_BYTES {
        return Err(LoadError::TooLarge { file });
    }
    let invalid = |problem| LoadError::Invalid { file: file.clone(), problems: vec![problem] };
    let (mut tree, text) = parse(text.as_bytes(), false).map_err(invalid)?;
    // Whoever may try a policy is not whoever may look at this machine's files.
    let files = tree.policy.get().and_then(|policy| policy.files.get());
    if let Some(file) = files.and_then(|files| files.first()) {
        let why = "no file of rules is read for a configuration that comes as a text: put its rules under `policy.rules`";
        return Err(invalid(Problem::new(file.place, why)));
    }
    tree.hooks = Default::default();
    understood(&tree, text, path)
}

/// What the content of a file means.
pub(super) fn understand(bytes: &[u8], path: &Path) -> Result<Loaded, LoadError> {
    let file = name_of(path);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let (tree, text) = parse(bytes, is_json)
        .map_err(|problem| LoadError::Invalid { file: file.clone(), problems: vec![problem] })?;
    understood(&tree, text, path)
}

fn understood(tree: &File, text: &str, path: &Path) -> Result<Loaded, LoadError> {
    let file = name_of(path);
    let invalid = |mut problems: Vec<Problem>| {
        problems.sort();
        problems.truncate(MOST_PROBLEMS);
        LoadError::Invalid { file: file.clone(), problems }
    };
    let (meaning, warnings) = Meaning::of(tree, text, path).map_err(invalid)?;
    let written = parse_as(text).map_err(|problem| invalid(vec![problem]))?;
    let written = Written::of(&written);
    let warnings = warnings.iter().map(|warning| format!("{file}:{warning}")).collect();
    Ok(Loaded { source: Source::File(path.to_owned()), meaning, written, warnings })
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The content of a file that decides.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    read_with_owner(path).map(|(bytes, _)| bytes)
}

/// The same, and whose it is.
pub(super) fn read_with_owner(path: &Path) -> Result<(Vec<u8>, u32), LoadError> {
    let unreadable = |source| LoadError::Unreadable { file: name_of(path), source };
    // Opening a named pipe would wait for a writer.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    let kind = metadata.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "a directory" } else { "a pipe or a device" };
        return Err(LoadError::NotAFile { file: name_of(path), what });
    }
    if let Some(why) = why_not_trusted(metadata.mode(), metadata.uid(), geteuid().as_raw()) {
        return Err(LoadError::NotTrusted { file: name_of(path), why });
    }
    let mut bytes = Vec::new();
    opened.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(LoadError::TooLarge { file: name_of(path) });
    }
    Ok((bytes, metadata.uid()))
}

/// What decides must not be written by whoever likes to: in `/tmp`, the file found could be anybody's.
fn why_not_trusted(mode: u32, owner: u32, caller: u32) -> Option<&'static str> {
    if mode & 0o002 != 0 {
        return Some("anybody can write it");
    }
    // Root reads the files of those it works for, as in a container.
    (owner != 0 && owner != caller && caller != 0).then_some("it belongs to somebody else")
}

/// From bytes to the tree that was typed, and its text.
fn parse(bytes: &[u8], is_json: bool) -> Result<(File, &str), Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (before, _) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        Problem::new(Place { line, column }, format!("the byte `0x{byte:02x}` is not UTF-8"))
    })?;
    if is_json {
        check_json(text)?;
    }
    // An emptied file is more likely an accident than the wish for all defaults; `{}` says that.
    let tree: Option<File> = parse_as(text)?;
    let tree = tree
        .ok_or_else(|| Problem::new(Place::START, "there is nothing in it; for all defaults write `{}`"))?;
    Ok((tree, text))
}

fn parse_as<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    // A few lines of anchors can expand to more than memory holds: what they expand to is counted, not what is written.
    let options = options! {
        with_snippet: false,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        budget: budget! { max_depth: 32, max_documents: 2, max_aliases: 1_000, max_anchors: 1_000 },
        alias_limits: alias_limits! { max_total_replayed_events: 50_000, max_replay_stack_depth: 16 },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| Problem::of_yaml(&error, text))
}

/// YAML permits more than JSON does, and a file that says it is JSON should be.
fn check_json(text: &str) -> Result<(), Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str::<Value>(text).map(|_| ()).map_err(|error| {
        let message = error.to_string();
        let bare = message.split(" at line ").next().unwrap_or(&message);
        let place = Place { line: error.line().max(1) as u64, column: error.column().max(1) as u64 };
        let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
        Problem::new(place, format!("not JSON: {bare}, in `{}`", super::problem::shown(line.trim())))
    })
}

/// A path as it may be printed.
pub(crate) fn name_of(path: &Path) -> String {
    show_hidden(&path.to_string_lossy())
}

fn quoted(path: &Path) -> String {
    format!("`{}`", name_of(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_comes_as_a_text_has_no_file_looked_at() {
        assert!(understand_text("approval:\n  rules:\n    - { tool: shell, action: deny }\n").is_ok());
        // A file it would fail on, were it looked at.
        let hook = understand_text("hooks:\n  - { name: x, command: /there/is/none }\n").unwrap();
        assert_eq!(hook.meaning.settings.hooks, []);
        let rules = understand_text("policy:\n  files: [/etc/passwd]\n").unwrap_err().to_string();
        assert!(rules.contains("no file of rules is read") && !rules.contains("root"), "{rules}");
        let long = format!("# {}\n{{}}\n", "x".repeat(1 << 20));
        assert!(matches!(understand_text(&long), Err(LoadError::TooLarge { .. })));
    }

    #[test]
    fn only_root_and_the_caller_write_what_decides() {
        assert_eq!(why_not_trusted(0o100_644, 1000, 1000), None);
        assert_eq!(why_not_trusted(0o100_664, 0, 1000), None);
        assert_eq!(why_not_trusted(0o100_644, 1000, 0), None);
        assert_eq!(why_not_trusted(0o100_644, 1001, 1000), Some("it belongs to somebody else"));
        assert_eq!(why_not_trusted(0o100_666, 1000, 1000), Some("anybody can write it"));
    }
}
