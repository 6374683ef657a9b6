//! Devices and terminals of the host: written to, typed into.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use jail::Control;
use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

use super::kernel::told_by;
use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Teeth};
use crate::launch::{Launcher, Mode, Ran, Run, Site};
use crate::payload::{Payload, argument, held, tell, through};
use crate::raw;
use crate::stage::Stage;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("write-terminal", write_terminal),
    ("type-terminal", type_terminal),
    ("paste-terminal", paste_terminal),
    ("devices", see_devices),
    ("make-device", make_device),
];

const TYPED: &str = "typed-by-the-attacker";

pub(crate) fn cases() -> Vec<Case> {
    let typing = |promise, payload: &'static str| Case {
        needs: vec![Need::Typing],
        ..Case::new("terminal-injection", promise, &[Control::Session, Control::Seccomp], move |site| {
            reach_own_terminal(site, payload)
        })
    };
    vec![
        Case::new(
            "host-terminal",
            "a terminal of the host cannot be written to",
            &[Control::Devices],
            write_host_terminal,
        ),
        Case::new("host-devices", "no device of the host is there", &[Control::Devices], |site| {
            told_by(site, "devices", &[])
        }),
        Case {
            needs: vec![Need::Root],
            teeth: Teeth::Bare,
            ..Case::new(
                "device-file",
                "a device file in a granted directory does not work",
                &[Control::Devices],
                read_device_file,
            )
        },
        Case {
            needs: vec![Need::Root],
            teeth: Teeth::Bare,
            ..Case::new(
                "made-device-file",
                "no device file can be made",
                &[Control::Devices],
                make_device_file,
            )
        },
        Case::new(
            "callers-terminal",
            "the terminal of the caller cannot be written to",
            &[Control::Session],
            |site| reach_own_terminal(site, "write-terminal"),
        ),
        typing("nothing can be typed into the terminal of the caller by TIOCSTI", "type-terminal"),
        typing("nothing can be pasted into the console of the caller by TIOCLINUX", "paste-terminal"),
    ]
}

/// A terminal of the host: what is written to it is read from the other end.
struct Terminal {
    master: OwnedFd,
    path: PathBuf,
}

impl Terminal {
    fn new() -> Try<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes()));
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Terminal { master, path })
    }

    /// Everything that was written to it.
    fn written(&self) -> String {
        let mut bytes = [0; 4096];
        let count = rustix::io::read(&self.master, &mut bytes).unwrap_or(0);
        String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned()
    }
}

fn write_host_terminal(site: &Site<'_>) -> Try<Attempt> {
    let terminal = Terminal::new()?;
    // As `mesg y` leaves it, and more: the owner is not what holds here.
    fs::set_permissions(&terminal.path, Permissions::from_mode(0o666))?;
    let ran = site.run(Run::payload("write-terminal", [&terminal.path]))?;
    ran.judged(|ran| ran.seen(terminal.written().contains(TYPED), "text appeared on a terminal of the host"))
}

fn reach_own_terminal(site: &Site<'_>, payload: &'static str) -> Try<Attempt> {
    let terminal = Terminal::new()?;
    // Keeps the terminal's own side open after the launcher is gone, as a shell would.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let _shell = rustix::fs::open(&terminal.path, flags, FileMode::empty())?;
    let stages = vec![Stage::Terminal(terminal.path.clone())];
    let launcher = Launcher { stages, ..Launcher::default() };
    let ran = site.run(Run { launcher, ..Run::payload(payload, ["/dev/tty"]) })?;
    let effect = match payload {
        // What is pasted is nothing; that the call reached the terminal is what must not be.
        "paste-terminal" => ran.told()?,
        // Typed text is echoed like anything a person types.
        _ => ran.seen(terminal.written().contains(TYPED), "text appeared on the caller's terminal")?,
    };
    Ok(ran.attempt(effect))
}

fn read_device_file(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.folder("granted")?;
    let device = granted.join("zero");
    rustix::fs::mknodat(
        CWD,
        &device,
        FileType::CharacterDevice,
        FileMode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 5),
    )?;
    fs::set_permissions(&device, Permissions::from_mode(0o666))?;
    let ran = site.run(Run { write: vec![granted], ..Run::payload("open-for-writing", [&device]) })?;
    ran.judged(Ran::told)
}

fn make_device_file(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let scratch = ["/tmp", "/dev/shm", jail::HOME].map(PathBuf::from);
    let folders = match site.mode {
        Mode::Bare => vec![granted.clone()],
        Mode::Behind(_) => scratch.into_iter().chain([granted.clone()]).collect(),
    };
    let ran = site.run(Run { write: vec![granted], ..Run::payload("make-device", folders) })?;
    ran.judged(Ran::told)
}

fn write_terminal(arguments: &[String]) {
    let opened = fs::OpenOptions::new().write(true).open(argument(arguments, 0));
    tell("write to a terminal", opened.and_then(|mut terminal| terminal.write_all(TYPED.as_bytes())));
}

fn type_terminal(arguments: &[String]) {
    let opened = fs::OpenOptions::new().read(true).write(true).open(argument(arguments, 0));
    let typed =
        opened.and_then(|terminal| TYPED.bytes().try_for_each(|byte| raw::type_into(&terminal, byte)));
    tell("type into a terminal", typed);
}

fn paste_terminal(arguments: &[String]) {
    let opened = fs::OpenOptions::new().read(true).write(true).open(argument(arguments, 0));
    match opened.and_then(raw::paste_into) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => through("the call reached the terminal"),
        other => tell("paste into a console", other),
    }
}

fn see_devices(_: &[String]) {
    let known = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
        "zero",
    ];
    let names = fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.file_name());
    match names.map(|name| name.to_string_lossy().into_owned()).find(|name| !known.contains(&name.as_str())) {
        Some(name) => through(format!("sees the device {name}")),
        None => held("sees no device of the host"),
    }
}

fn make_device(arguments: &[String]) {
    for folder in arguments {
        let path = format!("{folder}/device");
        let (mode, zero) = (FileMode::from_raw_mode(0o666), rustix::fs::makedev(1, 5));
        let made = rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, zero);
        let opened = made.and_then(|()| rustix::fs::open(&path, OFlags::RDONLY, FileMode::empty()));
        tell(&format!("make a device in {folder}"), opened);
    }
}
