//! What configurations mean, and what is said about those that mean nothing.

mod agents;
mod bad_files;
mod cedar;
mod documented;
mod egress;
mod example_calls;
mod examples;
mod money;
mod spellings;
mod telling;
mod verdicts;

use std::path::Path;

use super::load::{LoadError, Loaded, understand};

/// Reads a text as if it stood in `/etc/toolgate/NAME`.
fn load(name: &str, text: &[u8]) -> Result<Loaded, String> {
    let path = Path::new("/etc/toolgate").join(name);
    understand(text, &path).map_err(|error| match error {
        LoadError::Invalid { problems, .. } => {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    })
}

/// Reads a text that can be used.
fn loaded(text: &str) -> Loaded {
    load("toolgate.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}
