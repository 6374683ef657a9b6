//! Stage one: everything that needs no plan. A sandbox can wait after it.
//!
//! Runs in the init, before any wall of stage two. Leaves a half-built root; where the launcher is root, it is entered, and
//! the host is out of sight.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ::landlock::RulesetError;
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsPickFlags, MountAttrFlags, UnmountFlags, fsconfig_reconfigure, fsconfig_set_string, fspick, unmount,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, chdir, fchdir, pivot_root, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, UnshareFlags, remove_capability_from_bounding_set};

use crate::control::{Control, Controls};
use crate::entry::Kind;
use crate::environment::HOME;
use crate::identity::{Caller, Identity};
use crate::init::Network;
use crate::landlock;
use crate::limits::Limits;
use crate::mounts::{
    Use, attach_at, attach_at_new, attach_over, attach_over_name, copy_of, kind_of, make_directory,
    make_link, new_filesystem, restrict, write_file,
};
use crate::networks;
use crate::orders::Step;
use crate::readied::{OWN, Readied, open_root};
use crate::rooms::ROOMS;
use crate::seccomp::{self, Part};
use crate::sys;
use crate::system::SOFTWARE;

/// A wall that could not be raised.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) error: i32,
}

impl Failure {
    /// For `map_err`: which step failed.
    pub(crate) fn at<E: Into<io::Error>>(step: Step) -> impl FnOnce(E) -> Failure {
        move |error| Failure { step, error: error.into().raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// What programs expect of `/etc`. The rest of it is not there: it tells about the host, or holds secrets.
///
/// ATTACK(group-readable-keys): an ordinary user's groups stay in the sandbox, so of directories with keys in them only
/// the parts without are shown.
const ETC: [&str; 16] = [
    "alternatives",
    "ca-certificates/extracted",
    "crypto-policies",
    "ld.so.cache",
    "localtime",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
];

/// Small files are copied: cheaper than a mount, and as good.
const COPIED_BYTES: i64 = 16 * 1024;

const DEVICES: [&str; 5] = ["null", "zero", "full", "urandom", "tty"];

const DEVICE_LINKS: [(&str, &str); 6] = [
    // The same to the kernel, but for its first seconds.
    ("dev/random", "urandom"),
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];

/// Files of `/proc` that everyone may read and that tell about the host or its other users. Those that only root may
/// read need no cover: the sandbox is never host root.
const MASKED: [&str; 11] = [
    "acpi",
    "asound",
    "cmdline",
    "interrupts",
    "kallsyms",
    "key-users",
    "keys",
    "modules",
    "sched_debug",
    "scsi",
    "timer_list",
];

/// How every `/proc` is mounted.
pub(crate) const PROC: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// A root under construction.
pub(crate) struct HalfBuilt {
    /// The new root: attached somewhere in the old one while the host is in sight, `/` itself otherwise.
    pub(crate) root: OwnedFd,
    pub(crate) host: Host,
    /// What the root is, if other sandboxes have the same.
    pub(crate) shared: Option<&'static Readied>,
    covers: Covers,
    /// Everything that may be written and is thrown away.
    pub(crate) scratch: OwnedFd,
    /// The second wall, as far as no plan is needed for it.
    pub(crate) landlock: Option<landlock::Begun>,
}

/// Whether the host's root is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Directories of the plan are copied from it: an ordinary user's launcher may not make mounts itself.
    InSight,
    /// Everything that is to come is sent by the launcher.
    Left,
}

/// What is put over what is not to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covers {
    /// A file and a directory, as everybody else's.
    Plain,
    /// Mounts that have their attributes already.
    Ready,
}

/// Where they are.
pub(crate) const COVERS: [(&str, Kind); 2] =
    [(".cover/file", Kind::File), (".cover/directory", Kind::Directory)];

impl HalfBuilt {
    /// Something empty and unreadable to put over something else.
    pub(crate) fn cover(&self, kind: Kind) -> Result<OwnedFd, Errno> {
        let tree = copy_of(
            &self.root,
            Path::new(match kind {
                Kind::File => ".cover/file",
                Kind::Directory => ".cover/directory",
            }),
        )?;
        if self.covers == Covers::Plain {
            restrict(&tree, Use::Cover).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        Ok(tree)
    }
}

/// The init must not outlive its launcher.
pub(crate) fn bind_life_to_parent() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at(Step::Identity))
}

/// Namespaces that do not depend on the id maps. The launcher writes those meanwhile.
pub(crate) fn enter_namespaces(without: Controls, network: Network) -> Result<(), Failure> {
    let mut wanted = UnshareFlags::NEWNS;
    for (control, namespace) in
        [(Control::Ipc, UnshareFlags::NEWIPC), (Control::Hostname, UnshareFlags::NEWUTS)]
    {
        if !without.contains(control) {
            wanted |= namespace;
        }
    }
    let makes_network = network == Network::Own && !without.contains(Control::Network);
    if makes_network {
        wanted |= UnshareFlags::NEWNET;
    }
    sys::enter_new_namespaces(wanted).map_err(Failure::at(Step::Namespaces))?;
    if makes_network {
        networks::raise_loopback().map_err(Failure::at(Step::Loopback))?;
    }
    if wanted.contains(UnshareFlags::NEWUTS) {
        rustix::system::sethostname(b"toolgate").map_err(Failure::at(Step::Hostname))?;
    }
    Ok(())
}

/// A network of its own for a sandbox that was lent one.
pub(crate) fn make_network() -> Result<(), Failure> {
    sys::enter_new_namespaces(UnshareFlags::NEWNET).map_err(Failure::at(Step::Namespaces))?;
    networks::raise_loopback().map_err(Failure::at(Step::Loopback))
}

/// Its own cgroup, which it has entered already, becomes all it can see.
pub(crate) fn see_own_cgroup_only(without: Controls) -> Result<(), Failure> {
    if without.contains(Control::CgroupView) {
        return Ok(());
    }
    sys::enter_new_namespaces(UnshareFlags::NEWCGROUP).map_err(Failure::at(Step::Namespaces))
}

/// Becomes the sandbox's one user. The maps must have been written.
pub(crate) fn take_identity(identity: &Identity) -> Result<(), Failure> {
    let (uid, gid) = (
        rustix::process::Uid::from_raw(identity.inside_uid),
        rustix::process::Gid::from_raw(identity.inside_gid),
    );
    let become_it = || {
        if identity.caller == Caller::Root {
            rustix::thread::set_thread_groups(&[])?;
        }
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
    };
    become_it().map_err(Failure::at(Step::Identity))?;
    // Nothing in the sandbox may read the launcher's memory through its copy. Not earlier: an ordinary user's launcher
    // could not have written the maps.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at(Step::Identity))?;
    // Changing ids has cleared it.
    bind_life_to_parent()
}

/// How a part of the system is shown.
pub(crate) enum Shown {
    /// As the link that it is.
    Link(PathBuf),
    /// As a mount.
    Mounted(Kind),
}

/// Builds the part of the root that is the same for every plan.
pub(crate) fn build_root(
    identity: &Identity,
    without: Controls,
    readied: Option<&'static Readied>,
) -> Result<HalfBuilt, Failure> {
    let (root, covers) = match readied {
        Some(_) => (open_root().map_err(Failure::at(Step::Root))?, Covers::Ready),
        None => (build_own_root(identity, without)?, Covers::Plain),
    };
    let scratch = make_scratch(&root).map_err(Failure::at(Step::Scratch))?;
    let mut built = HalfBuilt { root, host: Host::InSight, shared: readied, covers, scratch, landlock: None };
    mount_proc(&built, without)?;
    if !without.contains(Control::Devices) {
        make_terminals(&built.root).map_err(Failure::at(Step::Devices))?;
    }
    built.landlock = landlock::begin(&built.root, landlock::Tcp::Closed, without).map_err(no_landlock)?;
    if readied.is_some() {
        // The zygote has left it before.
        built.host = Host::Left;
    } else if identity.caller == Caller::Root {
        leave_host(&built.root)?;
        built.host = Host::Left;
    }
    Ok(built)
}

fn build_own_root(identity: &Identity, without: Controls) -> Result<OwnedFd, Failure> {
    let root = new_root().map_err(Failure::at(Step::Root))?;
    make_skeleton(&root).map_err(Failure::at(Step::Root))?;
    for name in OWN {
        make_directory(&root, Path::new(name)).map_err(Failure::at(Step::Root))?;
    }
    make_covers(&root).map_err(Failure::at(Step::Root))?;
    make_settings(&root, identity).map_err(Failure::at(Step::Root))?;
    show_software(&root)?;
    show_settings(&root)?;
    make_devices(&root, without).map_err(Failure::at(Step::Devices))?;
    Ok(root)
}

/// An empty root, attached in the old one.
pub(crate) fn new_root() -> Result<OwnedFd, Errno> {
    let root = empty_root()?;
    attach_somewhere(&root)?;
    Ok(root)
}

/// An empty root.
pub(crate) fn empty_root() -> Result<OwnedFd, Errno> {
    new_filesystem(
        "tmpfs",
        &[("mode", "0755"), ("size", "8M"), ("nr_inodes", "16384")],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
}

/// For `map_err`: the second wall failed. What the kernel said is not told apart.
pub(crate) fn no_landlock(_: RulesetError) -> Failure {
    Failure { step: Step::Landlock, error: libc::EPERM }
}

/// Leaves the host's root for good.
pub(crate) fn leave_host(root: &OwnedFd) -> Result<(), Failure> {
    let leave = || -> Result<(), Errno> {
        fchdir(root)?;
        pivot_root(".", ".")?;
        // The old root now lies over the new one at the same place; taking it off leaves only ours.
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")
    };
    leave().map_err(Failure::at(Step::Pivot))
}

/// Raises what no plan changes, as far as what is still to be built lets it.
pub(crate) fn raise_first_walls(without: Controls, readied: Option<&Readied>) -> Result<(), Failure> {
    if !without.contains(Control::Privileges) {
        empty_bounding_set().map_err(Failure::at(Step::Privileges))?;
    }
    match readied {
        // It is behind those that every copy of it inherits.
        Some(_) => Ok(()),
        None => raise_inherited_walls(without),
    }
}

/// Raises those of them that a copy of this process is behind, too.
pub(crate) fn raise_inherited_walls(without: Controls) -> Result<(), Failure> {
    if !without.contains(Control::CoreDumps) {
        // Not 0: a handler in `core_pattern` would still be started. 1 stops both kinds.
        setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })
            .map_err(Failure::at(Step::Rlimits))?;
    }
    if !without.contains(Control::Seccomp) {
        sys::install_filter(seccomp::filter(Part::Most)).map_err(Failure::at(Step::Seccomp))?;
    }
    Ok(())
}

/// No program can give what is not in it.
fn empty_bounding_set() -> Result<(), Errno> {
    for bit in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The kernel has no more capabilities than this.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `pivot_root` wants a mount point. It must be one that no plan can name: the host's directories are still to be found.
fn attach_somewhere(root: &OwnedFd) -> Result<(), Errno> {
    let mut last = Errno::NOENT;
    for place in ["/sys", "/proc"] {
        match openat(CWD, place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|place| attach_over(root, place))
        {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub(crate) fn make_skeleton(root: &OwnedFd) -> Result<(), Errno> {
    let home = HOME.trim_start_matches('/');
    for directory in ["proc", "tmp"].into_iter().chain(ROOMS).chain([home]) {
        mkdirat(root, directory, Mode::from_raw_mode(0o755))?;
    }
    make_link(root, Path::new("var/tmp"), Path::new("/tmp"))
}

/// What covers are copied from: empty, and for nobody to read.
pub(crate) fn make_covers(root: &OwnedFd) -> Result<(), Errno> {
    mkdirat(root, ".cover/directory", Mode::from_raw_mode(0o755))?;
    write_file(root, Path::new(".cover/file"), b"")?;
    for (covered, _) in COVERS {
        rustix::fs::chmodat(root, covered, Mode::empty(), rustix::fs::AtFlags::empty())?;
    }
    Ok(())
}

/// Settings that are the sandbox's own.
pub(crate) fn make_settings(root: &OwnedFd, identity: &Identity) -> Result<(), Errno> {
    let (uid, gid) = (identity.inside_uid, identity.inside_gid);
    let passwd = format!(
        "agent:x:{uid}:{gid}:agent:{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let files = [
        ("etc/passwd", passwd.as_str()),
        ("etc/group", &format!("agent:x:{gid}:\nnogroup:x:65534:\n")),
        ("etc/hosts", "127.0.0.1 localhost toolgate\n::1 localhost\n"),
        (
            "etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
        ),
    ];
    files.iter().try_for_each(|(path, text)| write_file(root, Path::new(path), text.as_bytes()))
}

/// Shows installed software. Returns what stands in the root for it.
pub(crate) fn show_software(root: &OwnedFd) -> Result<Vec<(PathBuf, Shown)>, Failure> {
    let mut software = Vec::with_capacity(SOFTWARE.len());
    for path in SOFTWARE.map(PathBuf::from) {
        let shown = show(root, &path).map_err(Failure::at(Step::System(path.clone())))?;
        software.extend(shown.map(|shown| (path, shown)));
    }
    Ok(software)
}

/// Shows what programs expect of the host's settings.
pub(crate) fn show_settings(root: &OwnedFd) -> Result<(), Failure> {
    for path in ETC.map(|name| Path::new("/etc").join(name)) {
        show(root, &path).map_err(Failure::at(Step::System(path)))?;
    }
    Ok(())
}

/// Shows one part of the host read-only at the same path: a link as a link, a small file as a copy, the rest mounted.
fn show(root: &OwnedFd, path: &Path) -> io::Result<Option<Shown>> {
    let status = match kind_of(path) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ACCESS) => return Ok(None),
        other => other?,
    };
    let make_parent = || match path.parent().filter(|parent| parent.components().count() > 2) {
        Some(parent) => make_directory(root, parent),
        None => Ok(()),
    };
    let mounted = |kind| -> io::Result<Option<Shown>> {
        let tree = copy_of(CWD, path)?;
        restrict(&tree, Use::ReadOnly)?;
        make_parent()?;
        attach_at_new(&tree, root, path, kind)?;
        Ok(Some(Shown::Mounted(kind)))
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Symlink => {
            let target = readlinkat(CWD, path, Vec::new())?;
            let target = PathBuf::from(std::ffi::OsStr::from_bytes(target.to_bytes()));
            make_parent()?;
            make_link(root, path, &target)?;
            Ok(Some(Shown::Link(target)))
        }
        FileType::Directory => mounted(Kind::Directory),
        FileType::RegularFile if status.st_size <= COPIED_BYTES => {
            match read_small(path) {
                Ok(content) => make_parent().and_then(|()| write_file(root, path, &content))?,
                // What a stranger may not read is not for the sandbox either.
                Err(Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(None)
        }
        FileType::RegularFile => mounted(Kind::File),
        _ => Ok(None),
    }
}

/// The content of a small file; what it has grown by meanwhile is left out.
fn read_small(path: &Path) -> Result<Vec<u8>, Errno> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut content = Vec::with_capacity(usize::try_from(COPIED_BYTES).unwrap_or_default());
    while content.len() < content.capacity() {
        if rustix::io::read(&file, rustix::buffer::spare_capacity(&mut content))? == 0 {
            break;
        }
    }
    Ok(content)
}

/// A `/proc` of the sandbox's own processes. Read-only as a whole: that covers `/proc/sys`, `sysrq-trigger`, and every
/// other file in it that changes something, in one stroke.
fn mount_proc(built: &HalfBuilt, without: Controls) -> Result<(), Failure> {
    if without.contains(Control::Processes) {
        let host = copy_of(CWD, Path::new("/proc")).map_err(Failure::at(Step::Proc))?;
        return attach_at(&host, &built.root, Path::new("proc"), Kind::Directory)
            .map_err(Failure::at(Step::Proc));
    }
    let guarded = !without.contains(Control::ProcFiles);
    let attributes = if guarded { PROC | MountAttrFlags::MOUNT_ATTR_RDONLY } else { PROC };
    let failed = || Failure::at(Step::Proc);
    let proc = new_filesystem("proc", &[], attributes).map_err(failed())?;
    attach_at(&proc, &built.root, Path::new("proc"), Kind::Directory).map_err(failed())?;
    if !guarded {
        return Ok(());
    }
    let found;
    let masked = match built.shared {
        Some(readied) => &readied.masked,
        None => {
            found = masked_in(&proc);
            &found
        }
    };
    for (name, kind) in masked {
        built
            .cover(*kind)
            .and_then(|cover| attach_over_name(cover, &proc, Path::new(name)))
            .map_err(failed())?;
    }
    Ok(())
}

/// What has to be covered in a `/proc`. It is the same in every one of a host.
pub(crate) fn masked_in(proc: &OwnedFd) -> Vec<(&'static str, Kind)> {
    let kind_of = |name: &'static str| {
        let status = rustix::fs::statat(proc, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => Kind::Directory,
            _ => Kind::File,
        };
        (status.st_mode & 0o004 != 0).then_some((name, kind))
    };
    MASKED.into_iter().filter_map(kind_of).collect()
}

/// One filesystem for everything that may be written and is thrown away, so that one limit counts it all.
fn make_scratch(root: &OwnedFd) -> io::Result<OwnedFd> {
    let (size, inodes) = room_of_scratch(Limits::default().disk);
    let scratch = new_filesystem(
        "tmpfs",
        &[("mode", "0755"), ("size", &size), ("nr_inodes", &inodes)],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    for (name, mode) in [("tmp", 0o1777), ("shm", 0o1777), ("home", 0o700)] {
        rustix::fs::mkdirat(&scratch, name, Mode::from_raw_mode(mode))?;
        rustix::fs::chmodat(&scratch, name, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty())?;
    }
    // Only an attached filesystem can be copied from. Its own root ends up covered by its `tmp`.
    attach_at(&scratch, root, Path::new("tmp"), Kind::Directory)?;
    for (name, place) in [("home", HOME), ("shm", "dev/shm"), ("tmp", "tmp")] {
        let part = copy_of(&scratch, Path::new(name))?;
        attach_at(&part, root, Path::new(place), Kind::Directory)?;
    }
    Ok(scratch)
}

/// Gives scratch space the room that a plan has for it.
pub(crate) fn resize_scratch(root: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    let (size, inodes) = room_of_scratch(bytes);
    let scratch = fspick(root, "tmp", FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_SYMLINK_NOFOLLOW)?;
    fsconfig_set_string(scratch.as_fd(), "size", size.as_str())?;
    fsconfig_set_string(scratch.as_fd(), "nr_inodes", inodes.as_str())?;
    fsconfig_reconfigure(scratch.as_fd())
}

fn room_of_scratch(bytes: u64) -> (String, String) {
    // An empty file takes no bytes here, but it takes the kernel's memory.
    (bytes.to_string(), (bytes / 4096).clamp(1024, 1 << 20).to_string())
}

/// Devices, and the places for what each sandbox has of its own among them.
pub(crate) fn make_devices(root: &OwnedFd, without: Controls) -> io::Result<()> {
    if without.contains(Control::Devices) {
        let host = copy_of(CWD, Path::new("/dev"))?;
        return Ok(attach_at(&host, root, Path::new("dev"), Kind::Directory)?);
    }
    for name in DEVICES {
        let device = copy_of(CWD, &Path::new("/dev").join(name))?;
        restrict(&device, Use::Devices)?;
        attach_at_new(device, root, &Path::new("dev").join(name), Kind::File)?;
    }
    for (link, target) in DEVICE_LINKS {
        make_link(root, Path::new(link), Path::new(target))?;
    }
    for place in ["dev/pts", "dev/shm"] {
        mkdirat(root, place, Mode::from_raw_mode(0o755))?;
    }
    Ok(())
}

fn make_terminals(root: &OwnedFd) -> io::Result<()> {
    let terminals = new_filesystem(
        "devpts",
        &[("mode", "0620"), ("ptmxmode", "0666")],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    Ok(attach_at(&terminals, root.as_fd(), Path::new("dev/pts"), Kind::Directory)?)
}
