//! Whatever a client writes on standard input, what is passed on to the server is lines with one meaning each, and every
//! other line is answered with an error.
#![no_main]

#[path = "../../crates/server/src/mcp/stdio.rs"]
#[expect(dead_code, reason = "the server uses the rest")]
mod stdio;

use std::path::Path;

use contract::Canonical;
use libfuzzer_sys::fuzz_target;
use stdio::Lines;
use tokio::io::AsyncReadExt;

/// Lines of the protocol, and what is near them: where the fuzzer begins.
const BEGINNINGS: [&str; 4] = [
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"fs.read\",\"arguments\":{\"path\":\"a\"}}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\r\n\r\n{\"a\":1,\"a\":2}\nnull\n",
    "[{\"jsonrpc\":\"2.0\",\"id\":1e400}]\n\"\\ud800\"\n{\n",
    "{\"id\":1}",
];

fn begin(corpus: &Path) {
    std::fs::create_dir_all(corpus).expect("a folder can be made");
    for (number, text) in BEGINNINGS.iter().enumerate() {
        std::fs::write(corpus.join(format!("beginning-{number}")), text).expect("a seed");
    }
}

fuzz_target!(init: begin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/lines")), |bytes: &[u8]| check(bytes));

fn check(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (output, mut heard) = tokio::io::duplex(1 << 22);
        let (lines, (mut from_client, to_client)) = Lines::of(std::io::Cursor::new(bytes.to_vec()), output);
        let mut passed = Vec::new();
        from_client.read_to_end(&mut passed).await.expect("memory can be read");
        drop((from_client, to_client));
        lines.close().await;
        let mut said = Vec::new();
        heard.read_to_end(&mut said).await.expect("memory can be read");

        let sent: Vec<&[u8]> = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .collect();
        let (good, bad): (Vec<&[u8]>, Vec<&[u8]>) = sent.into_iter().partition(|line| {
            std::str::from_utf8(line).is_ok_and(|text| Canonical::parse(text.trim()).is_ok())
        });
        assert_eq!(passed, good.concat(), "what has one meaning is passed on as it is");
        let answers: Vec<&[u8]> = said.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(answers.len(), bad.len(), "what has none is answered");
        for answer in answers {
            let answer: serde_json::Value = serde_json::from_slice(answer).expect("an answer is JSON");
            assert_eq!(answer["error"]["code"], -32600);
        }
    });
}
