//! Who an agent is among others: its role says what it sees, its seniority how far it goes.
//!
//! # Invariants
//! - Both only narrow: no tool is seen, and nothing is free, that would not be without them.

use std::collections::BTreeSet;

use contract::{Autonomy, Category, Level, ToolName};
use serde::Serialize;

use crate::settings::ToolGlob;

/// What those see who have a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Role {
    /// The tools of these categories …
    pub categories: BTreeSet<Category>,
    /// … and these …
    pub tools: Vec<ToolGlob>,
    /// … but for these.
    pub denied: Vec<ToolGlob>,
}

impl Role {
    /// Whether a tool is one for this role. What it does not name is none.
    pub fn includes(&self, tool: &ToolName, category: Category) -> bool {
        let names = |globs: &[ToolGlob]| globs.iter().any(|glob| glob.matches(tool));
        !names(&self.denied) && (self.categories.contains(&category) || names(&self.tools))
    }
}

/// How far an agent goes at most, whatever else is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seniority {
    /// Begins.
    Junior,
    /// Works by itself.
    Mid,
    /// Knows what cannot be undone.
    Senior,
    /// Answers for others.
    Lead,
}

impl Seniority {
    /// All of them, from the one that goes least far.
    pub const ALL: [Seniority; 4] = [Seniority::Junior, Seniority::Mid, Seniority::Senior, Seniority::Lead];

    /// Its name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Seniority::Junior => "junior",
            Seniority::Mid => "mid",
            Seniority::Senior => "senior",
            Seniority::Lead => "lead",
        }
    }

    /// The level whose constraints are never passed.
    pub fn highest_level(self) -> Level {
        match self {
            Seniority::Junior => Level::Restricted,
            Seniority::Mid | Seniority::Senior => Level::Standard,
            Seniority::Lead => Level::Elevated,
        }
    }

    /// The autonomy that is never passed.
    pub fn highest_autonomy(self) -> Autonomy {
        match self {
            Seniority::Junior => Autonomy::Supervised,
            Seniority::Mid => Autonomy::Semi,
            Seniority::Senior | Seniority::Lead => Autonomy::Full,
        }
    }
}
