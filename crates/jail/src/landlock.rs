//! The second wall: Landlock, raised on top of the mounts and independent of them.
//!
//! A mount that should not be there, a descriptor that leaked, a pipe or socket of the host in a read-only directory:
//! what mounts do not stop, this does.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::control::{Control, Controls, Enforcement, Level};
use crate::plan::Loopback;

/// What is to be allowed. Paths are those inside the new root.
pub(crate) struct Allowed<'a> {
    pub(crate) writable: Vec<&'a Path>,
    pub(crate) loopback: Loopback,
}

/// The newest Landlock the kernel has; `None` when it has none.
pub fn landlock_version() -> Option<i32> {
    let version = crate::sys::landlock_version();
    (version > 0).then_some(version)
}

/// Raises the wall for this process and its children, and notes what it holds.
pub(crate) fn raise(
    allowed: &Allowed<'_>,
    without: Controls,
    enforcement: &mut Enforcement,
) -> Result<(), RulesetError> {
    let Some(version) = landlock_version() else {
        for control in [Control::LandlockFiles, Control::LandlockTcp, Control::LandlockScopes] {
            enforcement.set(control, Level::Absent, "the kernel has no Landlock");
        }
        return Ok(());
    };
    let abi = ABI::from(version);
    let (files, tcp, scopes) = (
        !without.contains(Control::LandlockFiles),
        !without.contains(Control::LandlockTcp) && allowed.loopback == Loopback::Closed && version >= 4,
        !without.contains(Control::LandlockScopes) && version >= 6,
    );
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if files {
        ruleset = ruleset.handle_access(AccessFs::from_all(abi))?;
    }
    if tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if scopes {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    note(version, (files, tcp, scopes), allowed.loopback, enforcement);
    if !files && !tcp && !scopes {
        return Ok(());
    }
    let mut created = ruleset.create()?;
    if files {
        for (path, access) in file_rules(allowed, abi) {
            let Ok(handle) = PathFd::new(path) else { continue };
            created = created.add_rule(PathBeneath::new(handle, access))?;
        }
    }
    created.no_new_privs(true).restrict_self()?;
    Ok(())
}

fn file_rules<'a>(allowed: &Allowed<'a>, abi: ABI) -> Vec<(&'a Path, BitFlags<AccessFs>)> {
    let look = AccessFs::from_read(abi);
    // The devices there are harmless, and the directory that holds them is read-only.
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir;
    let device = if abi >= ABI::V5 { device | AccessFs::IoctlDev } else { device };
    // Device files may not be made, wherever one may write; a unix socket may be made and reached where one may write.
    let write = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let mut rules: Vec<(&Path, BitFlags<AccessFs>)> =
        vec![(Path::new("/"), look), (Path::new("/dev"), device)];
    rules.extend(allowed.writable.iter().map(|path| (*path, write)));
    rules
}

fn note(
    version: i32,
    (files, tcp, scopes): (bool, bool, bool),
    loopback: Loopback,
    enforcement: &mut Enforcement,
) {
    let by = format!("Landlock ABI {version}");
    let mut say = |control, raised, why_not: &str| {
        if raised {
            enforcement.set(control, Level::Enforced, by.clone());
        } else {
            enforcement.set(control, Level::Absent, why_not);
        }
    };
    say(Control::LandlockFiles, files, "left out");
    let tcp_absent = match loopback {
        Loopback::Open => "the plan opens loopback; the network namespace holds alone",
        Loopback::Closed => "the kernel's Landlock is older than ABI 4",
    };
    say(Control::LandlockTcp, tcp, tcp_absent);
    say(Control::LandlockScopes, scopes, "the kernel's Landlock is older than ABI 6");
}
