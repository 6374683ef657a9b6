//! What it takes to decide recorded calls by another configuration: `toolgate policy simulate` over many of them.
//!
//! The calls are written as calls are, thousands in one transaction, with the traces that the engine itself gives them. Then
//! the binary that is shipped decides them, twice: both reports have to be the same, byte by byte.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use contract::{
    AgentName, CallId, CallStatus, Canonical, Digest, ReceiptBody, SafetyClass, TaskName, ToolName,
};
use engine::{Engine, Explanation, Request};
use policy::{Agent, Settings};
use serde_json::{Value, json};
use store::{Course, NewCall, Settlement, danger};

use crate::gate::Home;
use crate::growth::options;
use crate::options::Options;
use crate::report::{Cell, Section, Table};

const CALLS: u64 = 1_000_000;
const QUICK_CALLS: u64 = 50_000;
const TOGETHER: u64 = 5_000;
/// The first call is asked at this moment, and each further one so much later.
const FIRST: i64 = 1_790_000_000_000;
const APART: i64 = 1_500;
const LOOK_EVERY: Duration = Duration::from_millis(20);
const KIB_PER_MIB: f64 = 1024.0;

/// Something of everything: what asks, what denies, what approves, and what reads arguments and the time.
const CANDIDATE: &str = r#"
agents:
  default: { overrides: { terminal: full } }
approval:
  rules:
    - { tool: fs.write, action: prompt, arguments: { path: "infra/*" } }
    - { tool: shell, action: deny, arguments: { command: "cargo" } }
policy:
  rules:
    - id: main-by-review
      cedar: |
        forbid (principal, action, resource == Tool::"git.push") when { context.arguments.branch == "main" };
    - id: reads-by-day
      cedar: |
        @effect("ask")
        forbid (principal, action, resource == Tool::"http.request") when { context.hour < 6 };
"#;

pub(crate) fn measure(options: &Options) -> Result<Section> {
    let count = if options.quick { QUICK_CALLS } else { CALLS };
    let folder = options.folder.join("past");
    let home = Home::make(&options.toolgate, folder.clone())?;
    let candidate = folder.join("candidate.yaml");
    fs::write(&candidate, CANDIDATE)?;
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(fill(&folder, count))?;
    let filled = begun.elapsed();

    let mut table = Table::new(["run", "calls", "seconds", "calls/s", "peak MiB", "flips", "digest"]);
    let mut reports = Vec::new();
    for run in ["first", "second"] {
        eprintln!("bench: {count} past calls, {run} run");
        let candidate = candidate.to_str().context("a path is no text")?;
        let ran = Ran::of(&home, &["policy", "simulate", "--json", "--policy", candidate])?;
        let told: Value = serde_json::from_str(&ran.report).context("the report is no JSON")?;
        let number = |key: &str| told.get(key).and_then(Value::as_u64).unwrap_or_default();
        ensure!(number("decided") == count, "not every call was decided: {}", number("decided"));
        ensure!(number("flips") > 0, "nothing flips, so nothing was compared");
        table.rows.push(vec![
            Cell::text(run),
            Cell::Number(count as f64, 0),
            Cell::Number(ran.took.as_secs_f64(), 1),
            Cell::Number(count as f64 / ran.took.as_secs_f64(), 0),
            Cell::Number(ran.peak / KIB_PER_MIB, 0),
            Cell::Number(number("flips") as f64, 0),
            Cell::text(Digest::of(ran.report.as_bytes()).to_string().chars().take(16).collect::<String>()),
        ]);
        reports.push(ran);
    }
    let [first, second] = reports.as_slice() else { anyhow::bail!("a run is missing") };
    ensure!(first.report == second.report, "two runs over the same calls say different things");
    let slowest = first.took.max(second.took).as_secs_f64();
    let million = slowest * CALLS as f64 / count as f64;
    fs::remove_dir_all(&folder)?;
    Ok(Section {
        title: "Recorded calls decided by another configuration".to_owned(),
        tables: vec![table],
        notes: vec![format!(
            "The calls were recorded and settled in {:.0} s, {TOGETHER} in a transaction. The peak is what `VmHWM` said \
             last, {} ms before the end at most.",
            filled.as_secs_f64(),
            LOOK_EVERY.as_millis()
        )],
        measured: vec![("past-million", million), ("past-peak", first.peak.max(second.peak) / KIB_PER_MIB)],
    })
}

/// A run of the binary, with the most memory that it had.
struct Ran {
    report: String,
    took: Duration,
    /// In KiB.
    peak: f64,
}

impl Ran {
    fn of(home: &Home, arguments: &[&str]) -> Result<Ran> {
        let begun = Instant::now();
        let mut child = home.command(arguments).stdout(Stdio::piped()).spawn()?;
        let mut stdout = child.stdout.take().context("its output is piped")?;
        let reading = thread::spawn(move || {
            let mut report = String::new();
            stdout.read_to_string(&mut report).map(|_| report)
        });
        let peak = peak_until_end(&mut child)?;
        let took = begun.elapsed();
        let report = reading.join().map_err(|_| anyhow::anyhow!("nobody reads"))??;
        Ok(Ran { report, took, peak })
    }
}

fn peak_until_end(child: &mut Child) -> Result<f64> {
    let mut peak = 0.0_f64;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        peak = peak.max(kib.unwrap_or_default());
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "`toolgate policy simulate` failed: {status}");
            return Ok(peak);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// One kind of call, with what the engine says of it.
struct Kind {
    tool: ToolName,
    contract: Digest,
    explained: Explanation,
    arguments: Arguments,
}

/// The arguments of a call, by its number.
type Arguments = fn(u64) -> Value;

const KINDS: [(&str, Arguments); 9] = [
    ("fs.read", |n| json!({ "path": format!("src/module_{}/file_{}.rs", n % 97, n % 5003) })),
    ("fs.list", |n| json!({ "path": format!("src/module_{}", n % 97) })),
    ("fs.write", |n| {
        let place = if n.is_multiple_of(5) { "infra" } else { "src" };
        json!({ "path": format!("{place}/file_{}.txt", n % 4001), "content": "a line of text\n".repeat(8) })
    }),
    ("shell", |n| json!({ "command": "git", "args": ["log", "--oneline", "-n", (n % 50 + 1).to_string()] })),
    ("shell", |n| json!({ "command": "grep", "args": ["-rn", format!("word_{}", n % 1009), "src"] })),
    ("git.status", |_| json!({})),
    ("git.push", |n| {
        let branch = if n.is_multiple_of(7) { "main".to_owned() } else { format!("fix-{}", n % 211) };
        json!({ "url": "https://git.example/a.git", "branch": branch })
    }),
    ("http.request", |n| json!({ "url": format!("https://docs.example/page/{}", n % 3001) })),
    ("fs.search", |n| json!({ "pattern": format!("word_{}", n % 1009), "path": "src" })),
];

async fn fill(folder: &std::path::Path, count: u64) -> Result<()> {
    let agent = AgentName::parse("default")?;
    let settings = Settings { agents: [(agent.clone(), Agent::default())].into(), ..Settings::default() };
    let tools = tools::built_in(&settings)?;
    let engine = Engine::open(options(&folder.join("state"), &folder.join("work"), settings, tools)).await?;
    let mut kinds = Vec::new();
    for (tool, arguments) in KINDS {
        let request = Request {
            agent: agent.clone(),
            task: None,
            tool: tool.to_owned(),
            arguments: Canonical::of(arguments(1))?,
            key: None,
            purpose: None,
            proposer: None,
        };
        let explained = engine.explain(&request, engine::Audience::Agent).await?;
        let tool = ToolName::parse(tool)?;
        let contract = engine.tools_for(&agent).into_iter().find(|contract| *contract.name() == tool);
        let contract = contract.with_context(|| format!("there is no `{tool}`"))?.hash();
        kinds.push(Kind { tool, contract, explained, arguments });
    }
    let mut number = 0;
    while number < count {
        let until = (number + TOGETHER).min(count);
        let calls = (number..until).map(|number| call(&kinds, &agent, number)).collect::<Result<Vec<_>>>()?;
        danger::record_many(engine.store(), calls).await?;
        number = until;
        if number.is_multiple_of(100_000) {
            eprintln!("bench: {number} of {count} past calls recorded");
        }
    }
    engine.close().await;
    engine.store().close().await;
    Ok(())
}

fn call(kinds: &[Kind], agent: &AgentName, number: u64) -> Result<(NewCall, Settlement)> {
    // As if at random, and the same in every run.
    let dice = Digest::of(&number.to_le_bytes());
    let (id, rest) = dice.as_bytes().split_first_chunk::<16>().context("a digest is long")?;
    let which = usize::from(rest.first().copied().unwrap_or_default()) % kinds.len();
    let kind = kinds.get(which).context("there are kinds")?;
    let arguments = Canonical::of((kind.arguments)(number))?;
    let asked_at = FIRST + i64::try_from(number)? * APART;
    let is_refused = kind.explained.verdict == "deny";
    let authority = serde_json::to_value(&kind.explained.authority)?;
    let call = NewCall {
        id: CallId::from_random(*id),
        agent: agent.clone(),
        task: Some(TaskName::parse(&format!("task-{}", number / 200))?),
        tool: kind.tool.clone(),
        contract: kind.contract,
        request: Digest::of(&[arguments.text().as_bytes(), id].concat()),
        arguments: arguments.digest(),
        arguments_json: arguments.text().to_owned(),
        policy: kind.explained.policy,
        purpose: Some("find out why the build fails".to_owned()),
        trace: serde_json::to_value(&kind.explained.trace)?,
        safety: SafetyClass::Read,
        asked_at,
        claim: None,
        course: if is_refused { Course::Refuse } else { Course::Run { authority } },
    };
    let status = if is_refused { CallStatus::Refused } else { CallStatus::Completed };
    let body = ReceiptBody {
        version: 1,
        call_id: call.id.clone(),
        agent: call.agent.clone(),
        task: call.task.clone(),
        purpose: call.purpose.clone(),
        tool: call.tool.clone(),
        contract: call.contract,
        request: call.request,
        arguments: call.arguments,
        policy: call.policy,
        approval: None,
        operands: None,
        status,
        reason: kind.explained.reason.clone(),
        run: None,
        cost: None,
        asked_at,
        settled_at: asked_at + 5,
        reconciled: None,
    };
    let settlement = Settlement {
        call: call.id.clone(),
        status,
        body,
        result: json!({ "content": "twenty lines or so of what a tool gives\n".repeat(10) }).to_string(),
        raw: None,
        artifacts: Vec::new(),
        now: asked_at + 5,
    };
    Ok((call, settlement))
}
