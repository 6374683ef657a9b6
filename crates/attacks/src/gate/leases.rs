//! Workers that are kept, and what one that was taken over could do to calls that are not its own.
//!
//! The attacker is in the worker: whoever reads a file whose name begins with [`LIE`] gets one that lies from then on, and
//! the rest of the name says how.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};

use contract::{AgentName, CallResult, TaskName};
use policy::Agent;
use rustix::pipe::SpliceFlags;
use serde_json::{Value, json};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, standard};

const LIE: &str = "lie-";
/// What one says that lies, whatever it is asked.
const LIED: &str = "the words of another";
/// What is in the file that honest workers read.
const TRUTH: &str = "the truth";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "answer-of-another",
            "an answer with the number of another question is given to nobody",
            |stand| lied_to(stand, "plain", Ending::Done),
            |stand| lied_to(stand, "other", Ending::Failed("bad_output")),
        ),
        Case::new(
            "answer-twice",
            "an answer that comes twice is no answer to the next question",
            next_of_the_same,
            |stand| told_after(stand, "twice"),
        ),
        Case::new(
            "answer-unasked",
            "what a worker says before it is asked is no answer to the next question",
            next_of_the_same,
            |stand| told_after(stand, "early"),
        ),
        Case::new(
            "lease-of-another",
            "a worker that served one task or agent serves no other",
            next_of_the_same,
            |stand| {
                for (agent, task) in
                    [(None, Some("other")), (Some("other"), None), (Some("other"), Some("other"))]
                {
                    let effect = next_of(stand, "plain", agent, task)?;
                    if matches!(effect, Effect::Through(_)) {
                        return Ok(effect);
                    }
                }
                Ok(Effect::Held("each had an honest worker".to_owned()))
            },
        ),
    ]
}

/// Asks one that lies like this, and looks whether it is believed.
fn lied_to(stand: &Stand<'_>, how: &str, ending: Ending) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let result = gate.call("fs.read", json!({ "path": format!("{LIE}{how}") }), ending)?;
    Ok(Effect::through_if(result.content.contains(LIED), result.content))
}

/// The control of all that is about the next call: one that lies is kept, and the next call of its owner gets it.
fn next_of_the_same(stand: &Stand<'_>) -> Try<Effect> {
    next_of(stand, "plain", None, None)
}

/// The call of its owner that follows one which it answered with a lie of this kind.
fn told_after(stand: &Stand<'_>, how: &str) -> Try<Effect> {
    next_of(stand, how, None, None)
}

/// Has a worker lie to a call, and looks who answers the next one, of this agent and task or of the same.
fn next_of(stand: &Stand<'_>, how: &str, agent: Option<&str>, task: Option<&str>) -> Try<Effect> {
    stand.put("f", TRUTH)?;
    let mut settings = standard();
    settings.agents.insert(AgentName::parse("other")?, Agent::default());
    let gate = stand.gate(settings)?;
    let first = read(&gate, &format!("{LIE}{how}"), None, None)?;
    if !first.content.contains(LIED) {
        return Err(format!("it does not lie: {}", first.content).into());
    }
    let next = read(&gate, "f", agent, task)?;
    let is_honest = next.content.contains(TRUTH) && !next.content.contains(LIED);
    Ok(Effect::through_if(!is_honest, next.content))
}

fn read(gate: &Gate<'_>, path: &str, agent: Option<&str>, task: Option<&str>) -> Try<CallResult> {
    let mut request = gate.request("fs.read", json!({ "path": path }))?;
    if let Some(agent) = agent {
        request.agent = AgentName::parse(agent)?;
    }
    if let Some(task) = task {
        request.task = Some(TaskName::parse(task)?);
    }
    gate.ask(request, Ending::Done)
}

/// A worker that lies if its first question asks for that.
pub const LIAR: jail::Own = jail::Own { prepare: tools::WORKER.prepare, run: lie_or_work };

fn lie_or_work(arguments: &[OsString]) -> i32 {
    let asks_for_lies = |question: String| question.contains(&format!("\"path\":\"{LIE}"));
    let is_for_files = arguments.first().is_some_and(|trade| trade == "files");
    if is_for_files && first_question().is_ok_and(asks_for_lies) {
        return i32::from(lie().is_err());
    }
    (tools::WORKER.run)(arguments)
}

/// The longest question that is looked at.
const MOST: usize = 1 << 15;

/// Looked at and left there: an honest worker reads it again.
fn first_question() -> io::Result<String> {
    let (from, to) = rustix::pipe::pipe()?;
    let mut bytes = Vec::new();
    // It may arrive in pieces; each look sees all of it from the start.
    loop {
        let length = rustix::pipe::tee(rustix::stdio::stdin(), &to, MOST, SpliceFlags::empty())?;
        bytes.resize(length, 0);
        File::from(from.try_clone()?).read_exact(&mut bytes)?;
        let wanted = bytes.first_chunk().map_or(8, |length| u64::from_le_bytes(*length).saturating_add(8));
        if length == 0 || length == MOST || length as u64 >= wanted {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

fn lie() -> io::Result<()> {
    let mut how = String::new();
    loop {
        let (number, question) = hear()?;
        let path = question.pointer("/call/Read/path").and_then(Value::as_str).unwrap_or_default();
        if let Some(kind) = path.strip_prefix(LIE) {
            kind.clone_into(&mut how);
        }
        match how.as_str() {
            "other" => say(&[number + 1])?,
            "twice" => say(&[number, number])?,
            "early" => say(&[number, number + 1])?,
            _ => say(&[number])?,
        }
    }
}

fn hear() -> io::Result<(u64, Value)> {
    let (mut length, mut number) = ([0; 8], [0; 8]);
    let mut input = io::stdin().lock();
    input.read_exact(&mut length)?;
    input.read_exact(&mut number)?;
    let mut question = Vec::new();
    input.take(u64::from_le_bytes(length).saturating_sub(8)).read_to_end(&mut question)?;
    Ok((u64::from_le_bytes(number), serde_json::from_slice(&question).unwrap_or_default()))
}

/// All at once, so that the second is there when the first is heard.
fn say(numbers: &[u64]) -> io::Result<()> {
    let read = json!({
        "path": "f", "encoding": "text", "content": LIED, "size": LIED.len(), "first_line": 1, "lines": 1,
        "truncated": false,
    });
    let answer = json!({
        "result": { "Ok": { "Read": read } }, "changed": { "paths": {}, "more": 0 }, "findings": [],
        "cpu_micros": 0, "peak_memory": 0,
    });
    let said = answer.to_string();
    let mut frames = Vec::new();
    for number in numbers {
        frames.extend_from_slice(&(said.len() as u64 + 8).to_le_bytes());
        frames.extend_from_slice(&number.to_le_bytes());
        frames.extend_from_slice(said.as_bytes());
    }
    File::from(rustix::io::dup(rustix::stdio::stdout())?).write_all(&frames)
}
