//! Waits until what was committed is on the disk, together with others who wait for the same.
//!
//! SQLite appends commits to its write-ahead log and, at `synchronous = NORMAL`, leaves it to the system when they reach
//! the disk. Each transaction here waits for a sync of that log which began after its commit: as durable as `FULL`,
//! but one sync serves all who committed before it began, and the next transaction need not wait for it.
//!
//! # Invariants
//! - A ticket is drawn after its commit; a sync covers the tickets that were drawn before it began.
//! - After a sync that failed nothing counts as durable: the system may have dropped what it could not write.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::error::StoreError;
use crate::sqlite::Fold;

/// The disk under one store.
#[derive(Debug)]
pub(crate) struct Disk {
    database: PathBuf,
    /// The file that has the database's name, by device and number.
    file: Option<(u64, u64)>,
    log: Log,
    /// Tickets drawn so far.
    committed: AtomicU64,
    /// Every ticket up to this one is on the disk. Whoever holds it syncs.
    synced: Mutex<u64>,
    failed: AtomicBool,
    fold: Fold,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    folder: PathBuf,
    /// The file whose name is known to be durable too.
    known: AtomicU64,
}

impl Disk {
    /// The disk under a database file, which is named without links: SQLite keeps its log beside the file itself.
    pub(crate) fn under(database: &Path) -> Disk {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let folder = database.parent().unwrap_or(Path::new("/")).to_owned();
        let log = Log { path: path.into(), folder, known: AtomicU64::new(0) };
        Disk {
            database: database.to_owned(),
            file: identity(database),
            log,
            committed: AtomicU64::new(0),
            synced: Mutex::new(0),
            failed: AtomicBool::new(false),
            fold: Fold::of(database),
        }
    }

    /// Fails if a sync has failed: then nothing more is to be written. Fails also while the file is not there: SQLite
    /// would go on writing to one that nobody will find.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(StoreError::NotDurable { source: None });
        }
        match identity(&self.database) == self.file {
            true => Ok(()),
            false => Err(StoreError::Gone),
        }
    }

    /// To be told of each commit.
    pub(crate) fn committed(&self) {
        self.fold.committed();
    }

    /// Ends what is done beside those who write.
    pub(crate) async fn close(&self) {
        self.fold.close().await;
    }

    /// Returns when everything that was committed before is on the disk.
    pub(crate) async fn wait(&self) -> Result<(), StoreError> {
        let ticket = self.committed.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.synced.lock().await;
        self.check()?;
        if *synced >= ticket {
            return Ok(());
        }
        let until = self.committed.load(Ordering::SeqCst);
        match here(|| self.log.sync()) {
            Ok(()) => {
                *synced = until;
                Ok(())
            }
            Err(error) => {
                self.failed.store(true, Ordering::SeqCst);
                Err(StoreError::NotDurable { source: Some(error) })
            }
        }
    }
}

/// Waits in this thread, after the runtime was told so: others go on in another one. To hand the work to another thread, and
/// wait for that one, would be two changes of thread more.
fn here<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        // Where there is only one thread, nobody else is there to go on.
        _ => work(),
    }
}

/// Which file has a name.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Log {
    fn sync(&self) -> io::Result<()> {
        // By name each time: the log is another file when SQLite has made it anew. It holds no locks on this one.
        let file = match File::open(&self.path) {
            Ok(file) => file,
            // All of it is in the database itself, and synced, or SQLite would not have removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.sync_data()?;
        let inode = file.metadata()?.ino();
        if self.known.load(Ordering::SeqCst) != inode {
            File::open(&self.folder)?.sync_all()?;
            self.known.store(inode, Ordering::SeqCst);
        }
        Ok(())
    }
}

#[cfg(test)]
impl Disk {
    pub(crate) fn tickets(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn after_a_sync_that_failed_nothing_counts_as_durable() {
        let home = tempfile::tempdir().unwrap();
        let disk = Disk::under(&home.path().join("store.db"));
        let log = home.path().join("store.db-wal");
        disk.wait().await.expect("no log, nothing to sync");
        fs::write(&log, "").unwrap();
        disk.wait().await.unwrap();
        fs::remove_file(&log).unwrap();
        // A link to itself cannot be opened, whoever tries.
        std::os::unix::fs::symlink(&log, &log).unwrap();
        assert!(matches!(disk.wait().await, Err(StoreError::NotDurable { source: Some(_) })));
        fs::remove_file(&log).unwrap();
        assert!(matches!(disk.wait().await, Err(StoreError::NotDurable { source: None })));
    }

    #[tokio::test]
    async fn a_log_that_goes_while_it_is_synced_needs_no_sync() {
        let home = tempfile::tempdir().unwrap();
        let disk = Disk::under(&home.path().join("store.db"));
        let log = home.path().join("store.db-wal");
        let stop = Arc::new(AtomicBool::new(false));
        // As SQLite does when the last one closes and another opens.
        let others = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::SeqCst) {
                    fs::write(&log, "commits").unwrap();
                    fs::remove_file(&log).unwrap();
                }
            }
        });
        let mut found = 0;
        while found < 50 {
            disk.log.known.store(0, Ordering::SeqCst);
            disk.wait().await.unwrap();
            found += u32::from(disk.log.known.load(Ordering::SeqCst) != 0);
        }
        stop.store(true, Ordering::SeqCst);
        others.join().unwrap();
    }

    #[tokio::test]
    async fn one_sync_serves_all_who_wait() {
        let home = tempfile::tempdir().unwrap();
        let disk = Arc::new(Disk::under(&home.path().join("store.db")));
        let first = disk.synced.lock().await;
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                tokio::spawn({
                    let disk = Arc::clone(&disk);
                    async move { disk.wait().await }
                })
            })
            .collect();
        while disk.committed.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in waiting {
            task.await.unwrap().unwrap();
            // Whoever came first has synced for all three.
            assert_eq!(*disk.synced.lock().await, 3);
        }
    }
}
