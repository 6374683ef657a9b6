//! Looks at what the kernel does not hold for us: total memory without a cgroup, bytes in granted directories.
//!
//! A watch sees afterwards. The report says so: `partly`.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, fstatvfs, statat};
use rustix::process::Pid;

use crate::control::Control;
use crate::launch::{Opened, Running, has_no_more_processors_than, processors};
use crate::plan::{Access, Plan};
use crate::report::Limit;
use crate::tree::{Detail, Patience, survey};

const INTERVAL: Duration = Duration::from_millis(50);

/// What has to be looked at, and what was seen so far.
pub(crate) struct Watch {
    next: Option<Instant>,
    memory: bool,
    /// Free bytes of each writable directory's filesystem when the run began.
    disk: Vec<(usize, u64)>,
    began: std::time::SystemTime,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "compared with change times that the kernel's clock wrote")]
    pub(crate) fn new(plan: &Plan, running: &Running) -> Watch {
        let memory = plan.keeps(Control::Memory) && running.cgroup.holds_memory().is_none();
        if plan.keeps(Control::Cpu) && running.cgroup.holds_cpu().is_none() {
            confine_to_processors(running.pid, plan.draft().limits.cpu_millis);
        }
        let writable = running.opened.iter().enumerate().filter(|(_, d)| d.access == Access::Write);
        let disk: Vec<(usize, u64)> = if plan.keeps(Control::Disk) {
            writable.map(|(index, directory)| (index, free_bytes(&directory.handle))).collect()
        } else {
            Vec::new()
        };
        let needed = memory || !disk.is_empty();
        Watch {
            next: needed.then(|| Instant::now() + INTERVAL),
            memory,
            disk,
            began: std::time::SystemTime::now(),
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
        self.next = Some(now + INTERVAL);
        let limits = &plan.draft().limits;
        if self.memory {
            let used = memory_of(&processes_of(running.pid));
            if used > limits.memory {
                return Some(Limit::Memory);
            }
        }
        let passed = self.disk.iter().any(|(index, before)| {
            running.opened.get(*index).is_some_and(|directory| {
                let lost = before.saturating_sub(free_bytes(&directory.handle));
                // Others use the disk too: only when that much is gone is it worth finding out who took it.
                lost > limits.disk && self.written_by(running, directory, plan) > limits.disk
            })
        });
        passed.then_some(Limit::Disk)
    }

    /// Bytes written since the run began: as the kernel counts them for the sandbox's processes, or as files show that
    /// changed since and files without a name, whichever is more. The first misses what was only reserved, and what an
    /// ordinary user may not ask about; the second misses files that are only mapped.
    fn written_by(&self, running: &Running, directory: &Opened, plan: &Plan) -> u64 {
        let found = survey(&directory.search(&plan.draft().names, Detail::Stamps, Patience::Glance));
        let since = self.began.duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let named: u64 = found
            .stamps
            .keys()
            .filter_map(|path| statat(&directory.handle, path, AtFlags::SYMLINK_NOFOLLOW).ok())
            .filter(|status| u64::try_from(status.st_ctime).unwrap_or_default() >= since)
            .map(|status| u64::try_from(status.st_blocks).unwrap_or_default() * 512)
            .sum();
        let processes = processes_of(running.pid);
        let counted: u64 = processes.iter().map(|pid| written_bytes_of(*pid)).sum();
        let unnamed: BTreeMap<u64, u64> = processes.iter().flat_map(|pid| unnamed_files_of(*pid)).collect();
        counted.max(named + unnamed.values().sum::<u64>())
    }
}

/// The best there is without a cgroup: as many processors as the limit allows, at least one.
fn confine_to_processors(pid: Pid, cpu_millis: u32) {
    if has_no_more_processors_than(cpu_millis) {
        return;
    }
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
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
fn processes_of(init: Pid) -> Vec<i32> {
    let mut found = vec![init.as_raw_nonzero().get()];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        if found.len() > 100_000 {
            break;
        }
    }
    found
}

/// All the memory of these processes: what each has alone, its part of what it shares, and files that are memory,
/// whether somebody has mapped them or not.
fn memory_of(processes: &[i32]) -> u64 {
    let (mut own, mut mapped) = (0, 0);
    for pid in processes {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let bytes = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name));
            let number =
                line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
            number.unwrap_or(0) * 1024
        };
        mapped += bytes("Pss_Shmem:");
        own += bytes("Pss:").saturating_sub(bytes("Pss_Shmem:")) + bytes("SwapPss:");
    }
    let files: BTreeMap<u64, u64> = processes.iter().flat_map(|pid| memory_files_of(*pid)).collect();
    // All of them are in the same scratch space. The init was in the host's before, so it is not asked.
    let scratch = processes.iter().skip(1).find_map(|pid| {
        let status = rustix::fs::statvfs(format!("/proc/{pid}/root/tmp")).ok()?;
        Some(status.f_blocks.saturating_sub(status.f_bfree).saturating_mul(status.f_frsize))
    });
    // Counted once: what is mapped is mostly one of these files.
    own + mapped.max(files.values().sum::<u64>() + scratch.unwrap_or(0))
}

/// Files without a name that are memory and nothing else: inode and bytes.
fn memory_files_of(pid: i32) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_memory = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:"))
    };
    let files = entries.map(|entry| entry.path()).filter(is_memory);
    let bytes = |status: &rustix::fs::Stat| u64::try_from(status.st_blocks).unwrap_or_default() * 512;
    files.filter_map(|path| rustix::fs::stat(&path).ok()).map(|s| (s.st_ino, bytes(&s))).collect()
}

/// Files that are open and have no name, memory excepted: inode and bytes. What is only reserved in them was never written.
fn unnamed_files_of(pid: i32) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_memory = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:"))
    };
    let files = entries.map(|entry| entry.path()).filter(|path| !is_memory(path));
    let unnamed = files.filter_map(|path| rustix::fs::stat(&path).ok()).filter(|status| status.st_nlink == 0);
    unnamed.map(|s| (s.st_ino, u64::try_from(s.st_blocks).unwrap_or_default() * 512)).collect()
}

/// What a process and the children it has waited for wrote to disks.
fn written_bytes_of(pid: i32) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let count = counts.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    count.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}
