//! Tools that are one command: what all of them have in common.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::{Canonical, Definition, EgressClass, Profile, Reason, SafetyClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::{CommandLine, CommandOutput, CommandTool, Ran, Tool};

use crate::Test;
use crate::bench::{Bench, runtime};

pub(crate) const TESTS: &[Test] = &[
    (
        "a_command_that_fails_is_a_failure_with_its_complaint",
        a_command_that_fails_is_a_failure_with_its_complaint,
    ),
    ("output_that_is_not_as_expected_is_no_answer", output_that_is_not_as_expected_is_no_answer),
    ("half_an_answer_is_none_and_is_kept", half_an_answer_is_none_and_is_kept),
    ("a_tool_may_take_another_exit_code_for_an_answer", a_tool_may_take_another_exit_code_for_an_answer),
    (
        "a_tool_of_one_command_cannot_write_what_its_profile_cannot",
        a_tool_of_one_command_cannot_write_what_its_profile_cannot,
    ),
    ("what_a_tool_of_one_command_changes_is_told", what_a_tool_of_one_command_changes_is_told),
    (
        "a_tool_of_one_command_ends_in_time_and_when_taken_back",
        a_tool_of_one_command_ends_in_time_and_when_taken_back,
    ),
    ("the_guide_shows_the_code_that_is_tried_here", the_guide_shows_the_code_that_is_tried_here),
];

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize, JsonSchema)]
struct Line {
    line: String,
}

type Read = fn(&CommandOutput) -> Result<Line, Reason>;

fn first_line(output: &CommandOutput) -> Result<Line, Reason> {
    let line = output.success()?.lines().next().map(str::to_owned);
    line.map(|line| Line { line }).ok_or_else(|| Reason::bad_output("no line"))
}

/// Inspecting, unless its profile says otherwise.
fn tool(profile: Profile, command: fn(&Nothing) -> CommandLine, read: Read) -> Arc<dyn Tool> {
    let (action, safety) = match profile {
        Profile::Inspect => ("exec:inspect", SafetyClass::Read),
        _ => ("exec:build", SafetyClass::Write),
    };
    let definition = Definition {
        category: contract::Category::Terminal,
        action: action.into(),
        safety,
        egress: EgressClass::None,
        ..Definition::of::<Nothing, Line>("test.line")
    };
    CommandTool { definition, profile, command, read }.build().unwrap()
}

fn run(bench: &Bench, tool: &dyn Tool, cancel: CancellationToken) -> Ran {
    let arguments = Canonical::of(json!({})).unwrap();
    let grant = bench.grant(tool, &arguments).unwrap();
    runtime().block_on(tool.run(grant, &arguments, &bench.at, cancel))
}

fn inspect(command: fn(&Nothing) -> CommandLine, read: Read) -> Ran {
    run(&Bench::new(), &*tool(Profile::Inspect, command, read), CancellationToken::new())
}

fn code(ran: &Ran) -> Option<&str> {
    ran.failure.as_ref().map(|reason| reason.code.as_str())
}

fn a_command_that_fails_is_a_failure_with_its_complaint() {
    let ran = inspect(|_| CommandLine::of("ls").words(["missing"]), first_line);
    assert_eq!(
        (code(&ran), ran.output.is_error, &ran.output.structured),
        (Some("tool_failed"), true, &Value::Null)
    );
    assert_eq!((ran.facts.exit_code, ran.facts.enforced.len()), (Some(2), jail::Control::ALL.len()));
    assert!(ran.output.content.contains("missing") && ran.output.content.ends_with("exit code 2"), "{ran:?}");
    let unknown = inspect(|_| CommandLine::of("no-such-program"), first_line);
    assert_eq!(code(&unknown), Some("tool_failed"));
}

fn output_that_is_not_as_expected_is_no_answer() {
    let silent = inspect(|_| CommandLine::of("true"), first_line);
    assert_eq!((code(&silent), &silent.output.structured), (Some("bad_output"), &Value::Null));
    let binary = inspect(|_| CommandLine::of("printf").words(["\\377"]), first_line);
    assert_eq!(code(&binary), Some("bad_output"));
    let killed = inspect(
        |_| CommandLine::of("env").words(["sh", "-c", "kill -9 $$"]),
        |_| Ok(Line { line: String::new() }),
    );
    assert_eq!((code(&killed), killed.facts.signal), (Some("tool_failed"), Some(9)));
}

fn half_an_answer_is_none_and_is_kept() {
    let mut bench = Bench::new();
    bench.limits.output = 100_000;
    let tool = tool(Profile::Inspect, |_| CommandLine::of("seq").words(["100000"]), first_line);
    let ran = run(&bench, &*tool, CancellationToken::new());
    assert_eq!((code(&ran), &ran.output.structured), (Some("tool_failed"), &Value::Null));
    assert_eq!(
        ran.output.artifacts.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect::<Vec<_>>(),
        [("stdout", 100_000)]
    );
}

fn a_tool_may_take_another_exit_code_for_an_answer() {
    let ran = inspect(
        |_| CommandLine::of("grep").words(["x", "/dev/null"]),
        |output| Ok(Line { line: format!("code {}", output.exit_code) }),
    );
    assert_eq!((code(&ran), ran.output.is_error), (None, false));
    assert_eq!((ran.output.content.as_str(), ran.facts.exit_code), (r#"{"line":"code 1"}"#, Some(1)));
}

fn touch(_: &Nothing) -> CommandLine {
    CommandLine::of("touch").words(["made"]).pipe("echo").words(["done"])
}

fn a_tool_of_one_command_cannot_write_what_its_profile_cannot() {
    let bench = Bench::new();
    let ran = run(&bench, &*tool(Profile::Inspect, touch, first_line), CancellationToken::new());
    assert_eq!(code(&ran), Some("tool_failed"));
    assert!(!bench.workspace.join("made").exists());
}

fn what_a_tool_of_one_command_changes_is_told() {
    let bench = Bench::new();
    let ran = run(&bench, &*tool(Profile::Build, touch, first_line), CancellationToken::new());
    assert_eq!((code(&ran), &ran.output.structured), (None, &json!({ "line": "done" })));
    assert!(bench.workspace.join("made").exists());
    assert_eq!(ran.facts.files_changed, [("made".to_owned(), "created".to_owned())].into());
}

fn a_tool_of_one_command_ends_in_time_and_when_taken_back() {
    let mut bench = Bench::new();
    let sleeper = tool(Profile::Inspect, |_| CommandLine::of("sleep").words(["600"]), first_line);
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(code(&run(&bench, &*sleeper, cancel)), Some("cancelled"));
    bench.limits.timeout = Duration::from_secs(1);
    let begun = Instant::now();
    assert_eq!(code(&run(&bench, &*sleeper, CancellationToken::new())), Some("timeout"));
    assert!(begun.elapsed() < Duration::from_secs(300));
}

fn the_guide_shows_the_code_that_is_tried_here() {
    let guide = include_str!("../../../../docs/guide/adding-a-tool.md");
    for code in [include_str!("guide/text.rs"), include_str!("guide/walls.rs")] {
        let (first, _) = code.split_once('\n').unwrap();
        assert!(guide.contains(&format!("```rust\n{code}```\n")), "the guide has another `{first}`");
    }
}
