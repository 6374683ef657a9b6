//! Rules in Cedar against what tools take: what is refused before any call, and what can never match.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "names and rules in tests are valid, and what is not is the failure"
)]

use std::collections::BTreeSet;
use std::time::Instant;

use contract::{Actions, Category, EgressClass, SafetyClass};
use policy::{CedarRule, CedarSchema, CedarTool, Checked, Kind};
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
    CedarSchema::of(tools, actions)
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
        assert!(!found.problems.is_empty() || found.never_matches, "{condition}");
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
        (ANY, "resource.category == \"terminals\""),
        ("action == Action::\"vcs:push\", resource", "resource == Tool::\"shell\""),
    ] {
        let found = when(scope, condition);
        assert!(found.never_matches && found.problems.is_empty(), "{condition}: {found:?}");
    }
    for (scope, condition) in [
        (PUSH, "context.arguments.branch == \"main\""),
        // A number that is too large makes it fail, and so deny.
        (PUSH, "context.arguments has depth && false"),
        (ANY, "false && 9223372036854775807 + 1 > 0"),
        (ANY, "!(context has commands)"),
        (ANY, "context.commands.contains(\"x\") && false"),
        ("action == Action::\"org:fire\", resource", "false"),
    ] {
        assert!(!when(scope, condition).never_matches, "{condition}");
    }
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
