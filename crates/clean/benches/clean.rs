//! Times cleaning, in MB of input for each second of processor time: prose, sources, output full of escapes, and texts
//! made to be slow. `cargo bench -p toolgate-clean --bench clean [-- FILE…]`
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
    for (name, text) in texts() {
        time(&name, &text);
    }
    for name in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        time(&name, &String::from_utf8_lossy(&std::fs::read(&name).unwrap()));
    }
}

fn time(name: &str, text: &str) {
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
    println!("{:>8.1} MB/s  {name}", bytes as f64 / 1e6 / (processor_seconds() - began));
}

fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |names: &[&str]| -> String {
        names.iter().map(|name| std::fs::read_to_string(root.join(name)).unwrap()).collect()
    };
    let documents =
        read(&["README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md", "docs/glossary.md"]);
    let sources =
        read(&["crates/jail/src/tree.rs", "crates/engine/src/call.rs", "crates/tools/src/command.rs"]);
    let mut texts = vec![
        ("plain text".to_owned(), documents.repeat(20)),
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
    ];
    let hard = [
        "hvs.",
        "sk-",
        "eyJ",
        "eyJhbGciOiJIUzI1NiJ9.",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq8m0Xh2Qp1zz9v\n",
        "://",
        "http://a:",
        "password=",
        "password = \"",
        "![x](https://e.test/?d=",
        "ignore previous ",
        "i g n o r e ",
        "\u{9d}x",
        "pа",
        "\u{200f}ש",
        "AKIA",
    ];
    texts.extend(
        hard.iter().map(|bit| (format!("made to be slow: {bit:?}"), bit.repeat(1_000_000 / bit.len()))),
    );
    texts
}

/// Processor time of this process: what other programs do meanwhile does not count.
fn processor_seconds() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}
