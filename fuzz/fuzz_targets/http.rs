//! Any bytes as the body of a call over HTTP: what reaches the gate is what a strict reader of JSON finds in them, and
//! everything else is answered with a problem of the protocol.
#![no_main]

#[path = "../../crates/server/tests/http/client.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod client;
#[path = "../../crates/server/tests/http/stub.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod stub;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use client::Response;
use contract::Canonical;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use stub::{AGENT, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

fn server() -> &'static (Runtime, Server) {
    static SERVER: OnceLock<(Runtime, Server)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let server = runtime.block_on(Server::start());
        (runtime, server)
    })
}

async fn send(server: &Server, body: &[u8]) -> Option<Response> {
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {AGENT}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).await.ok()?;
    stream.write_all(&[head.as_bytes(), body].concat()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    Some(Response::read(&String::from_utf8_lossy(&answer)))
}

/// Bodies of the kinds that there are: where the fuzzer begins.
const BEGINNINGS: [&str; 6] = [
    r#"{"tool":"fs.read","arguments":{"path":"a"}}"#,
    r#"{"tool":"fs.read","arguments":null,"task":"t","key":"k","purpose":"p","wait":1}"#,
    r#"{"tool":"fs.read","tool":"shell"}"#,
    r#"{"tool":7}"#,
    r#"{"arguments":{}}"#,
    r#"[1e400]"#,
];

fn begin(corpus: &Path) {
    std::fs::create_dir_all(corpus).expect("a folder can be made");
    for (number, text) in BEGINNINGS.iter().enumerate() {
        std::fs::write(corpus.join(format!("beginning-{number}")), text).expect("a seed");
    }
}

fuzz_target!(init: begin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/http")), |body: &[u8]| check(body));

fn check(body: &[u8]) {
    let (runtime, server) = server();
    server.gate.asked.lock().expect("nobody panics with it").clear();
    // The stub has a tool that never ends.
    let Ok(Some(response)) =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(2), send(server, body)).await })
    else {
        return;
    };
    let meant = std::str::from_utf8(body).ok().and_then(|text| Canonical::parse(text).ok());
    let asked = server.gate.asked();
    match (meant, asked.as_slice()) {
        (None, asked) => assert_eq!((response.status, asked), (400, &[][..]), "{response:?}"),
        (Some(_), []) => assert_eq!(response.status, 422, "{response:?}"),
        (Some(meant), [asked]) => {
            let tool = meant.value().get("tool").and_then(Value::as_str).expect("a call names a tool");
            let arguments = meant.value().get("arguments").filter(|arguments| !arguments.is_null());
            let arguments = arguments.cloned().unwrap_or_else(|| serde_json::json!({}));
            let arguments = Canonical::of(arguments).expect("it is part of what is canonical");
            let expected = format!("call builder {tool} {} key=", arguments.text());
            assert!(asked.starts_with(&expected), "{asked} is not {expected}");
        }
        (Some(_), several) => panic!("one body, several calls: {several:?}"),
    }
}
