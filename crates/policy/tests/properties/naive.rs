//! The verdict again, written from the requirements alone (A8, B2, D2, D3, F1, F2, H1 and DESIGN's table of the first ten
//! minutes), with no eye on how `decide` does it. Slow, and short.

use contract::Autonomy::{Full, Locked, Supervised};
use contract::Category::{self, Deployment, FileSystem, Mcp, VersionControl};
use contract::EgressClass::{None as Stays, ReadOnly};
use contract::SafetyClass::{Financial, Privileged, Read, Write};
use contract::{Code, HostPattern, Level, Profile, Reach, Target, ToolStatus, TrustLabel};
use policy::{
    Admitted, Amount, Amounts, ApprovalRule, Constraints, Facts, Git, Network, Pattern, RuleEffect, Settings,
    Terminal, WorkspaceAccess,
};
use serde_json::Value;

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
        Locked as IsLocked, NoOperator, NotInLevel, RuleFailed, ToolDisabled, UnknownAgent,
    };
    let denied = |code| Decided { rank: 2, code: Some(code), quorum: None };
    let Admitted { tool, facets, .. } = call;
    let Some(agent) = settings.agents.get(&call.agent) else { return denied(UnknownAgent) };
    let named = |globs: &[policy::ToolGlob]| globs.iter().any(|glob| glob.matches(&tool.name));
    let level = levels(agent.level).with(settings.levels.get(&agent.level).unwrap_or(&Default::default()));
    let level = level.with(&agent.overrides);
    let rules: Vec<&ApprovalRule> = heard(call, settings).collect();
    let says = |effect: RuleEffect| rules.iter().any(|rule| rule.effect == effect);
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
        (!named(&agent.allowed) && !level.categories.contains(&tool.category), NotInLevel),
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
        (unlisted || facets.commands.iter().any(|command| denied_command(&command.name)), CommandNotAllowed),
        (writes_files && settings.files.read_only, Constrained),
        (writes_files && !settings.files.delete && facets.action.as_str() == "code:delete", Constrained),
        (facts.operators < people, NoOperator),
        (agent.autonomy == Locked && changes, IsLocked),
        (says(RuleEffect::Deny), DeniedByRule),
        (refusing.is_some(), refusing.unwrap_or(RuleFailed)),
    ];
    if let Some((_, code)) = by_layer.into_iter().find(|(is_so, _)| *is_so) {
        return denied(code);
    }
    let stays_inside = facets.safety <= Write && facets.egress == Stays;
    let waived = facets.safety < Financial
        && tool.trust == TrustLabel::Internal
        && (agent.auto_approve.contains(&facets.action)
            || (stays_inside && (agent.autonomy == Full || says(RuleEffect::Approve))));
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
        agent.autonomy == Supervised && changes,
        says(RuleEffect::Prompt),
        asking.count() > 0,
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
    });
    match ask.contains(&true) && !answered {
        false => Decided { rank: 0, code: None, quorum: None },
        // What too few people could answer is not asked.
        true if facts.operators < quorum => denied(NoOperator),
        true => Decided { rank: 1, code: None, quorum: Some(quorum) },
    }
}

/// A rule in Cedar as plain facts: what its scope names, and one condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) agent: Option<&'static str>,
    /// An action, or a category of them.
    pub(crate) action: Option<&'static str>,
    pub(crate) tool: Option<&'static str>,
    pub(crate) condition: Condition,
    /// How many are asked, if it asks.
    pub(crate) people: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Condition {
    Always,
    HasPath,
    /// Not asked for first.
    PathIs(&'static str),
    /// Asked for first.
    AmountOver(i64),
    Force,
    Level(&'static str),
    Hour(i64),
    Host(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Nothing,
    Matches,
    Fails,
}

impl Plain {
    pub(crate) fn text(&self) -> String {
        let named = |of: &str, word: &str, id: Option<&str>, how: &str| match id {
            Some(id) => format!("{of} {how} {word}::\"{id}\""),
            None => of.to_owned(),
        };
        let ask =
            self.people.map(|people| format!("@effect(\"ask\") @people(\"{people}\") ")).unwrap_or_default();
        let condition = match self.condition {
            Condition::Always => String::new(),
            Condition::HasPath => "context.arguments has path".to_owned(),
            Condition::PathIs(text) => format!("context.arguments.path == \"{text}\""),
            Condition::AmountOver(most) => {
                format!("context.arguments has amount && context.arguments.amount > {most}")
            }
            Condition::Force => "context.arguments.force".to_owned(),
            Condition::Level(level) => format!("principal.level == \"{level}\""),
            Condition::Hour(hour) => format!("context.hour >= {hour}"),
            Condition::Host(host) => format!("context.hosts.contains(\"{host}\")"),
        };
        let when = if condition.is_empty() { condition } else { format!(" when {{ {condition} }}") };
        let how = if self.action.is_some_and(|action| action.contains(':')) { "==" } else { "in" };
        format!(
            "{ask}forbid ({}, {}, {}){when};",
            named("principal", "Agent", self.agent, "=="),
            named("action", "Action", self.action, how),
            named("resource", "Tool", self.tool, "==")
        )
    }

    fn says(&self, call: &Admitted, agent: &policy::Agent, facts: &Facts) -> Says {
        let action = call.facets.action.as_str();
        let is_about = self.agent.is_none_or(|name| name == call.agent.as_str())
            && self.tool.is_none_or(|name| name == call.tool.name.as_str())
            && self.action.is_none_or(|name| name == action || Some(name) == action.split(':').next());
        if !is_about {
            return Says::Nothing;
        }
        let argument = |name| call.values.get(name);
        let held = match self.condition {
            Condition::Always => Some(true),
            Condition::HasPath => Some(argument("path").is_some()),
            Condition::PathIs(text) => argument("path").map(|path| path == text),
            Condition::AmountOver(most) => match argument("amount") {
                None => Some(false),
                Some(amount) => amount.as_i64().map(|amount| amount > most),
            },
            Condition::Force => argument("force").and_then(Value::as_bool),
            Condition::Level(level) => Some(agent.level.as_str() == level),
            Condition::Hour(hour) => Some((facts.now / 3_600_000) % 24 >= hour),
            Condition::Host(host) => {
                let untold = call.facets.profile == Some(Profile::Networked)
                    || (call.facets.egress > Stays && call.facets.hosts.is_empty());
                let named = call.facets.hosts.iter().any(|target| target.host.to_string() == host);
                (!untold).then_some(named)
            }
        };
        match held {
            Some(true) => Says::Matches,
            Some(false) => Says::Nothing,
            None => Says::Fails,
        }
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

/// The rules that speak about a call, in order: every one is asked.
pub(crate) fn heard<'a>(
    call: &'a Admitted,
    settings: &'a Settings,
) -> impl Iterator<Item = &'a ApprovalRule> {
    settings.rules.iter().filter(|rule| rule.tool.matches(&call.tool.name) && speaks(rule, &call.values))
}

/// Whether every condition holds. One that cannot be told holds for a rule that asks or denies, and for no other.
fn speaks(rule: &ApprovalRule, arguments: &Value) -> bool {
    let untold = rule.effect != RuleEffect::Approve;
    let of_arguments =
        rule.when.arguments.iter().all(|(path, pattern)| match (pattern, arguments.get(path.to_string())) {
            (Pattern::Text(pattern), Some(Value::String(text))) if rule.effect == RuleEffect::Approve => {
                is_like(pattern.as_str(), text)
            }
            (Pattern::Text(pattern), Some(Value::String(text))) => {
                let other = text.strip_prefix("/work/").map_or(format!("/work/{text}"), str::to_owned);
                let readings = [format!("{text}/"), format!("{other}/"), text.clone(), other];
                readings.iter().any(|text| is_like(&pattern.as_str().to_lowercase(), &text.to_lowercase()))
            }
            (Pattern::Exactly(Value::Bool(wanted)), Some(Value::Bool(found))) => wanted == found,
            _ => untold,
        });
    let of_amount = rule.when.amount.as_ref().is_none_or(|limit| {
        let amount = arguments.get(limit.argument.to_string()).and_then(Value::as_f64);
        amount.map_or(untold, |amount| match limit.amounts {
            Amounts::Over(most) => Amount::parse(amount).unwrap() > most,
            Amounts::UpTo(most) => Amount::parse(amount).unwrap() <= most,
        })
    });
    of_arguments && of_amount
}

/// `*` is any text, `?` any character.
fn is_like(pattern: &str, text: &str) -> bool {
    let (mut wanted, mut found) = (pattern.chars(), text.chars());
    match (wanted.next(), found.next()) {
        (None, first) => first.is_none(),
        (Some('*'), first) => {
            is_like(wanted.as_str(), text) || (first.is_some() && is_like(pattern, found.as_str()))
        }
        (Some(one), Some(other)) => (one == '?' || one == other) && is_like(wanted.as_str(), found.as_str()),
        (Some(_), None) => false,
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
