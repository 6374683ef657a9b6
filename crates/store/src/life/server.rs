//! Locks at a database server: a session of its own holds an advisory lock, and the server lets go of it when the
//! session ends, which it does when its process dies.
//!
//! A session can also end while its gate lives: the server was started anew, the line was cut. So the gate looks after
//! its session all the time and takes the lock again, and others give it a moment to do so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::GateId;
use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Row};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::error::StoreError;

/// How long others wait for a gate to take its lock again. Several times longer than it takes to notice and do so.
pub(super) const GRACE: Duration = Duration::from_millis(1500);

/// How often a gate looks after its session.
const LOOK_AFTER: Duration = Duration::from_millis(300);

/// After this long a server that does not answer counts as gone.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The session is there to be there: it must not be ended for it.
const SETTINGS: &str = "SET idle_session_timeout = 0";
const TAKE: &str = "SELECT pg_try_advisory_lock($1) AS taken";
/// Held until the end of the statement: whoever looks stands in nobody's way.
const LOOK: &str = "SELECT pg_try_advisory_xact_lock_shared($1) AS free";

/// Who this gate is at a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    options: AnyConnectOptions,
    settings: String,
    /// Taken by whoever makes a session, so that there is one.
    making: tokio::sync::Mutex<()>,
    own: Mutex<Option<Held>>,
}

/// A session that is looked after.
#[derive(Debug)]
struct Held {
    id: GateId,
    keeper: JoinHandle<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // The session ends with the one who looks after it.
        self.keeper.abort();
    }
}

impl Sessions {
    pub(super) fn at(options: AnyConnectOptions, settings: String) -> Sessions {
        Sessions {
            options,
            settings: format!("{settings}; {SETTINGS}"),
            making: Default::default(),
            own: Mutex::new(None),
        }
    }

    pub(super) async fn own(&self) -> Result<GateId, StoreError> {
        let _making = self.making.lock().await;
        if let Some(id) = self.own_if_any() {
            return Ok(id);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StoreError::Life(std::io::Error::other(error)))?;
        let id = GateId::from_random(random);
        let number = number_of(&id);
        let session = self.take(number).await?;
        let session = session.ok_or(StoreError::Unreadable { what: "lock of a new gate" })?;
        let keeper = Keeper { options: self.options.clone(), settings: self.settings.clone(), number };
        let keeper = tokio::spawn(keeper.keep(session));
        *self.lock() = Some(Held { id: id.clone(), keeper });
        Ok(id)
    }

    pub(super) fn own_if_any(&self) -> Option<GateId> {
        self.lock().as_ref().map(|held| held.id.clone())
    }

    pub(super) async fn forget(&self, lost: &GateId) {
        let _making = self.making.lock().await;
        let mut own = self.lock();
        if own.as_ref().is_some_and(|held| held.id == *lost) {
            *own = None;
        }
    }

    async fn take(&self, number: i64) -> Result<Option<AnyConnection>, StoreError> {
        take(&self.options, &self.settings, number).await
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        // Whoever panicked with it in hand has left it whole.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a gate's lock is held, looked at from any session.
pub(super) async fn lives(connection: &mut AnyConnection, gate: &GateId) -> Result<bool, StoreError> {
    let row = sqlx::query(LOOK).bind(number_of(gate)).fetch_one(connection).await?;
    Ok(!row.try_get::<bool, _>("free")?)
}

/// Looks after a session.
struct Keeper {
    options: AnyConnectOptions,
    settings: String,
    number: i64,
}

impl Keeper {
    async fn keep(self, mut session: AnyConnection) {
        loop {
            sleep(LOOK_AFTER).await;
            let looked = timeout(UNANSWERED, sqlx::query("SELECT 1").execute(&mut session)).await;
            if !matches!(looked, Ok(Ok(_))) {
                session = self.retake().await;
            }
        }
    }

    async fn retake(&self) -> AnyConnection {
        loop {
            // Held by the old session until the server notices its end; that counts as living, too.
            if let Ok(Some(session)) = take(&self.options, &self.settings, self.number).await {
                return session;
            }
            sleep(LOOK_AFTER).await;
        }
    }
}

/// A session that holds the lock; nothing if another one does.
async fn take(
    options: &AnyConnectOptions,
    settings: &str,
    number: i64,
) -> Result<Option<AnyConnection>, StoreError> {
    let mut session = connect(options, settings).await?;
    let row = sqlx::query(TAKE).bind(number).fetch_one(&mut session).await?;
    Ok(row.try_get::<bool, _>("taken")?.then_some(session))
}

async fn connect(options: &AnyConnectOptions, settings: &str) -> Result<AnyConnection, StoreError> {
    let connected = timeout(UNANSWERED, async {
        let mut connection = options.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(settings.to_owned())).execute(&mut connection).await?;
        Ok(connection)
    });
    Ok(connected.await.unwrap_or(Err(sqlx::Error::PoolTimedOut))?)
}

/// The number by which the server knows a gate's lock: half of its id, which is random.
fn number_of(gate: &GateId) -> i64 {
    let half = gate.as_str().get(..16).and_then(|half| u64::from_str_radix(half, 16).ok());
    i64::from_ne_bytes(half.unwrap_or_default().to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_numbers_of_their_own() {
        let number = |byte| number_of(&GateId::from_random([byte; 16]));
        assert_eq!(number(0), 0);
        assert_eq!(number(0xff), -1);
        assert_ne!(number(1), number(2));
    }
}
