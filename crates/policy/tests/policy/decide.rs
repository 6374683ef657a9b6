//! The default verdicts, row by row, and what may change them.
#![expect(clippy::unwrap_used, reason = "names in a table of tests are valid")]

use std::collections::BTreeSet;

use contract::{
    Action, Actions, AgentName, ApprovalId, Autonomy, Category, Code, Digest, EgressClass, Level,
    OperatorName, Profile, Reason, SafetyClass, Target, ToolName, ToolStatus, TrustLabel,
};
use policy::{
    Admitted, Agent, ApprovalRule, Command, Consent, EgressSettings, Facets, Facts, FileSettings, Overrides,
    Policy, RuleEffect, Settings, ToolFacts, ToolGlob, Verdict, WorkspaceAccess, decide,
};

use crate::given::{self, agent as agent_name, reaches};

fn action(text: &str) -> Action {
    Actions::default().parse(text).unwrap()
}

fn settings(agent: Agent) -> Settings {
    let egress =
        EgressSettings { allow: Some(reaches(&["listed.example:443"])), ..EgressSettings::default() };
    Settings { egress, ..given::settings(agent) }
}

fn policy_of(settings: Settings) -> Policy {
    Policy::of(settings).unwrap()
}

fn facts() -> Facts {
    Facts { operators: 1, ..given::facts() }
}

struct Row {
    tool: &'static str,
    category: Category,
    action: &'static str,
    safety: SafetyClass,
    egress: EgressClass,
}

const fn row(
    tool: &'static str,
    category: Category,
    action: &'static str,
    safety: SafetyClass,
    egress: EgressClass,
) -> Row {
    Row { tool, category, action, safety, egress }
}

fn call(row: &Row) -> Admitted {
    let tool = ToolFacts {
        egress: row.egress,
        trust: if row.category == Category::Mcp { TrustLabel::Imported } else { TrustLabel::Internal },
        requires_approval: row.egress == EgressClass::Write,
        ..given::tool(row.tool, row.category, row.safety)
    };
    let profile = row.action.strip_prefix("exec:").and_then(Profile::parse);
    let facets = Facets { egress: row.egress, profile, ..given::facets(row.action, row.safety) };
    given::call(tool, facets)
}

fn listed(name: &str) -> Command {
    Command::named(name)
}

fn unlisted(name: &str) -> Command {
    Command { unlisted: Some(Reason::command_not_allowed("not listed")), ..listed(name) }
}

fn verdict(row: &Row, agent: Agent) -> &'static str {
    decide(&call(row), &facts(), &policy_of(settings(agent))).verdict.as_str()
}

use Category::{CodeExecution, Communication, Database, FileSystem, Memory, Terminal, VersionControl, Web};
use EgressClass::{None as Stays, ReadOnly, Write as Leaves};
use SafetyClass::{Network, Privileged, Read, Write};

const FREE: [Row; 17] = [
    row("fs.read", FileSystem, "code:read", Read, Stays),
    row("fs.list", FileSystem, "code:read", Read, Stays),
    row("fs.search", FileSystem, "code:read", Read, Stays),
    row("fs.write", FileSystem, "code:write", Write, Stays),
    row("fs.edit", FileSystem, "code:write", Write, Stays),
    row("fs.append", FileSystem, "code:write", Write, Stays),
    row("fs.mkdir", FileSystem, "code:create", Write, Stays),
    row("shell", Terminal, "exec:inspect", Read, Stays),
    row("shell", Terminal, "exec:build", Write, Stays),
    row("code.run", CodeExecution, "exec:code", Write, Stays),
    row("git.status", VersionControl, "vcs:read", Read, Stays),
    row("git.commit", VersionControl, "vcs:commit", Write, Stays),
    row("git.branch", VersionControl, "vcs:branch", Write, Stays),
    row("memory.store", Memory, "memory:write", Write, Stays),
    row("memory.search", Memory, "memory:read", Read, Stays),
    row("db.query", Database, "db:query", Read, Stays),
    row("http.request", Web, "web:read", Network, ReadOnly),
];

const ASK: [Row; 8] = [
    row("shell", Terminal, "exec:mutate", Write, Stays),
    row("shell", Terminal, "exec:networked", Network, Leaves),
    row("fs.delete", FileSystem, "code:delete", Write, Stays),
    row("fs.move", FileSystem, "code:delete", Write, Stays),
    row("git.push", VersionControl, "vcs:push", Network, Leaves),
    row("http.request", Web, "web:write", Network, Leaves),
    row("db.mutate", Database, "db:mutate", Write, Stays),
    row("notify.email", Communication, "comms:external", Network, Leaves),
];

#[test]
fn what_the_default_agent_may_do_freely() {
    for row in &FREE {
        assert_eq!(verdict(row, Agent::default()), "allow", "{} {}", row.tool, row.action);
    }
}

#[test]
fn what_the_default_agent_is_asked_about() {
    for row in &ASK {
        assert_eq!(verdict(row, Agent::default()), "ask", "{} {}", row.tool, row.action);
    }
    let named = Agent { allowed: vec![ToolGlob::parse("mcp_*").unwrap()], ..Agent::default() };
    assert_eq!(verdict(&row("mcp_files_read", Category::Mcp, "mcp:call", Network, Stays), named), "ask");
}

#[test]
fn what_the_default_agent_may_not_do() {
    let deny = |row| assert_eq!(verdict(&row, Agent::default()), "deny", "{} {}", row.tool, row.action);
    deny(row("db.admin", Database, "db:admin", Privileged, Stays));
    deny(row("deploy.rollout", Category::Deployment, "deploy:production", Privileged, Leaves));
    deny(row("mystery", Category::Other, "other:privileged", Privileged, Stays));
    deny(row("mcp_files_read", Category::Mcp, "mcp:call", Network, Stays));
    let no_operator = Facts { operators: 0, ..facts() };
    let pays = call(&row("pay", Communication, "budget:spend", SafetyClass::Financial, Stays));
    let ruling = decide(&pays, &no_operator, &policy_of(settings(Agent::default())));
    assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::NoOperator));
}

#[test]
fn private_and_metadata_addresses_are_denied_whatever_else_allows_them() {
    let mut fetch = call(&row("shell", Terminal, "exec:networked", Network, ReadOnly));
    fetch.facets.hosts = vec![Target::parse("169.254.169.254:80").unwrap()];
    let free = Agent { auto_approve: [action("exec:networked")].into(), ..Agent::default() };
    let ruling = decide(&fetch, &facts(), &policy_of(settings(free)));
    assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::HostNotAllowed));
}

#[test]
fn what_needs_a_network_is_refused_where_none_can_be_guarded() {
    let fetch = call(&row("shell", Terminal, "exec:networked", Network, ReadOnly));
    let ruling = decide(&fetch, &Facts { egress: false, ..facts() }, &policy_of(settings(Agent::default())));
    assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::CannotEnforce));
}

#[test]
fn a_call_that_does_more_than_its_contract_says_is_denied() {
    for change in [(|call: &mut Admitted| call.facets.safety = Write) as fn(&mut Admitted), |call| {
        call.facets.egress = ReadOnly
    }] {
        let mut admitted = call(&FREE[0]);
        change(&mut admitted);
        let ruling = decide(&admitted, &facts(), &policy_of(settings(Agent::default())));
        assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::Constrained));
    }
}

#[test]
fn an_unknown_agent_gets_nothing() {
    let ruling = decide(&call(&FREE[0]), &facts(), &policy_of(Settings::default()));
    assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::UnknownAgent));
}

#[test]
fn denied_beats_allowed_and_allowed_beats_the_level() {
    let glob = |text| vec![ToolGlob::parse(text).unwrap()];
    let both = Agent { allowed: glob("fs.*"), denied: glob("fs.read"), ..Agent::default() };
    assert_eq!(verdict(&FREE[0], both), "deny");
    let custom = Agent { level: Level::Custom, ..Agent::default() };
    assert_eq!(verdict(&FREE[0], custom.clone()), "deny");
    assert_eq!(verdict(&FREE[0], Agent { allowed: glob("fs.*"), ..custom.clone() }), "allow");
    // An allow never skips the constraints of the level.
    let shell = &FREE[7];
    assert_eq!(verdict(shell, Agent { allowed: glob("shell"), ..custom }), "deny");
}

#[test]
fn autonomy_makes_an_agent_ask_more_or_less() {
    let with = |autonomy| Agent { autonomy, ..Agent::default() };
    assert_eq!(verdict(&FREE[3], with(Autonomy::Supervised)), "ask");
    assert_eq!(verdict(&FREE[0], with(Autonomy::Supervised)), "allow");
    assert_eq!(verdict(&FREE[3], with(Autonomy::Locked)), "deny");
    assert_eq!(verdict(&ASK[0], with(Autonomy::Full)), "allow");
    assert_eq!(verdict(&ASK[4], with(Autonomy::Full)), "ask", "what leaves is always asked for");
}

#[test]
fn a_waiver_never_reaches_what_the_registry_demands() {
    let waived = |text| Agent { auto_approve: [action(text)].into(), ..Agent::default() };
    assert_eq!(verdict(&ASK[0], waived("exec:mutate")), "allow");
    assert_eq!(verdict(&ASK[5], waived("web:write")), "ask");
}

#[test]
fn rules_ask_and_deny_and_the_strictest_wins() {
    let rule = |tool, effect| ApprovalRule::about(ToolGlob::parse(tool).unwrap(), effect, "toolgate.yaml:3");
    let with = |rules| Settings { rules, ..settings(Agent::default()) };
    let verdict = |rules| decide(&call(&FREE[0]), &facts(), &policy_of(with(rules))).verdict.as_str();
    assert_eq!(verdict(vec![rule("fs.*", RuleEffect::Prompt)]), "ask");
    assert_eq!(verdict(vec![rule("fs.*", RuleEffect::Approve), rule("fs.read", RuleEffect::Deny)]), "deny");
    assert_eq!(verdict(vec![rule("fs.read", RuleEffect::Approve), rule("*", RuleEffect::Prompt)]), "ask");
    assert_eq!(verdict(vec![rule("shell", RuleEffect::Deny)]), "allow");
}

#[test]
fn a_yes_is_good_for_the_call_it_was_given_to_and_no_other() {
    let asked = Admitted { operands: Some(Digest::of(b"files")), ..call(&ASK[0]) };
    let settings = settings(Agent::default());
    let consent = Consent {
        approval: ApprovalId::from_random([2; 16]),
        by: vec![OperatorName::parse("me").unwrap()],
        agent: agent_name(),
        contract: asked.tool.hash,
        arguments: asked.arguments,
        operands: Some(Digest::of(b"files")),
        policy: settings.hash().unwrap(),
        why: Vec::new(),
        expires_at: 2_000,
    };
    let with = |consent| {
        decide(&asked, &Facts { consent: Some(consent), ..facts() }, &policy_of(settings.clone())).verdict
    };
    let other = Digest::of(b"other");
    assert_eq!(with(Consent { arguments: other, ..consent.clone() }).as_str(), "ask");
    assert_eq!(with(Consent { operands: Some(other), ..consent.clone() }).as_str(), "ask");
    assert_eq!(with(Consent { operands: None, ..consent.clone() }).as_str(), "ask");
    assert_eq!(with(Consent { contract: other, ..consent.clone() }).as_str(), "ask");
    assert_eq!(with(Consent { policy: other, ..consent.clone() }).as_str(), "ask");
    assert_eq!(with(Consent { expires_at: 1_000, ..consent.clone() }).as_str(), "ask");
    assert_eq!(with(Consent { by: Vec::new(), ..consent.clone() }).as_str(), "ask");
    assert_eq!(
        with(Consent { agent: AgentName::parse("other").unwrap(), ..consent.clone() }).as_str(),
        "ask"
    );
    let Verdict::Allow(grant) = with(consent.clone()) else { panic!("a good consent allows") };
    assert_eq!(grant.authority().approval, Some(consent.approval));
    assert_eq!(grant.authority().operands, asked.operands);
}

#[test]
fn a_grant_covers_its_own_arguments_until_it_expires() {
    let admitted = call(&FREE[0]);
    let Verdict::Allow(grant) = decide(&admitted, &facts(), &policy_of(settings(Agent::default()))).verdict
    else {
        panic!("it is free")
    };
    let name = &admitted.tool.name;
    assert!(grant.covers(name, admitted.arguments, 1_000));
    assert!(!grant.covers(name, Digest::of(b"other"), 1_000));
    assert!(!grant.covers(&ToolName::parse("fs.write").unwrap(), admitted.arguments, 1_000));
    assert!(!grant.covers(name, admitted.arguments, grant.authority().expires_at));
}

#[test]
fn a_disabled_or_suspended_tool_is_denied() {
    for status in [ToolStatus::Disabled, ToolStatus::Suspended] {
        let mut admitted = call(&FREE[0]);
        admitted.tool.status = status;
        let ruling = decide(&admitted, &facts(), &policy_of(settings(Agent::default())));
        assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::ToolDisabled));
    }
}

#[test]
fn denied_commands_are_denied_by_name_and_by_path() {
    let mut admitted = call(&FREE[7]);
    let mut settings = settings(Agent::default());
    settings.shell.denied = BTreeSet::from(["rm".to_owned()]);
    for command in ["rm", "/bin/rm"] {
        admitted.facets.commands = vec![listed("ls"), listed(command)];
        let ruling = decide(&admitted, &facts(), &policy_of(settings.clone()));
        assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::CommandNotAllowed));
    }
    settings.shell.denied.clear();
    settings.shell.allowed = Some(BTreeSet::new());
    let ruling = decide(&admitted, &facts(), &policy_of(settings.clone()));
    assert!(matches!(ruling.verdict, Verdict::Deny(_)), "an empty list means none, never all");
}

#[test]
fn what_a_command_starts_is_held_to_the_lists_like_the_command_and_what_cannot_be_told_is_refused() {
    let mut admitted = call(&FREE[7]);
    let refused = |admitted: &Admitted, settings: &Settings| match decide(
        admitted,
        &facts(),
        &policy_of(settings.clone()),
    )
    .verdict
    {
        Verdict::Deny(reason) => Some((reason.code, reason.message)),
        _ => None,
    };
    let free = settings(Agent::default());
    let denying = Settings {
        shell: policy::ShellSettings { allowed: None, denied: ["rm".to_owned()].into() },
        ..free.clone()
    };
    let allowed = Some(["env".to_owned(), "git".to_owned()].into());
    let allowing =
        Settings { shell: policy::ShellSettings { allowed, denied: BTreeSet::new() }, ..free.clone() };
    let starts = |name: &str| Command { starts: vec![name.to_owned()], ..listed("env") };
    admitted.facets.commands = vec![starts("git")];
    assert_eq!([&free, &denying, &allowing].map(|settings| refused(&admitted, settings)), [None, None, None]);
    admitted.facets.commands = vec![starts("touch")];
    assert_eq!(refused(&admitted, &denying), None);
    let not_listed = "`touch` is not on the list of allowed commands".to_owned();
    assert_eq!(refused(&admitted, &allowing), Some((Code::CommandNotAllowed, not_listed)));
    admitted.facets.commands =
        vec![Command { untold: Some("runs code that may start anything"), ..listed("env") }];
    assert_eq!(refused(&admitted, &free), None, "where nothing is listed, nothing is asked of it");
    let why = "`env` runs code that may start anything, also one of the denied commands".to_owned();
    assert_eq!(refused(&admitted, &denying), Some((Code::CommandNotAllowed, why)));
    let why = "`env` runs code that may start anything, also a command that is not allowed".to_owned();
    assert_eq!(refused(&admitted, &allowing), Some((Code::CommandNotAllowed, why)));
}

#[test]
fn an_operators_list_says_which_commands_there_are_and_without_one_the_profile_does() {
    let mut admitted = call(&FREE[7]);
    let verdict = |admitted: &Admitted, settings: &Settings| {
        decide(admitted, &facts(), &policy_of(settings.clone())).verdict.as_str()
    };
    let mut settings = settings(Agent::default());
    admitted.facets.commands = vec![unlisted("mytool")];
    assert_eq!(verdict(&admitted, &settings), "deny");
    settings.shell.allowed = Some(["mytool".to_owned()].into());
    assert_eq!(verdict(&admitted, &settings), "allow");
    admitted.facets.commands = vec![unlisted("/tmp/mytool")];
    assert_eq!(verdict(&admitted, &settings), "deny", "it is another command");
    admitted.facets.commands = vec![unlisted("mytool"), listed("ls")];
    assert_eq!(verdict(&admitted, &settings), "deny", "every command is held to the list");
}

#[test]
fn a_full_terminal_needs_no_profiles_list_and_heeds_an_operators() {
    let full = Overrides { terminal: Some(policy::Terminal::Full), ..Overrides::default() };
    let mut settings = settings(Agent { overrides: full, ..Agent::default() });
    let mut admitted = call(&FREE[7]);
    admitted.facets.commands = vec![unlisted("mytool")];
    let verdict =
        |settings: &Settings| decide(&admitted, &facts(), &policy_of(settings.clone())).verdict.as_str();
    assert_eq!(verdict(&settings), "allow");
    settings.shell.allowed = Some(BTreeSet::new());
    assert_eq!(verdict(&settings), "deny");
    settings.shell = policy::ShellSettings { allowed: None, denied: ["mytool".to_owned()].into() };
    assert_eq!(verdict(&settings), "deny");
}

#[test]
fn a_reviewer_asks_before_it_runs_anything_whatever_autonomy_and_lists_it_is_given() {
    let preset = policy::Preset::Reviewer.agent();
    let auto_approve = contract::Actions::built_in().all().collect();
    let agent = Agent { autonomy: Autonomy::Full, auto_approve, ..preset };
    for action in ["exec:build", "test:run"] {
        assert_eq!(verdict(&row("shell", Terminal, action, Write, Stays), agent.clone()), "ask", "{action}");
    }
    assert_eq!(verdict(&row("shell", Terminal, "exec:inspect", Read, Stays), agent), "allow");
}

#[test]
fn at_restricted_people_are_asked_about_databases_and_deployment_whatever_waives_questions() {
    let auto_approve: BTreeSet<_> = contract::Actions::built_in().all().collect();
    let at = |level| Agent {
        level,
        autonomy: Autonomy::Full,
        auto_approve: auto_approve.clone(),
        ..Agent::default()
    };
    let mutate = row("db.mutate", Database, "db:mutate", Write, Stays);
    assert_eq!(verdict(&mutate, at(Level::Restricted)), "ask");
    assert_eq!(verdict(&mutate, at(Level::Standard)), "allow");
    let overrides = Overrides {
        deployment: Some(true),
        categories: Some([Category::Deployment].into()),
        ..Overrides::default()
    };
    let deploy = row("deploy.staging", Category::Deployment, "deploy:staging", Write, Stays);
    assert_eq!(verdict(&deploy, Agent { overrides, ..at(Level::Restricted) }), "ask");
    let query = row("db.query", Database, "db:query", Read, Stays);
    assert_eq!(verdict(&query, at(Level::Restricted)), "allow");
}

#[test]
fn what_a_level_says_of_repositories_is_how_far_their_tools_reach() {
    use policy::Git::{Full, LocalOnly, ReadAndBranch};
    let commit = row("git.commit", VersionControl, "vcs:commit", Write, Stays);
    let fetch = row("git.fetch", VersionControl, "vcs:read", Network, ReadOnly);
    let push = row("git.push", VersionControl, "vcs:push", Network, Leaves);
    for (git, verdicts) in [
        (LocalOnly, ["allow", "deny", "deny"]),
        (ReadAndBranch, ["allow", "allow", "deny"]),
        (Full, ["allow", "allow", "ask"]),
    ] {
        let agent =
            Agent { overrides: Overrides { git: Some(git), ..Overrides::default() }, ..Agent::default() };
        let found = [&commit, &fetch, &push].map(|row| verdict(row, agent.clone()));
        assert_eq!(found, verdicts, "{git:?}");
    }
}

#[test]
fn writing_and_deleting_can_be_switched_off() {
    let verdict = |tool: &str, action: &'static str, access, files| {
        let mut admitted = call(&Row { action, ..row("fs.write", FileSystem, action, Write, Stays) });
        admitted.tool.name = ToolName::parse(tool).unwrap();
        admitted.facets.access = access;
        let settings = Settings { files, ..settings(Agent::default()) };
        decide(&admitted, &facts(), &policy_of(settings)).verdict.as_str()
    };
    let no_delete = FileSettings { delete: false, ..FileSettings::default() };
    let read_only = FileSettings { read_only: true, ..FileSettings::default() };
    let (read, write) = (WorkspaceAccess::Read, WorkspaceAccess::Write);
    assert_eq!(verdict("fs.delete", "code:delete", write, no_delete.clone()), "deny");
    assert_eq!(verdict("fs.move", "code:delete", write, no_delete.clone()), "deny");
    assert_eq!(verdict("fs.write", "code:write", write, no_delete), "allow");
    assert_eq!(verdict("fs.write", "code:write", write, read_only.clone()), "deny");
    assert_eq!(verdict("fs.read", "code:read", read, read_only), "allow");
}

#[test]
fn every_ruling_says_how_it_was_come_by() {
    let ruling = decide(&call(&ASK[0]), &facts(), &policy_of(settings(Agent::default())));
    let layers: Vec<&str> = ruling.trace.iter().map(|step| step.layer).collect();
    assert_eq!(layers, ["permission", "level", "class", "action", "autonomy"]);
}
