//! Every mistake, with exactly what is said about it.

use super::load;

#[test]
fn a_slip_is_pointed_at_and_the_nearest_name_is_given() {
    refused_as(&[
        ("agnets: {}", "1:1: unknown key `agnets`, did you mean `agents`?"),
        (
            "agents:\n  a:\n    alowed_tools: []",
            "3:5: unknown key `alowed_tools`, did you mean `allowed_tools`?",
        ),
        (
            "agents:\n  a:\n    alowedTools: []",
            "3:5: unknown key `alowedTools`, did you mean `allowedTools`?",
        ),
        (
            "agents:\n  a: { level: standrd }",
            "2:15: unknown word `standrd`; there is `sandboxed`, `restricted`, `standard`, `elevated` and `custom`, \
             did you mean `standard`?",
        ),
        (
            "agents: { a: { autonomy: ful } }",
            "1:26: unknown word `ful`; there is `full`, `semi`, `supervised` and `locked`, did you mean `full`?",
        ),
        (
            "agents:\n  a:\n    auto_approve: [\"vcs\", \"exec:mutat\"]",
            "3:27: there is no action `exec:mutat`, did you mean `exec:mutate`?",
        ),
        (
            "tool_access: { levels: { standard: { requires_approval: [databse_write] } } }",
            "1:58: there is no action `databse_write`, did you mean `database_write`?",
        ),
        (
            "tool_access:\n  levels:\n    sandboxd: {}",
            "3:5: unknown key `sandboxd`, did you mean `sandboxed`?",
        ),
        (
            "sandboxing: { default_backend: doker }",
            "1:32: unknown word `doker`; there is `native`, `subprocess`, `docker`, `kubernetes`, `k8s`, `microvm`, \
             `remote` and `deny`, did you mean `docker`?",
        ),
        (
            "sandboxing:\n  overrides: { termnal: native }",
            "2:16: unknown word `termnal`; there is `file_system`, `code_execution`, `version_control`, `git`, `web`, \
             `database`, `terminal`, `design`, `communication`, `analytics`, `deployment`, `memory`, `mcp` and \
             `other`, did you mean `terminal`?",
        ),
        (
            "approval:\n  rules:\n    - { tool: shel, action: deny }",
            "3:15: there is no tool `shel`, did you mean `shell`?",
        ),
        (
            "agents: { a: { denied_tools: [\"deplyo.*\"] } }",
            "1:31: there is no tool `deplyo.*`, did you mean `deploy.*`?",
        ),
        (
            "trust: { promotion_thresholds: { sandboxed_to_restricted: { scor: 1 } } }",
            "1:61: unknown key `scor`, did you mean `score`?",
        ),
    ]);
}

#[test]
fn a_stranger_is_pointed_at_with_what_there_is() {
    refused_as(&[
        (
            "frobnicate: 1",
            "1:1: unknown key `frobnicate`; there is `agents`, `roles`, `actions`, `tool_access`, `sandboxing`, `trust`, \
             `tools`, `approval`, `policy`, `hooks`, `mcp`, `egress`, `prices`, `budgets`, `store`, `metrics`, \
             `telemetry`, `listen` and `tls`",
        ),
        (
            "agents: { a: { level: godmode } }",
            "1:23: unknown word `godmode`; there is `sandboxed`, `restricted`, `standard`, `elevated` and `custom`",
        ),
        (
            "agents: { a: { auto_approve: [\"payments:refund\"] } }",
            "1:31: there is no action `payments:refund`; name it under `actions` if it is yours",
        ),
    ]);
}

#[test]
fn what_is_given_twice_is_refused_in_any_spelling() {
    refused_as(&[
        ("listen: \"127.0.0.1:1\"\nlisten: \"127.0.0.1:2\"", "2:1: the key `listen` is given twice"),
        ("agents: { a: {}, a: {} }", "1:18: the key `a` is given twice"),
        (
            "agents:\n  a: { allowed_tools: [], allowedTools: [] }",
            "2:6: `allowed_tools` is given twice, in two spellings",
        ),
        ("tool_access: {}\ntoolAccess: {}", "1:1: `tool_access` is given twice, in two spellings"),
        (
            "sandboxing:\n  overrides: { git: native, version_control: deny }",
            "2:14: `version_control` is given twice, in two spellings",
        ),
    ]);
}

#[test]
fn text_that_is_no_yaml_is_shown_where_it_breaks() {
    refused_as(&[
        (
            "agents:\n\tcoder: {}",
            "2:2: tabs disallowed within this context (block indentation), in `coder: {}`",
        ),
        ("agents: {", "1:9: unclosed bracket '{', in `agents: {`"),
        ("store: 'x", "1:8: unclosed quote, in `store: 'x`"),
        (
            "agents:\n  a: {}\n b: {}",
            "3:2: while parsing a block mapping, did not find expected key, in `b: {}`",
        ),
        ("agents: { a: *b }", "1:14: `agents: { a: *b }` repeats an anchor that there is not"),
        ("agents: &a { x: *a }", "1:17: `*a` is inside of what it repeats"),
        ("agents: !!python/object {}", "1:25: the tag `!!python/object` has no meaning here"),
        ("{}\n---\n{}", "3:1: a second document begins here; a configuration is one"),
        ("agents: {a\0: {}}", "1:11: unexpected character: `\\u{0}', in `agents: {a⟨U+0000⟩: {}}`"),
    ]);
}

#[test]
fn an_emptied_file_is_not_taken_for_all_defaults() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "null", "~"] {
        refused_as(&[(text, "1:1: there is nothing in it; for all defaults write `{}`")]);
    }
    assert!(load("toolgate.yaml", b"{}").is_ok());
}

#[test]
fn a_value_of_another_kind_is_shown() {
    refused_as(&[
        ("hello", "1:1: expected keys and values, not `hello`"),
        ("- a", "1:1: expected keys and values, not a list, in `- a`"),
        ("agents: [a]", "1:9: expected keys and values, not a list, in `agents: [a]`"),
        ("tools: yes", "1:8: expected keys and values, not `yes`"),
        ("actions: { a: b }", "1:10: expected a list, not keys and values, in `actions: { a: b }`"),
        ("actions:\n  a: b", "2:3: expected a list, in `a: b`"),
        ("actions: payments:refund", "1:10: expected a list, not `payments:refund`"),
        (
            "agents: { a: { level: [standard] } }",
            "1:23: expected one word, not a list, in `agents: { a: { level: [standard] } }`",
        ),
        ("tools: { bash: { enabled: yes } }", "1:27: `yes` is neither `true` nor `false`"),
        ("tools: { bash: { enabled: } }", "1:25: a value is missing in `tools: { bash: { enabled: } }`"),
        ("agents: { a: { level: } }", "1:21: a value is missing in `agents: { a: { level: } }`"),
        ("store:", "1:6: a value is missing in `store:`"),
        (
            "trust: { promotion_thresholds: { sandboxed_to_restricted: lots } }",
            "1:34: expected a score from 0 to 1, or `score` and `requires_human_approval`, not `lots`",
        ),
    ]);
}

#[test]
fn names_that_would_guard_nothing_or_everything_are_refused() {
    let why = "is not a name pattern: one or more names joined by `/`, with `*` for any characters";
    refused_as(&[
        ("tools: { filesystem: { hidden_names: [\"*\"] } }", &format!("1:39: `*` {why}")),
        ("tools: { filesystem: { protected_names: [\"../x\"] } }", &format!("1:42: `../x` {why}")),
    ]);
}

#[test]
fn numbers_are_numbers_and_in_range() {
    refused_as(&[
        (
            "tools: { bash: { timeout_ms: 99999999999999999999999 } }",
            "1:30: `99999999999999999999999` is not a whole number from 0 to 18446744073709551615",
        ),
        (
            "tools: { filesystem: { max_file_size: -1 } }",
            "1:39: `-1` is not a whole number from 0 to 18446744073709551615",
        ),
        ("tools: { bash: { timeout_ms: 0 } }", "1:30: `timeout_ms` is `0`, not from 1 to 86400000"),
        (
            "tools: { bash: { timeout_ms: 18446744073709551615 } }",
            "1:30: `timeout_ms` is `18446744073709551615`, not from 1 to 86400000",
        ),
        ("approval: { timeout_seconds: 0 }", "1:30: `timeout_seconds` is `0`, not from 1 to 2592000"),
        ("trust: { weights: { error_rate: .nan } }", "1:33: `error_rate` is `NaN`, not from 0 to 1"),
        ("trust: { weights: { error_rate: NaN } }", "1:33: `NaN` is not a number"),
        (
            "trust: { promotion_thresholds: { sandboxed_to_restricted: .nan } }",
            "1:59: `.nan` is not a number",
        ),
        (
            "trust: { promotion_thresholds: { sandboxed_to_restricted: 7 } }",
            "1:59: the score `7` is not from 0 to 1",
        ),
        (
            "approval: { rules: [{ tool: shell, action: budget, budget_limit: .inf }] }",
            "1:66: `budget_limit` is `inf`, not an amount",
        ),
        (
            "approval: { rules: [{ tool: shell, action: budget, budget_limit: 1e999 }] }",
            "1:66: `1e999` is not a number",
        ),
        ("sandboxing: { docker: { memory_limit: 5x } }", "1:39: `x` is not a unit; use k, m, g or t"),
    ]);
}

#[test]
fn a_lifecycle_that_cannot_be_kept_to_is_refused() {
    refused_as(&[
        (
            "sandboxing: { native: { lifecycle: { idle_seconds: 601 } } }",
            "1:52: `idle_seconds` is `601`, not from 1 to 600",
        ),
        (
            "sandboxing: { native: { lifecycle: { health_seconds: 0 } } }",
            "1:54: `health_seconds` is `0`, not from 1 to 600",
        ),
        (
            "sandboxing: { native: { lifecycle: { strategy: per-call, most: 5 } } }",
            "1:64: `most` has no effect with `strategy: per-call`: it keeps nothing; leave it out, or write \
             `strategy: per-task`",
        ),
        (
            "sandboxing: { native: { lifecycle: { strategy: per-task, idle_seconds: 5 } } }",
            "1:72: `idle_seconds` has no effect with `strategy: per-task`: write `grace_seconds`",
        ),
        (
            "sandboxing: { native: { lifecycle: { strategy: per-agent, grace_seconds: 5 } } }",
            "1:74: `grace_seconds` has no effect with `strategy: per-agent`: write `idle_seconds`",
        ),
    ]);
}

#[test]
fn trust_that_could_grow_without_a_person_is_refused() {
    refused_as(&[
        ("trust: { weights: { error_rate: 0.9 } }", "1:19: the `weights` add up to `1.6500`, not to 1"),
        (
            "trust:\n  milestones:\n    standard_to_elevated: { clean_history_days: 14 }",
            "3:27: `standard_to_elevated` always needs a person: write `requires_human_approval: true`",
        ),
        (
            "trust: { milestones: { standard_to_elevated: { requires_human_approval: true, auto_promote: true } } }",
            "1:46: `standard_to_elevated` always needs a person: write `requires_human_approval: true`",
        ),
        (
            "trust: { promotion_thresholds: { standard_to_elevated: 0.8 } }",
            "1:56: `standard_to_elevated` always needs a person: write `requires_human_approval: true`",
        ),
        (
            "trust:\n  promotion_criteria:\n    deployment:\n      sandboxed_to_restricted: { tasks_completed: 1 }",
            "4:32: `deployment` always needs a person: write `requires_human_approval: true`",
        ),
        (
            "trust: { strategy: weighted, initial_level: elevated }",
            "1:45: trust cannot begin at `elevated`: only a person gives that level",
        ),
    ]);
}

#[test]
fn what_contradicts_itself_or_lacks_a_half_is_refused() {
    refused_as(&[
        ("approval:\n  rules:\n    - tool: shell", "3:7: `action` is missing in this rule"),
        ("approval:\n  rules:\n    - action: deny", "3:7: `tool` is missing in this rule"),
        (
            "approval: { rules: [{ tool: shell, action: budget }] }",
            "1:21: `budget_limit` is missing in this rule",
        ),
        (
            "approval: { rules: [{ tool: shell, action: prompt, budget_limit: 1 }] }",
            "1:66: a budget means nothing to a rule that says `prompt`",
        ),
        (
            "policy: { rate_limits: { bash: { max_calls: 0, window_ms: 1 }, shell: { max_calls: 1 } } }",
            "1:45: `max_calls` is `0`, not from 1 to 18446744073709551615\n1:64: `window_ms` is missing for `shell`",
        ),
        (
            "policy: { agent_rate_limit: { max_calls: 1 }, refused_rate_limit: { max_calls: 1, window_ms: 2678400001 } }",
            "1:29: `window_ms` is missing in `agent_rate_limit`\n1:94: `window_ms` is `2678400001`, not from 1 to 2678400000",
        ),
        (
            "policy: { resource_limits: { shel: { memory: 1m }, shell: { processes: 1, cpu: fast, output: 1x } } }",
            "1:30: there is no tool `shel`, did you mean `shell`?\n\
             1:46: `memory` is `1048576`; nothing runs with less than 16777216\n\
             1:72: `processes` is `1`; nothing runs with less than 4\n\
             1:80: `fast` is not a number of processors such as 2 or 0.5\n\
             1:94: `x` is not a unit; use k, m, g or t",
        ),
        ("policy: { on_bad_reload: maybe }", "1:26: unknown word `maybe`; there is `refuse` and `keep`"),
        ("policy: { shadow: ../x }", "1:19: `../x`: write the path without `..`"),
        ("policy: { max_arguments: 1g }", "1:26: `max_arguments` is `1073741824`, not from 1024 to 16777216"),
        ("policy: { rate_limit: {} }", "1:11: unknown key `rate_limit`, did you mean `rate_limits`?"),
        (
            "actions: [\"Payments Refund\"]",
            "1:11: `Payments Refund` is not an action of the form `category:action`, in lower case letters and `_`",
        ),
        (
            "agents: { \"bad name\": {} }",
            "1:11: `bad name`: an agent name may only hold letters, digits, `_`, `.` and `-`, not ` `",
        ),
        ("agents: { a: { denied_tools: [\"[\"] } }", "1:31: `[` is not a pattern over tool names"),
        (
            "tools: { bash: { denied_commands: [\"git push\"] } }",
            "1:36: `git push` is not the name of one program",
        ),
        (
            "agents: { a: { workspace: \"~/x\" } }",
            "1:27: `~/x`: neither `~` nor `$` is understood here: write the whole path",
        ),
        ("agents: { a: { workspace: \"../x\" } }", "1:27: `../x`: write the path without `..`"),
        (
            "listen: \"0.0.0.0:7433\"",
            "1:9: `0.0.0.0:7433` can be reached from outside: that takes a certificate and a name, under `tls`",
        ),
        (
            "listen: \"0.0.0.0:7433\"\ntls: { certificate: c.pem, key: k.pem }",
            "1:9: `0.0.0.0:7433` can be reached from outside: that takes a certificate and a name, under `tls`",
        ),
        ("tls: { certificate: c.pem }", "1:6: `tls` has no `key`"),
        ("tls: { key: k.pem, names: [gate.example] }", "1:6: `tls` has no `certificate`"),
        (
            "tls: { certificate: c.pem, key: k.pem, names: [\"gate.example:7433\"] }",
            "1:48: `gate.example:7433` is not the name of a host",
        ),
        ("listen: here", "1:9: `here` is not an address such as `127.0.0.1:7433`"),
    ]);
}

#[test]
fn a_password_in_the_address_of_a_store_is_refused_and_not_repeated() {
    let said = "1:8: a password does not belong in this file: use `PGPASSWORD`, the file of `PGPASSFILE`, or \
                `store: env:NAME` for a variable with the whole URL";
    refused_as(&[
        ("store: \"postgres://me:secret@host/db\"", said),
        ("store: \"postgresql://host/db?user=me&password=secret\"", said),
        ("store: \"postgres://host/db?PassWord=secret\"", said),
        ("store: \"postgres://me:secr@et@host/db\"", said),
    ]);
    refused_as(&[
        (
            "store: \"mysql://me:secret@host/db\"",
            "1:8: `mysql` is no store: write `sqlite:PATH`, `postgres://USER@HOST/DATABASE` or `env:NAME`",
        ),
        (
            "store: \"postgres://me:secret@host:port/db\"",
            "1:8: it is not the URL of a server: write `postgres://USER@HOST/DATABASE`",
        ),
        (
            "store: \"env:secret value\"",
            "1:8: `env:` is followed by the name of a variable, such as `env:TOOLGATE_STORE`",
        ),
    ]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once_in_the_order_of_the_file() {
    refused_as(&[(
        "listen: x\nactions: [A]\nagents: { a: { denied_tools: [shel] } }",
        "1:9: `x` is not an address such as `127.0.0.1:7433`\n\
         2:11: `A` is not an action of the form `category:action`, in lower case letters and `_`\n\
         3:31: there is no tool `shel`, did you mean `shell`?",
    )]);
}

#[test]
fn escape_sequences_do_not_reach_the_terminal() {
    let said = load("toolgate.yaml", b"\"\\e[31m\": 1").unwrap_err();
    assert!(said.starts_with("1:1: unknown key `\u{27e8}U+001B\u{27e9}[31m`"), "{said}");
    let long = format!("agents: {{ a: {{ level: \"{}\" }} }}", "x".repeat(100_000));
    let said = load("toolgate.yaml", long.as_bytes()).unwrap_err();
    assert!(said.len() < 300, "{} bytes", said.len());
}

#[test]
fn bytes_that_are_no_text_are_pointed_at() {
    let said = load("toolgate.yaml", b"agents:\n  caf\xe9: {}").unwrap_err();
    assert_eq!(said, "2:6: the byte `0xe9` is not UTF-8");
    let said = load("toolgate.yaml", b"\xff\xfea\0").unwrap_err();
    assert_eq!(said, "1:1: the byte `0xff` is not UTF-8");
}

#[test]
fn a_file_that_says_it_is_json_has_to_be() {
    let said = load("toolgate.json", b"{\n  \"agents\": {},\n}\n").unwrap_err();
    assert_eq!(said, "3:1: not JSON: trailing comma, in `}`");
    let said = load("toolgate.json", b"agents: {}").unwrap_err();
    assert_eq!(said, "1:1: not JSON: expected value, in `agents: {}`");
    let said =
        load("toolgate.json", b"{\"listen\": \"127.0.0.1:1\", \"listen\": \"127.0.0.1:2\"}").unwrap_err();
    assert_eq!(said, "1:27: the key `listen` is given twice");
    assert!(load("toolgate.json", b"{\n\t\"agents\": {\n\t\t\"a\": {}\n\t}\n}").is_ok(), "tabs are JSON");
}

#[test]
fn anchors_are_understood_and_those_that_expand_without_end_are_not() {
    let few = "agents:\n  a: &same { level: sandboxed }\n  b: *same\n  c: { <<: *same, autonomy: locked }\n";
    assert_eq!(super::loaded(few).meaning.settings.agents.len(), 4);

    let too_much = "too much: its anchors and nesting expand past what a configuration needs";
    let entries = "\"fs.*\",".repeat(300);
    let agents: String = (0..900).map(|n| format!("  b{n}: &x{n} {{ denied_tools: *list }}\n")).collect();
    let wide = format!("agents:\n  a: {{ denied_tools: &list [{entries}] }}\n{agents}");
    let said = load("toolgate.yaml", wide.as_bytes()).unwrap_err();
    assert!(said.ends_with(too_much), "{said}");

    let nine = |name: &str| [name; 9].join(",");
    let laughs = ["a", "b", "c", "d", "e", "f", "g", "h"]
        .windows(2)
        .fold("actions:\n - &a [\"x:y\"]\n".to_owned(), |text, pair| {
            format!("{text} - &{} [{}]\n", pair[1], nine(&format!("*{}", pair[0])))
        });
    assert!(load("toolgate.yaml", laughs.as_bytes()).is_err());
    for deep in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)] {
        assert!(load("toolgate.yaml", deep.as_bytes()).is_err());
    }
}

fn refused_as(cases: &[(&str, &str)]) {
    for (text, said) in cases {
        match load("toolgate.yaml", text.as_bytes()) {
            Ok(_) => panic!("it is taken as valid:\n{text}"),
            Err(found) => assert_eq!(found, *said, "about\n{text}"),
        }
    }
}

#[test]
fn a_rule_that_could_not_mean_what_it_says_is_refused() {
    // What is written, what is pointed at, and what is said.
    let cases = [
        ("action: prompt, quorum: 0", "0 }", "`quorum` is `0`, not from 1 to 20"),
        ("action: deny, quorum: 2", "2 }", "`quorum` means nothing to a rule that says `deny`"),
        (
            "action: prompt, arguments: { a..b: x }",
            "a..b",
            "`a..b` is not the name of an argument, such as `amount` or `payment.amount`",
        ),
        (
            "action: prompt, amount: { over: 5 }",
            "{ over",
            "`argument` is missing: which argument is the amount?",
        ),
        ("action: prompt, amount: { argument: a }", "{ argument", "`over` is missing: from which amount on?"),
        (
            "action: approve, amount: { argument: a }",
            "{ argument",
            "`up_to` is missing: from which amount on?",
        ),
        (
            "action: prompt, amount: { argument: a, over: -1 }",
            "-1 ",
            "-1 is not an amount from 0 to 9000000000",
        ),
        (
            "action: deny, amount: { argument: a, up_to: 1 }",
            "1 }",
            "this rule takes `over`: a rule that approves is about amounts `up_to`, the others about those `over`",
        ),
        ("action: prompt, amuont: {}", "amuont", "unknown key `amuont`, did you mean `amount`?"),
    ];
    for (rest, at, said) in cases {
        let line = format!("    - {{ tool: shell, {rest} }}");
        let column = line.find(at).unwrap() + 1;
        let text = format!("approval:\n  rules:\n{line}");
        refused_as(&[(&text, &format!("3:{column}: {said}"))]);
    }
}

#[test]
fn times_and_steps_that_make_no_sense_are_refused() {
    refused_as(&[
        ("approval: { wait_seconds: 0 }", "1:27: `wait_seconds` is `0`, not from 1 to 3600"),
        (
            "approval: { timeout_seconds_by_class: { finacial: 5 } }",
            "1:41: unknown key `finacial`, did you mean `financial`?",
        ),
        (
            "approval: { standing_max_seconds: 2592001 }",
            "1:35: `standing_max_seconds` is `2592001`, not from 1 to 2592000",
        ),
        ("approval:\n  escalation:\n    - { to: [boss] }", "3:7: `after_seconds` is missing in this step"),
        ("approval:\n  escalation:\n    - { after_seconds: 5, to: [] }", "3:7: `to` is missing in this step"),
        (
            "approval:\n  escalation:\n    - { after_seconds: 9, to: [a] }\n    - { after_seconds: 9, to: [b] }",
            "4:7: each step comes later than the one before",
        ),
        (
            "agents: { a: { operator: alice, elicitation: alice } }",
            "1:46: `alice`: the agent works for them, so they approve nothing of it, in its client neither",
        ),
        (
            "agents: { a: { operator: \"no body\" } }",
            "1:26: `no body`: an operator name may only hold letters, digits, `_`, `.` and `-`, not ` `",
        ),
    ]);
}

#[test]
fn a_hook_that_could_not_be_heard_as_it_is_meant_is_refused() {
    refused_as(&[
        ("hooks: [{command: /usr/bin/env}]", "1:9: `name` is missing in this hook"),
        ("hooks: [{name: a}]", "1:9: `command` is missing in this hook"),
        (
            "hooks: [{name: a b, command: /usr/bin/env}]",
            "1:16: `a b` is not a name of at most 64 letters, digits, `-` and `_`",
        ),
        ("hooks: [{name: a, command: minder}]", "1:28: the program `minder` is not an absolute path"),
        (
            "hooks: [{name: a, command: /etc/toolgate/none}]",
            "1:28: the program `/etc/toolgate/none` cannot be read: No such file or directory (os error 2)",
        ),
        ("hooks: [{name: a, command: /usr/bin}]", "1:28: the program `/usr/bin` is not a file"),
        (
            "hooks: [{name: a, command: /usr/bin/env, timeout_ms: 5001}]",
            "1:54: `timeout_ms` is `5001`, not from 1 to 5000",
        ),
        (
            "hooks: [{name: a, command: /usr/bin/env, tools: [shel]}]",
            "1:50: there is no tool `shel`, did you mean `shell`?",
        ),
        (
            "hooks: [{name: a, command: /usr/bin/env, tools: []}]",
            "1:49: a hook for no tool is never heard: name some, or leave `tools` out",
        ),
        (
            "hooks: [{name: a, command: /usr/bin/env, when: befor}]",
            "1:48: unknown word `befor`; there is `before`, `after` and `both`, did you mean `before`?",
        ),
        ("hooks: [{name: a, comand: /usr/bin/env}]", "1:19: unknown key `comand`, did you mean `command`?"),
        (
            "hooks:\n  - {name: a, command: /usr/bin/env}\n  - {name: a, command: /usr/bin/env}",
            "3:12: there is a hook `a` already",
        ),
    ]);
}
