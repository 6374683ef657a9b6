//! The HTTP surface over real sockets, before a gate that only remembers what it was asked.

mod access;
mod client;
mod events;
mod page;
mod protocol;
mod sign_in;
mod stub;
