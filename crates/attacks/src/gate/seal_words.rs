//! Files that a call names in ways that are easily missed, and workspaces that lie in one another.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use contract::TaskName;
use engine::Request;
use serde_json::{Value, json};
use store::Vote;
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::seals::{EVIL, GOOD, furnish, furnished, seen};
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, standard};
use crate::place::make_executable;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "file-that-comes-later",
            "a script that was not there when it was approved does not run when it is",
            |stand| {
                stand.put("later.sh", EVIL)?;
                stand.bare("sh", &["later.sh"], &stand.workspace)?;
                seen(stand)
            },
            |stand| {
                let gate = stand.gate(standard())?;
                let call = json!({ "command": "sh", "args": ["later.sh"], "profile": "mutate" });
                approve(&gate, &call)?;
                gate.call("fs.write", json!({ "path": "later.sh", "content": EVIL }), Ending::Done)?;
                gate.call("shell", call, Ending::Failed("changed"))?;
                seen(stand)
            },
        ),
        Case::new(
            "system-by-name",
            "a path that begins where the system is and ends in the workspace is bound like any other there",
            |stand| {
                let path = climbing(stand)?;
                fs::write(stand.workspace.join("a/in/run.sh"), EVIL)?;
                stand.bare("sh", &[&path], &stand.workspace)?;
                seen(stand)
            },
            |stand| {
                let path = climbing(stand)?;
                let gate = stand.gate(standard())?;
                let call = json!({ "command": "sh", "args": [path], "profile": "mutate" });
                approve(&gate, &call)?;
                fs::write(stand.workspace.join("a/in/run.sh"), EVIL)?;
                gate.call("shell", call, Ending::Done)?;
                if !stand.workspace.join("GOOD").exists() {
                    return Err("what was approved did not run".into());
                }
                seen(stand)
            },
        ),
        Case::new(
            "named-in-passing",
            "a file is bound by whatever form of words, options and variables it is named in",
            |stand| {
                make_executable(&stand.put("x.sh", EVIL)?)?;
                stand.bare("env", &["-S", "./x.sh a"], &stand.workspace)?;
                seen(stand)
            },
            |stand| swap_each(stand, named_in_passing()),
        ),
        Case::new(
            "cut-word",
            "a file is bound however long its name, the options before it or the list it is in",
            |stand| {
                stand.put("x.mk", "all:\n\ttouch EVIL\n")?;
                stand.bare("make", &["-kkkkkkkksfx.mk"], &stand.workspace)?;
                seen(stand)
            },
            |stand| {
                let long = format!("-kksrRf{}x.mk", "./".repeat(2045));
                let calls = vec![
                    ("x.mk", shell("make", &[&long])),
                    ("x.mk", shell("make", &[&format!("-{}fx.mk", "k".repeat(40))])),
                    ("a+b.zip", shell("env", &["PYTHONPATH=a+b.zip:zz", "python3", "-m", "inside"])),
                ];
                swap_each(stand, calls)
            },
        ),
        Case::new(
            "module-behind-another",
            "a module is bound whoever starts its interpreter",
            |stand| {
                stand.put("pkg.py", "open('EVIL', 'w')")?;
                stand.bare("env", &["python3", "-m", "pkg"], &stand.workspace)?;
                seen(stand)
            },
            |stand| {
                let calls = vec![
                    ("pkg.py", shell("env", &["python3", "-m", "pkg"])),
                    ("pkg.py", shell("sh", &["-c", "exec python3 -m pkg"])),
                ];
                swap_each(stand, calls)
            },
        ),
        Case::new(
            "folded-unseen",
            "two questions are one to people only if every file that they name is the same",
            |stand| {
                let gate = furnished(stand)?;
                let waiting = ask_in_two_tasks(&gate, many(10), |_| Ok(()))?;
                Ok(Effect::through_if(waiting == 1, "the same is asked about once"))
            },
            |stand| {
                let gate = furnished(stand)?;
                let waiting = ask_in_two_tasks(&gate, many(70), |gate| {
                    let evil = json!({ "path": "a/in/run.sh", "content": EVIL });
                    gate.call("fs.write", evil, Ending::Done).map(drop)
                })?;
                Ok(Effect::through_if(waiting != 2, format!("{waiting} questions are shown for two scripts")))
            },
        ),
        Case::new(
            "workspace-in-a-workspace",
            "nobody writes what an approved call is reading, from a workspace within or around either",
            |stand| {
                stand.put("a/data", "swapped")?;
                let read = stand.bare("cat", &["a/data"], &stand.workspace)?;
                Ok(Effect::through_if(read == "swapped", "whoever reads late reads something else"))
            },
            |stand| {
                let within = write_from_elsewhere(stand, "work", "work/a", "data")?;
                if matches!(within, Effect::Through(_)) {
                    return Ok(within);
                }
                write_from_elsewhere(stand, "work/a", "work", "a/data")
            },
        ),
        Case::new(
            "workspace-held-by-a-tool",
            "a tool that locks the workspace's directory keeps nobody waiting",
            |stand| {
                // Whoever asks for the same lock waits.
                let held = fs::File::open(&stand.workspace)?;
                held.lock()?;
                let other = fs::File::open(&stand.workspace)?;
                Ok(Effect::through_if(other.try_lock().is_err(), "the directory can be locked"))
            },
            hold_by_a_tool,
        ),
    ]
}

fn approve(gate: &Gate<'_>, call: &Value) -> Try<()> {
    let (_, view) = gate.waits("shell", call.clone())?;
    gate.answer(view.id.as_str(), Vote::Approve)
}

/// The script of the workspace, by a path that begins with `/usr`.
fn climbing(stand: &Stand<'_>) -> Try<String> {
    furnish(stand)?;
    Ok(format!("/usr/..{}", stand.workspace.join("a/in/run.sh").display()))
}

fn shell(command: &str, args: &[&str]) -> Value {
    json!({ "command": command, "args": args, "profile": "mutate" })
}

fn named_in_passing() -> Vec<(&'static str, Value)> {
    let options = json!({ "TAR_OPTIONS": "--to-command=./x.sh" });
    vec![
        ("x.sh", shell("env", &["-S", "./x.sh a"])),
        ("x.sh", shell("tar", &["-I", "./x.sh -d", "-tf", "nothing.tar"])),
        ("x.sh", shell("git", &["-c", "alias.x=!./x.sh", "x"])),
        ("x.sh", shell("sh", &["-c", "true && ./x.sh"])),
        (
            "x.sh",
            json!({ "command": "tar", "args": ["-tf", "nothing.tar"], "env": options, "profile": "mutate" }),
        ),
        ("s.sed", shell("sed", &["-nfs.sed", "x.sh"])),
        ("MF", shell("make", &["-sfMF"])),
        ("sub/Makefile", json!({ "command": "make", "cwd": "sub", "profile": "mutate" })),
        ("pkg/__main__.py", shell("python3", &["-m", "pkg"])),
        ("foo.pm", shell("perl", &["-I.", "-Mfoo", "-e1"])),
    ]
}

/// Has each call approved, and its file swapped before it runs.
fn swap_each(stand: &Stand<'_>, calls: Vec<(&str, Value)>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    for (file, call) in calls {
        make_executable(&stand.put(file, GOOD)?)?;
        approve(&gate, &call)?;
        stand.put(file, EVIL)?;
        gate.call("shell", call.clone(), Ending::Failed("changed"))?;
        if let Effect::Through(what) = seen(stand)? {
            return Ok(Effect::Through(format!("{call}: {what}")));
        }
    }
    Ok(Effect::Held("each of them is bound".to_owned()))
}

fn many(files: usize) -> Vec<String> {
    (0..files).map(|number| format!("f{number}")).collect()
}

/// Asks the same in two tasks, with something done in between, and says how many questions people see.
fn ask_in_two_tasks(
    gate: &Gate<'_>,
    names: Vec<String>,
    between: impl FnOnce(&Gate<'_>) -> Try<()>,
) -> Try<usize> {
    for name in &names {
        gate.call("fs.write", json!({ "path": name, "content": "x" }), Ending::Done)?;
    }
    let words: Vec<String> = ["a/in/run.sh".to_owned()].into_iter().chain(names).collect();
    let call = json!({ "command": "sh", "args": words, "profile": "mutate" });
    let of_task = |task: &str| -> Try<Request> {
        Ok(Request { task: Some(TaskName::parse(task)?), ..gate.request("shell", call.clone())? })
    };
    let first = gate.send(of_task("one")?)?;
    between(gate)?;
    let second = gate.send(of_task("two")?)?;
    let waiting = runtime()?.block_on(gate.engine.waiting())?.len();
    for asked in [first, second] {
        let view = asked.approval.ok_or("it does not wait")?;
        gate.answer(view.id.as_str(), Vote::Reject)?;
        gate.expect(&asked.call_id, Ending::Refused("rejected"));
    }
    Ok(waiting)
}

/// An approved call reads slowly in one workspace; a free write comes from another that lies around or within it.
fn write_from_elsewhere(stand: &Stand<'_>, approved: &str, other: &str, path: &str) -> Try<Effect> {
    let file = stand.place.file("work/a/data", "approved")?;
    let gate_in = |folder: &str| {
        let workspace = Some(stand.place.path(folder));
        stand.open(Opening { workspace, ..Opening::with(standard()) })
    };
    let (gate, writer) = (gate_in(approved)?, gate_in(other)?);
    let own = stand.place.path(approved);
    let data = file.strip_prefix(&own)?.display().to_string();
    let slow = format!("touch BEGUN; sleep 2; cat {data} > OUT");
    let call = json!({ "command": "sh", "args": ["-c", slow], "profile": "mutate" });
    approve(&gate, &call)?;
    let (engine, again) = (gate.engine.clone(), gate.request("shell", call)?);
    let running =
        runtime()?.spawn(async move { engine.call(again, PATIENCE, CancellationToken::new()).await });
    wait_for(&own.join("BEGUN"))?;
    writer.call("fs.write", json!({ "path": path, "content": "swapped" }), Ending::Done)?;
    let ended = runtime()?.block_on(running)?;
    gate.expect(&ended.call_id, Ending::Done);
    let read = fs::read_to_string(own.join("OUT"))?;
    for left in ["BEGUN", "OUT"] {
        fs::remove_file(own.join(left))?;
    }
    Ok(Effect::through_if(read != "approved", format!("from `{other}` into `{approved}`: it read `{read}`")))
}

fn wait_for(path: &Path) -> Try<()> {
    let begun = Instant::now();
    while !path.exists() {
        if begun.elapsed() > PATIENCE {
            return Err("the call never began".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn hold_by_a_tool(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let call = json!({ "command": "sh", "args": ["-c", "flock -x . sleep 25"], "profile": "build" });
    let (engine, request) = (gate.engine.clone(), gate.request("shell", call)?);
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let holding = runtime()?.spawn(async move { engine.call(request, PATIENCE, token).await });
    let directory = fs::File::open(&stand.workspace)?;
    let begun = Instant::now();
    while directory.try_lock().is_ok() {
        directory.unlock()?;
        if holding.is_finished() || begun.elapsed() > PATIENCE {
            cancel.cancel();
            let ended = runtime()?.block_on(holding)?;
            return Err(format!("the tool never locked anything: {}", ended.content).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    gate.call("fs.write", json!({ "path": "x", "content": "x" }), Ending::Done)?;
    let waited = holding.is_finished();
    cancel.cancel();
    let held = runtime()?.block_on(holding)?;
    gate.expect(&held.call_id, Ending::Settled);
    Ok(Effect::through_if(waited, "the write waited until the tool had ended"))
}
