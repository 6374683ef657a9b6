//! Waits until what was committed is on the disk, together with others who wait for the same.
//!
//! SQLite appends commits to its write-ahead log and, at `synchronous = NORMAL`, leaves it to the system when they reach
//! the disk. Each transaction here waits for a sync of that log which began after its commit: as durable as `FULL`,
//! but one sync serves all who committed before it began, and the next transaction need not wait for it.
//!
//! # Invariants
//! - A ticket is drawn after its commit; a sync covers the tickets that were drawn before it began.
//! - After a sync that failed nothing counts as durable: the system may have dropped what it could not write.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::error::StoreError;
use crate::sqlite::Fold;

/// The disk under one store.
#[derive(Debug)]
pub(crate) struct Disk {
    database: PathBuf,
    /// The file that has the database's name.
    file: Option<Identity>,
    /// Tickets drawn so far.
    committed: AtomicU64,
    synced: Mutex<Synced>,
    failed: AtomicBool,
    fold: Fold,
}

/// What is known of the disk. Whoever holds it syncs.
#[derive(Debug)]
struct Synced {
    /// Every ticket up to this one is on the disk.
    until: u64,
    log: Log,
    /// How long syncs take: the slowest of late.
    slowest: Duration,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    folder: PathBuf,
    /// The file that had the log's name when it was last synced, and its name with it. As long as it is open, no other file
    /// has its number.
    kept: Option<(File, Identity)>,
}

/// Which file it is: device and number.
type Identity = (u64, u64);

impl Disk {
    /// The disk under a database file, which is named without links: SQLite keeps its log beside the file itself.
    pub(crate) fn under(database: &Path) -> Disk {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let folder = database.parent().unwrap_or(Path::new("/")).to_owned();
        let log = Log { path: path.into(), folder, kept: None };
        Disk {
            database: database.to_owned(),
            file: identity(database),
            committed: AtomicU64::new(0),
            // Of a disk that nobody knows yet, slowness is assumed.
            synced: Mutex::new(Synced { until: 0, log, slowest: Duration::MAX }),
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

    /// To be told of each commit, and whose turn it is to write.
    pub(crate) fn committed(&self, turn: &Arc<Mutex<()>>) {
        self.fold.committed(turn);
    }

    /// Ends what is done beside those who write, and lets go of the log, which SQLite removes.
    pub(crate) async fn close(&self) {
        self.fold.close().await;
        self.synced.lock().await.log.kept = None;
    }

    /// Returns when everything that was committed before is on the disk.
    pub(crate) async fn wait(&self) -> Result<(), StoreError> {
        let ticket = self.committed.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.synced.lock().await;
        self.check()?;
        if synced.until >= ticket {
            return Ok(());
        }
        let until = self.committed.load(Ordering::SeqCst);
        let company = if until == ticket { Company::None } else { Company::Others };
        match synced.sync(company) {
            Ok(()) => {
                synced.until = until;
                Ok(())
            }
            Err(error) => {
                self.failed.store(true, Ordering::SeqCst);
                Err(StoreError::NotDurable { source: Some(error) })
            }
        }
    }
}

/// What takes no longer is waited for in place.
const SHORT: Duration = Duration::from_millis(2);

/// A disk that was slow is waited for in place again after four syncs that were not.
const REMEMBERED_AT_MOST: Duration = Duration::from_millis(32);

/// Whether others wait for the same sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    None,
    Others,
}

impl Synced {
    /// Syncs the log, and waits for that in this thread. Where it may take long, or there is much to do, the runtime is told so,
    /// and others go on in another thread. One that is alone and does not wait long changes no thread: that would cost it more
    /// than it leaves to others.
    fn sync(&mut self, company: Company) -> io::Result<()> {
        let begun = Instant::now();
        let synced = match self.is_waited_for_in_place(company) {
            true => self.log.sync(),
            false => elsewhere_meanwhile(|| self.log.sync()),
        };
        self.remember(begun.elapsed());
        synced
    }

    fn is_waited_for_in_place(&self, company: Company) -> bool {
        company == Company::None && self.slowest <= SHORT
    }

    /// What took long is remembered for a while, and less with each sync.
    fn remember(&mut self, took: Duration) {
        self.slowest = took.max(self.slowest.min(REMEMBERED_AT_MOST) / 2);
    }
}

/// Waits in this thread, after the runtime was told so: others go on in another one. To hand the work to another thread, and
/// wait for that one, would be two changes of thread more.
fn elsewhere_meanwhile<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        // Where there is only one thread, nobody else is there to go on.
        _ => work(),
    }
}

/// Which file has a name.
fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().as_ref().map(identity_of)
}

fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

impl Log {
    /// Syncs the file that has the log's name: another one when SQLite has made it anew. It holds no locks on this one.
    fn sync(&mut self) -> io::Result<()> {
        let kept = self.kept.take();
        // Where it is not there, all of it is in the database itself, and synced, or SQLite would not have removed it.
        let Some(named) = if_there(fs::metadata(&self.path))? else { return Ok(()) };
        let named = identity_of(&named);
        if let Some((file, _)) = kept.as_ref().filter(|(_, kept)| *kept == named) {
            file.sync_data()?;
            self.kept = kept;
            return Ok(());
        }
        let Some(file) = if_there(File::open(&self.path))? else { return Ok(()) };
        file.sync_data()?;
        // Its name is new, too.
        File::open(&self.folder)?.sync_all()?;
        let identity = identity_of(&file.metadata()?);
        self.kept = Some((file, identity));
        Ok(())
    }
}

/// Nothing if there is nothing of that name.
fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
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
            disk.synced.lock().await.log.kept = None;
            disk.wait().await.unwrap();
            found += u32::from(disk.synced.lock().await.log.kept.is_some());
        }
        stop.store(true, Ordering::SeqCst);
        others.join().unwrap();
    }

    #[tokio::test]
    async fn the_log_that_is_synced_is_the_one_that_has_its_name() {
        let home = tempfile::tempdir().unwrap();
        let disk = Disk::under(&home.path().join("store.db"));
        let log = home.path().join("store.db-wal");
        let mut before = None;
        for _ in 0..3 {
            fs::write(&log, "commits").unwrap();
            for _ in 0..2 {
                disk.wait().await.unwrap();
                let synced = disk.synced.lock().await;
                let (file, kept) = synced.log.kept.as_ref().unwrap();
                assert_eq!(identity(&log), Some(*kept));
                assert_eq!(identity_of(&file.metadata().unwrap()), *kept);
                assert_ne!(before, Some(*kept), "its number is not given to another while it is open");
            }
            before = identity(&log);
            fs::remove_file(&log).unwrap();
        }
        disk.wait().await.unwrap();
        assert!(disk.synced.lock().await.log.kept.is_none(), "what is gone is let go of");
    }

    #[tokio::test]
    async fn a_log_that_was_made_anew_has_its_name_synced_whatever_its_number() {
        let home = tempfile::tempdir().unwrap();
        let disk = Disk::under(&home.path().join("store.db"));
        let log = home.path().join("store.db-wal");
        fs::write(&log, "commits").unwrap();
        disk.wait().await.unwrap();
        // Where there is no folder, whoever syncs a name fails.
        disk.synced.lock().await.log.folder = home.path().join("nowhere");
        disk.wait().await.expect("it has been synced with its name");
        // It goes, somebody waits meanwhile, and another gets its number, as file systems like to do.
        fs::remove_file(&log).unwrap();
        disk.wait().await.unwrap();
        fs::write(&log, "commits").unwrap();
        assert!(matches!(disk.wait().await, Err(StoreError::NotDurable { source: Some(_) })));
    }

    #[test]
    fn a_disk_that_was_slow_is_waited_for_elsewhere_until_four_syncs_were_not() {
        let disk = Disk::under(Path::new("/nowhere/store.db"));
        let mut synced = disk.synced.into_inner();
        assert!(!synced.is_waited_for_in_place(Company::None), "nobody knows it yet");
        for _ in 0..2 {
            synced.remember(Duration::from_secs(30));
            for _ in 0..4 {
                assert!(!synced.is_waited_for_in_place(Company::None));
                synced.remember(Duration::from_micros(200));
            }
            assert!(synced.is_waited_for_in_place(Company::None));
            assert!(!synced.is_waited_for_in_place(Company::Others), "they are to go on");
        }
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
            assert_eq!(disk.synced.lock().await.until, 3);
        }
    }
}
