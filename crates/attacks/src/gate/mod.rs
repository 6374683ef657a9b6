//! The threat model of the gate, executable: what a model may ask for, and what must not come of it.
//!
//! Every case opens a real gate: its store, its tools, its sandboxes. What it believes is what it sees at the target,
//! and what the ledger holds afterwards.

mod addresses;
mod answers;
mod approvals;
mod authenticator;
pub(crate) mod case;
mod commands;
mod console;
mod crashes;
mod disclosure;
mod doors;
mod entry;
mod files;
mod git;
mod hooks;
pub(crate) mod hosts;
mod imports;
mod input;
mod leases;
mod levels;
mod limits;
mod mcp_answers;
mod mcp_client;
mod mcp_door;
mod mcp_tokens;
mod money;
mod passed_on;
mod past;
pub(crate) mod payment;
mod people;
mod private;
mod raced;
mod reading;
mod records;
mod reload;
mod rule_programs;
mod rule_values;
mod rules;
mod seal_races;
mod seal_words;
mod seals;
mod secrets;
mod servers_of_others;
pub(crate) mod stand;
mod standing;
mod strangers;
mod suite;
mod surface;
mod upstreams;
mod visitor;
mod ways_in;
mod work;

pub use leases::LIAR;
pub(crate) use money::calls;
pub use suite::{Cases, GateSuite};
pub use visitor::serve_if_asked as serve_visitor_if_asked;

use case::Case;

/// Every case, by the name of its group.
fn all() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("commands", commands::cases()),
        ("files", files::cases()),
        ("git", git::cases()),
        ("approvals", approvals::cases()),
        ("answers", answers::cases()),
        ("seals", seals::cases()),
        ("words", seal_words::cases()),
        ("people", people::cases()),
        ("standing", standing::cases()),
        ("input", input::cases()),
        ("secrets", secrets::cases()),
        ("reading", reading::cases()),
        ("addresses", addresses::cases()),
        ("doors", doors::cases()),
        ("console", console::cases()),
        ("entry", entry::cases()),
        ("surface", surface::cases()),
        ("raced", raced::cases()),
        ("mcp_door", mcp_door::cases()),
        ("mcp_tokens", mcp_tokens::cases()),
        ("mcp_answers", mcp_answers::cases()),
        ("limits", limits::cases()),
        ("money", money::cases()),
        ("work", work::cases()),
        ("leases", leases::cases()),
        ("levels", levels::cases()),
        ("hooks", hooks::cases()),
        ("ways_in", ways_in::cases()),
        ("rules", rules::cases()),
        ("programs", rule_programs::cases()),
        ("values", rule_values::cases()),
        ("crashes", crashes::cases()),
        ("private", private::cases()),
        ("records", records::cases()),
        ("past", past::cases()),
        ("reload", reload::cases()),
        ("upstreams", upstreams::cases()),
        ("strangers", strangers::cases()),
        ("passed_on", passed_on::cases()),
        ("disclosure", disclosure::cases()),
        ("imports", imports::cases()),
    ]
}
