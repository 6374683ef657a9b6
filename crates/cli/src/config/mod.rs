//! What the process was given: its environment, and its configuration in two stages.
//!
//! First what a person typed, strictly ([`file`]); then what it means ([`meaning`]). What is read and cannot be held to
//! yet is said aloud, and where ignoring it would be weaker than what was asked, the meaning is the stricter one.

mod at;
mod environment;
mod file;
mod load;
mod look;
mod meaning;
mod problem;
mod rule_schema;
mod schema;
#[cfg(test)]
mod tests;
mod tool_names;
mod way;
mod word;
mod written;

pub(crate) use environment::{
    config_file, home_is_named, host, log_filter, logs_json, operator_key, secret_in, state_folder, store_in,
    store_url,
};
pub(crate) use load::{
    FILE_NAME, LoadError, Loaded, Source, load, load_file, load_shadow, name_of, place, read, understand_text,
};
pub(crate) use look::Look;
pub(crate) use meaning::{
    Channel, ChannelWay, Chat, Collector, LacksExamples, Meaning, Records, Telling, Tls, WhileRunning,
};
pub(crate) use rule_schema::{KnownTools, facts_of};
pub(crate) use schema::schema;
pub(crate) use way::way_through;
pub(crate) use written::Written;
