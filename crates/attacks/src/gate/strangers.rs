//! Servers of others that would fill the gate: with processes, with names, and with answers that were given before.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, TESTER};
use crate::gate::mcp_client::{Client, NEWEST, message_in};
use crate::gate::stand::{Ending, Gate, Stand, runtime};
use crate::gate::upstreams::{
    NAME, bare, call, call_pinned, ledger_counts, notes, open, opening_of, pin, refresh,
};

pub(crate) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "server-that-forks",
            "a server has so many processes and no more, others are served meanwhile, and all of them end with it",
            |stand| {
                let said = bare(stand, "forks", "600 3")?;
                Ok(Effect::through_if(said.contains("started 600"), said))
            },
            |stand| {
                let gate = open(stand, "forks")?;
                // Long enough to be found, and of a length that nobody else sleeps.
                let length = format!("61.{:06}", std::process::id() % 1_000_000);
                let said = call_pinned(&gate, &format!("5000 {length}"), Ending::Done)?;
                let started = said.content.strip_prefix("started ").and_then(|text| text.parse::<u32>().ok());
                let started = started.ok_or(said.content)?;
                gate.call("fs.list", json!({ "path": "." }), Ending::Done)?;
                gate.call("shell", json!({ "command": "true" }), Ending::Done)?;
                for upstream in gate.engine.upstreams() {
                    runtime()?.block_on(async { upstream.end() });
                }
                let left = left_after(&length, Duration::from_secs(10))?;
                let what = format!("{started} were started, and {left} are left");
                Ok(Effect::through_if(started == 0 || started > 512 || left > 0, what))
            },
        ),
        Case::new(
            "endless-names",
            "of a server that has other names each time so many are taken, and the ledger tells once that no more are",
            |stand| {
                let gate = open(stand, "fresh")?;
                let before = listed_names(&gate)?;
                name_anew(stand, &gate, 1)?;
                Ok(Effect::through_if(listed_names(&gate)? != before, "each list has other names"))
            },
            |stand| {
                let gate = open(stand, "fresh")?;
                name_anew(stand, &gate, 3)?;
                let rows = runtime()?.block_on(gate.engine.store().tools_from(&source()?, usize::MAX))?;
                let told = ledger_counts(&gate, "\"tool.refused\"")?;
                if !listed_names(&gate)?.iter().any(|name| name == "mcp_s_echo") {
                    return Err("what was known before is gone".into());
                }
                let took_all = rows.len() > store::MOST_NAMES;
                Ok(Effect::through_if(
                    took_all || told != 1,
                    format!("{} names, told {told} times", rows.len()),
                ))
            },
        ),
        Case::new(
            "sentence-as-a-name",
            "names and values of a schema that are sentences are shown to no model, and are told to people",
            |stand| {
                let text = bare(stand, "sentences", "")?;
                Ok(Effect::through_if(text.contains("put_it_here"), "the server says so"))
            },
            |stand| {
                let gate = open(stand, "sentences")?;
                let names = listed_names(&gate)?;
                let told = ledger_counts(&gate, "speaks to its reader")?;
                Ok(Effect::through_if(
                    names != ["mcp_s_echo"] || told != 5,
                    format!("{names:?}, {told} told"),
                ))
            },
        ),
        Case::new(
            "answer-from-a-cache",
            "what was asked twice is done twice: no answer of a tool is given for another call",
            |stand| {
                // A gateway that remembers answers by what was asked.
                let mut answers = std::collections::HashMap::new();
                let asked = json!({ "name": "append", "arguments": { "text": "x" } }).to_string();
                let ask = || -> Try<usize> {
                    let written = fs::read_to_string(notes(stand)?)?.len();
                    fs::write(notes(stand)?, "x".repeat(written + 1))?;
                    Ok(written + 1)
                };
                for _ in 0..2 {
                    if !answers.contains_key(&asked) {
                        answers.insert(asked.clone(), ask()?);
                    }
                }
                let written = fs::read_to_string(notes(stand)?)?;
                Ok(Effect::through_if(written == "x", "the second is answered, and never done"))
            },
            |stand| {
                let (mut opening, upstream) = opening_of(stand, "counts", |_| {}, None)?;
                opening.settings.asking.wait_for = 0;
                let door = Door::open_with(opening, stand)?;
                runtime()?.block_on(door.gate.engine.set_upstreams(vec![upstream]))?;
                refresh(&door.gate)?;
                pin(&door.gate, "mcp_s_echo")?;
                let mut said = Vec::new();
                for _ in 0..2 {
                    said.push(call(&door.gate, "x", Ending::Done)?.content);
                    let client = Client::new(&door, TESTER, NEWEST);
                    let answer = message_in(&client.call("mcp_s_echo", &json!({ "text": "x" }))?)?;
                    let text = answer.pointer("/result/content/0/text").and_then(Value::as_str);
                    said.push(text.unwrap_or_default().to_owned());
                    client.call("fs_append", &json!({ "path": "log", "content": "x" }))?;
                }
                let log = fs::read_to_string(stand.workspace.join("log"))?;
                if said != ["1", "2", "3", "4"] || log != "xx" {
                    return Ok(Effect::Through(format!("{said:?} {log}")));
                }
                door.finish(Vec::new())
            },
        ),
    ];
    cases.into_iter().map(|case| case.needs(Need::Program("python3"))).collect()
}

/// How many processes are left that sleep for so long, once they have had time to end.
fn left_after(length: &str, patience: Duration) -> Try<usize> {
    let started = Instant::now();
    loop {
        let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let sleeps = |line: Vec<u8>| String::from_utf8_lossy(&line).split('\0').any(|word| word == length);
        let left =
            fs::read_dir("/proc")?.filter_map(Result::ok).map(of).filter(|line| sleeps(line.clone())).count();
        if left == 0 || started.elapsed() > patience {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Where the tools of the server come from.
fn source() -> Try<contract::SourceName> {
    tools::mcp::source_of(NAME).ok_or_else(|| "the server has no name".into())
}

fn listed_names(gate: &Gate<'_>) -> Try<Vec<String>> {
    Ok(gate.engine.tools_of_source(&source()?).iter().map(ToString::to_string).collect())
}

/// Has the server call its tools otherwise, so many times.
fn name_anew(stand: &Stand<'_>, gate: &Gate<'_>, times: usize) -> Try<()> {
    for number in 1..=times {
        fs::write(notes(stand)?, number.to_string())?;
        refresh(gate)?;
    }
    Ok(())
}
