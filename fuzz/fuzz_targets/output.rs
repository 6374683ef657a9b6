//! Any output in any pieces under any cap: the first bytes are kept, the rest is counted, no character is torn.
#![no_main]

use jail::{Capture, Captured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, Vec<Vec<u8>>)| {
    let (cap, pieces) = input;
    let all = pieces.concat();
    let kept = &all[..all.len().min(usize::from(cap))];

    let mut keeping = Capture::new(cap.into());
    let mut passing = Capture::new(cap.into());
    let mut passed = Vec::new();
    for piece in &pieces {
        keeping.keep(piece);
        passed.extend_from_slice(passing.take(piece));
    }
    let (keeping, passing) = (keeping.finish(), passing.finish());

    let (total, dropped) = (all.len() as u64, (all.len() - kept.len()) as u64);
    assert_eq!(keeping, Captured { bytes: kept.to_vec(), total, dropped });
    assert_eq!((passed.as_slice(), passing), (kept, Captured { bytes: Vec::new(), total, dropped }));

    // What is shown is the beginning of what would have been shown without a cap, short of one character at most.
    let (shown, whole) = (keeping.text(), String::from_utf8_lossy(&all));
    assert!(whole.starts_with(&shown), "{shown:?} is no beginning of {whole:?}");
    assert!(shown.len() + 3 >= String::from_utf8_lossy(kept).trim_end_matches('\u{fffd}').len());
    assert!(dropped > 0 || shown == whole);
});
