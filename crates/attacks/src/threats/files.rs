//! Files outside the grant: read, written, reached by another name.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jail::{Access, Control};
use rustix::fs::{Mode, OFlags};

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Teeth};
use crate::launch::{Run, Site};
use crate::payload::{Payload, argument, held, say, tell, through};
use crate::place::token;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("read", read),
    ("write", write),
    ("list", list),
    ("change", change),
    ("alias", alias),
    ("pipe", pipe),
    ("empty-pipe", empty_pipe),
];

pub(crate) fn cases() -> Vec<Case> {
    let (mounts, both) = ([Control::Filesystem], [Control::Filesystem, Control::LandlockFiles]);
    vec![
        Case::new(
            "outside-file",
            "a file outside the granted directories cannot be read",
            &mounts,
            read_outside,
        ),
        Case::new(
            "home-ssh",
            "keys in the home of the caller cannot be read from a directory beneath it",
            &mounts,
            read_home,
        ),
        Case {
            needs: vec![Need::Landlock(1), Need::OutsideTmp],
            ..Case::new(
                "outside-write",
                "a directory outside the granted ones cannot be written",
                &both,
                write_outside,
            )
        },
        Case::new(
            "proc-self-root",
            "the root of the host is not behind proc self root",
            &mounts,
            read_by_proc,
        ),
        Case::new(
            "string-prefix",
            "granting a directory does not show one whose name begins the same",
            &mounts,
            read_by_prefix,
        ),
        Case::new(
            "siblings",
            "the directory above a granted one does not list what else is there",
            &mounts,
            list_above,
        ),
        Case {
            teeth: Teeth::Bare,
            needs: vec![Need::OutsideTmp],
            ..Case::new(
                "read-only-directory",
                "nothing in a directory granted for reading can be changed",
                &both,
                change_read_only,
            )
        },
        Case::new(
            "nested-grant-moved",
            "a directory granted for reading within one granted for writing cannot be replaced",
            &mounts,
            replace_nested,
        ),
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "hard-link",
                "a hard link is no way to write a file that cannot be written",
                &[Control::Filesystem, Control::ProtectedNames],
                write_by_alias,
            )
        },
        Case {
            needs: vec![Need::Landlock(1), Need::OutsideTmp],
            ..Case::new(
                "fifo-in-a-read-only-directory",
                "a pipe of the host in a directory granted for reading cannot be written",
                &[Control::HostSockets, Control::LandlockFiles],
                |site| write_to_pipe(site, Access::Read),
            )
        },
        Case::new(
            "fifo-in-a-writable-directory",
            "a pipe of the host in a directory granted for writing cannot be written or replaced",
            &[Control::HostSockets],
            |site| write_to_pipe(site, Access::Write),
        ),
        Case::new(
            "fifo-emptied",
            "what the host writes to a pipe in a granted directory cannot be read",
            &[Control::HostSockets],
            read_from_pipe,
        ),
    ]
}

fn read_outside(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let outside = site.place.file("outside/secret", &secret)?;
    let granted = site.place.folder("granted")?;
    let around = granted.join("../outside/secret");
    let run = Run { read: vec![granted], ..Run::payload("read", [outside, around]) };
    let ran = site.run(run)?;
    ran.judged(|ran| ran.revealed(&secret))
}

/// Other sandboxes show the whole home.
fn read_home(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let key = site.place.file("home/.ssh/id_ed25519", &secret)?;
    let work = site.place.folder("home/work")?;
    let ran = site.run(Run { write: vec![work], ..Run::payload("read", [key]) })?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn write_outside(site: &Site<'_>) -> Try<Attempt> {
    let outside = site.place.open_folder("outside")?.join("made");
    let ran = site.run(Run::payload("write", [&outside, &PathBuf::from("made")]))?;
    ran.judged(|ran| ran.seen(outside.exists(), "made a file outside"))
}

fn read_by_proc(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let path = site.place.file("outside/secret", &secret)?;
    let granted = site.place.folder("granted")?;
    let places =
        ["/proc/self/root", "/proc/1/root", "/proc/thread-self/root", "/proc/self/cwd/../../../../../../.."];
    let paths = places.iter().map(|place| format!("{place}{}", path.display()));
    let run = Run { working_directory: granted.clone(), read: vec![granted], ..Run::payload("read", paths) };
    let ran = site.run(run)?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn read_by_prefix(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let granted = site.place.folder("work")?;
    let evil = site.place.file("work-evil/secret", &secret)?;
    let ran = site.run(Run { read: vec![granted], ..Run::payload("read", [evil]) })?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn list_above(site: &Site<'_>) -> Try<Attempt> {
    let name = token();
    site.place.folder(&name)?;
    let granted = site.place.folder("granted")?;
    let above = site.place.root().to_owned();
    let ran = site.run(Run { read: vec![granted], ..Run::payload("list", [above]) })?;
    ran.judged(|ran| ran.revealed(&name))
}

fn change_read_only(site: &Site<'_>) -> Try<Attempt> {
    let shown = site.place.open_folder("shown")?;
    let file = site.place.file("shown/file", "before")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
    site.place.file("shown/other", "before")?;
    let stamp = |path: &Path| fs::symlink_metadata(path).map(|m| (m.permissions().mode(), m.modified().ok()));
    let before = stamp(&file)?;
    let ran = site.run(Run { read: vec![shown.clone()], ..Run::payload("change", [&shown]) })?;
    let mut names: Vec<String> =
        fs::read_dir(&shown)?.flatten().map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.sort();
    let same =
        names == ["file", "other"] && fs::read_to_string(&file)? == "before" && stamp(&file)? == before;
    ran.judged(|ran| ran.seen(!same, "changed something in a read-only directory"))
}

fn write_by_alias(site: &Site<'_>) -> Try<Attempt> {
    let shown = site.place.file("shown/file", "before")?;
    let protected = site.place.file("granted/toolgate.yaml", "before")?;
    let hook = site.place.file("granted/.git/hooks/pre-commit", "before")?;
    let granted = site.place.path("granted");
    for file in [&shown, &protected, &hook] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o666))?;
    }
    let run = Run {
        read: vec![site.place.path("shown")],
        write: vec![granted.clone()],
        ..Run::payload("alias", [&granted, &shown, &protected, &hook])
    };
    let ran = site.run(run)?;
    let changed = [shown, protected, hook]
        .iter()
        .any(|file| fs::read_to_string(file).ok().as_deref() != Some("before"));
    ran.judged(|ran| ran.seen(changed, "wrote through a hard link"))
}

/// What is shown is a mount and stays; what it is in is not, and the host has no mounts.
fn replace_nested(site: &Site<'_>) -> Try<Attempt> {
    let file = site.place.file("work/a/b/shown/file", "harmless")?;
    let work = site.place.open_folder("work")?;
    site.place.open_folder("work/a")?;
    let arguments = [work.display().to_string()].into_iter().chain(
        ["move:a/b:moved", "move:a:moved", "write:a/b/shown/file:evil"].into_iter().map(str::to_owned),
    );
    let shown = site.place.path("work/a/b/shown");
    let ran = site.run(Run { read: vec![shown], write: vec![work], ..Run::payload("perform", arguments) })?;
    let evil = fs::read_to_string(&file).is_ok_and(|text| text == "evil");
    ran.judged(|ran| ran.seen(evil, "the host finds another directory there"))
}

fn make_pipe(folder: &Path) -> Try<PathBuf> {
    let pipe = folder.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o666), 0)?;
    fs::set_permissions(&pipe, fs::Permissions::from_mode(0o666))?;
    Ok(pipe)
}

fn write_to_pipe(site: &Site<'_>, access: Access) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let pipe = make_pipe(&granted)?;
    let reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
    let before = rustix::fs::fstat(&reader)?.st_ino;
    let mut run = Run::payload("pipe", [&pipe]);
    match access {
        Access::Read => run.read = vec![granted],
        Access::Write => run.write = vec![granted],
    }
    let ran = site.run(run)?;
    let mut bytes = [0; 16];
    let received = rustix::io::read(&reader, &mut bytes).is_ok_and(|count| count > 0);
    let replaced = rustix::fs::stat(&pipe).map_or(true, |status| status.st_ino != before);
    ran.judged(|ran| ran.seen(received || replaced, "the host's pipe received bytes, or is another one"))
}

fn read_from_pipe(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let pipe = make_pipe(&granted)?;
    let secret = token();
    // Open for both, so that it waits for nobody.
    let writer = rustix::fs::open(&pipe, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty())?;
    rustix::io::write(&writer, secret.as_bytes())?;
    let ran = site.run(Run { read: vec![granted], ..Run::payload("empty-pipe", [&pipe]) })?;
    ran.judged(|ran| ran.revealed(&secret))
}

/// Reads each file and prints what is in it.
fn read(arguments: &[String]) {
    for path in arguments {
        match fs::read(path) {
            Ok(content) => {
                say(&String::from_utf8_lossy(&content));
                through(format!("read {path}"));
            }
            Err(error) => held(format!("read {path}: {error}")),
        }
    }
}

/// Writes a text to a file.
fn write(arguments: &[String]) {
    let path = argument(arguments, 0);
    tell(&format!("write {path}"), fs::write(path, argument(arguments, 1)));
}

/// Lists each directory.
fn list(arguments: &[String]) {
    for path in arguments {
        match fs::read_dir(path) {
            Ok(entries) => {
                entries.flatten().for_each(|entry| say(&entry.file_name().to_string_lossy()));
                through(format!("listed {path}"));
            }
            Err(error) => held(format!("list {path}: {error}")),
        }
    }
}

/// Tries every way to change a directory that holds `file` and `other`.
fn change(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    let file = folder.join("file");
    tell("make a file", fs::write(folder.join("made"), "x"));
    tell("make a directory", fs::create_dir(folder.join("made")));
    tell("make a link", std::os::unix::fs::symlink("/", folder.join("made")));
    tell("make a hard link", fs::hard_link(&file, folder.join("made")));
    tell("write a file", fs::write(&file, "after"));
    tell(
        "append to a file",
        fs::OpenOptions::new().append(true).open(&file).and_then(|mut f| f.write_all(b"x")),
    );
    tell("shorten a file", rustix::fs::open(&file, OFlags::WRONLY | OFlags::TRUNC, Mode::empty()));
    tell("change a mode", fs::set_permissions(&file, fs::Permissions::from_mode(0o600)));
    tell("change a time", change_time(&file));
    tell("set an attribute", rustix::fs::setxattr(&file, "user.x", b"x", rustix::fs::XattrFlags::empty()));
    tell("rename over a file", fs::rename(folder.join("other"), &file));
    tell("rename into scratch space", fs::rename(&file, "/tmp/moved"));
    tell("remove a file", fs::remove_file(folder.join("other")));
    let unnamed = rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600));
    tell("make a file without a name", unnamed);
}

fn change_time(file: &Path) -> std::io::Result<()> {
    fs::File::open(file)?.set_modified(std::time::UNIX_EPOCH)
}

/// Links each file into the granted directory under another name, and writes it there.
fn alias(arguments: &[String]) {
    let granted = Path::new(argument(arguments, 0));
    for (number, path) in arguments.iter().skip(1).enumerate() {
        let name = granted.join(format!("alias{number}"));
        let attempt = fs::hard_link(path, &name).and_then(|()| fs::write(&name, "after"));
        tell(&format!("write {path} by another name"), attempt);
    }
}

/// Writes to a pipe.
fn pipe(arguments: &[String]) {
    let opened = rustix::fs::open(argument(arguments, 0), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    tell("write to a pipe", opened.and_then(|pipe| rustix::io::write(pipe, b"x")));
    let path = Path::new(argument(arguments, 0));
    tell("replace a pipe", fs::remove_file(path).and_then(|()| fs::write(path, "")));
}

/// Takes what somebody has written to a pipe.
fn empty_pipe(arguments: &[String]) {
    let mut bytes = [0; 256];
    let opened = rustix::fs::open(argument(arguments, 0), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    match opened.and_then(|pipe| rustix::io::read(pipe, &mut bytes)) {
        Ok(count) => {
            say(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
            through("read from a pipe");
        }
        Err(error) => held(format!("read from a pipe: {error}")),
    }
}
