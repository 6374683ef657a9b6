//! What people and programs rely on in `toolgate run`, `doctor` and `config`, seen through the real binary.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests start processes, open sockets and fail aloud"
)]

mod backends;
mod bad_input;
mod config;
mod doctor;
mod exit_codes;
mod help;
mod profiles;
mod report;
mod scan;
mod signals;
mod streams;
mod terminal;
#[path = "../toolgate/mod.rs"]
mod toolgate;
mod without_namespaces;

/// The names of what an object has, in alphabetical order.
fn parts_of(object: &serde_json::Value) -> Vec<&str> {
    let mut parts: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    parts.sort_unstable();
    parts
}
