//! SQLite in the thread of whoever asks: a driver for `sqlx::Any`.
//!
//! The driver of sqlx has a thread for each connection, and so two changes of thread for each question, which take longer
//! than most answers do. What a call asks and tells is a matter of microseconds; what waits for the disk is elsewhere
//! (`crate::durable`, `fold`).
//!
//! # Invariants
//! - Nothing waits in the thread for other processes: what they hold is asked for again after a pause.

mod connection;
mod fold;
mod shape;
mod values;

use std::sync::Once;

use sqlx_core::any::driver::{AnyDriver, install_drivers};

pub(crate) use fold::Fold;
use shape::File;

/// Both databases that a store can be in.
static DRIVERS: [AnyDriver; 2] = [AnyDriver::without_migrate::<File>(), sqlx::postgres::any::DRIVER];

/// Makes both databases known to `sqlx::Any`. Once is enough.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails only if others are installed already, and nobody else in this program speaks SQL.
        let _ = install_drivers(&DRIVERS);
    });
}
