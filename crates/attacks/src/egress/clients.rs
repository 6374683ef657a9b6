//! Programs that people use, each as it comes: they reach a granted host with nothing to be configured and the host's
//! certificate checked, and no other.

use std::fs;

use super::trip::{Trip, granting, settings};
use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::Stand;
use contract::Private;

/// How each program is told of the world's certificates where no gate does it.
const TRUST: [&str; 7] = [
    "CARGO_HTTP_CAINFO",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
];

const URLLIB: &str =
    "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[1], timeout=8).read())";
const REQUESTS: &str = "import sys, requests\nprint(requests.get(sys.argv[1], timeout=8).text)";
const AIOHTTP: &str = r#"
import asyncio, sys, aiohttp
async def get():
    async with aiohttp.ClientSession() as session:
        async with session.get(sys.argv[1]) as answer: print(await answer.text())
asyncio.run(asyncio.wait_for(get(), 8))
"#;
const FETCH: &str = "fetch(process.argv[1]).then(a => a.text()).then(console.log, e => { console.error(e.cause || e); process.exit(1) })";

pub(super) fn cases() -> Vec<Case> {
    vec![
        client(
            "curl",
            CURL_PROMISE,
            |stand| reach(stand, "curl", &["-sS", "--max-time", "8"]),
            |stand| bare(stand, "curl", &["-sS", "--max-time", "8"]),
        ),
        client(
            "wget",
            WGET_PROMISE,
            |stand| reach(stand, "wget", WGET),
            |stand| bare(stand, "wget", &[WGET, &["--ca-certificate=ca.crt"]].concat()),
        ),
        client(
            "python-urllib",
            "Python's urllib reaches the granted host and no other",
            |stand| reach(stand, "/usr/bin/python3", &["-c", URLLIB]),
            |stand| bare(stand, "/usr/bin/python3", &["-c", URLLIB]),
        ),
        client(
            "python-requests",
            "Python's requests reach the granted host and no other",
            |stand| reach(stand, "/usr/bin/python3", &["-c", REQUESTS]),
            |stand| bare(stand, "/usr/bin/python3", &["-c", REQUESTS]),
        ),
        client(
            "python-aiohttp",
            "Python's aiohttp reaches the granted host and no other",
            |stand| reach(stand, "/usr/bin/python3", &["-c", AIOHTTP]),
            |stand| bare(stand, "/usr/bin/python3", &["-c", AIOHTTP]),
        ),
        client(
            "node-fetch",
            "Node's fetch reaches the granted host and no other",
            |stand| reach(stand, "node", &["-e", FETCH, "--"]),
            |stand| bare(stand, "node", &["-e", FETCH, "--"]),
        )
        .needs(Need::Program("node")),
        client(
            "git",
            "git reaches the granted host and no other",
            |stand| reach(stand, "git", &["ls-remote"]),
            |stand| bare(stand, "git", &["ls-remote"]),
        )
        .needs(Need::Program("git")),
        client(
            "pip",
            "pip reaches the granted host and no other",
            |stand| reach(stand, "/usr/bin/python3", PIP),
            |stand| bare(stand, "/usr/bin/python3", PIP),
        ),
        client(
            "cargo",
            "cargo reaches the granted host and no other",
            |stand| copied(stand).and_then(|()| reach(stand, "sh", &["-c", SEARCH])),
            |stand| copied(stand).and_then(|()| bare(stand, "sh", &["-c", SEARCH])),
        )
        .needs(Need::File(CARGO)),
    ]
}

const CURL_PROMISE: &str = "curl reaches the granted host and no other";
const WGET_PROMISE: &str = "wget reaches the granted host and no other";
const WGET: &[&str] = &["-q", "-O", "-", "--tries=1", "--timeout=8"];
const PIP: &[&str] =
    &["-m", "pip", "download", "--no-deps", "--retries", "0", "--timeout", "8", "nothing", "--index-url"];

/// The one that has built this. It belongs to whoever builds, so a copy is used.
const CARGO: &str = env!("CARGO");
const SEARCH: &str =
    r#"CARGO_HOME=$PWD/home CARGO_NET_RETRY=0 exec ./cargo search anything --index "sparse+$0/""#;

fn copied(stand: &Stand<'_>) -> Try<()> {
    fs::copy(CARGO, stand.workspace.join("cargo"))?;
    Ok(())
}

fn client(
    id: &'static str,
    promise: &'static str,
    attack: crate::gate::case::Attempt,
    control: crate::gate::case::Attempt,
) -> Case {
    Case::new(id, promise, control, attack)
}

/// Without a gate it reaches the other host, too.
fn bare(stand: &Stand<'_>, program: &str, words: &[&str]) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let authority = stand.workspace.join("ca.crt").display().to_string();
    let trust: Vec<String> = TRUST.iter().map(|name| format!("{name}={authority}")).collect();
    let mut words: Vec<&str> =
        trust.iter().map(String::as_str).chain([program]).chain(words.iter().copied()).collect();
    words.push("https://other.test/TOKEN");
    trip.bare("env", &words)?;
    Ok(trip.judged(|visit| visit.sni.as_deref() == Some("other.test")))
}

/// Through if it reaches anybody but the host that was granted. Reaching that one is a part of it.
fn reach(stand: &Stand<'_>, program: &str, words: &[&str]) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let gate = stand.gate(settings(granting(&["example.test:443"], Private::none())?))?;
    // In a script, because a place that the call names would be granted with it.
    let line = |host: &str| {
        let quoted: Vec<String> = [program].iter().chain(words).map(|word| quoted(word)).collect();
        format!("{} https://{host}/{}", quoted.join(" "), trip.token)
    };
    for host in ["other.test", "example.test"] {
        stand.put("client.sh", &line(host))?;
        trip.call(&gate, "sh", &["client.sh"])?;
    }
    let granted = |visit: &crate::world::Visit| visit.sni.as_deref() == Some("example.test");
    if !trip.reached().iter().any(granted) {
        return Err(format!("it does not reach the granted host: {:?}", trip.reached()).into());
    }
    Ok(trip.judged(|visit| !granted(visit)))
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
