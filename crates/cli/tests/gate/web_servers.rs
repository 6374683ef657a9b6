//! MCP servers that are asked over HTTP, through the guard of the network: a real one, and one that lies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::place::text;
use crate::servers::{Served, node, servers};

/// How long a server of Node may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// A real server over HTTP; ended when dropped.
struct Everything {
    child: Child,
    port: u16,
}

impl Everything {
    fn start(servers: &str, port: Option<u16>) -> Everything {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .expect("a port is free")
                .local_addr()
                .expect("it has an address")
                .port()
        };
        let port = port.unwrap_or_else(free);
        let child = Command::new("node")
            .args([&node(servers, "server-everything"), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("node starts");
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < LISTENS_WITHIN, "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Everything { child, port }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pin(served: &Served, tool: &str) {
    served.pin(tool, "network", "read_only");
}

fn call(served: &Served, tool: &str, arguments: &Value) -> Value {
    let ran = served.run(&["call", tool, &arguments.to_string(), "--json"]);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("not JSON: {error}: {ran:?}"))
}

/// What the receipt of a call says of its run.
fn run_of(served: &Served, result: &Value) -> Value {
    let shown = served.run(&["receipt", "show", &text(result, "/call_id"), "--json"]);
    let envelope: Value =
        serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
    let body = STANDARD.decode(text(&envelope, "/payload")).expect("it is base64");
    let body: Value = serde_json::from_slice(&body).expect("it is JSON");
    body.get("run")
        .or(body.pointer("/predicate/run"))
        .unwrap_or_else(|| panic!("it did not run: {body}"))
        .clone()
}

#[test]
fn a_real_server_over_http_is_listed_called_and_found_again_after_its_death() {
    let Some(folder) = servers() else { return };
    let folder = folder.to_str().expect("a plain path").to_owned();
    let everything = Everything::start(&folder, None);
    let port = everything.port;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let Some(served) = Served::by(|_, _| json!({ "url": url })) else { return };
    pin(&served, "mcp_s_echo");
    for word in ["one", "two"] {
        let result = call(&served, "mcp_s_echo", &json!({ "message": word }));
        assert_eq!(result["content"], json!(format!("Echo: {word}")), "{result}");
    }
    let receipt = call(&served, "mcp_s_echo", &json!({ "message": "counted" }));
    assert_eq!(receipt["status"], "completed", "{receipt}");
    // It dies: the call says so, and nothing else is harmed.
    drop(everything);
    let dead = call(&served, "mcp_s_echo", &json!({ "message": "three" }));
    assert_eq!(dead["status"], "failed", "{dead}");
    let read = call(&served, "fs.read", &json!({ "path": "README.md" }));
    assert_eq!(read["status"], "completed", "{read}");
    // It is there again, and knows nothing of any session.
    let _again = Everything::start(&folder, Some(port));
    let result = call(&served, "mcp_s_echo", &json!({ "message": "four" }));
    assert_eq!(result["content"], "Echo: four", "{result}");
}

/// How long the gate waits for an answer. A large one is read in this time where much else is done, too.
const PATIENCE_MS: u64 = 12_000;
const TOO_SLOW: Duration = Duration::from_secs(16);

/// A server that answers calls as its mode says, and all else honestly.
struct Liar {
    address: String,
    mode: Arc<Mutex<&'static str>>,
}

impl Liar {
    fn start() -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address").to_string();
        let mode = Arc::new(Mutex::new("honest"));
        let shared = Arc::clone(&mode);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mode = Arc::clone(&shared);
                std::thread::spawn(move || drop(serve(stream, &mode)));
            }
        });
        Liar { address, mode }
    }

    fn become_(&self, mode: &'static str) {
        *self.mode.lock().expect("nobody panics with it") = mode;
    }
}

fn serve(stream: TcpStream, mode: &Mutex<&'static str>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mode = *mode.lock().expect("nobody panics with it");
        let answer = answer(&request, mode);
        stream.get_mut().write_all(&answer)?;
    }
}

fn answer(request: &Value, mode: &str) -> Vec<u8> {
    let Some(id) = request.get("id") else { return response("202 Accepted", "application/json", "") };
    let tool = json!({ "name": "t", "description": "A tool.", "inputSchema": { "type": "object" } });
    let result = match request.get("method").and_then(Value::as_str) {
        Some("initialize") => json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "liar", "version": "1" } }),
        Some("tools/list") if mode == "changed" => {
            json!({ "tools": [{ "name": "t", "description": "Another tool.",
            "inputSchema": { "type": "object" } }] })
        }
        Some("tools/list") => json!({ "tools": [tool] }),
        _ => return lie(id, mode),
    };
    let told = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    response("200 OK", "application/json", &told)
}

fn lie(id: &Value, mode: &str) -> Vec<u8> {
    let kind = "application/json";
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    let honest = json!({ "jsonrpc": "2.0", "id": id, "result": done }).to_string();
    match mode {
        "slow" => {
            std::thread::sleep(TOO_SLOW);
            response("200 OK", kind, &honest)
        }
        "huge" => response(
            "200 OK",
            kind,
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{}\"}}", "x".repeat(17 << 20)),
        ),
        "malformed" => response("200 OK", kind, "{\"jsonrpc\":"),
        "twice" => response(
            "200 OK",
            kind,
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{done},\"result\":{done}}}"),
        ),
        "other" => response("200 OK", kind, &honest.replace(&id.to_string(), "77")),
        "status" => response("500 Internal Server Error", kind, &honest),
        "elsewhere" => {
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
                .to_vec()
        }
        "nothing" => response("200 OK", "text/event-stream", ": nothing\n\n"),
        "stream" => {
            let notice = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
            response(
                "200 OK",
                "text/event-stream",
                &format!("data: {notice}\n\nevent: message\ndata: {honest}\n\n"),
            )
        }
        _ => response("200 OK", kind, &honest),
    }
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
    (head + body).into_bytes()
}

#[test]
fn a_server_over_http_that_is_slow_huge_malformed_or_lies_is_told_so_and_harms_nothing_else() {
    let liar = Liar::start();
    let url = format!("http://{}/mcp", liar.address);
    let Some(served) = Served::by(|_, _| json!({ "url": url, "timeout_ms": PATIENCE_MS })) else { return };
    pin(&served, "mcp_s_t");
    let honest = |when: &str| {
        let result = call(&served, "mcp_s_t", &json!({}));
        assert_eq!(result["content"], "done", "{when}: {result}");
    };
    honest("at first");
    liar.become_("stream");
    honest("as a stream of events");
    for (mode, codes) in [
        ("slow", &["timeout", "outcome_unknown"][..]),
        ("huge", &["outcome_unknown", "tool_failed"]),
        ("malformed", &["outcome_unknown"]),
        ("twice", &["outcome_unknown"]),
        ("other", &["outcome_unknown"]),
        ("status", &["tool_failed"]),
        ("elsewhere", &["tool_failed"]),
        ("nothing", &["outcome_unknown"]),
        ("changed", &["changed"]),
    ] {
        liar.become_(mode);
        let result = call(&served, "mcp_s_t", &json!({}));
        let code = result.pointer("/reason/code").and_then(Value::as_str).unwrap_or_default();
        assert!(codes.contains(&code), "{mode}: {result}");
        // However it ended: who held it, and what it has sent.
        let run = run_of(&served, &result);
        let sent =
            run.pointer("/bytes_per_host").and_then(Value::as_object).and_then(|all| all.values().next());
        assert!(sent.and_then(|bytes| bytes.get(0)?.as_u64()) > Some(0), "{mode}: {run}");
        assert_eq!(run["backend"], "native", "{mode}: {run}");
        assert!(run["enforced"].as_object().is_some_and(|walls| !walls.is_empty()), "{mode}: {run}");
        assert!(run["cpu_micros"].as_u64() > Some(0), "{mode}: {run}");
        assert!(!result["content"].as_str().unwrap_or_default().contains("done"), "{mode}: {result}");
        liar.become_("honest");
        let read = call(&served, "fs.read", &json!({ "path": "README.md" }));
        assert_eq!(read["status"], "completed", "{mode}: {read}");
    }
    honest("at last");
}
