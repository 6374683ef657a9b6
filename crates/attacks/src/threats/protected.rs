//! Files that make the host run code later: written, replaced, or made where there was none.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jail::{Control, Limits, Report};

use crate::Try;
use crate::bench::{Need, find_program};
use crate::case::{Attempt, Case, Trace};
use crate::launch::{Run, Site, command_of};
use crate::payload::{Payload, argument, tell};

pub(crate) const PAYLOADS: &[Payload] = &[("perform", perform_all), ("flood", flood)];

/// A way to make the host run something, as steps beneath the granted directory. See [`perform`].
struct Plant {
    id: &'static str,
    promise: &'static str,
    /// What is there before, by the host's own hand.
    before: &'static [&'static str],
    /// What the attacker does.
    steps: &'static [&'static str],
    /// The file that must not end up with `evil` in it.
    target: &'static str,
    /// Whether the attempt is only seen afterwards, and what it left moved away.
    quarantined: bool,
    /// What is granted, of the place of this attempt.
    granted: &'static str,
}

const NOTHING: Plant = Plant {
    id: "new-protected-name",
    promise: "",
    before: &[],
    steps: &[],
    target: "",
    quarantined: true,
    granted: ".",
};

const REPOSITORY: &[&str] =
    &["write:.git/HEAD:ref: refs/heads/main", "write:.git/config:[core]", "write:.git/hooks/x.sample:x"];

const WRITTEN: Plant = Plant { before: REPOSITORY, quarantined: false, ..NOTHING };

const PLANTS: &[Plant] = &[
    Plant {
        id: "git-hook",
        promise: "a git hook cannot be written",
        steps: &["write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "git-config",
        promise: "the git configuration cannot be written or replaced",
        steps: &[
            "write:.git/config:evil",
            "write:.git/config.lock:evil",
            "move:.git/config.lock:.git/config",
        ],
        target: ".git/config",
        ..WRITTEN
    },
    Plant {
        id: "git-moved",
        promise: "the git directory cannot be moved away and made anew",
        steps: &["move:.git:x", "write:.git/hooks/pre-commit:evil", "write:.git/config:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "git-parent-moved",
        promise: "a repository cannot be moved away and made anew under its old name",
        before: &[
            "write:project/.git/HEAD:x",
            "write:project/.git/config:x",
            "write:project/.git/hooks/x.sample:x",
        ],
        steps: &["move:project:old", "write:project/.git/hooks/pre-commit:evil"],
        target: "project/.git/hooks/pre-commit",
        ..NOTHING
    },
    Plant {
        id: "git-pointer",
        promise: "the pointer of a worktree to its repository cannot be written or replaced",
        before: &["write:.git:gitdir: /elsewhere"],
        steps: &["write:.git:evil", "write:new:evil", "move:new:.git"],
        target: ".git",
        ..WRITTEN
    },
    Plant {
        id: "git-submodule",
        promise: "hooks and configuration of a submodule cannot be written",
        before: &[
            "write:.git/HEAD:x",
            "write:.git/modules/lib/HEAD:x",
            "write:.git/modules/lib/config:x",
            "write:.git/modules/lib/hooks/x.sample:x",
        ],
        steps: &["write:.git/modules/lib/hooks/post-checkout:evil", "write:.git/modules/lib/config:evil"],
        target: ".git/modules/lib/config",
        ..WRITTEN
    },
    Plant {
        id: "git-commondir",
        promise: "a worktree cannot be told to take its settings from elsewhere",
        before: &["write:.git/HEAD:x", "write:.git/config:x", "write:.git/worktrees/w/commondir:../.."],
        steps: &["write:.git/worktrees/w/commondir:evil", "write:.git/worktrees/w/config.worktree:evil"],
        target: ".git/worktrees/w/commondir",
        ..WRITTEN
    },
    Plant {
        id: "linked-hooks",
        promise: "hooks that are a link cannot be replaced by hooks",
        before: &["write:.git/HEAD:x", "write:shared/hooks/x.sample:x", "link:../shared/hooks:.git/hooks"],
        steps: &["remove:.git/hooks", "write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "linked-hooks-target",
        promise: "hooks that are reached by a link cannot be written where they are",
        before: &["write:.git/HEAD:x", "write:shared/hooks/x.sample:x", "link:../shared/hooks:.git/hooks"],
        steps: &["write:shared/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "granted-git-directory",
        promise: "hooks cannot be written when the git directory itself is granted",
        steps: &["write:hooks/pre-commit:evil", "write:config:evil"],
        target: "hooks/pre-commit",
        granted: ".git",
        ..WRITTEN
    },
    Plant {
        id: "protected-file",
        promise: "a protected file cannot be written or replaced",
        before: &["write:toolgate.yaml:x"],
        steps: &[
            "write:toolgate.yaml:evil",
            "remove:toolgate.yaml",
            "write:new:evil",
            "move:new:toolgate.yaml",
        ],
        target: "toolgate.yaml",
        ..WRITTEN
    },
    Plant {
        id: "protected-directory",
        promise: "nothing in a protected directory can be written",
        before: &["write:.vscode/settings.json:x"],
        steps: &["write:.vscode/tasks.json:evil", "move:.vscode:x", "write:.vscode/tasks.json:evil"],
        target: ".vscode/tasks.json",
        ..WRITTEN
    },
    Plant {
        promise: "a new repository with a hook is disarmed at any depth",
        steps: &["write:a/b/c/.git/HEAD:x", "write:a/b/c/.git/hooks/post-checkout:evil"],
        target: "a/b/c/.git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        promise: "a new repository with settings that run something is disarmed",
        steps: &["write:a/.git/HEAD:x", "write:a/.git/config:[core]\n\tfsmonitor = evil\n"],
        target: "a/.git/config",
        ..NOTHING
    },
    Plant {
        promise: "a new repository that takes its settings from elsewhere is disarmed",
        steps: &["write:a/.git/HEAD:x", "write:a/.git/commondir:../evil"],
        target: "a/.git/commondir",
        ..NOTHING
    },
    Plant {
        promise: "a new pointer to a repository elsewhere is disarmed",
        steps: &["write:a/.git:gitdir: ../evil"],
        target: "a/.git",
        ..NOTHING
    },
    Plant {
        promise: "a new repository that is a link is disarmed",
        steps: &["write:evil/config:evil", "link:../evil:a/.git"],
        target: "a/.git/config",
        ..NOTHING
    },
    Plant {
        promise: "a new repository in capitals is disarmed",
        steps: &["write:a/.GIT/hooks/post-checkout:evil"],
        target: "a/.GIT/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        promise: "a first hook in a repository without hooks is disarmed",
        before: &["write:.git/HEAD:x", "write:.git/config:x"],
        steps: &["write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..NOTHING
    },
    Plant {
        promise: "a file that people's programs obey is disarmed where there was none",
        steps: &["write:.vscode/tasks.json:evil"],
        target: ".vscode/tasks.json",
        ..NOTHING
    },
    Plant {
        promise: "a shell's start file is disarmed where there was none",
        steps: &["write:home/.bashrc:evil"],
        target: "home/.bashrc",
        ..NOTHING
    },
    Plant {
        id: "planted-credentials",
        promise: "a login that was not there before is disarmed",
        steps: &["write:home/.ssh/authorized_keys:evil"],
        target: "home/.ssh/authorized_keys",
        ..NOTHING
    },
    Plant {
        id: "unlistable-directory",
        promise: "a new repository is disarmed in a directory that cannot be listed",
        steps: &["write:a/.git/hooks/post-checkout:evil", "mode:311:a"],
        target: "a/.git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "unlistable-grant",
        promise: "a new repository is disarmed when what was granted can no longer be listed",
        steps: &["write:.git/hooks/post-checkout:evil", "mode:311:."],
        target: ".git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "closed-directory",
        promise: "a hook is disarmed in a directory that cannot be changed",
        steps: &["write:a/.git/hooks/post-checkout:evil", "mode:555:a/.git/hooks"],
        target: "a/.git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "taken-names",
        promise: "a start file is disarmed when many names to move it to are taken",
        steps: &["write:home/.bashrc:evil", "take:home/.bashrc.quarantined:300"],
        target: "home/.bashrc",
        ..NOTHING
    },
    Plant {
        id: "hidden-shelter",
        promise: "a new repository is disarmed in a directory with a hidden name",
        steps: &["write:.env.d/a/.git/hooks/post-checkout:evil"],
        target: ".env.d/a/.git/hooks/post-checkout",
        ..NOTHING
    },
];

pub(crate) fn cases() -> Vec<Case> {
    let walls = [Control::ProtectedNames];
    let planted = PLANTS.iter().map(|plant| Case {
        trace: if plant.quarantined { Trace::Also(was_quarantined) } else { Trace::Walls },
        ..Case::new(plant.id, plant.promise, &walls, move |site| attempt(site, plant))
    });
    let others = [
        Case {
            trace: Trace::Also(was_quarantined),
            needs: vec![Need::Program("git")],
            ..Case::new("git-runs-it", "git runs nothing that a new repository asks for", &walls, let_git_run)
        },
        Case {
            trace: Trace::Also(was_quarantined),
            needs: vec![Need::Long],
            ..Case::new(
                "too-many-files",
                "a new repository is disarmed among more files than are looked at",
                &walls,
                hide_among_many,
            )
        },
    ];
    planted.chain(others).collect()
}

fn was_quarantined(report: &Report) -> Try<()> {
    if report.quarantined.is_empty() {
        Err("the report names nothing that was moved away".into())
    } else {
        Ok(())
    }
}

fn attempt(site: &Site<'_>, plant: &Plant) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    for step in plant.before {
        perform(&work, step)?;
    }
    let granted = if plant.granted == "." { work } else { work.join(plant.granted) };
    let mut arguments = vec![granted.display().to_string()];
    arguments.extend(plant.steps.iter().map(|step| (*step).to_owned()));
    let ran = site.run(Run { write: vec![granted.clone()], ..Run::payload("perform", arguments) })?;
    let target = granted.join(plant.target);
    let evil = fs::read_to_string(&target).is_ok_and(|text| text.contains("evil"));
    ran.judged(|ran| ran.seen(evil, &format!("{} is there and obeyed", plant.target)))
}

/// The whole way: a tool makes a repository, a person comes by and asks git how it looks.
fn let_git_run(site: &Site<'_>) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    let marker = site.place.open_folder("marker")?.join("ran");
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch {}; false\"\n",
        marker.display()
    );
    let steps = [
        work.display().to_string(),
        "write:project/.git/HEAD:ref: refs/heads/main".to_owned(),
        "write:project/.git/refs/heads/x:".to_owned(),
        "write:project/.git/objects/info/x:".to_owned(),
        format!("write:project/.git/config:{config}"),
        "write:project/file:x".to_owned(),
    ];
    let ran = site.run(Run { write: vec![work.clone()], ..Run::payload("perform", steps) })?;
    let git = find_program("git").ok_or("no git")?;
    let project = work.join("project").into_os_string();
    let arguments = ["-c".into(), "safe.directory=*".into(), "-C".into(), project, "status".into()];
    let _ = command_of(&git, &arguments)
        .env_clear()
        .env("PATH", jail::DEFAULT_PATH)
        .env("HOME", site.place.root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ran.judged(|ran| ran.seen(marker.exists(), "git ran what the repository asked for"))
}

fn hide_among_many(site: &Site<'_>) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    let limits = Limits { timeout: Duration::from_secs(300), ..Limits::default() };
    let ran = site.run(Run { write: vec![work.clone()], limits, ..Run::payload("flood", [&work]) })?;
    if !ran.stdout.contains(FLOODED) {
        return Err(ran.said_nothing());
    }
    let left =
        (0..REPOSITORIES).filter(|n| work.join(format!("r{n}/.git/hooks/post-checkout")).exists()).count();
    ran.judged(|ran| ran.seen(left > 0, &format!("{left} hooks are left among many files")))
}

/// One step beneath a directory: `write:PATH:TEXT`, `move:FROM:TO`, `link:TARGET:PATH`, `mode:OCTAL:PATH`, `remove:PATH`,
/// `take:PATH:COUNT` for as many files named after one.
fn perform(folder: &Path, step: &str) -> std::io::Result<()> {
    let mut parts = step.splitn(3, ':');
    let (what, first) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let second = parts.next().unwrap_or_default();
    let make_parents = |path: &Path| path.parent().map_or(Ok(()), fs::create_dir_all);
    match what {
        "write" => {
            let path = folder.join(first);
            make_parents(&path)?;
            fs::write(&path, second)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))
        }
        "move" => fs::rename(folder.join(first), folder.join(second)),
        "link" => {
            let path = folder.join(second);
            make_parents(&path)?;
            symlink(first, path)
        }
        "mode" => {
            let mode = u32::from_str_radix(first, 8).unwrap_or(0o700);
            fs::set_permissions(folder.join(second), Permissions::from_mode(mode))
        }
        "remove" => fs::remove_file(folder.join(first)),
        "take" => {
            fs::write(folder.join(first), "")?;
            let count = second.parse().unwrap_or(0);
            (1..count).try_for_each(|number| fs::write(folder.join(format!("{first}.{number}")), ""))
        }
        _ => Err(std::io::Error::from(std::io::ErrorKind::InvalidInput)),
    }
}

fn perform_all(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    for step in arguments.iter().skip(1) {
        tell(step, perform(folder, step));
    }
}

/// What a flood says when it is done.
const FLOODED: &str = "many files were made";

/// Enough that some come last, in whatever order a directory is listed.
const REPOSITORIES: usize = 40;

/// More entries than a survey looks at, and repositories among them.
fn flood(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    for number in 0..REPOSITORIES {
        tell("make a repository", perform(folder, &format!("write:r{number}/.git/hooks/post-checkout:evil")));
    }
    let many = || -> std::io::Result<()> {
        for part in 0..26 {
            let part = folder.join(format!("m{part}"));
            fs::create_dir(&part)?;
            for number in 0..10_000 {
                fs::File::create(part.join(number.to_string()))?;
            }
        }
        Ok(())
    };
    tell(FLOODED, many());
}
