//! Folds SQLite's log into the file itself, beside those who write.
//!
//! Left alone, SQLite does it with the commit that makes the log a thousand pages long: some call in between would write
//! them all once more, and wait for the disk twice, with everybody who wants to write behind it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::connection::connect;

/// How many commits there are from one time to the next: then the log is about as long as SQLite itself would let it become.
const EVERY: u64 = 64;

/// One that waits for nobody: it folds as much as can be folded while others read and write.
const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";

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

    /// To be told of each commit. Does not wait.
    pub(crate) fn committed(&self) {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed);
        if !commits.is_multiple_of(EVERY) {
            return;
        }
        // Where it is being done already, it need not be done again.
        let Ok(mut connection) = Arc::clone(&self.connection).try_lock_owned() else { return };
        let database = self.database.clone();
        spawn_blocking(move || {
            // If it does not succeed, a later one does, or else the writer, whose log has become too long.
            if connection.is_none() {
                *connection = connect(&database).ok();
            }
            if let Some(connection) = connection.as_ref() {
                let _ = connection.query_row(FOLD, [], |_| Ok(()));
            }
        });
    }

    /// Ends with what is under way.
    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        // The last one to close a file folds everything.
        let _ = spawn_blocking(move || drop(connection)).await;
    }
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
        fold.committed();
        fold.close().await;
        assert!(length() > 100_000);
    }
}
