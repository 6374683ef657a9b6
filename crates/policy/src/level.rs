//! What each access level means, one dimension at a time.

use std::collections::BTreeSet;

use contract::{Action, Actions, Category, Level};
use serde::{Deserialize, Serialize};

/// Where files may be touched.
///
/// No verdict rests on it yet: every tool there is works in the agent's workspace and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSystem {
    /// In the agent's own workspace.
    WorkspaceOnly,
    /// In the project's directory.
    ProjectDirectory,
    /// Wherever the configuration grants a directory.
    Full,
}

/// Whom a call may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nobody.
    None,
    /// Listed hosts, and for one call those that people say yes to.
    AllowlistOnly,
    /// Any public host, on the configured ports.
    Open,
}

/// What may be done to repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Git {
    /// Whatever stays on this machine.
    LocalOnly,
    /// Fetch and branch.
    ReadAndBranch,
    /// Push as well.
    Full,
}

/// Which commands may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// None.
    None,
    /// Those of the profiles.
    RestrictedCommands,
    /// Any.
    Full,
}

/// A level's constraints. An allow never skips them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Constraints {
    /// Which tools it includes.
    pub categories: BTreeSet<Category>,
    /// Where files may be touched.
    pub file_system: FileSystem,
    /// Whom a call may reach.
    pub network: Network,
    /// What may be done to repositories.
    pub git: Git,
    /// Which commands may be run.
    pub terminal: Terminal,
    /// Whether software may go live.
    pub deployment: bool,
    /// What people must approve.
    pub requires_approval: BTreeSet<Action>,
}

/// Changes to a level's constraints; what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overrides {
    /// Which tools it includes.
    pub categories: Option<BTreeSet<Category>>,
    /// Where files may be touched.
    pub file_system: Option<FileSystem>,
    /// Whom a call may reach.
    pub network: Option<Network>,
    /// What may be done to repositories.
    pub git: Option<Git>,
    /// Which commands may be run.
    pub terminal: Option<Terminal>,
    /// Whether software may go live.
    pub deployment: Option<bool>,
    /// What people must approve.
    pub requires_approval: Option<BTreeSet<Action>>,
}

/// The tools that a level includes.
pub fn categories_of(level: Level) -> BTreeSet<Category> {
    use Category::{
        Analytics, CodeExecution, Communication, Database, Design, FileSystem, Memory, Terminal,
        VersionControl, Web,
    };
    let sandboxed = [FileSystem, CodeExecution, VersionControl, Memory];
    let restricted = [Web, Database];
    let standard = [Terminal, Analytics, Design, Communication];
    match level {
        Level::Custom => BTreeSet::new(),
        Level::Sandboxed => sandboxed.into(),
        Level::Restricted => sandboxed.into_iter().chain(restricted).collect(),
        Level::Standard => sandboxed.into_iter().chain(restricted).chain(standard).collect(),
        // Other people's tools are named per agent, at every level.
        Level::Elevated => Category::ALL.iter().copied().filter(|c| *c != Category::Mcp).collect(),
    }
}

/// What people must approve at `restricted`, wherever an agent is given such tools there: writing to databases, and going live.
const ASKED_WHEN_RESTRICTED: [&str; 4] = ["db:mutate", "db:admin", "deploy:staging", "deploy:production"];

impl Constraints {
    /// What a level means where nothing is configured.
    pub fn of(level: Level) -> Constraints {
        let narrow = Constraints {
            categories: categories_of(level),
            file_system: FileSystem::WorkspaceOnly,
            network: Network::None,
            git: Git::LocalOnly,
            terminal: Terminal::None,
            deployment: false,
            requires_approval: BTreeSet::new(),
        };
        let built_in = Actions::built_in();
        match level {
            Level::Custom | Level::Sandboxed => narrow,
            Level::Restricted => Constraints {
                file_system: FileSystem::ProjectDirectory,
                network: Network::AllowlistOnly,
                git: Git::ReadAndBranch,
                requires_approval: ASKED_WHEN_RESTRICTED
                    .iter()
                    .flat_map(|name| built_in.parse(name))
                    .collect(),
                ..narrow
            },
            Level::Standard => Constraints {
                file_system: FileSystem::ProjectDirectory,
                network: Network::AllowlistOnly,
                git: Git::Full,
                terminal: Terminal::RestrictedCommands,
                ..narrow
            },
            Level::Elevated => Constraints {
                file_system: FileSystem::Full,
                network: Network::Open,
                git: Git::Full,
                terminal: Terminal::Full,
                deployment: true,
                ..narrow
            },
        }
    }

    /// What both permit.
    #[must_use]
    pub fn at_most(self, highest: &Constraints) -> Constraints {
        Constraints {
            categories: self.categories.intersection(&highest.categories).copied().collect(),
            file_system: self.file_system.min(highest.file_system),
            network: self.network.min(highest.network),
            git: self.git.min(highest.git),
            terminal: self.terminal.min(highest.terminal),
            deployment: self.deployment && highest.deployment,
            requires_approval: &self.requires_approval | &highest.requires_approval,
        }
    }

    /// The same with changes.
    #[must_use]
    pub fn with(self, overrides: &Overrides) -> Constraints {
        Constraints {
            categories: overrides.categories.clone().unwrap_or(self.categories),
            file_system: overrides.file_system.unwrap_or(self.file_system),
            network: overrides.network.unwrap_or(self.network),
            git: overrides.git.unwrap_or(self.git),
            terminal: overrides.terminal.unwrap_or(self.terminal),
            deployment: overrides.deployment.unwrap_or(self.deployment),
            requires_approval: overrides.requires_approval.clone().unwrap_or(self.requires_approval),
        }
    }
}
