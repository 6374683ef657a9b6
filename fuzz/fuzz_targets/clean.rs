//! Any bytes in any pieces: the same clean text as in one piece, nothing hidden in it, no panic, memory and time within bounds.
#![no_main]

use std::time::{Duration, Instant};

use engine::{Action, Cleaner};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (pace, bytes) = input;
    let began = Instant::now();
    let mut whole = Cleaner::default();
    whole.push_bytes(bytes);
    let (text, findings) = whole.finish();
    assert!(began.elapsed() < Duration::from_secs(5), "{} bytes take too long", bytes.len());

    let mut pieces = Cleaner::default();
    let mut joined = String::new();
    for piece in bytes.chunks(usize::from(pace).max(1)) {
        pieces.push_bytes(piece);
        joined.push_str(&pieces.take());
    }
    let (rest, of_pieces) = pieces.finish();
    joined.push_str(&rest);
    assert_eq!((&joined, &of_pieces), (&text, &findings));

    let controls = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r' | '\u{c}');
    assert!(!text.chars().any(controls), "a control character is left");
    assert!(!text.replace("\r\n", "\n").contains('\r'), "a lone return is left");
    let mut last = 0;
    for finding in findings.kept() {
        assert!(
            finding.start >= last && finding.start < finding.end && finding.end <= bytes.len() as u64,
            "{finding:?}"
        );
        last = finding.start;
    }
    // What was found is gone, or was only to be told of.
    if findings.is_empty() {
        assert_eq!(text.as_bytes(), bytes);
    }
    assert!(findings.counts().all(|(_, _, action, _)| action == Action::Flagged) || text.as_bytes() != bytes);
});
