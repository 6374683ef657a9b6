//! Who writes in a workspace at the same time: calls that share it, or one that has it for itself.
//!
//! A mount over a path does not hold where others can rename what it stands on, and a check means nothing where others
//! can write after it. So a call whose operands are bound has its workspace alone, and everybody who would write there,
//! above it or beneath it waits.
//!
//! Holds are files in the gate's home, where no sandbox reaches, each locked for as long as it is held: the kernel lets go
//! of what a process leaves behind. A workspace is known by the directories it lies in, not by its name.
//!
//! # Invariants
//! - What is held is looked at and added to under one lock: no two that exclude each other are held at once.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use contract::Reason;

/// How often somebody who waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How long newcomers hold back for somebody who wants a workspace alone and has to try again.
const WANTED_FOR: Duration = Duration::from_secs(1);

/// How a workspace is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// With everybody else who shares it.
    Shared,
    /// With nobody.
    Alone,
    /// Not yet: somebody wants it alone. Those who share it let nobody new in meanwhile, or it would never be free.
    Wanted,
}

/// Where holds of every process of this gate are kept.
#[derive(Debug)]
pub(crate) struct Holds {
    folder: PathBuf,
}

/// A hold on a workspace, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    path: PathBuf,
    _lock: File,
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Unlocked it says the same as when it is not there; this way nothing is left.
        let _ = fs::remove_file(&self.path);
    }
}

impl Holds {
    pub(crate) fn in_folder(folder: PathBuf) -> Holds {
        Holds { folder }
    }

    /// Takes hold of a workspace for one call alone; nothing if somebody else works there.
    pub(crate) fn try_alone(&self, root: &Path) -> Result<Option<Hold>, Reason> {
        self.take(root, Share::Alone).map_err(cannot)
    }

    /// Waits until the workspace can be shared.
    pub(crate) async fn shared(&self, root: &Path) -> Result<Hold, Reason> {
        loop {
            if let Some(hold) = self.take(root, Share::Shared).map_err(cannot)? {
                return Ok(hold);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn take(&self, root: &Path, share: Share) -> io::Result<Option<Hold>> {
        let place = Site::of(root)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let turn = open(&self.folder.join("turn"))?;
        match turn.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let wanted = self.folder.join(Share::Wanted.named(&place.name()));
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?.path();
            let Some(other) = Share::of(&entry).filter(|other| share.minds(*other)) else { continue };
            if place.meets(&entry)? && is_in_force(&entry, other)? {
                if share == Share::Alone {
                    // Anew each time: how old it is says whether anybody still wants it.
                    fs::write(&wanted, place.text())?;
                }
                return Ok(None);
            }
        }
        let path = self.folder.join(share.named(&format!("{:016x}", RandomState::new().hash_one(0))));
        let lock = open(&path)?;
        let hold = Hold { path, _lock: lock };
        hold._lock.try_lock().map_err(io::Error::from)?;
        fs::write(&hold.path, place.text())?;
        if share == Share::Alone {
            remove(&wanted)?;
        }
        Ok(Some(hold))
    }
}

impl Share {
    /// Whether one cannot be where the other is.
    fn minds(self, other: Share) -> bool {
        match self {
            Share::Shared => other != Share::Shared,
            Share::Alone => other != Share::Wanted,
            Share::Wanted => false,
        }
    }

    fn named(self, name: &str) -> String {
        let kind = match self {
            Share::Shared => "shared",
            Share::Alone => "alone",
            Share::Wanted => "wanted",
        };
        format!("{kind}-{name}")
    }

    fn of(path: &Path) -> Option<Share> {
        match path.file_name()?.to_str()?.split_once('-')?.0 {
            "shared" => Some(Share::Shared),
            "alone" => Some(Share::Alone),
            "wanted" => Some(Share::Wanted),
            _ => None,
        }
    }
}

/// A directory and those that it lies in, by what they are: `device:inode`, upwards.
struct Site(Vec<String>);

impl Site {
    fn of(root: &Path) -> io::Result<Site> {
        let real = fs::canonicalize(root)?;
        let identity = |path: &Path| fs::metadata(path).map(|it| format!("{}:{}", it.dev(), it.ino()));
        real.ancestors().map(identity).collect::<io::Result<_>>().map(Site)
    }

    fn name(&self) -> String {
        self.0.first().map(|own| own.replace(':', "-")).unwrap_or_default()
    }

    fn text(&self) -> String {
        self.0.join("\n")
    }

    /// Whether one of both lies in the other, or they are one.
    fn meets(&self, entry: &Path) -> io::Result<bool> {
        let text = match fs::read_to_string(entry) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            text => text?,
        };
        let (own, other) = (self.0.first(), text.lines().next());
        Ok(own.is_some_and(|own| text.lines().any(|part| part == own))
            || other.is_some_and(|other| self.0.iter().any(|part| part == other)))
    }
}

/// Whether somebody is behind it; what nobody is behind is taken away.
fn is_in_force(entry: &Path, share: Share) -> io::Result<bool> {
    let has_gone = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(false),
        _ => Err(error),
    };
    let in_force = match share {
        Share::Wanted => {
            let written = match fs::metadata(entry).and_then(|it| it.modified()) {
                Ok(written) => written,
                Err(error) => return has_gone(error),
            };
            // One from the future is as good as none: nobody is held back by a clock that was set.
            now().duration_since(written).is_ok_and(|age| age < WANTED_FOR)
        }
        Share::Shared | Share::Alone => match File::open(entry) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => false,
                Err(TryLockError::WouldBlock) => true,
                Err(TryLockError::Error(error)) => return Err(error),
            },
            Err(error) => return has_gone(error),
        },
    };
    if !in_force {
        remove(entry)?;
    }
    Ok(in_force)
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the times of files, which the system gives them"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn cannot(error: io::Error) -> Reason {
    Reason::cannot_enforce(format!("the workspace cannot be held for one call at a time: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> (tempfile::TempDir, Holds, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let holds = Holds::in_folder(folder.path().join("holds"));
        let work = folder.path().join("work");
        fs::create_dir_all(work.join("inner")).unwrap();
        fs::create_dir(folder.path().join("other")).unwrap();
        (folder, holds, work)
    }

    #[test]
    fn many_share_a_workspace_and_one_has_it_alone() {
        let (_folder, holds, work) = site();
        let take = |share| holds.take(&work, share).unwrap();
        let (one, two) = (take(Share::Shared), take(Share::Shared));
        assert!(one.is_some() && two.is_some() && take(Share::Alone).is_none());
        drop((one, two));
        let alone = take(Share::Alone);
        assert!(alone.is_some() && take(Share::Shared).is_none() && take(Share::Alone).is_none());
        drop(alone);
        assert!(take(Share::Alone).is_some() && take(Share::Shared).is_some());
        assert_eq!(fs::read_dir(&holds.folder).unwrap().count(), 1, "nothing is left but whose turn it is");
    }

    #[test]
    fn a_workspace_within_another_is_held_with_it_and_its_neighbour_is_not() {
        let (folder, holds, work) = site();
        let other = folder.path().join("other");
        std::os::unix::fs::symlink(&work, folder.path().join("link")).unwrap();
        let names = [work.clone(), work.join("inner"), folder.path().to_owned(), folder.path().join("link")];
        for (alone, shared) in names.iter().flat_map(|one| names.iter().map(move |two| (one, two))) {
            let held = holds.take(alone, Share::Alone).unwrap().unwrap();
            assert!(holds.take(shared, Share::Shared).unwrap().is_none(), "{alone:?} {shared:?}");
            drop(held);
            let held = holds.take(shared, Share::Shared).unwrap().unwrap();
            assert!(holds.take(alone, Share::Alone).unwrap().is_none(), "{alone:?} {shared:?}");
            drop(held);
            remove(&holds.folder.join(Share::Wanted.named(&Site::of(alone).unwrap().name()))).unwrap();
        }
        let _work = holds.take(&work, Share::Alone).unwrap().unwrap();
        assert!(holds.take(&other, Share::Alone).unwrap().is_some());
    }

    #[test]
    fn what_a_process_left_behind_is_no_hold() {
        let (_folder, holds, work) = site();
        drop(holds.take(&work, Share::Shared).unwrap());
        let left = holds.folder.join("alone-0123456789abcdef");
        fs::write(&left, Site::of(&work).unwrap().text()).unwrap();
        assert!(holds.take(&work, Share::Shared).unwrap().is_some());
        assert!(!left.exists());
    }

    #[tokio::test]
    async fn newcomers_of_any_process_hold_back_for_somebody_who_wants_it_alone() {
        let (_folder, holds, work) = site();
        let elsewhere = Holds::in_folder(holds.folder.clone());
        let first = holds.shared(&work).await.unwrap();
        assert!(holds.try_alone(&work).unwrap().is_none());
        assert!(elsewhere.take(&work, Share::Shared).unwrap().is_none());
        drop(first);
        drop(holds.try_alone(&work).unwrap().unwrap());
        // It has had it; and somebody who never comes back is not waited for for ever.
        let first = elsewhere.take(&work, Share::Shared).unwrap().unwrap();
        assert!(holds.try_alone(&work).unwrap().is_none());
        drop(elsewhere.shared(&work).await.unwrap());
        drop(first);
    }

    #[test]
    fn what_cannot_be_held_is_no_hold() {
        let (_folder, holds, _work) = site();
        let error = holds.try_alone(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.code.as_str(), "cannot_enforce");
    }
}
