//! Whole calls through the doors of a gate: decided, run behind walls, cleaned, and on the disk with a receipt.
//!
//! Beside them, in the same rounds: what a sandbox alone costs, what a commit on this disk costs, and for the MCP door a
//! server that does nothing.

mod http;
mod mcp;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

pub(crate) use http::Http;
pub(crate) use mcp::{Ask, NOTHING_ARGUMENT, Server, answer_nothing, serve_nothing_if_asked};

use crate::gate::{Home, README};
use crate::options::Options;
use crate::peers::Peers;
use crate::report::{Cell, Section, Table};
use crate::rounds::{Lane, Sample, median, time_rounds, time_slices};
use mcp::Call;

const AT_ONCE: [usize; 4] = [1, 2, 8, 64];
/// More of these at once would only wait for each other, and for long.
const MOST_DOCKER_AT_ONCE: usize = 8;

/// A call that is measured.
pub(crate) struct What {
    pub(crate) name: &'static str,
    pub(crate) tool: &'static str,
    /// As MCP spells it.
    pub(crate) mcp_tool: &'static str,
    pub(crate) arguments: &'static str,
    /// What has to stand in the answer.
    pub(crate) gives: &'static str,
}

pub(crate) const READ: What = What {
    name: "fs.read",
    tool: "fs.read",
    mcp_tool: "fs_read",
    arguments: r#"{"path":"README.md"}"#,
    gives: README,
};

pub(crate) const TRUE: What = What {
    name: "shell true",
    tool: "shell",
    mcp_tool: "shell",
    arguments: r#"{"command":"true"}"#,
    gives: r#""exit_code":0"#,
};

/// The one that a command finds behind the walls.
const PYTHON_PATH: &str = "/usr/bin/python3";

const PYTHON: What = What {
    name: "shell python3",
    tool: "shell",
    mcp_tool: "shell",
    arguments: r#"{"command":"python3","args":["-c","pass"]}"#,
    gives: r#""exit_code":0"#,
};

pub(crate) fn measure(options: &Options, peers: &Peers) -> Result<Section> {
    let home = Home::make(&options.toolgate, options.folder.join("http"))?;
    let up = home.up()?;
    let mut whats = vec![&READ, &TRUE];
    whats.extend(Path::new(PYTHON_PATH).exists().then_some(&PYTHON));
    let https: Vec<_> = whats.iter().map(|what| Http::new(&up, what)).collect();

    let mcp_home = Home::make(&options.toolgate, options.folder.join("mcp"))?;
    let gate = Server::start(mcp_home.command(&["mcp"]))?;
    let mut nothing = Command::new(std::env::current_exe()?);
    nothing.arg(mcp::NOTHING_ARGUMENT).stderr(Stdio::null());
    let nothing = Server::start(nothing)?;
    let mut mcps: Vec<_> = whats.iter().map(|what| Call::new("mcp", &gate, what)).collect();
    mcps.push(Call::new("mcp nothing", &nothing, &READ));

    let disk = Commit::open(&options.folder.join("commit"))?;
    let bare = peers.named("bare").context("there is no bare program to compare with")?;
    let mut more = Vec::new();
    if whats.len() > 2 {
        let python = [PYTHON_PATH, "-c", "pass"];
        more.push(bare.running("bare python3", &python)?);
        let bwrap = peers.named("bwrap").map(|bwrap| bwrap.running("bwrap python3", &python));
        more.extend(bwrap.transpose()?);
    }

    let mut lanes: Vec<&dyn Lane> = https.iter().map(|lane| lane as &dyn Lane).collect();
    lanes.extend(mcps.iter().map(|lane| lane as &dyn Lane));
    lanes.push(bare);
    lanes.extend(
        ["bwrap", "docker-exec"].iter().filter_map(|name| peers.named(name)).map(|one| one as &dyn Lane),
    );
    lanes.extend(more.iter().map(|lane| lane as &dyn Lane));
    lanes.push(&disk);

    let effort = options.effort();
    let alone = time_rounds(&lanes, effort)?;
    let mut tables = vec![one_by_one(&alone)];
    let mut rates = Table::new(["calls/s"]);
    let mut waits = Table::new(["ms"]);
    for table in [&mut rates, &mut waits] {
        table.rows.extend(lanes.iter().map(|lane| vec![Cell::text(lane.name())]));
    }
    for at_once in AT_ONCE {
        let fit = |lane: &&dyn Lane| lane.name() != "docker-exec" || at_once <= MOST_DOCKER_AT_ONCE;
        let taking: Vec<_> = lanes.iter().copied().filter(fit).collect();
        let samples = time_slices(&taking, at_once, effort)?;
        let bwrap = samples.iter().find(|sample| sample.name == "bwrap").map(Sample::per_second);
        rates.head.extend([format!("{at_once} at once"), "× bwrap".to_owned()]);
        waits.head.extend([format!("{at_once} at once: p50"), "p99".to_owned()]);
        for ((lane, rates), waits) in lanes.iter().zip(&mut rates.rows).zip(&mut waits.rows) {
            let sample = samples.iter().find(|sample| sample.name == lane.name());
            let rate = sample.map(Sample::per_second);
            rates.extend([Cell::maybe(rate, 0), Cell::maybe(rate.zip(bwrap).map(|(rate, of)| rate / of), 2)]);
            waits.extend([50, 99].map(|percent| Cell::maybe(sample.map(|one| one.percentile(percent)), 2)));
        }
    }
    tables.extend([rates, waits]);

    let ratio =
        median(&alone, "http shell true").zip(median(&alone, "bwrap")).map(|(ours, theirs)| ours / theirs);
    let mut measured: Vec<_> = ratio.map(|ratio| ("http-true", ratio)).into_iter().collect();
    measured.extend(median(&alone, "http fs.read").map(|time| ("http-read", time)));
    Ok(Section {
        title: format!("Whole calls through the doors; {} shuffled rounds, then slices", effort.rounds),
        tables,
        notes: vec!["`commit` is 4 KiB appended to a file of the same disk, and its `fdatasync`.".to_owned()],
        measured,
    })
}

fn one_by_one(samples: &[Sample]) -> Table {
    let mut table = Table::new(["", "p50 ms", "p99 ms", "× bare", "× bwrap", "× commit", "calls"]);
    for sample in samples {
        let p50 = sample.percentile(50);
        let times = |of: &str| Cell::maybe(median(samples, of).map(|of| p50 / of), 2);
        table.rows.push(vec![
            Cell::text(&sample.name),
            Cell::Number(p50, 3),
            Cell::Number(sample.percentile(99), 3),
            times("bare"),
            times("bwrap"),
            times("commit"),
            Cell::Number(sample.calls() as f64, 0),
        ]);
    }
    table
}

/// What it takes until something is on this disk: no durable call can be faster.
struct Commit(Mutex<File>);

impl Commit {
    fn open(path: &Path) -> Result<Commit> {
        Ok(Commit(Mutex::new(File::options().append(true).create(true).open(path)?)))
    }
}

impl Lane for Commit {
    fn name(&self) -> &str {
        "commit"
    }

    fn call(&self) -> Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&[7; 4096])?;
        Ok(file.sync_data()?)
    }
}
