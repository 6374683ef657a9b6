//! Looks at what the kernel does not hold for us: total memory without a cgroup, bytes in granted directories.
//!
//! A watch sees afterwards. The report says so: `partly`. It never takes longer than its budget, whatever there is to
//! look at: whoever keeps the time waits for it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Stat, fstatvfs, statat};
use rustix::process::Pid;

use crate::control::Control;
use crate::directories::Opened;
use crate::entry::open_beneath;
use crate::launch::{Running, allowed_processors, has_no_more_processors_than, processors};
use crate::plan::{Access, Plan};
use crate::report::Limit;

const INTERVAL: Duration = Duration::from_millis(50);
/// How long one look at memory, or at one directory, may take: time is kept between looks.
const BUDGET: Duration = Duration::from_millis(100);

/// A look that nothing calls for may take this part of the time: one in so many.
const SPARING: u32 = 20;

/// What has to be looked at, and what was seen so far.
pub(crate) struct Watch {
    next: Option<Instant>,
    memory: Option<MemoryLook>,
    disk: Vec<DiskLook>,
    /// When directories are looked at whatever their disk says.
    unprompted: Instant,
    began: u64,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "compared with change times that the kernel's clock wrote")]
    pub(crate) fn new(plan: &Plan, running: &Running) -> Watch {
        let memory = plan.keeps(Control::Memory) && running.cgroup.holds_memory().is_none();
        let writable = running.opened.iter().enumerate().filter(|(_, d)| d.access == Access::Write);
        let disk: Vec<DiskLook> = if plan.keeps(Control::Disk) {
            writable.map(|(index, directory)| DiskLook::new(index, free_bytes(&directory.handle))).collect()
        } else {
            Vec::new()
        };
        let needed = memory || !disk.is_empty();
        let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Watch {
            next: needed.then(|| Instant::now() + INTERVAL),
            memory: memory.then(MemoryLook::default),
            disk,
            unprompted: Instant::now(),
            began: began.map_or(0, |since| since.as_secs()),
        }
    }

    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.next
    }

    /// Looks, if it is time. Says which limit was passed.
    pub(crate) fn look(&mut self, now: Instant, plan: &Plan, running: &Running) -> Option<Limit> {
        if self.next.is_none_or(|next| now < next) {
            return None;
        }
        let limits = &plan.draft().limits;
        let passed = if self.memory.as_mut().is_some_and(|look| look.exceeds(limits.memory, running.init.pid))
        {
            Some(Limit::Memory)
        } else {
            self.exceeds_disk(limits.disk, running).then_some(Limit::Disk)
        };
        self.next = Some(Instant::now() + INTERVAL);
        passed
    }

    /// Bytes written since the run began: as the kernel counts them for the sandbox's processes, or as files show that
    /// changed since and files without a name, whichever is more. The first misses what was only reserved, and what an
    /// ordinary user may not ask about; the second misses files that are only mapped.
    fn exceeds_disk(&mut self, limit: u64, running: &Running) -> bool {
        let now = Instant::now();
        // Others use the disk too: when that much is gone it is worth finding out who took it.
        let losing = |look: &mut DiskLook| look.has_lost_more_than(limit, running);
        let mut looks: Vec<&mut DiskLook> =
            self.disk.iter_mut().filter_map(|look| losing(look).then_some(look)).collect();
        // ATTACK(disk-filler-while-others-free): and others give back what was taken here. So now and then it is found out
        // whatever is gone, as often as that costs little, and as far as one look goes.
        let unprompted = looks.is_empty();
        if unprompted {
            if self.disk.is_empty() || now < self.unprompted {
                return false;
            }
            looks = self.disk.iter_mut().collect();
        }
        let until = now + BUDGET;
        let (mut counted, mut unnamed) = (0, BTreeMap::new());
        for pid in processes_of(running.init.pid, until) {
            counted += written_bytes_of(pid);
            unnamed.extend(unnamed_files_of(&view_of(pid), until));
        }
        let until = Instant::now() + BUDGET;
        let unnamed: u64 = unnamed.values().sum();
        let began = self.began;
        let exceeds = looks.iter_mut().any(|look| {
            let changed = match unprompted {
                false => look.changed_bytes(running, began, until),
                true => look.changed_bytes_at_once(running, began, until),
            };
            counted.max(unnamed + changed) > limit
        });
        self.unprompted = now + now.elapsed() * SPARING;
        exceeds
    }
}

/// A look at one writable directory. What does not fit into one budget is gone on with in the next.
struct DiskLook {
    index: usize,
    /// Free bytes of its filesystem when the run began.
    free: u64,
    walk: Option<ChangedFiles>,
}

impl DiskLook {
    fn new(index: usize, free: u64) -> DiskLook {
        DiskLook { index, free, walk: None }
    }

    /// Whether its filesystem has less room than that. A walk begun while it had is of no more use.
    fn has_lost_more_than(&mut self, limit: u64, running: &Running) -> bool {
        let free =
            running.opened.get(self.index).map_or(self.free, |directory| free_bytes(&directory.handle));
        let has = self.free.saturating_sub(free) > limit;
        if !has {
            self.walk = None;
        }
        has
    }

    /// The same as far as one look goes. What was counted long ago may have been moved since, and would count twice.
    fn changed_bytes_at_once(&self, running: &Running, began: u64, until: Instant) -> u64 {
        let Some(directory) = running.opened.get(self.index) else { return 0 };
        ChangedFiles::from_the_top().go_on(directory, began, until)
    }

    fn changed_bytes(&mut self, running: &Running, began: u64, until: Instant) -> u64 {
        let Some(directory) = running.opened.get(self.index) else { return 0 };
        let walk = self.walk.get_or_insert_with(ChangedFiles::from_the_top);
        let bytes = walk.go_on(directory, began, until);
        if walk.is_done() {
            self.walk = None;
        }
        bytes
    }
}

/// The bytes of files in a directory that changed since the run began, counted as far as time allows.
struct ChangedFiles {
    waiting: Vec<PathBuf>,
    open: Option<(PathBuf, OwnedFd)>,
    bytes: u64,
}

impl ChangedFiles {
    fn from_the_top() -> ChangedFiles {
        ChangedFiles { waiting: vec![PathBuf::new()], open: None, bytes: 0 }
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.open.is_none()
    }

    /// The bytes counted so far.
    fn go_on(&mut self, directory: &Opened, began: u64, until: Instant) -> u64 {
        while !self.is_done() && Instant::now() < until {
            if self.open.is_none() {
                let Some(path) = self.waiting.pop() else { break };
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                self.open = open_beneath(&directory.handle, &path, flags).ok().map(|handle| (path, handle));
            }
            self.count_some(directory, began);
        }
        self.bytes
    }

    /// One piece of the open directory; where it was left is the handle's to know.
    fn count_some(&mut self, directory: &Opened, began: u64) {
        let Some((folder, handle)) = self.open.take() else { return };
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = RawDir::new(&handle, &mut buffer);
        while let Some(Ok(entry)) = reader.next() {
            let name = entry.file_name();
            let status = statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW);
            if let (Ok(status), false) = (status, matches!(name.to_bytes(), b"." | b"..")) {
                let path = folder.join(OsStr::from_bytes(name.to_bytes()));
                let is_window = directory.windows.iter().any(|window| window.path == path);
                if FileType::from_raw_mode(status.st_mode) == FileType::Directory && !is_window {
                    self.waiting.push(path);
                }
                if u64::try_from(status.st_ctime).unwrap_or_default() >= began {
                    self.bytes += bytes_of(&status);
                }
            }
            if reader.is_buffer_empty() {
                self.open = Some((folder, handle));
                return;
            }
        }
    }
}

/// The best there is without a cgroup: as many processors as the limit allows, at least one.
pub(crate) fn confine_to_processors(pid: Pid, cpu_millis: u32) {
    if has_no_more_processors_than(cpu_millis) {
        return;
    }
    let Ok(allowed) = allowed_processors() else { return };
    let wanted = usize::try_from(cpu_millis.div_ceil(1000).min(processors())).unwrap_or(1);
    let mut set = rustix::thread::CpuSet::new();
    let own = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    for cpu in own.take(wanted) {
        set.set(cpu);
    }
    let _ = rustix::thread::sched_setaffinity(Some(pid), &set);
}

fn free_bytes(directory: &impl AsFd) -> u64 {
    fstatvfs(directory).map_or(0, |status| status.f_bfree.saturating_mul(status.f_frsize))
}

/// The sandbox's processes, found from its init downwards: orphans become the init's own children.
fn processes_of(init: Pid, until: Instant) -> Vec<i32> {
    let mut found = vec![init.as_raw_nonzero().get()];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied().filter(|_| Instant::now() < until) {
        at += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
    }
    found
}

/// A look at all the memory of a sandbox: what each process has alone, its part of what it shares, and files that are
/// memory, whether somebody has mapped them or not. What does not fit into one budget is gone on with in the next.
#[derive(Default)]
struct MemoryLook {
    waiting: Vec<i32>,
    own: u64,
    mapped: u64,
    /// By inode.
    files: BTreeMap<u64, u64>,
    scratch: u64,
}

impl MemoryLook {
    fn exceeds(&mut self, limit: u64, init: Pid) -> bool {
        let until = Instant::now() + BUDGET;
        if self.waiting.is_empty() {
            let waiting = processes_of(init, until);
            // All of them are in the same scratch space. The init was in the host's before, so it is not asked.
            let scratch = waiting.iter().skip(1).find_map(|pid| scratch_of(*pid)).unwrap_or(0);
            *self = MemoryLook { waiting, scratch, ..MemoryLook::default() };
        }
        while let Some(pid) = self.waiting.pop() {
            self.add(pid, until);
            if Instant::now() >= until {
                break;
            }
        }
        // Counted once: what is mapped is mostly one of these files.
        self.own + self.mapped.max(self.files.values().sum::<u64>() + self.scratch) > limit
    }

    fn add(&mut self, pid: i32, until: Instant) {
        let view = view_of(pid);
        let rollup = fs::read_to_string(view.join("smaps_rollup")).unwrap_or_default();
        let bytes = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name));
            let number =
                line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
            number.unwrap_or(0) * 1024
        };
        self.mapped += bytes("Pss_Shmem:");
        self.own += bytes("Pss:").saturating_sub(bytes("Pss_Shmem:")) + bytes("SwapPss:");
        self.own += bytes("Private_Hugetlb:") + bytes("Shared_Hugetlb:");
        self.files.extend(memory_files_of(&view, until));
    }
}

/// Where the kernel shows what a process has.
///
/// ATTACK(memory-bomb-without-a-leader): not where its first thread was, if that has ended. The others share its memory,
/// and the filter sees to it that they share its open files.
fn view_of(pid: i32) -> PathBuf {
    let own = PathBuf::from(format!("/proc/{pid}"));
    let has_ended = |view: &Path| {
        fs::read_link(view.join("exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    if !has_ended(&own) {
        return own;
    }
    let threads = fs::read_dir(own.join("task")).into_iter().flatten().flatten().map(|task| task.path());
    threads.into_iter().find(|view| !has_ended(view)).unwrap_or(own)
}

fn scratch_of(pid: i32) -> Option<u64> {
    let status = rustix::fs::statvfs(view_of(pid).join("root/tmp")).ok()?;
    Some(status.f_blocks.saturating_sub(status.f_bfree).saturating_mul(status.f_frsize))
}

/// Files without a name that are memory and nothing else: inode and bytes.
fn memory_files_of(view: &Path, until: Instant) -> Vec<(u64, u64)> {
    let files = open_files_of(view, until).filter(is_memory);
    files.filter_map(|path| rustix::fs::stat(&path).ok()).map(|s| (s.st_ino, bytes_of(&s))).collect()
}

/// Files that are open and have no name, memory excepted: inode and bytes. What is only reserved in them was never written.
fn unnamed_files_of(view: &Path, until: Instant) -> Vec<(u64, u64)> {
    let files = open_files_of(view, until).filter(|path| !is_memory(path));
    let unnamed = files.filter_map(|path| rustix::fs::stat(&path).ok()).filter(|status| status.st_nlink == 0);
    unnamed.map(|s| (s.st_ino, bytes_of(&s))).collect()
}

fn open_files_of(view: &Path, until: Instant) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(view.join("fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take_while(move |_| Instant::now() < until)
}

fn is_memory(path: &PathBuf) -> bool {
    fs::read_link(path).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:"))
}

fn bytes_of(status: &Stat) -> u64 {
    u64::try_from(status.st_blocks).unwrap_or_default() * 512
}

/// What a process and the children it has waited for wrote to disks.
fn written_bytes_of(pid: i32) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let count = counts.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    count.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}
