//! Who writes in a workspace at the same time: calls that share it, or one that has it for itself.
//!
//! A mount over a path does not hold where others can rename what it stands on, and a check means nothing where others
//! can write after it. So a call whose operands are bound has its workspace alone, and everybody who would write there
//! waits. It is the directory itself that is locked: whichever gate asks, it is the same one.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use contract::Reason;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

/// How often somebody who waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// With whom a workspace is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// With everybody else who shares it.
    Shared,
    /// With nobody.
    Alone,
}

/// A hold on a workspace, until it is dropped.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "what is held is the open directory")] File);

impl Hold {
    /// Takes hold of a workspace for one call alone; nothing if somebody else works there.
    pub fn try_alone(root: &Path) -> Result<Option<Hold>, Reason> {
        Hold::take(root, Share::Alone)
    }

    fn take(root: &Path, share: Share) -> Result<Option<Hold>, Reason> {
        let cannot = |errno: Errno| {
            let why = std::io::Error::from(errno);
            Reason::cannot_enforce(format!("the workspace cannot be held for one call at a time: {why}"))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, root, flags, Mode::empty()).map_err(cannot)?;
        let operation = match share {
            Share::Shared => FlockOperation::NonBlockingLockShared,
            Share::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&directory, operation) {
            Ok(()) => Ok(Some(Hold(directory.into()))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(cannot(errno)),
        }
    }

    /// Waits until the workspace can be shared.
    pub(crate) async fn shared(root: &Path) -> Result<Hold, Reason> {
        loop {
            if let Some(hold) = Hold::take(root, Share::Shared)? {
                return Ok(hold);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_share_a_workspace_and_one_has_it_alone() {
        let folder = tempfile::tempdir().unwrap();
        let take = |share| Hold::take(folder.path(), share).unwrap();
        let (one, two) = (take(Share::Shared), take(Share::Shared));
        assert!(one.is_some() && two.is_some() && take(Share::Alone).is_none());
        drop((one, two));
        let alone = take(Share::Alone);
        assert!(alone.is_some() && take(Share::Shared).is_none() && take(Share::Alone).is_none());
        drop(alone);
        assert!(take(Share::Shared).is_some());
    }

    #[test]
    fn what_cannot_be_held_is_no_hold() {
        assert_eq!(
            Hold::try_alone(Path::new("/nowhere/at/all")).unwrap_err().code.as_str(),
            "cannot_enforce"
        );
    }
}
