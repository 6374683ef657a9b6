//! The kernel's own surface: calls nobody needs, and namespaces inside a namespace.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use jail::Control;

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case};
use crate::launch::{Ran, Run, Site, command_of};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, held, say, tell, through};
use crate::raw::{self, Word, try_call};

pub(crate) const PAYLOADS: &[Payload] = &[
    ("call", call),
    ("calls", calls),
    ("families", families),
    ("protocols", protocols),
    ("pairs", pairs),
    ("reset-affinity", reset_affinity),
    ("lease", lease),
    ("nest", nest),
    ("nest-and-mount", nest_and_mount),
    ("call-32", call_like_32_bits),
    ("call-32-child", call_like_32_bits_child),
];

const NONE: Word = Word::Number(0);

/// A call that an unprivileged process of the host can make, and must not make here.
struct Useful {
    id: &'static str,
    promise: &'static str,
    number: libc::c_long,
    words: [Word; 5],
}

const USEFUL: &[Useful] = &[
    Useful {
        id: "io-uring",
        promise: "io_uring does not exist",
        number: libc::SYS_io_uring_setup,
        words: [Word::Number(8), Word::Buffer, NONE, NONE, NONE],
    },
    Useful {
        id: "keyctl",
        promise: "keys of the kernel cannot be used",
        number: libc::SYS_keyctl,
        // KEYCTL_GET_KEYRING_ID of the session keyring, made if there is none.
        words: [NONE, Word::Number(-3), Word::Number(1), NONE, NONE],
    },
    Useful { id: "ptrace", promise: "nobody can be traced", number: libc::SYS_ptrace, words: [NONE; 5] },
    Useful {
        id: "userfaultfd",
        promise: "userfaultfd does not exist",
        number: libc::SYS_userfaultfd,
        words: [Word::Number(1), NONE, NONE, NONE, NONE],
    },
    Useful {
        id: "personality",
        promise: "memory cannot be made executable by a personality",
        number: libc::SYS_personality,
        words: [Word::Number(0x0040_0000), NONE, NONE, NONE, NONE],
    },
    Useful {
        id: "local-descriptor-table",
        promise: "the descriptor table of the processor cannot be changed",
        number: libc::SYS_modify_ldt,
        words: [NONE, Word::Buffer, Word::Number(16), NONE, NONE],
    },
];

/// Calls that the kernel itself refuses to most; here nobody reaches its check.
const UNREACHABLE: &[(&str, libc::c_long)] = &[
    ("acct", libc::SYS_acct),
    ("add_key", libc::SYS_add_key),
    ("bpf", libc::SYS_bpf),
    ("chroot", libc::SYS_chroot),
    ("clock_settime", libc::SYS_clock_settime),
    ("delete_module", libc::SYS_delete_module),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("finit_module", libc::SYS_finit_module),
    ("fsopen", libc::SYS_fsopen),
    ("init_module", libc::SYS_init_module),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("ioperm", libc::SYS_ioperm),
    ("kcmp", libc::SYS_kcmp),
    ("kexec_file_load", libc::SYS_kexec_file_load),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    ("mount", libc::SYS_mount),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("move_mount", libc::SYS_move_mount),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("open_tree", libc::SYS_open_tree),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("pivot_root", libc::SYS_pivot_root),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("quotactl", libc::SYS_quotactl),
    ("request_key", libc::SYS_request_key),
    ("setns", libc::SYS_setns),
    ("settimeofday", libc::SYS_settimeofday),
    ("swapon", libc::SYS_swapon),
    ("syslog", libc::SYS_syslog),
    ("umount2", libc::SYS_umount2),
];

/// Socket families beyond those every program needs: family, type, protocol.
const FAMILIES: &[(&str, i32, i32, i32)] = &[
    ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
    ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
    ("crypto", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
    ("kernel events", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT),
    ("audit", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT),
    ("netfilter", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER),
    ("generic", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC),
];

/// Protocols of the internet beyond those every program needs.
const PROTOCOLS: &[(&str, i32, i32, i32)] = &[
    ("multipath TCP", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
    ("SCTP", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
    ("SCTP by its type", libc::AF_INET6, libc::SOCK_SEQPACKET, 0),
    ("DCCP", libc::AF_INET, libc::SOCK_DCCP, libc::IPPROTO_DCCP),
    ("UDP lite", libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
    ("L2TP", libc::AF_INET, libc::SOCK_DGRAM, 115),
    ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
    ("packet", libc::AF_INET, 10, 0),
];

/// Families whose pairs nobody needs; the kernel itself has none of most.
const PAIRS: &[(&str, i32, i32, i32)] = &[
    ("internet", libc::AF_INET, libc::SOCK_STREAM, 0),
    ("netlink", libc::AF_NETLINK, libc::SOCK_RAW, 0),
    ("packet", libc::AF_PACKET, libc::SOCK_DGRAM, 0),
    ("TIPC", libc::AF_TIPC, libc::SOCK_STREAM, 0),
];

const NAMESPACES: &[(&str, i32)] = &[
    ("user", libc::CLONE_NEWUSER),
    ("mount", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("network", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("cgroup", libc::CLONE_NEWCGROUP),
    // CLONE_NEWTIME, which the library does not name.
    ("time", 0x80),
];

pub(crate) fn cases() -> Vec<Case> {
    let filter = [Control::Seccomp];
    let useful = USEFUL.iter().map(|useful| {
        Case::new(useful.id, useful.promise, &filter, move |site| told_by(site, "call", &[useful.id]))
    });
    let nested = NAMESPACES.iter().map(|(name, _)| {
        let promise = format!("no new {name} namespace can be made by unshare or clone or clone3");
        Case::new("nested-namespaces", promise, &filter, move |site| told_by(site, "nest", &[name]))
    });
    let others = [
        Case::new("unreachable-calls", "calls that nobody needs do not reach the kernel", &filter, |site| {
            told_by(site, "calls", &[])
        }),
        Case::new(
            "lease",
            "nobody can have others wait who open a file, nor leave a mark on it",
            &filter,
            |site| told_by(site, "lease", &[]),
        ),
        Case::new("socket-families", "socket families that nobody needs do not exist", &filter, |site| {
            told_by(site, "families", &[])
        }),
        Case::new("socket-protocols", "socket protocols that nobody needs do not exist", &filter, |site| {
            told_by(site, "protocols", &[])
        }),
        Case::new("socket-pairs", "pairs of sockets are of the one family that has them", &filter, |site| {
            told_by(site, "pairs", &[])
        }),
        Case::new(
            "affinity-reset",
            "the processors that a command may use cannot be chosen from inside",
            &filter,
            |site| told_by(site, "reset-affinity", &[]),
        ),
        Case {
            needs: vec![Need::Landlock(1)],
            ..Case::new(
                "unshare-and-mount",
                "a new user namespace is no way to mount something",
                &[Control::Seccomp, Control::LandlockFiles],
                |site| told_by(site, "nest-and-mount", &[]),
            )
        },
        Case::new(
            "32-bit-calls",
            "the 32 bit way into the kernel is no way around the filter",
            &filter,
            |site| told_by(site, "call-32", &[]),
        ),
    ];
    useful.chain(nested).chain(others).collect()
}

/// An attack whose effect only the attacker can see.
pub(crate) fn told_by(site: &Site<'_>, payload: &'static str, arguments: &[&str]) -> Try<Attempt> {
    let ran = site.run(Run::payload(payload, arguments))?;
    ran.judged(Ran::told)
}

/// Refused as if the call did not exist, or were not for us.
fn is_refusal(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::ENOSYS | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT)
    )
}

fn call(arguments: &[String]) {
    let name = argument(arguments, 0);
    if let Some(useful) = USEFUL.iter().find(|useful| useful.id == name) {
        tell(name, try_call(useful.number, useful.words));
    }
}

/// On a file of the attacker's own: for those that sandboxes share it is the same call.
fn lease(_: &[String]) {
    let path = std::env::temp_dir().join("toolgate-lease");
    // Where there is no file nothing has been tried, and nothing is said.
    let opened = std::fs::write(&path, "").and_then(|()| std::fs::File::open(&path));
    let Ok(file) = opened else { return };
    let number = |number: i32| Word::Number(i64::from(number));
    let of_file = |command: i32, value| {
        try_call(libc::SYS_fcntl, [number(file.as_raw_fd()), number(command), value, NONE, NONE])
    };
    tell("F_SETLEASE", of_file(libc::F_SETLEASE, number(libc::F_RDLCK)));
    // To what every file has; and a delegation for reading.
    for (name, command) in [("F_SET_RW_HINT", 1036), ("F_SET_FILE_RW_HINT", 1038), ("F_SETDELEG", 1040)] {
        tell(name, of_file(command, Word::Buffer));
    }
    let _ = std::fs::remove_file(&path);
}

fn calls(_: &[String]) {
    for (name, number) in UNREACHABLE {
        // Nothing is asked for: descriptors that are not open, sizes of zero, null pointers.
        let bad = Word::Number(-1);
        match try_call(*number, [bad, NONE, NONE, NONE, NONE]) {
            Err(error) if is_refusal(&error) => held(format!("{name}: {error}")),
            Err(error) => through(format!("{name} reached the kernel: {error}")),
            Ok(answer) => through(format!("{name} answered {answer}")),
        }
    }
}

fn families(_: &[String]) {
    try_sockets(libc::SYS_socket, FAMILIES);
}

fn protocols(_: &[String]) {
    try_sockets(libc::SYS_socket, PROTOCOLS);
}

fn pairs(_: &[String]) {
    try_sockets(libc::SYS_socketpair, PAIRS);
}

fn try_sockets(number: libc::c_long, sockets: &[(&str, i32, i32, i32)]) {
    for (name, family, kind, protocol) in sockets {
        let words = [*family, *kind, *protocol].map(|number| Word::Number(i64::from(number)));
        let [family, kind, protocol] = words;
        match try_call(number, [family, kind, protocol, Word::Buffer, NONE]) {
            Err(error) if is_refusal(&error) => held(format!("{name}: {error}")),
            Err(error) => through(format!("{name} reached the kernel: {error}")),
            Ok(_) => through(format!("has a {name} socket")),
        }
    }
}

/// All the processors there are, whatever was said before.
fn reset_affinity(_: &[String]) {
    let mut all = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|processor| all.set(processor));
    tell("use every processor", rustix::thread::sched_setaffinity(None, &all));
}

/// Alone, and together with the user namespace that would make it possible.
fn nest(arguments: &[String]) {
    let name = argument(arguments, 0);
    let Some((_, flag)) = NAMESPACES.iter().find(|(known, _)| *known == name) else { return };
    for flags in [*flag, *flag | libc::CLONE_NEWUSER] {
        tell(&format!("clone3 {name}"), raw::clone3_child(flags));
        // The time namespace shares its bit with the signal of `clone`, and cannot be asked for there.
        if name != "time" {
            tell(&format!("clone {name}"), raw::clone_child(flags));
        }
        tell(&format!("unshare {name}"), raw::unshare(flags));
    }
}

fn nest_and_mount(_: &[String]) {
    let entered = raw::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
    let mounted = entered.and_then(|()| Ok(rustix::mount::mount_bind_recursive("/usr", "/tmp")?));
    tell("mount in a namespace of its own", mounted);
}

/// In a child, because a kernel without 32-bit calls ends whoever makes one.
fn call_like_32_bits(_: &[String]) {
    let arguments = [ATTACK_ARGUMENT, "call-32-child"].map(std::ffi::OsString::from);
    let Ok(own) = std::env::current_exe() else { return };
    match command_of(&own, &arguments).stderr(Stdio::null()).output() {
        Ok(output) if output.status.signal().is_some() => held("this kernel has no 32-bit calls"),
        Ok(output) => say(String::from_utf8_lossy(&output.stdout).trim()),
        Err(error) => held(error),
    }
}

fn call_like_32_bits_child(_: &[String]) {
    const GETPID: i32 = 20;
    match raw::call_like_32_bits(GETPID) {
        answer if answer > 0 => through(format!("getpid answered {answer}")),
        answer => held(format!("getpid answered {answer}")),
    }
}

/// Capabilities and the like, as the kernel tells them about this process.
pub(crate) fn status_field(name: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line =
        status.lines().find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')));
    line.unwrap_or_default().trim().to_owned()
}
