//! Whether the mounts that this process sees have changed, and which of them are windows into the kernel.
//!
//! For a keeper, which looks once for all of its sandboxes until something changes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::windows::{self, Window};

/// The host's mounts, as a keeper sees them.
pub(crate) struct HostMounts(Mutex<Seen>);

/// A moment between two changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Before any change that was seen.
    pub(crate) const FIRST: Moment = Moment(0);
}

struct Seen {
    /// Says of each change once.
    events: OwnedFd,
    moment: Moment,
    /// Those of this moment, if somebody has looked.
    windows: Option<Arc<[Window]>>,
}

impl HostMounts {
    pub(crate) fn begin() -> Result<HostMounts, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let events = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())?;
        Ok(HostMounts(Mutex::new(Seen { events, moment: Moment::FIRST, windows: None })))
    }

    /// Another one after anything was mounted or taken off.
    ///
    /// ATTACK(waited-mounts): names are looked for in the host as it is now, and a user's init copies what it saw when it
    /// was built. Where mounts are private the two differ by what was mounted or taken off meanwhile.
    pub(crate) fn now(&self) -> Moment {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now()
    }

    /// The windows of a moment, if it is not over.
    pub(crate) fn windows(&self, of: Moment) -> Option<Arc<[Window]>> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.now() != of {
            return None;
        }
        if let Some(windows) = &seen.windows {
            return Some(windows.clone());
        }
        let windows: Arc<[Window]> = windows::of_the_host().ok()?.into();
        // What changed while they were read may be in the list or not.
        (seen.now() == of).then(|| seen.windows.insert(windows).clone())
    }
}

impl Seen {
    fn now(&mut self) -> Moment {
        let mut watched = [PollFd::new(&self.events, PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_quiet = poll(&mut watched, Some(&at_once)).is_ok()
            && watched.iter().all(|fd| !fd.revents().intersects(PollFlags::PRI | PollFlags::ERR));
        if !is_quiet {
            let Moment(before) = self.moment;
            self.moment = Moment(before + 1);
            self.windows = None;
        }
        self.moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_looked_at_once_as_long_as_nothing_changes() {
        let mounts = HostMounts::begin().unwrap();
        let first = mounts.now();
        // Somebody else may mount something at any time; then there is nothing to compare.
        let (one, two) = (mounts.windows(first), mounts.windows(first));
        if mounts.now() == first {
            let (one, two) = (one.unwrap(), two.unwrap());
            assert!(Arc::ptr_eq(&one, &two) && !one.is_empty());
        }
        assert!(mounts.windows(Moment(u64::MAX)).is_none(), "a moment that is over has none");
    }
}
