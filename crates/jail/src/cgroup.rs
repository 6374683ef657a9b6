//! A cgroup for one sandbox: totals of memory, processor and processes, held by the kernel.
//!
//! Version 2 where it is delegated to us, else version 1, else nothing, and the launcher watches instead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::limits::Limits;

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "toolgate-";
const PERIOD_MICROS: u64 = 100_000;

/// Which totals are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) memory: bool,
    pub(crate) cpu: bool,
}

/// The cgroups of one sandbox; removed when dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    memory: Option<Part>,
    cpu: Option<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    path: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// Makes what can be made. `pid` is the sandbox's init, which is put in.
    pub(crate) fn create(limits: &Limits, wanted: Wanted, pid: Pid) -> Cgroup {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Cgroup::create_in(Path::new(ROOT), &own, limits, wanted, pid)
    }

    fn create_in(root: &Path, own: &str, limits: &Limits, wanted: Wanted, pid: Pid) -> Cgroup {
        let name = format!("{PREFIX}{}-{}", std::process::id(), pid.as_raw_nonzero());
        let mut made = Cgroup { memory: None, cpu: None };
        if root.join("cgroup.controllers").exists() {
            made.create_two(root, own, &name, limits, wanted, pid);
        } else {
            made.create_one(root, own, &name, limits, wanted, pid);
        }
        made
    }

    fn create_two(&mut self, root: &Path, own: &str, name: &str, limits: &Limits, wanted: Wanted, pid: Pid) {
        let Some(parent) = parent_in_two(root, own) else { return };
        reclaim_orphans(&parent);
        // Fails harmlessly where the controllers are on already or are not ours to turn on.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory +pids +cpu");
        let path = parent.join(name);
        if fs::create_dir(&path).is_err() {
            return;
        }
        let part = Part { path: path.clone(), version: Version::Two };
        let write = |file: &str, value: String| fs::write(path.join(file), value);
        let memory = write("memory.max", limits.memory.to_string()).is_ok();
        if memory {
            // Without swap accounting there is no such file, and nothing to limit.
            let _ = write("memory.swap.max", "0".to_owned());
            let _ = write("memory.oom.group", "1".to_owned());
        }
        let _ = write("pids.max", (u64::from(limits.pids) + 1).to_string());
        let cpu = write("cpu.max", format!("{} {PERIOD_MICROS}", quota(limits))).is_ok();
        let joined = write("cgroup.procs", pid.as_raw_nonzero().to_string()).is_ok();
        if !joined || (!memory && !cpu) {
            let _ = fs::remove_dir(&path);
            return;
        }
        self.memory = (memory && wanted.memory).then(|| part.clone());
        self.cpu = (cpu && wanted.cpu).then_some(part);
    }

    fn create_one(&mut self, root: &Path, own: &str, name: &str, limits: &Limits, wanted: Wanted, pid: Pid) {
        if wanted.memory {
            self.memory = make_one(root, own, "memory", name, pid, |path| {
                fs::write(path.join("memory.limit_in_bytes"), limits.memory.to_string())?;
                // Only there when swap is accounted; without it, a swap file would be a way around.
                match fs::write(path.join("memory.memsw.limit_in_bytes"), limits.memory.to_string()) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    other => other,
                }
            });
        }
        if wanted.cpu {
            self.cpu = make_one(root, own, "cpu", name, pid, |path| {
                fs::write(path.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
                fs::write(path.join("cpu.cfs_quota_us"), quota(limits).to_string())
            });
        }
    }

    /// By what memory is held, if it is.
    pub(crate) fn holds_memory(&self) -> Option<&'static str> {
        self.memory.as_ref().map(Part::describe)
    }

    /// By what processor time is held, if it is.
    pub(crate) fn holds_cpu(&self) -> Option<&'static str> {
        self.cpu.as_ref().map(Part::describe)
    }

    /// The most memory the sandbox ever had, if the kernel counted.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let part = self.memory.as_ref()?;
        let file = match part.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(part.path.join(file)).ok()?.trim().parse().ok()
    }

    /// Whether the kernel killed something in here for going past its memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let Some(part) = self.memory.as_ref() else { return false };
        let file = match part.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        fs::read_to_string(part.path.join(file))
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "))
            .any(|count| count.trim() != "0")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let mut paths: Vec<&PathBuf> =
            self.memory.iter().chain(self.cpu.iter()).map(|part| &part.path).collect();
        paths.dedup();
        for path in paths {
            // All processes are gone by now, but the kernel may take a moment to believe it.
            for _ in 0..50 {
                match fs::remove_dir(path) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    _ => break,
                }
            }
        }
    }
}

impl Part {
    fn describe(&self) -> &'static str {
        match self.version {
            Version::One => "cgroup version 1",
            Version::Two => "cgroup version 2",
        }
    }
}

fn quota(limits: &Limits) -> u64 {
    u64::from(limits.cpu_millis) * PERIOD_MICROS / 1000
}

/// Version 2: our own cgroup holds processes, so the sandbox's stands beside it. At the root it stands beneath.
fn parent_in_two(root: &Path, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let here = root.join(path.trim_start_matches('/'));
    if path == "/" { Some(here) } else { here.parent().map(Path::to_owned) }
}

/// Version 1: beneath our own cgroup of that controller.
fn make_one(
    root: &Path,
    own: &str,
    controller: &str,
    name: &str,
    pid: Pid,
    limit: impl FnOnce(&Path) -> io::Result<()>,
) -> Option<Part> {
    let here = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|c| c == controller).then_some(path)
    })?;
    let parent = root.join(controller).join(here.trim_start_matches('/'));
    reclaim_orphans(&parent);
    let path = parent.join(name);
    fs::create_dir(&path).ok()?;
    let joined =
        limit(&path).and_then(|()| fs::write(path.join("cgroup.procs"), pid.as_raw_nonzero().to_string()));
    if joined.is_err() {
        let _ = fs::remove_dir(&path);
        return None;
    }
    Some(Part { path, version: Version::One })
}

/// Removes cgroups whose launcher was killed before it could. One that still has processes stays.
fn reclaim_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|n| n.split('-').next());
        if launcher.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Wanted = Wanted { memory: true, cpu: true };

    fn me() -> Pid {
        rustix::process::getpid()
    }

    #[test]
    fn version_two_gets_a_sibling_with_every_limit() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("cgroup.controllers"), "memory pids cpu").unwrap();
        fs::create_dir_all(tree.path().join("app.slice/me.scope")).unwrap();
        let limits = Limits { memory: 64 << 20, cpu_millis: 500, pids: 7, ..Limits::default() };

        let made = Cgroup::create_in(tree.path(), "0::/app.slice/me.scope\n", &limits, BOTH, me());

        assert_eq!(made.holds_memory(), Some("cgroup version 2"));
        assert_eq!(made.holds_cpu(), Some("cgroup version 2"));
        let path = made.memory.as_ref().unwrap().path.clone();
        assert_eq!(path.parent(), Some(tree.path().join("app.slice").as_path()));
        let written = |file: &str| fs::read_to_string(path.join(file)).unwrap();
        assert_eq!(written("memory.max"), (64 << 20).to_string());
        assert_eq!(written("memory.swap.max"), "0");
        assert_eq!(written("pids.max"), "8");
        assert_eq!(written("cpu.max"), "50000 100000");
        assert_eq!(written("cgroup.procs"), me().as_raw_nonzero().to_string());
        fs::write(path.join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        fs::write(path.join("memory.peak"), "1234\n").unwrap();
        assert!(made.ran_out_of_memory());
        assert_eq!(made.peak_memory(), Some(1234));
    }

    #[test]
    fn a_tree_that_is_not_ours_gives_nothing_rather_than_half() {
        let tree = tempfile::tempdir().unwrap();
        let made = Cgroup::create_in(tree.path(), "4:memory:/nowhere\n", &Limits::default(), BOTH, me());
        assert_eq!((made.holds_memory(), made.holds_cpu()), (None, None));
    }

    #[test]
    fn orphans_of_dead_launchers_are_reclaimed_and_others_are_left() {
        let tree = tempfile::tempdir().unwrap();
        let mine = tree.path().join(format!("{PREFIX}{}-1", std::process::id()));
        let orphan = tree.path().join(format!("{PREFIX}999999999-1"));
        fs::create_dir(&mine).unwrap();
        fs::create_dir(&orphan).unwrap();
        reclaim_orphans(tree.path());
        assert!(mine.exists());
        assert!(!orphan.exists());
    }
}
