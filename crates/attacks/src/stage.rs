//! What happens to a launcher before it launches: a terminal, other limits, a host with less.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Gid, Resource, Rlimit, Uid, getpgid, getppid, getrlimit, setpgid, setrlimit, setsid};

use crate::launch::command_of;
use crate::raw;

/// The argument that makes our binary prepare itself and go on with the next ones.
pub(crate) const STAGE_ARGUMENT: &str = "__stage";

/// Where distributions keep keys that members of a group may read.
pub(crate) const KEY: &str = "/etc/ssl/private/key";
/// A group and a user that own nothing.
const GROUP: u32 = 54_321;
const ORDINARY: u32 = 65_534;

/// One preparation.
pub(crate) enum Stage {
    /// A session with this terminal as its own.
    Terminal(PathBuf),
    /// Core dumps as large as the caller may have them.
    CoreDumps,
    /// The host's processes, mounted at this place. As root.
    Window(PathBuf),
    /// A filesystem of its own at this place, with a repository in it. As root.
    Repository(PathBuf),
    /// A filesystem of its own at this place that everyone may write. As root.
    Memory(PathBuf),
    /// An ordinary user in a group that may read a key of the system, with this text in it. As root.
    KeyOfAGroup(String),
    /// A user namespace in which no other can be made, as on a host without them.
    NoUserNamespaces,
}

impl Stage {
    pub(crate) fn encode(&self) -> String {
        match self {
            Stage::Terminal(path) => format!("terminal:{}", path.display()),
            Stage::CoreDumps => "core-dumps:".to_owned(),
            Stage::Window(path) => format!("window:{}", path.display()),
            Stage::Repository(path) => format!("repository:{}", path.display()),
            Stage::Memory(path) => format!("memory:{}", path.display()),
            Stage::KeyOfAGroup(text) => format!("key-of-a-group:{text}"),
            Stage::NoUserNamespaces => "no-user-namespaces:".to_owned(),
        }
    }

    fn decode(text: &str) -> Option<Stage> {
        let (name, rest) = text.split_once(':')?;
        match name {
            "terminal" => Some(Stage::Terminal(PathBuf::from(rest))),
            "core-dumps" => Some(Stage::CoreDumps),
            "window" => Some(Stage::Window(PathBuf::from(rest))),
            "repository" => Some(Stage::Repository(PathBuf::from(rest))),
            "memory" => Some(Stage::Memory(PathBuf::from(rest))),
            "key-of-a-group" => Some(Stage::KeyOfAGroup(rest.to_owned())),
            "no-user-namespaces" => Some(Stage::NoUserNamespaces),
            _ => None,
        }
    }

    fn perform(&self) -> io::Result<()> {
        match self {
            Stage::Terminal(path) => {
                // Who leads a group cannot begin a session, so it goes back to the group that it came from.
                setpgid(None, Some(getpgid(getppid())?))?;
                setsid()?;
                // The first terminal that a session's leader opens becomes the session's own, as long as it is open.
                let terminal = rustix::fs::open(path, OFlags::RDWR, Mode::empty())?;
                std::mem::forget(terminal);
                Ok(())
            }
            Stage::CoreDumps => {
                let most = getrlimit(Resource::Core).maximum;
                Ok(setrlimit(Resource::Core, Rlimit { current: most, maximum: most })?)
            }
            Stage::Window(path) => mount_for_us_alone("proc", path),
            Stage::Repository(path) => {
                mount_for_us_alone("tmpfs", path)?;
                fs::create_dir_all(path.join(".git/hooks"))?;
                fs::write(path.join(".git/HEAD"), "ref: refs/heads/main")
            }
            Stage::Memory(path) => mount_for_us_alone("tmpfs", path),
            Stage::KeyOfAGroup(text) => {
                mount_for_us_alone("tmpfs", Path::new("/etc/ssl"))?;
                let key = Path::new(KEY);
                key.parent().map_or(Ok(()), fs::create_dir)?;
                fs::write(key, text)?;
                fs::set_permissions(key, fs::Permissions::from_mode(0o640))?;
                chown(key, None, Some(GROUP))?;
                become_ordinary()
            }
            Stage::NoUserNamespaces => {
                raw::enter_user_namespace()?;
                fs::write("/proc/sys/user/max_user_namespaces", "0")
            }
        }
    }
}

/// In a mount namespace of its own, so that it ends with this process.
fn mount_for_us_alone(kind: &str, path: &Path) -> io::Result<()> {
    raw::unshare(libc::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let options = if kind == "tmpfs" { Some(c"mode=0777") } else { None };
    Ok(mount(kind, path, kind, MountFlags::empty(), options)?)
}

fn become_ordinary() -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
    rustix::thread::set_thread_groups(&[Gid::from_raw(GROUP)])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
}

/// Prepares this process if the arguments say so, and becomes what the rest of them says. Returns only on failure.
pub(crate) fn perform_if_asked(arguments: &[OsString]) -> Option<io::Error> {
    let [first, stage, rest @ ..] = arguments else { return None };
    if first != STAGE_ARGUMENT {
        return None;
    }
    let performed = match stage.to_str().and_then(Stage::decode) {
        Some(stage) => stage.perform(),
        None => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    let executable = performed.and_then(|()| std::env::current_exe());
    Some(match executable {
        Ok(path) => command_of(&path, rest).exec(),
        Err(error) => error,
    })
}
