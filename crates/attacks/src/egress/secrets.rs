//! Secrets that are added on the way out, and that no sandbox may have.

use std::fs;
use std::path::Path;

use contract::{Private, Reach};
use egress::Guard;
use policy::{Credential, CredentialForm, EgressSettings, SecretSource};
use serde_json::json;

use super::trip::{Trip, granting, settings};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand};
use crate::place::token;
use crate::world::Visit;

/// How a secret begins that is looked for. It is followed by digits and letters, here it is not.
const MARK: &str = "tgsecret-";

/// Sends a request, and looks for a secret wherever it can look: variables, memory, files.
const LOOK: &str = r#"
import os, re, sys, urllib.request
found = re.compile(b"tgsecret" + b"-[0-9A-Za-z-]{8,}")
try: print(urllib.request.urlopen(sys.argv[1], timeout=8).read())
except Exception as error: print("no answer", error)
def look(where, data):
    if found.search(data): print("FOUND", where)
for process in os.listdir("/proc"):
    if process.isdigit():
        for name in ("environ", "cmdline"):
            try: look(f"{process} {name}", open(f"/proc/{process}/{name}", "rb").read())
            except OSError: pass
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        span, access = line.split()[:2]; first, last = (int(text, 16) for text in span.split("-"))
        if "r" in access and last - first < 1 << 28:
            try: memory.seek(first); look("memory", memory.read(last - first))
            except (OSError, ValueError, OverflowError): pass
for top in ("/tmp", "/home", "/etc", "/run", "/dev/shm", "/var", os.getcwd()):
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            # A named pipe would be waited at for ever.
            try: os.path.isfile(path) and look(path, open(path, "rb").read(1 << 22))
            except OSError: pass
print("looked")
"#;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "secret-inside",
            "a credential is added on the way out, and is in no sandbox, record or result",
            |stand| {
                let trip = Trip::begin(stand)?;
                let script = trip.script(LOOK)?;
                let secret = format!("{MARK}{}", trip.token);
                let said = trip.bare(
                    "env",
                    &[&format!("KEY={secret}"), "python3", script, "http://example.test/TOKEN"],
                )?;
                Ok(Effect::through_if(said.contains("FOUND"), said))
            },
            look_for_secret,
        )
        .held_by(Guard::Masks),
    ]
}

fn look_for_secret(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let secret = format!("{MARK}{}", token());
    let file = stand.place.file("credential", &secret)?;
    let credential = Credential {
        to: Reach::parse("example.test:443").map_err(|error| error.to_string())?,
        form: CredentialForm::Bearer,
        from: SecretSource::File(file),
    };
    let egress =
        EgressSettings { credentials: vec![credential], ..granting(&["example.test:443"], Private::none())? };
    let script = trip.script(LOOK)?;
    let gate = stand.gate(settings(egress))?;
    let url = "https://example.test/echo/TOKEN";
    let looked = trip.call(&gate, "/usr/bin/python3", &[script, url])?.says("looked")?;
    let asked = json!({ "method": "GET", "url": url.replace("TOKEN", &trip.token) });
    gate.call("http.request", asked, Ending::Done)?;
    let got: Vec<Visit> = trip.reached().into_iter().filter(|visit| visit.says(&secret)).collect();
    if got.len() < 2 {
        return Err(format!(
            "the host was not given its credential: {:?} {}",
            trip.reached(),
            looked.result.content
        )
        .into());
    }
    if looked.result.content.contains("FOUND") {
        return Ok(Effect::Through(looked.result.content));
    }
    kept(stand, &secret)
}

/// Through if a file of the gate's home or of the workspace holds a secret.
pub(super) fn kept(stand: &Stand<'_>, secret: &str) -> Try<Effect> {
    let mut holding = Vec::new();
    for folder in [stand.home(), stand.workspace.clone()] {
        find_in(&folder, secret.as_bytes(), &mut holding)?;
    }
    Ok(Effect::through_if(!holding.is_empty(), format!("{holding:?}")))
}

/// Files beneath a folder that hold a text.
pub(super) fn find_in(folder: &Path, text: &[u8], holding: &mut Vec<String>) -> Try<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_in(&path, text, holding)?;
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text)) {
            holding.push(path.display().to_string());
        }
    }
    Ok(())
}
