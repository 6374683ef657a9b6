//! The gate's commands, driven as people drive them: one thread from a call to a verified receipt.
#![expect(clippy::expect_used, clippy::panic, reason = "what a test needs and does not get fails it")]
#![expect(clippy::string_slice, reason = "what is not there fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests start the binary they test")]

#[path = "../toolgate/mod.rs"]
mod toolgate;

mod approvals;
mod bad_input;
mod budgets;
mod calls;
mod clients;
mod console;
mod crashes;
mod hooks;
mod http_api;
mod ledger;
mod lines;
mod many_tools;
mod mcp_http;
mod past;
mod people;
mod place;
mod policy;
mod private;
mod reload;
mod schemathesis;
mod servers;
mod sign_in;
mod telling;
mod told;
mod up;
mod web_servers;
