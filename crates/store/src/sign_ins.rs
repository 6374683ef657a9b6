//! What the gate has to show servers that it is signed in to.
//!
//! Knows nothing of what it means: it is bytes, and a secret as a whole.
//!
//! # Invariants
//! - It is in the database sealed, under the gate's own key and for its server.
//! - What is told of a sign-in is in the ledger with it, or neither is there.

use serde_json::Value;
use sqlx::Row;
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::open::Store;

const KEPT: &str = "SELECT sealed FROM sign_ins WHERE server = $1";
const KEEP: &str = "INSERT INTO sign_ins (server, sealed, changed_at) VALUES ($1, $2, $3) \
    ON CONFLICT (server) DO UPDATE SET sealed = excluded.sealed, changed_at = excluded.changed_at";

impl Store {
    /// What is kept for a server, opened.
    pub async fn sign_in(&self, server: &str) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let query = sqlx::query(KEPT).bind(server);
        let Some(row) = query.fetch_optional(&mut *self.read().await?).await? else { return Ok(None) };
        let sealed: Vec<u8> = row.try_get("sealed")?;
        let opened = self.keys().wrapping().open_sign_in(server, &sealed)?;
        Ok(Some(Zeroizing::new(opened)))
    }

    /// Keeps something for a server in the place of what was kept before, and tells the ledger.
    pub async fn keep_sign_in(
        &self,
        server: &str,
        kept: &[u8],
        told: Option<(&str, Value)>,
        now: i64,
    ) -> Result<(), StoreError> {
        let sealed = self.keys().wrapping().seal_sign_in(server, kept)?;
        let mut write = self.write().await?;
        let query = sqlx::query(KEEP).bind(server).bind(sealed).bind(now);
        query.execute(write.connection().await?).await?;
        if let Some((kind, body)) = told {
            write.append(now, kind, body).await?;
        }
        write.commit().await
    }

    /// Tells the ledger of something about a sign-in.
    pub async fn tell_of_sign_in(&self, kind: &str, body: Value, now: i64) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        write.append(now, kind, body).await?;
        write.commit().await
    }
}
