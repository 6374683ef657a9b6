//! Rules in Cedar: where they stand, what is wrong with them, and whether their examples are right.

use std::fs;

use contract::{AgentName, Level};
use policy::{Dimension, Setting};

use super::{load, loaded};
use crate::config::load::{LoadError, Loaded, load_file};

/// A rule about pushes to `main`, with an example that expects something.
fn with_example(example: &str) -> String {
    format!(
        "policy:\n  rules:\n    - id: main\n      cedar: |\n        forbid (principal, action, resource == Tool::\"git.push\")\n        \
         when {{ context.arguments.branch == \"main\" }};\n      examples:\n        - {example}\n"
    )
}

fn refused(text: &str) -> String {
    match load("toolgate.yaml", text.as_bytes()) {
        Ok(_) => panic!("it is taken as valid:\n{text}"),
        Err(found) => found,
    }
}

#[test]
fn a_rule_has_its_name_its_line_and_examples_that_hold() {
    let push = |branch: &str, expect: &str| {
        format!(
            "{{ tool: git.push, arguments: {{ url: \"https://a.example/b.git\", branch: {branch} }}, expect: {expect} }}"
        )
    };
    let read = loaded(&with_example(&push("main", "forbid"))).meaning.settings.cedar;
    let [rule] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!((rule.place.as_str(), rule.id.as_deref()), ("toolgate.yaml:5", Some("main")));
    loaded(&with_example(&push("other", "nothing")));
    let wrong = refused(&with_example(&push("other", "forbid")));
    assert_eq!(wrong, "8:99: the example expects `forbid`, and the rule says `nothing`");
    assert!(
        refused(&with_example("{ tool: git.push, expect: forbid }"))
            .starts_with("8:11: the example is no call: ")
    );
    assert!(
        refused(&with_example("{ tool: deploy.trigger, expect: forbid }"))
            .contains("there is no tool `deploy.trigger` here")
    );
    assert_eq!(
        refused(&with_example("{ tool: git.psuh, expect: forbid }")),
        "8:19: there is no tool `git.psuh` here to check an example with, did you mean `git.push`?"
    );
    assert_eq!(refused(&with_example("{ tool: git.push }")), "8:11: `expect` is missing in this example");
    let fails = "policy: { rules: [{ cedar: 'forbid (principal, action, resource) when { context.hour * 9223372036854775807 > 0 };', \
                 examples: [{ tool: fs.read, arguments: { path: a }, expect: nothing }] }] }";
    assert!(refused(fails).contains("the rule cannot be evaluated, which denies"), "{}", refused(fails));
}

#[test]
fn a_rule_may_name_a_tool_that_is_registered_from_a_file() {
    let text = "policy:\n  rules:\n    - cedar: 'forbid (principal, action, resource == Tool::\"payroll.out\") \
                when { context.arguments has to && context.arguments.to == \"x\" };'";
    let read = loaded(text);
    assert_eq!(read.meaning.settings.cedar.len(), 1);
    let warned = read.warnings.join(" ");
    assert!(
        warned.contains("`payroll.out` is no built-in tool; it means one that is added later"),
        "{warned}"
    );
}

#[test]
fn what_a_rule_names_exists() {
    let rule = |text: &str| refused(&format!("policy:\n  rules:\n    - cedar: '{text}'"));
    let scope = |scope: &str| rule(&format!("forbid ({scope});"));
    assert_eq!(
        scope("principal, action, resource == Tool::\"git.psuh\""),
        "3:54: there is no tool `git.psuh`, did you mean `git.push`?"
    );
    assert_eq!(
        scope("principal, action, resource == Tool::\"git.*\""),
        "3:54: a rule names one tool, and `git.*` is a pattern: for all of these write `action in Action::\"vcs\"` or `resource.category == \"version_control\"`"
    );
    assert!(
        scope("principal, action == Action::\"vcs:psuh\", resource")
            .starts_with("3:44: there is no action `vcs:psuh`, did you mean `vcs:push`?")
    );
    assert_eq!(
        scope("principal, action == Action::\"git:push\", resource"),
        "3:44: there is no action `git:push`, did you mean `vcs:push`?"
    );
    assert!(
        scope("principal, action == Action::\"database_write\", resource")
            .contains("no action `database_write`")
    );
    assert_eq!(
        scope("principal == Agent::\"x\", action, resource"),
        "3:36: there is no agent `x`; there is `default`"
    );
    assert_eq!(
        rule(
            "forbid (principal, action, resource == Tool::\"git.push\") when { context.arguments has brnch };"
        ),
        "3:79: `git.push` has no argument `brnch`, did you mean `branch`?"
    );
    assert_eq!(
        rule("forbid (principal, action, resource) when { context.arguments. };"),
        "3:78: unexpected token `}`"
    );
    assert_eq!(
        rule("forbid (principal, action, resource) when { principal.age > 3 };"),
        "3:59: `principal` has no attribute `age`; there is `level`, `autonomy`, `role`, `seniority`"
    );
    assert!(rule("permit (principal, action, resource);").contains("`permit` changes nothing here"));
    assert_eq!(
        rule("forbid (principal, action, resource); forbid (principal, action, resource);"),
        "3:14: one rule stands here, not 2; `files` take more"
    );
    assert_eq!(rule(""), "3:14: the rule is empty");
    assert_eq!(rule("// later"), "3:14: the rule is empty");
    assert_eq!(refused("policy: { rules: [{ id: x }] }"), "1:19: `cedar` is missing in this rule");
}

#[test]
fn what_is_wrong_in_a_block_is_pointed_at_in_the_file() {
    let block = |rule: &str| {
        let lines: String = rule.lines().map(|line| format!("        {line}\n")).collect();
        refused(&format!("policy:\n  rules:\n    - id: a\n      cedar: |\n{lines}"))
    };
    let scope = "// why\nforbid (principal, action, resource == Tool::\"git.push\")";
    let when = |condition: &str| block(&format!("{scope}\nwhen {{\n  {condition}\n}};"));
    assert_eq!(when("context.arguments. == 1"), "8:30: unexpected token `==`");
    assert!(when("context.weekdy == \"monday\"").starts_with("8:11: `context` has no attribute `weekdy`"));
    assert!(when("context.arguments.brnch == \"x\"").starts_with("8:11: `git.push` has no argument `brnch`"));
    assert!(
        when("context.hosts.contains(\"A.example\")").starts_with("8:34: no call names the host `A.example`")
    );
    assert!(when("context.weekday == \"Sunday\"").starts_with("8:30: `context.weekday` is never `Sunday`"));
    assert_eq!(
        block("\nforbid (\n  principal == Agent::\"x\", action, resource);"),
        "7:24: there is no agent `x`; there is `default`"
    );
    assert_eq!(block("forbid (principal, action, resource)"), "5:45: unexpected end of input");
    // Lines that are folded are no lines of the file.
    let folded = "policy:\n  rules:\n    - cedar: >\n        forbid (principal, action,\n        resouce);\n";
    assert!(refused(folded).contains("line 1, column 28 of the rule: "), "{}", refused(folded));
    let of = |text: &str| loaded(text).meaning.settings.cedar.first().map(|rule| rule.place.clone());
    let commented =
        "policy:\n  rules:\n    - cedar: |\n        // why\n        forbid (principal, action, resource);\n";
    assert_eq!(of(commented).as_deref(), Some("toolgate.yaml:5"));
}

#[test]
fn a_second_rule_of_one_name_is_pointed_at_and_examples_of_a_wrong_rule_are_not_told() {
    let rule = "cedar: 'forbid (principal, action, resource);'";
    let twice = format!("policy:\n  rules:\n    - {{ id: a, {rule} }}\n    - {{ id: a, {rule} }}\n");
    assert_eq!(refused(&twice), "4:13: two rules have the name `a`: toolgate.yaml:3 and toolgate.yaml:4");
    let wrong =
        with_example("{ tool: git.psuh, expect: forbid }").replace("arguments.branch", "arguments.brnch");
    assert_eq!(refused(&wrong), "6:16: `git.push` has no argument `brnch`, did you mean `branch`?");
}

#[test]
fn an_example_says_when_it_happens_and_for_which_task() {
    let with = |condition: &str, said: &str, expect: &str| {
        format!(
            "policy:\n  rules:\n    - cedar: 'forbid (principal, action, resource) when {{ {condition} }};'\n      examples:\n        \
             - {{ tool: fs.read, arguments: {{ path: a }}, {said} expect: {expect} }}\n"
        )
    };
    let sunday = "context.weekday == \"sunday\" && context.hour >= 22";
    loaded(&with(sunday, "at: \"2026-02-01T22:30:00Z\",", "forbid"));
    loaded(&with(sunday, "at: \"2026-02-01T22:30:00+01:00\",", "nothing"));
    loaded(&with(sunday, "", "nothing"));
    let task = "context has task && context.task == \"nightly\"";
    loaded(&with(task, "task: nightly,", "forbid"));
    loaded(&with(task, "", "nothing"));
    let odd = refused(&with(sunday, "at: sunday,", "forbid"));
    assert!(odd.contains("the example is no call: `sunday` is no moment such as"), "{odd}");
}

#[test]
fn files_of_rules_stand_beside_the_configuration_and_are_pointed_into() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolgate.yaml");
    fs::write(&path, "policy:\n  files: [rules.cedar]\n").unwrap();
    let read = |rules: &str| -> Result<Loaded, String> {
        fs::write(folder.path().join("rules.cedar"), rules).unwrap();
        load_file(&path).map_err(|error| match error {
            LoadError::Invalid { problems, .. } => problems.iter().map(ToString::to_string).collect(),
            other => other.to_string(),
        })
    };
    let two = "// why\n\n@id(\"a\")\nforbid (principal, action, resource is Tool);\n\
               @effect(\"ask\") forbid (principal, action in Action::\"vcs\", resource);\n";
    let settings = read(two).unwrap().meaning.settings;
    let places: Vec<&str> = settings.cedar.iter().map(|rule| rule.place.as_str()).collect();
    assert_eq!(places, ["rules.cedar:3", "rules.cedar:5"]);
    let other = read("@id(\"a\") forbid (principal, action, resource is Tool);").unwrap().meaning.settings;
    assert_ne!(settings.hash().unwrap(), other.hash().unwrap());
    assert_eq!(
        read("\nforbid (principal, action, resource)\nwhen { 1 + };").unwrap_err(),
        "2:11: rules.cedar:3:12: unexpected token `}`"
    );
    assert_eq!(
        read("\nforbid (principal, action, resource == Tool::\"shel\");").unwrap_err(),
        "2:11: rules.cedar:2:40: there is no tool `shel`, did you mean `shell`?"
    );
    assert!(read("@id(\"a\") forbid (principal, action, resource);\n@id(\"a\") forbid (principal, action, resource);")
        .unwrap_err()
        .contains("two rules have the name `a`: rules.cedar:1 and rules.cedar:2"));
    fs::remove_file(folder.path().join("rules.cedar")).unwrap();
    let missing = load_file(&path).unwrap_err().to_string();
    assert!(missing.contains(":2:11: cannot read"), "{missing}");
}

#[test]
fn what_a_rule_reads_is_what_its_tools_take() {
    let rule = |text: &str| format!("policy:\n  rules:\n    - cedar: '{text}'");
    let on_push = |condition: &str| {
        rule(&format!("forbid (principal, action, resource == Tool::\"git.push\") when {{ {condition} }};"))
    };
    assert_eq!(
        refused(&on_push("context.arguments.to == \"main\"")),
        "3:79: for `git.push`: `context.arguments.to` need not be there: ask first, with `context.arguments has to`"
    );
    assert!(refused(&on_push("context.arguments.branch == 3")).contains("not compatible"));
    let everywhere = rule("forbid (principal, action, resource) when { context.arguments.url == \"x\" };");
    assert!(refused(&everywhere).contains("there is no argument `url`"), "{}", refused(&everywhere));
    let open_map = "forbid (principal, action, resource == Tool::\"shell\") when { context.arguments has env && context.arguments.env has PATH };";
    assert!(
        refused(&rule(open_map)).contains("`env` is a map with any names in it"),
        "{}",
        refused(&rule(open_map))
    );
    // One that can be about nothing is read, and said so.
    let never = loaded(&rule("forbid (principal, action, resource) when { context.arguments has nowhere };"));
    assert!(
        never.warnings.iter().any(|warning| warning.contains("can be about no call")),
        "{:?}",
        never.warnings
    );
    let places = never.warnings.iter().map(|warning| warning.matches("toolgate.yaml:").count());
    assert!(places.into_iter().all(|count| count == 1), "a place is told once: {:?}", never.warnings);
    assert_eq!(never.meaning.without_examples.len(), 1);
    let of_none = |scope: &str| {
        let read = loaded(&rule(&format!("forbid (principal, {scope});")));
        read.warnings
            .iter()
            .find(|warning| warning.contains("can be about no call"))
            .cloned()
            .unwrap_or_default()
    };
    let pushed = of_none("action == Action::\"vcs:commit\", resource == Tool::\"git.push\"");
    assert!(pushed.contains("`git.push` is never `vcs:commit`"), "{pushed}");
    let deployed = of_none("action in Action::\"deploy\", resource");
    assert!(
        deployed.contains("no tool there is now can be `deploy`; one that is added later might"),
        "{deployed}"
    );
    assert_eq!(of_none("action, resource == Tool::\"mcp_forge.push\""), "");
    let role = "roles: { tester: {} }\n".to_owned()
        + &rule("forbid (principal, action, resource) when { principal.role == \"testr\" };");
    assert!(
        refused(&role).contains("`principal.role` is never `testr`, did you mean `tester`?"),
        "{}",
        refused(&role)
    );
    // Letters of another alphabet that look like ours.
    let mixed = loaded(&rule(
        "forbid (principal, action, resource == Tool::\"git.push\") when { context.arguments.branch == \"m\u{430}in\" };",
    ));
    assert!(mixed.warnings.iter().any(|warning| warning.contains("mixed scripts")), "{:?}", mixed.warnings);
}

#[test]
fn what_decides_is_found_again_by_its_line() {
    let text = "agents:\n  coder:\n    level: restricted\n    autonomy: supervised\n    denied_tools:\n      - bash\n    \
                overrides:\n      network: none\ntool_access:\n  levels:\n    restricted:\n      git: full\ntools:\n  bash:\n    \
                denied_commands: [rm]\n  filesystem:\n    read_only: true\negress:\n  allow:\n    - example.com:443\n  block: [bad.example]\n";
    let origins = loaded(text).meaning.settings.origins;
    let coder = AgentName::parse("coder").unwrap();
    for (setting, line) in [
        (Setting::Level(coder.clone()), 3),
        (Setting::Autonomy(coder.clone()), 4),
        (Setting::Denied(coder.clone(), "shell".to_owned()), 6),
        (Setting::Override(coder, Dimension::Network), 8),
        (Setting::LevelMeans(Level::Restricted, Dimension::Git), 12),
        (Setting::DeniedCommand("rm".to_owned()), 15),
        (Setting::ReadOnly, 17),
        (Setting::Hosts, 20),
        (Setting::Blocked("bad.example".to_owned()), 21),
    ] {
        assert_eq!(origins.of(&setting), Some(format!("toolgate.yaml:{line}").as_str()), "{setting:?}");
    }
    assert_eq!(origins.of(&Setting::Delete), None);
}
