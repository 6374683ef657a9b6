//! What happens to a launcher before it launches: a terminal, other limits, a host with less.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};

use crate::launch::command_of;
use crate::raw;

/// The argument that makes our binary prepare itself and go on with the next ones.
pub(crate) const STAGE_ARGUMENT: &str = "__stage";

/// One preparation.
pub(crate) enum Stage {
    /// A session with this terminal as its own.
    Terminal(PathBuf),
    /// Core dumps as large as the caller may have them.
    CoreDumps,
    /// A user namespace in which no other can be made, as on a host without them.
    NoUserNamespaces,
}

impl Stage {
    pub(crate) fn encode(&self) -> String {
        match self {
            Stage::Terminal(path) => format!("terminal:{}", path.display()),
            Stage::CoreDumps => "core-dumps:".to_owned(),
            Stage::NoUserNamespaces => "no-user-namespaces:".to_owned(),
        }
    }

    fn decode(text: &str) -> Option<Stage> {
        let (name, rest) = text.split_once(':')?;
        match name {
            "terminal" => Some(Stage::Terminal(PathBuf::from(rest))),
            "core-dumps" => Some(Stage::CoreDumps),
            "no-user-namespaces" => Some(Stage::NoUserNamespaces),
            _ => None,
        }
    }

    fn perform(&self) -> io::Result<()> {
        match self {
            Stage::Terminal(path) => {
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
            Stage::NoUserNamespaces => {
                raw::enter_user_namespace()?;
                fs::write("/proc/sys/user/max_user_namespaces", "0")
            }
        }
    }
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
