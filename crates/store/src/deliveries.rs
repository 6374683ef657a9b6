//! Messages that came from elsewhere with a signature: each is taken once, by whichever gate it reaches first.

use contract::Digest;

use crate::error::StoreError;
use crate::open::Store;

const FORGET: &str = "DELETE FROM deliveries WHERE until <= $1";
const TAKE: &str = "INSERT INTO deliveries (digest, until) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";

impl Store {
    /// Takes a message. Whether it is the first time; it is remembered until then, also by other gates and after a
    /// restart.
    pub async fn take_delivery(&self, message: &Digest, until: i64, now: i64) -> Result<bool, StoreError> {
        let mut write = self.write().await?;
        sqlx::query(FORGET).bind(now).execute(write.connection().await?).await?;
        let take = sqlx::query(TAKE).bind(message.to_string()).bind(until);
        let taken = take.execute(write.connection().await?).await?.rows_affected();
        write.commit().await?;
        Ok(taken == 1)
    }
}
