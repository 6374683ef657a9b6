//! The system calls an attacker makes and no safe library offers, one wrapper each.
//!
//! This is the only file of the suite with `unsafe` in it.
#![expect(unsafe_code, reason = "attackers do not use safe libraries; every block states why it holds")]

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::process::{getgid, getuid};

/// One argument of a system call that is only tried.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// A number.
    Number(i64),
    /// A pointer to 4096 zero bytes, which the kernel may read and write.
    Buffer,
}

/// Makes a system call with numbers and one harmless buffer. The calls this is used for read or write at most 4096
/// bytes through a pointer, and none of the numbers passed is an address.
pub(crate) fn try_call(number: libc::c_long, words: [Word; 5]) -> Result<i64, io::Error> {
    let mut buffer = [0_u64; 512];
    let place = buffer.as_mut_ptr();
    let [a, b, c, d, e] = words.map(|word| match word {
        Word::Number(number) => number,
        Word::Buffer => place.expose_provenance().cast_signed() as i64,
    });
    // SAFETY: whatever the call is, every argument is a plain number, null, or the address of a live local buffer that
    // is larger than what the kernel reads or writes for any call made through here.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, 0_i64) };
    std::hint::black_box(&buffer);
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// `unshare(2)` for namespaces.
pub(crate) fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: `unshare` takes a number; callers ask for namespaces, which are no business of this program's memory.
    let result = unsafe { libc::unshare(flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Becomes root of a user namespace of its own, with the caller's one id behind it.
pub(crate) fn enter_user_namespace() -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(libc::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// `clone(2)` as a fork with these flags. The child ends at once.
pub(crate) fn clone_child(flags: i32) -> io::Result<()> {
    let flags = i64::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is a fork: the child has its own copy of everything.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_i64, 0_i64, 0_i64, 0_i64) };
    end_child(pid)
}

/// `clone3(2)` as a fork with these flags. The child ends at once.
pub(crate) fn clone3_child(flags: i32) -> io::Result<()> {
    // SAFETY: `clone_args` is plain integers; all zero is a valid value of it.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.cast_unsigned());
    arguments.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM this is a fork; the structure lives until the call returns and its size is passed.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
    end_child(pid)
}

fn end_child(pid: i64) -> io::Result<()> {
    match i32::try_from(pid).unwrap_or(-1) {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the child of a fork ends at once, without destructors.
        0 => unsafe { libc::_exit(0) },
        child => {
            let mut status = 0;
            // SAFETY: the status is a live local; the child is ours.
            unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
            Ok(())
        }
    }
}

/// A copy of a descriptor that is known by its number only, as an attacker finds it.
pub(crate) fn duplicate(number: i32) -> Option<OwnedFd> {
    // SAFETY: `dup` takes any number and refuses one that is not open.
    let copy = unsafe { libc::dup(number) };
    // SAFETY: the copy is new and owned by nobody else.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// `fchmodat2(2)`, which the C library hides behind another.
pub(crate) fn change_mode(path: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: the path is NUL-terminated and lives until the call returns.
    let result = unsafe {
        libc::syscall(libc::SYS_fchmodat2, libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_SYMLINK_NOFOLLOW)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Signals every process it can.
pub(crate) fn kill_everyone() -> io::Result<()> {
    // SAFETY: a signal number and no pointer. What it does to other processes is the point; see the callers.
    let result = unsafe { libc::kill(-1, libc::SIGKILL) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `TIOCSTI`: types a character into a terminal, as if its user had.
pub(crate) fn type_into(terminal: impl AsFd, character: u8) -> io::Result<()> {
    // SAFETY: TIOCSTI reads one byte, which lives until the call returns.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSTI, &raw const character) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `TIOCLINUX`: pastes on a console, as if its user had.
pub(crate) fn paste_into(terminal: impl AsFd) -> io::Result<()> {
    const TIOCLINUX: libc::c_ulong = 0x541C;
    let mut request = [0_u8; 64];
    // TIOCL_GETSHIFTSTATE: asks for something harmless.
    request[0] = 6;
    // SAFETY: the request is a live buffer, larger than what any sub-command reads or writes.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), TIOCLINUX, request.as_mut_ptr()) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A system call by the 32-bit way in, which has numbers of its own. Ends with a signal where the kernel has none.
pub(crate) fn call_like_32_bits(number: i32) -> i32 {
    let answer: i32;
    // SAFETY: the calls made take no argument and write no memory; the registers that older kernels clear are named.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("eax") number => answer,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    answer
}

/// Maps an open file, so that it stays when nobody has it open any more. It is never unmapped.
pub(crate) fn map(file: impl AsFd, bytes: usize) -> io::Result<()> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: the kernel chooses the address; the memory is never used, only kept.
    let place =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_fd().as_raw_fd(), 0) };
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A System V segment of the host, removed when dropped.
pub(crate) struct Segment(i32);

const SEGMENT_BYTES: usize = 4096;

impl Segment {
    /// Makes one that everyone may read, with this text in it.
    pub(crate) fn create(key: i32, text: &str) -> io::Result<Segment> {
        let id = segment(key, libc::IPC_CREAT | libc::IPC_EXCL | 0o666)?;
        let segment = Segment(id);
        let place = attach(id)?;
        let length = text.len().min(SEGMENT_BYTES);
        // SAFETY: the segment is 4096 bytes long, and the text no longer than that by `length`.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), place, length) };
        detach(place);
        Ok(segment)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: removes by number; the null pointer is what IPC_RMID expects.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Makes a segment that no process has attached, with something in all of it. It is removed at once if it could be made.
pub(crate) fn fill_segment(bytes: usize) -> io::Result<()> {
    // SAFETY: numbers only.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, libc::IPC_CREAT | 0o600) };
    if id == -1 {
        return Err(io::Error::last_os_error());
    }
    let segment = Segment(id);
    let place = attach(segment.0)?;
    // SAFETY: the segment is attached and this long.
    unsafe { std::ptr::write_bytes(place, 1, bytes) };
    detach(place);
    Ok(())
}

/// Ends the calling thread and nothing else; the process lives on in the others.
pub(crate) fn end_this_thread() -> ! {
    loop {
        // SAFETY: takes a number and does not return. What the thread has is left as it is, which nobody uses again.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Reads what somebody left in a System V segment.
pub(crate) fn read_segment(key: i32) -> io::Result<String> {
    let place = attach(segment(key, 0)?)?;
    // SAFETY: the segment is attached and 4096 bytes long.
    let bytes = unsafe { std::slice::from_raw_parts(place, SEGMENT_BYTES) };
    let text = bytes.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    detach(place);
    Ok(text)
}

fn segment(key: i32, flags: i32) -> io::Result<i32> {
    // SAFETY: numbers only.
    let id = unsafe { libc::shmget(key, SEGMENT_BYTES, flags) };
    if id == -1 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

fn attach(id: i32) -> io::Result<*mut u8> {
    // SAFETY: the kernel chooses the address.
    let place = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    if place.addr() == usize::MAX { Err(io::Error::last_os_error()) } else { Ok(place.cast()) }
}

fn detach(place: *mut u8) {
    // SAFETY: the address came from `attach` and is not used again.
    unsafe { libc::shmdt(place.cast()) };
}

/// Makes a POSIX queue of the host that everyone may open.
pub(crate) fn create_queue(name: &CStr) -> io::Result<()> {
    // SAFETY: the name is NUL-terminated; a null attribute pointer means the defaults.
    let queue = unsafe {
        libc::mq_open(
            name.as_ptr(),
            libc::O_CREAT | libc::O_EXCL | libc::O_RDWR,
            0o666,
            std::ptr::null_mut::<libc::mq_attr>(),
        )
    };
    close_queue(queue)
}

/// Opens a POSIX queue.
pub(crate) fn open_queue(name: &CStr) -> io::Result<()> {
    // SAFETY: the name is NUL-terminated; without O_CREAT there are no further arguments.
    let queue = unsafe { libc::mq_open(name.as_ptr(), libc::O_RDWR) };
    close_queue(queue)
}

/// Removes a POSIX queue.
pub(crate) fn remove_queue(name: &CStr) {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::mq_unlink(name.as_ptr()) };
}

fn close_queue(queue: libc::mqd_t) -> io::Result<()> {
    if queue == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the queue was just opened and nobody else has it.
    unsafe { libc::mq_close(queue) };
    Ok(())
}
