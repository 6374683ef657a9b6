//! Calls, facts and settings at random. Small alphabets, so that things meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use contract::{
    Action, Actions, AgentName, Amount, ApprovalId, Autonomy, CallId, Category, Digest, EgressClass,
    HostPattern, Level, OperatorName, Profile, Reach, Reason, RoleName, SafetyClass, Target, ToolName,
    ToolStatus, TrustLabel,
};
use policy::{
    Admitted, Agent, AmountLimit, Amounts, ApprovalRule, ArgumentPath, CedarRule, Command, Conditions,
    Consent, EgressSettings, Facets, Facts, FileSettings, FileSystem, Git, GrantLimits, Network, Overrides,
    Pattern, Policy, Role, RuleEffect, Seniority, Settings, ShellSettings, Terminal, TextPattern, ToolFacts,
    ToolGlob, ToolPlaces, Verdict, WorkspaceAccess, decide,
};
use proptest::collection::{btree_set, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::naive::{Condition, Plain};
use super::spending::{Spent, as_budget, budgets, prices, resources, rule_budget, spent, task};

pub(crate) const PRIVATE_HOSTS: [&str; 3] = ["169.254.169.254:80", "localhost:80", "[::ffff:10.0.0.1]:443"];
const HOSTS: [&str; 5] =
    ["example.com:443", "example.com:8080", "a.example.org:443", "example.org:80", "1.1.1.1:443"];
const REACHES: [&str; 4] = ["example.com:443", "*.example.org:443", "example.org:80", "1.1.1.0/24:443"];
const BLOCKS: [&str; 3] = ["example.com", "*.example.org", "1.0.0.0/8"];

const ACTIONS: [&str; 23] = [
    "code:read",
    "code:write",
    "code:create",
    "code:delete",
    "code:refactor",
    "test:run",
    "docs:write",
    "vcs:read",
    "vcs:commit",
    "vcs:push",
    "exec:inspect",
    "exec:build",
    "exec:mutate",
    "exec:networked",
    "exec:code",
    "web:read",
    "web:write",
    "db:query",
    "db:mutate",
    "memory:read",
    "mcp:call",
    "budget:spend",
    "budget:exceed",
];
const TOOLS: [&str; 8] = ["fs.read", "fs.readers", "fs.write", "f", "shell", "git.push", "mcp_x_y", "pay"];
/// Lists name some of them, by what they begin with or not at all.
const GLOBS: [&str; 14] = [
    "fs.*",
    "fs.read",
    "shell",
    "git.*",
    "*",
    "mcp_*",
    "f*",
    "fs.rea?",
    "*.push",
    "{fs,git}.*",
    "[f-m]*",
    "fs.read{,ers}",
    "*e*",
    "?s.write",
];
const TEXTS: [&str; 7] = ["infra", "infra/a", "INFRA/b", "/work/infra/a", "docs/x", "docs", "\u{e4}"];
const TEXT_PATTERNS: [&str; 9] =
    ["infra/*", "infra", "docs*", "*", "*/a", "i?fra/*", "/work/infra/*", "?", "nowhere/*"];
const COMMANDS: [&str; 5] = ["ls", "rm", "/bin/rm", "cargo", "x/rm"];

/// One call, what is true, and what is configured.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) call: Admitted,
    pub(crate) facts: Facts,
    pub(crate) policy: Arc<Policy>,
    pub(crate) spent: Spent,
}

impl Case {
    /// The same facts under another policy: what people said to the old one is said to it, and every budget brings what was
    /// spent of it. So it is not the change as such that narrows.
    pub(crate) fn facts_under(&self, policy: &Policy) -> Facts {
        let mut facts = self.facts.clone();
        facts.tallies = self.spent.known(&self.call, &facts, policy);
        let before = self.policy.hash();
        if let Some(consent) = facts.consent.as_mut().filter(|consent| consent.policy == before) {
            consent.policy = policy.hash();
        }
        facts
    }
}

pub(crate) fn agent_name() -> AgentName {
    AgentName::parse("default").unwrap()
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    (asked(), settings()).prop_map(|(asked, settings)| asked.under(&Arc::new(Policy::of(settings).unwrap())))
}

/// A configuration with rules in Cedar, what those are in plain facts, and some calls.
pub(crate) fn configuration() -> impl Strategy<Value = (Vec<Case>, Vec<Plain>)> {
    (vec(asked(), 3), settings(), cedar()).prop_map(|(asked, settings, rules)| {
        let read = rules.iter().enumerate().map(|(number, (_, rule))| placed(rule, number));
        let policy = Arc::new(Policy::of(Settings { cedar: read.collect(), ..settings }).unwrap());
        let cases = asked.into_iter().map(|asked| asked.under(&policy)).collect();
        (cases, rules.into_iter().map(|(plain, _)| plain).collect())
    })
}

/// The same rule, where it stands.
fn placed(rule: &CedarRule, number: usize) -> CedarRule {
    let mut rule = rule.clone();
    rule.place = format!("rules.cedar:{}", number + 1);
    rule
}

/// Rules in Cedar, read once: that takes longer than a verdict.
fn cedar() -> impl Strategy<Value = Vec<(Plain, CedarRule)>> {
    static READ: LazyLock<Vec<(Plain, CedarRule)>> = LazyLock::new(|| {
        use Condition::{
            Always, AmountOver, Autonomy, Force, HasPath, Host, Hour, Level, PathIs, Role, Seniority,
        };
        let conditions = [
            Always,
            HasPath,
            PathIs("infra/a"),
            AmountOver(100),
            Force,
            Level("elevated"),
            Autonomy("supervised"),
            Role("tester"),
            Role(""),
            Seniority("junior"),
            Hour(0),
            Hour(12),
            Host("example.com"),
        ];
        let scopes = [
            (None, None, None),
            (Some("default"), None, None),
            (Some("other"), None, None),
            (None, Some("code:write"), None),
            (None, Some("exec"), None),
            (None, Some("vcs"), None),
            (None, None, Some("fs.read")),
            (None, None, Some("shell")),
            (Some("default"), Some("code"), Some("fs.write")),
        ];
        let people = [None, Some(1), Some(3)];
        let mut read = Vec::new();
        for (place, condition) in conditions.into_iter().enumerate() {
            for (offset, (agent, action, tool)) in scopes.into_iter().enumerate() {
                // Not each with each: what forbids everything would leave nothing to look at.
                let people = people[(place + offset) % people.len()];
                if condition == Always && tool.is_none() && action.is_none() && people.is_none() {
                    continue;
                }
                let plain = Plain { agent, action, tool, condition, people };
                let rules = CedarRule::read(&plain.text(), |line| format!("rules.cedar:{line}")).unwrap();
                read.extend(rules.into_iter().map(|rule| (plain, rule)));
            }
        }
        read
    });
    weighted(0.7, vec(select(READ.as_slice()), 0..4)).prop_map(Option::unwrap_or_default)
}

/// A call, what is true, and what people said, for whatever is configured.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    tool: ToolFacts,
    facets: Facets,
    values: Value,
    facts: Facts,
    consent: Option<(u8, usize)>,
    covered: bool,
    has_task: bool,
    spent: Spent,
}

fn asked() -> impl Strategy<Value = Asked> {
    let about_it = (tool(), facets(), arguments());
    let chances = (prop::bool::weighted(0.9), any::<bool>());
    let parts = (about_it, facts(), weighted(0.5, consent()), chances, spent());
    parts.prop_map(|((tool, facets, values), facts, consent, (covered, has_task), spent)| Asked {
        tool,
        facets,
        values,
        facts,
        consent,
        covered,
        has_task,
        spent,
    })
}

impl Asked {
    fn under(self, policy: &Arc<Policy>) -> Case {
        let Asked { mut tool, facets, values, mut facts, consent, covered, has_task, spent } = self;
        // Most tools say all that their calls do.
        if covered {
            tool.safety = tool.safety.max(facets.safety);
            tool.egress = tool.egress.max(facets.egress);
            tool.least = tool.least.min(facets.safety);
        }
        let call = Admitted {
            call: CallId::from_random([1; 16]),
            agent: agent_name(),
            task: has_task.then(task),
            tool,
            facets,
            operands: Some(Digest::of(b"files")),
            arguments: Digest::of(b"arguments"),
            values: Arc::new(values),
            asked_at: 1_000,
        };
        facts.tallies = spent.told(&call, &facts, policy);
        // Good for this very call, but for what was made wrong about it.
        facts.consent = consent.map(|(wrong, by)| Consent {
            approval: ApprovalId::from_random([3; 16]),
            by: ["me", "you"].iter().take(by).map(|name| OperatorName::parse(name).unwrap()).collect(),
            agent: if wrong == 1 { AgentName::parse("other").unwrap() } else { agent_name() },
            contract: if wrong == 2 { Digest::of(b"old") } else { call.tool.hash },
            arguments: if wrong == 3 { Digest::of(b"other") } else { call.arguments },
            operands: if wrong == 6 { None } else { call.operands },
            policy: if wrong == 4 { Digest::of(b"old") } else { policy.hash() },
            why: if wrong == 7 { Vec::new() } else { asked_for(&call, &facts, policy) },
            expires_at: if wrong == 5 { facts.now } else { facts.now + 1 },
        });
        Case { call, facts, policy: Arc::clone(policy), spent }
    }
}

/// The words in which people would be asked about a call now.
fn asked_for(call: &Admitted, facts: &Facts, policy: &Policy) -> Vec<String> {
    match decide(call, facts, policy).verdict {
        Verdict::Ask(question) => question.why,
        Verdict::Allow(_) | Verdict::Deny(_) => Vec::new(),
    }
}

/// What stands where rules look: as it should, of another kind, or not at all.
fn arguments() -> impl Strategy<Value = Value> {
    let text = select(&TEXTS).prop_map(Value::from);
    let path = prop_oneof![6 => text, 1 => Just(json!(["infra/a"]))];
    let amount = prop_oneof![
        4 => (0..200_u64).prop_map(Value::from),
        2 => select(vec![0, 50, 100]).prop_map(Value::from),
        1 => Just(json!("many")),
    ];
    let force = any::<bool>().prop_map(Value::from);
    (weighted(0.9, path), weighted(0.8, force), weighted(0.8, amount)).prop_map(|(path, force, amount)| {
        let members = [("path", path), ("force", force), ("amount", amount)];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

/// What is wrong about it, if anything (1 to 7), and how many people said yes.
fn consent() -> impl Strategy<Value = (u8, usize)> {
    (select(vec![0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]), 0..=2_usize)
}

fn tool() -> impl Strategy<Value = ToolFacts> {
    let classes = (safety(), egress(), category(), rarely(&[SafetyClass::Read], &[SafetyClass::Write]));
    let status =
        rarely(&[ToolStatus::Active, ToolStatus::Deprecated], &[ToolStatus::Disabled, ToolStatus::Suspended]);
    let trust = select(vec![
        TrustLabel::Internal,
        TrustLabel::Internal,
        TrustLabel::Internal,
        TrustLabel::Pinned,
        TrustLabel::Imported,
        TrustLabel::Untrusted,
    ]);
    (select(&TOOLS), classes, status, trust, prop::bool::weighted(0.2), 1..600_u64).prop_map(
        |(name, (safety, egress, category, least), status, trust, requires_approval, seconds)| ToolFacts {
            name: ToolName::parse(name).unwrap(),
            hash: Digest::of(name.as_bytes()),
            category,
            safety,
            least,
            egress,
            status,
            trust,
            requires_approval,
            limits: GrantLimits { timeout: Duration::from_secs(seconds), ..GrantLimits::default() },
        },
    )
}

fn facets() -> impl Strategy<Value = Facets> {
    let access = select(vec![WorkspaceAccess::None, WorkspaceAccess::Read, WorkspaceAccess::Write]);
    let others = (weighted(0.2, select(&COMMANDS)), prop::bool::weighted(0.1));
    let command = (select(&COMMANDS), prop::bool::weighted(0.1), others).prop_map(
        |(name, is_unlisted, (started, is_untold))| Command {
            unlisted: is_unlisted.then(|| Reason::command_not_allowed("not listed")),
            starts: started.into_iter().map(str::to_owned).collect(),
            untold: is_untold.then_some("starts anything"),
            ..Command::named(name)
        },
    );
    let hosts = vec(rarely(&HOSTS, &PRIVATE_HOSTS), 1..3);
    let lists = (vec(command, 0..3), weighted(0.4, hosts));
    (
        action(),
        safety(),
        egress(),
        access,
        weighted(0.4, rarely(&[Profile::Inspect, Profile::Build, Profile::Mutate], &[Profile::Networked])),
        lists,
    )
        .prop_map(|(action, safety, egress, access, profile, (commands, hosts))| Facets {
            action,
            safety,
            egress,
            access,
            profile,
            commands,
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: hosts.into_iter().flatten().map(|host| Target::parse(host).unwrap()).collect(),
        })
}

fn facts() -> impl Strategy<Value = Facts> {
    (0..=3_usize, prop::bool::weighted(0.8)).prop_map(|(operators, egress)| Facts {
        now: 1_000,
        workspace: "/work".into(),
        operators,
        egress,
        ask_for: 300_000,
        consent: None,
        standing: Vec::new(),
        content: None,
        tallies: Vec::new(),
    })
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let agents = weighted(0.97, agent());
    let levels = vec((select(Level::ALL), overrides()), 0..2);
    let unavailable = weighted(0.1, category());
    let shell = (weighted(0.1, commands(4)), weighted(0.1, commands(2)));
    let files = (prop::bool::weighted(0.1), prop::bool::weighted(0.9));
    let tools = (weighted(0.1, globs(2)), unavailable, shell, files);
    let money = (prices(), budgets(), resources());
    (agents, roles(), levels, rules(), tools, reachable(), money).prop_map(
        |(agent, roles, levels, rules, tools, egress, (prices, budgets, resources))| {
            let (disabled, unavailable, (allowed, denied), (read_only, delete)) = tools;
            Settings {
                agents: agent.into_iter().map(|agent| (agent_name(), agent)).collect(),
                roles,
                levels: levels.into_iter().collect(),
                rules,
                disabled: disabled.unwrap_or_default(),
                unavailable: unavailable
                    .into_iter()
                    .map(|category| (category, "no backend".to_owned()))
                    .collect(),
                shell: ShellSettings { allowed, denied: denied.unwrap_or_default() },
                files: FileSettings { read_only, delete, ..FileSettings::default() },
                egress,
                resources,
                prices,
                budgets,
                ask_for: 300_000,
                ..Settings::default()
            }
        },
    )
}

/// What may be reached: by a general list, by one of a category or of a tool, and not by what is blocked.
fn reachable() -> impl Strategy<Value = EgressSettings> {
    let list = || vec(select(&REACHES).prop_map(|text| Reach::parse(text).unwrap()), 0..3);
    let block = || vec(select(&BLOCKS).prop_map(|text| HostPattern::parse(text).unwrap()), 0..2);
    let of_tool = (glob(), weighted(0.5, list()), block());
    let of_tool = of_tool.prop_map(|(tool, allow, block)| ToolPlaces { tool, allow, block });
    let by_category = vec((category(), list()), 0..2);
    (weighted(0.8, list()), by_category, weighted(0.2, of_tool), weighted(0.2, block())).prop_map(
        |(allow, by_category, of_tool, block)| EgressSettings {
            allow,
            by_category: by_category.into_iter().collect(),
            by_tool: of_tool.into_iter().collect(),
            block: block.unwrap_or_default(),
            ..EgressSettings::default()
        },
    )
}

/// One that includes much, one that includes little; a third that agents have is none.
fn roles() -> impl Strategy<Value = BTreeMap<RoleName, Role>> {
    let role = |most| {
        let parts = (btree_set(category(), 0..most), globs(1), weighted(0.2, globs(2)));
        parts.prop_map(|(categories, tools, denied)| Role {
            categories,
            tools,
            denied: denied.unwrap_or_default(),
        })
    };
    (role(8), role(2))
        .prop_map(|(much, little)| [(role_name("tester"), much), (role_name("reader"), little)].into())
}

fn role_name(text: &str) -> RoleName {
    RoleName::parse(text).unwrap()
}

fn agent() -> impl Strategy<Value = Agent> {
    let denied_actions = weighted(0.15, actions());
    let lists = (globs(2), weighted(0.1, globs(2)), actions(), weighted(0.3, actions()), denied_actions);
    let role = rarely(&[role_name("tester")], &[role_name("reader"), role_name("unheard-of")]);
    let standing = (weighted(0.15, role), weighted(0.3, select(Seniority::ALL.as_slice())));
    (
        level(),
        rarely(&[Autonomy::Full, Autonomy::Semi, Autonomy::Supervised], &[Autonomy::Locked]),
        lists,
        overrides(),
        standing,
    )
        .prop_map(|(level, autonomy, lists, overrides, (role, seniority))| {
            let (allowed, denied, auto_approve, human_approval, denied_actions) = lists;
            Agent {
                level,
                autonomy,
                allowed,
                denied: denied.unwrap_or_default(),
                auto_approve,
                human_approval: human_approval.unwrap_or_default(),
                denied_actions: denied_actions.unwrap_or_default(),
                overrides,
                role,
                seniority,
                ..Agent::default()
            }
        })
}

fn overrides() -> impl Strategy<Value = Overrides> {
    let network = select(vec![Network::None, Network::AllowlistOnly, Network::Open]);
    let git = select(vec![Git::LocalOnly, Git::ReadAndBranch, Git::Full]);
    let terminal = select(vec![Terminal::None, Terminal::RestrictedCommands, Terminal::Full]);
    let file_system = select(vec![FileSystem::WorkspaceOnly, FileSystem::ProjectDirectory, FileSystem::Full]);
    let dimensions =
        (weighted(0.2, network), weighted(0.2, git), weighted(0.2, terminal), weighted(0.2, file_system));
    let categories = weighted(0.2, btree_set(category(), 0..6));
    (categories, dimensions, weighted(0.2, any::<bool>()), weighted(0.2, actions())).prop_map(
        |(categories, (network, git, terminal, file_system), deployment, requires_approval)| Overrides {
            categories,
            file_system,
            network,
            git,
            terminal,
            deployment,
            requires_approval,
        },
    )
}

pub(crate) fn rules() -> impl Strategy<Value = Vec<ApprovalRule>> {
    // No effect stands for a budget.
    let effect = prop_oneof![
        6 => select(vec![Some(RuleEffect::Approve), Some(RuleEffect::Prompt)]),
        1 => Just(Some(RuleEffect::Deny)),
        2 => Just(None),
    ];
    let rule = (glob(), effect, rule_budget(), conditions(), rarely(&[1], &[2, 3])).prop_map(
        |(tool, effect, (calls, amount, period), when, quorum)| {
            let (when, effect) = match effect {
                Some(effect) => (when, effect),
                None => as_budget(when, calls, amount, period),
            };
            let quorum = if effect == RuleEffect::Prompt { quorum } else { 1 };
            ApprovalRule { when, quorum, ..rule(tool, effect) }
        },
    );
    weighted(0.7, vec(rule, 0..8)).prop_map(|rules| {
        let placed = |(number, rule)| ApprovalRule { place: format!("toolgate.yaml:{number}"), ..rule };
        rules.unwrap_or_default().into_iter().enumerate().map(placed).collect()
    })
}

/// About all calls, about some texts, about a truth value, about an amount, or about several of these.
fn conditions() -> impl Strategy<Value = Conditions> {
    let text = select(&TEXT_PATTERNS).prop_map(|text| Pattern::Text(TextPattern::of(text)));
    let force = any::<bool>().prop_map(|force| Pattern::Exactly(json!(force)));
    let units = (0..200_u32).prop_map(|units| Amount::parse(f64::from(units)).unwrap());
    let amounts = (units, any::<bool>()).prop_map(|(units, over)| match over {
        true => Amounts::Over(units),
        false => Amounts::UpTo(units),
    });
    let argument = |name| ArgumentPath::parse(name).unwrap();
    (weighted(0.5, text), weighted(0.2, force), weighted(0.2, amounts)).prop_map(
        move |(text, force, amounts)| Conditions {
            arguments: [("path", text), ("force", force)]
                .into_iter()
                .filter_map(|(name, pattern)| Some((argument(name), pattern?)))
                .collect(),
            amount: amounts.map(|amounts| AmountLimit { argument: argument("amount"), amounts }),
        },
    )
}

pub(crate) fn rule(tool: ToolGlob, effect: RuleEffect) -> ApprovalRule {
    ApprovalRule::about(tool, effect, "toolgate.yaml:1")
}

pub(crate) fn glob() -> impl Strategy<Value = ToolGlob> {
    // Compiled once: that takes longer than a verdict.
    static COMPILED: LazyLock<Vec<ToolGlob>> =
        LazyLock::new(|| GLOBS.iter().map(|text| ToolGlob::parse(text).unwrap()).collect());
    select(COMPILED.as_slice())
}

fn globs(most: usize) -> impl Strategy<Value = Vec<ToolGlob>> {
    vec(glob(), 0..=most)
}

fn commands(most: usize) -> impl Strategy<Value = BTreeSet<String>> {
    btree_set(select(&COMMANDS).prop_map(str::to_owned), 0..=most)
}

fn action() -> impl Strategy<Value = Action> {
    static PARSED: LazyLock<Vec<Action>> =
        LazyLock::new(|| ACTIONS.iter().map(|text| Actions::default().parse(text).unwrap()).collect());
    select(PARSED.as_slice())
}

/// Lists name what budgets raise more often than calls are it.
fn actions() -> impl Strategy<Value = BTreeSet<Action>> {
    let raised = ["budget:spend", "budget:exceed"].map(|text| Actions::default().parse(text).unwrap());
    btree_set(prop_oneof![3 => action(), 1 => select(raised.to_vec())], 0..4)
}

fn level() -> impl Strategy<Value = Level> {
    rarely(&[Level::Standard, Level::Elevated], &[Level::Custom, Level::Sandboxed, Level::Restricted])
}

pub(crate) fn category() -> impl Strategy<Value = Category> {
    use Category::{Deployment, FileSystem, Mcp, Memory, Other, Terminal, VersionControl, Web};
    rarely(&[FileSystem, Terminal, VersionControl, Web, Memory], &[Mcp, Deployment, Other])
}

fn safety() -> impl Strategy<Value = SafetyClass> {
    use SafetyClass::{Financial, Network, Privileged, Read, Write};
    rarely(&[Read, Write, Network], &[Financial, Privileged])
}

fn egress() -> impl Strategy<Value = EgressClass> {
    rarely(&[EgressClass::None], &[EgressClass::ReadOnly, EgressClass::Write])
}

/// Mostly the ones, and the others now and then.
pub(crate) fn rarely<T: Clone + std::fmt::Debug + 'static>(
    mostly: &[T],
    others: &[T],
) -> impl Strategy<Value = T> + use<T> {
    prop_oneof![6 => select(mostly.to_vec()), 1 => select(others.to_vec())]
}
