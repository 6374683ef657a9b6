//! Words that leave by way of names.

use contract::Private;

use super::trip::{Trip, granting, settings};
use crate::gate::case::Case;

/// Asks for names that hold the token, of whoever might answer.
const LOOK_UP: &str = r#"
import socket, struct, sys
token = sys.argv[1]
names = [token + end for end in sys.argv[2:]] + [".".join([token[:8], token, "x" * 60]) + end for end in sys.argv[2:]]
def question(name):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    return struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 16, 1)
for name in names:
    try: print("found", socket.getaddrinfo(name, 443))
    except OSError as error: print("not found", error)
    for server in ("127.0.0.1", "9.9.9.9", "8.8.8.8"):
        try:
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.settimeout(1)
            udp.connect((server, 53)); udp.send(question(name)); print("answered", server, len(udp.recv(4096)))
        except OSError as error: print("no answer", server, error)
        try:
            tcp = socket.create_connection((server, 53), timeout=1); asked = question(name)
            tcp.sendall(struct.pack(">H", len(asked)) + asked); print("answered", server, len(tcp.recv(4096)))
        except OSError as error: print("no answer", server, error)
print("tried")
"#;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "name-as-a-letter",
            "a name that nobody was granted is asked of nobody, under a granted name or beside it",
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(LOOK_UP)?;
                trip.bare("python3", &[script, "TOKEN", ".other.test"])?;
                Ok(trip.asked())
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(LOOK_UP)?;
                let asked = [script, "TOKEN", ".other.test", ".example.test", ".test", ""];
                trip.guarded(&["example.test:443"], "python3", &asked)?.says("tried")?;
                Ok(trip.asked())
            },
        ),
        Case::new(
            "name-under-a-pattern",
            "a name under a granted pattern is asked of nobody until somebody connects, and not without end",
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(LOOK_UP)?;
                trip.bare("python3", &[script, "TOKEN", ".wild.test"])?;
                Ok(trip.asked())
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(LOOK_UP)?;
                let gate = stand.gate(settings(granting(&["*.wild.test:443"], Private::none())?))?;
                trip.call(&gate, "python3", &[script, "TOKEN", ".wild.test"])?.says("tried")?;
                let count = "import socket\nfor n in range(200):\n  try: socket.getaddrinfo(f'n{n}.wild.test', 443)\n  except OSError: pass\nprint('tried')";
                let tried = trip.call(&gate, "python3", &["-c", count])?.says("tried")?;
                let refused =
                    |attempt: &contract::Attempt| attempt.refused.as_deref() == Some("too_many_names");
                if !tried.facts.attempts.iter().any(refused) {
                    return Err(format!("200 names were given: {:?}", tried.facts.attempts).into());
                }
                Ok(trip.asked())
            },
        ),
    ]
}
