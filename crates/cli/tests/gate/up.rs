//! `toolgate up`: links for its owner, and what is said when the port is taken.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::place::{CLEAN, Place, Up};
use crate::toolgate::{finish, has, missing, start};

#[test]
fn a_running_gate_gives_its_owner_a_new_link() {
    let Some(place) = Place::new() else { return };
    let up = Up::start(&place);
    let address = up.url().replace("http://", "");
    let asked = place.toolgate(&["up", "--link", "--listen", &address]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.stdout.starts_with(&format!("{}/sign-in?code=", up.url())), "{asked:?}");
    assert_ne!(asked.stdout.trim_end(), up.sign_in);
    let (_, asked) = place.json(&["up", "--link", "--listen", &address]);
    assert_eq!(asked["address"], address);
}

#[test]
fn where_no_gate_runs_there_is_no_link() {
    let Some(place) = Place::new() else { return };
    let asked = place.toolgate(&["up", "--link", "--listen", "127.0.0.1:9"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.stderr.starts_with("error: no gate of yours listens on `127.0.0.1:9`"), "{asked:?}");
}

#[test]
fn a_port_that_is_taken_is_said_to_be_whose() {
    let Some(place) = Place::new() else { return };
    let up = Up::start(&place);
    let address = up.url().replace("http://", "");
    let second = place.toolgate(&["up", "--listen", &address]);
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("hint: a gate of yours runs there: `toolgate up --link"), "{second:?}");

    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let second = place.toolgate(&["up", "--listen", &address]);
    assert_eq!(second.code, Some(2), "{second:?}");
    let holder =
        format!("(process {}) has the port; --listen 127.0.0.1:0 takes any free port", std::process::id());
    assert!(second.stderr.contains(&holder), "{second:?}");
}

#[test]
fn what_it_prints_can_be_typed_whatever_the_search_path_is() {
    let Some(place) = Place::new() else { return };
    let mut command = place.command(&["demo"]);
    let ran = crate::toolgate::finish(crate::toolgate::start(&mut command));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let own = crate::toolgate::binary();
    assert!(ran.stdout.contains(&format!("claude mcp add toolgate -- {} mcp", own.display())), "{ran:?}");
}

/// Begins a call of an agent and does not wait for its answer.
fn begin(up: &Up, token: &str, body: &str) -> TcpStream {
    let address = up.url().replace("http://", "");
    let mut stream = TcpStream::connect(&address).expect("it listens");
    let length = body.len();
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

#[test]
fn a_gate_that_is_told_to_end_answers_what_runs_lets_nobody_in_and_ends_well() {
    let Some(place) = Place::new() else { return };
    let token = place.toolgate(&["agents", "token", "default"]).stdout.trim().to_owned();
    let mut up = Up::start(&place);
    let sleeps = r#"{"tool":"shell","arguments":{"command":"sleep","args":["3"]}}"#;
    let asks = format!(r#"{{"tool":"shell","arguments":{CLEAN},"wait_seconds":60}}"#);
    let running = begin(&up, &token, sleeps);
    let waiting = begin(&up, &token, &asks);
    let calls = || place.json(&["calls"]).1.to_string();
    let began = Instant::now();
    while !(calls().contains("running") && calls().contains("waiting")) {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", calls());
    }
    let began = Instant::now();
    up.terminate();
    // What waits for people goes on doing so without this process.
    assert!(answer(waiting).contains(r#""status":"waiting""#));
    let address = up.url().replace("http://", "");
    let refused = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(&address).is_err()
    });
    assert!(refused, "somebody new is let in");
    let told = answer(running);
    assert!(told.starts_with("HTTP/1.1 200") && told.contains(r#""status":"completed""#), "{told}");
    assert_eq!(up.wait(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn a_call_that_does_not_end_does_not_keep_a_gate_from_ending() {
    let Some(place) = Place::new() else { return };
    let token = place.toolgate(&["agents", "token", "default"]).stdout.trim().to_owned();
    let mut up = Up::start(&place);
    let running = begin(&up, &token, r#"{"tool":"shell","arguments":{"command":"sleep","args":["29"]}}"#);
    let calls = || place.json(&["calls"]).1.to_string();
    let began = Instant::now();
    while !calls().contains("running") {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", calls());
    }
    let began = Instant::now();
    up.terminate();
    let told = answer(running);
    assert!(told.contains(r#""status":"cancelled""#), "{told}");
    assert_eq!(up.wait(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
}

#[test]
fn a_certificate_of_the_configuration_is_what_the_gate_is_known_by() {
    let Some(place) = Place::new() else { return };
    if !has("curl") {
        return missing("curl", "there is no curl");
    }
    let made =
        rcgen::generate_simple_self_signed(["gate.example".to_owned()]).expect("a certificate is made");
    let (certificate, key) = (place.home().join("gate.pem"), place.home().join("gate.key"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file can be written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file can be written");
    // Relative paths begin at the file.
    let settings = "tls: { certificate: gate.pem, key: gate.key, names: [gate.example] }\n";
    std::fs::write(place.home().join("toolgate.yaml"), settings).expect("settings can be written");
    let up = Up::start(&place);
    let port = up.url().rsplit_once(':').expect("it has a port").1.to_owned();
    assert_eq!(up.url(), format!("https://gate.example:{port}"));
    let ask = |url: &str| {
        let mut command = std::process::Command::new("curl");
        command.args(["-s", "-w", "%{http_code}", "--cacert"]).arg(&certificate);
        command.args(["--resolve", &format!("gate.example:{port}:127.0.0.1"), url]);
        place.settle(&mut command);
        finish(start(&mut command)).stdout
    };
    let told = ask(&format!("https://gate.example:{port}/healthz"));
    assert!(told.ends_with("200"), "{told}");
    assert_eq!(ask(&format!("http://gate.example:{port}/healthz")), "000", "nothing is said in the clear");
    // Words of the command line come before it.
    drop(up);
    let refused =
        place.toolgate(&["up", "--listen", "127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", "none.key"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("none.pem"), "{refused:?}");
}
