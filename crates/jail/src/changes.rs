//! After a run: what changed in the writable directories, and what must not stay where the tool put it.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, FileType, Mode, OFlags, RenameFlags, access, chmod, renameat_with};
use rustix::io::Errno;

use crate::control::Control;
use crate::directories::Opened;
use crate::entry::{Guarded, by_handle, open_beneath};
use crate::plan::{self, ChangeReport, Plan};
use crate::report::{Change, ChangeKind, Changes, Quarantined};
use crate::tree::{Detail, End, Search, Survey, survey};

/// Settings of a fresh repository that cannot make git run anything.
const HARMLESS_SETTINGS: [&str; 15] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "extensions.objectformat",
    "extensions.refstorage",
    "user.name",
    "user.email",
    "branch.remote",
    "branch.merge",
    "init.defaultbranch",
];

/// Largest configuration that is read before it is called suspicious.
const MAX_CONFIG: u64 = 64 * 1024;

/// How long the writable directories are searched at most. The tool has ended; its time is over.
const SEARCH: Duration = Duration::from_secs(30);

/// What a run left in the directories it could write.
pub(crate) struct Aftermath {
    pub(crate) changes: Changes,
    pub(crate) quarantined: Vec<Quarantined>,
    /// Why something new that is protected may have been missed, if it may.
    pub(crate) unsearched: Option<String>,
}

/// Looks at every writable directory again.
pub(crate) fn after(plan: &Plan, opened: &[Opened]) -> Aftermath {
    let wants_list = plan.draft().changes == ChangeReport::List;
    let detail = if wants_list { Detail::Stamps } else { Detail::Names };
    let until = Instant::now() + SEARCH;
    let mut seen = Vec::new();
    let mut incomplete = false;
    let mut unsearched = None;
    let mut quarantined = Vec::new();
    for directory in opened.iter().filter(|directory| directory.access == plan::Access::Write) {
        let search = directory.search(&plan.draft().names, detail, Some(until));
        let now = survey(&Search { before: Some(&directory.survey), ..search });
        incomplete |= now.end != End::Whole || directory.survey.end != End::Whole;
        unsearched = unsearched.or(missed(&directory.path, now.end));
        if wants_list {
            seen.extend(difference(&directory.path, &directory.survey, &now));
        }
        if plan.keeps(Control::ProtectedNames) {
            quarantined.extend(quarantine_new(directory, &now));
        }
    }
    for change in &mut seen {
        // What was moved away is no longer where the tool put it, nor is what was in it.
        if quarantined.iter().any(|moved| change.path.starts_with(&moved.path)) {
            change.kind = ChangeKind::Quarantined;
        }
    }
    seen.sort();
    let changes = match (wants_list, incomplete) {
        (false, _) => Changes::NotAsked,
        (true, false) => Changes::Exact(seen),
        (true, true) => {
            Changes::Partial { seen, why: "not all of a granted directory could be searched".to_owned() }
        }
    };
    Aftermath { changes, quarantined, unsearched }
}

/// ATTACK(unsearched-afterwards): what was not searched may hold anything, and the report has to say so.
fn missed(path: &Path, end: End) -> Option<String> {
    let why = match end {
        End::Whole => return None,
        End::Part => "has too many entries, or some that cannot be opened",
        End::Late => "takes too long to search",
        End::Unstable => "keeps changing",
        End::TooManyLinks => "has too many links that give directories another name",
    };
    Some(format!("`{}` {why}: new files in it may have been missed after the run", path.display()))
}

fn difference(root: &Path, before: &Survey, after: &Survey) -> Vec<Change> {
    let change = |path: &PathBuf, kind| Change { path: root.join(path), kind };
    let new_or_changed = after.stamps.iter().filter_map(|(path, stamp)| match before.stamps.get(path) {
        None => Some(change(path, ChangeKind::Created)),
        Some(old) if old.differs(stamp) => Some(change(path, ChangeKind::Modified)),
        Some(_) => None,
    });
    let removed = before.stamps.keys().filter(|path| !after.stamps.contains_key(*path));
    new_or_changed.chain(removed.map(|path| change(path, ChangeKind::Removed))).collect()
}

/// ATTACK(new-protected-name): a protected file that did not exist could not be mounted read-only; it is moved away.
fn quarantine_new(directory: &Opened, now: &Survey) -> Vec<Quarantined> {
    // By what it is, not by name: a repository can be moved away and another put in its place.
    let before = directory.survey.known();
    let is_new = |guarded: &&Guarded| !before.contains(&guarded.identity);
    let obeyed = now.git.iter().filter(is_new).flat_map(|new| suspicious_parts(&directory.handle, &new.path));
    let named = now.protected.iter().filter(is_new);
    let named = named.map(|new| (new.path.clone(), "a protected name that was not there before"));
    named.chain(obeyed).filter_map(|(path, why)| move_away(directory, &path, why)).collect()
}

/// Which parts of something new that git obeys would run something. An ordinary `git init` leaves none.
fn suspicious_parts(directory: &OwnedFd, path: &Path) -> Vec<(PathBuf, &'static str)> {
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "hooks" => hooks_in(directory, path).into_iter().map(|hook| (hook, "git would run it")).collect(),
        "config" if is_harmless_config(directory, path) => Vec::new(),
        "config" => vec![(path.to_owned(), "git would obey its settings")],
        _ => vec![(path.to_owned(), "git would take its settings from elsewhere")],
    }
}

fn hooks_in(directory: &OwnedFd, path: &Path) -> Vec<PathBuf> {
    let Ok(folder) = open_beneath(directory, path, OFlags::RDONLY | OFlags::DIRECTORY) else {
        // Not a directory: a link, or a file. Either way not what git makes.
        return vec![path.to_owned()];
    };
    let Ok(entries) = rustix::fs::Dir::read_from(&folder) else { return vec![path.to_owned()] };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "." && name != ".." && !name.ends_with(".sample"))
        .map(|name| path.join(name))
        .collect()
}

/// Whether a git configuration only has settings that a fresh repository has. Anything unusual counts as harmful.
fn is_harmless_config(directory: &OwnedFd, path: &Path) -> bool {
    let Ok(file) = open_beneath(directory, path, OFlags::RDONLY | OFlags::NONBLOCK) else { return false };
    let is_file =
        rustix::fs::fstat(&file).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
    let mut text = String::new();
    let read = std::fs::File::from(file).take(MAX_CONFIG + 1).read_to_string(&mut text);
    is_file && read.is_ok_and(|length| length as u64 <= MAX_CONFIG) && has_only_harmless_settings(&text)
}

fn has_only_harmless_settings(text: &str) -> bool {
    let mut section = String::new();
    text.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with(['#', ';']) {
            true
        } else if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let name = header.split_whitespace().next().unwrap_or_default();
            section = name.to_lowercase();
            // A remote that is called like an address would be taken for it.
            !header.contains(['\\', ']']) && (section != "remote" || !header.contains(':'))
        } else {
            let key = line.split('=').next().unwrap_or_default().trim().to_lowercase();
            let setting = format!("{section}.{key}");
            let value = line.split_once('=').map(|(_, value)| value.trim()).unwrap_or_default();
            let is_harmless = match setting.as_str() {
                "remote.url" => is_plain_address(value),
                "remote.fetch" => value.strip_prefix('+').unwrap_or(value).starts_with("refs/"),
                other => HARMLESS_SETTINGS.contains(&other),
            };
            !line.ends_with('\\') && is_harmless
        }
    })
}

/// What a clone leaves behind. Another address may name a helper program (`ext::`), or be a file of this machine.
fn is_plain_address(address: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "._~/+@%=,-[]:".contains(c);
    let is_scp = || {
        let place = address.split_once(':').map(|(place, _)| place).unwrap_or_default();
        !place.contains('/') && place.split_once('@').is_some_and(|(user, _)| !user.is_empty())
    };
    let has_way = address.starts_with("https://") || address.starts_with("ssh://") || is_scp();
    has_way && address.chars().all(is_known) && !address.contains("::") && !address.starts_with('-')
}

/// Renames it beside itself, under a name nobody looks for, and takes its permissions.
fn move_away(directory: &Opened, path: &Path, why: &str) -> Option<Quarantined> {
    let old = path.file_name()?;
    let folder = open_beneath(&directory.handle, path.parent()?, OFlags::PATH | OFlags::DIRECTORY).ok()?;
    // ATTACK(closed-directory): the tool may have taken the right to change what it is in.
    if access(by_handle(&folder), Access::WRITE_OK).is_err() {
        let _ = chmod(by_handle(&folder), Mode::RWXU);
    }
    let mut target = OsString::from(old);
    target.push(".quarantined");
    let plain = target.clone();
    let mut moved = renameat_with(&folder, old, &folder, &target, RenameFlags::NOREPLACE);
    while moved == Err(Errno::EXIST) {
        // ATTACK(taken-names): a name that the tool could not have taken beforehand.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        target = plain.clone();
        target.push(format!("-{:x}{:x}", now.tv_sec, now.tv_nsec));
        moved = renameat_with(&folder, old, &folder, &target, RenameFlags::NOREPLACE);
    }
    let (stands, why) = match moved {
        Ok(()) => (target, why.to_owned()),
        // Gone meanwhile.
        Err(Errno::NOENT) => return None,
        Err(error) => (old.to_owned(), format!("{why}; it could not be moved ({error}), only closed")),
    };
    // By its handle: another sandbox may put a link to a file of the host in its place meanwhile. A link has no mode.
    if let Ok(handle) = open_beneath(&folder, Path::new(&stands), OFlags::PATH) {
        let _ = chmod(by_handle(&handle), Mode::empty());
    }
    let moved_to = directory.path.join(path).with_file_name(&stands);
    Some(Quarantined { path: directory.path.join(path), moved_to, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_a_fresh_repository_is_harmless() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";
        assert!(has_only_harmless_settings(fresh));
        for url in ["https://example.com/a/b.git", "ssh://git@example.com:22/a", "git@example.com:a/b.git"] {
            let cloned = format!(
                "{fresh}[remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                 [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
            );
            assert!(has_only_harmless_settings(&cloned), "{url}");
        }
    }

    #[test]
    fn settings_that_run_something_or_hide_something_are_not() {
        for text in [
            "[core]\n\tfsmonitor = ./evil\n",
            "[core]\n\thooksPath = ../x\n",
            "[alias]\n\tst = !evil\n",
            "[include]\n\tpath = ../evil\n",
            "[core] fsmonitor = x\n",
            "[core]\n\tfilemode = true \\\n",
            "[remote \"o\"]\n\turl = ext::evil\n",
            "[remote \"o\"]\n\turl = https::evil\n",
            "[remote \"o\"]\n\turl = /tmp/evil\n",
            "[remote \"o\"]\n\turl = a@ext::evil\n",
            "[remote \"o\"]\n\turl = -uevil@x:y\n",
            "[remote \"o\"]\n\turl = \"ext::evil\"\n",
            "[remote \"o\"]\n\tvcs = evil\n",
            "[remote \"o\"]\n\tuploadpack = evil\n",
            "[remote \"https://a.example/\"]\n\turl = https://b.example/\n",
            "[url \"ext::evil\"]\n\tinsteadOf = https://\n",
            "[filter \"a\"]\n\tclean = evil\n",
        ] {
            assert!(!has_only_harmless_settings(text), "{text}");
        }
    }
}
