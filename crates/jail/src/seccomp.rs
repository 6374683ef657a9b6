//! The system call filter: compiled once per process, a search tree instead of a chain.
//!
//! The kernel runs a new filter over every call number when it is installed, and over many at run time. A chain of one
//! comparison per call makes that hundreds of steps; runs of equal answers searched by halves make it about eight.
//! DECISION(0003) has the measurements.

use std::sync::OnceLock;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
};

use crate::syscalls::{ALLOWED, REFUSED};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the list of system calls is written for x86_64; add one for this processor in syscalls.rs");

const AUDIT_ARCH_X86_64: u32 = 0xC000_003E;
/// Numbers from here on are the x32 calling convention, which nobody uses and which would bypass the list.
const X32_BIT: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const EINVAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EINVAL.cast_unsigned();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
const EPROTONOSUPPORT: u32 = libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT.cast_unsigned();
const ESOCKTNOSUPPORT: u32 = libc::SECCOMP_RET_ERRNO | libc::ESOCKTNOSUPPORT.cast_unsigned();
const EAFNOSUPPORT: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT.cast_unsigned();

/// Every namespace flag of `clone` and `unshare`.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned()
    | 0x80; // CLONE_NEWTIME, which libc does not name

/// More than any call number the lists name; a test sees to it.
const NUMBERS: usize = 640;

const TIOCLINUX: u32 = 0x541C;
/// Commands of `fcntl` that libc does not name.
const F_GETOWN_EX: u32 = 16;
/// See [`F_GETOWN_EX`].
const F_GETOWNER_UIDS: u32 = 17;
/// See [`F_GETOWN_EX`]; since Linux 6.10.
const F_DUPFD_QUERY: u32 = 1027;
/// See [`F_GETOWN_EX`]; since Linux 6.12.
const F_CREATED_QUERY: u32 = 1028;
/// See [`F_GETOWN_EX`].
const F_GET_RW_HINT: u32 = 1035;
/// See [`F_GETOWN_EX`].
const F_SET_RW_HINT: u32 = 1036;
/// See [`F_GETOWN_EX`].
const F_GET_FILE_RW_HINT: u32 = 1037;
/// See [`F_GETOWN_EX`].
const F_SET_FILE_RW_HINT: u32 = 1038;
/// A delegation: a lease by another name, on directories too. See [`F_GETOWN_EX`]; since Linux 6.19.
const F_SETDELEG: u32 = 1040;
const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;

/// What a zygote and an init build with, and nobody else in a sandbox has.
const BUILDING: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_openat2,
    libc::SYS_pivot_root,
    libc::SYS_sched_setaffinity,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
];

/// The filter in two parts, because the kernel takes its time over a long one: the first, which is long, is installed
/// while there is no plan yet. The stricter of two answers counts, so both together are the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The list, and what the init builds with.
    Most,
    /// Takes that back.
    Rest,
}

/// A part of the filter, ready to install.
pub(crate) fn filter(part: Part) -> &'static [sock_filter] {
    static MOST: OnceLock<Vec<sock_filter>> = OnceLock::new();
    static REST: OnceLock<Vec<sock_filter>> = OnceLock::new();
    match part {
        Part::Most => MOST.get_or_init(|| compile(part)),
        Part::Rest => REST.get_or_init(|| compile(part)),
    }
}

/// A call whose arguments decide: one 32-bit half of one argument, compared in order.
struct Inspected {
    call: libc::c_long,
    checks: &'static [Check],
    otherwise: u32,
}

/// Comparisons in order, and the answer if none gives one.
struct Checks {
    checks: &'static [Check],
    otherwise: u32,
}

/// One comparison on one half of an argument, named by its offset.
enum Check {
    /// If it is this value, answer.
    Is { at: u32, value: u32, answer: u32 },
    /// If these bits of it are this value, answer.
    Masked { at: u32, mask: u32, value: u32, answer: u32 },
    /// If it is this value, only these checks count.
    When { at: u32, value: u32, then: Checks },
    /// If it is more than this, answer.
    Above { at: u32, value: u32, answer: u32 },
    /// If it has any of these bits, answer.
    Has { at: u32, bits: u32, answer: u32 },
    /// If it has none of these bits, answer.
    Lacks { at: u32, bits: u32, answer: u32 },
}

/// The low half of an argument. Where only this is checked, the kernel too looks at 32 bits only.
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}

/// The high half of an argument.
const fn high(argument: u32) -> u32 {
    20 + 8 * argument
}

/// A call that must not set the setuid or setgid bit.
///
/// ATTACK(setuid-left-behind): a file made in a granted directory belongs to the directory's owner on the host, root
/// perhaps; with the bit set, whoever runs it there becomes that owner. `openat2` takes its mode by pointer, where no
/// filter can look, so it does not exist here.
const fn without_setuid(call: libc::c_long, mode: u32) -> Inspected {
    // One list per position of the mode, because the lists must be constants.
    const FIRST: &[Check] = &[Check::Has { at: low(1), bits: SETUID_BITS, answer: EPERM }];
    const SECOND: &[Check] = &[Check::Has { at: low(2), bits: SETUID_BITS, answer: EPERM }];
    let checks = match mode {
        1 => FIRST,
        _ => SECOND,
    };
    Inspected { call, checks, otherwise: ALLOW }
}

/// Flags of `open` that make its mode count. Without them the argument may be anything: callers leave it out.
const MAKES_A_FILE: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

const SETUID_BITS: u32 = libc::S_ISUID | libc::S_ISGID;

/// ATTACK(landlock-tcp-detours): sending with this flag connects, and Landlock is not asked.
const FAST_OPEN: u32 = libc::MSG_FASTOPEN.cast_unsigned();

const UNIX: Checks = Checks {
    // The protocol is none, or the family's own number.
    checks: &[Check::Has { at: low(2), bits: !libc::AF_UNIX.cast_unsigned(), answer: EPROTONOSUPPORT }],
    otherwise: ALLOW,
};

/// ATTACK(socket-protocols): TCP, UDP and ping. Landlock does not know multipath TCP as TCP
/// (ATTACK(landlock-tcp-detours)), and the rest (SCTP, DCCP, raw …) is code of the kernel that few look at.
const INTERNET: Checks = Checks {
    checks: &[
        // Every type but a stream, a datagram and a raw one has one of these bits.
        Check::Has { at: low(1), bits: 0b1100, answer: ESOCKTNOSUPPORT },
        Check::Masked { at: low(1), mask: SOCKET_TYPE, value: libc::SOCK_RAW.cast_unsigned(), answer: EPERM },
        Check::Is { at: low(2), value: 0, answer: ALLOW },
        Check::Is { at: low(2), value: libc::IPPROTO_TCP.cast_unsigned(), answer: ALLOW },
        Check::Is { at: low(2), value: libc::IPPROTO_UDP.cast_unsigned(), answer: ALLOW },
        Check::Is { at: low(2), value: libc::IPPROTO_ICMP.cast_unsigned(), answer: ALLOW },
        Check::Is { at: low(2), value: libc::IPPROTO_ICMPV6.cast_unsigned(), answer: ALLOW },
    ],
    otherwise: EPROTONOSUPPORT,
};

/// Only the protocol that lists interfaces, which is number 0.
const NETLINK: Checks =
    Checks { checks: &[Check::Has { at: low(2), bits: u32::MAX, answer: EPERM }], otherwise: ALLOW };

/// The part of a socket's type that is not a flag.
const SOCKET_TYPE: u32 = 0xf;

/// If it is this command, allow it.
const fn known(command: u32) -> Check {
    Check::Is { at: low(1), value: command, answer: ALLOW }
}

/// If it is this command, refuse it.
const fn refused(command: u32) -> Check {
    Check::Is { at: low(1), value: command, answer: EPERM }
}

/// Commands of `fcntl`. What is not known gets the answer of a kernel that does not know it either: the next one may have a
/// lease under another number.
///
/// ATTACK(lease): a lease has others wait who open the file, and a hint stays with it. Files of a sandbox may be those of
/// others, too.
const COMMANDS: &[Check] = &[
    // The oldest have the numbers below 16: flags, copies of descriptors, locks, who hears of what.
    Check::Masked { at: low(1), mask: !0xf, value: 0, answer: ALLOW },
    known(libc::F_DUPFD_CLOEXEC.cast_unsigned()),
    known(libc::F_OFD_GETLK.cast_unsigned()),
    known(libc::F_OFD_SETLK.cast_unsigned()),
    known(libc::F_OFD_SETLKW.cast_unsigned()),
    known(F_GETOWN_EX),
    known(F_GETOWNER_UIDS),
    known(libc::F_GETLEASE.cast_unsigned()),
    known(libc::F_NOTIFY.cast_unsigned()),
    known(F_DUPFD_QUERY),
    known(F_CREATED_QUERY),
    known(libc::F_SETPIPE_SZ.cast_unsigned()),
    known(libc::F_GETPIPE_SZ.cast_unsigned()),
    known(libc::F_ADD_SEALS.cast_unsigned()),
    known(libc::F_GET_SEALS.cast_unsigned()),
    known(F_GET_RW_HINT),
    known(F_GET_FILE_RW_HINT),
    refused(libc::F_SETLEASE.cast_unsigned()),
    refused(F_SET_RW_HINT),
    refused(F_SET_FILE_RW_HINT),
    refused(F_SETDELEG),
];

const INSPECTED: &[Inspected] = &[
    without_setuid(libc::SYS_chmod, 1),
    without_setuid(libc::SYS_creat, 1),
    without_setuid(libc::SYS_fchmod, 1),
    without_setuid(libc::SYS_fchmodat, 2),
    without_setuid(libc::SYS_fchmodat2, 2),
    without_setuid(libc::SYS_mkdir, 1),
    without_setuid(libc::SYS_mkdirat, 2),
    without_setuid(libc::SYS_mknod, 1),
    without_setuid(libc::SYS_mknodat, 2),
    Inspected {
        call: libc::SYS_open,
        checks: &[
            Check::Lacks { at: low(1), bits: MAKES_A_FILE, answer: ALLOW },
            Check::Has { at: low(2), bits: SETUID_BITS, answer: EPERM },
        ],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_openat,
        checks: &[
            Check::Lacks { at: low(2), bits: MAKES_A_FILE, answer: ALLOW },
            Check::Has { at: low(3), bits: SETUID_BITS, answer: EPERM },
        ],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_sendto,
        checks: &[Check::Has { at: low(3), bits: FAST_OPEN, answer: EPERM }],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_sendmsg,
        checks: &[Check::Has { at: low(2), bits: FAST_OPEN, answer: EPERM }],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_sendmmsg,
        checks: &[Check::Has { at: low(3), bits: FAST_OPEN, answer: EPERM }],
        otherwise: ALLOW,
    },
    Inspected { call: libc::SYS_fcntl, checks: COMMANDS, otherwise: EINVAL },
    // `clone3` takes its flags by pointer, where no filter can look: ENOSYS makes the C library use `clone`.
    Inspected {
        call: libc::SYS_clone,
        checks: &[
            Check::Has { at: low(0), bits: NAMESPACES, answer: EPERM },
            // ATTACK(files-of-one-thread): where memory is watched, one thread is asked for the files of all.
            Check::Lacks { at: low(0), bits: libc::CLONE_THREAD.cast_unsigned(), answer: ALLOW },
            Check::Lacks { at: low(0), bits: libc::CLONE_FILES.cast_unsigned(), answer: EPERM },
        ],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_unshare,
        checks: &[Check::Has {
            at: low(0),
            bits: NAMESPACES | libc::CLONE_FILES.cast_unsigned(),
            answer: EPERM,
        }],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_close_range,
        checks: &[Check::Has { at: low(2), bits: libc::CLOSE_RANGE_UNSHARE, answer: EPERM }],
        otherwise: ALLOW,
    },
    // ATTACK(detached-segment): memory that no process has, where memory is watched. There are 4096 segments at most.
    Inspected {
        call: libc::SYS_shmget,
        checks: &[
            Check::Has { at: high(1), bits: u32::MAX, answer: EPERM },
            Check::Above { at: low(1), value: 4096, answer: EPERM },
        ],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_ioctl,
        checks: &[
            // ATTACK(terminal-injection): typing into the caller's terminal, by either of the two ways.
            Check::Is { at: low(1), value: libc::TIOCSTI as u32, answer: EPERM },
            Check::Is { at: low(1), value: TIOCLINUX, answer: EPERM },
            Check::Is { at: low(1), value: libc::TIOCSETD as u32, answer: EPERM },
        ],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_socket,
        checks: &[
            Check::When { at: low(0), value: libc::AF_UNIX.cast_unsigned(), then: UNIX },
            Check::When { at: low(0), value: libc::AF_INET.cast_unsigned(), then: INTERNET },
            Check::When { at: low(0), value: libc::AF_INET6.cast_unsigned(), then: INTERNET },
            Check::When { at: low(0), value: libc::AF_NETLINK.cast_unsigned(), then: NETLINK },
        ],
        otherwise: EAFNOSUPPORT,
    },
    Inspected {
        call: libc::SYS_socketpair,
        checks: &[Check::Is { at: low(0), value: libc::AF_UNIX.cast_unsigned(), answer: ALLOW }],
        otherwise: EAFNOSUPPORT,
    },
    // ATTACK(core-pattern): a limit of 0 makes the kernel pipe the dump to the host's handler all the same; ours is 1,
    // which does not, and has to stay.
    Inspected {
        call: libc::SYS_setrlimit,
        checks: &[Check::Is { at: low(0), value: libc::RLIMIT_CORE, answer: EPERM }],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_prlimit64,
        checks: &[
            Check::Is { at: low(1), value: 0, answer: ALLOW },
            Check::Has { at: low(1), bits: !libc::RLIMIT_CORE, answer: ALLOW },
            // The core limit may be read (no new value), not set.
            Check::Has { at: low(2), bits: u32::MAX, answer: EPERM },
            Check::Has { at: high(2), bits: u32::MAX, answer: EPERM },
        ],
        otherwise: ALLOW,
    },
    Inspected {
        call: libc::SYS_personality,
        checks: &[
            Check::Is { at: low(0), value: 0, answer: ALLOW },
            Check::Is { at: low(0), value: ADDR_NO_RANDOMIZE, answer: ALLOW },
            Check::Is { at: low(0), value: u32::MAX, answer: ALLOW },
        ],
        otherwise: EPERM,
    },
];

/// What a call number leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    Return(u32),
    Inspect(usize),
}

/// A run of call numbers with one answer; it reaches to the start of the next.
struct Run {
    first: u32,
    leaf: Leaf,
}

fn compile(part: Part) -> Vec<sock_filter> {
    let mut program = Program(Vec::with_capacity(640));
    program.load(4); // seccomp_data.arch
    program.jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
    program.answer(ENOSYS);
    program.load(0); // seccomp_data.nr
    program.jump(BPF_JGE, X32_BIT, 0, 1);
    program.answer(ENOSYS);
    program.search(&runs(leaves(part)));
    program.0
}

/// Where all call numbers lead, neighbours with the same leaf joined.
fn runs(leaves: [Leaf; NUMBERS]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, leaf) in (0..).zip(leaves) {
        if runs.last().is_none_or(|run| run.leaf != leaf) {
            runs.push(Run { first: number, leaf });
        }
    }
    runs
}

fn leaves(part: Part) -> [Leaf; NUMBERS] {
    let mut leaves = listed();
    let is_for_building = |number: usize| BUILDING.iter().any(|call| usize::try_from(*call) == Ok(number));
    for (number, leaf) in leaves.iter_mut().enumerate() {
        if (part == Part::Most) == is_for_building(number) {
            *leaf = Leaf::Return(ALLOW);
        }
    }
    leaves
}

/// Where every call number leads up to the first that no list names. Numbers beyond lead where the last does.
fn listed() -> [Leaf; NUMBERS] {
    let mut leaves = [Leaf::Return(ENOSYS); NUMBERS];
    let mut set = |number: libc::c_long, leaf| {
        if let Some(slot) = usize::try_from(number).ok().and_then(|number| leaves.get_mut(number)) {
            *slot = leaf;
        }
    };
    ALLOWED.iter().for_each(|number| set(*number, Leaf::Return(ALLOW)));
    REFUSED.iter().for_each(|number| set(*number, Leaf::Return(EPERM)));
    (0..).zip(INSPECTED).for_each(|(index, inspected)| set(inspected.call, Leaf::Inspect(index)));
    leaves
}

struct Program(Vec<sock_filter>);

impl Program {
    /// Halves the runs until one is left. Jumps reach 255 instructions at most, so the upper half is reached by a
    /// long jump.
    fn search(&mut self, runs: &[Run]) {
        let (lower, upper) = runs.split_at(runs.len() / 2);
        match (lower, upper) {
            ([], [only]) => self.leaf(only.leaf),
            (_, [first, ..]) => {
                self.jump(BPF_JGE, first.first, 0, 1);
                let past = self.long_jump();
                self.search(lower);
                self.land(past);
                self.search(upper);
            }
            (_, []) => self.answer(ENOSYS),
        }
    }

    fn leaf(&mut self, leaf: Leaf) {
        match leaf {
            Leaf::Return(value) => self.answer(value),
            Leaf::Inspect(index) => match INSPECTED.get(index) {
                Some(inspected) => self.inspect(inspected.checks, inspected.otherwise),
                None => self.answer(ENOSYS),
            },
        }
    }

    fn inspect(&mut self, checks: &[Check], otherwise: u32) {
        for check in checks {
            let answer = match check {
                Check::Is { at, value, answer } => {
                    self.load(*at);
                    self.jump(BPF_JEQ, *value, 0, 1);
                    answer
                }
                Check::Masked { at, mask, value, answer } => {
                    self.load(*at);
                    self.push(BPF_ALU | BPF_AND | BPF_K, *mask);
                    self.jump(BPF_JEQ, *value, 0, 1);
                    answer
                }
                Check::When { at, value, then } => {
                    self.load(*at);
                    self.jump(BPF_JEQ, *value, 1, 0);
                    let past = self.long_jump();
                    self.inspect(then.checks, then.otherwise);
                    self.land(past);
                    continue;
                }
                Check::Above { at, value, answer } => {
                    self.load(*at);
                    self.jump(BPF_JGT, *value, 0, 1);
                    answer
                }
                Check::Has { at, bits, answer } => {
                    self.load(*at);
                    self.push(BPF_ALU | BPF_AND | BPF_K, *bits);
                    self.jump(BPF_JEQ, 0, 1, 0);
                    answer
                }
                Check::Lacks { at, bits, answer } => {
                    self.load(*at);
                    self.push(BPF_ALU | BPF_AND | BPF_K, *bits);
                    self.jump(BPF_JEQ, 0, 0, 1);
                    answer
                }
            };
            self.answer(*answer);
        }
        self.answer(otherwise);
    }

    /// A jump of any length, to be landed later.
    fn long_jump(&mut self) -> usize {
        self.push(BPF_JMP, 0);
        self.0.len()
    }

    /// Makes a long jump lead to here.
    fn land(&mut self, after_jump: usize) {
        let distance = self.0.len() - after_jump;
        if let Some(jump) = self.0.get_mut(after_jump - 1) {
            jump.k = u32::try_from(distance).unwrap_or_default();
        }
    }

    fn load(&mut self, offset: u32) {
        self.push(BPF_LD | BPF_W | BPF_ABS, offset);
    }

    fn answer(&mut self, value: u32) {
        self.push(BPF_RET | BPF_K, value);
    }

    fn jump(&mut self, comparison: u32, value: u32, if_true: u8, if_false: u8) {
        let code = u16::try_from(BPF_JMP | comparison | BPF_K).unwrap_or_default();
        self.0.push(sock_filter { code, jt: if_true, jf: if_false, k: value });
    }

    fn push(&mut self, code: u32, value: u32) {
        self.0.push(sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k: value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer, and in how many steps.
    fn ask(arch: u32, number: u32, arguments: [u32; 3]) -> (u32, usize) {
        let (most, rest) =
            (ask_part(Part::Most, arch, number, arguments), ask_part(Part::Rest, arch, number, arguments));
        // Whatever is not allowed is an error number here, and goes before.
        (if most.0 == ALLOW { rest.0 } else { most.0 }, most.1 + rest.1)
    }

    fn ask_part(part: Part, arch: u32, number: u32, arguments: [u32; 3]) -> (u32, usize) {
        let data = |offset: u32| match offset {
            0 => number,
            4 => arch,
            16 => arguments[0],
            24 => arguments[1],
            32 => arguments[2],
            20 | 28 | 36 | 40 => 0,
            _ => panic!("the filter looks at offset {offset}"),
        };
        let program = filter(part);
        let (mut at, mut accumulator, mut steps) = (0, 0, 0);
        loop {
            let instruction = program[at];
            steps += 1;
            at += 1;
            match u32::from(instruction.code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => accumulator = data(instruction.k),
                code if code == BPF_ALU | BPF_AND | BPF_K => accumulator &= instruction.k,
                code if code == BPF_RET | BPF_K => return (instruction.k, steps),
                BPF_JMP => at += instruction.k as usize,
                code => {
                    let taken = match code & 0xf0 {
                        BPF_JEQ => accumulator == instruction.k,
                        BPF_JGE => accumulator >= instruction.k,
                        BPF_JGT => accumulator > instruction.k,
                        other => panic!("unexpected jump {other:x}"),
                    };
                    at += usize::from(if taken { instruction.jt } else { instruction.jf });
                }
            }
        }
    }

    fn call(number: libc::c_long, arguments: [u32; 3]) -> u32 {
        ask(AUDIT_ARCH_X86_64, u32::try_from(number).unwrap(), arguments).0
    }

    #[test]
    fn every_number_gets_the_answer_of_the_list_in_a_few_steps() {
        for number in 0..2000 {
            let expected = if INSPECTED.iter().any(|inspected| inspected.call == number) {
                continue;
            } else if ALLOWED.contains(&number) {
                ALLOW
            } else if REFUSED.contains(&number) {
                EPERM
            } else {
                ENOSYS
            };
            let (answer, steps) = ask(AUDIT_ARCH_X86_64, u32::try_from(number).unwrap(), [0; 3]);
            assert_eq!(answer, expected, "call {number}");
            assert!(steps < 48, "call {number} takes {steps} steps");
        }
    }

    #[test]
    fn no_call_is_both_allowed_and_refused_or_inspected() {
        for number in REFUSED.iter().chain(INSPECTED.iter().map(|i| &i.call)) {
            assert!(!ALLOWED.contains(number), "call {number}");
        }
    }

    #[test]
    fn the_table_is_longer_than_the_lists() {
        assert!(ALLOWED.iter().chain(REFUSED).all(|number| (*number as usize) < NUMBERS - 1));
        assert_eq!(listed().last(), Some(&Leaf::Return(ENOSYS)));
    }

    #[test]
    fn what_the_init_builds_with_is_there_until_the_rest_is_installed() {
        // Some of what `unshare` does is everybody's; namespaces are not.
        let arguments = [NAMESPACES, 0, 0];
        for call in BUILDING {
            let number = u32::try_from(*call).unwrap();
            assert_eq!(ask_part(Part::Most, AUDIT_ARCH_X86_64, number, arguments).0, ALLOW, "call {call}");
            assert_ne!(ask(AUDIT_ARCH_X86_64, number, arguments).0, ALLOW, "call {call}");
        }
        assert!(filter(Part::Rest).len() < 96, "it is installed while somebody waits");
    }

    #[test]
    fn a_command_that_nobody_knows_is_not_allowed() {
        // By their numbers, as the kernel has them: what is here, and what has been given to nobody yet.
        let allowed = (0..18).chain(36..39).chain([1025, 1026, 1027, 1028]).chain(1030..=1035).chain([1037]);
        let allowed: Vec<u32> = allowed.collect();
        for command in (0..3000).chain([u32::MAX, 1 << 31]) {
            let expected = match command {
                1024 | 1036 | 1038 | 1040 => EPERM,
                _ if allowed.contains(&command) => ALLOW,
                _ => EINVAL,
            };
            assert_eq!(call(libc::SYS_fcntl, [0, command, 0]), expected, "command {command}");
        }
    }

    #[test]
    fn another_architecture_has_no_calls_at_all() {
        let i386 = 0x4000_0003;
        assert_eq!(ask(i386, 4, [0; 3]).0, ENOSYS);
        assert_eq!(ask(AUDIT_ARCH_X86_64, X32_BIT | 1, [0; 3]).0, ENOSYS);
    }

    #[test]
    fn arguments_decide_where_they_must() {
        assert_eq!(call(libc::SYS_clone, [libc::SIGCHLD as u32, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_clone, [libc::CLONE_NEWUSER as u32, 0, 0]), EPERM);
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND).cast_unsigned();
        assert_eq!(call(libc::SYS_clone, [thread | libc::CLONE_FILES.cast_unsigned(), 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_clone, [thread, 0, 0]), EPERM);
        assert_eq!(call(libc::SYS_unshare, [libc::CLONE_FS.cast_unsigned(), 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_unshare, [libc::CLONE_FILES.cast_unsigned(), 0, 0]), EPERM);
        assert_eq!(call(libc::SYS_close_range, [3, u32::MAX, 0]), ALLOW);
        assert_eq!(call(libc::SYS_close_range, [3, u32::MAX, libc::CLOSE_RANGE_UNSHARE]), EPERM);
        assert_eq!(call(libc::SYS_shmget, [0, 4096, 0]), ALLOW);
        assert_eq!(call(libc::SYS_shmget, [0, 4097, 0]), EPERM);
        assert_eq!(call(libc::SYS_clone3, [0; 3]), ENOSYS);
        assert_eq!(call(libc::SYS_unshare, [libc::CLONE_NEWNS as u32, 0, 0]), EPERM);
        assert_eq!(call(libc::SYS_ioctl, [0, libc::TIOCSTI as u32, 0]), EPERM);
        assert_eq!(call(libc::SYS_ioctl, [0, libc::TCGETS as u32, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_UNIX as u32, 1, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_INET6 as u32, 1, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_NETLINK as u32, 3, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_NETLINK as u32, 3, 9]), EPERM);
        assert_eq!(call(libc::SYS_socket, [0, 3, 0]), EAFNOSUPPORT);
        for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH] {
            assert_ne!(call(libc::SYS_socket, [family as u32, 3, 0]), ALLOW, "family {family}");
        }
        assert_eq!(call(libc::SYS_prlimit64, [0, libc::RLIMIT_CORE, 8]), EPERM);
        assert_eq!(call(libc::SYS_prlimit64, [0, libc::RLIMIT_CORE, 0]), ALLOW);
        assert_eq!(call(libc::SYS_prlimit64, [0, libc::RLIMIT_CPU, 8]), ALLOW);
        assert_eq!(call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socketpair, [libc::AF_UNIX as u32, 1, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socketpair, [libc::AF_PACKET as u32, 1, 0]), EAFNOSUPPORT);
        assert_eq!(call(libc::SYS_chmod, [0, 0o755, 0]), ALLOW);
        assert_eq!(call(libc::SYS_chmod, [0, 0o4755, 0]), EPERM);
        assert_eq!(call(libc::SYS_fchmodat, [0, 0, 0o2755]), EPERM);
        let making = (libc::O_CREAT | libc::O_WRONLY).cast_unsigned();
        assert_eq!(call(libc::SYS_open, [0, making, 0o4755]), EPERM);
        assert_eq!(call(libc::SYS_open, [0, libc::O_TMPFILE.cast_unsigned(), 0o4755]), EPERM);
        assert_eq!(call(libc::SYS_open, [0, libc::O_DIRECTORY.cast_unsigned(), 0o4755]), ALLOW);
        assert_eq!(call(libc::SYS_openat2, [0; 3]), ENOSYS);
        assert_eq!(call(libc::SYS_sendmsg, [0, 0, FAST_OPEN]), EPERM);
        let (inet, flags) = (libc::AF_INET as u32, libc::SOCK_CLOEXEC as u32);
        for (kind, protocol) in [(1, 0), (1, 6), (2, 17), (2, 1), (2, 58), (1 | flags, 0)] {
            assert_eq!(call(libc::SYS_socket, [inet, kind, protocol]), ALLOW, "{kind} {protocol}");
        }
        for (kind, protocol, answer) in [
            (1, libc::IPPROTO_MPTCP, EPROTONOSUPPORT),
            (1, libc::IPPROTO_SCTP, EPROTONOSUPPORT),
            (2, libc::IPPROTO_UDPLITE, EPROTONOSUPPORT),
            (3 | flags, libc::IPPROTO_ICMP, EPERM),
            (5, 0, ESOCKTNOSUPPORT),
            (6 | flags, 0, ESOCKTNOSUPPORT),
            (10, 0, ESOCKTNOSUPPORT),
        ] {
            let asked = [libc::AF_INET6 as u32, kind, protocol.cast_unsigned()];
            assert_eq!(call(libc::SYS_socket, asked), answer, "{kind} {protocol}");
        }
        assert_eq!(call(libc::SYS_socket, [libc::AF_UNIX as u32, 5, 1]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_UNIX as u32, 1, 6]), EPROTONOSUPPORT);
        assert_eq!(call(libc::SYS_personality, [0x0008, 0, 0]), EPERM);
    }
}
