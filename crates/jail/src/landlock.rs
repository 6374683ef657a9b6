//! The second wall: Landlock, raised on top of the mounts and independent of them.
//!
//! A mount that should not be there, a descriptor that leaked, a pipe or socket of the host in a read-only directory:
//! what mounts do not stop, this does.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::control::{Control, Controls, Enforcement, Level};
use crate::doors::LOCAL_DOOR;
use crate::environment::HOME;
use crate::plan::Network;

/// The newest Landlock the kernel has; `None` when it has none.
pub fn landlock_version() -> Option<i32> {
    let version = crate::sys::landlock_version();
    (version > 0).then_some(version)
}

/// A wall that is built as far as every plan has it.
pub(crate) struct Begun {
    ruleset: Option<RulesetCreated>,
    version: i32,
    abi: ABI,
    holds: Holds,
    tcp: Tcp,
}

/// Whether it leaves a sandbox TCP over its own loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    Closed,
    Open,
}

impl Tcp {
    /// What a plan's network needs.
    pub(crate) fn of(network: &Network) -> Tcp {
        match network {
            Network::Closed => Tcp::Closed,
            Network::Loopback | Network::Guarded(_) => Tcp::Open,
        }
    }
}

/// What of it is raised.
#[derive(Clone, Copy)]
struct Holds {
    files: bool,
    tcp: bool,
    scopes: bool,
}

/// Where anybody may write, besides what a plan grants.
const SCRATCH: [&str; 3] = ["/tmp", HOME, "/dev/shm"];

/// Begins it; `root` is that of the sandbox. `None` where the kernel has no Landlock.
pub(crate) fn begin(root: impl AsFd, tcp: Tcp, without: Controls) -> Result<Option<Begun>, RulesetError> {
    let Some(version) = landlock_version() else { return Ok(None) };
    let abi = ABI::from(version);
    let holds = Holds {
        files: !without.contains(Control::LandlockFiles),
        tcp: !without.contains(Control::LandlockTcp) && tcp == Tcp::Closed && version >= 4,
        scopes: !without.contains(Control::LandlockScopes) && version >= 6,
    };
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if holds.files {
        ruleset = ruleset.handle_access(AccessFs::from_all(abi))?;
    }
    if holds.tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if holds.scopes {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let nothing = !holds.files && !holds.tcp && !holds.scopes;
    let mut begun =
        Begun { ruleset: if nothing { None } else { Some(ruleset.create()?) }, version, abi, holds, tcp };
    // The devices there are harmless, and the directory that holds them is read-only.
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir;
    let device = if abi >= ABI::V5 { device | AccessFs::IoctlDev } else { device };
    begun.allow(open(&root, Path::new(".")), AccessFs::from_read(abi))?;
    begun.allow(open(&root, Path::new("dev")), device)?;
    for path in SCRATCH {
        begun.allow(open(&root, Path::new(path.trim_start_matches('/'))), writing(abi))?;
    }
    Ok(Some(begun))
}

/// Device files may not be made, wherever one may write; a unix socket may be made and reached where one may write.
fn writing(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn open(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    openat(directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

impl Begun {
    pub(crate) fn tcp(&self) -> Tcp {
        self.tcp
    }

    /// What is not there needs no rule.
    fn allow(
        &mut self,
        there: Result<OwnedFd, Errno>,
        access: BitFlags<AccessFs>,
    ) -> Result<(), RulesetError> {
        if let (true, Ok(handle)) = (self.holds.files, there) {
            self.ruleset = match self.ruleset.take() {
                Some(ruleset) => Some(ruleset.add_rule(PathBeneath::new(handle, access))?),
                None => None,
            };
        }
        Ok(())
    }
}

/// Raises the wall for this process and its children, with what a plan grants besides, and notes what it holds. Paths are
/// those inside the new root.
pub(crate) fn raise<'a>(
    begun: Option<Begun>,
    writable: impl Iterator<Item = &'a Path>,
    enforcement: &mut Enforcement,
) -> Result<(), RulesetError> {
    let Some(mut begun) = begun else {
        for control in [Control::LandlockFiles, Control::LandlockTcp, Control::LandlockScopes] {
            enforcement.set(control, Level::Absent, "the kernel has no Landlock");
        }
        return Ok(());
    };
    for path in writable {
        begun.allow(open(CWD, path), writing(begun.abi))?;
    }
    if begun.abi >= ABI::V9 {
        // The guard's own socket was made before this wall; to be reached it has to be named.
        begun.allow(open(CWD, Path::new(LOCAL_DOOR)), AccessFs::ResolveUnix.into())?;
    }
    note(&begun, enforcement);
    match begun.ruleset {
        Some(ruleset) => ruleset.no_new_privs(true).restrict_self().map(drop),
        None => Ok(()),
    }
}

fn note(begun: &Begun, enforcement: &mut Enforcement) {
    let Begun { holds: Holds { files, tcp, scopes }, tcp: wanted, version, .. } = *begun;
    let by = format!("Landlock ABI {version}");
    let mut say = |control, raised, why_not: &str| {
        if raised {
            enforcement.set(control, Level::Enforced, by.clone());
        } else {
            enforcement.set(control, Level::Absent, why_not);
        }
    };
    say(Control::LandlockFiles, files, "left out");
    let tcp_absent = match wanted {
        Tcp::Open => "the plan opens loopback; the network namespace holds alone",
        Tcp::Closed => "the kernel's Landlock is older than ABI 4",
    };
    say(Control::LandlockTcp, tcp, tcp_absent);
    say(Control::LandlockScopes, scopes, "the kernel's Landlock is older than ABI 6");
}
