//! Files that make the host run code later: written, replaced, or made where there was none.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jail::{ChangeKind, ChangeReport, Changes, Control, Level, Limits, Report};

use super::plants::{PLANTS, Plant};
use crate::Try;
use crate::bench::{Need, find_program};
use crate::case::{Attempt, Case, Effect, Teeth, Trace};
use crate::launch::{Launcher, Run, Site, command_of};
use crate::payload::{Payload, argument, tell};
use crate::stage::Stage;

pub(crate) const PAYLOADS: &[Payload] =
    &[("perform", perform_all), ("flood", flood), ("number-like", number_like), ("go-deep", go_deep)];

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
            teeth: Teeth::Shown(Box::new(too_deep_to_open)),
            trace: Trace::Also(says_what_was_missed),
            ..Case::new(
                "unsearched-afterwards",
                "the report says so when not everything could be searched after a run",
                &[],
                hide_too_deep,
            )
        },
        Case {
            trace: Trace::Also(was_marked),
            ..Case::new(
                "quarantined-in-the-list",
                "what was moved away is marked in the list of changes",
                &walls,
                list_changes,
            )
        },
        Case {
            trace: Trace::Also(was_quarantined),
            needs: vec![Need::Root],
            ..Case::new(
                "reused-inode-elsewhere",
                "a hook with the number of one that is known on another filesystem is disarmed",
                &walls,
                number_like_another,
            )
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

fn says_what_was_missed(report: &Report) -> Try<()> {
    let finding = report.enforcement.findings().iter().find(|f| f.control == Control::ProtectedNames);
    match finding {
        Some(finding) if finding.level == Level::Partly && finding.how.contains("missed") => Ok(()),
        other => Err(format!("the report says {other:?}").into()),
    }
}

fn was_marked(report: &Report) -> Try<()> {
    was_quarantined(report)?;
    let Changes::Exact(changes) = &report.changes else { return Err("no exact list".into()) };
    let marked = changes.iter().filter(|change| change.kind == ChangeKind::Quarantined);
    let marked: Vec<_> = marked.filter_map(|change| change.path.file_name()?.to_str()).collect();
    if marked == [".bashrc"] { Ok(()) } else { Err(format!("marked are {marked:?}").into()) }
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

/// The control: a path that long is refused by the kernel, whoever asks.
fn too_deep_to_open(site: &Site<'_>) -> Try<Effect> {
    let path = format!("{}{}", site.place.root().display(), format!("/{DEEP}").repeat(LEVELS));
    let refused = fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::InvalidFilename);
    Ok(Effect::through_if(refused, "nobody can open it by its path"))
}

fn hide_too_deep(site: &Site<'_>) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    let run = Run { write: vec![work.clone()], working_directory: work, ..Run::payload("go-deep", [""; 0]) };
    let ran = site.run(run)?;
    if !ran.stdout.contains(BOTTOM) || matches!(ran.told()?, Effect::Held(_)) {
        return Err(ran.said_nothing());
    }
    let level = ran.report()?.enforcement.level(Control::ProtectedNames);
    Ok(ran.attempt(Effect::through_if(level == Level::Enforced, "the report says that nothing was missed")))
}

fn list_changes(site: &Site<'_>) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    let arguments = [work.display().to_string(), "write:.bashrc:evil".into(), "write:other:x".into()];
    let ran = site.run(Run {
        write: vec![work.clone()],
        changes: ChangeReport::List,
        ..Run::payload("perform", arguments)
    })?;
    ran.judged(|ran| ran.seen(work.join(".bashrc").exists(), "it is still there"))
}

/// Two filesystems number their files alike. What is mounted there is the launcher's alone: its report is what is seen.
fn number_like_another(site: &Site<'_>) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    let (one, other) = (site.place.folder("work/one")?, site.place.folder("work/other")?);
    let stages = vec![Stage::Repository(one.clone()), Stage::Memory(other.clone())];
    let launcher = Launcher { stages, ..Launcher::default() };
    let ran = site.run(Run { write: vec![work], launcher, ..Run::payload("number-like", [&one, &other]) })?;
    if ran.stdout.contains(ALIKE) {
        let left = ran.report()?.quarantined.is_empty();
        ran.judged(|ran| ran.seen(left, "the hook is left"))
    } else {
        Err(ran.said_nothing())
    }
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

/// One step beneath a directory; see [`Plant`].
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
        "renew" => renew(&folder.join(first)),
        "take" => {
            fs::write(folder.join(first), "")?;
            let count = second.parse().unwrap_or(0);
            (1..count).try_for_each(|number| fs::write(folder.join(format!("{first}.{number}")), ""))
        }
        _ => Err(std::io::Error::from(std::io::ErrorKind::InvalidInput)),
    }
}

/// Filesystems give the number of what is gone to what comes next.
fn renew(path: &Path) -> std::io::Result<()> {
    let wanted = fs::symlink_metadata(path)?.ino();
    fs::remove_file(path)?;
    let mut others = Vec::new();
    for number in 0..2000 {
        let next = path.with_file_name(format!("next{number}"));
        fs::create_dir(&next)?;
        if fs::metadata(&next)?.ino() == wanted {
            others.iter().try_for_each(fs::remove_dir)?;
            return fs::rename(&next, path);
        }
        others.push(next);
    }
    others.iter().try_for_each(fs::remove_dir)?;
    fs::create_dir(path)
}

fn perform_all(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    for step in arguments.iter().skip(1) {
        tell(step, perform(folder, step));
    }
}

/// Directories as long and as many as make a path too long.
const DEEP: &str =
    "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd";
const LEVELS: usize = 50;
/// What is said at the bottom.
const BOTTOM: &str = "a hook at the bottom";

/// Makes directories in directories, one step at a time, and a hook in the last.
fn go_deep(_: &[String]) {
    let go = || -> std::io::Result<()> {
        for _ in 0..LEVELS {
            fs::create_dir(DEEP)?;
            rustix::process::chdir(DEEP)?;
        }
        perform(Path::new("."), "write:.git/hooks/post-checkout:evil")
    };
    tell(BOTTOM, go());
}

/// What is said when the numbers are alike.
const ALIKE: &str = "a directory has the number of the other";

/// Makes hooks on one filesystem with the number of those on another.
fn number_like(arguments: &[String]) {
    let (one, other) = (Path::new(argument(arguments, 0)), Path::new(argument(arguments, 1)));
    let make = || -> std::io::Result<()> {
        let wanted = fs::metadata(one.join(".git/hooks"))?.ino();
        let hooks = other.join(".git/hooks");
        fs::create_dir(other.join(".git"))?;
        for number in 0..100 {
            let next = other.join(number.to_string());
            fs::create_dir(&next)?;
            if fs::metadata(&next)?.ino() == wanted {
                fs::rename(&next, &hooks)?;
                break;
            }
        }
        fs::write(hooks.join("pre-commit"), "evil")
    };
    tell(ALIKE, make());
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
