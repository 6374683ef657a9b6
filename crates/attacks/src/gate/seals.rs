//! What was approved, and something else in its place: files that a call names, swapped before it runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use contract::Operands;
use serde_json::{Value, json};
use store::Vote;
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::seal_races as races;
use crate::gate::stand::{Ending, Gate, Stand, runtime, standard, trusted};
use crate::place::make_executable;

/// What a person reads and approves, and what is put in its place.
pub(super) const GOOD: &str = "#!/bin/sh\necho good > GOOD\n";
pub(super) const EVIL: &str = "#!/bin/sh\necho evil > EVIL\n";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "swapped-while-pending",
            "a script that is written over while it waits runs as it was approved",
            |stand| bare(stand, write_over),
            |stand| attack(stand, script(), When::Pending, write_over, Ending::Done),
        )
        .without("the seal", |stand| {
            furnish(stand)?;
            write_over(stand)?;
            stand.gate(trusted())?.call("shell", script(), Ending::Done)?;
            seen(stand)
        }),
        Case::new(
            "swapped-after-the-yes",
            "a script that is written over between the yes and its start runs as it was approved",
            |stand| bare(stand, write_over),
            |stand| attack(stand, script(), When::Approved, write_over, Ending::Done),
        ),
        Case::new(
            "swapped-by-rename",
            "a script that another file is renamed to runs as it was approved",
            |stand| bare(stand, rename_over),
            |stand| attack(stand, script(), When::Approved, rename_over, Ending::Done),
        ),
        Case::new(
            "swapped-by-hard-link",
            "a script that a second name of another file is put in place of runs as it was approved",
            |stand| bare(stand, link_hard),
            |stand| attack(stand, script(), When::Pending, link_hard, Ending::Done),
        ),
        Case::new(
            "swapped-by-symlink",
            "a script that became a link does not run",
            |stand| bare(stand, link_over),
            |stand| attack(stand, script(), When::Pending, link_over, Ending::Failed("changed")),
        ),
        Case::new(
            "swapped-link-target",
            "a link that leads elsewhere than when it was approved is not followed",
            |stand| {
                link_inside(stand)?;
                bare(stand, lead_elsewhere)
            },
            |stand| {
                link_inside(stand)?;
                attack(stand, script(), When::Approved, lead_elsewhere, Ending::Failed("changed"))
            },
        ),
        Case::new(
            "swapped-directory",
            "a directory that was swapped for another gives no other script",
            |stand| bare(stand, swap_directory),
            |stand| attack(stand, script(), When::Approved, swap_directory, Ending::Done),
        ),
        Case::new(
            "swapped-parent-moved",
            "a script whose directory was moved away does not run",
            |stand| {
                furnish(stand)?;
                move_parent(stand)?;
                stand.bare("sh", &["moved/in/run.sh"], &stand.workspace)?;
                seen(stand).map(|_| Effect::Through("it runs where it was moved to".to_owned()))
            },
            |stand| {
                let held = attack(stand, script(), When::Approved, move_parent, Ending::Failed("changed"))?;
                let ran = stand.workspace.join("GOOD").exists();
                Ok(if ran { Effect::Through("it ran from somewhere else".to_owned()) } else { held })
            },
        ),
        Case::new(
            "swapped-program",
            "a program of the workspace that is replaced runs as it was approved",
            |stand| {
                furnish(stand)?;
                write_over(stand)?;
                stand.bare("./a/in/run.sh", &[], &stand.workspace)?;
                seen(stand)
            },
            |stand| attack(stand, program(), When::Approved, replace_program, Ending::Done),
        ),
        Case::new(
            "swapped-option-file",
            "a file that an option names is bound like any other",
            |stand| {
                furnish(stand)?;
                write_over(stand)?;
                stand.bare("env", &["BASH_ENV=a/in/run.sh", "bash", "-c", "true"], &stand.workspace)?;
                seen(stand)
            },
            swap_option_files,
        ),
        Case::new(
            "swapped-target",
            "what is deleted or replaced is what was approved to be",
            |stand| {
                furnish(stand)?;
                stand.put("precious", "new work")?;
                stand.bare("rm", &["precious"], &stand.workspace)?;
                Ok(Effect::through_if(!stand.workspace.join("precious").exists(), "new work is gone"))
            },
            delete_something_else,
        ),
        Case::new(
            "swapped-while-running",
            "nobody else writes what an approved call is reading",
            |stand| {
                stand.put("data", "approved")?;
                stand.put("data", "swapped")?;
                let read = stand.bare("cat", &["data"], &stand.workspace)?;
                Ok(Effect::through_if(read == "swapped", "whoever reads late reads something else"))
            },
            write_while_it_runs,
        ),
        Case::new(
            "swap-race",
            "no moment is left between the check of a file and its use by others who may write there",
            races::control,
            races::attack,
        ),
        Case::new(
            "yes-outlives-content",
            "a yes to a script is none to what it says later",
            |stand| bare(stand, write_over),
            |stand| {
                let gate = furnished(stand)?;
                approved(&gate, &script(), Ending::Done)?;
                write_over(stand)?;
                let (call, view) = gate.waits("shell", script())?;
                gate.answer(view.id.as_str(), Vote::Reject)?;
                gate.expect(&call, Ending::Refused("rejected"));
                seen(stand)
            },
        ),
        Case::new(
            "sealed-secret",
            "what is hidden is neither copied nor hashed for a question",
            |stand| Ok(stand.shown_in(&fs::read_to_string(stand.put(".env", &stand.secret)?)?)),
            seal_a_secret,
        ),
        Case::new(
            "bound-in-silence",
            "a question and its receipt tell what is bound, and what is not",
            |stand| {
                // Nobody is told anything where nobody is asked.
                furnish(stand)?;
                let gate = stand.gate(trusted())?;
                let result = gate.call("shell", script(), Ending::Done)?;
                let told = runtime()?.block_on(gate.engine.question_of(&result.call_id))?;
                Ok(Effect::through_if(told.is_none(), "it ran, and nobody saw what"))
            },
            tell_what_is_bound,
        ),
    ]
}

// ---- what is asked for

fn script() -> Value {
    json!({ "command": "sh", "args": ["a/in/run.sh"], "profile": "mutate" })
}

fn program() -> Value {
    json!({ "command": "./a/in/run.sh", "profile": "mutate" })
}

pub(super) fn furnish(stand: &Stand<'_>) -> Try<()> {
    if !stand.workspace.join("a/in/run.sh").exists() {
        make_executable(&stand.put("a/in/run.sh", GOOD)?)?;
    }
    stand.put("evil/in/run.sh", EVIL)?;
    make_executable(&stand.workspace.join("evil/in/run.sh"))
}

pub(super) fn furnished<'a>(stand: &'a Stand<'a>) -> Try<Gate<'a>> {
    furnish(stand)?;
    stand.gate(standard())
}

pub(super) fn seen(stand: &Stand<'_>) -> Try<Effect> {
    Ok(Effect::through_if(stand.workspace.join("EVIL").exists(), "what nobody approved has run"))
}

fn bare(stand: &Stand<'_>, swap: fn(&Stand<'_>) -> Try<()>) -> Try<Effect> {
    furnish(stand)?;
    swap(stand)?;
    stand.bare("sh", &["a/in/run.sh"], &stand.workspace)?;
    seen(stand)
}

/// When the swap is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Pending,
    Approved,
}

/// Asks, has it approved, swaps, and runs: either what was approved runs, or nothing does.
fn attack(
    stand: &Stand<'_>,
    call: Value,
    when: When,
    swap: fn(&Stand<'_>) -> Try<()>,
    ending: Ending,
) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (_, view) = gate.waits("shell", call.clone())?;
    if when == When::Pending {
        swap(stand)?;
    }
    gate.answer(view.id.as_str(), Vote::Approve)?;
    if when == When::Approved {
        swap(stand)?;
    }
    gate.call("shell", call, ending)?;
    if (ending == Ending::Done) != stand.workspace.join("GOOD").exists() {
        return Err("what was approved did not run, or ran where it should not".into());
    }
    seen(stand)
}

fn approved(gate: &Gate<'_>, call: &Value, ending: Ending) -> Try<()> {
    let (_, view) = gate.waits("shell", call.clone())?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.call("shell", call.clone(), ending).map(drop)
}

// ---- ways to swap

fn write_over(stand: &Stand<'_>) -> Try<()> {
    Ok(fs::write(stand.workspace.join("a/in/run.sh"), EVIL)?)
}

fn rename_over(stand: &Stand<'_>) -> Try<()> {
    Ok(fs::rename(stand.workspace.join("evil/in/run.sh"), stand.workspace.join("a/in/run.sh"))?)
}

fn replace_program(stand: &Stand<'_>) -> Try<()> {
    rename_over(stand)
}

fn link_hard(stand: &Stand<'_>) -> Try<()> {
    let script = stand.workspace.join("a/in/run.sh");
    fs::remove_file(&script)?;
    Ok(fs::hard_link(stand.workspace.join("evil/in/run.sh"), script)?)
}

fn link_over(stand: &Stand<'_>) -> Try<()> {
    let script = stand.workspace.join("a/in/run.sh");
    fs::remove_file(&script)?;
    Ok(symlink("../../evil/in/run.sh", script)?)
}

fn link_inside(stand: &Stand<'_>) -> Try<()> {
    make_executable(&stand.put("a/in/real.sh", GOOD)?)?;
    stand.place.link("work/a/in/run.sh", "real.sh").map(drop)
}

fn lead_elsewhere(stand: &Stand<'_>) -> Try<()> {
    link_over(stand)
}

fn swap_directory(stand: &Stand<'_>) -> Try<()> {
    fs::rename(stand.workspace.join("a"), stand.workspace.join("was"))?;
    Ok(fs::rename(stand.workspace.join("evil"), stand.workspace.join("a"))?)
}

fn move_parent(stand: &Stand<'_>) -> Try<()> {
    Ok(fs::rename(stand.workspace.join("a"), stand.workspace.join("moved"))?)
}

// ---- other words, other tools

fn swap_option_files(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    for (name, word) in [("one.sed", "--file=one.sed"), ("two.sed", "-ftwo.sed"), ("three.sed", "three.sed")]
    {
        stand.put(name, "s/a/good/\n")?;
        stand.put("text", "a\n")?;
        let mut args = if word == name { vec!["-n", "-f"] } else { vec!["-n"] };
        args.extend([word, "-e", "w OUT", "text"]);
        let call = json!({ "command": "sed", "args": args, "profile": "mutate" });
        let (_, view) = gate.waits("shell", call.clone())?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        stand.put(name, "s/a/evil/\nw EVIL\n")?;
        gate.call("shell", call, Ending::Failed("changed"))?;
        if stand.workspace.join("OUT").exists() {
            return Ok(Effect::Through(format!("{word}: it ran")));
        }
    }
    // And so is one that a variable names.
    stand.put("a/in/run.sh", GOOD)?;
    let env = json!({ "SCRIPT": "a/in/run.sh" });
    let call = json!({ "command": "sh", "args": ["-c", ". \"./$SCRIPT\""], "env": env, "profile": "mutate" });
    let (_, view) = gate.waits("shell", call.clone())?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    write_over(stand)?;
    gate.call("shell", call, Ending::Failed("changed"))?;
    seen(stand)
}

fn delete_something_else(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let calls = [
        ("fs.delete", json!({ "path": "precious" })),
        ("fs.move", json!({ "from": "other", "to": "precious", "overwrite": true })),
        ("shell", json!({ "command": "rm", "args": ["precious"], "profile": "mutate" })),
        ("shell", json!({ "command": "mv", "args": ["other", "precious"], "profile": "mutate" })),
        ("shell", json!({ "command": "cp", "args": ["other", "precious"], "profile": "mutate" })),
        ("shell", json!({ "command": "sed", "args": ["-i", "s/n/m/", "precious"], "profile": "mutate" })),
    ];
    for (tool, call) in &calls {
        stand.put("other", "other")?;
        stand.put("precious", "old rubbish")?;
        let (_, view) = gate.waits(tool, call.clone())?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        stand.put("precious", "new work")?;
        gate.call(tool, call.clone(), Ending::Failed("changed"))?;
        let left = fs::read_to_string(stand.workspace.join("precious")).unwrap_or_default();
        if left != "new work" {
            return Ok(Effect::Through(format!("{tool} {call}: `{left}` is left")));
        }
        // Unchanged, each of them works.
        let (_, view) = gate.waits(tool, call.clone())?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        gate.call(tool, call.clone(), Ending::Done)?;
        if fs::read_to_string(stand.workspace.join("precious")).is_ok_and(|left| left == "new work") {
            return Err(format!("{tool} {call}: nothing was done").into());
        }
    }
    Ok(Effect::Held("each was refused, and done when nothing had changed".to_owned()))
}

pub(super) fn is_good(operands: &Operands) -> bool {
    let good = contract::Digest::of(GOOD.as_bytes());
    operands.bound.iter().any(|file| file.path == "a/in/run.sh" && file.digest == Some(good))
}

/// The approved call has begun, and takes its time to read; a write that nobody has to approve comes in between.
fn write_while_it_runs(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    stand.put("data", "approved")?;
    let slow = "touch BEGUN; sleep 2; cat data > OUT";
    let call = json!({ "command": "sh", "args": ["-c", slow, "sh", "data"], "profile": "mutate" });
    let (_, view) = gate.waits("shell", call.clone())?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    let (engine, again) = (gate.engine.clone(), gate.request("shell", call)?);
    let patience = Duration::from_secs(60);
    let running =
        runtime()?.spawn(async move { engine.call(again, patience, CancellationToken::new()).await });
    let begun = Instant::now();
    while !stand.workspace.join("BEGUN").exists() {
        if begun.elapsed() > patience {
            return Err("the approved call never began".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    gate.call("fs.write", json!({ "path": "data", "content": "swapped" }), Ending::Done)?;
    let ended = runtime()?.block_on(running)?;
    gate.expect(&ended.call_id, Ending::Done);
    let read = fs::read_to_string(stand.workspace.join("OUT"))?;
    Ok(Effect::through_if(read != "approved", format!("it read `{read}`")))
}

// ---- what is told

fn seal_a_secret(stand: &Stand<'_>) -> Try<Effect> {
    stand.put(".env", &stand.secret)?;
    stand.put("certs/server.pem", &stand.secret)?;
    stand.place.link("work/plain.txt", ".env")?;
    let gate = stand.gate(standard())?;
    for words in [vec![".env"], vec!["./certs/../.env"], vec!["plain.txt"], vec!["--file=certs/server.pem"]] {
        let call = json!({ "command": "cat", "args": words, "profile": "mutate" });
        let (call, view) = gate.waits("shell", call)?;
        let seal = runtime()?.block_on(gate.engine.store().seal(&view.id))?.ok_or("nothing was sealed")?;
        gate.answer(view.id.as_str(), Vote::Reject)?;
        gate.expect(&call, Ending::Refused("rejected"));
        let told = format!("{:?}", seal.seal);
        if !seal.seal.operands.bound.is_empty() || told.contains(&stand.secret) {
            return Ok(Effect::Through(told));
        }
    }
    Ok(Effect::Held("not one was copied".to_owned()))
}

fn tell_what_is_bound(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let call = json!({ "command": "sh", "args": ["a/in/run.sh", "evil"], "profile": "mutate" });
    let (id, view) = gate.waits("shell", call.clone())?;
    let question = runtime()?.block_on(gate.engine.question_of(&id))?.ok_or("there is no question")?;
    let shown = question.operands.ok_or("the question binds nothing")?;
    let names = |operands: &Operands| -> Vec<String> {
        let bound = operands.bound.iter().map(|file| file.path.clone());
        bound.chain(operands.not_bound.iter().map(|thing| thing.what.clone())).collect()
    };
    if !is_good(&shown) || names(&shown) != ["a/in/run.sh", "sh", "evil"] {
        return Ok(Effect::Through(format!("{shown:?}")));
    }
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.call("shell", call, Ending::Done)?;
    let envelope = runtime()?.block_on(gate.engine.store().receipt(&id))?.ok_or("there is no receipt")?;
    let body = store::verify_receipt(&envelope, gate.engine.store().keys().public())?;
    Ok(Effect::through_if(body.operands.as_ref() != Some(&shown), format!("{:?}", body.operands)))
}
