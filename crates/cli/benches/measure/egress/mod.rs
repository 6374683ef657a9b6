//! What a guarded network costs: new connections, one large download, and grants that are open at once.
//!
//! A client connects to a server of this process: directly, from a sandbox whose network is guarded, and from bwrap through
//! what other sandboxes use, a forwarder inside, a unix socket, and a plain proxy outside. It takes the times itself, so that
//! nobody's start counts.

mod client;
mod grants;
mod peer;
mod server;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use contract::{Private, Reach};
use egress::{Egress, EgressSettings, Methods, Patience, Permit, PermitLimits};
use jail::{ChangeReport, Guarded, Helper, Limits, LocalDoor, Names, Outcome, Program, Request, Strictness};
use sandbox::{Host, Launcher, PlanRequest, Profile, Proofs};
use tokio::runtime::Runtime;

use crate::options::Options;
use crate::peers::Peers;
use crate::report::{Cell, Section, Table};
use crate::rounds::Shuffle;

pub(crate) use client::serve_client_if_asked;
use client::{CLIENT, Errand, Seen};
use peer::Forwarded;
use server::Server;

/// Who reaches the server, one way or another.
trait Route {
    fn name(&self) -> &str;

    /// Has a client do this and say what it saw.
    fn send(&self, errand: Errand) -> Result<Seen>;
}

pub(crate) fn measure(options: &Options, peers: &Peers) -> Result<Section> {
    let (rounds, bytes): (u32, u64) = if options.quick { (6, 256 << 20) } else { (20, 1 << 30) };
    let server = Server::begin()?;
    let client = std::env::current_exe()?;
    let folder = options.folder.join("egress");
    std::fs::create_dir_all(&folder)?;
    let direct = Direct { client: &client, port: server.port };
    let guarded = Walled::new(&options.toolgate, &client, &folder, server.port)?;
    let forwarded = Forwarded::begin(peers, &client, &folder, server.port)?;
    let mut ways: Vec<&dyn Route> = vec![&direct, &guarded];
    ways.extend(forwarded.as_ref().map(|way| way as &dyn Route));

    let mut found: Vec<Found> = ways.iter().map(|way| Found::of(way.name())).collect();
    let mut shuffle = Shuffle::new();
    for _ in 0..rounds {
        let mut due: Vec<_> = ways.iter().zip(&mut found).collect();
        shuffle.apply(&mut due);
        for (way, found) in due {
            found.connections.extend(way.send(Errand::Connect(50))?.micros);
            found.rates.push(way.send(Errand::ConnectFor { threads: 8, millis: 300 })?.per_second());
        }
    }
    for _ in 0..rounds.div_ceil(3) {
        let mut due: Vec<_> = ways.iter().zip(&mut found).collect();
        shuffle.apply(&mut due);
        for (way, found) in due {
            found.downloads.push(bytes as f64 / way.send(Errand::Download(bytes))?.seconds() / 1e6);
        }
    }
    let of_direct = found.first().map(Found::summary).context("nothing was measured")?;
    let mut table = Table::new([
        "",
        "new connection p50 µs",
        "p99 µs",
        "added p50 µs",
        "added p99 µs",
        "connections/s at 8",
        "download MB/s",
        "× direct",
    ]);
    let mut measured = Vec::new();
    for of in &found {
        let summary = of.summary();
        let ratio = summary.download / of_direct.download;
        if of.name == guarded.name() {
            measured.push(("egress-download", ratio));
        }
        table.rows.push(vec![
            Cell::text(&of.name),
            Cell::Number(summary.p50, 0),
            Cell::Number(summary.p99, 0),
            Cell::Number(summary.p50 - of_direct.p50, 0),
            Cell::Number(summary.p99 - of_direct.p99, 0),
            Cell::Number(summary.rate, 0),
            Cell::Number(summary.download, 0),
            Cell::Number(ratio, 2),
        ]);
    }
    let held = grants::measure(server.port)?;
    Ok(Section {
        title: format!("A guarded network; {rounds} shuffled rounds, downloads of {} MiB", bytes >> 20),
        tables: vec![table, held],
        notes: vec![
            "Times are taken by the client: a connection, one byte there and one back. `forwarder` is bwrap with socat \
             inside, a unix socket, and a plain HTTP proxy outside, by which the client asks with CONNECT."
                .to_owned(),
        ],
        measured,
    })
}

/// All that was seen of one way.
struct Found {
    name: String,
    connections: Vec<f64>,
    rates: Vec<f64>,
    downloads: Vec<f64>,
}

struct Summary {
    p50: f64,
    p99: f64,
    rate: f64,
    download: f64,
}

impl Found {
    fn of(name: &str) -> Found {
        Found { name: name.to_owned(), connections: Vec::new(), rates: Vec::new(), downloads: Vec::new() }
    }

    fn summary(&self) -> Summary {
        Summary {
            p50: percentile(&self.connections, 50),
            p99: percentile(&self.connections, 99),
            rate: percentile(&self.rates, 50),
            download: percentile(&self.downloads, 50),
        }
    }
}

fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

/// With nothing in between.
struct Direct<'a> {
    client: &'a Path,
    port: u16,
}

impl Route for Direct<'_> {
    fn name(&self) -> &str {
        "direct"
    }

    fn send(&self, errand: Errand) -> Result<Seen> {
        let output = Command::new(self.client).arg(CLIENT).args(errand.words(self.port, None)).output()?;
        Seen::read(&output.stdout)
    }
}

/// From a sandbox whose network is guarded.
struct Walled<'a> {
    launcher: Launcher,
    client: &'a Path,
    port: u16,
    runtime: Runtime,
    egress: Egress,
    permit: Permit,
}

impl<'a> Walled<'a> {
    fn new(toolgate: &Path, client: &'a Path, folder: &Path, port: u16) -> Result<Walled<'a>> {
        let runtime = Runtime::new()?;
        let egress = {
            let _entered = runtime.enter();
            Egress::new(settings())?
        };
        let proofs = Proofs { folder: Some(folder.to_owned()), prober: toolgate.to_owned() };
        let launcher = Launcher::new(Helper { binary: toolgate.to_owned() }, proofs);
        Ok(Walled { launcher, client, port, runtime, egress, permit: permit(port)? })
    }
}

impl Route for Walled<'_> {
    fn name(&self) -> &str {
        "guarded"
    }

    fn send(&self, errand: Errand) -> Result<Seen> {
        let plan = PlanRequest {
            profile: Profile::Networked,
            program: Program::Brought(self.client.to_owned()),
            arguments: [CLIENT.to_owned()]
                .into_iter()
                .chain(errand.words(self.port, None))
                .map(Into::into)
                .collect(),
            working_directory: "/".into(),
            read: Vec::new(),
            workspace: None,
            write: Vec::new(),
            variables: Vec::new(),
            names: Names::default(),
            guarded: Some(Guarded { ports: vec![self.port], authority: None, local: LocalDoor::Absent }),
            limits: Limits::default(),
            changes: ChangeReport::Skip,
            strictness: Strictness::Report,
        };
        let request =
            Request { plan: plan.into_plan(&Host::default())?, sealed: Vec::new(), input: Vec::new() };
        let mut open = None;
        let report = self.launcher.run_guarded(
            &request,
            |_| (),
            |doors| {
                let _entered = self.runtime.enter();
                open = Some(self.egress.open(self.permit.clone(), tools::doors_of(doors)));
            },
        )?;
        drop(open.context("no door was made")??);
        ensure!(
            report.outcome == Outcome::Exit(0),
            "the client ended with {:?}: {}",
            report.outcome,
            report.stderr.text()
        );
        Seen::read(&report.stdout.bytes)
    }
}

/// Nobody has to be asked for names.
fn settings() -> EgressSettings {
    EgressSettings {
        nameservers: vec![SocketAddr::from(([127, 0, 0, 1], 53))],
        extra_roots: String::new(),
        credentials: Vec::new(),
        vault: None,
        known_hosts: Vec::new(),
        sign_ins: Vec::new(),
        patience: Patience::default(),
        clock: || 0,
    }
}

/// For the server of this process alone.
fn permit(port: u16) -> Result<Permit> {
    let mut private = Private::none();
    private.add("127.0.0.1")?;
    let reach = vec![Reach::permit(&format!("127.0.0.1:{port}"), &private)?];
    Ok(Permit {
        reach,
        blocked: Vec::new(),
        methods: Methods::Any,
        spends: Vec::new(),
        by_pattern: Vec::new(),
        private,
        login: None,
        limits: PermitLimits { bytes: u64::MAX, ..PermitLimits::default() },
    })
}
