//! Commands that are more than one file's worth.

pub(crate) mod config;
mod origin;
mod shown;
mod table;
