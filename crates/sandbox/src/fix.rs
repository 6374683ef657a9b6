//! What to do when a wall cannot be raised: the exact command, where there is one.

use std::fs;

use jail::{Control, StartError, Step};

use crate::host::{CgroupVersion, sysctl};

/// The fix for a sandbox that could not be built, if it is known.
pub fn fix_for(error: &StartError) -> Option<String> {
    match error {
        StartError::Link { path } => {
            let real = path.canonicalize().ok()?;
            Some(format!("name the directory itself: `{}`", real.display()))
        }
        StartError::Window { .. } => Some("grant a directory with files of your own".to_owned()),
        StartError::Late { .. } => {
            Some("grant a smaller directory, or give it more time (`--timeout`, of which 10 s are used)".to_owned())
        }
        StartError::Links { .. } => Some("grant a smaller directory, or one without so many links".to_owned()),
        StartError::Unstable { .. } => {
            Some("wait until nothing else moves directories in it, or grant a smaller one".to_owned())
        }
        StartError::Owners { .. } => Some(
            "run toolgate as the ordinary user who owns the directory, or move it to a filesystem with id-mapped mounts (ext4, xfs, btrfs, tmpfs from Linux 6.3)"
                .to_owned(),
        ),
        StartError::Directory { source, .. } if source.raw_os_error() == Some(1) => {
            Some("root without CAP_SYS_ADMIN, as in a container, cannot mount: add it, or run as an ordinary user".to_owned())
        }
        StartError::Directory { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => {
                Some("check the path; a directory has to exist before it can be granted".to_owned())
            }
            std::io::ErrorKind::NotADirectory => Some("name the directory that the file is in".to_owned()),
            std::io::ErrorKind::PermissionDenied => {
                Some("only directories that you may read can be granted".to_owned())
            }
            _ => None,
        },
        StartError::Partly { missing } if missing.contains(Control::Memory) || missing.contains(Control::Cpu) => {
            Some(delegate_cgroup(CgroupVersion::of_this_host()))
        }
        StartError::Partly { missing } if missing.contains(Control::Disk) => {
            Some("what is written to a granted directory can only be watched: leave out `--strict`, or `--rw`".to_owned())
        }
        StartError::Partly { .. } => Some("grant a smaller directory, so that all of it can be searched".to_owned()),
        StartError::Wall { step, source } => fix_for_step(step, source.raw_os_error()),
        _ => None,
    }
}

/// The fix for a step that failed.
pub(crate) fn fix_for_step(step: &Step, error: Option<i32>) -> Option<String> {
    match (step, error) {
        (Step::Clone | Step::IdMap | Step::Namespaces | Step::Identity | Step::Root | Step::Loopback | Step::Network, _) => {
            fix_for_walls()
        }
        (Step::Proc, _) => Some(
            "this /proc is masked, as in a container: run the container with `--security-opt systempaths=unconfined` (Docker), `procMount: Unmasked` with a user namespace (Kubernetes)"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The fix for missing walls: most often, user namespaces are turned off.
pub(crate) fn fix_for_walls() -> Option<String> {
    if sysctl("user/max_user_namespaces").as_deref() == Some("0") {
        return Some("user namespaces are off: `sudo sysctl user.max_user_namespaces=15000`".to_owned());
    }
    if sysctl("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Some(
            "user namespaces are off for ordinary users: `sudo sysctl kernel.unprivileged_userns_clone=1`"
                .to_owned(),
        );
    }
    if sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return Some(
            "AppArmor keeps ordinary users from using user namespaces: give toolgate a profile with `userns,` (docs/hosts.md has one), or `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
                .to_owned(),
        );
    }
    if is_filtered() {
        return Some(
            "this process is behind a system call filter, as in a container: run it with `--security-opt seccomp=unconfined` (Docker) or `seccompProfile: Unconfined` (Kubernetes)"
                .to_owned(),
        );
    }
    None
}

/// How to get a cgroup of one's own.
pub(crate) fn delegate_cgroup(version: CgroupVersion) -> String {
    let how = match version {
        CgroupVersion::Two => {
            "start it with `systemd-run --user --scope -p Delegate=yes toolgate …`, or as a service with `Delegate=yes` and `DelegateSubgroup=gate`"
        }
        // There systemd delegates no controller to ordinary users.
        CgroupVersion::One => {
            "make one with `sudo cgcreate -a $USER -t $USER -g memory,cpu:toolgate` and start it with `cgexec -g memory,cpu:toolgate toolgate …`, or boot with `systemd.unified_cgroup_hierarchy=1`"
        }
    };
    format!("no cgroup is delegated to this process: {how}")
}

fn is_filtered() -> bool {
    fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .any(|line| line.starts_with("Seccomp:") && !line.ends_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cgroup_version_has_a_way_that_works_there() {
        let (one, two) = (delegate_cgroup(CgroupVersion::One), delegate_cgroup(CgroupVersion::Two));
        assert!(one.contains("cgcreate") && !one.contains("Delegate"), "{one}");
        assert!(two.contains("Delegate=yes") && !two.contains("cgcreate"), "{two}");
    }
}
