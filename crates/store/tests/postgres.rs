//! The store on PostgreSQL: the same suite as on SQLite, on the server that `TOOLGATE_TEST_POSTGRES` names.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]
#![expect(clippy::panic, reason = "so is what it gets and did not expect")]

#[path = "store/mod.rs"]
mod store_on;

#[path = "store/disk.rs"]
mod disk;

#[path = "store/full.rs"]
mod full;

#[path = "store/lost.rs"]
mod lost;

#[path = "store/server.rs"]
mod server;

#[path = "store/wire.rs"]
mod wire;

use store_on::{Database, gate};

/// What the suite runs on.
const DATABASE: Database = Database::Postgres;
