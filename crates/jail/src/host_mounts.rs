//! Whether the mounts that this process sees have changed, and which of them are windows into the kernel.
//!
//! For a keeper, which looks once for all of its sandboxes until something changes. Other software mounts something for a moment
//! and takes it off again all the time (container engines do with every command); what is there afterwards is what was there
//! before, and nobody has to make anything anew for it. Only whoever was copying mounts meanwhile may have seen it.

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::sys;
use crate::windows::{self, Window};

/// The kernel's list of mounts.
const LIST: &str = "/proc/self/mountinfo";

/// The host's mounts, as a keeper sees them.
pub(crate) struct HostMounts(Mutex<Seen>);

/// A time at which mounts were looked at. Equal ones have seen nothing happen between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Grows with whatever is mounted or taken off.
    events: u64,
    /// Grows when something else is mounted than before.
    lists: u64,
}

impl Moment {
    /// Before any change that was seen.
    pub(crate) const FIRST: Moment = Moment { events: 0, lists: 0 };

    /// Whether the same is mounted, whatever was between them.
    pub(crate) fn is_same_list(self, other: Moment) -> bool {
        self.lists == other.lists
    }
}

struct Seen {
    /// Says of each change once.
    events: OwnedFd,
    moment: Moment,
    /// What is mounted; nothing where the kernel cannot tell one mount from a later one with the same number.
    listed: Option<Listed>,
    /// Those of this list, if somebody has looked.
    windows: Option<Arc<[Window]>>,
}

/// All that the kernel tells of what is mounted, and numbers that no other mount has had before.
#[derive(PartialEq, Eq)]
struct Listed {
    mounts: Vec<u8>,
    numbers: Vec<u64>,
}

impl Listed {
    fn now() -> Option<Listed> {
        Some(Listed { numbers: sys::list_mounts().ok()?, mounts: fs::read(LIST).ok()? })
    }
}

impl HostMounts {
    pub(crate) fn begin() -> Result<HostMounts, Errno> {
        let events = rustix::fs::open(LIST, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let listed = Listed::now();
        Ok(HostMounts(Mutex::new(Seen { events, moment: Moment::FIRST, listed, windows: None })))
    }

    /// What has been seen of them until now.
    ///
    /// ATTACK(waited-mounts): names are looked for in the host as it is now, and a user's init copies what it saw when it
    /// was built. Where mounts are private the two differ by what was mounted or taken off meanwhile.
    pub(crate) fn now(&self) -> Moment {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now()
    }

    /// The windows of a moment, if the same is mounted still.
    pub(crate) fn windows(&self, of: Moment) -> Option<Arc<[Window]>> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = seen.now();
        if !now.is_same_list(of) {
            return None;
        }
        if let Some(windows) = &seen.windows {
            return Some(windows.clone());
        }
        let windows: Arc<[Window]> = windows::of_the_host().ok()?.into();
        // What changed while they were read may be in the list or not.
        (seen.now() == now).then(|| seen.windows.insert(windows).clone())
    }
}

impl Seen {
    fn now(&mut self) -> Moment {
        let mut watched = [PollFd::new(&self.events, PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_quiet = poll(&mut watched, Some(&at_once)).is_ok()
            && watched.iter().all(|fd| !fd.revents().intersects(PollFlags::PRI | PollFlags::ERR));
        if !is_quiet {
            self.moment.events += 1;
            let listed = Listed::now();
            if listed.is_none() || listed != self.listed {
                self.moment.lists += 1;
                self.windows = None;
            }
            self.listed = listed;
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
        let over = Moment { events: u64::MAX, lists: u64::MAX };
        assert!(mounts.windows(over).is_none(), "a moment that is over has none");
    }
}
