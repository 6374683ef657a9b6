//! The verdict again, written from the requirements alone (A8, B2, D2 to D4, E2, F1, F2, G5, H1 and DESIGN's table of the first
//! ten minutes) and from what docs/configuration.md and docs/guide/budgets.md promise, with no eye on how `decide` does it.
//! Slow, and short.

mod agent;
mod cedar;
mod rules;
mod spending;

use std::collections::BTreeSet;

use contract::Autonomy::{Full, Locked, Supervised};
use contract::Category::{self, Deployment, FileSystem, VersionControl};
use contract::EgressClass::{None as Stays, ReadOnly};
use contract::SafetyClass::{Financial, Privileged, Read, Write};
use contract::{Action, Code, HostPattern, Profile, Reach, Target, ToolStatus, TrustLabel};
use policy::{Admitted, ApprovalRule, Facts, Git, Network, RuleEffect, Settings, Terminal, WorkspaceAccess};

pub(crate) use self::agent::constraints_of;
pub(crate) use self::cedar::{Condition, Plain};
pub(crate) use self::rules::heard;
pub(crate) use self::spending::{frees, longest, processors};

use self::agent::{autonomy_of, has_in_role};
use self::cedar::Says;
use self::spending::Spending;

/// What is decided: 0 is allow, 1 is ask, 2 is deny; why, if it is denied; and how many people it takes, if it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) rank: u8,
    pub(crate) code: Option<Code>,
    pub(crate) quorum: Option<usize>,
}

pub(crate) fn rank(call: &Admitted, facts: &Facts, settings: &Settings) -> u8 {
    decided(call, facts, settings, &[]).rank
}

/// The verdict. Of several reasons to deny, the first in the order of the layers counts.
pub(crate) fn decided(call: &Admitted, facts: &Facts, settings: &Settings, cedar: &[Plain]) -> Decided {
    use Code::{
        CannotEnforce, CommandNotAllowed, Constrained, DeniedByList, DeniedByRule, HostNotAllowed,
        Locked as IsLocked, NoOperator, NotInLevel, NotInRole, OverBudget, RuleFailed, ToolDisabled,
        UnknownAgent,
    };
    let denied = |code| Decided { rank: 2, code: Some(code), quorum: None };
    let Admitted { tool, facets, .. } = call;
    let Some(agent) = settings.agents.get(&call.agent) else { return denied(UnknownAgent) };
    let named = |globs: &[policy::ToolGlob]| globs.iter().any(|glob| glob.matches(&tool.name));
    let (level, autonomy) = (constraints_of(agent, settings), autonomy_of(agent));
    let rules: Vec<&ApprovalRule> = heard(call, settings).collect();
    let says = |effect: RuleEffect| rules.iter().any(|rule| rule.effect == effect);
    let spending = Spending::of(call, facts, settings);
    // What the call is besides its own action.
    let raised: Vec<&str> = spending.raised().collect();
    let is_raised = |listed: &BTreeSet<Action>| listed.iter().any(|action| raised.contains(&action.as_str()));
    let reaches_out = facets.egress > Stays || facets.profile == Some(Profile::Networked);
    let people =
        [0, 1, 2][usize::from(facets.safety >= Financial) + usize::from(facets.safety == Privileged)];
    let changes = facets.safety > Read;
    let writes_files = tool.category == FileSystem && facets.access == WorkspaceAccess::Write;
    let unlisted = facets.commands.iter().any(|command| match &settings.shell.allowed {
        Some(allowed) => command.starts.iter().chain([&command.name]).any(|name| !allowed.contains(name)),
        None => command.unlisted.is_some() && level.terminal != Terminal::Full,
    });
    let is_denied = |name: &str| {
        settings.shell.denied.iter().any(|denied| name == denied || name.ends_with(&format!("/{denied}")))
    };
    let has_lists = settings.shell.allowed.is_some() || !settings.shell.denied.is_empty();
    let denied_command = facets.commands.iter().any(|command| {
        (command.untold.is_some() && has_lists)
            || command.starts.iter().chain([&command.name]).any(|name| is_denied(name))
    });
    let goes_out = facets.egress > Stays;
    let (listed, is_nobody) = list(call, settings, level.network);
    let is_listed = |host: &Target| listed.iter().any(|reach| reach.covers(host));
    let is_private =
        |host: &Target| super::cases::PRIVATE_HOSTS.iter().any(|text| Target::parse(text).unwrap() == *host);
    let nowhere = facets.profile == Some(Profile::Networked) && facets.hosts.is_empty() && listed.is_empty();
    // The first rule in Cedar that fails or forbids.
    let cedar_says: Vec<(Says, &Plain)> =
        cedar.iter().map(|rule| (rule.says(call, agent, facts), rule)).collect();
    let refusing = cedar_says.iter().find_map(|(says, rule)| match says {
        Says::Fails => Some(RuleFailed),
        Says::Matches if rule.people.is_none() => Some(DeniedByRule),
        _ => None,
    });
    let by_layer = [
        (matches!(tool.status, ToolStatus::Disabled | ToolStatus::Suspended), ToolDisabled),
        (named(&settings.disabled), ToolDisabled),
        (settings.unavailable.contains_key(&tool.category), CannotEnforce),
        (named(&agent.denied), DeniedByList),
        (!has_in_role(agent, tool, settings), NotInRole),
        (!named(&agent.allowed) && !level.categories.contains(&tool.category), NotInLevel),
        (autonomy == Locked && tool.least > Read, IsLocked),
        (tool.category == Category::Terminal && level.terminal == Terminal::None, Constrained),
        (tool.category == Deployment && !level.deployment, Constrained),
        (
            tool.category == VersionControl && level.git == Git::LocalOnly && facets.egress > Stays,
            Constrained,
        ),
        (
            tool.category == VersionControl && level.git == Git::ReadAndBranch && facets.egress > ReadOnly,
            Constrained,
        ),
        (facets.hosts.iter().any(is_private), HostNotAllowed),
        (reaches_out && level.network == Network::None, Constrained),
        (reaches_out && !facts.egress, CannotEnforce),
        (facets.safety > tool.safety || facets.egress > tool.egress, Constrained),
        (goes_out && facets.hosts.iter().any(|host| is_blocked(host, call, settings)), HostNotAllowed),
        (goes_out && is_nobody && facets.hosts.iter().any(|host| !is_listed(host)), HostNotAllowed),
        (goes_out && nowhere, HostNotAllowed),
        (unlisted || denied_command, CommandNotAllowed),
        (writes_files && settings.files.read_only, Constrained),
        (writes_files && !settings.files.delete && facets.action.as_str() == "code:delete", Constrained),
        (facts.operators < people, NoOperator),
        (agent.denied_actions.contains(&facets.action), DeniedByList),
        (autonomy == Locked && changes, IsLocked),
        (says(RuleEffect::Deny), DeniedByRule),
        (is_raised(&agent.denied_actions), DeniedByList),
        (spending.is_denied(), OverBudget),
        (refusing.is_some(), refusing.unwrap_or(RuleFailed)),
    ];
    if let Some((_, code)) = by_layer.into_iter().find(|(is_so, _)| *is_so) {
        return denied(code);
    }
    let stays_inside = facets.safety <= Write && facets.egress == Stays;
    let waived = facets.safety < Financial
        && tool.trust == TrustLabel::Internal
        && (agent.auto_approve.contains(&facets.action)
            || (stays_inside && (autonomy == Full || says(RuleEffect::Approve) || spending.frees())));
    let asking =
        cedar_says.iter().filter(|(says, _)| *says == Says::Matches).filter_map(|(_, rule)| rule.people);
    let prompting = rules.iter().filter(|rule| rule.effect == RuleEffect::Prompt).map(|rule| rule.quorum);
    let quorum = asking.clone().chain(prompting).chain([people, 1]).max().unwrap();
    let ask = [
        goes_out && facets.hosts.iter().any(|host| !is_listed(host)),
        people > 0,
        level.requires_approval.contains(&facets.action),
        agent.human_approval.contains(&facets.action),
        !(waived || is_free(facets.action.as_str()) && facets.egress <= ReadOnly),
        autonomy == Supervised && changes,
        is_raised(&agent.human_approval),
        is_raised(&level.requires_approval),
        spending.is_beyond(),
        says(RuleEffect::Prompt),
        asking.clone().count() > 0,
        tool.requires_approval && (tool.egress <= ReadOnly || facets.egress > ReadOnly),
        matches!(tool.trust, TrustLabel::Untrusted | TrustLabel::Imported),
    ];
    let answered = facts.consent.as_ref().is_some_and(|yes| {
        yes.agent == call.agent
            && yes.arguments == call.arguments
            && yes.operands == call.operands
            && yes.contract == tool.hash
            && settings.hash().is_ok_and(|hash| hash == yes.policy)
            && yes.expires_at > facts.now
            && yes.by.len() >= quorum
            && spending.is_asked_in(&yes.why)
            // Each rule that asks has its words in the question.
            && yes.why.iter().filter(|words| words.contains("(asks")).count() >= asking.clone().count()
    });
    match ask.contains(&true) && !answered {
        false => Decided { rank: 0, code: None, quorum: None },
        // What too few people could answer is not asked.
        true if facts.operators < quorum => denied(NoOperator),
        true => Decided { rank: 1, code: None, quorum: Some(quorum) },
    }
}

/// The places that are free for a call, and whether somebody has said that there are none.
fn list(call: &Admitted, settings: &Settings, network: Network) -> (Vec<Reach>, bool) {
    let egress = &settings.egress;
    let of_tool = egress.by_tool.iter().find(|places| places.tool.matches(&call.tool.name));
    let of_tool = of_tool.and_then(|places| places.allow.clone());
    let narrow = of_tool.or(egress.by_category.get(&call.tool.category).cloned());
    match (narrow, network) {
        (Some(list), _) => (list.clone(), list.is_empty()),
        (None, Network::Open) => {
            let public = [80, 443].map(|port| Reach { host: HostPattern::Public, port });
            (egress.allow.iter().flatten().cloned().chain(public).collect(), false)
        }
        (None, _) => {
            (egress.allow.clone().unwrap_or_default(), egress.allow.as_ref().is_some_and(Vec::is_empty))
        }
    }
}

fn is_blocked(host: &Target, call: &Admitted, settings: &Settings) -> bool {
    let egress = &settings.egress;
    let own = egress.by_tool.iter().filter(|places| places.tool.matches(&call.tool.name));
    egress.block.iter().chain(own.flat_map(|places| &places.block)).any(|pattern| pattern.covers(&host.host))
}

/// Whether a call that may run could get a place: it names it, or it is on a list.
pub(crate) fn may_be_granted(reach: &Reach, call: &Admitted, settings: &Settings) -> bool {
    let is_named = call.facets.hosts.iter().any(|host| Reach::from(host.clone()) == *reach);
    is_named || list(call, settings, Network::Open).0.contains(reach)
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
        "mcp" => verb == "call",
        "test" | "docs" | "memory" => true,
        _ => false,
    }
}
