//! Folds SQLite's log into the file itself, beside those who write.
//!
//! Left alone, SQLite does it with the commit that makes the log a thousand pages long: some call in between would write
//! them all once more, and wait for the disk twice, with everybody who wants to write behind it.
//!
//! What is folded is folded twice: first nearly all of it while others write, then, in a turn of its own, what they have
//! written meanwhile. Whoever writes next begins the log anew then, over what is there: the disk has less to do than for a
//! file that grows, and nothing has to be read that was not touched for a while.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::spawn_blocking;

use super::connection::connect;

/// How many commits there are from one time to the next: then the log is about as long as SQLite itself would let it become.
const EVERY: u64 = 64;

/// One that waits for nobody: it folds as much as can be folded while others read and write.
const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// One beside which nobody writes. Where another process does, it is no more than the other one.
const FOLD_THE_REST: &str = "PRAGMA wal_checkpoint(FULL)";

/// Whoever sees to the log of one file.
#[derive(Debug)]
pub(crate) struct Fold {
    database: PathBuf,
    commits: AtomicU64,
    /// Made when it is first needed. Whoever holds it folds.
    connection: Arc<Mutex<Option<Connection>>>,
}

impl Fold {
    pub(crate) fn of(database: &Path) -> Fold {
        Fold { database: database.to_owned(), commits: AtomicU64::new(0), connection: Arc::default() }
    }

    /// To be told of each commit, and whose turn it is to write. Does not wait.
    pub(crate) fn committed(&self, turn: &Arc<Mutex<()>>) {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed);
        if !commits.is_multiple_of(EVERY) {
            return;
        }
        // Where it is being done already, it need not be done again.
        let Ok(connection) = Arc::clone(&self.connection).try_lock_owned() else { return };
        let (database, turn) = (self.database.clone(), Arc::clone(turn));
        let runtime = Handle::current();
        spawn_blocking(move || fold(connection, &database, || runtime.block_on(turn.lock_owned())));
    }

    /// Ends with what is under way.
    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        // The last one to close a file folds everything.
        let _ = spawn_blocking(move || drop(connection)).await;
    }
}

/// If it does not succeed, a later one does, or else the writer, whose log has become too long.
fn fold<T>(mut kept: OwnedMutexGuard<Option<Connection>>, database: &Path, take_turn: impl FnOnce() -> T) {
    if kept.is_none() {
        *kept = connect(database).ok();
    }
    let Some(connection) = kept.as_ref() else { return };
    let _ = connection.query_row(FOLD, [], |_| Ok(()));
    let _turn = take_turn();
    let _ = connection.query_row(FOLD_THE_REST, [], |_| Ok(()));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn what_is_in_the_log_comes_into_the_file_while_it_is_in_use() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
        writer.execute_batch("CREATE TABLE a (b BLOB); INSERT INTO a VALUES (zeroblob(100000))").unwrap();
        let length = || fs::metadata(&path).unwrap().len();
        assert!(length() < 100_000, "nobody folds it by itself");
        let fold = Fold::of(&path);
        fold.committed(&Arc::default());
        fold.close().await;
        assert!(length() > 100_000);
    }

    /// How many pages are in the log, by SQLite's own index of it.
    fn pages_in_log(home: &Path) -> u32 {
        let index = fs::read(home.join("store.db-shm")).unwrap();
        u32::from_ne_bytes(index[16..20].try_into().unwrap())
    }

    #[tokio::test]
    async fn the_log_is_begun_anew_although_somebody_has_written_meanwhile() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
        writer.execute_batch("PRAGMA synchronous = NORMAL; CREATE TABLE a (b BLOB)").unwrap();
        let write = || writer.execute("INSERT INTO a VALUES (zeroblob(4000))", []).unwrap();
        // What is written from here on cannot be folded: somebody looks at what was before.
        let looking = Connection::open(&path).unwrap();
        looking.execute_batch("BEGIN").unwrap();
        looking.query_row("SELECT count(*) FROM a", [], |_| Ok(())).unwrap();
        for _ in 0..3 {
            write();
        }
        let before = pages_in_log(home.path());
        let stop_looking = || looking.execute_batch("COMMIT").unwrap();
        fold(Arc::<Mutex<_>>::default().lock_owned().await, &path, stop_looking);
        write();
        let after = pages_in_log(home.path());
        assert!(after < before, "{after} pages after {before}");
    }
}
