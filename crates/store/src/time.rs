//! The latest time that is on record: whoever reads an earlier one has a clock that was set back. And how time goes on
//! meanwhile, from one process to the next: by how long the host has been up, which nobody sets.

use sqlx::Row;

use crate::error::StoreError;
use crate::open::Store;

const WITNESS: &str = "SELECT since_boot, time FROM clocks WHERE boot = $1";
const FORGET: &str = "DELETE FROM clocks WHERE time < $1";
const KEEP: &str = "INSERT INTO clocks (boot, since_boot, time) VALUES ($1, $2, $3) ON CONFLICT (boot) DO UPDATE \
    SET since_boot = excluded.since_boot, time = excluded.time \
    WHERE excluded.time - excluded.since_boot > clocks.time - clocks.since_boot";
const LATEST: &str = "SELECT time FROM ledger ORDER BY seq DESC LIMIT 1";

/// How long it is known what time it was when a host was started, in milliseconds: longer than anything lives that ends
/// with time.
const KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1000;

/// What time it was at a moment that is known by how long a host had been up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which start of which host.
    pub boot: String,
    /// How long ago that was, in milliseconds.
    pub since_boot: i64,
    /// What time it was, in milliseconds since 1970.
    pub time: i64,
}

impl Store {
    /// What time it was at some moment since a host was started, if anybody has kept it.
    pub async fn witness(&self, boot: &str) -> Result<Option<Witness>, StoreError> {
        let row = sqlx::query(WITNESS).bind(boot).fetch_optional(&mut *self.read().await?).await?;
        let witness = |row: sqlx::any::AnyRow| -> Result<Witness, StoreError> {
            let (since_boot, time) = (row.try_get("since_boot")?, row.try_get("time")?);
            Ok(Witness { boot: boot.to_owned(), since_boot, time })
        };
        row.map(witness).transpose()
    }

    /// Keeps what time it is, unless it is known to be later.
    pub async fn keep_witness(&self, witness: &Witness) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        let old = sqlx::query(FORGET).bind(witness.time.saturating_sub(KEPT_MS));
        old.execute(write.connection().await?).await?;
        let keep = sqlx::query(KEEP).bind(&witness.boot).bind(witness.since_boot).bind(witness.time);
        keep.execute(write.connection().await?).await?;
        write.commit().await
    }

    /// When the latest entry of the ledger was made, in milliseconds since 1970.
    pub async fn latest_time(&self) -> Result<Option<i64>, StoreError> {
        let row = sqlx::query(LATEST).fetch_optional(&mut *self.read().await?).await?;
        Ok(row.map(|row| row.try_get("time")).transpose()?)
    }
}
