//! Who writes in a workspace at the same time: calls that share it, or one that has it for itself.
//!
//! A mount over a path does not hold where others can rename what it stands on, and a check means nothing where others
//! can write after it. So a call whose operands are bound has its workspace alone, and everybody who would write there
//! waits. It is the directory itself that is locked: whichever gate asks, it is the same one.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// How long newcomers hold back for somebody who wants a workspace alone and has to try again.
const WANTED_FOR: Duration = Duration::from_secs(1);

/// Workspaces that somebody wants alone. Those who share them let nobody new in meanwhile, or it would never be free.
#[derive(Debug, Default)]
pub(crate) struct Wanted(Mutex<BTreeMap<PathBuf, Instant>>);

impl Wanted {
    fn wants(&self, root: &Path) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(root.to_owned(), Instant::now() + WANTED_FOR);
    }

    fn has(&self, root: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(root);
    }

    fn is_wanted(&self, root: &Path) -> bool {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.get(root).is_some_and(|until| Instant::now() < *until)
    }
}

/// A hold on a workspace, until it is dropped.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "what is held is the open directory")] File);

impl Hold {
    /// Takes hold of a workspace for one call alone; nothing if somebody else works there.
    pub(crate) fn try_alone(root: &Path, wanted: &Wanted) -> Result<Option<Hold>, Reason> {
        let hold = Hold::take(root, Share::Alone)?;
        match &hold {
            Some(_) => wanted.has(root),
            None => wanted.wants(root),
        }
        Ok(hold)
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
    pub(crate) async fn shared(root: &Path, wanted: &Wanted) -> Result<Hold, Reason> {
        loop {
            if !wanted.is_wanted(root)
                && let Some(hold) = Hold::take(root, Share::Shared)?
            {
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

    #[tokio::test]
    async fn newcomers_hold_back_for_somebody_who_wants_it_alone() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted::default();
        let first = Hold::shared(folder.path(), &wanted).await.unwrap();
        assert!(Hold::try_alone(folder.path(), &wanted).unwrap().is_none());
        assert!(wanted.is_wanted(folder.path()));
        drop(first);
        assert!(Hold::try_alone(folder.path(), &wanted).unwrap().is_some());
        // It has had it; and somebody who never comes back is not waited for for ever.
        assert!(!wanted.is_wanted(folder.path()));
        wanted.wants(folder.path());
        drop(Hold::shared(folder.path(), &wanted).await.unwrap());
    }

    #[test]
    fn what_cannot_be_held_is_no_hold() {
        let error = Hold::try_alone(Path::new("/nowhere/at/all"), &Wanted::default()).unwrap_err();
        assert_eq!(error.code.as_str(), "cannot_enforce");
    }
}
