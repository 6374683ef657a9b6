//! The system calls that no safe library offers, one wrapper each, and no policy.
//!
//! This is the only file of Toolgate with `unsafe` in it.
#![expect(unsafe_code, reason = "the one place for it; every block states why it holds")]

use std::ffi::{CString, OsString};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

/// As in the kernel's headers; `libc` has it in a type that is too narrow.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which side of [`clone_process`] this is.
pub(crate) enum Cloned {
    /// The caller; the new process by number and by descriptor.
    Parent {
        /// Its number as the caller sees it.
        pid: Pid,
        /// A descriptor for it.
        pidfd: OwnedFd,
    },
    /// The new process.
    Child,
}

/// Namespaces for [`clone_process`], as the kernel numbers them.
pub(crate) const NEW_USER: u64 = libc::CLONE_NEWUSER as u64;
/// See [`NEW_USER`].
pub(crate) const NEW_PID: u64 = libc::CLONE_NEWPID as u64;
/// With these: the new process is a child of the caller's parent.
pub(crate) const SIBLING: u64 = libc::CLONE_PARENT as u64;

/// `clone3(2)` as a fork into new namespaces, straight into a cgroup if one is given.
///
/// The caller must have one thread: the child of a threaded process may find any lock taken, the allocator's among
/// them. [`is_single_threaded`] tells.
pub(crate) fn clone_process(namespaces: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: `clone_args` is a plain structure of integers; all zero is a valid value of it.
    let mut arguments: libc::clone_args = unsafe { mem::zeroed() };
    arguments.flags = namespaces | libc::CLONE_PIDFD as u64;
    arguments.pidfd = (&raw mut pidfd) as u64;
    // A sibling has the caller's own.
    arguments.exit_signal = if namespaces & SIBLING == 0 { libc::SIGCHLD as u64 } else { 0 };
    if let Some(cgroup) = cgroup {
        arguments.flags |= INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: without CLONE_VM this is a fork: the child gets its own copy of memory and stack, and both pointers in
    // `arguments` are null or point to a live local. The size passed is that of the structure.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel has stored a new descriptor there, and nobody else owns it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            Ok(Cloned::Parent { pid: pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?, pidfd })
        }
    }
}

/// `unshare(2)`, for namespaces only.
pub(crate) fn enter_new_namespaces(namespaces: UnshareFlags) -> io::Result<()> {
    let namespaces = namespaces.difference(UnshareFlags::FILES);
    // SAFETY: what is unsafe about `unshare` is a descriptor table of one's own, and that flag is removed.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespaces) }?)
}

/// A program to [`spawn`]: its file, and its arguments and environment as the kernel wants them.
pub(crate) struct Executable {
    /// The file.
    pub(crate) path: CString,
    /// Arguments, the name among them.
    pub(crate) arguments: Vec<CString>,
    /// `NAME=VALUE`.
    pub(crate) environment: Vec<CString>,
}

/// What the new process of [`spawn`] is told, and how it answers.
struct Spawning {
    path: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    /// What the program reads, once a word has come on the standard input; nothing if it waits for none.
    waits: Option<OwnedFd>,
    /// The number of the error, or [`NO_WORD`].
    error: AtomicI32,
}

/// No word came, and none will.
const NO_WORD: i32 = -1;

/// As much as the new process needs.
type Stack = MaybeUninit<[u128; 1024]>;

/// Starts a program in a new process, and returns when it is executed or has failed to be.
///
/// As `posix_spawn(3)` does it, without the 120 calls by which that resets signals one by one: handlers end with
/// `execve(2)`, and of what is ignored only SIGPIPE is our own runtime's doing.
pub(crate) fn spawn(executable: &Executable) -> io::Result<Pid> {
    let (arguments, environment) = (pointers(&executable.arguments), pointers(&executable.environment));
    let spawning = Spawning {
        path: executable.path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        waits: None,
        error: AtomicI32::new(0),
    };
    let mut stack = Stack::uninit();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: we are not run until the new process has executed or ended, so everything it is given outlives its use of it,
    // and nobody else touches that meanwhile.
    let pid = unsafe { clone_to_execute(&spawning, &mut stack, flags) }?;
    match spawning.error.into_inner() {
        0 => Ok(pid),
        error => {
            let _ = wait_for(Some(pid));
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// A process that becomes a program while its maker goes on; see [`spawn_beside`].
pub(crate) struct Beside {
    /// The process.
    pub(crate) pid: Pid,
    spawning: &'static Spawning,
}

/// Why there was nothing to wait for after all.
pub(crate) enum Unexecuted {
    /// No word came.
    NoWord,
    /// It could not be executed.
    Error(io::Error),
}

impl Beside {
    /// Once it has ended: why it never was the program, if it says so. One that was killed before says nothing.
    pub(crate) fn was_executed(&self) -> Result<(), Unexecuted> {
        match self.spawning.error.load(Ordering::Acquire) {
            0 => Ok(()),
            NO_WORD => Err(Unexecuted::NoWord),
            error => Err(Unexecuted::Error(io::Error::from_raw_os_error(error))),
        }
    }
}

/// Starts a program in a new process, and goes on meanwhile: whether it could be executed is known when it has ended. With
/// `nothing`, it is executed when a byte has been read from the standard input, and reads `nothing` then. For an init, which
/// starts one program.
pub(crate) fn spawn_beside(executable: Executable, nothing: Option<OwnedFd>) -> io::Result<Beside> {
    let arguments = Vec::leak(pointers(&executable.arguments));
    let environment = Vec::leak(pointers(&executable.environment));
    let spawning: &'static Spawning = Box::leak(Box::new(Spawning {
        path: executable.path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        waits: nothing,
        error: AtomicI32::new(0),
    }));
    mem::forget(executable);
    let stack = Box::leak(Box::new(Stack::uninit()));
    // SAFETY: everything it is given is leaked, so it is there for as long as anybody uses it. Of what both processes have
    // in common the new one writes to its own stack and to `error` alone, which is atomic: it allocates nothing. Only a
    // call of it that fails writes `errno`, before it ends. Until then the init makes its own calls without that but for two:
    // closing its standard streams, of whose error nobody hears, and waiting, which does not fail as long as there is a child
    // and no signal interrupts, because it has no handlers. Whatever else it is to call meanwhile must not go by `errno`.
    let pid = unsafe { clone_to_execute(spawning, stack, libc::CLONE_VM | libc::SIGCHLD) }?;
    Ok(Beside { pid, spawning })
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// `clone(2)` into [`execute`], with memory that is ours.
///
/// # Safety
/// What `spawning` points to, and the stack, must be there until the new process has executed its program or ended.
unsafe fn clone_to_execute(spawning: &Spawning, stack: &mut Stack, flags: libc::c_int) -> io::Result<Pid> {
    // SAFETY: one past the end of the array, which is aligned as a stack has to be.
    let top = unsafe { stack.as_mut_ptr().add(1) };
    let spawning = std::ptr::from_ref(spawning).cast_mut();
    // SAFETY: the new process runs `execute` on a stack of its own; the rest is the caller's promise.
    let pid = unsafe { libc::clone(execute, top.cast(), flags, spawning.cast()) };
    if pid == -1 {
        return Err(io::Error::last_os_error());
    }
    Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The new process of [`spawn`] and [`spawn_beside`]: a few system calls, no allocation.
extern "C" fn execute(spawning: *mut libc::c_void) -> libc::c_int {
    // SAFETY: whoever cloned this process passed a pointer to one, and keeps it alive; it is only read, but for `error`.
    let spawning = unsafe { &*spawning.cast::<Spawning>() };
    if let Some(nothing) = &spawning.waits {
        // The word was not for the program: programs look at what their input is, and some read it instead of files.
        let ready = match has_word_come() {
            true => rustix::stdio::dup2_stdin(nothing).map_err(Errno::raw_os_error),
            false => Err(NO_WORD),
        };
        if let Err(error) = ready {
            spawning.error.store(error, Ordering::Release);
            exit_now(127)
        }
    }
    // SAFETY: SIG_DFL is a valid disposition; without CLONE_SIGHAND it is this process's own.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let none = signal_set(&[]);
    // SAFETY: an initialised set; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    // SAFETY: a NUL-terminated path and two null-terminated arrays of such texts, which are kept alive.
    unsafe { libc::execve(spawning.path, spawning.arguments, spawning.environment) };
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    spawning.error.store(error, Ordering::Release);
    exit_now(127)
}

/// Waits for a byte on the standard input. Allocates nothing.
///
/// INVARIANT(nothing-before-the-word): whoever hangs up, or is killed, has said nothing.
pub(crate) fn has_word_come() -> bool {
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut [0_u8; 1]) {
            Err(Errno::INTR) => {}
            read => return read == Ok(1),
        }
    }
}

/// Which side of [`fork`] this is.
pub(crate) enum Forked {
    /// The caller, with the number of the new process.
    Parent(Pid),
    /// The new process.
    Child,
}

/// `fork(2)`, for a process with one thread. [`clone_process`] does what a filter does not let through.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: there is one thread (see `clone_process`), so no lock is held by somebody who is not in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => {
            Pid::from_raw(pid).map(Forked::Parent).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        }
    }
}

/// Makes a copy what a program is when it begins: no descriptors but the standard ones, these variables and no others, no
/// signal blocked.
pub(crate) fn begin_anew(variables: &[(OsString, OsString)]) -> io::Result<()> {
    close_range(3, u32::MAX)?;
    // SAFETY: this process has one thread, so nobody reads the environment meanwhile.
    unsafe { libc::clearenv() };
    for (name, value) in variables {
        let text = |text: &OsString| CString::new(text.as_bytes()).map_err(io::Error::from);
        let (name, value) = (text(name)?, text(value)?);
        // SAFETY: two NUL-terminated texts, which the call copies; one thread, as above.
        if unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    let none = signal_set(&[]);
    // SAFETY: an initialised set; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    Ok(())
}

/// Ends the process at once: no destructors, no flushing. For children of [`clone_process`].
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any integer and does not return.
    unsafe { libc::_exit(code) }
}

/// How far [`set_mount_attributes`] reaches.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The mount and all mounts beneath it.
    #[default]
    Tree,
    /// The one mount.
    One,
}

/// Attributes for [`set_mount_attributes`].
#[derive(Clone, Copy, Default)]
pub(crate) struct MountAttributes<'fd> {
    /// How far it reaches.
    pub(crate) reach: Reach,
    /// `MOUNT_ATTR_*` to turn on.
    pub(crate) set: u64,
    /// `MS_PRIVATE` and the like, or 0 to leave it.
    pub(crate) propagation: u64,
    /// The user namespace whose map translates owners.
    pub(crate) id_map: Option<BorrowedFd<'fd>>,
}

/// `mount_setattr(2)` on the mount that `fd` is the root of.
pub(crate) fn set_mount_attributes(fd: impl AsFd, wanted: MountAttributes<'_>) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: wanted.set | wanted.id_map.map_or(0, |_| libc::MOUNT_ATTR_IDMAP),
        attr_clr: 0,
        propagation: wanted.propagation,
        userns_fd: wanted.id_map.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).unwrap_or_default()),
    };
    let flags = libc::AT_EMPTY_PATH | if wanted.reach == Reach::Tree { libc::AT_RECURSIVE } else { 0 };
    let path = c"";
    // SAFETY: the path is NUL-terminated, the structure is initialised and its size is passed; the kernel keeps neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `seccomp(2)`: puts the calling thread behind a filter for good.
pub(crate) fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(filter.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` points to `len` instructions that live until the call returns; the kernel copies and only reads
    // them.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u64, &raw const program) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's Landlock version, or a negative number.
pub(crate) fn landlock_version() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no structure and makes nothing; it only answers.
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    i32::try_from(answer).unwrap_or(-1)
}

/// Sets the flags of the loopback interface in this network namespace, so that it works.
pub(crate) fn raise_loopback(socket: impl AsFd) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data; all zero is a valid value of it.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which lives until the call returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The mount namespace of a process, which has to be this one, by its descriptor. Kernels before 6.11 know no such request.
pub(crate) fn mount_namespace_of(process: impl AsFd) -> io::Result<OwnedFd> {
    /// As in the kernel's headers: the third request of those for processes.
    const GET_MOUNT_NAMESPACE: libc::Ioctl = 0xff03;
    // SAFETY: this request takes no argument, and returns a new descriptor or -1.
    let fd = unsafe { libc::ioctl(process.as_fd().as_raw_fd(), GET_MOUNT_NAMESPACE, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has made this descriptor for us, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the kernel give a copied process the memory that it will use, before anybody waits for it.
pub(crate) fn touch_memory() {
    const STACK: usize = 16 * 1024;
    // In one piece, which the allocator takes from where small ones will come from, and does not give back.
    const HEAP: usize = 16 * 1024;
    drop(std::hint::black_box(vec![1_u8; HEAP]));
    std::hint::black_box([1_u8; STACK]);
}

/// Whoever was told something and has to go on goes on first; what is left to do here can wait.
pub(crate) fn let_others_run() {
    rustix::thread::sched_yield();
}

/// How soon this thread goes on when there is something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// As soon as any other.
    Usual,
    /// When a processor has nothing else to do: it takes nobody's place.
    None,
}

/// `sched_setscheduler(2)` for this thread, and whom it makes from then on. Nothing hangs on it but time.
pub(crate) fn go_on_with(haste: Haste) {
    let policy = match haste {
        Haste::Usual => libc::SCHED_OTHER,
        Haste::None => libc::SCHED_BATCH,
    };
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: an initialised structure that the kernel reads; 0 is this thread.
    let _ = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
}

/// What `wait4(2)` says of a process that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The raw wait status.
    pub(crate) status: i32,
    /// Its own use, and that of its waited-for children.
    pub(crate) used: Used,
}

/// What processes have used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Used {
    /// Processor time in user code.
    pub(crate) cpu_user: Duration,
    /// Processor time in the kernel.
    pub(crate) cpu_system: Duration,
    /// Largest resident size of any one of them, in bytes.
    pub(crate) largest: u64,
}

impl Used {
    fn of(usage: &libc::rusage) -> Used {
        Used {
            cpu_user: duration_of(usage.ru_utime),
            cpu_system: duration_of(usage.ru_stime),
            largest: u64::try_from(usage.ru_maxrss).unwrap_or_default() * 1024,
        }
    }

    /// By this process, and by its children that have been waited for.
    pub(crate) fn so_far() -> io::Result<Used> {
        let [own, children] = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(|whose| {
            let mut usage = MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: the pointer is to a live local of the right type, which the kernel only writes.
            let result = unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
            // SAFETY: `rusage` is plain integers and was zeroed, so it is initialised whether or not the kernel wrote it.
            let usage = unsafe { usage.assume_init() };
            if result == 0 { Ok(Used::of(&usage)) } else { Err(io::Error::last_os_error()) }
        });
        let (own, children) = (own?, children?);
        Ok(Used {
            cpu_user: own.cpu_user + children.cpu_user,
            cpu_system: own.cpu_system + children.cpu_system,
            largest: own.largest.max(children.largest),
        })
    }
}

/// `wait4(2)`: until one child ends, or any with `None`.
pub(crate) fn wait_for(child: Option<Pid>) -> io::Result<(Pid, Ended)> {
    wait_with(child, libc::__WALL)?.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Whether a child has ended; then it is not there any more.
pub(crate) fn has_ended(child: Pid) -> io::Result<bool> {
    Ok(wait_with(Some(child), libc::__WALL | libc::WNOHANG)?.is_some())
}

/// Whether this process has no children any more. Those that have ended are waited for, but not for ever: others may
/// make more of them meanwhile.
pub(crate) fn is_alone() -> bool {
    const MOST: usize = 1024;
    for _ in 0..MOST {
        match wait_with(None, libc::__WALL | libc::WNOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(error) => return error.raw_os_error() == Some(libc::ECHILD),
        }
    }
    false
}

/// `None` if nobody has ended, and that was not to be waited for.
fn wait_with(child: Option<Pid>, flags: i32) -> io::Result<Option<(Pid, Ended)>> {
    let pid = child.map_or(-1, |pid| pid.as_raw_nonzero().get());
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let ended = loop {
        // SAFETY: both pointers are to live locals of the right type, which the kernel only writes.
        let ended = unsafe { libc::wait4(pid, &raw mut status, flags, usage.as_mut_ptr()) };
        if ended != -1 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break ended;
        }
    };
    if ended == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `rusage` is plain integers and was zeroed, so it is initialised whether or not the kernel wrote it.
    let usage = unsafe { usage.assume_init() };
    Ok(Pid::from_raw(ended).map(|pid| (pid, Ended { status, used: Used::of(&usage) })))
}

fn duration_of(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Blocks these signals and returns a descriptor from which they are read instead.
pub(crate) fn signals_as_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: `set` is an initialised signal set; the old mask is not asked for.
    let result = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: -1 asks for a new descriptor; `set` is read only.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, valid, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the pointer is to a live local.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set is initialised by now; a number that is no signal is refused by the call and harmless.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: `sigemptyset` has initialised it.
    unsafe { set.assume_init() }
}

/// The bytes of one record read from [`signals_as_descriptor`].
pub(crate) const SIGNAL_RECORD: usize = size_of::<libc::signalfd_siginfo>();

/// Ignores a signal, here and in every program started from here.
pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition for every signal this is called with.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Gives a signal back the meaning it has in a new process.
pub(crate) fn default_signal(signal: i32) {
    // SAFETY: SIG_DFL is a valid disposition for every signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Zeroes the caller's environment in this process's own memory.
///
/// For a fresh child of [`clone_process`] that will never read them: `/proc/1/environ` shows that memory.
pub(crate) fn blank_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: this process has one thread (see `clone_process`), so nobody reads or changes `environ` meanwhile.
    let mut entry = unsafe { environ };
    while !entry.is_null() {
        // SAFETY: `environ` is an array that ends with a null pointer; `entry` has not passed it.
        let text = unsafe { *entry };
        if text.is_null() {
            break;
        }
        // SAFETY: each entry is a NUL-terminated string.
        let length = unsafe { libc::strlen(text) };
        // SAFETY: the string's own bytes are writable memory of this process, the initial stack or the heap.
        unsafe { std::ptr::write_bytes(text, 0, length) };
        // SAFETY: still within the array, because this entry was not the last.
        entry = unsafe { entry.add(1) };
    }
}

/// `malloc_trim(3)`: what was freed goes back to the system, as far as whole pages of it are free.
pub(crate) fn give_back_memory() {
    // SAFETY: it takes the allocator's own locks, and changes nothing that anybody has allocated.
    unsafe { libc::malloc_trim(0) };
}

/// `madvise(2)`: puts memory of this process in large pages, now. What is in it stays as it is. Linux 6.1, where large pages may
/// be had; elsewhere nothing happens.
pub(crate) fn put_in_large_pages(start: usize, length: usize) {
    /// As in the kernel's headers; `libc` does not have it for every target.
    const COLLAPSE: libc::c_int = 25;
    let start = std::ptr::without_provenance_mut(start);
    // SAFETY: it changes how pages are kept, and no byte of them; of what is no memory of ours the kernel says so.
    unsafe { libc::madvise(start, length, COLLAPSE) };
}

/// `madvise(2)`: has the kernel forget that this code is here; it is read from its file again when it is run.
pub(crate) fn let_go_of_code(start: usize, length: usize) -> io::Result<()> {
    let start = std::ptr::without_provenance_mut(start);
    // SAFETY: the caller has it from the kernel that this is mapped from a file, private and not writable, so that the
    // kernel maps the same bytes again for whoever runs or reads them next, this function first of all.
    match unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `listmount(2)`: the numbers of all mounts that this process sees, which no other mount has had since the system was started.
/// Linux 6.8.
pub(crate) fn list_mounts() -> io::Result<Vec<u64>> {
    const LISTMOUNT: libc::c_long = 458;
    const AT_ONCE: usize = 256;
    /// As in the kernel's headers.
    #[repr(C)]
    struct Wanted {
        size: u32,
        spare: u32,
        beneath: u64,
        after: u64,
    }
    let mut numbers = Vec::new();
    loop {
        let after = numbers.last().copied().unwrap_or(0);
        let wanted = Wanted { size: 24, spare: 0, beneath: u64::MAX, after };
        let mut page = [0_u64; AT_ONCE];
        // SAFETY: the kernel reads as much of `wanted` as its `size` says, which is all of it, and writes at most `AT_ONCE`
        // numbers to `page`, which has room for them.
        let count = unsafe { libc::syscall(LISTMOUNT, &raw const wanted, page.as_mut_ptr(), AT_ONCE, 0_u32) };
        let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
        numbers.extend(page.iter().take(count));
        if count < AT_ONCE {
            return Ok(numbers);
        }
    }
}

/// Zeroes the caller's command line in this process's own memory.
///
/// For a fresh child of [`clone_process`] that will never read it: `/proc/1/cmdline` shows that memory. The words lie one
/// after the other, each with a NUL behind it, from the name of the program on; what is not there is left alone.
pub(crate) fn blank_arguments(words: impl Iterator<Item = OsString>) {
    unsafe extern "C" {
        static program_invocation_name: *const libc::c_char;
    }
    // SAFETY: the C library sets it before `main`, and this process has one thread (see `clone_process`).
    let mut at = unsafe { program_invocation_name }.cast_mut();
    for word in words {
        if at.is_null() {
            return;
        }
        // SAFETY: `at` is where a word begins: the first by the C library, each further one behind the NUL of one that
        // was as long as expected. After the last come the variables, so that there is a string here in any case.
        let length = unsafe { libc::strlen(at) };
        if length != word.len() {
            return;
        }
        // SAFETY: the string's own bytes are writable memory of this process, on the initial stack.
        unsafe { std::ptr::write_bytes(at, 0, length) };
        // SAFETY: what follows the NUL is the next word, a variable or the program's path, all on the initial stack.
        at = unsafe { at.add(length + 1) };
    }
}

/// Closes every descriptor from 3 on except this one.
///
/// For a fresh child of [`clone_process`], which never drops what it inherited.
pub(crate) fn close_all_but(kept: impl AsFd) -> io::Result<()> {
    let kept = u32::try_from(kept.as_fd().as_raw_fd()).unwrap_or_default();
    close_range(3, kept.saturating_sub(1))?;
    close_range(kept + 1, u32::MAX)
}

/// Which of the standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Standard input.
    Input,
    /// Input and both outputs.
    All,
}

/// Closes standard streams, so that whoever is at the other end sees their end when the tool ends.
pub(crate) fn close_standard_streams(which: Closed) {
    // It can only fail for an empty range.
    let _ = close_range(0, if which == Closed::All { 2 } else { 0 });
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: closes descriptors only. The caller's child owns them all and uses none of them again.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a terminal the controlling one of this session.
pub(crate) fn take_terminal(terminal: impl AsFd) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer argument and no pointer.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSCTTY, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this process has exactly one thread.
pub(crate) fn is_single_threaded() -> bool {
    // The link count of `task` is two more than the number of threads; no directory has to be read.
    rustix::fs::stat("/proc/self/task").is_ok_and(|task| task.st_nlink == 3)
}
