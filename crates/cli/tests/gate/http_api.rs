//! The page about the HTTP API says what happens: every example is run, in order, in one shell.

use std::process::{Command, Stdio};

use crate::place::{Place, Up};
use crate::toolgate::{binary, finish, has, missing, start};

const PAGE: &str = include_str!("../../../../docs/http-api.md");

/// What stands for anything.
const ANYTHING: &str = "…";

/// Code blocks of the page: what is typed, and what is shown after it.
fn examples() -> Vec<(String, Option<String>)> {
    let mut examples: Vec<(String, Option<String>)> = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```").filter(|language| !language.is_empty()) else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match (language, examples.last_mut()) {
            ("sh", _) => examples.push((block.join("\n"), None)),
            (_, Some((_, shown @ None))) => *shown = Some(block.join("\n")),
            _ => panic!("what is shown here comes from nothing: {block:?}"),
        }
    }
    examples
}

/// Whether a text is what a page shows, in which `…` stands for anything.
fn fits(text: &str, shown: &str) -> bool {
    let mut parts = shown.split(ANYTHING);
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn every_example_of_the_page_about_the_http_api_does_what_it_shows() {
    let Some(place) = Place::new() else { return };
    if !has("curl") {
        return missing("curl", "there is no curl");
    }
    let up = Up::start(&place);
    let examples = examples();
    assert!(examples.len() > 10 && examples.iter().filter(|(_, shown)| shown.is_some()).count() > 9);
    let mut script = String::from("set -eu\n");
    for (typed, _) in &examples {
        // The page names the default address; here any free one is used.
        let typed = typed.replace("http://127.0.0.1:7433", &up.url());
        script.push_str(&format!("{typed}\nprintf '\\n@@end@@\\n'\n"));
    }
    let folder = binary().parent().expect("it is in a folder").to_owned();
    let mut command = Command::new("bash");
    command.args(["-c", &script]).stdin(Stdio::null());
    place.settle(&mut command);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.display())).env("TOOLGATE_HOME", place.home());
    let ran = finish(start(&mut command));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let outputs: Vec<&str> = ran.stdout.split("\n@@end@@\n").collect();
    for ((typed, shown), output) in examples.iter().zip(outputs) {
        if let Some(shown) = shown {
            assert!(fits(output.trim_end(), shown), "\n$ {typed}\nshows\n{output}\nand not\n{shown}");
        }
    }
    let ledger = place.toolgate(&["ledger", "export"]).stdout;
    assert!(ledger.contains("policy.tried"), "whoever tries a configuration on calls is on record");
}

#[test]
fn every_route_stands_in_the_page() {
    let missing: Vec<String> = server::ROUTES
        .iter()
        .map(|(method, path, _)| {
            (method, path.replace("{id}", "ID").replace("{name}", "NAME").replace("{seq}", "SEQ"))
        })
        .filter(|(_, path)| !path.starts_with("/assets/") && *path != "/")
        .filter(|(method, path)| !PAGE.contains(&format!("| `{method} {path}` |")))
        .map(|(method, path)| format!("{method} {path}"))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    assert!(fits("{\"a\":1,\"b\":2}", "{\"a\":…,\"b\":2}") && fits("abc", "abc") && fits("abc", "…"));
    assert!(!fits("abcd", "abc") && !fits("abd", "a…c") && !fits("xabc", "abc…"));
}
