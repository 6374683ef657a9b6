//! Facts about this host that decide what can be enforced on it.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::fix::delegate_cgroup;

/// One fact, and what to do about it if it stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What it is about.
    pub name: &'static str,
    /// What was found.
    pub found: String,
    /// What to do, if something should be done.
    pub fix: Option<String>,
}

/// How this host counts what groups of processes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupVersion {
    One,
    Two,
}

impl CgroupVersion {
    pub(crate) fn of_this_host() -> CgroupVersion {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        if unified { CgroupVersion::Two } else { CgroupVersion::One }
    }
}

/// What this host offers.
pub fn host_facts() -> Vec<Capability> {
    vec![kernel(), caller(), user_namespaces(), landlock(), cgroups(), container()]
}

/// A kernel setting, if there is one of that name.
pub(crate) fn sysctl(name: &str) -> Option<String> {
    let value = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    Some(value.trim().to_owned())
}

fn kernel() -> Capability {
    let release = sysctl("kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let fix =
        (version < (5, 14)).then(|| "Linux 5.14 or newer is needed; 6.12 or newer has every wall".to_owned());
    Capability { name: "kernel", found: release, fix }
}

fn caller() -> Capability {
    let found = match jail::Caller::current() {
        jail::Caller::Root => "root: sandboxes get a host uid from a range of their own".to_owned(),
        jail::Caller::User => format!("uid {}", rustix::process::geteuid().as_raw()),
    };
    Capability { name: "caller", found, fix: None }
}

fn user_namespaces() -> Capability {
    let fix = crate::fix::fix_for_walls();
    let found = if fix.is_some() { "restricted" } else { "available" };
    Capability { name: "user namespaces", found: found.to_owned(), fix }
}

fn landlock() -> Capability {
    match jail::landlock_version() {
        None => Capability {
            name: "landlock",
            found: "not in this kernel".to_owned(),
            fix: Some("boot with `lsm=landlock,…` or use a kernel with CONFIG_SECURITY_LANDLOCK".to_owned()),
        },
        Some(version) => {
            let fix = (version < 6).then(|| "Linux 6.12 or newer adds signal and socket scopes".to_owned());
            Capability { name: "landlock", found: format!("ABI {version}"), fix }
        }
    }
}

fn cgroups() -> Capability {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let version = CgroupVersion::of_this_host();
    let (name, place) = match version {
        CgroupVersion::Two => {
            let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
            let here = root.join(path.trim_start_matches('/'));
            let parent = here.parent().filter(|parent| parent.starts_with(root));
            ("version 2", parent.unwrap_or(root).to_owned())
        }
        CgroupVersion::One => {
            let memory =
                own.lines().find_map(|line| line.split_once(":memory:")).map_or("/", |(_, path)| path);
            ("version 1", root.join("memory").join(memory.trim_start_matches('/')))
        }
    };
    let writable = rustix::fs::access(&place, rustix::fs::Access::WRITE_OK).is_ok();
    Capability {
        name: "cgroups",
        found: format!("{name}, {}", if writable { "delegated to us" } else { "not delegated to us" }),
        fix: (!writable).then(|| delegate_cgroup(version)),
    }
}

fn container() -> Capability {
    let inside = ["/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"];
    let found = if inside.iter().any(|path| Path::new(path).exists()) { "yes" } else { "no" };
    Capability { name: "in a container", found: found.to_owned(), fix: None }
}
