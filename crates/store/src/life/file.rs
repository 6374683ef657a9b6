//! Locks of the kernel, which lets go of them when a process ends, however it ends, and never before.
//!
//! A database of SQLite in WAL mode is used on one host: whoever shares its file shares the files beside it.
//!
//! # Invariants
//! - A lock is seen under its name only when it is held already: what is found unlocked is of a gate that is no more.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::GateId;

/// Who this store is among all gates on its database, once it has to be somebody.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    own: Mutex<Option<Held>>,
}

/// A lock that is held.
#[derive(Debug)]
struct Held {
    id: GateId,
    path: PathBuf,
    _lock: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Unlocked it says the same as when it is not there; this way nothing is left.
        let _ = fs::remove_file(&self.path);
    }
}

impl Files {
    /// Locks beside a database file.
    pub(super) fn beside(database: &Path) -> Files {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-gates");
        Files { folder: folder.into(), own: Mutex::new(None) }
    }

    /// The id by which others know this gate; it has one from its first call on.
    pub(super) fn own(&self) -> io::Result<GateId> {
        let mut own = self.lock();
        if let Some(held) = &*own {
            return Ok(held.id.clone());
        }
        let held = hold(&self.folder)?;
        let id = held.id.clone();
        *own = Some(held);
        Ok(id)
    }

    /// The same, if it has one.
    pub(super) fn own_if_any(&self) -> Option<GateId> {
        self.lock().as_ref().map(|held| held.id.clone())
    }

    /// Lets go of an id.
    pub(super) fn forget(&self, lost: &GateId) {
        let mut own = self.lock();
        if own.as_ref().is_some_and(|held| held.id == *lost) {
            *own = None;
        }
    }

    /// Whether another gate lives.
    pub(super) fn lives(&self, gate: &GateId) -> io::Result<bool> {
        is_held(&self.folder.join(gate.as_str()))
    }

    /// Takes away the locks of those that are no more.
    pub(super) fn sweep(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            // What is not named after a gate is a lock in the making.
            let is_name = entry.file_name().to_str().is_some_and(|name| GateId::parse(name).is_ok());
            if is_name && !is_held(&entry.path())? {
                match fs::remove_file(entry.path()) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        // Whoever panicked with it in hand has left it whole.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hold(folder: &Path) -> io::Result<Held> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let id = GateId::from_random(random);
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let (draft, path) = (folder.join(format!(".{id}")), folder.join(id.as_str()));
    let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    lock.try_lock().map_err(io::Error::from)?;
    fs::rename(&draft, &path)?;
    Ok(Held { id, path, _lock: lock })
}

fn is_held(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        // Its gate took it away at its end, or somebody after it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (tempfile::TempDir, Files, Files) {
        let home = tempfile::tempdir().unwrap();
        let database = home.path().join("store.db");
        let (one, other) = (Files::beside(&database), Files::beside(&database));
        (home, one, other)
    }

    fn locks(home: &tempfile::TempDir) -> usize {
        fs::read_dir(home.path().join("store.db-gates")).unwrap().count()
    }

    #[test]
    fn a_gate_lives_until_it_ends() {
        let (home, one, other) = two();
        assert_eq!(one.own_if_any(), None, "who only looks is nobody");
        let id = one.own().unwrap();
        assert_eq!(one.own().unwrap(), id);
        assert!(other.lives(&id).unwrap());
        assert!(other.lives(&id).unwrap(), "looking has not ended it");
        drop(one);
        assert!(!other.lives(&id).unwrap());
        assert_eq!(locks(&home), 0);
    }

    #[test]
    fn a_lock_that_nobody_holds_is_of_the_dead_and_swept() {
        let (home, one, other) = two();
        let living = one.own().unwrap();
        let dead = GateId::from_random([7; 16]);
        fs::write(home.path().join("store.db-gates").join(dead.as_str()), "").unwrap();
        assert!(!other.lives(&dead).unwrap());
        other.sweep().unwrap();
        assert_eq!(locks(&home), 1);
        assert!(other.lives(&living).unwrap());
    }

    #[test]
    fn a_lock_in_the_making_is_left_alone() {
        let (home, one, other) = two();
        one.own().unwrap();
        fs::write(home.path().join("store.db-gates/.0123"), "").unwrap();
        other.sweep().unwrap();
        assert_eq!(locks(&home), 2);
    }

    #[test]
    fn one_that_was_taken_for_dead_becomes_another() {
        let (_home, one, other) = two();
        let before = one.own().unwrap();
        one.forget(&before);
        let after = one.own().unwrap();
        assert_ne!(before, after);
        one.forget(&before);
        assert_eq!(one.own().unwrap(), after, "once for each loss");
        assert!(!other.lives(&before).unwrap() && other.lives(&after).unwrap());
    }
}
