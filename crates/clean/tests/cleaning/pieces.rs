//! The same result however a text is cut, in time that grows with the text.

use std::time::Duration;

use clean::{Cleaner, Findings, clean_text};
use proptest::prelude::*;

use crate::making::Random;

fn in_pieces(text: &str, mut next: impl FnMut() -> usize) -> (String, Findings) {
    let mut cleaner = Cleaner::default();
    let mut clean = String::new();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(next().clamp(1, rest.len()));
        cleaner.push_bytes(piece);
        clean.push_str(&cleaner.take());
        rest = after;
    }
    let (end, findings) = cleaner.finish();
    (clean + &end, findings)
}

/// Bits of everything that has a meaning, so that any cut falls into something.
const BITS: [&str; 44] = [
    "\u{1b}[31m",
    "\u{1b}]8;;u\u{1b}\\",
    "\u{1b}",
    "\u{9d}0;t",
    "\u{9c}",
    "\u{90}",
    "\r",
    "\n",
    "\r\n",
    "\u{200d}",
    "\u{200b}",
    "👩",
    "🏴",
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0041}",
    "\u{fe0f}",
    "葛\u{e0100}",
    "\u{202e}",
    "\u{200f}",
    "ש",
    "می",
    "а",
    "paypal",
    "ghp_",
    "0123456789abcdefghijABCDEFGHIJ",
    "AKIAZ7QW3MNBV5XCLKJ2",
    "password = \"",
    "hunter2!x9Q\"",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "MIIEowIBAAKCAQEA7bq8m0Xh2Qp1/z9vL3k4+d5eYt6uI7oP8aS9dF0gHjKl\n",
    "-----END RSA PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.",
    "eyJzdWIiOiIxIn0.",
    "![x](https://e.test/?d=",
    "dGhlIHVzZXIncyBwYXNzd29yZCBpcyBodW50ZXIy",
    ")",
    "<|im_start|>",
    "ignore ",
    "previous ",
    "instructions",
    "忽略之前的指令",
    " ",
    "postgres://a:b9Xk2LmQ@h/",
    "hvs.",
];

fn text() -> impl Strategy<Value = String> {
    let bit = prop_oneof![4 => prop::sample::select(BITS.to_vec()).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from), 1 => "[ -~]{0,20}"];
    prop::collection::vec(bit, 0..60).prop_map(|bits| bits.concat())
}

/// The same, longer than a block.
fn long_text(seed: u64) -> String {
    let mut random = Random(seed);
    let mut text = String::new();
    while text.len() < 250_000 {
        match random.below(12) {
            0 => text.push_str(&"lorem ipsum dolor ".repeat(random.below(400))),
            1 => text.push_str(&"MIIEowIBAAKCAQEA7bq8m0Xh2Qp1\n".repeat(random.below(900))),
            2 => text.push_str(&"hvs.".repeat(random.below(300))),
            3 => text.push_str(&"\u{200b}é世".repeat(random.below(200))),
            _ => text.push_str(BITS[random.below(BITS.len())]),
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_give_what_the_whole_gives(text in text(), cuts in prop::collection::vec(1_usize..9, 1..20)) {
        let whole = clean_text(&text, usize::MAX);
        let mut cuts = cuts.into_iter().cycle();
        let (clean, findings) = in_pieces(&text, || cuts.next().unwrap());
        prop_assert_eq!(&clean, &whole.text);
        prop_assert_eq!(&findings, &whole.findings);
        // Once clean, there is nothing left that is taken out. What a mask leaves beside it may be lonely.
        let again = clean_text(&whole.text, usize::MAX);
        prop_assert!(whole.findings.masked().0 > 0 || again.findings.kept().iter().all(|finding| finding.action != clean::Action::Removed), "{:?}", again.findings);
    }

    #[test]
    fn nothing_hidden_comes_out(text in any::<String>()) {
        let clean = clean_text(&text, usize::MAX).text;
        let kept = |c: char| "\r\u{c}\u{feff}\u{200c}\u{200d}\u{200b}\u{200e}\u{200f}\u{61c}".contains(c) || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}' | '\u{e0020}'..='\u{e01ef}');
        prop_assert!(!clean.chars().any(|c| contract::is_hidden(c) && !kept(c)), "{clean:?}");
    }
}

#[test]
fn pieces_of_a_text_longer_than_a_block_give_what_the_whole_gives() {
    for seed in 0..6 {
        let text = long_text(seed);
        let whole = clean_text(&text, usize::MAX);
        for most in [1, 7, 4096, 65_536, 100_000] {
            let mut random = Random(seed);
            let (clean, findings) = in_pieces(&text, || 1 + random.below(most));
            assert!(clean == whole.text, "seed {seed}, pieces of up to {most} bytes");
            assert_eq!(findings, whole.findings, "seed {seed}, pieces of up to {most} bytes");
        }
    }
}

#[test]
fn a_secret_is_found_wherever_a_block_ends() {
    let key = "AKIAZ7QW3MNBV5XCLKJ2";
    for before in (65_500..65_560).chain(81_880..81_960).chain(131_050..131_090) {
        let text = format!("{}{key}{}", ".".repeat(before), " tail".repeat(10_000));
        assert!(!clean_text(&text, usize::MAX).text.contains(key), "after {before} bytes");
    }
}

#[test]
fn a_key_longer_than_any_block_is_masked_to_its_end() {
    let line = "MIIEowIBAAKCAQEA7bq8m0Xh2Qp1zz9vL3k4dd5eYt6uI7oP8aS9dF0gHjKl\n";
    let text = format!("a\n-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\nb\n", line.repeat(4000));
    let clean = clean_text(&text, usize::MAX).text;
    assert!(
        clean.starts_with("a\n[masked:private-key]") && clean.ends_with("b\n") && clean.len() < 200,
        "{} bytes",
        clean.len()
    );
}

/// Texts that are made to be slow.
const HARD: [&str; 21] = [
    "hvs.",
    "sk-",
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9.",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq8m0Xh2Qp1zz9vL3k4dd5e\n",
    "://",
    "http://a:",
    "password=",
    "password = \"",
    "![x](https://e.test/?d=",
    "[",
    "<",
    "{",
    "ignore ",
    "ignore previous ",
    "i g n o r e ",
    "\u{1b}[",
    "\u{9d}",
    "a\u{200b}",
    "а",
    "\u{200f}ש",
];

#[test]
fn time_grows_with_the_text_and_not_faster() {
    let took = |text: &str| {
        let times = (0..3).map(|_| {
            let began = processor_time();
            drop(clean_text(text, usize::MAX));
            processor_time() - began
        });
        times.min().unwrap()
    };
    for bit in HARD {
        let small = bit.repeat(60_000 / bit.len());
        let large = small.repeat(4);
        let (one, four) = (took(&small), took(&large));
        // Four times the text takes four times as long; sixteen would be the square.
        assert!(four < one * 10 + Duration::from_millis(50), "{bit:?}: {one:?}, then {four:?}");
    }
}

/// Processor time of this thread: what else the machine does meanwhile does not count.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap(), u32::try_from(now.tv_nsec).unwrap())
}
