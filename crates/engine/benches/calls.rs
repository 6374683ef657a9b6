//! Times whole calls: `fs.read` from the request to the signed receipt, on a durable store; and one decision alone.
//!
//! The sandboxes are real: this program is its own helper and worker. Compare figures of one run only.
#![expect(clippy::print_stdout, reason = "the report is this program's data")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has no figures")]

#[path = "calls/profile.rs"]
mod profile;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use contract::{
    Actions, AgentName, CallId, CallStatus, Canonical, Category, Digest, EgressClass, SafetyClass, TaskName,
    ToolName, ToolStatus, TrustLabel,
};
use engine::{Clock, Engine, Options, Request};
use policy::{
    Admitted, Agent, Facets, Facts, GrantLimits, Policy, Settings, ToolFacts, WorkspaceAccess, decide,
};
use profile::Profile;
use sandbox::{Host, Proofs};
use tokio_util::sync::CancellationToken;
use tools::Surroundings;

fn main() {
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    let (calls, decisions) =
        if std::env::args().any(|argument| argument == "--quick") { (100, 2_000) } else { (1_000, 50_000) };
    // `cargo test --all-targets` comes here too.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    time_decisions(decisions);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Listening takes time of its own, so it is done only where it is asked for.
    let profile = std::env::args().any(|argument| argument == "--profile").then(Profile::listen);
    runtime.block_on(time_calls(calls, profile.as_ref()));
}

fn agent() -> AgentName {
    AgentName::parse("default").unwrap()
}

fn settings() -> Settings {
    Settings { agents: [(agent(), Agent::default())].into(), ..Settings::default() }
}

fn time_decisions(count: usize) {
    let policy = Policy::of(settings()).unwrap();
    let admitted = Admitted {
        call: CallId::from_random([1; 16]),
        agent: agent(),
        task: None,
        tool: ToolFacts {
            name: ToolName::parse("fs.read").unwrap(),
            hash: Digest::of(b"contract"),
            category: Category::FileSystem,
            safety: SafetyClass::Read,
            least: SafetyClass::Read,
            egress: EgressClass::None,
            status: ToolStatus::Active,
            trust: TrustLabel::Internal,
            requires_approval: false,
            limits: GrantLimits::default(),
        },
        facets: Facets {
            action: Actions::default().parse("code:read").unwrap(),
            safety: SafetyClass::Read,
            egress: EgressClass::None,
            access: WorkspaceAccess::Read,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: Vec::new(),
        },
        arguments: Digest::of(b"arguments"),
        operands: None,
        values: std::sync::Arc::default(),
        asked_at: 0,
    };
    let facts = Facts {
        now: 0,
        workspace: "/work".into(),
        operators: 1,
        egress: false,
        ask_for: 300_000,
        consent: None,
        standing: Vec::new(),
        content: None,
        tallies: Vec::new(),
    };
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        let ruling = std::hint::black_box(decide(&admitted, &facts, &policy));
        times.push(begun.elapsed());
        drop(ruling);
    }
    println!("decide          p50 {:>9.1?}  p99 {:>9.1?}", at(&mut times, 0.5), at(&mut times, 0.99));
}

async fn time_calls(count: usize, profile: Option<&Profile>) {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let workspace = home.path().join("work");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("README.md"), "# Read me\n".repeat(20)).unwrap();
    let engine = open(home.path(), &workspace).await;
    for at_once in [1, 8, 64] {
        // The first ones start workers.
        in_flight(&engine, at_once * 2, at_once).await;
        profile.inspect(|profile| profile.begin());
        let begun = Instant::now();
        let mut times = in_flight(&engine, count, at_once).await;
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        println!(
            "fs.read at {at_once:>2}   p50 {:>9.1?}  p99 {:>9.1?}  {rate:>7.0} calls/s",
            at(&mut times, 0.5),
            at(&mut times, 0.99)
        );
        let all: Duration = times.iter().sum();
        for line in profile.map(|profile| profile.lines(all)).unwrap_or_default() {
            println!("{line}");
        }
    }
    let begun = Instant::now();
    let verified = engine.store().verify(None).await.unwrap();
    println!("ledger verify   {:>9.1?} for {} entries", begun.elapsed(), verified.entries);
    engine.close().await;
}

async fn open(home: &Path, workspace: &Path) -> Engine {
    let clock = Clock::system();
    let binary = std::env::current_exe().unwrap();
    let proofs = Proofs { folder: Some(home.to_owned()), prober: binary.clone() };
    let settings = settings();
    let options = Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        tools: tools::built_in(&settings).unwrap(),
        settings,
        workspace: workspace.to_owned(),
        workspaces: BTreeMap::new(),
        timeouts: BTreeMap::new(),
        surroundings: Surroundings::new(binary, proofs, Host::default(), clock.as_function()),
        clock,
    };
    Engine::open(options).await.unwrap()
}

async fn in_flight(engine: &Engine, count: usize, at_once: usize) -> Vec<Duration> {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..at_once {
        let engine = engine.clone();
        let share = count / at_once;
        callers.spawn(async move {
            let mut times = Vec::with_capacity(share);
            for _ in 0..share {
                let request = Request {
                    agent: agent(),
                    task: Some(TaskName::parse(&format!("bench-{}", caller % 8)).unwrap()),
                    tool: "fs.read".to_owned(),
                    arguments: Canonical::parse(r#"{"path":"README.md"}"#).unwrap(),
                    key: None,
                    purpose: None,
                    proposer: None,
                };
                let begun = Instant::now();
                let result = engine.call(request, Duration::ZERO, CancellationToken::new()).await;
                times.push(begun.elapsed());
                assert_eq!(result.status, CallStatus::Completed, "{result:?}");
            }
            times
        });
    }
    callers.join_all().await.into_iter().flatten().collect()
}

fn at(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let place = ((times.len() as f64 - 1.0) * share).round() as usize;
    times.get(place).copied().unwrap_or_default()
}
