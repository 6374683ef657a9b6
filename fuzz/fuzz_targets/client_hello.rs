//! Whatever a client begins TLS with, what is read of it is the same however it is cut, and never longer than it may be.
#![no_main]

#[path = "../../crates/egress/src/hello.rs"]
#[expect(dead_code, reason = "the gate uses the rest")]
mod hello;

use std::path::Path;

use hello::Heard;
use libfuzzer_sys::fuzz_target;

/// A hello for `a.test`: where the fuzzer begins.
const BEGINNING: &[u8] = b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03\
    \x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\
    \x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\
    \x00\x00\x02\x13\x01\x01\x00\x00\x11\x00\x00\x00\x0b\x00\x09\x00\x00\x06a.test\xfe\x0d\x00\x01\x00";

fn begin(corpus: &Path) {
    std::fs::create_dir_all(corpus).expect("a folder can be made");
    std::fs::write(corpus.join("beginning"), BEGINNING).expect("a seed");
}

fuzz_target!(
    init: begin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/client_hello")),
    |bytes: &[u8]| check(bytes)
);

fn check(bytes: &[u8]) {
    let whole = hello::hear(bytes);
    if let Ok(Heard::Whole(hello)) = &whole {
        let name = hello.server_name.as_deref().unwrap_or("none");
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    // A hello that is there as a whole was not there a byte before its end; what was refused early stays refused.
    for end in 0..bytes.len().min(600) {
        match (hello::hear(&bytes[..end]), &whole) {
            (Ok(Heard::More), _) => {}
            (Err(_), later) => assert!(later.is_err()),
            (Ok(Heard::Whole(early)), Ok(Heard::Whole(late))) => assert_eq!(early, *late),
            (Ok(Heard::Whole(_)), _) => {}
        }
    }
}
