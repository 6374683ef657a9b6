//! Agents that are ready made: what each preset means, all of it here.
//!
//! An agent with a preset has what is said here, and what its own configuration says besides: its own `level`, `autonomy`,
//! `allowed_tools`, `auto_approve` and each of its own `overrides` take the place of the preset's; what a preset denies or has
//! people asked about, the agent's own lists only add to.
//!
//! # Invariants
//! - A preset that only reads names the tools that it sees and the actions that it takes. What is added to either later it
//!   does not have until it is named here.

use std::collections::BTreeSet;

use contract::{Action, Actions, Autonomy, Level};

use crate::level::{Network, Overrides, Terminal};
use crate::settings::{Agent, ToolGlob};

/// An agent that is ready made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    /// Works on the code in its workspace; asks for what leaves it or cannot be undone.
    Coder,
    /// Reads files and the web, and keeps what it finds in its memory.
    Researcher,
    /// Reads files and history; asks before it runs the tests.
    Reviewer,
    /// Reads, and nothing else.
    Locked,
}

/// Looking at files and at history.
const LOOKING: [&str; 8] =
    ["fs.read", "fs.list", "fs.stat", "fs.search", "git.status", "git.diff", "git.log", "git.show"];

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 4] = [Preset::Coder, Preset::Researcher, Preset::Reviewer, Preset::Locked];

    /// Its name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Coder => "coder",
            Preset::Researcher => "researcher",
            Preset::Reviewer => "reviewer",
            Preset::Locked => "locked",
        }
    }

    /// What it means.
    pub fn agent(self) -> Agent {
        match self {
            Preset::Coder => Agent { level: Level::Standard, autonomy: Autonomy::Semi, ..Agent::default() },
            Preset::Researcher => Agent {
                level: Level::Custom,
                autonomy: Autonomy::Semi,
                allowed: tools(&[
                    &LOOKING,
                    &["http.request", "web.search", "web.scrape", "browser.open", "browser.screenshot"],
                    &["memory.store", "memory.search", "memory.recall"],
                ]),
                denied_actions: all_but(&[
                    "code:read",
                    "vcs:read",
                    "web:read",
                    "memory:read",
                    "memory:write",
                    "budget:spend",
                ]),
                overrides: Overrides { network: Some(Network::AllowlistOnly), ..Overrides::default() },
                ..Agent::default()
            },
            Preset::Reviewer => Agent {
                level: Level::Custom,
                // Running the tests writes in the workspace, so people are asked each time.
                autonomy: Autonomy::Supervised,
                allowed: tools(&[&LOOKING, &["git.branch", "shell"]]),
                denied_actions: all_but(&[
                    "code:read",
                    "vcs:read",
                    "exec:inspect",
                    "exec:build",
                    "test:run",
                    "budget:spend",
                ]),
                overrides: Overrides {
                    network: Some(Network::None),
                    terminal: Some(Terminal::RestrictedCommands),
                    ..Overrides::default()
                },
                // Whatever autonomy or list the agent is given besides.
                human_approval: actions(&["exec:build", "test:run"]),
                ..Agent::default()
            },
            Preset::Locked => Agent {
                level: Level::Custom,
                autonomy: Autonomy::Locked,
                allowed: tools(&[&LOOKING, &["memory.search", "memory.recall"]]),
                denied_actions: all_but(&["code:read", "vcs:read", "memory:read", "budget:spend"]),
                overrides: Overrides { network: Some(Network::None), ..Overrides::default() },
                ..Agent::default()
            },
        }
    }
}

fn tools(lists: &[&[&str]]) -> Vec<ToolGlob> {
    lists.iter().copied().flatten().flat_map(|name| ToolGlob::parse(name)).collect()
}

fn actions(names: &[&str]) -> BTreeSet<Action> {
    Actions::default().all().filter(|action| names.contains(&action.as_str())).collect()
}

/// Every action there is besides these. What looking costs may be spent, and no more than there is a budget for.
fn all_but(taken: &[&str]) -> BTreeSet<Action> {
    Actions::default().all().filter(|action| !taken.contains(&action.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_a_preset_is_one() {
        for preset in Preset::ALL {
            let agent = preset.agent();
            assert!(agent.allowed.iter().all(|glob| !glob.as_str().contains('*')), "{}", preset.as_str());
            assert_eq!(
                agent.allowed.len(),
                agent.allowed.iter().map(ToolGlob::as_str).collect::<BTreeSet<_>>().len()
            );
        }
        assert_eq!(Preset::Researcher.agent().allowed.len(), 16);
        assert_eq!(Preset::Reviewer.agent().allowed.len(), 10);
        assert_eq!(Preset::Locked.agent().allowed.len(), 10);
        let all = Actions::default().all().count();
        assert_eq!(Preset::Researcher.agent().denied_actions.len(), all - 6);
        assert_eq!(Preset::Reviewer.agent().denied_actions.len(), all - 6);
        assert_eq!(Preset::Locked.agent().denied_actions.len(), all - 4);
    }
}
