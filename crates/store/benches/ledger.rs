//! Times the ledger: appending with a durable commit, by one and by 64 at once, at sizes from a thousand to a million
//! entries, and checking it whole; on SQLite, and on the PostgreSQL server that `TOOLGATE_TEST_POSTGRES` names.
//!
//! `cargo bench -p toolgate-store --bench ledger [-- --quick]`. Compare figures of one run only.
#![expect(clippy::print_stdout, reason = "the report is this program's data")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has no figures")]
#![expect(clippy::disallowed_methods, reason = "it is told by its environment which server it may use")]

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Connection, Executor};
use store::{Keys, Store, danger};

/// How much is done.
struct Effort {
    sizes: &'static [u64],
    alone: usize,
    together: usize,
}

const WHOLE: Effort = Effort { sizes: &[1_000, 10_000, 100_000, 1_000_000], alone: 500, together: 4_000 };
const QUICK: Effort = Effort { sizes: &[1_000, 10_000], alone: 100, together: 500 };
const WRITERS: usize = 64;

fn main() {
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    // `cargo test --all-targets` comes here too.
    if !has("--bench") {
        return;
    }
    let effort = if has("--quick") { QUICK } else { WHOLE };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let home = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let file = format!("sqlite:{}", home.path().join("store.db").display());
        measure("SQLite", &file, home.path(), &effort).await;
        match std::env::var("TOOLGATE_TEST_POSTGRES") {
            Ok(server) if !server.is_empty() => {
                let url = schema(&server).await;
                measure("PostgreSQL", &url, home.path(), &effort).await;
            }
            _ => println!("skipped: PostgreSQL: TOOLGATE_TEST_POSTGRES names no server"),
        }
    });
}

/// A schema of its own, empty.
async fn schema(server: &str) -> String {
    let mut connection = sqlx::PgConnection::connect(server).await.unwrap();
    connection.execute("DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench").await.unwrap();
    let mark = if server.contains('?') { '&' } else { '?' };
    format!("{server}{mark}options=-csearch_path%3Dbench")
}

async fn measure(name: &str, url: &str, home: &std::path::Path, effort: &Effort) {
    let keys = Keys::load_or_create(home).unwrap();
    let store = Store::open(url, keys).await.unwrap();
    println!("\n{name}\n");
    println!(
        "| entries | append, 1 writer: p50 | p99 | {WRITERS} writers: p50 | p99 | entries/s | verify | entries/s | peak memory |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for &size in effort.sizes {
        let missing = size.saturating_sub(store.ledger_size().await.unwrap());
        danger::append_many(&store, missing, 1).await.unwrap();
        let (alone, _) = append(&store, 1, effort.alone).await;
        let (together, took) = append(&store, WRITERS, effort.together).await;
        forget_peak();
        let began = Instant::now();
        let entries = store.verify(None).await.unwrap().entries;
        let verified = began.elapsed();
        println!(
            "| {size} | {} | {} | {} | {} | {:.0} | {:.1} s | {:.0} | {} MiB |",
            at(&alone, 50),
            at(&alone, 99),
            at(&together, 50),
            at(&together, 99),
            together.len() as f64 / took.as_secs_f64(),
            verified.as_secs_f64(),
            entries as f64 / verified.as_secs_f64(),
            peak() / 1024,
        );
    }
}

/// How long each of so many appends took, from short to long, and all of them together.
async fn append(store: &Store, writers: usize, count: usize) -> (Vec<Duration>, Duration) {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let mut times = Vec::new();
            for round in 0..count / writers {
                let body = json!({ "writer": writer, "round": round, "what": "an event of a common length, about so" });
                let began = Instant::now();
                store.record_event("bench.event", body, 1).await.unwrap();
                times.push(began.elapsed());
            }
            times
        });
    }
    let mut times = tasks.join_all().await.concat();
    times.sort_unstable();
    (times, began.elapsed())
}

/// The time that so many of a hundred did not exceed.
fn at(times: &[Duration], percent: usize) -> String {
    let time = times.get(times.len() * percent / 100).unwrap();
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Lets the peak of memory begin anew.
fn forget_peak() {
    // Without it the peak is that of the whole run, which is more and never less.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak of memory, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
