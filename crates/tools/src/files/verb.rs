//! The ten verbs of the `fs` tools: their contracts, and what their arguments mean.

use contract::{Category, Definition, EgressClass, Example, Idempotency, Reason, SafetyClass};
use policy::WorkspaceAccess;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::types::{
    AppendInput, DeleteInput, DeleteOutput, EditInput, EditOutput, FileCall, ListInput, ListOutput,
    MakeDirectoryInput, MakeDirectoryOutput, MoveInput, MoveOutput, ReadInput, ReadOutput, SearchInput,
    SearchOutput, StatInput, StatOutput, WriteInput, WriteOutput,
};
use crate::path::Beneath;
use crate::wire::Word;

/// What an `fs` tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    Append,
    Edit,
    List,
    Stat,
    MakeDirectory,
    Move,
    Delete,
    Search,
}

impl Verb {
    pub(crate) const ALL: [Verb; 10] = [
        Verb::Read,
        Verb::Write,
        Verb::Edit,
        Verb::Append,
        Verb::List,
        Verb::Stat,
        Verb::MakeDirectory,
        Verb::Move,
        Verb::Delete,
        Verb::Search,
    ];

    /// What it does to the workspace at most.
    pub(crate) fn access(self) -> WorkspaceAccess {
        match self {
            Verb::Read | Verb::List | Verb::Stat | Verb::Search => WorkspaceAccess::Read,
            Verb::Write | Verb::Append | Verb::Edit | Verb::MakeDirectory | Verb::Move | Verb::Delete => {
                WorkspaceAccess::Write
            }
        }
    }

    pub(crate) fn safety(self) -> SafetyClass {
        match self.access() {
            WorkspaceAccess::Write => SafetyClass::Write,
            WorkspaceAccess::None | WorkspaceAccess::Read => SafetyClass::Read,
        }
    }

    /// Reads its arguments.
    pub(crate) fn parse(self, arguments: &Value) -> Result<FileCall, Reason> {
        fn read<T: DeserializeOwned>(
            arguments: &Value,
            make: impl FnOnce(T) -> FileCall,
        ) -> Result<FileCall, Reason> {
            T::deserialize(arguments).map(make).map_err(|error| Reason::bad_arguments(error.to_string()))
        }
        match self {
            Verb::Read => read(arguments, FileCall::Read),
            Verb::Write => read(arguments, FileCall::Write),
            Verb::Append => read(arguments, FileCall::Append),
            Verb::Edit => read(arguments, FileCall::Edit),
            Verb::List => read(arguments, FileCall::List),
            Verb::Stat => read(arguments, FileCall::Stat),
            Verb::MakeDirectory => read(arguments, FileCall::MakeDirectory),
            Verb::Move => read(arguments, FileCall::Move),
            Verb::Delete => read(arguments, FileCall::Delete),
            Verb::Search => read(arguments, FileCall::Search),
        }
    }

    /// What its author declares.
    pub(crate) fn definition(self) -> Definition {
        let base = match self {
            Verb::Read => read(),
            Verb::Write => write(),
            Verb::Append => append(),
            Verb::Edit => edit(),
            Verb::List => list(),
            Verb::Stat => stat(),
            Verb::MakeDirectory => make_directory(),
            Verb::Move => move_(),
            Verb::Delete => delete(),
            Verb::Search => search(),
        };
        let own = base.failure_modes.into_iter();
        Definition {
            category: Category::FileSystem,
            safety: self.safety(),
            egress: EgressClass::None,
            idempotency: Idempotency::Optional,
            failure_modes: own.chain(COMMON_FAILURES.map(str::to_owned)).collect(),
            ..base
        }
    }
}

impl FileCall {
    /// What kind of action it is.
    pub(crate) fn action(&self) -> &'static str {
        match self {
            FileCall::Read(_)
            | FileCall::List(_)
            | FileCall::Stat(_)
            | FileCall::Search(_)
            | FileCall::Bind(_) => "code:read",
            FileCall::Write(WriteInput { create_only: true, .. }) | FileCall::MakeDirectory(_) => {
                "code:create"
            }
            FileCall::Delete(_) | FileCall::Move(MoveInput { overwrite: true, .. }) => "code:delete",
            FileCall::Write(_) | FileCall::Append(_) | FileCall::Edit(_) | FileCall::Move(_) => "code:write",
        }
    }

    /// The files it names, as they are bound: what it reads, replaces or removes must be what people were asked about.
    pub(crate) fn operands(&self) -> Result<Vec<Word>, Reason> {
        match self {
            FileCall::Read(_)
            | FileCall::Write(_)
            | FileCall::Append(_)
            | FileCall::Edit(_)
            | FileCall::Move(_)
            | FileCall::Delete(_) => {}
            // What is in a directory is bound by nothing.
            FileCall::List(_)
            | FileCall::Stat(_)
            | FileCall::MakeDirectory(_)
            | FileCall::Search(_)
            | FileCall::Bind(_) => return Ok(Vec::new()),
        }
        Ok(self.paths()?.iter().map(Word::of_path).collect())
    }

    /// The paths with which it means everything beneath, as they were written.
    pub(crate) fn trees(&self) -> Vec<&str> {
        match self {
            FileCall::List(ListInput { recursive: true, path, .. })
            | FileCall::Delete(DeleteInput { recursive: true, path })
            | FileCall::Search(SearchInput { path, .. }) => vec![path],
            FileCall::Move(input) => vec![&input.from, &input.to],
            FileCall::Read(_)
            | FileCall::Write(_)
            | FileCall::Append(_)
            | FileCall::Edit(_)
            | FileCall::List(_)
            | FileCall::Stat(_)
            | FileCall::MakeDirectory(_)
            | FileCall::Delete(_)
            | FileCall::Bind(_) => Vec::new(),
        }
    }

    /// The paths it names.
    pub(crate) fn paths(&self) -> Result<Vec<Beneath>, Reason> {
        let named: Vec<&str> = match self {
            FileCall::Read(input) => vec![&input.path],
            FileCall::Write(input) => vec![&input.path],
            FileCall::Append(input) => vec![&input.path],
            FileCall::Edit(input) => vec![&input.path],
            FileCall::List(input) => vec![&input.path],
            FileCall::Stat(input) => vec![&input.path],
            FileCall::MakeDirectory(input) => vec![&input.path],
            FileCall::Move(input) => vec![&input.from, &input.to],
            FileCall::Delete(input) => vec![&input.path],
            FileCall::Search(input) => vec![&input.path],
            FileCall::Bind(_) => Vec::new(),
        };
        named.into_iter().map(Beneath::parse).collect()
    }
}

const COMMON_FAILURES: [&str; 4] = [
    "outside: an absolute path, `..`, or a symbolic link; paths are relative to the workspace",
    "protected: the name usually holds credentials (`.env`, `.ssh`, `*.pem`), or makes the host run code (`.git`, `.vscode`)",
    "tool_failed: no such file, not a regular file, a file with a second name (hard link), no permission, disk full",
    "cannot_enforce: this host cannot put the worker behind walls; the hint says what to do",
];

fn read() -> Definition {
    Definition {
        title: "Read a file".into(),
        description: "Reads a file of the workspace. Text comes as it is, at most 2000 lines or 256 KiB at once: \
            `truncated` says that there is more, and `offset` reads on from a line. Use `base64` for what is not \
            UTF-8 text. Files over the size limit (10 MiB by default) are not read."
            .into(),
        action: "code:read".into(),
        examples: vec![
            Example::of("a whole file", json!({ "path": "src/main.rs" })),
            Example::of("lines 200 to 249", json!({ "path": "src/main.rs", "offset": 200, "limit": 50 })),
            Example::of("an image", json!({ "path": "logo.png", "encoding": "base64" })),
        ],
        failure_modes: vec!["bad_arguments: the file is not UTF-8 text; read it as `base64`".into()],
        ..Definition::of::<ReadInput, ReadOutput>("fs.read")
    }
}

fn write() -> Definition {
    Definition {
        title: "Write a file".into(),
        description: "Writes a whole file of the workspace, replacing what was in it, in one step: a reader sees the \
            old content or the new, never a part. The file's permissions stay. To change a part of a file, `fs.edit` \
            is safer and shorter."
            .into(),
        action: "code:write".into(),
        examples: vec![
            Example::of("a new file in a new directory", json!({ "path": "docs/notes.md", "content": "# Notes\n", "parents": true })),
            Example::of("only if it is not there yet", json!({ "path": "LICENSE", "content": "MIT\n", "create_only": true })),
        ],
        failure_modes: vec!["tool_failed: the file exists and `create_only` is set; its directory is missing".into()],
        ..Definition::of::<WriteInput, WriteOutput>("fs.write")
    }
}

fn append() -> Definition {
    Definition {
        title: "Append to a file".into(),
        description: "Adds text at the end of a file of the workspace, and makes the file if it is missing. Nothing is \
            added between: begin or end `content` with a line break if you want one."
            .into(),
        action: "code:write".into(),
        examples: vec![Example::of("one more line", json!({ "path": "CHANGELOG.md", "content": "- Fixed the parser\n" }))],
        ..Definition::of::<AppendInput, WriteOutput>("fs.append")
    }
}

fn edit() -> Definition {
    Definition {
        title: "Edit a file".into(),
        description: "Replaces one piece of text in a file of the workspace by another. `old` must be exactly what \
            stands in the file, spaces and line breaks included, and must stand there once: take in enough lines to \
            make it so, or set `all`. Answers with the lines that changed."
            .into(),
        action: "code:write".into(),
        examples: vec![
            Example::of(
                "one line",
                json!({ "path": "src/lib.rs", "old": "const LIMIT: u32 = 10;", "new": "const LIMIT: u32 = 20;" }),
            ),
            Example::of("a name everywhere", json!({ "path": "src/lib.rs", "old": "old_name", "new": "new_name", "all": true })),
        ],
        failure_modes: vec!["tool_failed: `old` is not in the file, or more than once; read the file again".into()],
        ..Definition::of::<EditInput, EditOutput>("fs.edit")
    }
}

fn list() -> Definition {
    Definition {
        title: "List a directory".into(),
        description: "Lists a directory of the workspace, sorted by name; with `recursive` also what is in its \
            directories. Links are shown and not followed. `truncated` says that there is more: raise `limit` or \
            list a smaller directory."
            .into(),
        action: "code:read".into(),
        examples: vec![
            Example::of("the workspace", json!({})),
            Example::of("everything in src", json!({ "path": "src", "recursive": true })),
        ],
        ..Definition::of::<ListInput, ListOutput>("fs.list")
    }
}

fn stat() -> Definition {
    Definition {
        title: "Look at a file".into(),
        description:
            "Tells what a path of the workspace is, and its size, permissions and time of change, without \
            reading it. A symbolic link is told as one, with what it leads to."
                .into(),
        action: "code:read".into(),
        examples: vec![Example::of("is it there?", json!({ "path": "Cargo.toml" }))],
        ..Definition::of::<StatInput, StatOutput>("fs.stat")
    }
}

fn make_directory() -> Definition {
    Definition {
        title: "Make a directory".into(),
        description: "Makes a directory in the workspace; with `parents` also those it is in.".into(),
        action: "code:create".into(),
        examples: vec![Example::of(
            "with its parents",
            json!({ "path": "src/parser/tests", "parents": true }),
        )],
        failure_modes: vec![
            "tool_failed: it exists, or its parent is missing, and `parents` is not set".into(),
        ],
        ..Definition::of::<MakeDirectoryInput, MakeDirectoryOutput>("fs.mkdir")
    }
}

fn move_() -> Definition {
    Definition {
        title: "Move or rename".into(),
        description:
            "Moves or renames a file or directory within the workspace. What is at the new path is replaced \
            only if it is a file and `overwrite` is set, and then the call may have to be approved."
                .into(),
        action: "code:write".into(),
        examples: vec![Example::of("a rename", json!({ "from": "src/util.rs", "to": "src/text.rs" }))],
        failure_modes: vec![
            "tool_failed: something is at the new path already; its directory is missing".into(),
        ],
        ..Definition::of::<MoveInput, MoveOutput>("fs.move")
    }
}

fn delete() -> Definition {
    Definition {
        title: "Delete".into(),
        description: "Deletes a file or an empty directory of the workspace; with `recursive` a directory and \
            everything in it. There is no way back, so the call may have to be approved. A directory that holds \
            guarded names is left whole."
            .into(),
        action: "code:delete".into(),
        examples: vec![
            Example::of("a file", json!({ "path": "old.txt" })),
            Example::of("a directory", json!({ "path": "build", "recursive": true })),
        ],
        failure_modes: vec![
            "constrained: the configuration switches deleting off".into(),
            "tool_failed: the directory is not empty and `recursive` is not set".into(),
        ],
        ..Definition::of::<DeleteInput, DeleteOutput>("fs.delete")
    }
}

fn search() -> Definition {
    Definition {
        title: "Search files".into(),
        description: "Finds text in the files of the workspace, or files by their path. The pattern is literal unless \
            `regex` is set (no look-around, no back-references). Not searched: `.git`, hidden names, links, binary \
            and very large files; `skipped` counts them."
            .into(),
        action: "code:read".into(),
        examples: vec![
            Example::of("where a function is used", json!({ "pattern": "parse_header(", "glob": "*.rs" })),
            Example::of("a regular expression", json!({ "pattern": "fn \\w+_test", "regex": true, "path": "src" })),
            Example::of("a file by its name", json!({ "pattern": "readme", "scope": "names", "ignore_case": true })),
        ],
        failure_modes: vec!["bad_arguments: the pattern or the glob is not valid".into()],
        ..Definition::of::<SearchInput, SearchOutput>("fs.search")
    }
}
