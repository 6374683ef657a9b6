//! The store on SQLite, from outside: through its API, and with raw SQL behind its back.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]
#![expect(clippy::panic, reason = "so is what it gets and did not expect")]

#[path = "store/mod.rs"]
mod store_on;

#[path = "store/disk.rs"]
mod disk;

#[path = "store/full.rs"]
mod full;

#[path = "store/files.rs"]
mod files;

use store_on::{Database, gate};

/// What the suite runs on.
const DATABASE: Database = Database::Sqlite;
