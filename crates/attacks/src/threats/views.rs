//! What the host shares by name: memory, queues, its host name, its cgroup paths, and what `/proc` tells about it.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use jail::{Caller, Control};

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth, Trace};
use crate::launch::{Launcher, Mode, Ran, Reply, Run, Site};
use crate::payload::{Payload, argument, held, say, tell, through};
use crate::place::token;
use crate::raw::{self, Segment};
use crate::stage::Stage;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("segment", read_segment),
    ("queue", open_queue),
    ("host-name", read_host_name),
    ("cgroup", read_cgroup),
    ("open-for-writing", open_for_writing),
    ("oom", write_oom),
];

pub(crate) fn cases(caller: Caller) -> Vec<Case> {
    let mut write_walls = vec![Control::ProcFiles, Control::LandlockFiles];
    if caller == Caller::Root {
        // Root's sandbox is another user, whom the kernel's settings do not belong to.
        write_walls.push(Control::Identity);
    }
    vec![
        Case::new(
            "shared-memory",
            "a shared memory segment of the host cannot be read",
            &[Control::Ipc],
            read_host_segment,
        ),
        Case::new(
            "message-queue",
            "a message queue of the host cannot be opened",
            &[Control::Ipc],
            open_host_queue,
        ),
        Case::new("host-name", "the name of the host is not known", &[Control::Hostname], know_host_name),
        Case::new(
            "cgroup-paths",
            "the cgroup paths of the host are not known",
            &[Control::CgroupView],
            know_cgroup,
        ),
        Case::new(
            "proc-masked",
            "files in proc that tell about the host are empty",
            &[Control::ProcFiles],
            read_masked,
        ),
        Case {
            needs: vec![Need::Root],
            ..Case::new(
                "window-in-a-grant",
                "the processes of the host cannot be seen where they are mounted in a granted directory",
                &[Control::ProcFiles],
                look_through_a_window,
            )
        },
        Case {
            needs: vec![Need::Root],
            teeth: Teeth::Bare,
            trace: Trace::Refused("is in a filesystem of the kernel"),
            ..Case::new(
                "granted-window",
                "a directory that shows the kernel of the host cannot be granted",
                &[Control::ProcFiles],
                grant_a_window,
            )
        },
        Case {
            needs: vec![Need::Root],
            ..Case::new(
                "sysctl",
                "settings of the kernel cannot be opened for writing",
                &write_walls,
                open_settings,
            )
        },
        Case {
            needs: vec![Need::Landlock(1)],
            ..Case::new(
                "proc-write",
                "files in proc cannot be written",
                &[Control::ProcFiles, Control::LandlockFiles],
                write_own_score,
            )
        },
    ]
}

fn read_host_segment(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let key = i32::from_str_radix(secret.get(5..12).unwrap_or("1"), 16)?;
    let _segment = Segment::create(key, &secret)?;
    let ran = site.run(Run::payload("segment", [key.to_string()]))?;
    ran.judged(|ran| ran.revealed(&secret))
}

/// A queue of the host; removed when dropped.
struct Queue(CString);

impl Drop for Queue {
    fn drop(&mut self) {
        raw::remove_queue(&self.0);
    }
}

fn open_host_queue(site: &Site<'_>) -> Try<Attempt> {
    let name = format!("/{}", token());
    let queue = Queue(CString::new(name.clone())?);
    raw::create_queue(&queue.0)?;
    // The mode it is made with is cut by our own mask; a sandbox of root's is another user.
    let ran = site.run(Run::payload("queue", [name]))?;
    ran.judged(Ran::told)
}

fn know_host_name(site: &Site<'_>) -> Try<Attempt> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let namespace = fs::read_link("/proc/self/ns/uts")?.display().to_string();
    let ran = site.run(Run::payload("host-name", [""; 0]))?;
    ran.judged(|ran| ran.revealed(&format!("{} {namespace}", name.trim())))
}

fn know_cgroup(site: &Site<'_>) -> Try<Attempt> {
    let ran = site.run(Run::payload("cgroup", [fs::read_link("/proc/self/ns/cgroup")?]))?;
    ran.judged(Ran::told)
}

fn read_masked(site: &Site<'_>) -> Try<Attempt> {
    let command_line = fs::read_to_string("/proc/cmdline")?;
    let masked = ["/proc/cmdline", "/proc/keys", "/proc/key-users", "/proc/interrupts", "/proc/modules"];
    let ran = site.run(Run::payload("read", masked))?;
    let effect = match ran.revealed(command_line.trim())? {
        // Whatever could be read is too much, also where the command line of the kernel is empty.
        Effect::Held(_) => ran.told()?,
        through => through,
    };
    Ok(ran.attempt(effect))
}

fn look_through_a_window(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.folder("granted")?;
    let window = site.place.folder("granted/a/window")?;
    let launcher = Launcher { stages: vec![Stage::Window(window.clone())], ..Launcher::default() };
    let tried = ["1/comm", "self/status", "version"].map(|name| window.join(name));
    let ran = site.run(Run { read: vec![granted], launcher, ..Run::payload("read", tried) })?;
    ran.judged(Ran::told)
}

fn grant_a_window(site: &Site<'_>) -> Try<Attempt> {
    let window = PathBuf::from("/proc/self/fd");
    if matches!(site.mode, Mode::Bare) {
        return site.run(Run::payload("list", [window]))?.judged(|ran| ran.seen(true, "it can be listed"));
    }
    let window = site.place.folder("window")?;
    let launcher = Launcher { stages: vec![Stage::Window(window.clone())], ..Launcher::default() };
    let ran = site.run(Run { read: vec![window.clone()], launcher, ..Run::payload("list", [window]) })?;
    let effect = Effect::through_if(matches!(ran.answer, Reply::Report(_)), "it was granted");
    Ok(ran.attempt(effect))
}

/// Opened only: nothing of the host is ever written.
fn open_settings(site: &Site<'_>) -> Try<Attempt> {
    let settings = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/sysrq",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
    ];
    let ran = site.run(Run::payload("open-for-writing", settings))?;
    ran.judged(Ran::told)
}

fn write_own_score(site: &Site<'_>) -> Try<Attempt> {
    let ran = site.run(Run::payload("oom", [""; 0]))?;
    ran.judged(Ran::told)
}

fn read_segment(arguments: &[String]) {
    match raw::read_segment(argument(arguments, 0).parse().unwrap_or(0)) {
        Ok(text) => {
            say(&text);
            through("read a segment of the host");
        }
        Err(error) => held(format!("read a segment of the host: {error}")),
    }
}

fn open_queue(arguments: &[String]) {
    let Ok(name) = CString::new(argument(arguments, 0)) else { return };
    // Found but not permitted is found all the same.
    match raw::open_queue(&name) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => through("found the queue"),
        other => tell("open a queue of the host", other),
    }
}

fn read_host_name(_: &[String]) {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let namespace = fs::read_link("/proc/self/ns/uts").map(|link| link.display().to_string());
    say(&format!("{name} {}", namespace.unwrap_or_default()));
    held("looked for the host name");
}

fn read_cgroup(arguments: &[String]) {
    let paths = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/cgroup").map(|link| link.display().to_string());
    if let Some(line) = paths.lines().find(|line| !line.ends_with(":/")) {
        through(format!("sees the cgroup path {line}"));
    } else if namespace.unwrap_or_default() == argument(arguments, 0) {
        through("shares the cgroup namespace of the host");
    } else {
        held("sees no cgroup path");
    }
}

fn open_for_writing(arguments: &[String]) {
    for path in arguments {
        tell(&format!("open {path} for writing"), OpenOptions::new().write(true).open(path));
    }
}

/// A file in `/proc` that its own process may write: how readily the kernel ends it.
fn write_oom(_: &[String]) {
    tell("write oom_score_adj", fs::write("/proc/self/oom_score_adj", "500"));
}
