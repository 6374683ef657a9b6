//! Names that change while a tool looks at them.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::Test;
use crate::bench::{Bench, SECRET, is_long, names_in};

pub(crate) const TESTS: &[Test] = &[
    (
        "a_directory_that_is_swapped_for_a_link_leads_nowhere",
        a_directory_that_is_swapped_for_a_link_leads_nowhere,
    ),
    (
        "a_file_that_is_swapped_for_a_link_is_never_followed",
        a_file_that_is_swapped_for_a_link_is_never_followed,
    ),
];

/// How long, and how often at least.
fn patience() -> (Duration, usize) {
    if is_long() { (Duration::from_secs(10), 400) } else { (Duration::from_millis(1500), 60) }
}

/// Makes calls while two names are exchanged for each other without a pause. Says how often the calls found the file.
fn while_swapping(bench: &Bench, one: &str, other: &str, mut call: impl FnMut() -> bool) -> (usize, usize) {
    let over = AtomicBool::new(false);
    let (one, other) = (bench.workspace.join(one), bench.workspace.join(other));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
        }
        let (time, least) = patience();
        let begun = Instant::now();
        let (mut calls, mut found) = (0, 0);
        // A busy machine may let one side wait for long: the race is on once both names were met.
        let met_both = |calls: usize, found: usize| found > 0 && found < calls;
        while calls < least
            || begun.elapsed() < time
            || (!met_both(calls, found) && begun.elapsed() < Duration::from_secs(10))
        {
            calls += 1;
            found += usize::from(call());
        }
        over.store(true, Ordering::Relaxed);
        (calls, found)
    })
}

fn a_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let bench = Bench::new();
    let outside = bench.outside.parent().unwrap().join("folder");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), SECRET).unwrap();
    bench.put("swap/file", "inside");
    symlink(&outside, bench.workspace.join("link")).unwrap();
    // Workers that are there before the race begins, so that it is theirs.
    bench.done("fs.read", json!({ "path": "swap/file" }));
    bench.done("fs.write", json!({ "path": "ready", "content": "" }));
    let mut turn = 0;
    let (calls, found) = while_swapping(&bench, "swap", "link", || {
        turn += 1;
        let ran = match turn % 4 {
            0 => bench.call("fs.read", json!({ "path": "swap/file" })),
            1 => bench.call("fs.write", json!({ "path": "swap/file", "content": "inside" })),
            2 => bench.call("fs.append", json!({ "path": "swap/file", "content": "" })),
            _ => bench.call("fs.search", json!({ "path": "swap", "pattern": "secret" })),
        };
        let shown = format!("{} {}", ran.output.content, ran.output.structured);
        assert!(!shown.contains(SECRET), "read the file outside: {shown}");
        ran.failure.is_none()
    });
    assert!(found > 0 && found < calls, "no race was run: {found} of {calls} calls found the file");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), SECRET);
    assert_eq!(names_in(&outside), ["file"], "nothing was made outside");
}

fn a_file_that_is_swapped_for_a_link_is_never_followed() {
    let bench = Bench::new();
    bench.put("swap", "inside");
    symlink(&bench.outside, bench.workspace.join("link")).unwrap();
    bench.done("fs.read", json!({ "path": "swap" }));
    bench.done("fs.append", json!({ "path": "ready", "content": "" }));
    let mut turn = 0;
    let (calls, found) = while_swapping(&bench, "swap", "link", || {
        turn += 1;
        let ran = match turn % 3 {
            0 => bench.call("fs.read", json!({ "path": "swap" })),
            1 => bench.call("fs.append", json!({ "path": "swap", "content": "+" })),
            _ => bench.call("fs.edit", json!({ "path": "swap", "old": "inside", "new": "inside." })),
        };
        assert!(!ran.output.content.contains(SECRET), "read the file outside");
        ran.failure.is_none()
    });
    // A file that is written takes the place of whatever has its name, a link too: then there is none to be met any more.
    let replaced = ["swap", "link"].iter().all(|name| !bench.workspace.join(name).is_symlink());
    assert!(
        found > 0 && (found < calls || replaced),
        "no race was run: {found} of {calls} calls found the file"
    );
    bench.outside_is_untouched();
}
