//! Connections that are kept, and lent to one at a time.
//!
//! # Invariants
//! - Those of a file are given back at once: the next one who asks need not wait until somebody else has tidied up.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::any::{Any, AnyConnectOptions, AnyPoolOptions, AnyTransactionManager};
use sqlx::pool::PoolConnection;
use sqlx::{AnyConnection, AnyPool, AssertSqlSafe, Connection, Error, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
use tokio::time::timeout;

use crate::place::{Place, Purpose};

/// Connections to one database, all for the same purpose.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    File(Arc<FilePool>),
    Server(AnyPool),
}

/// Connections to a file, made when they are first needed.
#[derive(Debug)]
pub(crate) struct FilePool {
    options: AnyConnectOptions,
    settings: String,
    /// How long somebody waits for a connection.
    longest: Duration,
    slots: Vec<Arc<Mutex<Option<Kept>>>>,
    /// Where the next one queues who finds none free.
    next: AtomicUsize,
    is_closed: AtomicBool,
}

/// A connection to a file, between two who use it.
#[derive(Debug)]
pub(crate) struct Kept {
    connection: AnyConnection,
    /// Whether nobody may use it again.
    is_spent: bool,
}

impl Pool {
    /// So many connections at most. None is made yet.
    pub(crate) fn of(
        place: &Place,
        options: &AnyConnectOptions,
        purpose: Purpose,
        connections: u32,
        patience: Duration,
    ) -> Pool {
        let (options, settings) = (options.clone(), place.settings(purpose, patience));
        match place {
            Place::File(_) => Pool::File(Arc::new(FilePool {
                options,
                settings,
                // A file does not go away, and others who read it soon end.
                longest: patience.saturating_mul(6),
                slots: (0..connections).map(|_| Arc::default()).collect(),
                next: AtomicUsize::new(0),
                is_closed: AtomicBool::new(false),
            })),
            Place::Server { .. } => Pool::Server(
                AnyPoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(patience)
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .after_connect(move |connection, _| {
                        let settings = settings.clone();
                        Box::pin(async move {
                            sqlx::raw_sql(AssertSqlSafe(settings)).execute(connection).await.map(drop)
                        })
                    })
                    .connect_lazy_with(options),
            ),
        }
    }

    /// Borrows one.
    pub(crate) async fn acquire(&self) -> Result<Lent, Error> {
        match self {
            Pool::File(pool) => Ok(Lent::OfFile(pool.acquire().await?)),
            Pool::Server(pool) => Ok(Lent::OfServer(pool.acquire().await?)),
        }
    }

    /// Borrows one to a file, if nobody else has it at this moment.
    pub(crate) async fn acquire_free(&self) -> Result<Option<Lent>, Error> {
        let Pool::File(pool) = self else { return Ok(None) };
        match pool.free() {
            Some(slot) => Ok(Some(Lent::OfFile(pool.connected(slot).await?))),
            None => Ok(None),
        }
    }

    /// Borrows one for a transaction that ends without a trace.
    pub(crate) async fn view(&self, begin: &'static str) -> Result<View, Error> {
        View::begin(self.acquire().await?, begin).await
    }

    /// Lends none any more, and closes all once they are back.
    pub(crate) async fn close(&self) {
        match self {
            Pool::File(pool) => pool.close().await,
            Pool::Server(pool) => pool.close().await,
        }
    }
}

impl FilePool {
    async fn acquire(&self) -> Result<OwnedMappedMutexGuard<Option<Kept>, Kept>, Error> {
        let slot = match self.free() {
            Some(slot) => slot,
            None => timeout(self.longest, self.queue()?).await.map_err(|_| Error::PoolTimedOut)?,
        };
        self.connected(slot).await
    }

    fn free(&self) -> Option<OwnedMutexGuard<Option<Kept>>> {
        self.slots.iter().find_map(|slot| Arc::clone(slot).try_lock_owned().ok())
    }

    /// The turn of one who finds none free.
    fn queue(&self) -> Result<impl Future<Output = OwnedMutexGuard<Option<Kept>>>, Error> {
        let next = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(self.slots.len());
        let slot = next.and_then(|next| self.slots.get(next)).ok_or(Error::PoolClosed)?;
        Ok(Arc::clone(slot).lock_owned())
    }

    async fn connected(
        &self,
        mut slot: OwnedMutexGuard<Option<Kept>>,
    ) -> Result<OwnedMappedMutexGuard<Option<Kept>, Kept>, Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::PoolClosed);
        }
        if slot.as_ref().is_none_or(|kept| kept.is_spent) {
            *slot = None;
            let mut connection = AnyConnection::connect_with(&self.options).await?;
            sqlx::raw_sql(AssertSqlSafe(self.settings.clone())).execute(&mut connection).await?;
            *slot = Some(Kept { connection, is_spent: false });
        }
        OwnedMutexGuard::try_map(slot, Option::as_mut).map_err(|_| Error::PoolClosed)
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for slot in &self.slots {
            if let Some(kept) = slot.lock().await.take() {
                // What it could not tidy up is done by the next one who opens the file.
                let _ = kept.connection.close().await;
            }
        }
    }
}

/// A connection that is lent.
pub(crate) enum Lent {
    OfFile(OwnedMappedMutexGuard<Option<Kept>, Kept>),
    OfServer(PoolConnection<Any>),
}

impl Lent {
    /// Gives it back as one that nobody may use again. The line to a server is given up without a word.
    pub(crate) fn discard(self) {
        match self {
            Lent::OfFile(mut kept) => kept.is_spent = true,
            Lent::OfServer(connection) => drop(connection.detach()),
        }
    }
}

impl Deref for Lent {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Lent::OfFile(kept) => &kept.connection,
            Lent::OfServer(connection) => connection,
        }
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Lent::OfFile(kept) => &mut kept.connection,
            Lent::OfServer(connection) => connection,
        }
    }
}

/// A transaction in which everything stays as it was when it began.
pub(crate) struct View(Lent);

impl View {
    pub(crate) async fn begin(mut lent: Lent, begin: &'static str) -> Result<View, Error> {
        AnyTransactionManager::begin(&mut lent, Some(begin.into_sql_str())).await?;
        Ok(View(lent))
    }
}

impl Deref for View {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.0
    }
}

impl DerefMut for View {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.0
    }
}

impl Drop for View {
    fn drop(&mut self) {
        AnyTransactionManager::start_rollback(&mut self.0);
    }
}
