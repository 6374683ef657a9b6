//! Repositories that name programs for git to run, and words that mean something else to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use contract::CallStatus;
use serde_json::{Value, json};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, standard};
use crate::place::make_executable;

/// What a planted program leaves behind.
const MARK: &str = "PWNED";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "repository-settings",
            "no program that a repository's settings name is run by git, whichever setting it is",
            |stand| control(stand, SETTINGS),
            |stand| attack(stand, SETTINGS),
        ),
        Case::new(
            "repository-diff-driver",
            "no program of a repository shows what differs",
            |stand| control(stand, DRIVERS),
            |stand| attack(stand, DRIVERS),
        ),
        Case::new(
            "repository-filter",
            "no filter of a repository is run over files, and what would need it is refused by name",
            |stand| control(stand, FILTERS),
            |stand| attack(stand, FILTERS),
        ),
        Case::new(
            "repository-include",
            "a repository that takes settings from another file is refused",
            |stand| control(stand, INCLUDES),
            |stand| attack(stand, INCLUDES),
        ),
        Case::new(
            "repository-submodule",
            "git is not started in a submodule, where its own settings would count",
            |stand| control(stand, SUBMODULES),
            |stand| attack(stand, SUBMODULES),
        ),
        Case::new(
            "git-directory-elsewhere",
            "a repository whose settings lie elsewhere is refused",
            |stand| control(stand, ELSEWHERE),
            |stand| attack(stand, ELSEWHERE),
        ),
        Case::new(
            "git-transport",
            "an address is one of another host, over https or ssh, and names no program",
            control_transport,
            smuggle_transports,
        ),
        Case::new(
            "revision-as-option",
            "what stands in the place of a commit is a commit, and no option, range or path",
            control_option,
            smuggle_options,
        ),
        Case::new(
            "path-as-pattern",
            "a path stands for itself, and not for what its marks mean to git",
            control_pattern,
            smuggle_patterns,
        ),
        Case::new(
            "hidden-in-history",
            "what is hidden from agents is not shown from what was committed",
            control_history,
            look_into_history,
        ),
    ]
}

/// One way to have git run something.
struct Plant {
    settings: &'static [(&'static str, &'static str)],
    /// What else has to be there.
    prepare: fn(&Stand<'_>, &str) -> Try<()>,
    /// git's words that run it, where nothing is done about it.
    control: &'static [&'static str],
    calls: &'static [Call],
}

/// A tool, its arguments besides the repository, and how the call ends.
type Call = (&'static str, &'static str, Ending);

const COMMIT: Call = ("git.commit", r#"{"message":"m","all":true}"#, Ending::Done);
const STATUS: Call = ("git.status", "{}", Ending::Done);
const DIFF: Call = ("git.diff", "{}", Ending::Done);
const SHOW: Call = ("git.show", "{}", Ending::Done);
const CHECKOUT: Call = ("git.checkout", r#"{"branch":"other"}"#, Ending::Done);
const BRANCH: Call = ("git.branch", r#"{"create":"new"}"#, Ending::Done);

const fn refused(call: Call) -> Call {
    (call.0, call.1, Ending::Failed("cannot_enforce"))
}

const SETTINGS: &[Plant] = &[
    Plant {
        settings: &[("core.hooksPath", ".git/planted")],
        prepare: |stand, repository| hooks(stand, repository, ".git/planted"),
        control: &["commit", "-qam", "m"],
        calls: &[COMMIT, CHECKOUT, BRANCH, STATUS],
    },
    Plant {
        settings: &[],
        prepare: |stand, repository| hooks(stand, repository, ".git/hooks"),
        control: &["checkout", "-q", "other"],
        calls: &[CHECKOUT, COMMIT, BRANCH],
    },
    Plant {
        settings: &[("core.fsmonitor", ".git/run"), ("core.fsmonitorHookVersion", "1")],
        prepare: nothing,
        control: &["status"],
        calls: &[STATUS, DIFF, COMMIT, CHECKOUT],
    },
    Plant {
        settings: &[("core.editor", ".git/run")],
        prepare: nothing,
        control: &["commit", "-a"],
        calls: &[COMMIT],
    },
    Plant {
        settings: &[("gpg.program", ".git/run"), ("commit.gpgSign", "true")],
        prepare: nothing,
        control: &["commit", "-qam", "m"],
        calls: &[COMMIT, SHOW],
    },
    // An object that is not there is fetched when it is asked for, by a program.
    Plant {
        settings: &[
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.partialCloneFilter", "blob:none"),
            ("remote.origin.url", "ext::.git/run"),
            ("protocol.ext.allow", "always"),
        ],
        prepare: lose_an_object,
        control: &["cat-file", "blob", "HEAD:a.txt"],
        calls: &[("git.show", r#"{"path":"a.txt"}"#, Ending::Failed("tool_failed"))],
    },
];

const DRIVERS: &[Plant] = &[
    Plant {
        settings: &[("diff.external", ".git/run")],
        prepare: nothing,
        control: &["diff"],
        calls: &[DIFF, SHOW],
    },
    Plant {
        settings: &[("diff.x.command", ".git/run")],
        prepare: attributes,
        control: &["diff"],
        calls: &[DIFF, SHOW, COMMIT],
    },
    Plant {
        settings: &[("diff.x.textconv", ".git/run")],
        prepare: attributes,
        control: &["show"],
        calls: &[DIFF, SHOW, COMMIT],
    },
];

const FILTERS: &[Plant] = &[
    Plant {
        settings: &[("filter.x.clean", ".git/run"), ("filter.x.required", "true")],
        prepare: attributes,
        control: &["diff"],
        calls: &[STATUS, DIFF, SHOW, refused(COMMIT)],
    },
    Plant {
        settings: &[("filter.x.smudge", ".git/run")],
        prepare: attributes,
        control: &["checkout", "-q", "other"],
        calls: &[refused(CHECKOUT)],
    },
    Plant {
        settings: &[("filter.x.process", ".git/run")],
        prepare: attributes,
        control: &["diff"],
        calls: &[STATUS, DIFF, refused(COMMIT), refused(CHECKOUT)],
    },
];

const INCLUDES: &[Plant] = &[
    Plant {
        settings: &[("include.path", "../settings")],
        prepare: included,
        control: &["status"],
        calls: &[refused(STATUS), refused(DIFF), refused(COMMIT), refused(CHECKOUT)],
    },
    Plant {
        settings: &[("includeIf.onbranch:main.path", "../settings")],
        prepare: included,
        control: &["status"],
        calls: &[refused(STATUS), refused(COMMIT)],
    },
];

const SUBMODULES: &[Plant] = &[Plant {
    settings: &[],
    prepare: submodule,
    control: &["status"],
    calls: &[STATUS, DIFF, COMMIT, ("git.status", r#"{"paths":["sub"]}"#, Ending::Done)],
}];

const ELSEWHERE: &[Plant] = &[
    Plant {
        settings: MONITOR,
        prepare: |stand, repository| moved(stand, repository, |at| Ok(fs::write(at, "gitdir: elsewhere\n")?)),
        control: &["status"],
        calls: &[refused(STATUS), refused(COMMIT)],
    },
    Plant {
        settings: MONITOR,
        prepare: |stand, repository| moved(stand, repository, |at| Ok(symlink("elsewhere", at)?)),
        control: &["status"],
        calls: &[refused(STATUS), refused(DIFF)],
    },
    // A directory that is itself a repository, without `.git`.
    Plant {
        settings: MONITOR,
        prepare: |stand, repository| {
            let at = stand.workspace.join(repository);
            for entry in fs::read_dir(at.join(".git"))? {
                let entry = entry?;
                fs::rename(entry.path(), at.join(entry.file_name()))?;
            }
            fs::remove_dir(at.join(".git"))?;
            settings(
                stand,
                repository,
                "config",
                &[("core.bare", "false"), ("core.worktree", "."), ("core.fsmonitor", "./run")],
            )
        },
        control: &["status"],
        calls: &[("git.status", "{}", Ending::Failed("tool_failed"))],
    },
];

const MONITOR: &[(&str, &str)] = &[("core.fsmonitor", "$RUN"), ("core.fsmonitorHookVersion", "1")];

// ---- what is planted

fn nothing(_: &Stand<'_>, _: &str) -> Try<()> {
    Ok(())
}

/// A program that leaves a mark, says the secret, and passes its input on.
fn program(stand: &Stand<'_>) -> String {
    let mark = stand.workspace.join(MARK);
    format!(
        "#!/bin/sh\ntouch '{}'\necho {} >&2\n[ -t 0 ] || timeout 2 cat\nexit 0\n",
        mark.display(),
        stand.secret
    )
}

fn hooks(stand: &Stand<'_>, repository: &str, folder: &str) -> Try<()> {
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
    ] {
        make_executable(&stand.put(&format!("{repository}/{folder}/{hook}"), &program(stand))?)?;
    }
    Ok(())
}

fn attributes(stand: &Stand<'_>, repository: &str) -> Try<()> {
    stand.put(&format!("{repository}/.git/info/attributes"), "*.txt diff=x filter=x\n")?;
    // Git believes that a file has not changed until something of it has.
    stand.put(&format!("{repository}/b.txt"), "changed once more\n")?;
    Ok(())
}

fn included(stand: &Stand<'_>, repository: &str) -> Try<()> {
    stand.put(
        &format!("{repository}/settings"),
        "[core]\n\tfsmonitor = .git/run\n\tfsmonitorHookVersion = 1\n",
    )?;
    Ok(())
}

fn lose_an_object(stand: &Stand<'_>, repository: &str) -> Try<()> {
    let at = stand.workspace.join(repository);
    let name = git(stand, &at, &["hash-object", "a.txt"])?;
    let (folder, rest) = name.trim().split_at(2);
    Ok(fs::remove_file(at.join(".git/objects").join(folder).join(rest))?)
}

fn submodule(stand: &Stand<'_>, repository: &str) -> Try<()> {
    let inner = format!("{repository}/sub");
    make(stand, &inner)?;
    let at = stand.workspace.join(repository);
    git(stand, &at, &["add", "sub"])?;
    git(stand, &at, &["commit", "-qm", "with a submodule"])?;
    settings(stand, &inner, ".git/config", MONITOR)
}

fn moved(stand: &Stand<'_>, repository: &str, lead: fn(PathBuf) -> Try<()>) -> Try<()> {
    let at = stand.workspace.join(repository);
    fs::rename(at.join(".git"), at.join("elsewhere"))?;
    settings(stand, repository, "elsewhere/config", &[("core.fsmonitor", "elsewhere/run")])?;
    lead(at.join(".git"))
}

fn settings(stand: &Stand<'_>, repository: &str, file: &str, settings: &[(&str, &str)]) -> Try<()> {
    let at = stand.workspace.join(repository);
    let run = at.join(".git/run").display().to_string();
    for (key, value) in settings {
        let value = value.replace("$RUN", &run);
        stand.bare("git", &["config", "--file", file, key, &value], &at)?;
    }
    Ok(())
}

/// git as a person runs it.
fn git(stand: &Stand<'_>, at: &std::path::Path, words: &[&str]) -> Try<String> {
    let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
    stand.bare("git", &[&who[..], words].concat(), at)
}

/// A repository with two branches, one file that has changed, and a program in `.git`.
fn make(stand: &Stand<'_>, repository: &str) -> Try<()> {
    stand.put(&format!("{repository}/a.txt"), "on main\n")?;
    stand.put(&format!("{repository}/b.txt"), "the same\n")?;
    let at = stand.workspace.join(repository);
    let steps: [&[&str]; 8] = [
        &["init", "-q", "-b", "main"],
        &["add", "."],
        &["commit", "-qm", "first"],
        &["checkout", "-qb", "other"],
        &["mv", "a.txt", "c.txt"],
        &["commit", "-qm", "second"],
        &["checkout", "-q", "main"],
        &["status"],
    ];
    for step in steps {
        git(stand, &at, step)?;
    }
    make_executable(&stand.put(&format!("{repository}/.git/run"), &program(stand))?)?;
    stand.put(&format!("{repository}/b.txt"), "changed\n")?;
    Ok(())
}

fn plant(stand: &Stand<'_>, plant: &Plant, repository: &str) -> Try<()> {
    make(stand, repository)?;
    settings(stand, repository, ".git/config", plant.settings)?;
    (plant.prepare)(stand, repository)?;
    take_mark(stand)?;
    Ok(())
}

/// Removes the mark, and says whether it was there.
fn take_mark(stand: &Stand<'_>) -> Try<bool> {
    match fs::remove_file(stand.workspace.join(MARK)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Plain git in the same sandbox, for each of them: every one has to work, or the table lies.
fn control(stand: &Stand<'_>, plants: &[Plant]) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    for (place, planted) in plants.iter().enumerate() {
        let repository = format!("p{place}");
        plant(stand, planted, &repository)?;
        let call =
            json!({ "command": "git", "args": planted.control, "cwd": repository, "profile": "build" });
        let said = gate.call("shell", call, Ending::Settled)?.content;
        if !take_mark(stand)? {
            return Ok(Effect::Held(format!("{:?}: {said}", planted.control)));
        }
    }
    Ok(Effect::Through("each of them".to_owned()))
}

fn attack(stand: &Stand<'_>, plants: &[Plant]) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    for (place, planted) in plants.iter().enumerate() {
        let repository = format!("p{place}");
        plant(stand, planted, &repository)?;
        for (tool, arguments, ending) in planted.calls {
            let mut arguments: serde_json::Map<String, Value> = serde_json::from_str(arguments)?;
            arguments.insert("repository".to_owned(), json!(repository));
            let arguments = Value::Object(arguments);
            gate.call(tool, arguments.clone(), *ending)?;
            if take_mark(stand)? {
                return Ok(Effect::Through(format!("{tool} {arguments} with {:?}", planted.settings)));
            }
        }
    }
    // What a program said while git only looked would be in a result.
    stand.judged(Effect::Held("no mark".to_owned()))
}

// ---- addresses

fn control_transport(stand: &Stand<'_>) -> Try<Effect> {
    make(stand, "p")?;
    let gate = stand.gate(standard())?;
    shell(&gate, &["-c", "protocol.ext.allow=always", "clone", "ext::.git/run", "x"])?;
    Ok(Effect::through_if(take_mark(stand)?, "an address is a program"))
}

fn smuggle_transports(stand: &Stand<'_>) -> Try<Effect> {
    make(stand, "p")?;
    let gate = stand.gate(standard())?;
    for url in [
        "ext::.git/run",
        "ext::sh -c .git/run%20",
        "fd::3",
        "https::.git/run",
        "file:///etc",
        ".git",
        "../outside",
        "p.bundle",
        "http://a.example/x",
        "git://a.example/x",
        "--upload-pack=.git/run",
        "-u.git/run",
        "ssh://-oProxyCommand=.git/run/x",
        "-oProxyCommand=.git/run@a.example:x",
        "git@a.example:-x",
        "https://user:password@a.example/x",
        "https://a.example@169.254.169.254/x",
        "https://a.example/x?service=git-receive-pack",
        "https://a.example/x\n",
        "origin",
    ] {
        for (tool, arguments) in [
            ("git.clone", json!({ "url": url, "directory": "new" })),
            ("git.fetch", json!({ "url": url, "repository": "p" })),
            ("git.push", json!({ "url": url, "repository": "p", "branch": "main" })),
        ] {
            gate.call(tool, arguments, Ending::Refused("bad_arguments"))?;
        }
    }
    for url in [
        "https://169.254.169.254/x",
        "https://localhost/x",
        "ssh://[::1]/x",
        "git@metadata.google.internal:x",
    ] {
        gate.call(
            "git.clone",
            json!({ "url": url, "directory": "new" }),
            Ending::Refused("host_not_allowed"),
        )?;
    }
    let made = stand.workspace.join("new").exists();
    Ok(Effect::through_if(made || take_mark(stand)?, "something was run or made"))
}

// ---- words

fn shell(gate: &Gate<'_>, words: &[&str]) -> Try<String> {
    let call = json!({ "command": "git", "args": words, "cwd": "p", "profile": "build" });
    Ok(gate.call("shell", call, Ending::Settled)?.content)
}

fn control_option(stand: &Stand<'_>) -> Try<Effect> {
    make(stand, "p")?;
    let gate = stand.gate(standard())?;
    shell(&gate, &["diff", "--output=../PWNED", "HEAD"])?;
    Ok(Effect::through_if(take_mark(stand)?, "an option writes a file"))
}

fn smuggle_options(stand: &Stand<'_>) -> Try<Effect> {
    make(stand, "p")?;
    let gate = stand.gate(standard())?;
    let words = [
        "--output=../PWNED",
        "-O../x",
        "HEAD..other",
        "--all",
        ":/first",
        "HEAD:b.txt",
        "@{-1}",
        "a b",
        "x\ny",
    ];
    for word in words {
        for (tool, name) in [
            ("git.diff", "from"),
            ("git.log", "revision"),
            ("git.log", "since_revision"),
            ("git.show", "revision"),
            ("git.checkout", "commit"),
            ("git.checkout", "branch"),
            ("git.branch", "create"),
            ("git.branch", "delete"),
        ] {
            gate.call(tool, json!({ "repository": "p", name: word }), Ending::Refused("bad_arguments"))?;
        }
    }
    Ok(Effect::through_if(take_mark(stand)?, "an option wrote a file"))
}

/// What was committed under a hidden name.
fn commit_a_secret(stand: &Stand<'_>) -> Try<()> {
    make(stand, "p")?;
    stand.put("p/.env", &format!("VALUE={}\n", stand.secret))?;
    stand.put("p/deep/Server.PEM", &format!("{}\n", stand.secret))?;
    let at = stand.workspace.join("p");
    git(stand, &at, &["add", "-f", "."])?;
    git(stand, &at, &["commit", "-qm", "a slip"])?;
    Ok(())
}

fn control_pattern(stand: &Stand<'_>) -> Try<Effect> {
    commit_a_secret(stand)?;
    let gate = stand.gate(standard())?;
    Ok(stand.shown_in(&shell(&gate, &["diff", "HEAD~1", "HEAD", "--", ":(glob).e*"])?))
}

fn smuggle_patterns(stand: &Stand<'_>) -> Try<Effect> {
    commit_a_secret(stand)?;
    let gate = stand.gate(standard())?;
    for path in [":(glob).e*", ".e*", ":/", ":(top,icase).ENV", ":(attr:x)", "deep/*", "?env"] {
        let call = json!({ "repository": "p", "from": "HEAD~1", "to": "HEAD", "paths": [path] });
        let found = gate.call("git.diff", call, Ending::Done)?;
        if found.structured.and_then(|found| found.get("files").cloned()) != Some(json!([])) {
            return Ok(Effect::Through(format!("{path}: {}", found.content)));
        }
    }
    // Of what is named `*`, nothing is there to be added.
    let before = git(stand, &stand.workspace.join("p"), &["rev-parse", "HEAD"])?;
    gate.call(
        "git.commit",
        json!({ "repository": "p", "message": "m", "paths": ["*"] }),
        Ending::Failed("tool_failed"),
    )?;
    let after = git(stand, &stand.workspace.join("p"), &["rev-parse", "HEAD"])?;
    stand.judged(Effect::through_if(before != after, "everything was committed"))
}

fn control_history(stand: &Stand<'_>) -> Try<Effect> {
    commit_a_secret(stand)?;
    let gate = stand.gate(standard())?;
    Ok(stand.shown_in(&shell(&gate, &["show"])?))
}

fn look_into_history(stand: &Stand<'_>) -> Try<Effect> {
    commit_a_secret(stand)?;
    let gate = stand.gate(standard())?;
    let looks = [
        ("git.show", json!({ "repository": "p" }), Ending::Done),
        ("git.show", json!({ "repository": "p", "path": ".env" }), Ending::Refused("protected")),
        ("git.show", json!({ "repository": "p", "path": "deep/Server.PEM" }), Ending::Refused("protected")),
        (
            "git.show",
            json!({ "repository": "p", "revision": "HEAD~1:..", "path": "x" }),
            Ending::Refused("bad_arguments"),
        ),
        ("git.diff", json!({ "repository": "p", "from": "HEAD~1", "to": "HEAD" }), Ending::Done),
        (
            "git.diff",
            json!({ "repository": "p", "from": "HEAD~1", "to": "HEAD", "paths": ["deep", "."] }),
            Ending::Done,
        ),
        (
            "git.diff",
            json!({ "repository": "p", "from": "HEAD~1", "to": "HEAD", "paths": [".ENV"] }),
            Ending::Refused("protected"),
        ),
        ("git.log", json!({ "repository": "p" }), Ending::Done),
    ];
    for (tool, arguments, ending) in looks {
        let result = gate.call(tool, arguments, ending)?;
        if ending == Ending::Done && result.status != CallStatus::Completed {
            return Err(result.content.into());
        }
    }
    stand.judged(Effect::Held("no result has it".to_owned()))
}
