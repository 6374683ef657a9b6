//! What must not get out, and records that must not be bent.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contract::{AgentName, Autonomy, CallResult, Digest, ReceiptBody, TaskName};
use policy::{Agent, Settings};
use sandbox::Host;
use serde_json::{Value, json};
use store::{verify_export, verify_receipt};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, settings_of, standard, trusted};
use crate::launch::command_of;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "inherited-environment",
            "a command has none of the gate's variables",
            |stand| {
                let output = command_of(Path::new("/usr/bin/env"), &[]).envs(variables(stand)).output()?;
                Ok(stand.shown_in(&String::from_utf8_lossy(&output.stdout)))
            },
            print_the_environment,
        ),
        Case::new(
            "arguments-on-record",
            "a receipt and the ledger tell of arguments by their digest",
            |stand| Ok(stand.shown_in(&json!({ "path": "a", "content": stand.secret }).to_string())),
            record_arguments,
        ),
        Case::new(
            "receipt-of-a-part",
            "a receipt is of the whole request, its purpose and its outcome, and of nothing else",
            |_| {
                // A digest of the arguments alone is the same for all of them.
                let digests = REQUESTS.map(|_| Digest::of(b"{\"path\":\".\"}"));
                Ok(Effect::through_if(digests.windows(2).all(|two| two.first() == two.last()), "one digest"))
            },
            swap_receipts,
        ),
        Case::new(
            "moved-entry",
            "an entry of the ledger that is changed, moved, left out or said twice is found",
            |stand| {
                let lines = exported(stand)?;
                let changed = bend(&lines, 0).ok_or("nothing to bend")?;
                let each_is_json = changed.iter().all(|line| serde_json::from_str::<Value>(line).is_ok());
                Ok(Effect::through_if(
                    each_is_json && changed != lines,
                    "line by line there is nothing wrong",
                ))
            },
            bend_the_ledger,
        ),
        Case::new(
            "no-policy",
            "whom no policy knows may do nothing",
            |stand| {
                stand.put("file", &stand.secret)?;
                Ok(stand.shown_in(&fs::read_to_string(stand.workspace.join("file"))?))
            },
            ask_unknown,
        )
        .without("that an agent has to be known", |stand| {
            stand.put("file", &stand.secret)?;
            let result = stand.gate(standard())?.call("fs.read", json!({ "path": "file" }), Ending::Done)?;
            Ok(stand.shown_in(&result.content))
        }),
        Case::new(
            "locked-agent",
            "an agent that is locked changes nothing",
            |stand| {
                fs::write(stand.workspace.join("made"), "x")?;
                made(stand)
            },
            |stand| write_as(stand, Autonomy::Locked, Ending::Refused("locked")),
        )
        .without("the lock", |stand| write_as(stand, Autonomy::Semi, Ending::Done)),
        Case::new(
            "torn-character",
            "output that is cut holds no half of a character",
            |_| {
                let text = "€".repeat(10_000);
                let cut = text.as_bytes().get(..10 * 1024).unwrap_or_default();
                Ok(Effect::through_if(std::str::from_utf8(cut).is_err(), "a cut by bytes tears one"))
            },
            tear,
        ),
        Case::new(
            "escape-in-output",
            "what a tool prints cannot write on a terminal, nor hide words from whoever reads it",
            |stand| Ok(escapes_in(&stand.bare("printf", &[ESCAPES], &stand.workspace)?)),
            print_escapes,
        ),
    ]
}

/// Writes a file that nobody else can read.
pub(crate) fn private(path: &Path, text: &str) -> Try<()> {
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

// ---- variables

fn variables(stand: &Stand<'_>) -> Vec<(String, String)> {
    ["API_TOKEN", "HARMLESS", "http_proxy", "SSH_AUTH_SOCK"]
        .map(|name| (name.to_owned(), stand.secret.clone()))
        .into()
}

fn print_the_environment(stand: &Stand<'_>) -> Try<Effect> {
    let variables = variables(stand).into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let opening = Opening { host: Host { home: None, variables }, ..Opening::with(standard()) };
    let gate = stand.open(opening)?;
    gate.call("shell", json!({ "command": "env" }), Ending::Done)?;
    let script = "env; for p in /proc/[0-9]*; do cat $p/environ; done 2>/dev/null; true";
    let call = json!({ "command": "sh", "args": ["-c", script], "profile": "build" });
    let result = gate.call("shell", call, Ending::Done)?;
    // Nor those of the very process that this runs in: of ours there is only who asks, for which task, in which call.
    let ours = ["TOOLGATE_AGENT_ID=", "TOOLGATE_TASK_ID=", "TOOLGATE_REQUEST_ID="];
    let rest = ours.into_iter().fold(result.content.clone(), |text, known| text.replace(known, ""));
    let told = ["CARGO", "TOOLGATE"].into_iter().find(|name| rest.contains(name));
    Ok(Effect::through_if(told.is_some(), result.content))
}

fn record_arguments(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(trusted())?;
    let secret = &stand.secret;
    let quiet = Ending::Settled;
    // The result may tell a caller its own words, so these are not looked at: what is written down is.
    gate.call("fs.write", json!({ "path": "a", "content": secret }), Ending::Done)?;
    gate.call("fs.edit", json!({ "path": "b", "old": secret, "new": "x" }), quiet)?;
    gate.call("fs.search", json!({ "pattern": format!("{secret}x") }), Ending::Done)?;
    gate.call("shell", json!({ "command": "true", "args": [secret], "env": { "A": secret } }), Ending::Done)?;
    for call in [
        json!({ "path": "a", "content": [secret] }),
        json!({ "path": "a", "content": "", "encoding": secret }),
    ] {
        gate.call("fs.write", call, Ending::Refused("bad_arguments"))?;
    }
    let mut ledger = Vec::new();
    runtime()?.block_on(gate.engine.store().export(&mut ledger))?;
    let told = String::from_utf8_lossy(&ledger).lines().filter(|line| line.contains(secret)).count();
    Ok(Effect::through_if(told > 0, format!("{told} entries of the ledger hold the secret")))
}

// ---- receipts

/// Agent, task, tool and purpose of calls with the same arguments.
const REQUESTS: [(&str, Option<&str>, &str, &str); 5] = [
    ("tester", Some("one"), "fs.list", "look"),
    ("tester", Some("two"), "fs.list", "look"),
    ("other", Some("one"), "fs.list", "look"),
    ("tester", Some("one"), "fs.stat", "look"),
    ("tester", Some("one"), "fs.list", "something else"),
];

fn swap_receipts(stand: &Stand<'_>) -> Try<Effect> {
    let mut settings = standard();
    settings.agents.insert(AgentName::parse("other")?, Agent::default());
    let gate = stand.gate(settings)?;
    let mut bodies = Vec::new();
    for (agent, task, tool, purpose) in REQUESTS {
        let request = engine::Request {
            agent: AgentName::parse(agent)?,
            task: task.map(TaskName::parse).transpose()?,
            purpose: Some(purpose.to_owned()),
            ..gate.request(tool, json!({ "path": "." }))?
        };
        let result = gate.ask(request, Ending::Done)?;
        let (envelope, body) = receipt_of(&gate, &result)?;
        if let Some(what) = bent_receipt(&gate, &envelope, &body)? {
            return Ok(Effect::Through(what));
        }
        let whole = (body.agent.clone(), body.task.clone(), body.tool.clone(), body.purpose.clone());
        let said = (
            AgentName::parse(agent)?,
            task.map(TaskName::parse).transpose()?,
            result.tool,
            Some(purpose.to_owned()),
        );
        if whole != said || body.run.is_none() {
            return Ok(Effect::Through(format!("the receipt says {whole:?}")));
        }
        bodies.push((body.request, body.purpose));
    }
    let alike =
        bodies.iter().enumerate().any(|(at, one)| bodies.iter().skip(at + 1).any(|other| one == other));
    Ok(Effect::through_if(alike, "two requests have the same receipt"))
}

fn receipt_of(gate: &Gate<'_>, result: &CallResult) -> Try<(String, ReceiptBody)> {
    let store = gate.engine.store();
    let envelope = runtime()?.block_on(store.receipt(&result.call_id))?.ok_or("there is no receipt")?;
    let body = verify_receipt(&envelope, store.keys().public())?;
    Ok((envelope, body))
}

/// Whether a changed byte changes what a receipt says. The key's id is a hint, and says nothing.
fn bent_receipt(gate: &Gate<'_>, envelope: &str, body: &ReceiptBody) -> Try<Option<String>> {
    let key = gate.engine.store().keys().public();
    for at in (0..envelope.len()).step_by(61) {
        let mut bytes = envelope.as_bytes().to_vec();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        let Ok(bent) = String::from_utf8(bytes) else { continue };
        if let Ok(read) = verify_receipt(&bent, key)
            && read != *body
        {
            return Ok(Some(format!("byte {at} can be changed")));
        }
    }
    Ok(None)
}

// ---- the ledger

/// A ledger of some calls, as it is exported.
fn exported(stand: &Stand<'_>) -> Try<Vec<String>> {
    let gate = stand.gate(standard())?;
    for path in ["a", "b", "../c"] {
        gate.call("fs.stat", json!({ "path": path }), Ending::Settled)?;
    }
    let mut bytes = Vec::new();
    runtime()?.block_on(gate.engine.store().export(&mut bytes))?;
    Ok(String::from_utf8(bytes)?.lines().map(str::to_owned).collect())
}

/// The lines with something wrong about them: one way for each number, until there are no more.
fn bend(lines: &[String], way: usize) -> Option<Vec<String>> {
    let mut bent = lines.to_vec();
    let entries = lines.len().checked_sub(2).filter(|entries| *entries > 1)?;
    let at = 1 + way / 4;
    if at >= entries {
        return None;
    }
    match way % 4 {
        0 => bent.swap(at, at + 1),
        1 => drop(bent.remove(at)),
        2 => bent.insert(at, lines.get(at)?.clone()),
        _ => {
            let line = bent.get_mut(at)?;
            let digit = line.rfind(|c: char| c.is_ascii_digit())?;
            let other = if line.get(digit..=digit) == Some("1") { "2" } else { "1" };
            line.replace_range(digit..=digit, other);
        }
    }
    Some(bent)
}

fn bend_the_ledger(stand: &Stand<'_>) -> Try<Effect> {
    let lines = exported(stand)?;
    let store = stand.store()?;
    let key = store.keys().public();
    let check =
        |lines: &[String]| verify_export(format!("{}\n", lines.join("\n")).as_bytes(), key, None).is_ok();
    if !check(&lines) {
        return Err("the ledger as it is does not verify".into());
    }
    let mut way = 0;
    while let Some(bent) = bend(&lines, way) {
        if bent != lines && check(&bent) {
            return Ok(Effect::Through(format!("way {way} is not found")));
        }
        way += 1;
    }
    Ok(Effect::through_if(way < 12, format!("only {way} ways were tried")))
}

// ---- who may

fn ask_unknown(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("file", &stand.secret)?;
    let gate = stand.gate(Settings::default())?;
    for (tool, arguments) in [
        ("fs.read", json!({ "path": "file" })),
        ("fs.write", json!({ "path": "made", "content": "" })),
        ("shell", json!({ "command": "cat", "args": ["file"] })),
    ] {
        gate.call(tool, arguments, Ending::Refused("unknown_agent"))?;
    }
    let shown = gate.engine.tools_for(&AgentName::parse("anybody")?);
    if !shown.is_empty() {
        return Ok(Effect::Through("it is shown tools".to_owned()));
    }
    made(stand)
}

fn write_as(stand: &Stand<'_>, autonomy: Autonomy, ending: Ending) -> Try<Effect> {
    let gate = stand.gate(settings_of(Agent { autonomy, ..Agent::default() }))?;
    gate.call("fs.write", json!({ "path": "made", "content": "" }), ending)?;
    let call = json!({ "command": "sh", "args": ["-c", "touch made"], "profile": "build" });
    gate.call("shell", call, ending)?;
    made(stand)
}

fn made(stand: &Stand<'_>) -> Try<Effect> {
    Ok(Effect::through_if(stand.workspace.join("made").exists(), "the file that was to be made"))
}

// ---- output

fn tear(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    // Shifted byte by byte, so that every cut falls into a character once.
    for shift in 0..4 {
        stand.put("text", &format!("{}{}", "a".repeat(shift), "€😀".repeat(20_000)))?;
        for call in
            [("shell", json!({ "command": "cat", "args": ["text"] })), ("fs.read", json!({ "path": "text" }))]
        {
            let result = gate.call(call.0, call.1, Ending::Done)?;
            let whole = serde_json::to_string(&result)?;
            if whole.contains('\u{fffd}') || !whole.contains('€') {
                return Ok(Effect::Through(format!("{} tears a character", call.0)));
            }
        }
    }
    Ok(Effect::Held("whole characters only".to_owned()))
}

const ESCAPES: &str = "a\\033[2Jb\\033]0;title\\007c\\033]8;;http://x\\033\\\\d\\r\\302\\23331m\\342\\200\\256e\\342\\200\\213f\\363\\240\\201\\201";

fn escapes_in(text: &str) -> Effect {
    let hidden = text.chars().find(|character| contract::is_hidden(*character));
    Effect::through_if(hidden.is_some(), format!("{hidden:?}"))
}

fn print_escapes(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let result = gate.call("shell", json!({ "command": "printf", "args": [ESCAPES] }), Ending::Done)?;
    if !result.content.contains('a') {
        return Err(format!("nothing was printed: {}", result.content).into());
    }
    let structured = result.structured.as_ref().and_then(|value| value.get("stdout")).and_then(Value::as_str);
    Ok(match escapes_in(&result.content) {
        Effect::Held(_) => escapes_in(structured.unwrap_or_default()),
        through => through,
    })
}
