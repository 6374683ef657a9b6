//! The latest time that is on record: whoever reads an earlier one has a clock that was set back.

use sqlx::Row;

use crate::error::StoreError;
use crate::open::Store;

const LATEST: &str = "SELECT time FROM ledger ORDER BY seq DESC LIMIT 1";

impl Store {
    /// When the latest entry of the ledger was made, in milliseconds since 1970.
    pub async fn latest_time(&self) -> Result<Option<i64>, StoreError> {
        let row = sqlx::query(LATEST).fetch_optional(&mut *self.read().await?).await?;
        Ok(row.map(|row| row.try_get("time")).transpose()?)
    }
}
