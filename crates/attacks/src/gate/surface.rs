//! The surface of the gate on the network: where it listens, and what it makes of odd requests.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use server::{Guard, HttpOptions, Outside, serve_http};
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, OTHER, Response, TESTER, bearer, connect, listen, opened, send_to};
use crate::gate::stand::{Opening, Stand, runtime, standard};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "open-in-the-clear",
            "the gate does not listen where others can reach it without a certificate",
            |stand| listens(stand, true),
            |stand| listens(stand, false),
        )
        .before_any_call(),
        Case::new(
            "token-in-a-link",
            "a token that stands in an address is none",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.ask("GET", "/v1/approvals", &[&bearer(&door.operator)], "")?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let operator = door.operator.clone();
                let names =
                    ["token", "access_token", "bearer", "authorization", "key", "page", "code", "credential"];
                let mut tried = Vec::new();
                for name in names {
                    tried.push(door.ask("GET", &format!("/v1/approvals?{name}={operator}"), &[], "")?);
                    tried.push(door.ask(
                        "POST",
                        &format!("{}?{name}={operator}", door.decision_path()),
                        &[],
                        YES,
                    )?);
                }
                tried.push(door.ask("GET", "/v1/approvals", &[&format!("Cookie: token={operator}")], "")?);
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Headers]),
        Case::new(
            "path-confusion",
            "however a path is written, an agent reaches no operator's route",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.ask("GET", "/v1/calls", &[&bearer(TESTER)], "")?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let agent = bearer(TESTER);
                let mut tried = Vec::new();
                for path in [
                    "/v1/approvals",
                    "//v1/approvals",
                    "/v1//approvals",
                    "/v1/approvals/",
                    "/v1/calls/../approvals",
                    "/v1/calls/..%2fapprovals",
                    "/v1/calls/%2e%2e/approvals",
                    "/v1/approvals;x",
                    "/V1/APPROVALS",
                    "/v1/%61pprovals",
                    "/v1/approvals%00",
                    "/v1/approvals%2f",
                    "/assets/../v1/approvals",
                    "/v1\\\\approvals",
                    "/v1/approvals?x=/v1/calls",
                    "/./v1/approvals",
                ] {
                    tried.push(door.ask("GET", path, &[&agent], "")?);
                }
                // What follows `#` is no part of a path: whoever sends it has asked for their own calls.
                let own = door.ask("GET", "/v1/calls#/../approvals", &[&agent], "")?;
                if own.body != door.ask("GET", "/v1/calls", &[&agent], "")?.body {
                    return Ok(Effect::Through(own.body));
                }
                for method in ["PUT", "PATCH", "OPTIONS", "TRACE", "GET", "get"] {
                    let other = "X-HTTP-Method-Override: POST";
                    tried.push(door.ask(method, &door.decision_path(), &[&agent, other], YES)?);
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "header-injection",
            "nothing that a request says becomes a header of the answer",
            |_| {
                // A server that repeats where it was asked for.
                let address = careless(|path| {
                    let decoded = path.replace("%0d", "\r").replace("%0a", "\n").replace("%20", " ");
                    format!("HTTP/1.1 303 See Other\r\nLocation: /#{decoded}\r\nContent-Length: 0\r\n\r\n")
                })?;
                let answer = send_to(address, "GET", "/sign-in?code=x%0d%0aX-Evil:%20yes", "x", &[], "")?;
                Ok(Effect::through_if(is_planted(&answer), answer.head))
            },
            |stand| {
                let door = Door::open(stand)?;
                let operator = bearer(&door.operator);
                let asked = [
                    door.ask("GET", "/sign-in?code=x%0d%0aX-Evil:%20yes", &[], "")?,
                    door.ask("GET", "/v1/tools/x%0d%0aX-Evil:%20yes", &[&bearer(TESTER)], "")?,
                    door.ask("GET", "/v1/approvals?cursor=x%0d%0aX-Evil:%20yes", &[&operator], "")?,
                    door.ask("GET", "/openapi.json", &["If-None-Match: \"x%0d%0aX-Evil: yes\""], "")?,
                    door.ask("GET", "/v1/calls", &[&operator, "X-Toolgate-Agent: x%0d%0aX-Evil: yes"], "")?,
                ];
                if let Some(answer) = asked.iter().find(|answer| is_planted(answer)) {
                    return Ok(Effect::Through(answer.head.clone()));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "clickjacking",
            "no other page shows ours in a frame",
            |_| {
                let address =
                    careless(|_| "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nyes".to_owned())?;
                let page = send_to(address, "GET", "/", "x", &[], "")?;
                Ok(Effect::through_if(
                    !cannot_be_framed(&page.head),
                    "a page that says nothing can be framed",
                ))
            },
            |stand| {
                let door = Door::open(stand)?;
                for path in ["/", "/sign-in", "/assets/console.js", "/v1/approvals", "/nothing", "/healthz"] {
                    let answer = door.ask("GET", path, &[], "")?;
                    if !cannot_be_framed(&answer.head) {
                        return Ok(Effect::Through(format!("{path}: {}", answer.head)));
                    }
                }
                door.finish(Vec::new())
            },
        )
        .held_at_the_door(&[Guard::Frames]),
        Case::new(
            "oversized-body",
            "a body that is larger than it may be is not read, whatever it says of itself",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.ask("POST", "/v1/calls", &[&bearer(TESTER)], r#"{"tool":"fs.list"}"#)?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let head = format!(
                    "POST /v1/calls HTTP/1.1\r\nHost: {}\r\n{}\r\nContent-Type: application/json\r\n",
                    door.address,
                    bearer(TESTER)
                );
                let declared = send_all(&door, &format!("{head}Content-Length: 99999999999\r\n\r\n"), 0)?;
                let endless = send_all(&door, &format!("{head}Transfer-Encoding: chunked\r\n\r\n"), 40)?;
                for (answer, what) in [(declared, "declared"), (endless, "endless")] {
                    if !answer.starts_with("HTTP/1.1 413") {
                        return Ok(Effect::Through(format!(
                            "{what}: {}",
                            answer.lines().next().unwrap_or_default()
                        )));
                    }
                }
                door.finish(Vec::new())
            },
        )
        .held_at_the_door(&[Guard::Bodies]),
        Case::new(
            "anonymous-bodies",
            "whoever is not known sends little, what is parsed is bounded, and one agent's bodies leave room for others'",
            |stand| {
                let door = Door::open(stand)?;
                let long = format!(r#"{{"tool":"fs.list","purpose":"{}"}}"#, "x".repeat(1 << 20));
                Ok(opened(door.ask("POST", "/v1/calls", &[&bearer(TESTER)], &long)?))
            },
            |stand| {
                let door = Door::open(stand)?;
                for path in ["/v1/sign-in/password", "/v1/sign-in/passkey", "/v1/sign-in/passkey/challenge"] {
                    let head = format!(
                        "POST {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n\
                         Content-Length: 16384\r\n\r\n",
                        door.address.port()
                    );
                    let answer = send_all(&door, &head, 0)?;
                    if !answer.starts_with("HTTP/1.1 413") {
                        return Ok(Effect::Through(format!("{path}: {answer}")));
                    }
                }
                let many =
                    format!(r#"{{"tool":"shell","arguments":{{"args":[{}""]}}}}"#, r#""","#.repeat(300_000));
                let many = door.ask("POST", "/v1/calls", &[&bearer(TESTER)], &many)?;
                if many.status != 413 {
                    return Ok(Effect::Through(format!("300,000 values: {}", many.status)));
                }
                // Two that are sent, all but the last byte.
                let mut halves = Vec::new();
                for _ in 0..2 {
                    let mut stream = connect(door.address)?;
                    let length = contract::MAX_JSON_BYTES;
                    write!(
                        stream,
                        "POST /v1/calls HTTP/1.1\r\nHost: {}\r\n{}\r\nContent-Type: application/json\r\n\
                         Content-Length: {}\r\n\r\n{}",
                        door.address,
                        bearer(TESTER),
                        length,
                        " ".repeat(length - 1)
                    )?;
                    halves.push(stream);
                }
                thread::sleep(Duration::from_millis(500));
                let call = r#"{"tool":"fs.list"}"#;
                let own = door.ask("POST", "/v1/calls", &[&bearer(TESTER)], call)?;
                let other = door.ask("POST", "/v1/calls", &[&bearer(OTHER)], call)?;
                drop(halves);
                if (own.status, other.status) != (429, 200) {
                    return Ok(Effect::Through(format!("{} {}", own.status, other.status)));
                }
                door.finish(vec![own])
            },
        )
        .held_at_the_door(&[Guard::Bodies]),
        Case::new(
            "slow-requests",
            "requests that never end keep nobody from the page",
            |_| {
                let address = careless(|_| "HTTP/1.1 204 No Content\r\n\r\n".to_owned())?;
                if send_to(address, "GET", "/", "x", &[], "")?.status != 204 {
                    return Err("it does not answer".into());
                }
                let mut slow = connect(address)?;
                slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")?;
                let mut late = connect(address)?;
                late.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
                late.set_read_timeout(Some(Duration::from_millis(500)))?;
                let kept_out = late.read(&mut [0; 1]).is_err();
                drop(slow);
                Ok(Effect::through_if(kept_out, "a server that waits for each to end answers nobody else"))
            },
            |stand| {
                let door = Door::open(stand)?;
                let half_head = format!("GET / HTTP/1.1\r\nHost: {}\r\nX-Slow: ", door.address);
                let half_body = format!(
                    "POST /v1/sign-in/password HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
                     Content-Length: 1000\r\n\r\n{{\"operator\":",
                    door.address
                );
                let mut slow = Vec::new();
                for half in [&half_head, &half_body].into_iter().cycle().take(500) {
                    let mut stream = connect(door.address)?;
                    stream.write_all(half.as_bytes())?;
                    slow.push(stream);
                }
                let page = door.ask("GET", "/", &[], "")?;
                let asked = door.ask("GET", "/v1/approvals", &[&bearer(&door.operator)], "")?;
                drop(slow);
                if (page.status, asked.status) != (200, 200) {
                    return Ok(Effect::Through(format!("{} {}", page.status, asked.status)));
                }
                door.finish(Vec::new())
            },
        ),
    ]
}

const YES: &str = r#"{"verdict":"approve"}"#;

/// A server that takes one request after the other, waits for the end of each, and answers by its path.
fn careless(answer: fn(&str) -> String) -> Try<SocketAddr> {
    let listener = listen()?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut head, mut bytes) = (Vec::new(), [0; 1024]);
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(read) if read > 0 => head.extend_from_slice(bytes.get(..read).unwrap_or_default()),
                    _ => break,
                }
            }
            let head = String::from_utf8_lossy(&head);
            let _ = stream.write_all(answer(head.split(' ').nth(1).unwrap_or_default()).as_bytes());
        }
    });
    Ok(address)
}

/// Whether what the request said is a header of the answer.
fn is_planted(answer: &Response) -> bool {
    answer.head.to_lowercase().contains("\nx-evil")
}

fn cannot_be_framed(head: &str) -> bool {
    let head = head.to_lowercase();
    head.contains("frame-ancestors 'none'") && head.contains("x-frame-options: deny")
}

/// Sends a head and then so many chunks of a megabyte, as far as they are taken; what is answered.
fn send_all(door: &Door<'_>, head: &str, chunks: usize) -> Try<String> {
    let mut stream = connect(door.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_write_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(head.as_bytes())?;
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
    for _ in 0..chunks {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let mut answer = vec![0; 64];
    let read = stream.read(&mut answer).unwrap_or_default();
    answer.truncate(read);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether the gate starts on every address of the machine, without a certificate.
fn listens(stand: &Stand<'_>, dangerously: bool) -> Try<Effect> {
    let gate = stand.open(Opening::with(standard()))?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let outside =
        Outside { tls: None, names: vec!["gate.example".to_owned()], dangerously_without_tls: dangerously };
    let options = HttpOptions {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        outside,
        operator_credential: gate.operator()?,
        agent_tokens: Arc::new(std::collections::HashMap::new()),
        access_tokens: None,
        elsewhere: Arc::new(server::NobodyElsewhere),
        home: None,
        limits: server::Limits::default(),
        shutdown,
    };
    let served = runtime()?.block_on(serve_http(gate.engine.clone(), options, move |_| stop.cancel()));
    Ok(Effect::through_if(served.is_ok(), "it listens"))
}
