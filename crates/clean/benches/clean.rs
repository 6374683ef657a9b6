//! Times cleaning, in MB of input for each second of processor time: prose, sources, output full of escapes, and texts
//! made to be slow; of those also what ten times the text takes. `cargo bench -p toolgate-clean --bench clean [-- FILE…]`
//!
//! Fails if plain text is slower than the bar, or if ten times a text take more than twenty times as long.
#![expect(clippy::print_stdout, reason = "the report is this program's data")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has no figures")]

use std::hint::black_box;
use std::path::Path;

use clean::{Cleaner, clean_text};

fn main() {
    // `cargo test --all-targets` comes here too.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let began = processor_seconds();
    black_box(clean_text("x", 1));
    println!("{:>8.1} ms  the first text: tables are made once", (processor_seconds() - began) * 1e3);
    let speeds: Vec<f64> = texts().iter().map(|(name, text)| time(name, text)).collect();
    for bit in HARD {
        let small = bit.repeat(200_000 / bit.len());
        let (one, ten) = (seconds(&small), seconds(&small.repeat(10)));
        println!(
            "{:>8.1} MB/s  {:>5.1} times as long for ten times {bit:?}",
            small.len() as f64 / 1e5 / ten,
            ten / one
        );
        assert!(ten < one * 20.0 + 0.02, "{bit:?} takes more than its length");
    }
    for name in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        time(&name, &String::from_utf8_lossy(&std::fs::read(&name).unwrap()));
    }
    let plain = speeds.first().unwrap();
    println!("{plain:>8.1} MB/s  plain text; the bar is {BAR}");
    assert!(*plain >= BAR, "plain text is slower than the bar");
}

/// The least that plain text is cleaned at.
const BAR: f64 = 100.0;

/// How fast a text is cleaned.
fn time(name: &str, text: &str) -> f64 {
    let mut bytes = 0;
    let began = processor_seconds();
    while processor_seconds() - began < 0.5 {
        let mut cleaner = Cleaner::default();
        for piece in text.as_bytes().chunks(65_536) {
            cleaner.push_bytes(piece);
            black_box(cleaner.take());
        }
        black_box(cleaner.finish());
        bytes += text.len();
    }
    let speed = bytes as f64 / 1e6 / (processor_seconds() - began);
    println!("{speed:>8.1} MB/s  {name}");
    speed
}

/// How long a text takes, at best.
fn seconds(text: &str) -> f64 {
    let once = |_| {
        let began = processor_seconds();
        black_box(clean_text(text, usize::MAX));
        processor_seconds() - began
    };
    (0..3).map(once).fold(f64::MAX, f64::min)
}

fn read(names: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    names.iter().map(|name| std::fs::read_to_string(root.join(name)).unwrap()).collect()
}

fn documents() -> String {
    read(&["README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md", "docs/glossary.md"])
}

fn texts() -> Vec<(String, String)> {
    let sources =
        read(&["crates/jail/src/tree.rs", "crates/engine/src/call.rs", "crates/tools/src/command.rs"]);
    vec![
        ("plain text".to_owned(), documents().repeat(20)),
        ("source code".to_owned(), sources.repeat(30)),
        ("lock file".to_owned(), read(&["Cargo.lock"]).repeat(10)),
        ("Chinese".to_owned(), "工具的输出在返回给模型之前会被清理，其中没有任何隐藏的内容。".repeat(10_000)),
        ("Russian".to_owned(), "Вывод инструмента очищается, прежде чем его увидит модель. ".repeat(10_000)),
        (
            "colours".to_owned(),
            "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m toolgate v0.1.0 (/work)\n".repeat(10_000),
        ),
        ("escapes only".to_owned(), "\u{1b}[31m\u{1b}]0;t\u{7}".repeat(40_000)),
        ("zero-width between all letters".to_owned(), "a\u{200b}".repeat(200_000)),
    ]
}

/// Bits of texts that are made to be slow: beginnings of everything that has to be looked at more closely.
const HARD: [&str; 24] = [
    "hvs.",
    "sk-",
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9.",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq8m0Xh2Qp1zz9v\n",
    "-----BEGIN ",
    "LS0tLS1CRUdJTi",
    "://",
    "http://a:",
    "password=",
    "password = \"",
    "password login ",
    "bearer ",
    "![x](https://e.test/?d=",
    "[",
    "ignore previous ",
    "i g n o r e ",
    "<|im_start",
    "\u{1b}[",
    "\u{9d}x",
    "pа",
    "\u{200f}ש",
    "1\u{fe0f}",
    "AKIA",
];

/// Processor time of this process: what other programs do meanwhile does not count.
fn processor_seconds() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}
