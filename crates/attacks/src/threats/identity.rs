//! Becoming somebody else: root's files, setuid files, capabilities.

use std::ffi::{CString, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;

use jail::Control;
use rustix::net::{AddressFamily, SocketType};

use super::kernel::{status_field, told_by};
use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Launcher, Mode, Ran, Run, Site, command_of};
use crate::payload::{ATTACK_ARGUMENT, HELD, Payload, THROUGH, argument, held, say, tell, through};
use crate::place::{copy_program, token};
use crate::raw;
use crate::stage::{KEY, Stage};

pub(crate) const PAYLOADS: &[Payload] = &[
    ("execute", execute),
    ("who", who),
    ("raw-socket", raw_socket),
    ("privileges", privileges),
    ("make", make),
    ("make-setuid", make_setuid),
];

/// Every wall that takes the right to gain privileges by executing a file, besides the one that is for it.
const NO_NEW_PRIVILEGES: [Control; 4] =
    [Control::Seccomp, Control::LandlockFiles, Control::LandlockTcp, Control::LandlockScopes];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            needs: vec![Need::Root],
            ..Case::new(
                "etc-shadow",
                "root granting etc does not show its secrets",
                &[Control::Identity],
                read_shadow,
            )
        },
        Case {
            needs: vec![Need::Root],
            ..Case::new(
                "group-readable-keys",
                "keys of the system that a group of the caller may read are not shown",
                &[Control::Filesystem],
                read_key_of_a_group,
            )
        },
        Case {
            needs: vec![Need::Root],
            ..Case::new(
                "owner-of-made-files",
                "files made by the sandbox of root belong to the owner of the directory",
                &[Control::Identity],
                make_a_file,
            )
        },
        Case {
            needs: vec![Need::Root],
            teeth: Teeth::Shown(Box::new(setuid_on_the_host)),
            ..Case::new(
                "setuid-file",
                "a setuid file in a granted directory gives nothing",
                &[Control::Privileges, Control::Identity],
                execute_setuid,
            )
        },
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "setuid-left-behind",
                "a setuid file cannot be left in a granted directory",
                &[Control::Seccomp],
                leave_setuid,
            )
        },
        Case::new("bounding-set", "no capability is left to be gained", &[Control::Privileges], |site| {
            told_by(site, "privileges", &[])
        }),
        Case {
            needs: vec![Need::Root],
            ..Case::new(
                "file-capabilities",
                "a file with capabilities gives none even where nothing else stands in the way",
                &[Control::Privileges],
                execute_capable,
            )
        },
    ]
}

fn read_shadow(site: &Site<'_>) -> Try<Attempt> {
    let ran = site.run(Run { read: vec![PathBuf::from("/etc")], ..Run::payload("read", ["/etc/shadow"]) })?;
    ran.judged(|ran| ran.revealed("root:"))
}

/// Groups stay with an ordinary user: nothing but root could take them away.
fn read_key_of_a_group(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let launcher = Launcher { stages: vec![Stage::KeyOfAGroup(secret.clone())], ..Launcher::default() };
    let ran = site.run(Run { launcher, ..Run::payload("read", [KEY, "/etc/ssl/openssl.cnf"]) })?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn make_a_file(site: &Site<'_>) -> Try<Attempt> {
    const OWNER: u32 = 12_345;
    let granted = site.place.open_folder("granted")?;
    chown(&granted, Some(OWNER), Some(OWNER))?;
    let made = granted.join("made");
    let ran = site.run(Run { write: vec![granted], ..Run::payload("make", [&made]) })?;
    let owner = fs::metadata(&made).map_err(|error| format!("no file was made: {error}"))?.uid();
    ran.judged(|ran| ran.seen(owner != OWNER, &format!("the file belongs to {owner}")))
}

/// Our own binary, root's and setuid, where everyone can execute it.
fn setuid_copy(site: &Site<'_>) -> Try<PathBuf> {
    let copy = site.place.folder("granted")?.join("setuid");
    copy_program(&site.bench.tool, &copy)?;
    fs::set_permissions(&copy, Permissions::from_mode(0o4755))?;
    Ok(copy)
}

fn setuid_on_the_host(site: &Site<'_>) -> Try<Effect> {
    const NOBODY: u32 = 65_534;
    let copy = setuid_copy(site)?;
    let mut command = command_of(&copy, &[ATTACK_ARGUMENT, "who"].map(OsString::from));
    command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
    loop {
        match command.output() {
            // A process that another case has just started still has the file open for writing, for a moment.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            output => return Ran::bare(&output?).told(),
        }
    }
}

fn execute_setuid(site: &Site<'_>) -> Try<Attempt> {
    let copy = setuid_copy(site)?;
    let granted = site.place.path("granted");
    let ran =
        site.run(Run { read: vec![granted], ..Run::payload("execute", [copy.as_os_str(), "who".as_ref()]) })?;
    ran.judged(Ran::told)
}

fn leave_setuid(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let ran = site.run(Run { write: vec![granted.clone()], ..Run::payload("make-setuid", [&granted]) })?;
    let special = |entry: fs::DirEntry| {
        let mode = entry.metadata().map_or(0, |status| status.permissions().mode());
        (mode & 0o6000 != 0).then(|| format!("{} has mode {mode:o}", entry.file_name().display()))
    };
    let left: Vec<String> = fs::read_dir(&granted)?.flatten().filter_map(special).collect();
    ran.judged(|ran| ran.seen(!left.is_empty(), &left.join(", ")))
}

/// With the mounts and everything that takes new privileges left out: what the one wall does alone.
fn execute_capable(site: &Site<'_>) -> Try<Attempt> {
    let copy = site.place.folder("outside")?.join("capable");
    copy_program(&site.bench.tool, &copy)?;
    // Version 2, effective; CAP_NET_RAW (13) permitted.
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::fs::setxattr(&copy, "security.capability", &value, rustix::fs::XattrFlags::empty())?;
    let run = Run::payload("execute", [copy.as_os_str(), "raw-socket".as_ref()]);
    let mode = match site.mode {
        Mode::Behind(without) => {
            let others = NO_NEW_PRIVILEGES.into_iter().chain([Control::Filesystem]);
            Mode::Behind(others.fold(without, jail::Controls::with))
        }
        Mode::Bare => Mode::Bare,
    };
    let bare_of_the_rest = site.bench.site_from(mode, site.start)?;
    let ran = bare_of_the_rest.run(run)?;
    ran.judged(Ran::told)
}

/// Executes a copy of this binary with another payload, and passes on what that says.
fn execute(arguments: &[String]) {
    let own = [ATTACK_ARGUMENT, argument(arguments, 1)].map(OsString::from);
    match command_of(argument(arguments, 0).as_ref(), &own).output() {
        Ok(output) => {
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                if line.starts_with(HELD) || line.starts_with(THROUGH) {
                    say(line);
                }
            }
        }
        Err(error) => held(format!("execute: {error}")),
    }
}

/// Through if this process has become somebody with power.
fn who(_: &[String]) {
    let user = rustix::process::geteuid();
    let changed = user != rustix::process::getuid();
    let capabilities = status_field("CapEff");
    if changed || user.is_root() || !capabilities.trim_start_matches('0').is_empty() {
        through(format!("is user {} with capabilities {capabilities}", user.as_raw()));
    } else {
        held(format!("is user {}", user.as_raw()));
    }
}

fn raw_socket(_: &[String]) {
    let icmp = std::num::NonZeroU32::new(1).map(rustix::net::Protocol::from_raw);
    tell("open a raw socket", rustix::net::socket(AddressFamily::INET, SocketType::RAW, icmp));
}

fn privileges(_: &[String]) {
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let value = status_field(set);
        match value.trim_start_matches('0') {
            "" => held(format!("{set} is empty")),
            _ => through(format!("{set} is {value}")),
        }
    }
    match status_field("NoNewPrivs").as_str() {
        "1" => held("nothing is gained by executing a file"),
        _ => through("executing a file may give privileges"),
    }
}

fn make(arguments: &[String]) {
    tell("make a file", fs::write(argument(arguments, 0), "made"));
}

/// By every call that sets a mode.
fn make_setuid(arguments: &[String]) {
    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
    let folder = PathBuf::from(argument(arguments, 0));
    let mode = Mode::from_raw_mode(0o6755);
    let plain = |name: &str| fs::write(folder.join(name), "x").map(|()| folder.join(name));
    tell("chmod", plain("chmod").and_then(|path| Ok(rustix::fs::chmod(path, mode)?)));
    let file = plain("fchmod").and_then(fs::File::open);
    tell("fchmod", file.and_then(|file| Ok(rustix::fs::fchmod(file, mode)?)));
    let path = plain("fchmodat");
    tell("fchmodat", path.and_then(|path| Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)));
    let path = plain("fchmodat2").and_then(|path| Ok(CString::new(path.into_os_string().into_vec())?));
    tell("fchmodat2", path.and_then(|path| raw::change_mode(&path, mode.as_raw_mode())));
    tell("open", rustix::fs::open(folder.join("open"), OFlags::CREATE | OFlags::WRONLY, mode));
    let resolve = rustix::fs::ResolveFlags::empty();
    let flags = OFlags::CREATE | OFlags::WRONLY;
    tell("openat2", rustix::fs::openat2(CWD, folder.join("openat2"), flags, mode, resolve));
    tell("mknod", rustix::fs::mknodat(CWD, folder.join("mknod"), FileType::RegularFile, mode, 0));
}
