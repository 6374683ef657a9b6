//! What a gate keeps when nobody asks anything of it, and what each process that waits beside it has for itself.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::doors::{Http, READ, TRUE};
use crate::gate::Home;
use crate::options::Options;
use crate::report::{Cell, Section, Table};
use crate::rounds::Lane;

/// How long it is left alone first.
const IDLE: Duration = Duration::from_secs(5);
const KIB_PER_MIB: f64 = 1024.0;

pub(crate) fn measure(options: &Options) -> Result<Section> {
    let home = Home::make(&options.toolgate, options.folder.join("memory"))?;
    let up = home.up()?;
    for what in [&READ, &TRUE] {
        Http::new(&up, what).call()?;
    }
    thread::sleep(IDLE);

    let gate = Process::read(up.id())?;
    let resident = resident(up.id())?;
    let mut table = Table::new(["process", "in", "resident MiB", "proportional MiB", "private MiB"]);
    table.rows.push(gate.row("gate"));
    let family = descendants(up.id())?;
    let mut sandboxes: BTreeMap<String, Sandbox> = BTreeMap::new();
    for process in family.iter().filter(|process| process.namespace != gate.namespace) {
        let number = sandboxes.len() + 1;
        let sandbox = sandboxes.entry(process.namespace.clone()).or_insert_with(|| {
            let launcher =
                family.iter().find(|one| one.id == process.parent && one.namespace == gate.namespace);
            Sandbox { number, launcher: launcher.map(|one| one.id), inside: 0, private: 0.0 }
        });
        sandbox.inside += 1;
        sandbox.private += process.private;
    }
    // Whoever launched them waits with them, and has a part of its memory for each.
    let launchers: Vec<Option<u32>> = sandboxes.values().map(|sandbox| sandbox.launcher).collect();
    for sandbox in sandboxes.values_mut() {
        let launcher = family.iter().find(|process| sandbox.launcher == Some(process.id));
        let launched = launchers.iter().filter(|launcher| **launcher == sandbox.launcher).count();
        sandbox.private += launcher.map_or(0.0, |launcher| launcher.private) / launched as f64;
    }
    for process in &family {
        let of = sandboxes.iter().find(|(namespace, _)| **namespace == process.namespace);
        let place = of.map_or("host".to_owned(), |(_, sandbox)| format!("sandbox {}", sandbox.number));
        table.rows.push(process.row(&place));
    }
    let mut kept = Table::new(["sandbox", "", "private MiB"]);
    kept.rows.extend(sandboxes.values().map(Sandbox::row));
    let waiting = sandboxes.values().filter(|sandbox| sandbox.is_empty());
    let largest = waiting.map(|sandbox| sandbox.private).reduce(f64::max);
    let mut measured = vec![("gate-resident", resident)];
    measured.extend(largest.map(|largest| ("sandbox-private", largest)));
    Ok(Section {
        title: format!("An idle gate, {} s after a call of `fs.read` and one of `shell`", IDLE.as_secs()),
        tables: vec![table, kept],
        notes: vec![
            "A sandbox is all the processes of one process namespace, and its part of the one that launched them. The bar is for those \
             that wait with nothing in them yet; a worker that is kept for its task is shown beside them."
                .to_owned(),
        ],
        measured,
    })
}

/// What a process keeps resident, in MiB.
pub(crate) fn resident(id: u32) -> Result<f64> {
    Ok(field(id, "status", "VmRSS")? / KIB_PER_MIB)
}

/// All processes of one process namespace, and their part of their launcher.
struct Sandbox {
    number: usize,
    launcher: Option<u32>,
    /// How many processes are behind its walls.
    inside: usize,
    private: f64,
}

impl Sandbox {
    /// Whether there is nothing in it yet but its first process.
    fn is_empty(&self) -> bool {
        self.inside == 1
    }

    fn row(&self) -> Vec<Cell> {
        let what = if self.is_empty() { "waits" } else { "holds a worker" };
        vec![Cell::text(format!("sandbox {}", self.number)), Cell::text(what), Cell::Number(self.private, 2)]
    }
}

struct Process {
    id: u32,
    parent: u32,
    command: String,
    /// Its process namespace.
    namespace: String,
    resident: f64,
    proportional: f64,
    private: f64,
}

impl Process {
    fn read(id: u32) -> Result<Process> {
        let command = fs::read(format!("/proc/{id}/cmdline"))?;
        let words: Vec<_> = command.split(|byte| *byte == 0).take(3).map(String::from_utf8_lossy).collect();
        let command = words.join(" ");
        let command = command.trim().rsplit_once("bin/").map_or(command.trim(), |(_, name)| name);
        let namespace = fs::read_link(format!("/proc/{id}/ns/pid"))?;
        let mib = |name: &str| Ok::<f64, anyhow::Error>(field(id, "smaps_rollup", name)? / KIB_PER_MIB);
        Ok(Process {
            id,
            parent: field(id, "status", "PPid")? as u32,
            command: if command.is_empty() { "init".to_owned() } else { command.to_owned() },
            namespace: namespace.to_string_lossy().into_owned(),
            resident: mib("Rss")?,
            proportional: mib("Pss")?,
            private: mib("Private_Clean")? + mib("Private_Dirty")?,
        })
    }

    fn row(&self, place: &str) -> Vec<Cell> {
        let figures = [self.resident, self.proportional, self.private].map(|figure| Cell::Number(figure, 2));
        [Cell::text(&self.command), Cell::text(place)].into_iter().chain(figures).collect()
    }
}

/// Every process that this one started, and what they started.
fn descendants(of: u32) -> Result<Vec<Process>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(parent) = field(id, "status", "PPid") else { continue };
        parents.push((id, parent as u32));
    }
    let mut family = vec![of];
    let mut found = Vec::new();
    while let Some(parent) = family.pop() {
        for (id, _) in parents.iter().filter(|(_, of)| *of == parent) {
            family.push(*id);
            found.push(Process::read(*id).with_context(|| format!("cannot look at process {id}"))?);
        }
    }
    Ok(found)
}

/// A figure from a file of `/proc/ID`: KiB, or a plain number.
fn field(id: u32, file: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{id}/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.with_context(|| format!("there is no {name} of process {id}"))?;
    Ok(value.trim().trim_end_matches(" kB").parse()?)
}
