//! A gate under load: many connections that call, then many questions that wait and many who listen.
//!
//! Everything is on loopback, with the ledger on the disk before a call is answered. Who asks is `wrk`, a program of others.

mod crowd;
mod wrk;

use anyhow::{Context, Result, ensure};

use crate::gate::{Home, Up};
use crate::memory::resident;
use crate::options::Options;
use crate::report::{Cell, Section, Table};

/// How many connections call at once.
const AT_ONCE: [usize; 3] = [1, 16, 128];
/// Agents that take turns: one may have 64 requests under way at most.
const AGENTS: usize = 8;

/// What is called: its name, and the call without its task.
const WHATS: [(&str, &str); 2] = [
    ("shell true", r#""tool":"shell","arguments":{"command":"true"}"#),
    ("fs.read", r#""tool":"fs.read","arguments":{"path":"README.md"}"#),
];

pub(crate) fn measure(options: &Options) -> Result<Section> {
    ensure!(wrk::is_there(), "`wrk` is not installed; the Debian package has its name");
    let mut memory = Table::new(["gate", "resident MiB"]);
    let calls = under_calls(options, &mut memory)?;
    let (questions, shown) = crowd::measure(options, &mut memory)?;
    Ok(Section {
        title: format!("A gate under load: `wrk` at {AT_ONCE:?} connections, then {shown}"),
        tables: vec![calls, questions, memory],
        notes: vec![
            "Every call is decided, run behind walls, cleaned, and on the disk with a signed receipt before it is answered. `errors` \
             are answers that are not 200, and connections that failed."
                .to_owned(),
        ],
        measured: Vec::new(),
    })
}

fn under_calls(options: &Options, memory: &mut Table) -> Result<Table> {
    let home = Home::make(&options.toolgate, options.folder.join("load"))?;
    let names: Vec<String> = (0..AGENTS).map(|number| format!("load{number}")).collect();
    home.configure(&configuration(&names))?;
    let up = home.up()?;
    let tokens = names.iter().map(|name| home.token(name)).collect::<Result<Vec<_>>>()?;
    memory.rows.push(row("just started", resident(up.id())?));
    let seconds = if options.quick { 2 } else { 8 };
    let mut table =
        Table::new(["", "connections", "calls/s", "p50 ms", "p99 ms", "calls", "errors", "resident MiB"]);
    for (name, call) in WHATS {
        for at_once in AT_ONCE {
            let asked = wrk::Asked { at_once, seconds, tokens: &tokens, call };
            // Workers and sandboxes are there before anything is counted.
            wrk::run(&up, &home, &wrk::Asked { seconds: 1, ..asked })?;
            let (found, most) = watching(&up, || wrk::run(&up, &home, &asked))?;
            ensure!(found.calls > 0, "`{name}` was not called once");
            table.rows.push(vec![
                Cell::text(name),
                Cell::Number(at_once as f64, 0),
                Cell::Number(found.calls as f64 / found.seconds, 0),
                Cell::Number(found.p50, 2),
                Cell::Number(found.p99, 2),
                Cell::Number(found.calls as f64, 0),
                Cell::Number(found.errors as f64, 0),
                Cell::Number(most, 1),
            ]);
        }
    }
    std::thread::sleep(std::time::Duration::from_secs(5));
    memory.rows.push(row("5 s after those calls", resident(up.id())?));
    Ok(table)
}

/// More agents than the usual one.
fn configuration(names: &[String]) -> String {
    names.iter().map(|name| format!("  {name}: {{}}\n")).collect()
}

/// Does something, and looks meanwhile at how much memory the gate has at most.
fn watching<T>(up: &Up, work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most: f64 = 0.0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(resident(up.id()).unwrap_or_default());
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            most
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        let most = watcher.join().ok().context("nobody watched")?;
        Ok((done?, most))
    })
}

fn row(what: &str, resident: f64) -> Vec<Cell> {
    vec![Cell::text(what), Cell::Number(resident, 1)]
}
