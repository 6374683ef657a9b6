//! What this repository promises about its own code, checked.
//!
//! Reads files and asks cargo; changes nothing and needs no network.
#![expect(clippy::unwrap_used, reason = "a rule that cannot be checked has been broken")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The only files with `unsafe` in them: the jail's system calls, and those an attacker would make.
const UNSAFE_FILES: [&str; 2] = ["crates/jail/src/sys.rs", "crates/attacks/src/raw.rs"];

/// Crates with a file of [`UNSAFE_FILES`]; every other one forbids it as a whole.
const UNSAFE_CRATES: [&str; 2] = ["jail", "attacks"];

/// Tables may be long: splitting them helps nobody.
const TABLES: [&str; 1] = ["crates/jail/src/syscalls.rs"];

const MOST_LINES: usize = 800;

#[test]
fn the_arrows_between_crates_are_those_of_the_architecture() {
    let drawn: BTreeMap<String, BTreeSet<String>> = read("ARCHITECTURE.md")
        .lines()
        .filter_map(|line| {
            // | `sandbox` | `jail` | what it is for |
            let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
            let (uses, _) = rest.split_once('|')?;
            is_crate(name).then(|| (name.to_owned(), backticked(uses)))
        })
        .collect();
    assert_eq!(arrows(), drawn);
}

#[test]
fn every_path_named_in_the_architecture_is_there() {
    let named: Vec<String> = backticked(&read("ARCHITECTURE.md"))
        .iter()
        .filter(|name| name.starts_with("crates/"))
        .flat_map(|name| spelled_out(name))
        .collect();
    assert!(named.iter().any(|path| path == "crates/server/src/http/guards.rs"), "the search must find it");
    let missing: Vec<&String> = named.iter().filter(|path| !repository().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn the_shipped_binary_cannot_leave_out_a_wall() {
    let features = |package: &str| {
        cargo(&["tree", "--package", package, "--edges", "normal,features", "--prefix", "none"])
    };
    let (attacks, shipped) = (features("toolgate-attacks"), features("toolgate"));
    for package in ["jail", "egress", "engine", "server", "tools"] {
        let weaken = format!("toolgate-{package} feature \"weaken\"");
        assert!(attacks.contains(&weaken), "the attack suite must see what it looks for");
        assert!(!shipped.contains(&weaken));
    }
}

#[test]
fn the_shipped_binary_has_no_fixtures() {
    let built = |arguments: &[&str]| {
        let asked = ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p} {f}", "--package"];
        let tree = cargo(&[&asked, arguments].concat());
        let server = tree.lines().find(|line| line.starts_with("toolgate-server "));
        server.expect("the server is in all of them").to_owned()
    };
    let with = built(&["toolgate-server", "--features", "fixtures"]);
    assert!(with.ends_with("fixtures"), "whoever asks for them must see what is looked for: {with}");
    for package in ["toolgate", "toolgate-attacks"] {
        let without = built(&[package]);
        assert!(!without.contains("fixtures"), "{without}");
    }
}

#[test]
fn the_shipped_binary_has_no_point_to_be_killed_at() {
    let features = |package: &str| {
        cargo(&["tree", "--package", package, "--edges", "normal,features", "--prefix", "none"])
    };
    for of in ["store", "engine", "tools"] {
        let crash = format!("toolgate-{of} feature \"crash\"");
        assert!(features("toolgate-attacks").contains(&crash), "the storm must see what it looks for");
        assert!(!features("toolgate").contains(&crash));
    }
    let default: Vec<String> = crates()
        .into_iter()
        .filter(|name| read(&format!("crates/{name}/Cargo.toml")).contains("\ndefault = "))
        .collect();
    assert_eq!(default, Vec::<String>::new(), "what a crate has by default, everything has that uses it");
}

#[test]
fn unsafe_code_is_where_it_belongs() {
    let strays: Vec<String> = sources()
        .into_iter()
        .filter(|(path, _)| !UNSAFE_FILES.contains(&path.as_str()))
        .flat_map(|(path, text)| lines_where(&path, &text, has_unsafe_code))
        .collect();
    assert_eq!(strays, Vec::<String>::new());
    // In two halves, so that this file does not find itself.
    assert!(has_unsafe_code(concat!("let pid = uns", "afe { libc::getpid() };")), "the search must find it");
}

#[test]
fn every_crate_without_a_place_for_unsafe_code_forbids_it() {
    let forbids = |name: &str| {
        let root =
            ["src/lib.rs", "src/main.rs"].map(|file| repository().join("crates").join(name).join(file));
        let mut roots = root.iter().filter(|file| file.is_file());
        roots.all(|file| fs::read_to_string(file).unwrap().contains("#![forbid(unsafe_code)]"))
    };
    let lax: Vec<String> = crates()
        .into_iter()
        .filter(|name| !UNSAFE_CRATES.contains(&name.as_str()) && !forbids(name))
        .collect();
    assert_eq!(lax, Vec::<String>::new(), "these lack #![forbid(unsafe_code)]");
}

#[test]
fn every_attack_named_in_the_code_has_a_case() {
    let suite: String = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/attacks/"))
        .map(|(_, text)| text)
        .collect();
    let named = tags("ATTACK(", |path| path.contains("/src/") && !path.starts_with("crates/attacks/"));
    assert!(!named.is_empty(), "the search must find what it looks for");
    let without_case: Vec<_> =
        named.into_iter().filter(|(name, _)| !suite.contains(&format!("\"{name}\""))).collect();
    assert_eq!(without_case, []);
}

/// The classes of bugs about commands, approvals, files, kernels, egress, MCP, secrets and records.
const CLASSES: std::ops::RangeInclusive<u32> = 1..=70;

#[test]
fn every_class_of_known_bugs_has_an_attack_and_a_guard() {
    let page = read("docs/threats.md");
    let rows: BTreeMap<u32, Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .map(|line| line.trim_end_matches(" |").split(" | ").collect::<Vec<&str>>())
        .filter_map(|cells| Some((cells.first()?.parse().ok()?, cells)))
        .collect();
    let classes: Vec<u32> = CLASSES.collect();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), classes, "each has a row");
    let texts = |folder: &str| -> String {
        sources().into_iter().filter(|(path, _)| path.starts_with(folder)).map(|(_, text)| text).collect()
    };
    let (suite, walls) = (texts("crates/attacks/"), read("crates/jail/src/control.rs"));
    for (class, cells) in rows {
        let [_, _, attacks, guards] = cells.as_slice() else { panic!("class {class} has other columns") };
        let (attacks, guards) = (backticked(attacks), backticked(guards));
        assert!(!attacks.is_empty() && !guards.is_empty(), "class {class} lacks an attack or a guard");
        let missing: Vec<&String> =
            attacks.iter().filter(|name| !suite.contains(&format!("\"{name}\""))).collect();
        assert!(missing.is_empty(), "class {class}: there is no attack {missing:?}");
        let is_guard = |name: &&String| {
            repository().join(name).is_file()
                || walls.contains(&format!("=> \"{name}\""))
                || suite.contains(&format!(".without(\"{name}\""))
                || suite.contains(&format!(".held_by({name})"))
        };
        let missing: Vec<&String> = guards.iter().filter(|name| !is_guard(name)).collect();
        assert!(missing.is_empty(), "class {class}: there is no guard {missing:?}");
    }
}

/// What an agent's level consists of, and what else narrows an agent.
const DIMENSIONS: [&str; 11] = [
    "autonomy",
    "code_execution",
    "denied_actions",
    "deployment",
    "file_system",
    "git",
    "network",
    "requires_approval",
    "role",
    "seniority",
    "terminal",
];

#[test]
fn every_dimension_of_a_level_has_an_attack_and_a_guard() {
    let page = read("docs/threats.md");
    let section = page.split_once("## Levels, dimension by dimension").expect("there is the section").1;
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.trim_end_matches(" |").split(" | ").collect()).collect();
    let named: BTreeSet<&str> = rows.iter().map(|cells| cells[0].trim_end_matches('`')).collect();
    assert_eq!(named, DIMENSIONS.into_iter().collect(), "each has a row");
    let suite: String = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/attacks/"))
        .map(|(_, text)| text)
        .collect();
    let walls = read("crates/jail/src/control.rs");
    let mut tried = BTreeSet::new();
    for cells in rows {
        let [dimension, _, attacks, guards] = cells.as_slice() else { panic!("{cells:?} has other columns") };
        let (attacks, guards) = (backticked(attacks), backticked(guards));
        assert!(!attacks.is_empty() && !guards.is_empty(), "{dimension} lacks an attack or a guard");
        let is_attack = |name: &&String| suite.contains(&format!("\"{name}\""));
        let is_guard =
            |name: &&String| repository().join(name).is_file() || walls.contains(&format!("=> \"{name}\""));
        assert_eq!(attacks.iter().find(|name| !is_attack(name)), None, "{dimension}");
        assert_eq!(guards.iter().find(|name| !is_guard(name)), None, "{dimension}");
        tried.extend(attacks);
    }
    // And the other way round: what is tried is told.
    let begun = |line: &str| line.trim().trim_start_matches('"').split('"').next().map(str::to_owned);
    let is_of_a_level = |name: &String| name.starts_with("level-") || name.starts_with("autonomy-");
    let cases = suite.lines().filter(|line| line.trim().starts_with('"') && line.trim().ends_with("\","));
    let untold: Vec<String> =
        cases.filter_map(begun).filter(|name| is_of_a_level(name) && !tried.contains(name)).collect();
    assert_eq!(untold, Vec::<String>::new());
}

#[test]
fn every_decision_named_in_the_code_is_written_down() {
    let records: BTreeSet<String> = entries("docs/decisions")
        .iter()
        .filter_map(|path| file_name(path).get(..4).map(str::to_owned))
        .collect();
    let missing: Vec<_> =
        tags("DECISION(", |_| true).into_iter().filter(|(number, _)| !records.contains(number)).collect();
    assert_eq!(missing, []);
}

#[test]
fn every_decision_says_what_it_costs_and_what_would_change_it() {
    let headings = ["## Context", "## Choice", "## Cost", "## What would change our mind"];
    for record in entries("docs/decisions") {
        let text = fs::read_to_string(&record).unwrap();
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(found, headings, "{}", record.display());
    }
}

#[test]
fn no_source_file_is_too_long_to_read() {
    let long: Vec<(String, usize)> = sources()
        .into_iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(path, lines)| *lines > MOST_LINES && !TABLES.contains(&path.as_str()))
        .collect();
    assert_eq!(long, []);
}

#[test]
fn exceptions_to_lints_are_expected_with_a_reason_never_allowed() {
    // In two halves, so that this file does not find itself.
    let (outer, inner) = (concat!("#[", "allow("), concat!("#![", "allow("));
    let allowed: Vec<String> = sources()
        .into_iter()
        .flat_map(|(path, text)| {
            lines_where(&path, &text, |line| line.contains(outer) || line.contains(inner))
        })
        .collect();
    assert_eq!(allowed, Vec::<String>::new());
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let documents = ["", "docs", "docs/decisions"].into_iter().flat_map(entries);
    let mut broken = Vec::new();
    for document in documents.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let local = targets.filter(|target| !target.is_empty() && !target.contains("://"));
        broken.extend(
            local
                .filter(|target| !document.with_file_name(target).exists())
                .map(|target| format!("{}: {target}", document.display())),
        );
    }
    assert_eq!(broken, Vec::<String>::new());
}

// ---- what the rules are checked against

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// What stands in a directory of the repository, sorted.
fn entries(directory: &str) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(repository().join(directory)).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Our crates, by the name of their directory.
fn crates() -> Vec<String> {
    entries("crates").iter().map(|path| file_name(path).to_owned()).collect()
}

fn is_crate(name: &str) -> bool {
    crates().iter().any(|known| known == name)
}

/// Every Rust file, as its path in the repository and its text.
fn sources() -> Vec<(String, String)> {
    let mut waiting: Vec<PathBuf> = ["crates", "fuzz"].map(|name| repository().join(name)).into();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() && file_name(&path) != "target" {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(repository()).unwrap().display().to_string();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Which of our crates each of them is built with. Dependencies of tests are no arrows.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version=1"])).unwrap();
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(PathBuf::from);
    list(&metadata, "packages")
        .iter()
        .map(|package| {
            let manifest = text(package, "manifest_path").unwrap();
            let uses = list(package, "dependencies")
                .iter()
                .filter(|dependency| text(dependency, "kind") != Some(PathBuf::from("dev")))
                .filter_map(|dependency| text(dependency, "path"))
                .map(|path| file_name(&path).to_owned())
                .collect();
            (file_name(manifest.parent().unwrap()).to_owned(), uses)
        })
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "asks the cargo that built this test about the workspace")]
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--offline", "--locked"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names in backticks.
fn backticked(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Each of the paths that `a/{b,c}.rs` stands for.
fn spelled_out(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (choices, after))) => {
            choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// The names in tags such as `DECISION(0001)`, and the file each stands in.
fn tags(opening: &str, is_searched: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| is_searched(path)) {
        let names = text.split(opening).skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name);
        let is_name = |name: &&str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        found.extend(names.filter(is_name).map(|name| (name.to_owned(), path.clone())));
    }
    found
}

/// The keyword as it opens a block, a function and the like; in prose it is followed by something else.
fn has_unsafe_code(line: &str) -> bool {
    let is_comment = line.trim_start().starts_with("//");
    let opens = |rest: &str| {
        let rest = rest.trim_start();
        rest.is_empty()
            || ["{", "(", "fn ", "impl", "extern", "trait"].iter().any(|word| rest.starts_with(word))
    };
    let mut parts = line.split("unsafe");
    let mut before = parts.next().unwrap_or_default();
    !is_comment
        && parts.any(|after| {
            let whole_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            before = after;
            whole_word && opens(after)
        })
}

fn lines_where(path: &str, text: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let numbered = (1..).zip(text.lines()).filter(|(_, line)| wanted(line));
    numbered.map(|(number, line)| format!("{path}:{number}: {}", line.trim())).collect()
}
