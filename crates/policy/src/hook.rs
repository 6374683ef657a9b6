//! Programs that are heard about calls, as a configuration names them.
//!
//! Knows neither how they are run nor what they say: they are settings because another program decides otherwise.

use std::path::PathBuf;

use contract::{Digest, ToolName};
use serde::Serialize;

use crate::settings::ToolGlob;

/// A program that is heard about calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookSettings {
    /// By which it is named in reasons and receipts.
    pub name: String,
    /// Where it is, without links.
    pub command: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it was when it was configured: another program is another policy.
    pub digest: Digest,
    /// When it is heard.
    pub when: HookTime,
    /// About calls of which tools.
    pub tools: Vec<ToolGlob>,
    /// How long it may take, in milliseconds.
    pub timeout: u64,
}

impl HookSettings {
    /// Whether it is heard about a tool at one of the two times.
    pub fn hears(&self, time: HookTime, tool: &ToolName) -> bool {
        (self.when == time || self.when == HookTime::Both) && self.tools.iter().any(|glob| glob.matches(tool))
    }
}

/// When a program is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookTime {
    /// Before a call runs.
    Before,
    /// After it has.
    After,
    /// Before and after.
    Both,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn hook(when: HookTime, tools: &str) -> HookSettings {
        HookSettings {
            name: "minder".to_owned(),
            command: "/etc/toolgate/minder".into(),
            arguments: Vec::new(),
            digest: Digest::of(b"#!/bin/sh\n"),
            when,
            tools: vec![ToolGlob::parse(tools).unwrap()],
            timeout: 2000,
        }
    }

    #[test]
    fn a_program_hears_of_its_tools_at_its_time() {
        let tool = |name| ToolName::parse(name).unwrap();
        let hears = |when, tools, time, name| hook(when, tools).hears(time, &tool(name));
        assert!(hears(HookTime::Before, "fs.*", HookTime::Before, "fs.read"));
        assert!(hears(HookTime::Both, "*", HookTime::After, "shell"));
        assert!(!hears(HookTime::Before, "fs.*", HookTime::After, "fs.read"));
        assert!(!hears(HookTime::Both, "fs.*", HookTime::Before, "shell"));
    }

    #[test]
    fn another_program_is_another_policy() {
        let hash = |hooks| Settings { hooks, ..Settings::default() }.hash().unwrap();
        let one = hook(HookTime::Both, "*");
        let other = HookSettings { digest: Digest::of(b"#!/bin/bash\n"), ..one.clone() };
        let (none, one, other) = (hash(Vec::new()), hash(vec![one]), hash(vec![other]));
        assert!(none != one && one != other && none != other);
    }
}
