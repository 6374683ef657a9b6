//! Mounts of the host that are windows into its kernel: processes, devices, settings, other people's cgroups.
//!
//! Reads the list of mounts and nothing in them. What lies beneath a granted directory comes along with it, whatever it
//! is; these are covered, and a directory that is itself in one is not granted at all.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::makedev;

use crate::entry::Guarded;

/// Filesystems that show the kernel's own objects instead of somebody's files.
const KINDS: [&str; 23] = [
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "functionfs",
    "fusectl",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// A mount that is a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    point: PathBuf,
    device: u64,
    kind: &'static str,
}

/// The windows of this host, as far as this process sees its mounts.
pub(crate) fn of_the_host() -> io::Result<Vec<Window>> {
    // Its length is not known beforehand; with room enough it is read at once.
    let mut mounts = Vec::with_capacity(64 * 1024);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut mounts)?;
    Ok(windows_in(&mounts))
}

fn windows_in(mounts: &[u8]) -> Vec<Window> {
    mounts.split(|byte| *byte == b'\n').filter_map(window).collect()
}

/// Which kind of window a device is, if it is one.
pub(crate) fn kind_of_device(windows: &[Window], device: u64) -> Option<&'static str> {
    windows.iter().find(|window| window.device == device).map(|window| window.kind)
}

/// The windows beneath a directory that can be looked through: one that something else is mounted over cannot.
pub(crate) fn beneath(windows: &[Window], directory: impl AsFd, path: &Path) -> Vec<Guarded> {
    let inside = windows.iter().filter_map(|window| Some((window, window.point.strip_prefix(path).ok()?)));
    let found = inside.filter_map(|(window, inside)| {
        let guarded = Guarded::at(directory.as_fd(), inside).ok()?;
        (guarded.identity.device == window.device).then_some(guarded)
    });
    let mut found: Vec<Guarded> = found.collect();
    found.dedup();
    found
}

/// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
fn window(line: &[u8]) -> Option<Window> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let point = fields.nth(1)?;
    let kind = fields.skip_while(|field| field != b"-").nth(1)?;
    let kind = KINDS.into_iter().find(|known| known.as_bytes() == kind)?;
    let (major, minor) = device.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    Some(Window { point: unescaped(point), device, kind })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_told_from_other_mounts_whatever_stands_between() {
        let mounts = b"25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            26 30 8:1 / /home rw - ext4 /dev/sda1 rw\n\
            27 30 0:5 / /srv/a\\040b/proc ro - proc proc rw\n\
            nonsense\n";
        let window = |point: &str, minor, kind| Window {
            point: PathBuf::from(point),
            device: makedev(0, minor),
            kind,
        };
        assert_eq!(windows_in(mounts), [window("/sys", 23, "sysfs"), window("/srv/a b/proc", 5, "proc")]);
    }
}
