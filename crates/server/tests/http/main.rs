//! The HTTP surface over real sockets, before a gate that only remembers what it was asked.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "what a test needs and does not get fails it; it is a client of the server"
)]

mod access;
mod authenticator;
mod chat;
mod client;
mod crowd;
mod desk;
mod entrance;
mod entry;
mod events;
mod openapi;
mod outside;
mod page;
mod people;
mod protocol;
mod sign_in;
mod slow;
mod stub;
