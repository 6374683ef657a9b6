//! How many workers can be held at once, what ends it, and what one costs.

use std::fs;
use std::time::Instant;

use contract::Canonical;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::Lifecycle;

use crate::bench::{self, Bench, owner, runtime};

const WANTED: usize = 1000;
/// So many where it must not take long.
const FEW: usize = 12;
/// How many are started at a time.
const AT_ONCE: usize = 8;

pub(crate) fn a_thousand_are_held_or_the_limit_is_named() {
    let wanted = if bench::is_long() { WANTED } else { FEW };
    let mut bench = Bench::new();
    let lifecycle = Lifecycle { most: WANTED, grace: Lifecycle::LIFE, ..Lifecycle::default() };
    bench.at = bench.at.keeping(lifecycle);
    bench.put("f", "x");
    let (before, begun) = (Cost::of_this_process(), Instant::now());
    let refused = hold(&bench, wanted);
    let (held, cost) = (bench.at.leases(), Cost::of_this_process());
    let of_one = |after: usize, before: usize| after.saturating_sub(before) / held.max(1);
    eprintln!(
        "{held} leases of {wanted} in {:.1?}; one costs {} kB of private memory, {} processes, {} descriptors",
        begun.elapsed(),
        of_one(cost.private, before.private),
        of_one(cost.processes, before.processes),
        of_one(cost.descriptors, before.descriptors),
    );
    match refused {
        None => assert_eq!(held, wanted),
        Some(why) => {
            eprintln!("the limit: {why}; {}", limits());
            assert!(held >= FEW, "hardly any could be held: {why}; {}", limits());
        }
    }
    // All of them still serve.
    for number in [0, held / 2, held - 1] {
        bench.at = bench.at.for_owner(owner(&format!("t{number}")));
        bench.done("fs.read", json!({ "path": "f" }));
    }
}

/// Has one worker for each of so many owners. Returns why there are no more, if there are fewer.
fn hold(bench: &Bench, wanted: usize) -> Option<String> {
    let tool = bench.tool("fs.read");
    let arguments = Canonical::of(json!({ "path": "f" })).unwrap();
    for first in (0..wanted).step_by(AT_ONCE) {
        let calls: Vec<_> = (first..wanted.min(first + AT_ONCE))
            .map(|number| {
                let grant = bench.grant(&*tool, &arguments).unwrap();
                let at = bench.at.for_owner(owner(&format!("t{number}")));
                let (tool, arguments) = (tool.clone(), arguments.clone());
                runtime()
                    .spawn(async move { tool.run(grant, &arguments, &at, CancellationToken::new()).await })
            })
            .collect();
        for call in calls {
            if let Some(reason) = runtime().block_on(call).unwrap().failure {
                return Some(format!("{} ({})", reason.message, reason.hint.unwrap_or_default()));
            }
        }
    }
    None
}

/// What this process and all that it started have.
struct Cost {
    /// In kB, and no other process has a share in it.
    private: usize,
    processes: usize,
    /// Of this process alone.
    descriptors: usize,
}

impl Cost {
    fn of_this_process() -> Cost {
        let mut cost =
            Cost { private: 0, processes: 0, descriptors: fs::read_dir("/proc/self/fd").unwrap().count() };
        let mut left = children(std::process::id());
        while let Some(process) = left.pop() {
            left.extend(children(process));
            let smaps = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
            let of = |line: &str| line.split_whitespace().nth(1)?.parse::<usize>().ok();
            cost.private +=
                smaps.lines().filter(|line| line.starts_with("Private_")).filter_map(of).sum::<usize>();
            cost.processes += 1;
        }
        cost
    }
}

fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// What a host has of what a lease takes.
fn limits() -> String {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let line =
        |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or("").to_owned();
    let limits = text("/proc/self/limits");
    [
        line(&limits, "Max open files"),
        line(&limits, "Max processes"),
        line(&text("/proc/meminfo"), "MemAvailable"),
        format!("pid_max {}", text("/proc/sys/kernel/pid_max").trim()),
        format!("max_user_namespaces {}", text("/proc/sys/user/max_user_namespaces").trim()),
        format!("max_mnt_namespaces {}", text("/proc/sys/user/max_mnt_namespaces").trim()),
    ]
    .join(", ")
}
