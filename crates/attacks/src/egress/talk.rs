//! Granted places that are told something else than they are granted for.

use egress::Guard;

use super::trip::Trip;
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::Stand;

/// Speaks TLS to a host, under another name or none, or hides one.
const TLS: &str = r#"
import socket, ssl, sys
how, host, name, token = sys.argv[1:5]
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
raw = socket.create_connection((host, 443), timeout=5)
try:
    if how == "hidden":
        back, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        hello = context.wrap_bio(back, out, server_hostname=name)
        try: hello.do_handshake()
        except ssl.SSLWantReadError: pass
        record = bytearray(out.read())
        extension = b"\xfe\x0d\x00\x0b" + b"\0\0\1\0\1\0\0\0\0\1\0"
        at = 5 + 4 + 2 + 32; at += 1 + record[at]
        at += 2 + int.from_bytes(record[at:at + 2], "big"); at += 1 + record[at]
        def grow(where, size):
            record[where:where + size] = (int.from_bytes(record[where:where + size], "big") + len(extension)).to_bytes(size, "big")
        grow(at, 2); grow(6, 3); grow(3, 2); record += extension
        raw.sendall(record); print("said", raw.recv(100)[:1].hex())
    else:
        stream = context.wrap_socket(raw, server_hostname=name if how == "named" else None)
        stream.sendall(f"GET /{token} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()); print("said", stream.recv(100))
except OSError as error: print("said", error)
"#;

/// Sends bytes to a port of a host, with the token in them.
const SEND: &str = r#"
import socket, sys
host, port, token = sys.argv[1], int(sys.argv[2]), sys.argv[3]
stream = socket.create_connection((host, port), timeout=5)
for part in sys.argv[4:]:
    try:
        stream.sendall(part.replace("TOKEN", token).encode().decode("unicode_escape").encode("latin-1"))
        print("said", stream.recv(4000))
    except OSError as error: print("said", error)
print("tried")
"#;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "other-sni",
            "a granted address is not asked for another name",
            |stand| tls_bare(stand, "named", "other.test"),
            |stand| tls(stand, "named", "other.test", "other_server_name"),
        )
        .held_by(Guard::ServerNames),
        Case::new(
            "no-sni",
            "a granted address is not asked for no name at all",
            |stand| tls_bare(stand, "nameless", "other.test"),
            |stand| tls(stand, "nameless", "other.test", "no_server_name"),
        )
        .held_by(Guard::ServerNames),
        Case::new(
            "hidden-sni",
            "a name that is hidden is not passed on",
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(TLS)?;
                let said =
                    trip.bare("python3", &[script, "hidden", "example.test", "example.test", "TOKEN"])?;
                // 22: the server goes on with the handshake.
                Ok(Effect::through_if(said.contains("said 16"), said))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(TLS)?;
                let words = [script, "hidden", "example.test", "example.test", "TOKEN"];
                let tried = trip.guarded(&["example.test:443"], "python3", &words)?;
                let tried = tried.refused("example.test:443", "hidden_server_name")?;
                Ok(Effect::through_if(tried.result.content.contains("said 16"), tried.result.content))
            },
        )
        .held_by(Guard::ServerNames),
        Case::new(
            "other-host",
            "a request for another host is not passed on, first or later, whichever way it names it",
            |stand| send_bare(stand, OTHER_HOST),
            |stand| send(stand, OTHER_HOST, "other_host"),
        )
        .held_by(Guard::Hosts),
        Case::new(
            "host-on-a-kept-connection",
            "the second request of a connection is checked like the first",
            |stand| send_bare(stand, KEPT),
            |stand| send(stand, KEPT, "other_host"),
        )
        .held_by(Guard::Hosts),
        Case::new(
            "absolute-form",
            "a whole address in the first line is the host that is asked for",
            |stand| send_bare(stand, ABSOLUTE),
            |stand| send(stand, ABSOLUTE, "other_host"),
        )
        .held_by(Guard::Hosts),
        Case::new(
            "smuggled-request",
            "a request that hides another in its body is not passed on",
            |stand| send_bare(stand, SMUGGLED),
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(SEND)?;
                let words = [&[script, "example.test", "80", "TOKEN"], SMUGGLED].concat();
                trip.guarded(&["example.test:80"], "python3", &words)?.says("tried")?;
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new("connect-relay", "the proxy connects to granted places only", bare_curl, |stand| {
            let trip = Trip::begin(stand)?;
            let script = trip.script(SEND)?;
            let connect = r"CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n";
            let words = [&[script, "localhost", "3128", "TOKEN", connect], OTHER_HOST].concat();
            let tried = trip.guarded(&["example.test:80"], "python3", &words)?.says("tried")?;
            tried.refused("other.test:80", "host_not_granted")?;
            Ok(trip.judged(|_| true))
        })
        .held_by(Guard::Places),
        Case::new("socks-nul", "a name with a NUL in it is no name", bare_curl, |stand| {
            let trip = Trip::begin(stand)?;
            let script = trip.script(SEND)?;
            let name = r"\x05\x01\x00\x03\x18other.test\x00.example.test\x01\xbb";
            let words = [script, "localhost", "1080", "TOKEN", r"\x05\x01\x00", name, "GET /TOKEN"];
            let tried = trip.guarded(&["example.test:443"], "python3", &words)?.says("tried")?;
            let refused = |attempt: &contract::Attempt| {
                attempt.way == "socks" && attempt.refused.as_deref() == Some("bad_name")
            };
            if !tried.facts.attempts.iter().any(refused) {
                return Err(format!("no refusal: {:?}", tried.facts.attempts).into());
            }
            Ok(trip.judged(|_| true))
        }),
    ]
}

const OTHER_HOST: &[&str] = &[r"GET /TOKEN HTTP/1.1\r\nHost: other.test\r\n\r\n"];
const KEPT: &[&str] =
    &[r"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n", r"GET /TOKEN HTTP/1.1\r\nHost: other.test\r\n\r\n"];
const ABSOLUTE: &[&str] = &[r"GET http://other.test/TOKEN HTTP/1.1\r\nHost: example.test\r\n\r\n"];
const SMUGGLED: &[&str] = &[
    r"POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGGET /TOKEN HTTP/1.1\r\nHost: other.test\r\n\r\n",
];

fn tls_bare(stand: &Stand<'_>, how: &str, name: &str) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let script = trip.script(TLS)?;
    trip.bare("python3", &[script, how, "example.test", name, "TOKEN"])?;
    Ok(trip.judged(|_| true))
}

fn tls(stand: &Stand<'_>, how: &str, name: &str, code: &str) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let script = trip.script(TLS)?;
    let words = [script, how, "example.test", name, "TOKEN"];
    trip.guarded(&["example.test:443"], "python3", &words)?
        .says("said")?
        .refused("example.test:443", code)?;
    Ok(trip.judged(|_| true))
}

fn send_bare(stand: &Stand<'_>, parts: &[&str]) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let script = trip.script(SEND)?;
    trip.bare("python3", &[&[script, "example.test", "80", "TOKEN"], parts].concat())?;
    Ok(trip.judged(|_| true))
}

fn send(stand: &Stand<'_>, parts: &[&str], code: &str) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let script = trip.script(SEND)?;
    let words = [&[script, "example.test", "80", "TOKEN"], parts].concat();
    let tried = trip.guarded(&["example.test:80"], "python3", &words)?.says("tried")?;
    tried.refused("example.test:80", code)?;
    Ok(trip.judged(|_| true))
}

fn bare_curl(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    trip.bare("curl", &["-sSk", "https://other.test/TOKEN"])?;
    Ok(trip.judged(|_| true))
}
