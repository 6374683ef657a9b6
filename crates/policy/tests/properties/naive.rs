//! The verdict again, written from the requirements alone (A8, B2, D2, D3, F1, F2, H1 and DESIGN's table of the first ten
//! minutes), with no eye on how `decide` does it. Slow, short, and without reasons.

use contract::Autonomy::{Full, Locked, Supervised};
use contract::Category::{self, Deployment, FileSystem, Mcp, VersionControl};
use contract::EgressClass::{None as Stays, ReadOnly};
use contract::SafetyClass::{Financial, Privileged, Read, Write};
use contract::{Level, Profile, ToolStatus, TrustLabel};
use policy::{Admitted, Constraints, Facts, Git, Network, RuleEffect, Settings, Terminal, WorkspaceAccess};

/// 0 is allow, 1 is ask, 2 is deny.
pub(crate) fn rank(call: &Admitted, facts: &Facts, settings: &Settings) -> u8 {
    let Admitted { tool, facets, .. } = call;
    let Some(agent) = settings.agents.get(&call.agent) else { return 2 };
    let named = |globs: &[policy::ToolGlob]| globs.iter().any(|glob| glob.matches(&tool.name));
    let level = levels(agent.level).with(settings.levels.get(&agent.level).unwrap_or(&Default::default()));
    let level = level.with(&agent.overrides);
    let rules: Vec<RuleEffect> =
        settings.rules.iter().filter(|rule| rule.tool.matches(&tool.name)).map(|rule| rule.effect).collect();
    let reaches_out = facets.egress > Stays || facets.profile == Some(Profile::Networked);
    let people =
        [0, 1, 2][usize::from(facets.safety >= Financial) + usize::from(facets.safety == Privileged)];
    let changes = facets.safety > Read;
    let writes_files = tool.category == FileSystem && facets.access == WorkspaceAccess::Write;
    let unlisted = facets.commands.iter().any(|command| match &settings.shell.allowed {
        Some(allowed) => !allowed.contains(&command.name),
        None => command.unlisted.is_some() && level.terminal != Terminal::Full,
    });
    let denied_command = |name: &str| {
        settings.shell.denied.iter().any(|denied| name == denied || name.ends_with(&format!("/{denied}")))
    };
    let deny = [
        matches!(tool.status, ToolStatus::Disabled | ToolStatus::Suspended),
        named(&settings.disabled)
            || named(&agent.denied)
            || settings.unavailable.contains_key(&tool.category),
        !named(&agent.allowed) && !level.categories.contains(&tool.category),
        tool.category == Category::Terminal && level.terminal == Terminal::None,
        tool.category == Deployment && !level.deployment,
        tool.category == VersionControl && level.git == Git::LocalOnly && facets.egress > Stays,
        tool.category == VersionControl && level.git == Git::ReadAndBranch && facets.egress > ReadOnly,
        facets.hosts.iter().any(|host| super::cases::PRIVATE_HOSTS.contains(&host.as_str())),
        reaches_out && (level.network == Network::None || !facts.egress),
        facets.safety > tool.safety || facets.egress > tool.egress,
        unlisted || facets.commands.iter().any(|command| denied_command(&command.name)),
        writes_files && settings.files.read_only,
        writes_files && !settings.files.delete && facets.action.as_str() == "code:delete",
        facts.operators < people,
        agent.autonomy == Locked && changes,
        rules.contains(&RuleEffect::Deny),
    ];
    if deny.contains(&true) {
        return 2;
    }
    let stays_inside = facets.safety <= Write && facets.egress == Stays;
    let waived = facets.safety < Financial
        && tool.trust == TrustLabel::Internal
        && (agent.auto_approve.contains(&facets.action)
            || (stays_inside && (agent.autonomy == Full || rules.contains(&RuleEffect::Approve))));
    let ask = [
        people > 0,
        level.requires_approval.contains(&facets.action),
        agent.human_approval.contains(&facets.action),
        !(waived || is_free(facets.action.as_str()) && facets.egress <= ReadOnly),
        agent.autonomy == Supervised && changes,
        rules.contains(&RuleEffect::Prompt),
        tool.requires_approval,
        matches!(tool.trust, TrustLabel::Untrusted | TrustLabel::Imported),
    ];
    let answered = facts.consent.as_ref().is_some_and(|yes| {
        yes.agent == call.agent
            && yes.arguments == call.arguments
            && yes.operands == call.operands
            && yes.contract == tool.hash
            && settings.hash().is_ok_and(|hash| hash == yes.policy)
            && yes.expires_at > facts.now
            && yes.by.len() >= people.max(1)
    });
    match ask.contains(&true) && !answered {
        false => 0,
        // What too few people could answer is not asked.
        true if facts.operators < people.max(1) => 2,
        true => 1,
    }
}

/// The table of the first ten minutes, by action.
fn is_free(action: &str) -> bool {
    let (category, verb) = action.split_once(':').unwrap_or_default();
    match category {
        "code" => verb != "delete",
        "exec" => matches!(verb, "inspect" | "build" | "code"),
        "vcs" => verb != "push",
        "db" => verb == "query",
        "web" => verb == "read",
        "test" | "docs" | "memory" => true,
        _ => false,
    }
}

/// D3, level by level.
fn levels(level: Level) -> Constraints {
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
    Constraints { categories, network, git, terminal, deployment, ..Constraints::of(Level::Custom) }
}
