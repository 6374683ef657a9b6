//! A cgroup for one sandbox: totals of memory, processor and processes, held by the kernel.
//!
//! Version 2 where it is delegated to us, else version 1, else nothing, and the launcher watches instead.
//!
//! Moving a process from one cgroup to another waits for every processor of the machine, ten milliseconds at worst.
//! Nobody is moved here: under version 2 the init is born in its cgroup, under version 1 it enters by itself, which the
//! kernel lets a single thread do without waiting, and which leaves time to make the cgroup beside it.
//!
//! To make one and to remove it is dear, so a keeper uses them again ([`crate::cgroups`]). What is in this file says when
//! that may be: see [`Cgroup::renew`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::cgroups::Cgroups;
use crate::limits::Limits;

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "toolgate-";
const PERIOD_MICROS: u64 = 100_000;
/// How long a cgroup may stay busy after its last process; on a loaded machine that is longer than one would think.
const REMOVED_WITHIN: Duration = Duration::from_millis(900);
/// As much memory as may still be charged to a cgroup that is used again: what the kernel takes in advance, 256 KiB for a
/// processor, and what it frees a moment later. What a new one is said to have had at most is no more exact than that.
const MOST_LEFT: u64 = 512 * 1024;

/// Which totals are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) memory: bool,
    pub(crate) cpu: bool,
}

/// The cgroups of one sandbox. When dropped they are removed, or go where they are used again.
#[derive(Debug)]
pub(crate) struct Cgroup {
    /// Where cgroups are mounted, and what this process is in.
    root: PathBuf,
    own: String,
    name: String,
    memory: Option<Part>,
    cpu: Option<Part>,
    /// Whether limits were written, so that the kernel holds them.
    holds: Wanted,
    /// The limit on memory that was written last.
    written: Option<u64>,
    /// Where it goes when nobody is in it any more, if it may be used again.
    home: Option<Arc<Cgroups>>,
}

/// Whether a cgroup is what it was when it was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    AsNew,
    /// But for memory that is still charged to it, and that the kernel may take back in a moment.
    Later,
    Never,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    version: Version,
    /// Version 2: the directory to be born in. Version 1: the file through which a thread enters.
    door: OwnedFd,
    /// Version 2: where processor time is counted, open already. Version 1 counts it in a cgroup of its own, which is not
    /// made for that.
    counter: Option<File>,
    /// Where the most memory is told, if it was opened ahead of time.
    peak: Option<File>,
    /// What tells whether it is as new.
    told: Option<Told>,
    /// Processor time that was counted before this run, in user code and in the kernel.
    spent: (Duration, Duration),
}

/// What else the kernel tells of a cgroup, opened once.
#[derive(Debug)]
struct Told {
    /// Who is in it.
    members: File,
    /// Whether anybody was killed for going past the memory.
    killed: File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// Whether the init is born in its cgroup (version 2), so that it has to be made before it.
    pub(crate) fn is_birthplace() -> bool {
        static IS_BIRTHPLACE: OnceLock<bool> = OnceLock::new();
        *IS_BIRTHPLACE.get_or_init(|| is_version_two(Path::new(ROOT)))
    }

    /// Removes what launchers that were killed have left beside it.
    pub(crate) fn reclaim_beside(&self) {
        self.memory.iter().filter_map(|part| part.path.parent()).for_each(reclaim_orphans);
    }

    /// The same for a keeper, where it is used again.
    pub(crate) fn at_home(self, home: Arc<Cgroups>) -> Cgroup {
        let mut cgroup = self;
        cgroup.home = Some(home);
        cgroup
    }

    /// An empty cgroup without limits, before there is a plan.
    pub(crate) fn begin() -> Cgroup {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Cgroup::begin_in(Path::new(ROOT), own)
    }

    fn begin_in(root: &Path, own: String) -> Cgroup {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let memory = if is_version_two(root) {
            parent_in_two(root, &own).and_then(|parent| make_two(&parent, &name).ok())
        } else {
            make_one(root, &own, "memory", &name)
        };
        let holds = Wanted { memory: false, cpu: false };
        Cgroup { root: root.to_owned(), own, name, memory, cpu: None, holds, written: None, home: None }
    }

    /// No cgroup at all.
    pub(crate) fn none() -> Cgroup {
        let holds = Wanted { memory: false, cpu: false };
        Cgroup {
            root: PathBuf::new(),
            own: String::new(),
            name: String::new(),
            memory: None,
            cpu: None,
            holds,
            written: None,
            home: None,
        }
    }

    /// Writes the limit that a plan is likely to have, before there is one.
    pub(crate) fn foresee(&mut self, limits: &Limits) {
        self.write_memory(limits);
        let Some(part) = &mut self.memory else { return };
        if part.peak.is_none() {
            let path = part.path.join(part.peak_file());
            // Only where it can be written it can be set back.
            part.peak =
                OpenOptions::new().read(true).write(true).open(&path).or_else(|_| File::open(&path)).ok();
        }
    }

    /// Writes the limit on memory, unless it is the one that was written last. Whether it holds.
    fn write_memory(&mut self, limits: &Limits) -> bool {
        let Some(part) = &self.memory else { return false };
        if self.written != Some(limits.memory) {
            self.written = limit_memory(part, limits).ok().map(|()| limits.memory);
        }
        self.written.is_some()
    }

    /// Version 2: the cgroup to be born in.
    pub(crate) fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().filter(|part| part.version == Version::Two).map(|part| part.door.as_fd())
    }

    /// Version 1: the file through which the init enters.
    pub(crate) fn door(&self) -> Option<&OwnedFd> {
        self.memory.as_ref().filter(|part| part.version == Version::One).map(|part| &part.door)
    }

    /// Writes the limits.
    pub(crate) fn limit(&mut self, limits: &Limits, wanted: Wanted) {
        let version = self.memory.as_ref().map_or(Version::One, |part| part.version);
        if wanted.memory {
            self.holds.memory = self.write_memory(limits);
        }
        if let (Some(part), Version::Two) = (&self.memory, version) {
            let _ = fs::write(part.path.join("pids.max"), (u64::from(limits.pids) + 1).to_string());
            // ATTACK(cgroup-again): the run before may have had a limit.
            let quota = if wanted.cpu { quota(limits).to_string() } else { "max".to_owned() };
            let is_written = fs::write(part.path.join("cpu.max"), format!("{quota} {PERIOD_MICROS}")).is_ok();
            self.holds.cpu = wanted.cpu && is_written;
        }
        if version == Version::One && wanted.cpu {
            let made = make_one(&self.root, &self.own, "cpu", &self.name);
            self.cpu = made.filter(|part| limit_cpu_one(part, limits).is_ok());
            self.holds.cpu = self.cpu.is_some();
        }
    }

    /// Version 1: the processor has a cgroup of its own, made only if it is needed; the door to that.
    pub(crate) fn second_door(&self) -> Option<&OwnedFd> {
        self.cpu.as_ref().map(|part| &part.door)
    }

    /// By what memory is held, if it is.
    pub(crate) fn holds_memory(&self) -> Option<&'static str> {
        self.memory.as_ref().filter(|_| self.holds.memory).map(Part::describe)
    }

    /// By what processor time is held, if it is.
    pub(crate) fn holds_cpu(&self) -> Option<&'static str> {
        self.cpu.as_ref().or(self.memory.as_ref()).filter(|_| self.holds.cpu).map(Part::describe)
    }

    /// The most memory the sandbox ever had, if the kernel counted.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let part = self.memory.as_ref()?;
        match &part.peak {
            Some(file) => number_in(file),
            None => fs::read_to_string(part.path.join(part.peak_file())).ok()?.trim().parse().ok(),
        }
    }

    /// Processor time that everybody in here ever had, in user code and in the kernel, if the kernel counted.
    pub(crate) fn processor_time(&self) -> Option<(Duration, Duration)> {
        let part = self.memory.as_ref()?;
        let (user, system) = part.time()?;
        let (user_before, system_before) = part.spent;
        Some((user.saturating_sub(user_before), system.saturating_sub(system_before)))
    }

    /// Makes it what it was when it was new. Whether that has worked: it is used again only then.
    ///
    /// ATTACK(cgroup-again): nobody is in it; what it tells of the run before is set back, subtracted, or was never counted;
    /// and next to no memory is still charged to it. Limits are written before anybody enters.
    pub(crate) fn renew(&mut self) -> Renewed {
        self.holds = Wanted { memory: false, cpu: false };
        match &mut self.memory {
            // Its processor limit has a cgroup of its own, which is not kept.
            _ if self.cpu.is_some() => Renewed::Never,
            Some(part) => part.renew().unwrap_or(Renewed::Never),
            // There is nothing that could tell anything.
            None => Renewed::AsNew,
        }
    }

    /// Whether the kernel killed something in here for going past its memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let Some(part) = self.memory.as_ref() else { return false };
        let told = fs::read_to_string(part.path.join(part.killed_file())).unwrap_or_default();
        killed_in(&told).is_some_and(|count| count > 0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            match self.renew() {
                Renewed::AsNew => return home.put(std::mem::replace(self, Cgroup::none())),
                Renewed::Later => return home.put_aside(std::mem::replace(self, Cgroup::none())),
                Renewed::Never => {}
            }
        }
        let mut paths: Vec<&PathBuf> =
            self.memory.iter().chain(self.cpu.iter()).map(|part| &part.path).collect();
        paths.dedup();
        for path in paths {
            // All processes are gone by now, but the kernel may take a moment to believe it.
            let until = Instant::now() + REMOVED_WITHIN;
            while fs::remove_dir(path).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            // When nobody waits any more.
            path.parent().into_iter().for_each(reclaim_orphans);
        }
    }
}

impl Part {
    /// See [`Cgroup::renew`].
    fn renew(&mut self) -> Option<Renewed> {
        if self.told.is_none() {
            let open = |file: &str| File::open(self.path.join(file)).ok();
            self.told = Some(Told { members: open("cgroup.procs")?, killed: open(self.killed_file())? });
        }
        let Told { members, killed } = self.told.as_ref()?;
        let mut bytes = [0; 1024];
        let is_empty = members.read_at(&mut bytes, 0).ok()? == 0;
        let told = killed.read_at(&mut bytes, 0).ok()?;
        let nobody_killed = killed_in(str::from_utf8(bytes.get(..told)?).ok()?)? == 0;
        let peak = self.peak.as_ref()?;
        // The most so far is from now on what there is now.
        peak.write_at(b"0", 0).ok()?;
        let left = number_in(peak)?;
        if self.counter.is_some() {
            self.spent = self.time()?;
        }
        (is_empty && nobody_killed).then_some(if left <= MOST_LEFT { Renewed::AsNew } else { Renewed::Later })
    }

    fn time(&self) -> Option<(Duration, Duration)> {
        let mut bytes = [0; 512];
        let count = self.counter.as_ref()?.read_at(&mut bytes, 0).ok()?;
        times_of(str::from_utf8(bytes.get(..count)?).ok()?)
    }

    fn killed_file(&self) -> &'static str {
        match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }

    fn peak_file(&self) -> &'static str {
        match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        }
    }

    fn describe(&self) -> &'static str {
        match self.version {
            Version::One => "cgroup version 1",
            Version::Two => "cgroup version 2",
        }
    }
}

fn is_version_two(root: &Path) -> bool {
    root.join("cgroup.controllers").exists()
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

fn make_two(parent: &Path, name: &str) -> io::Result<Part> {
    // Fails harmlessly where the controllers are on already or are not ours to turn on.
    let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory +pids +cpu");
    let path = parent.join(name);
    fs::create_dir(&path)?;
    match File::open(&path) {
        Ok(door) => {
            let counter = File::open(path.join("cpu.stat")).ok();
            Ok(Part {
                path,
                version: Version::Two,
                door: door.into(),
                counter,
                peak: None,
                told: None,
                spent: Default::default(),
            })
        }
        Err(error) => {
            let _ = fs::remove_dir(&path);
            Err(error)
        }
    }
}

/// Version 1: beneath our own cgroup of that controller.
fn make_one(root: &Path, own: &str, controller: &str, name: &str) -> Option<Part> {
    let here = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|c| c == controller).then_some(path)
    })?;
    let path = root.join(controller).join(here.trim_start_matches('/')).join(name);
    fs::create_dir(&path).ok()?;
    match OpenOptions::new().write(true).open(path.join("tasks")) {
        Ok(door) => Some(Part {
            path,
            version: Version::One,
            door: door.into(),
            counter: None,
            peak: None,
            told: None,
            spent: Default::default(),
        }),
        Err(_) => {
            let _ = fs::remove_dir(&path);
            None
        }
    }
}

fn limit_memory(part: &Part, limits: &Limits) -> io::Result<()> {
    let write = |file: &str, value: &str| fs::write(part.path.join(file), value);
    let bytes = limits.memory.to_string();
    // Without swap accounting there is no such file, and nothing to limit.
    let if_there = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    match part.version {
        Version::Two => {
            write("memory.max", &bytes)?;
            if_there(write("memory.oom.group", "1"))?;
            if_there(write("memory.swap.max", "0"))
        }
        Version::One => {
            // Memory alone may never have more than memory and swap together: more is written the other way round.
            let (memory, both) = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes");
            if write(memory, &bytes).is_ok() {
                return if_there(write(both, &bytes));
            }
            write(both, &bytes)?;
            write(memory, &bytes)
        }
    }
}

fn limit_cpu_one(part: &Part, limits: &Limits) -> io::Result<()> {
    fs::write(part.path.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
    fs::write(part.path.join("cpu.cfs_quota_us"), quota(limits).to_string())
}

/// The one number that a file of the kernel has.
fn number_in(file: &File) -> Option<u64> {
    let mut bytes = [0; 32];
    let count = file.read_at(&mut bytes, 0).ok()?;
    str::from_utf8(bytes.get(..count)?).ok()?.trim().parse().ok()
}

/// How many were killed for going past the memory.
fn killed_in(told: &str) -> Option<u64> {
    told.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Version 2: the lines of `cpu.stat` that are there whatever the controllers.
fn times_of(text: &str) -> Option<(Duration, Duration)> {
    let time = |name: &str| {
        let number = text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()?;
        Some(Duration::from_micros(number))
    };
    Some((time("user_usec ")?, time("system_usec ")?))
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

    #[test]
    fn version_two_gets_a_sibling_with_every_limit() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("cgroup.controllers"), "memory pids cpu").unwrap();
        fs::create_dir_all(tree.path().join("app.slice/me.scope")).unwrap();
        let limits = Limits { memory: 64 << 20, cpu_millis: 500, pids: 7, ..Limits::default() };

        let mut made = Cgroup::begin_in(tree.path(), "0::/app.slice/me.scope\n".to_owned());
        assert_eq!((made.holds_memory(), made.holds_cpu()), (None, None));
        assert!(made.birthplace().is_some() && made.door().is_none());
        made.limit(&limits, BOTH);
        assert!(made.second_door().is_none());

        assert_eq!(made.holds_memory(), Some("cgroup version 2"));
        assert_eq!(made.holds_cpu(), Some("cgroup version 2"));
        let path = made.memory.as_ref().unwrap().path.clone();
        assert_eq!(path.parent(), Some(tree.path().join("app.slice").as_path()));
        let written = |file: &str| fs::read_to_string(path.join(file)).unwrap();
        assert_eq!(written("memory.max"), (64 << 20).to_string());
        assert_eq!(written("memory.swap.max"), "0");
        assert_eq!(written("pids.max"), "8");
        assert_eq!(written("cpu.max"), "50000 100000");
        fs::write(path.join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        fs::write(path.join("memory.peak"), "1234\n").unwrap();
        assert!(made.ran_out_of_memory());
        assert_eq!(made.peak_memory(), Some(1234));
    }

    /// A cgroup that somebody has used, with what a kernel tells of it.
    fn used(version: Version, tree: &Path) -> Cgroup {
        let tell = |file: &str, text: &str| fs::write(tree.join(file), text).unwrap();
        for file in ["memory.max_usage_in_bytes", "memory.peak"] {
            tell(file, "9");
        }
        for file in ["memory.oom_control", "memory.events"] {
            tell(file, "under_oom 0\noom_kill 0\n");
        }
        tell("cgroup.procs", "");
        tell("cpu.stat", "user_usec 20\nsystem_usec 10\n");
        let counter = File::open(tree.join("cpu.stat")).ok().filter(|_| version == Version::Two);
        let (path, door) = (tree.to_owned(), File::open(tree).unwrap().into());
        let part = Part { path, version, door, counter, peak: None, told: None, spent: Default::default() };
        let mut cgroup = Cgroup::none();
        cgroup.memory = Some(part);
        cgroup.foresee(&Limits::default());
        cgroup
    }

    #[test]
    fn what_was_told_of_one_run_is_not_told_of_the_next() {
        for version in [Version::One, Version::Two] {
            let tree = tempfile::tempdir().unwrap();
            let mut cgroup = used(version, tree.path());
            let before = cgroup.processor_time();
            assert_eq!(cgroup.peak_memory(), Some(9));
            assert_eq!(cgroup.renew(), Renewed::AsNew, "{version:?}");
            assert_eq!(cgroup.peak_memory(), Some(0));
            let nothing = (Duration::ZERO, Duration::ZERO);
            assert_eq!(cgroup.processor_time(), before.map(|_| nothing));
            fs::write(tree.path().join("cpu.stat"), "user_usec 25\nsystem_usec 11\n").unwrap();
            let more = (Duration::from_micros(5), Duration::from_micros(1));
            assert_eq!(cgroup.processor_time(), before.map(|_| more));
        }
    }

    #[test]
    fn the_limit_of_one_run_is_not_that_of_the_next() {
        let tree = tempfile::tempdir().unwrap();
        let mut cgroup = used(Version::Two, tree.path());
        let limit = || fs::read_to_string(tree.path().join("memory.max")).unwrap();
        let usual = Limits::default().memory.to_string();
        assert_eq!(limit(), usual);
        cgroup.limit(&Limits { memory: 64 << 20, ..Limits::default() }, BOTH);
        assert_eq!(limit(), (64 << 20).to_string());
        let processor = || fs::read_to_string(tree.path().join("cpu.max")).unwrap();
        assert_ne!(processor(), "max 100000");
        assert_eq!(cgroup.renew(), Renewed::AsNew);
        assert_eq!(cgroup.holds_memory(), None);
        cgroup.foresee(&Limits::default());
        assert_eq!(limit(), usual);
        cgroup.limit(&Limits::default(), Wanted { memory: true, cpu: false });
        assert_eq!(processor(), "max 100000");
        assert_eq!(cgroup.holds_cpu(), None);
    }

    #[test]
    fn one_that_is_not_as_new_is_not_used_again() {
        let kept = |file: &str, text: &str| {
            [Version::One, Version::Two].map(|version| {
                let tree = tempfile::tempdir().unwrap();
                let mut cgroup = used(version, tree.path());
                fs::write(tree.path().join(file), text).unwrap();
                cgroup.renew()
            })
        };
        use Renewed::{AsNew, Later, Never};
        assert_eq!(kept("cgroup.procs", ""), [AsNew, AsNew]);
        assert_eq!(kept("cgroup.procs", "17\n"), [Never, Never], "somebody is in it");
        assert_eq!(kept("memory.oom_control", "oom_kill 1\n"), [Never, AsNew], "somebody was killed");
        assert_eq!(kept("memory.events", "oom_kill 1\n"), [AsNew, Never], "somebody was killed");
        assert_eq!(kept("memory.events", "nonsense"), [AsNew, Never], "nobody knows");
        // The first figure is what is written to set it back.
        assert_eq!(kept("memory.max_usage_in_bytes", "9999999"), [Later, AsNew], "much is still charged");
        assert_eq!(kept("memory.peak", "9999999"), [AsNew, Later], "much is still charged");
        assert_eq!(kept("cpu.stat", "nonsense"), [AsNew, Never], "nobody knows");
    }

    #[test]
    fn one_to_which_much_is_still_charged_is_looked_at_again_before_another_is_made() {
        let tree = tempfile::tempdir().unwrap();
        let charge = |bytes: &str| fs::write(tree.path().join("memory.peak"), bytes).unwrap();
        let cgroup = used(Version::Two, tree.path());
        charge("9999999");
        let home = Arc::new(Cgroups::default());
        drop(cgroup.at_home(home.clone()));
        // What was charged to it has been taken back.
        charge("9");
        let again = home.take();
        assert_eq!(again.memory.as_ref().map(|part| part.path.as_path()), Some(tree.path()));
        charge("9999999");
        drop(again);
        // This time it has not.
        let other = home.take();
        assert_ne!(other.memory.as_ref().map(|part| part.path.as_path()), Some(tree.path()));
    }

    #[test]
    fn version_two_says_what_everybody_used() {
        let text = "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 0\n";
        assert_eq!(times_of(text), Some((Duration::from_micros(20), Duration::from_micros(10))));
        assert_eq!(times_of("usage_usec 30\n"), None);
    }

    #[test]
    fn a_tree_that_is_not_ours_gives_nothing_rather_than_half() {
        let tree = tempfile::tempdir().unwrap();
        let mut made = Cgroup::begin_in(tree.path(), "4:memory:/nowhere\n".to_owned());
        made.limit(&Limits::default(), BOTH);
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
