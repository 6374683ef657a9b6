//! Rules in Cedar against what tools take: what is refused before any call, and what can never match.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "names and rules in tests are valid, and what is not is the failure"
)]

use std::collections::BTreeSet;
use std::time::Instant;

use contract::{Actions, AgentName, Category, EgressClass, SafetyClass};
use policy::{
    Agent, CedarRule, CedarSchema, CedarTool, Checked, FindingKind, Kind, Price, PriceSettings, Settings,
    ToolGlob, ToolPrice, lint,
};
use serde_json::{Value, json};

use crate::given;

fn tool(name: &str, category: Category, actions: &[&str], properties: Value, required: &[&str]) -> CedarTool {
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    CedarTool {
        facts: given::tool(name, category, SafetyClass::Write),
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        kinds: vec![(SafetyClass::Write, EgressClass::None)],
        arguments: Kind::of_schema(&schema),
    }
}

fn schema() -> CedarSchema {
    let text = json!({ "type": "string" });
    let tools = vec![
        tool(
            "git.push",
            Category::VersionControl,
            &["vcs:push"],
            json!({ "branch": text, "to": text, "depth": { "type": "integer" } }),
            &["branch"],
        ),
        tool(
            "shell",
            Category::Terminal,
            &["exec:inspect", "exec:mutate"],
            json!({
                "command": text,
                "args": { "type": "array", "items": text },
                "env": { "type": "object", "additionalProperties": text },
                "mixed": { "type": ["string", "integer"] },
            }),
            &["command"],
        ),
        tool(
            "pay",
            Category::Other,
            &["budget:spend"],
            json!({ "amount": { "type": "number" }, "to": { "type": "object", "properties": { "name": text }, "required": ["name"], "additionalProperties": false } }),
            &["amount", "to"],
        ),
    ];
    let actions: BTreeSet<String> = Actions::default().iter().map(str::to_owned).collect();
    let roles = ["builder", "reader"].map(str::to_owned);
    CedarSchema::of(tools, actions).with_roles(roles.into())
}

fn checked(text: &str) -> Checked {
    let rules =
        CedarRule::read(text, |line| format!("rules.cedar:{line}")).unwrap_or_else(|p| panic!("{p:?}"));
    schema().checks().check(rules.first().unwrap(), text)
}

fn when(scope: &str, condition: &str) -> Checked {
    checked(&format!("forbid (principal, {scope})\nwhen {{ {condition} }};"))
}

const PUSH: &str = "action, resource == Tool::\"git.push\"";
const SHELL: &str = "action, resource == Tool::\"shell\"";
const PAY: &str = "action, resource == Tool::\"pay\"";
const ANY: &str = "action, resource";

#[test]
fn a_rule_that_fits_what_its_tool_takes_is_taken() {
    for (scope, condition) in [
        (PUSH, "context.arguments.branch == \"main\""),
        (PUSH, "context.arguments has to && context.arguments.to like \"release/*\""),
        (PUSH, "context.arguments has depth && context.arguments.depth > 3"),
        (SHELL, "context.arguments has args && context.arguments.args.contains(\"-f\")"),
        (SHELL, "context.arguments has env"),
        (PAY, "context.arguments.amount.greaterThan(decimal(\"10.5\"))"),
        (PAY, "context.arguments.to.name == \"x\""),
        // Whether a tool has it is asked of the others, too.
        (ANY, "context.arguments has branch && context.arguments.branch == \"main\""),
        ("action == Action::\"vcs:push\", resource", "context.arguments.branch == \"main\""),
        ("action in Action::\"exec\", resource", "context.arguments.command == \"rm\""),
        (ANY, "resource == Tool::\"pay\" && context.arguments.amount.lessThan(decimal(\"1.0\"))"),
        (ANY, "resource.category == \"terminal\" && context.arguments.command == \"rm\""),
        (ANY, "[\"terminal\", \"web\"].contains(resource.category) && context.arguments.command == \"rm\""),
        (ANY, "[Tool::\"shell\"].contains(resource) && context.arguments.command == \"rm\""),
        (ANY, "action == Action::\"exec:mutate\" && context.arguments.command == \"rm\""),
        // What cannot be told makes it fail, and so deny: that is no mistake.
        (ANY, "context.commands.contains(\"rm\")"),
        (ANY, "context has hosts && context.hosts.contains(\"example.com\")"),
        (ANY, "principal.level == \"elevated\" && context.hour > 18 && context.weekday == \"sunday\""),
    ] {
        assert_eq!(when(scope, condition), Checked::default(), "{scope} {condition}");
    }
}

#[test]
fn a_rule_that_names_or_compares_what_there_is_not_is_refused_with_tool_and_place() {
    for (scope, condition, column, message) in [
        (
            PUSH,
            "context.arguments.brnch == \"main\"",
            8,
            "for `git.push`: there is no argument `brnch`, did you mean `branch`?",
        ),
        (
            PUSH,
            "context.arguments.to == \"main\"",
            8,
            "for `git.push`: `context.arguments.to` need not be there: ask first, with `context.arguments has to`",
        ),
        (
            ANY,
            "context.arguments.command == \"rm\"",
            8,
            "for `git.push`, `pay`: there is no argument `command`",
        ),
        (
            ANY,
            "context.task == \"x\"",
            8,
            "for `git.push`, `shell`, `pay`: `context.task` need not be there: ask first, with `context has task`",
        ),
        (
            SHELL,
            "context.arguments has env && context.arguments.env.PATH == \"x\"",
            37,
            "for `shell`: the argument `env` is a map with any names in it, and rules can only ask whether it is given",
        ),
        (
            SHELL,
            "context.arguments has env && context.arguments.env has PATH",
            1,
            "for `shell`: the argument `env` is a map with any names in it, and rules can only ask whether it is given",
        ),
        (
            SHELL,
            "context.arguments has mixed && context.arguments.mixed == \"x\"",
            39,
            "for `shell`: the argument `mixed` is of several kinds, and rules can only ask whether it is given",
        ),
    ] {
        let found = when(scope, condition).problems;
        let [problem] = found.as_slice() else { panic!("{condition}: {found:?}") };
        assert_eq!(problem.message, message, "{condition}");
        assert_eq!(problem.column, column, "{condition}");
    }
    for (scope, condition, part) in [
        (PUSH, "context.arguments.branch == 3", "the types Long and String are not compatible"),
        (PUSH, "context.arguments.branch > 3", "expected Long"),
        (PAY, "context.arguments.amount > 3", "decimal"),
        (ANY, "context.hour == \"noon\"", "not compatible"),
        (SHELL, "context.arguments.command.contains(\"x\")", "expected"),
        (ANY, "principal in Tool::\"shell\"", ""),
    ] {
        let found = when(scope, condition);
        let told = format!("{:?}", found.problems);
        assert!(!found.problems.is_empty() || found.never_matches.is_some(), "{condition}");
        assert!(told.contains(part), "{condition}: {told}");
    }
}

#[test]
fn hosts_are_written_as_calls_name_them() {
    let odd = |host: &str| {
        let found = when(ANY, &format!("context has hosts && context.hosts.contains(\"{host}\")")).problems;
        found.first().map(|problem| problem.message.clone()).unwrap_or_default()
    };
    assert_eq!(odd("example.com"), "");
    assert_eq!(
        odd("Example.com"),
        "no call names the host `Example.com`: hosts have one spelling, did you mean `example.com`?"
    );
    // The first letter is Cyrillic.
    assert!(odd("\u{435}xample.com").contains("did you mean `xn--"), "{}", odd("\u{435}xample.com"));
    assert!(odd("example.com:443").contains("is no host"));
    assert!(odd("*.example.com").contains("is no host"));
}

#[test]
fn what_can_never_match_is_told_and_nothing_else_is() {
    for (scope, condition) in [
        (ANY, "context.arguments has nowhere"),
        (PUSH, "context.arguments has branch && 1 > 2 && false"),
        (PUSH, "action == Action::\"code:read\""),
        (ANY, "resource.category == \"design\""),
        ("action == Action::\"vcs:push\", resource", "resource == Tool::\"shell\""),
    ] {
        let found = when(scope, condition);
        assert!(found.never_matches.is_some() && found.problems.is_empty(), "{condition}: {found:?}");
    }
    for (scope, condition) in [
        (PUSH, "context.arguments.branch == \"main\""),
        // A number that is too large makes it fail, and so deny.
        (PUSH, "context.arguments has depth && false"),
        (ANY, "false && 9223372036854775807 + 1 > 0"),
        (ANY, "!(context has commands)"),
        (ANY, "context.commands.contains(\"x\") && false"),
        // Only tools that are imported later are these.
        ("action == Action::\"mcp:call\", resource", "true"),
        ("action == Action::\"vcs:push\", resource == Tool::\"mcp_forge.push\"", "true"),
    ] {
        assert_eq!(when(scope, condition).never_matches, None, "{condition}");
    }
}

#[test]
fn what_is_advised_where_something_may_be_missing_is_taken_and_matches_what_cannot_be_told() {
    for (name, value) in [("commands", "rm"), ("hosts", "example.com")] {
        let looks = format!("context.{name}.contains(\"{value}\")");
        let found = when(ANY, &format!("!(context has {name}) || {looks}"));
        let [problem] = found.problems.as_slice() else { panic!("{found:?}") };
        let advised =
            format!("`context.{name}` may not be there: write `if context has {name} then … else true`");
        assert!(problem.message.contains(&advised), "{problem:?}");
        let found = when(ANY, &format!("if context has {name} then {looks} else true"));
        assert_eq!(found, policy::Checked::default(), "{name}");
        // The same for one that asks the other way about.
        assert_eq!(when(ANY, &format!("if !(context has {name}) then true else {looks}")).problems.len(), 1);
    }
}

#[test]
fn a_scope_that_no_tool_fits_is_told_with_what_does_not() {
    for (scope, why) in [
        (
            "action == Action::\"vcs:commit\", resource == Tool::\"git.push\"",
            "`git.push` is never `vcs:commit`: it can be `vcs:push`",
        ),
        (
            "action in [Action::\"code\", Action::\"vcs:commit\"], resource == Tool::\"shell\"",
            "`shell` is never `code` or `vcs:commit`: it can be `exec:inspect` or `exec:mutate`",
        ),
        (
            "action in Action::\"deploy\", resource",
            "no tool there is now can be `deploy`; one that is added later might",
        ),
        (
            "action == Action::\"vcs\", resource",
            "no call is `vcs`, which is many actions: write `action in Action::\"vcs\"`",
        ),
    ] {
        let found = checked(&format!("forbid (principal, {scope});"));
        let expected = Checked { never_matches: Some(why.to_owned()), ..Checked::default() };
        assert_eq!(found, expected, "{scope}");
    }
}

#[test]
fn a_word_that_nothing_ever_is_is_refused_with_its_place_and_the_nearest() {
    for (condition, column, message) in [
        ("context.weekday == \"Sunday\"", 27, "`context.weekday` is never `Sunday`, did you mean `sunday`?"),
        (
            "[\"saturday\", \"sundey\"].contains(context.weekday)",
            21,
            "`context.weekday` is never `sundey`, did you mean `sunday`?",
        ),
        (
            "principal.level == \"standart\"",
            27,
            "`principal.level` is never `standart`, did you mean `standard`?",
        ),
        // It would be true of every agent.
        (
            "principal.level != \"standart\"",
            27,
            "`principal.level` is never `standart`, did you mean `standard`?",
        ),
        (
            "\"superviced\" == principal.autonomy",
            8,
            "`principal.autonomy` is never `superviced`, did you mean `supervised`?",
        ),
        (
            "principal.seniority == \"jr\"",
            31,
            "`principal.seniority` is never `jr`; there is `junior`, `mid`, `senior`, `lead`",
        ),
        (
            "principal.role == \"tester\"",
            26,
            "`principal.role` is never `tester`; there is `builder`, `reader`",
        ),
        (
            "resource.category == \"terminals\" || context.hour > 1",
            29,
            "`resource.category` is never `terminals`, did you mean `terminal`?",
        ),
        ("resource.safety == \"Write\"", 27, "`resource.safety` is never `Write`, did you mean `write`?"),
        (
            "resource.egress == \"readonly\"",
            27,
            "`resource.egress` is never `readonly`, did you mean `read_only`?",
        ),
        (
            "resource.trust == \"trusted\"",
            26,
            "`resource.trust` is never `trusted`, did you mean `untrusted`?",
        ),
        (
            "context.commands.contains(\"/bin/rm\")",
            34,
            "`context.commands` never holds `/bin/rm`: programs stand there without their directories, did you mean `rm`?",
        ),
        (
            "context.hour > 25",
            23,
            "`context.hour` is 0 to 23, and compared with `25` by `>` this is always false",
        ),
        (
            "25 != context.hour",
            8,
            "`context.hour` is 0 to 23, and compared with `25` by `!=` this is always true",
        ),
        (
            "context.hour >= 24",
            24,
            "`context.hour` is 0 to 23, and compared with `24` by `>=` this is always false",
        ),
    ] {
        let found = when(ANY, condition);
        let [problem] = found.problems.as_slice() else { panic!("{condition}: {found:?}") };
        assert_eq!(
            (problem.message.as_str(), problem.line, problem.column),
            (message, 2, column),
            "{condition}"
        );
    }
    for condition in [
        "principal.role == \"\" || principal.seniority == \"\" || principal.role == \"reader\"",
        "context.hour >= 22 && context.hour < 24 && context.hour >= 0",
        "context.commands.containsAny([\"rm\", \"shred\"])",
        "[\"saturday\", \"sunday\"].contains(context.weekday)",
    ] {
        assert_eq!(when(ANY, condition), Checked::default(), "{condition}");
    }
}

#[test]
fn mistakes_of_beginners_are_answered_with_what_to_write() {
    let refused = |text: &str| {
        let problems = match CedarRule::read(text, |line| line.to_string()) {
            Ok(rules) => schema().checks().check(rules.first().unwrap(), text).problems,
            Err(problems) => problems,
        };
        let told = problems.iter().map(|found| format!("{}:{}: {}", found.line, found.column, found.message));
        told.collect::<Vec<_>>().join("\n")
    };
    for (text, told) in [
        ("deny (principal, action, resource);", "1:1: a rule begins with `forbid`, not with `deny`"),
        (
            "forbid (principal, action == \"vcs:push\", resource);",
            "1:30: a text alone names nothing: write `Action::\"vcs:push\"`",
        ),
        (
            "forbid (principal, action,\n  resource == \"git.push\");",
            "2:15: a text alone names nothing: write `Tool::\"git.push\"`",
        ),
        (
            "forbid (principal == \"coder\", action, resource);",
            "1:22: a text alone names nothing: write `Agent::\"coder\"`",
        ),
        (
            "forbid (principal, action, resource)\nwhen { action == \"vcs:push\" };",
            "2:18: a text alone names nothing: write `Action::\"vcs:push\"`",
        ),
        (
            "forbid (principal, action, resource) when { context.cost > 0.5 };",
            "1:62: a number with a point is a decimal: write `context.cost.greaterThan(decimal(\"0.5\"))`",
        ),
        (
            "forbid (principal, action, resource) when { context.spend.day>=10.25 };",
            "1:67: a number with a point is a decimal: write `context.spend.day.greaterThanOrEqual(decimal(\"10.25\"))`",
        ),
        (
            "forbid (principal, action, resource) when { context.cost > 5 };",
            "1:45: for `git.push`, `shell`, `pay`: unexpected type: expected Long but saw decimal (decimals are compared like this: `.greaterThan(decimal(\"0.5\"))`)",
        ),
        (
            "forbid (principal, action, resource) when { context.hour.contains(3) };",
            "1:45: for `git.push`, `shell`, `pay`: unexpected type: expected a set but saw Long",
        ),
        (
            "forbid (principal, action, resource) when { context.spend.year.lessThan(decimal(\"1.0\")) };",
            "1:45: for `git.push`, `shell`, `pay`: there is no `context.spend.year` (did you mean `day`?)",
        ),
        (
            "forbid (principal, action, resource) when { context.weekday = \"monday\" };",
            "1:45: `=` compares nothing: write `==`",
        ),
        (
            "forbid (principal, action, resource)\nwhen { true &&\n  context.weekdy == \"monday\" };",
            "3:3: `context` has no attribute `weekdy`; there is `arguments`, `task`, `hosts`, `commands`, `hour`, `weekday`, `cost`, `spend`, did you mean `weekday`?",
        ),
    ] {
        assert_eq!(refused(text), told, "{text}");
    }
    let inner = refused("forbid (principal, action, resource) when { [3, \"a\"].contains(context.hour) };");
    assert!(inner.contains("elements of a set must have compatible types"), "{inner}");
    assert!(!inner.contains("policy") && !inner.contains("__cedar"), "{inner}");
}

#[test]
fn a_pattern_or_a_whole_command_in_a_plain_comparison_is_remarked_on() {
    for (scope, condition, remark) in [
        (
            PUSH,
            "context.arguments.branch == \"release/*\"",
            "`*` in `release/*` is a plain `*` under `==`: `like` makes it a pattern",
        ),
        (
            SHELL,
            "context.arguments has args && context.arguments.args.contains(\"*.rs\")",
            "`*` in `*.rs` is a plain `*` under `contains`: there is no pattern over a set",
        ),
        (
            ANY,
            "context.commands.contains(\"git push\")",
            "`git push` has a space, and `context.commands` holds programs without their arguments",
        ),
    ] {
        let expected = Checked { remarks: vec![remark.to_owned()], ..Checked::default() };
        assert_eq!(when(scope, condition), expected, "{condition}");
    }
    assert_eq!(when(PUSH, "context.arguments.branch like \"release/*\""), Checked::default());
}

#[test]
fn a_rule_that_lets_by_what_cannot_be_told_or_looks_at_money_that_nothing_costs_is_found() {
    let kinds = |text: &str, settings: Settings| -> Vec<FindingKind> {
        let cedar = CedarRule::read(text, |line| format!("rules.cedar:{line}")).unwrap();
        let agent = AgentName::parse("coder").unwrap();
        let settings = Settings { cedar, agents: [(agent, Agent::default())].into(), ..settings };
        lint(&settings, &schema()).iter().map(|found| found.kind).collect()
    };
    let by = "forbid (principal, action, resource) when { context has commands && context.commands.contains(\"rm\") };";
    assert_eq!(kinds(by, Settings::default()), [FindingKind::LetsUntoldBy]);
    let strict = "forbid (principal, action, resource) when { context.commands.contains(\"rm\") };";
    assert_eq!(kinds(strict, Settings::default()), []);
    let dear = "forbid (principal, action, resource) when { context.cost.greaterThan(decimal(\"0.5\")) };";
    assert_eq!(kinds(dear, Settings::default()), [FindingKind::NoPrices]);
    let spent =
        "forbid (principal, action, resource) when { context.spend.day.greaterThan(decimal(\"0.5\")) };";
    assert_eq!(kinds(spent, Settings::default()), [FindingKind::NoPrices]);
    let price = ToolPrice { tools: ToolGlob::parse("*").unwrap(), price: Price::default() };
    let prices = PriceSettings { currency: "EUR".to_owned(), tools: vec![price] };
    assert_eq!(kinds(dear, Settings { prices, ..Settings::default() }), []);
}

#[test]
fn nothing_is_found_about_a_rule_whose_tool_may_be_registered_from_a_file() {
    for effect in [policy::RuleEffect::Deny, policy::RuleEffect::Prompt, policy::RuleEffect::Approve] {
        for name in ["payroll.out", "payroll.*", "mcp_files_read"] {
            let arguments = [(
                policy::ArgumentPath::parse("to").unwrap(),
                policy::Pattern::Text(policy::TextPattern::of("x")),
            )];
            let when = policy::Conditions { arguments: arguments.into(), amount: None };
            let rule = policy::ApprovalRule {
                when,
                ..policy::ApprovalRule::about(ToolGlob::parse(name).unwrap(), effect, "toolgate.yaml:1")
            };
            let agent = AgentName::parse("coder").unwrap();
            let settings = Settings {
                rules: vec![rule],
                agents: [(agent, Agent::default())].into(),
                ..Settings::default()
            };
            assert_eq!(lint(&settings, &schema()), [], "{name}");
        }
    }
    // A rule in Cedar is checked by its tool's name alone.
    let about = "principal, action, resource == Tool::\"payroll.out\"";
    let text =
        format!("forbid ({about}) when {{ context.arguments has to && context.arguments.to == \"x\" }};");
    let cedar = CedarRule::read(&text, |line| format!("rules.cedar:{line}")).unwrap();
    assert_eq!(schema().checks().check(&cedar[0], &text), policy::Checked::default());
    assert_eq!(lint(&Settings { cedar, ..Settings::default() }, &schema()), []);
}

#[test]
fn an_editor_gets_the_schema_of_a_tool_or_of_all_together() {
    let (json, text) = schema().for_editors(Some("pay")).unwrap();
    let text = text.unwrap();
    assert!(text.contains("decimal") && text.contains("action \"budget:spend\""), "{text}");
    assert!(json.to_string().contains("\"amount\""));
    let (all, _) = schema().for_editors(None).unwrap();
    let attributes = |value: &Value| value.to_string().matches("\"required\":false").count();
    assert!(attributes(&all) > attributes(&json));
    assert!(schema().for_editors(Some("nothing")).is_none());
}

/// Whoever has a thousand rules and sixty tools does not wait for them. Generous: tests are built without optimisation.
#[test]
fn a_thousand_rules_about_sixty_tools_are_checked_in_seconds() {
    let text = json!({ "type": "string" });
    let tools: Vec<CedarTool> = (0..60)
        .map(|number| {
            let properties = json!({ "path": text, format!("own_{number}"): text });
            tool(&format!("tool_{number}"), Category::Other, &["mcp:call"], properties, &["path"])
        })
        .collect();
    let actions: BTreeSet<String> = Actions::default().iter().map(str::to_owned).collect();
    let schema = CedarSchema::of(tools, actions);
    let rules: String = (0..1_000)
        .map(|number| match number % 2 {
            0 => format!("forbid (principal, action, resource == Tool::\"tool_{}\") when {{ context.arguments.path like \"{number}/*\" }};\n", number % 60),
            _ => format!("forbid (principal, action, resource) when {{ context.arguments has path && context.arguments.path like \"{number}/*\" }};\n"),
        })
        .collect();
    let begun = Instant::now();
    let read = CedarRule::read(&rules, |line| format!("rules.cedar:{line}")).unwrap();
    let after_reading = begun.elapsed();
    let mut checks = schema.checks();
    assert!(read.iter().all(|rule| checks.check(rule, &rules) == Checked::default()));
    let all = begun.elapsed();
    assert!(all.as_secs() < 120, "read in {after_reading:?}, with checks for 60 tools in {all:?}");
}
