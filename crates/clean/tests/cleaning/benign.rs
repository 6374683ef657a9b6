//! Real files of this machine: documents, sources, lock files. With TOOLGATE_LONG, at least 50 MB of them.
//!
//! Nobody has labelled them, so every finding counts as false here; docs/cleaning.md says what they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clean::{Action, clean_text};

const ENDINGS: [&str; 22] = [
    "rs", "md", "toml", "json", "html", "c", "h", "yml", "yaml", "lock", "txt", "py", "js", "ts", "css",
    "pm", "pl", "sh", "go", "xml", "sum", "rst",
];

/// Findings that change a text, for each million bytes: no more than this. Without the files that are about Unicode itself.
const MOST_CHANGED: f64 = 0.5;

#[test]
#[expect(clippy::disallowed_methods, reason = "how much is read is for whoever runs the tests to say")]
fn real_files_are_left_alone() {
    let long = std::env::var_os("TOOLGATE_LONG").is_some();
    let most: u64 = if long { 400_000_000 } else { 6_000_000 };
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let places = [
        home.join(".cargo/registry/src"),
        "/usr/share/doc".into(),
        "/usr/lib/python3".into(),
        "/usr/lib/node_modules".into(),
        "/usr/share/perl".into(),
    ];
    let mut read = Read::default();
    for place in places {
        read.folder(&place, read.bytes + most / 4);
    }
    let millions = read.bytes as f64 / 1e6;
    println!("{} files, {millions:.1} MB", read.files);
    for (rule, count) in &read.counts {
        println!("{count:>8} {:>8.3}/MB {rule}", *count as f64 / millions);
    }
    if read.bytes == 0 {
        println!("skipped: this machine has none of the places that are looked at");
        return;
    }
    let rate = read.changed as f64 / millions;
    println!("changed: {rate:.3}/MB");
    assert!(rate <= MOST_CHANGED, "{rate:.3} changes for each MB");
    assert!(!long || read.bytes >= 50_000_000, "only {millions:.1} MB");
}

#[derive(Default)]
struct Read {
    files: u32,
    bytes: u64,
    changed: u64,
    counts: BTreeMap<String, u64>,
}

impl Read {
    fn folder(&mut self, folder: &Path, most: u64) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if self.bytes >= most {
                return;
            }
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                self.folder(&path, most);
            } else {
                self.file(&path);
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("copyright");
        let is_read = ENDINGS.contains(&ending) || path.ends_with("copyright");
        let Some(text) = is_read
            .then(|| std::fs::read_to_string(path).ok())
            .flatten()
            .filter(|text| text.len() < 2_000_000)
        else {
            return;
        };
        self.files += 1;
        self.bytes += text.len() as u64;
        let cleaned = clean_text(&text, usize::MAX);
        if cleaned.findings.is_empty() {
            assert_eq!(cleaned.text, text, "{} is changed without a word", path.display());
        }
        let about_characters = ["unicode", "idna", "iconv", "regex-syntax", "utf8", "encoding", "charset"];
        let name = path.to_string_lossy().to_lowercase();
        let counts = !about_characters.iter().any(|word| name.contains(word));
        for (category, rule, action, count) in cleaned.findings.counts() {
            let place = if counts { "" } else { " (files about characters)" };
            *self.counts.entry(format!("{}/{rule}{place}", category.as_str())).or_default() += count;
            if counts && action != Action::Flagged {
                self.changed += count;
            }
        }
    }
}
