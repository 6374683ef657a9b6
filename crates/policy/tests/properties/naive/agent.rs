//! How far an agent goes: D3 and D4, and what docs/configuration.md says of roles and seniority.

use contract::Autonomy::{self, Full, Semi, Supervised};
use contract::Category::{self, Deployment, FileSystem, Mcp, VersionControl};
use contract::{Action, Actions, Level};
use policy::Seniority::{Junior, Lead, Mid, Senior};
use policy::{Agent, Constraints, Git, Network, Settings, Terminal, ToolFacts};

/// Whether its role, if it has one, includes a tool. A role that there is not includes nothing.
pub(super) fn has_in_role(agent: &Agent, tool: &ToolFacts, settings: &Settings) -> bool {
    let Some(name) = &agent.role else { return true };
    let Some(role) = settings.roles.get(name) else { return false };
    let is_denied = role.denied.iter().any(|glob| glob.matches(&tool.name));
    let is_named = role.tools.iter().any(|glob| glob.matches(&tool.name));
    (is_named || role.categories.contains(&tool.category)) && !is_denied
}

/// Its autonomy, at most that of its seniority.
pub(super) fn autonomy_of(agent: &Agent) -> Autonomy {
    match (agent.seniority, agent.autonomy) {
        (Some(Junior), Full | Semi) => Supervised,
        (Some(Mid), Full) => Semi,
        (_, own) => own,
    }
}

/// Its level, at most that of its seniority.
pub(super) fn level_of(agent: &Agent) -> Level {
    match (agent.seniority, agent.level) {
        (Some(Junior), Level::Standard | Level::Elevated) => Level::Restricted,
        (Some(Mid | Senior), Level::Elevated) => Level::Standard,
        (_, own) => own,
    }
}

/// What its level and its overrides let it do, each dimension held to that of the highest level of its seniority.
pub(crate) fn constraints_of(agent: &Agent, settings: &Settings) -> Constraints {
    let configured = |level| built_in(level).with(settings.levels.get(&level).unwrap_or(&Default::default()));
    let own = configured(agent.level).with(&agent.overrides);
    let highest = match agent.seniority {
        None => return own,
        Some(Junior) => configured(Level::Restricted),
        Some(Mid | Senior) => configured(Level::Standard),
        Some(Lead) => configured(Level::Elevated),
    };
    Constraints {
        categories: own
            .categories
            .into_iter()
            .filter(|category| highest.categories.contains(category))
            .collect(),
        file_system: own.file_system.min(highest.file_system),
        network: own.network.min(highest.network),
        git: own.git.min(highest.git),
        terminal: own.terminal.min(highest.terminal),
        deployment: own.deployment && highest.deployment,
        requires_approval: own.requires_approval.into_iter().chain(highest.requires_approval).collect(),
    }
}

/// D3, level by level.
fn built_in(level: Level) -> Constraints {
    use Category::{
        Analytics, CodeExecution, Communication, Database, Design, Memory, Terminal as Commands, Web,
    };
    let all = [
        FileSystem,
        CodeExecution,
        VersionControl,
        Memory,
        Web,
        Database,
        Commands,
        Analytics,
        Design,
        Communication,
        Deployment,
        Category::Other,
    ];
    let (count, network, git, terminal) = match level {
        Level::Custom => (0, Network::None, Git::LocalOnly, Terminal::None),
        Level::Sandboxed => (4, Network::None, Git::LocalOnly, Terminal::None),
        Level::Restricted => (6, Network::AllowlistOnly, Git::ReadAndBranch, Terminal::None),
        Level::Standard => (10, Network::AllowlistOnly, Git::Full, Terminal::RestrictedCommands),
        Level::Elevated => (12, Network::Open, Git::Full, Terminal::Full),
    };
    let categories = all.into_iter().take(count).filter(|category| *category != Mcp).collect();
    let deployment = level == Level::Elevated;
    let asked = |action: &Action| {
        let name = action.as_str();
        level == Level::Restricted
            && (name.starts_with("deploy:") || matches!(name, "db:mutate" | "db:admin"))
    };
    let requires_approval = Actions::built_in().all().filter(asked).collect();
    Constraints {
        categories,
        network,
        git,
        terminal,
        deployment,
        requires_approval,
        ..Constraints::of(Level::Custom)
    }
}
