//! `text.count`, behind real walls.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::Test;
use crate::bench::Bench;

pub(crate) const TESTS: &[Test] = &[
    ("text_count_counts", text_count_counts),
    ("text_count_stays_in_the_workspace", text_count_stays_in_the_workspace),
    ("text_count_takes_no_name_for_an_option", text_count_takes_no_name_for_an_option),
];

fn text_count_counts() {
    let bench = Bench::new();
    bench.put("notes.md", "one two\nthree\n");
    let counted = bench.done("text.count", json!({ "path": "notes.md" }));
    assert_eq!(counted, json!({ "lines": 2, "words": 3, "bytes": 14 }));
    assert_eq!(bench.refused("text.count", json!({ "path": "missing.md" })), "tool_failed");
}

fn text_count_stays_in_the_workspace() {
    let bench = Bench::new();
    bench.put(".env", "TOKEN=1");
    symlink(&bench.outside, bench.workspace.join("link")).unwrap();
    assert_eq!(bench.refused("text.count", json!({ "path": "../outside" })), "outside");
    assert_eq!(bench.refused("text.count", json!({ "path": ".env" })), "protected");
    assert_eq!(bench.refused("text.count", json!({ "path": "link" })), "tool_failed");
}

/// `wc --files0-from=LIST` would read every file that LIST names.
fn text_count_takes_no_name_for_an_option() {
    let bench = Bench::new();
    bench.put("list", "notes.md");
    bench.put("--files0-from=list", "x");
    let counted = bench.done("text.count", json!({ "path": "--files0-from=list" }));
    assert_eq!(counted, json!({ "lines": 0, "words": 1, "bytes": 1 }));
}
