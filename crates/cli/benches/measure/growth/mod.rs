//! What a call and a decision cost where there is much of something: agents, tools, rules, ledger entries, past calls.
//!
//! In process, with real walls and a durable store. The sizes of one thing take turns in the same rounds; `×` is the
//! ratio to the smallest.

mod variant;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::{AgentName, CallStatus, Canonical};
use engine::Request;
use policy::{Verdict, decide};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::options::Options;
use crate::report::{Cell, Section, Table};
use crate::rounds::{Lane, Sample, time_rounds};
pub(crate) use variant::options;
use variant::{Thing, Variant};

/// So many decisions are timed together: one is too short for the clock.
const DECISIONS: usize = 100;
const MICROSECONDS: f64 = 1000.0;

pub(crate) fn measure(options: &Options) -> Result<Section> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let columns =
        ["open ms", "×", "decide µs", "×", "explain µs", "×", "list µs", "×", "call p50 ms", "×", "p99 ms"];
    let mut table = Table::new([&["", "how many"], &columns[..]].concat());
    for thing in Thing::ALL {
        eprintln!("bench: growth with {}", thing.as_str());
        let mut variants = Vec::new();
        for size in thing.sizes(options) {
            let folder = options.folder.join(format!("growth-{}-{size}", variants.len()));
            variants.push(runtime.block_on(Variant::open(thing, size, folder))?);
        }
        table.rows.extend(rows(thing, &runtime, &variants, options)?);
        for variant in variants {
            runtime.block_on(variant.close())?;
        }
    }
    Ok(Section {
        title: "A call of `fs.read` in process, and the decision about it".to_owned(),
        tables: vec![table],
        notes: vec![
            "`decide` is policy alone; `explain` asks the store too; `list` is the tools that an agent sees.".to_owned(),
            "`agents, in turn`: each call is another agent's, so that with more than are kept each starts a worker."
                .to_owned(),
        ],
        measured: Vec::new(),
    })
}

fn rows(thing: Thing, runtime: &Runtime, variants: &[Variant], options: &Options) -> Result<Vec<Vec<Cell>>> {
    let mut lanes = Vec::new();
    for does in [Does::Decide, Does::Explain, Does::List, Does::Call] {
        let of = |variant| Asked { does, runtime, variant, turn: AtomicUsize::new(0) };
        lanes.extend(variants.iter().map(of));
    }
    let taking: Vec<_> = lanes.iter().map(|lane| lane as &dyn Lane).collect();
    let samples = time_rounds(&taking, options.effort())?;
    let mut columns = samples.chunks(variants.len());
    let mut next = || columns.next().context("a column is missing");
    let (decide, explain, list, call) = (next()?, next()?, next()?, next()?);
    let opened: Vec<f64> = variants.iter().map(|variant| milliseconds(variant.opened)).collect();

    let mut rows = Vec::new();
    for (place, variant) in variants.iter().enumerate() {
        let mut row = vec![Cell::text(thing.as_str()), Cell::Number(variant.size as f64, 0)];
        let mut put = |figures: &[f64], digits: usize| {
            let (figure, smallest) = (figures.get(place).copied(), figures.first().copied());
            let times = figure.zip(smallest).map(|(figure, smallest)| figure / smallest);
            row.extend([Cell::maybe(figure, digits), Cell::maybe(times, 2)]);
        };
        put(&opened, 1);
        put(&medians(decide, MICROSECONDS / DECISIONS as f64), 2);
        put(&medians(explain, MICROSECONDS), 0);
        put(&medians(list, MICROSECONDS), 1);
        put(&medians(call, 1.0), 2);
        row.push(Cell::maybe(call.get(place).map(|sample| sample.percentile(99)), 2));
        rows.push(row);
    }
    Ok(rows)
}

fn medians(samples: &[Sample], scale: f64) -> Vec<f64> {
    samples.iter().map(|sample| sample.percentile(50) * scale).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// What is asked of a variant.
#[derive(Clone, Copy)]
enum Does {
    Decide,
    Explain,
    List,
    Call,
}

struct Asked<'a> {
    does: Does,
    runtime: &'a Runtime,
    variant: &'a Variant,
    turn: AtomicUsize,
}

impl Asked<'_> {
    /// Whose turn it is.
    fn agent(&self) -> Result<AgentName> {
        let callers = &self.variant.callers;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % callers.len().max(1);
        callers.get(turn).cloned().context("nobody calls")
    }
}

impl Lane for Asked<'_> {
    fn name(&self) -> &str {
        "growth"
    }

    fn call(&self) -> Result<()> {
        let engine = &self.variant.engine;
        match self.does {
            Does::Decide => {
                for _ in 0..DECISIONS {
                    let ruling = decide(&self.variant.admitted, &self.variant.facts, &self.variant.policy);
                    ensure!(
                        matches!(std::hint::black_box(ruling).verdict, Verdict::Allow(_)),
                        "it was not allowed"
                    );
                }
            }
            Does::Explain => {
                let explained =
                    self.runtime.block_on(engine.explain(&read(self.agent()?)?, engine::Audience::Agent))?;
                ensure!(explained.verdict == "allow", "it would not be allowed: {:?}", explained.reason);
            }
            Does::List => {
                std::hint::black_box(engine.tools_for(&self.agent()?));
            }
            Does::Call => {
                let request = read(self.agent()?)?;
                let called = engine.call(request, Duration::ZERO, CancellationToken::new());
                let result = self.runtime.block_on(called);
                ensure!(result.status == CallStatus::Completed, "it was not done: {result:?}");
            }
        }
        Ok(())
    }
}

pub(super) fn read(agent: AgentName) -> Result<Request> {
    Ok(Request {
        agent,
        task: None,
        tool: "fs.read".to_owned(),
        arguments: Canonical::parse(r#"{"path":"README.md"}"#)?,
        key: None,
        purpose: None,
        proposer: None,
    })
}
