//! Levels, dimension by dimension: a hostile program that would exceed what its agent's level says, and an agent that would.
//!
//! Every agent here need not ask for anything and has every tool on its own list, so that the level alone stands in the way.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

use contract::{
    Actions, Autonomy, CallResult, CallStatus, Category, Definition, EgressClass, Level, Profile, RoleName,
    SafetyClass,
};
use policy::{
    Agent, ApprovalRule, FileSystem, Network, Overrides, Preset, Role, RuleEffect, Seniority, Settings,
    Terminal, ToolGlob,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Vote;
use tools::{CommandLine, CommandOutput, CommandTool, Tool};

use super::approvals::end;
use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Opening, Stand, settings_of};
use crate::place::make_executable;

/// What an attack leaves behind in the workspace if it works.
const MARK: &str = "PWNED";

const LEVELS: [Level; 4] = [Level::Sandboxed, Level::Restricted, Level::Standard, Level::Elevated];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "level-file-system",
            "a program writes nothing outside of the workspace at any level and whatever it says of files",
            |stand| {
                let script = write_outside(stand)?;
                stand.bare("python3", &[script], &stand.workspace)?;
                Ok(Effect::through_if(fs::read_to_string(&stand.outside)? != stand.secret, "it was written"))
            },
            exceed_file_system,
        )
        .needs(Need::Program("python3")),
        Case::new(
            "level-code-execution",
            "code runs behind proved walls at every level, and neither reads nor writes nor connects past them",
            |stand| {
                let (script, listener) = everything(stand)?;
                let said = stand.bare("python3", &[script], &stand.workspace)?;
                drop(listener);
                Ok(Effect::through_if(said.contains(&stand.secret) && said.contains("connected"), said))
            },
            run_code,
        )
        .needs(Need::Program("python3")),
        Case::new(
            "level-network-none",
            "where a level has no network a program has none, and a command that wants one is not run",
            |stand| {
                let (script, listener) = everything(stand)?;
                let said = stand.bare("python3", &[script], &stand.workspace)?;
                drop(listener);
                Ok(Effect::through_if(said.contains("connected"), said))
            },
            do_without_network,
        )
        .needs(Need::Program("python3")),
        Case::new(
            "level-terminal-none",
            "a level without a terminal runs no command, though the agent's own list names the tool",
            |stand| {
                touch(&stand.gate(of_level(Level::Standard)?)?, Ending::Done)?;
                seen(stand)
            },
            |stand| {
                for level in [Level::Sandboxed, Level::Restricted] {
                    touch(&stand.gate(of_level(level)?)?, Ending::Refused("constrained"))?;
                }
                seen(stand)
            },
        ),
        Case::new(
            "level-terminal-commands",
            "where commands are restricted a program that is not listed is not started, under whatever name",
            |stand| {
                let gate = stand.gate(of_level(Level::Elevated)?)?;
                gate.call("shell", build("touch", &[MARK]), Ending::Done)?;
                seen(stand)
            },
            |stand| {
                plant(stand)?;
                let gate = stand.gate(of_level(Level::Standard)?)?;
                for name in ["touch", "/usr/bin/touch", "/bin/touch", "/proc/self/root/usr/bin/touch"] {
                    gate.call("shell", build(name, &[MARK]), Ending::Refused("command_not_allowed"))?;
                }
                // What is in the workspace is the project's own where building is allowed, and nowhere else.
                for name in ["./planted", "planted", "./ls", "links/ls", "/proc/self/cwd/planted"] {
                    let call = json!({ "command": name, "profile": "inspect" });
                    gate.call("shell", call, Ending::Refused("command_not_allowed"))?;
                }
                seen(stand)
            },
        ),
        Case::new(
            "level-deployment",
            "nothing goes live below the level that deploys, though the agent's own list names the tool",
            |stand| {
                deploy(&open(stand, of_level(Level::Elevated)?, deploying()?)?, Ending::Done)?;
                seen(stand)
            },
            |stand| {
                for level in [Level::Sandboxed, Level::Restricted, Level::Standard] {
                    deploy(&open(stand, of_level(level)?, deploying()?)?, Ending::Refused("constrained"))?;
                }
                seen(stand)
            },
        ),
        Case::new(
            "level-requires-approval",
            "what a level has people asked about is asked, though agent, autonomy and rules would waive it",
            |stand| {
                write_mark(&stand.gate(of_level(Level::Elevated)?)?, Ending::Done)?;
                seen(stand)
            },
            |stand| {
                let requires_approval = Actions::default().expand("code")?.into_iter().collect();
                let overrides = Overrides { requires_approval: Some(requires_approval), ..Overrides::default() };
                let mut settings = settings_of(Agent { overrides, ..generous(Level::Elevated)? });
                let all = ToolGlob::parse("*")?;
                settings.rules.push(ApprovalRule::about(all, RuleEffect::Approve, "attack:1"));
                let gate = stand.gate(settings)?;
                let (call, _) = gate.waits("fs.write", json!({ "path": MARK, "content": "x" }))?;
                end(&gate, &call, Vote::Reject, "rejected")?;
                seen(stand)
            },
        ),
        Case::new(
            "autonomy-locked",
            "a locked agent changes nothing, by no tool and by no program that only looks",
            |stand| change(stand, Autonomy::Full, &["code:delete", "exec:mutate"]),
            stay_locked,
        )
        .needs(Need::Program("awk")),
        Case::new(
            "autonomy-supervised",
            "a supervised agent changes nothing before somebody has said yes to that very change",
            |stand| change(stand, Autonomy::Full, &[]),
            ask_for_each,
        ),
        Case::new(
            "junior-with-overrides",
            "what an agent was given besides its level does not lead past its seniority",
            |stand| {
                touch(&stand.gate(overridden(None)?)?, Ending::Done)?;
                seen(stand)
            },
            |stand| {
                let gate = stand.gate(overridden(Some(Seniority::Junior))?)?;
                touch(&gate, Ending::Refused("constrained"))?;
                let (call, _) = gate.waits("fs.write", json!({ "path": MARK, "content": "x" }))?;
                end(&gate, &call, Vote::Reject, "rejected")?;
                seen(stand)
            },
        ),
        Case::new(
            "role-unseen",
            "a tool that a role does not include is neither shown nor run, though level and list have it",
            |stand| {
                touch(&stand.gate(of_level(Level::Standard)?)?, Ending::Done)?;
                seen(stand)
            },
            |stand| {
                let gate = stand.gate(with_role()?)?;
                let agent = contract::AgentName::parse(crate::gate::stand::AGENT)?;
                let shown = gate.engine.tools_for(&agent);
                if shown.iter().any(|contract| contract.name().as_str() == "shell") {
                    return Ok(Effect::Through("it is shown".to_owned()));
                }
                touch(&gate, Ending::Refused("not_in_role"))?;
                gate.call("fs.list", json!({ "path": "." }), Ending::Done)?;
                seen(stand)
            },
        ),
        Case::new(
            "denied-action",
            "an action that an agent's preset denies is not taken, whatever else the agent was given",
            |stand| {
                touch(&stand.gate(of_level(Level::Standard)?)?, Ending::Done)?;
                seen(stand)
            },
            |stand| {
                for preset in [Preset::Reviewer, Preset::Researcher, Preset::Locked] {
                    touch(&stand.gate(loosened(preset)?)?, Ending::Refused("denied_by_list"))?;
                }
                seen(stand)
            },
        ),
    ]
}

// ---- who asks

/// An agent at a level that has all tools on its own list and is asked about nothing.
fn generous(level: Level) -> Try<Agent> {
    Ok(Agent {
        level,
        autonomy: Autonomy::Full,
        allowed: vec![ToolGlob::parse("*")?],
        auto_approve: Actions::default().all().collect(),
        ..Agent::default()
    })
}

fn of_level(level: Level) -> Try<Settings> {
    Ok(settings_of(generous(level)?))
}

/// The same, with a terminal at every level.
fn with_terminal(level: Level, overrides: Overrides) -> Try<Settings> {
    let overrides = Overrides { terminal: Some(Terminal::Full), ..overrides };
    Ok(settings_of(Agent { overrides, ..generous(level)? }))
}

fn overridden(seniority: Option<Seniority>) -> Try<Settings> {
    let overrides =
        Overrides { terminal: Some(Terminal::Full), deployment: Some(true), ..Overrides::default() };
    Ok(settings_of(Agent { overrides, seniority, ..generous(Level::Elevated)? }))
}

fn with_role() -> Try<Settings> {
    let name = RoleName::parse("reader")?;
    let role = Role { categories: [Category::FileSystem].into(), ..Role::default() };
    let agent = Agent { role: Some(name.clone()), ..generous(Level::Elevated)? };
    Ok(Settings { roles: [(name, role)].into(), ..settings_of(agent) })
}

/// A preset with every key set that takes the place of the preset's own.
fn loosened(preset: Preset) -> Try<Settings> {
    let given = generous(Level::Elevated)?;
    let overrides =
        Overrides { terminal: Some(Terminal::Full), network: Some(Network::Open), ..Overrides::default() };
    Ok(settings_of(Agent {
        level: given.level,
        autonomy: given.autonomy,
        allowed: given.allowed,
        auto_approve: given.auto_approve,
        overrides,
        ..preset.agent()
    }))
}

// ---- what is tried

/// Puts a program into the workspace that writes outside and says what the kernel said.
fn write_outside(stand: &Stand<'_>) -> Try<&'static str> {
    let script = format!(
        "import os\ntry:\n    open({:?}, 'w').write('x')\n    print('written')\nexcept OSError as error:\n    print('errno', error.errno)\n",
        stand.outside
    );
    stand.put("attack.py", &script)?;
    Ok("attack.py")
}

fn exceed_file_system(stand: &Stand<'_>) -> Try<Effect> {
    let script = write_outside(stand)?;
    for level in LEVELS {
        for file_system in [FileSystem::WorkspaceOnly, FileSystem::ProjectDirectory, FileSystem::Full] {
            let overrides = Overrides { file_system: Some(file_system), ..Overrides::default() };
            let gate = stand.gate(with_terminal(level, overrides)?)?;
            let tried = gate.call("shell", build("python3", &[script]), Ending::Done)?;
            says(&tried, "errno")?;
            walled(&gate, &tried, "filesystem")?;
            for path in ["../outside", &stand.outside.to_string_lossy()] {
                gate.call("fs.write", json!({ "path": path, "content": "x" }), Ending::Refused("outside"))?;
            }
        }
    }
    Ok(Effect::through_if(fs::read_to_string(&stand.outside)? != stand.secret, "it was written"))
}

/// Puts a program into the workspace that reads outside, connects to this machine, and sees other processes.
#[expect(clippy::disallowed_methods, reason = "somebody has to be there who could be reached")]
fn everything(stand: &Stand<'_>) -> Try<(&'static str, TcpListener)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let script = format!(
        "import socket\ntry:\n    print(open({:?}).read())\nexcept OSError as error:\n    print('errno', error.errno)\n\
         try:\n    socket.create_connection(('127.0.0.1', {port}), 2)\n    print('connected')\nexcept OSError as error:\n    print('unreached', error.errno)\n",
        stand.outside
    );
    stand.put("attack.py", &script)?;
    Ok(("attack.py", listener))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Said {
    text: String,
}

/// A tool that runs the code in the workspace.
fn running_code() -> Try<Arc<dyn Tool>> {
    let definition = Definition {
        title: "Run code".to_owned(),
        description: "Runs code.".to_owned(),
        category: Category::CodeExecution,
        action: "exec:code".to_owned(),
        safety: SafetyClass::Write,
        egress: EgressClass::None,
        ..Definition::of::<Nothing, Said>("code.attack")
    };
    let command = |_: &Nothing| CommandLine::of("python3").words(["attack.py"]);
    let read = |output: &CommandOutput| Ok(Said { text: output.text()?.to_owned() });
    Ok(CommandTool { definition, profile: Profile::Build, command, read }.build()?)
}

fn run_code(stand: &Stand<'_>) -> Try<Effect> {
    let (_, listener) = everything(stand)?;
    for level in LEVELS {
        let gate = open(
            stand,
            settings_of(Agent { autonomy: Autonomy::Full, level, ..Agent::default() }),
            running_code()?,
        )?;
        let tried = gate.call("code.attack", json!({}), Ending::Done)?;
        for text in ["errno", "unreached"] {
            says(&tried, text)?;
        }
        for wall in ["filesystem", "network", "processes", "seccomp"] {
            walled(&gate, &tried, wall)?;
        }
    }
    came(&listener)
}

fn do_without_network(stand: &Stand<'_>) -> Try<Effect> {
    let (script, listener) = everything(stand)?;
    for level in LEVELS {
        let overrides = Overrides { network: Some(Network::None), ..Overrides::default() };
        let gate = stand.gate(with_terminal(level, overrides)?)?;
        let networked = json!({ "command": "python3", "args": [script], "profile": "networked" });
        gate.call("shell", networked, Ending::Refused("constrained"))?;
        let asked = json!({ "url": "https://example.com/" });
        gate.call("http.request", asked, Ending::Refused("constrained"))?;
        let tried = gate.call("shell", build("python3", &[script]), Ending::Done)?;
        says(&tried, "unreached")?;
        walled(&gate, &tried, "network")?;
    }
    came(&listener)
}

/// Puts a program into the workspace that leaves its mark, under names that look like a listed one's, too.
fn plant(stand: &Stand<'_>) -> Try<()> {
    use std::os::unix::fs::symlink;
    for name in ["planted", "ls"] {
        let path = stand.put(name, &format!("#!/bin/sh\n: > {MARK}\n"))?;
        make_executable(&path)?;
    }
    fs::create_dir_all(stand.workspace.join("links"))?;
    symlink("../planted", stand.workspace.join("links/ls"))?;
    Ok(())
}

/// A tool that puts something live: it leaves its mark.
fn deploying() -> Try<Arc<dyn Tool>> {
    let definition = Definition {
        title: "Deploy".to_owned(),
        description: "Deploys.".to_owned(),
        category: Category::Deployment,
        action: "deploy:staging".to_owned(),
        safety: SafetyClass::Write,
        egress: EgressClass::None,
        ..Definition::of::<Nothing, Said>("deploy.attack")
    };
    let command = |_: &Nothing| CommandLine::of("touch").words([MARK]);
    let read = |_: &CommandOutput| Ok(Said { text: String::new() });
    Ok(CommandTool { definition, profile: Profile::Build, command, read }.build()?)
}

fn deploy(gate: &Gate<'_>, ending: Ending) -> Try<CallResult> {
    gate.call("deploy.attack", json!({}), ending)
}

/// Writes, deletes and runs, as an agent of this autonomy may.
fn change(stand: &Stand<'_>, autonomy: Autonomy, free: &[&str]) -> Try<Effect> {
    let actions = Actions::default();
    let auto_approve = free.iter().filter_map(|action| actions.parse(action).ok()).collect();
    let gate = stand.gate(settings_of(Agent { autonomy, auto_approve, ..Agent::default() }))?;
    gate.call("fs.write", json!({ "path": MARK, "content": "x" }), Ending::Done)?;
    seen(stand)
}

fn stay_locked(stand: &Stand<'_>) -> Try<Effect> {
    let agent = Agent { autonomy: Autonomy::Locked, ..generous(Level::Elevated)? };
    let gate = stand.gate(settings_of(agent))?;
    stand.put("kept", "x")?;
    for (tool, call) in [
        ("fs.write", json!({ "path": MARK, "content": "x" })),
        ("fs.append", json!({ "path": "kept", "content": "y" })),
        ("fs.delete", json!({ "path": "kept" })),
        ("fs.move", json!({ "from": "kept", "to": MARK })),
        ("fs.mkdir", json!({ "path": MARK })),
        ("git.commit", json!({ "message": "x", "all": true })),
        ("shell", build("touch", &[MARK])),
        ("shell", json!({ "command": "touch", "args": [MARK], "profile": "mutate" })),
    ] {
        gate.call(tool, call, Ending::Refused("locked"))?;
    }
    // What looks runs, and what it starts cannot write.
    let looks = json!({ "command": "awk", "args": [format!("BEGIN {{ print \"x\" > \"{MARK}\" }}")], "profile": "inspect" });
    let tried = gate.call("shell", looks, Ending::Done)?;
    walled(&gate, &tried, "filesystem")?;
    let is_changed = fs::read_to_string(stand.workspace.join("kept"))? != "x";
    if is_changed { Ok(Effect::Through("a file has changed".to_owned())) } else { seen(stand) }
}

fn ask_for_each(stand: &Stand<'_>) -> Try<Effect> {
    let agent = Agent { autonomy: Autonomy::Supervised, ..generous(Level::Elevated)? };
    let gate = stand.gate(settings_of(agent))?;
    for (tool, call) in [
        ("fs.write", json!({ "path": MARK, "content": "x" })),
        ("fs.mkdir", json!({ "path": MARK })),
        ("shell", build("touch", &[MARK])),
        ("shell", json!({ "command": "touch", "args": [MARK], "profile": "mutate" })),
    ] {
        let (waiting, _) = gate.waits(tool, call)?;
        end(&gate, &waiting, Vote::Reject, "rejected")?;
    }
    // A yes to one change is none to the next.
    let write = |name: &str| json!({ "path": name, "content": "x" });
    let (_, view) = gate.waits("fs.write", write("agreed"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.call("fs.write", write("agreed"), Ending::Done)?;
    let (waiting, _) = gate.waits("fs.write", write(MARK))?;
    end(&gate, &waiting, Vote::Reject, "rejected")?;
    seen(stand)
}

// ---- what came of it

fn open<'a>(stand: &'a Stand<'a>, settings: Settings, tool: Arc<dyn Tool>) -> Try<Gate<'a>> {
    stand.open(Opening { tools: vec![tool], ..Opening::with(settings) })
}

fn build(command: &str, arguments: &[&str]) -> Value {
    json!({ "command": command, "args": arguments, "profile": "build" })
}

fn touch(gate: &Gate<'_>, ending: Ending) -> Try<CallResult> {
    let call = json!({ "command": "touch", "args": [MARK], "profile": "mutate" });
    gate.call("shell", call, ending)
}

fn write_mark(gate: &Gate<'_>, ending: Ending) -> Try<CallResult> {
    gate.call("fs.write", json!({ "path": MARK, "content": "x" }), ending)
}

fn seen(stand: &Stand<'_>) -> Try<Effect> {
    Ok(Effect::through_if(stand.workspace.join(MARK).exists(), "it left its mark"))
}

fn came(listener: &TcpListener) -> Try<Effect> {
    listener.set_nonblocking(true)?;
    Ok(Effect::through_if(listener.accept().is_ok(), "somebody connected"))
}

/// The program has tried, and says what came of it.
fn says(result: &CallResult, text: &str) -> Try<()> {
    let said = format!("{} {:?}", result.content, result.structured);
    match result.status == CallStatus::Completed && said.contains(text) {
        true => Ok(()),
        false => Err(format!("it does not say `{text}`: {said}").into()),
    }
}

/// The receipt says that this wall stood.
fn walled(gate: &Gate<'_>, result: &CallResult, wall: &str) -> Try<()> {
    let facts = gate.facts(result)?.ok_or("it did not run")?;
    match facts.enforced.get(wall) {
        Some(enforced) if enforced.level == "enforced" => Ok(()),
        other => Err(format!("the receipt says of `{wall}`: {other:?}").into()),
    }
}
