//! What a model is shown of a result, and what programs get.

use contract::{Output, Reason};

use super::output;
use super::types::{
    Encoding, Entry, FileResult, Kind, ListOutput, Match, ReadOutput, SearchOutput, StatOutput,
};
use super::verb::Verb;
use crate::path::shown;

/// Base64 that is shown; more is for programs.
const BASE64_SHOWN: usize = 10 * 1024;

/// Shows a result. One of another verb is a worker's lie.
pub(super) fn show(verb: Verb, result: FileResult) -> Result<Output, Reason> {
    match (verb, result) {
        (Verb::Read, FileResult::Read(read)) => output(read_text(&read), read),
        (Verb::Write, FileResult::Write(written)) => {
            let did = if written.created { "created" } else { "replaced" };
            output(format!("{did} `{}`, {} bytes", shown(&written.path), written.size), written)
        }
        (Verb::Append, FileResult::Append(written)) => {
            output(format!("appended to `{}`, now {} bytes", shown(&written.path), written.size), written)
        }
        (Verb::Edit, FileResult::Edit(edited)) => {
            let times = if edited.replaced == 1 { "once" } else { "every time" };
            let text = format!("replaced {times} in `{}`\n{}", shown(&edited.path), edited.diff);
            output(text, edited)
        }
        (Verb::List, FileResult::List(listed)) => output(list_text(&listed), listed),
        (Verb::Stat, FileResult::Stat(status)) => output(stat_text(&status), status),
        (Verb::MakeDirectory, FileResult::MakeDirectory(made)) => {
            let did = if made.created { "made" } else { "was there already:" };
            output(format!("{did} `{}`", shown(&made.path)), made)
        }
        (Verb::Move, FileResult::Move(moved)) => {
            output(format!("moved `{}` to `{}`", shown(&moved.from), shown(&moved.to)), moved)
        }
        (Verb::Delete, FileResult::Delete(deleted)) => {
            let text =
                format!("deleted `{}`: {} files and directories", shown(&deleted.path), deleted.removed);
            output(text, deleted)
        }
        (Verb::Search, FileResult::Search(found)) => output(search_text(&found), found),
        _ => Err(Reason::bad_output("the worker answered another question")),
    }
}

fn read_text(read: &ReadOutput) -> String {
    match read.encoding {
        Encoding::Base64 if read.content.len() > BASE64_SHOWN => {
            format!("{} bytes, as base64 in the structured result", read.size)
        }
        Encoding::Base64 => read.content.clone(),
        Encoding::Text if read.truncated => {
            let first = read.first_line.unwrap_or(1);
            let next = first + read.content.matches('\n').count() as u64;
            let all = read.lines.unwrap_or_default();
            if next > first {
                format!("{}\n… {all} lines in all; read on with `offset` {next}", read.content)
            } else {
                format!("{}\n… line {first} is longer than is read at once", read.content)
            }
        }
        Encoding::Text => read.content.clone(),
    }
}

fn list_text(listed: &ListOutput) -> String {
    let line = |entry: &Entry| {
        let name = shown(&entry.path);
        let note = if entry.hidden { "  (hidden)" } else { "" };
        match (entry.kind, entry.size) {
            (Kind::Directory, _) => format!("{name}/{note}\n"),
            (Kind::Link, _) => format!("{name}  (link){note}\n"),
            (Kind::Special, _) => format!("{name}  (pipe, socket or device){note}\n"),
            (Kind::File, Some(size)) => format!("{name}  {size}{note}\n"),
            (Kind::File, None) => format!("{name}{note}\n"),
        }
    };
    let mut text: String = listed.entries.iter().map(line).collect();
    if listed.entries.is_empty() {
        text.push_str("empty\n");
    }
    if listed.truncated {
        text.push_str("… there is more than was listed\n");
    }
    text
}

fn stat_text(status: &StatOutput) -> String {
    let kind = match status.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "symbolic link",
        Kind::Special => "pipe, socket or device",
    };
    let target =
        status.target.as_deref().map(|target| format!(" to `{}`", shown(target))).unwrap_or_default();
    format!("`{}`: {kind}{target}, {} bytes, mode {}", shown(&status.path), status.size, status.mode)
}

fn search_text(found: &SearchOutput) -> String {
    let line = |found: &Match| match (found.line, &found.text) {
        (Some(number), Some(text)) => format!("{}:{number}: {text}\n", shown(&found.path)),
        _ => format!("{}\n", shown(&found.path)),
    };
    let mut text: String = found.matches.iter().map(line).collect();
    if found.matches.is_empty() {
        text.push_str("nothing found\n");
    }
    if found.truncated {
        text.push_str("… there may be more than was found\n");
    }
    if found.skipped > 0 {
        text.push_str(&format!(
            "{} files were not searched: hidden, binary, too large or linked\n",
            found.skipped
        ));
    }
    text
}
