//! Whatever a sandbox sends for a question of the DNS, it is answered in 512 bytes or not at all, and a name that it asks
//! for is text that can be recorded.
#![no_main]

#[path = "../../crates/egress/src/dns.rs"]
mod dns;

use std::net::Ipv4Addr;
use std::path::Path;

use dns::{Say, Wants};
use libfuzzer_sys::fuzz_target;

/// Questions, and what is near them: where the fuzzer begins.
const BEGINNINGS: [&[u8]; 3] = [
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x07example\x04test\x00\x00\x01\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x1c\x00\x01",
    b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01",
];

fn begin(corpus: &Path) {
    std::fs::create_dir_all(corpus).expect("a folder can be made");
    for (number, bytes) in BEGINNINGS.iter().enumerate() {
        std::fs::write(corpus.join(format!("beginning-{number}")), bytes).expect("a seed");
    }
}

fuzz_target!(init: begin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/dns")), |bytes: &[u8]| check(bytes));

fn check(bytes: &[u8]) {
    for say in [Say::At(Ipv4Addr::LOCALHOST), Say::Nothing, Say::NotThere] {
        let answer = dns::answer(bytes, |name, _: Wants| {
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
            say
        });
        if let Some(answer) = answer {
            assert!(answer.len() <= 512 && answer[..2] == bytes[..2] && answer[2] & 0x80 != 0);
        }
    }
}
