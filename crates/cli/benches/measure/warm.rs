//! How long `/bin/true` takes behind the native walls where the gate runs already: from the request to the report.
//!
//! In process and from one with threads, as a gate is. Beside it, from the same process: the program alone, and bwrap.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use jail::{ChangeReport, Helper, Limits, Names, Outcome, Program, Request, Response, Strictness};
use sandbox::{Host, Launcher, PlanRequest, Profile, Proofs};

use crate::options::Options;
use crate::peers::Peers;
use crate::report::{Cell, Section, Table};
use crate::rounds::{Lane, Sample, median, time_rounds, time_slices};

const AT_ONCE: [usize; 4] = [1, 2, 8, 64];
/// As many threads as a small gate has, besides those that call.
const IDLE_THREADS: usize = 4;

pub(crate) fn measure(options: &Options, peers: &Peers) -> Result<Section> {
    let effort = options.effort();
    let bare = peers.named("bare").context("there is no bare program to compare with")?;
    let folder = options.folder.join("warm");
    let workspace = folder.join("work");
    std::fs::create_dir_all(&workspace)?;
    std::fs::write(workspace.join("README.md"), "# Read me\n")?;
    // The helper is the binary that is shipped: how long it takes to start is a part of this.
    let binary = options.toolgate.clone();
    let proofs = Proofs { folder: Some(folder), prober: binary.clone() };
    let helper = Helper { binary };
    // Sandboxes wait from its second run on; the rounds begin after the third.
    let launcher = Launcher::new(helper.clone(), proofs);
    let walled = Walled { name: "warm", way: Way::Waiting(&launcher), request: request(None)? };
    let working =
        Walled { name: "warm, workspace", way: Way::Waiting(&launcher), request: request(Some(&workspace))? };
    let helped = Walled { name: "not warm", way: Way::Made(&helper), request: request(None)? };

    let mut lanes: Vec<&dyn Lane> = vec![bare, &walled, &working, &helped];
    lanes.extend(peers.named("bwrap").map(|bwrap| bwrap as &dyn Lane));
    let (starts, rates) = with_idle_threads(|| {
        let starts = time_rounds(&lanes, effort)?;
        let rates = AT_ONCE.map(|at_once| time_slices(&lanes, at_once, effort).map(|found| (at_once, found)));
        Ok::<_, anyhow::Error>((starts, rates.into_iter().collect::<Result<Vec<_>>>()?))
    })?;

    let mut measured = Vec::new();
    let mut times = Table::new(["", "p50 ms", "p99 ms", "× bare", "× bwrap", "calls"]);
    for sample in &starts {
        let p50 = sample.percentile(50);
        let ratio = |of: &str| median(&starts, of).map(|of| p50 / of);
        if sample.name == walled.name {
            measured.extend(ratio("bare").map(|ratio| ("warm-bare", ratio)));
        }
        times.rows.push(vec![
            Cell::text(&sample.name),
            Cell::Number(p50, 3),
            Cell::Number(sample.percentile(99), 3),
            Cell::maybe(ratio("bare"), 2),
            Cell::maybe(ratio("bwrap"), 2),
            Cell::Number(sample.calls() as f64, 0),
        ]);
    }

    let mut throughput = Table::new(["calls/s"]);
    throughput.rows.extend(lanes.iter().map(|lane| vec![Cell::text(lane.name())]));
    for (at_once, samples) in &rates {
        throughput.head.extend([format!("{at_once} at once"), "× bwrap".to_owned()]);
        let bwrap = samples.iter().find(|sample| sample.name == "bwrap").map(Sample::per_second);
        for (row, sample) in throughput.rows.iter_mut().zip(samples) {
            let ratio = bwrap.map(|bwrap| sample.per_second() / bwrap);
            row.extend([Cell::Number(sample.per_second(), 0), Cell::maybe(ratio, 2)]);
            if *at_once == 2 && sample.name == walled.name {
                measured.extend(ratio.map(|ratio| ("warm-rate", ratio)));
            }
        }
    }
    Ok(Section {
        title: format!("`/bin/true` from a process that runs already; {} shuffled rounds", effort.rounds),
        tables: vec![times, throughput],
        notes: Vec::new(),
        measured,
    })
}

/// A program behind the native walls.
struct Walled<'a> {
    name: &'static str,
    way: Way<'a>,
    request: Request,
}

/// How it comes by a sandbox.
enum Way<'a> {
    /// One that waits.
    Waiting(&'a Launcher),
    /// One that a helper makes.
    Made(&'a Helper),
}

impl Lane for Walled<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn call(&self) -> Result<()> {
        let report = match self.way {
            Way::Waiting(launcher) => launcher.run(&self.request, |_| ()).context("nothing was executed")?,
            Way::Made(helper) => match helper.run(&self.request)? {
                Response::Report(report) => *report,
                Response::Refused { messages, .. } => bail!("nothing was executed: {}", messages.join(": ")),
            },
        };
        ensure!(report.outcome == Outcome::Exit(0), "`true` ended with {:?}", report.outcome);
        Ok(())
    }
}

/// The plan that `shell` makes for a command that only looks.
fn request(workspace: Option<&Path>) -> Result<Request> {
    let plan = PlanRequest {
        guarded: None,
        profile: Profile::Inspect,
        program: Program::Inside("/bin/true".into()),
        arguments: Vec::new(),
        working_directory: workspace.unwrap_or(Path::new("/")).to_owned(),
        read: Vec::new(),
        workspace: workspace.map(Path::to_owned),
        write: Vec::new(),
        variables: Vec::new(),
        names: Names::default(),
        limits: Limits::default(),
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    };
    let plan = plan.into_plan(&Host::default())?;
    Ok(Request { plan, sealed: Vec::new(), input: Vec::new() })
}

fn with_idle_threads<T>(work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..IDLE_THREADS)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                scope.spawn(move || ended.recv());
                end
            })
            .collect();
        let done = work();
        drop(waiting);
        done
    })
}
