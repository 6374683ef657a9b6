//! The namespace: loopback alone, and every address on it.

use std::fs;
use std::io;

use rustix::process::{geteuid, getgid, getuid};

use crate::raw;

/// Enters it, if this caller can; the first thing of a process, before any thread.
pub fn enter_if_possible() -> io::Result<()> {
    if !geteuid().is_root() {
        let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
        raw::unshare(libc::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        // The same numbers: whoever was an ordinary user stays one.
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    raw::unshare(libc::CLONE_NEWNET)?;
    jail::lead_everything_to_loopback()
}
