//! Rules and lists about a program, and calls that have it started by another.

use std::fs;
use std::path::Path;

use policy::{
    Agent, ApprovalRule, ArgumentPath, CedarRule, Conditions, Overrides, Pattern, RuleEffect, Settings,
    ShellSettings, Terminal, TextPattern, ToolGlob,
};
use serde_json::{Value, json};
use store::Vote;

use crate::Try;
use crate::bench::find_program;
use crate::case::Effect;
use crate::gate::approvals::end;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand, standard, trusted};

/// What an attack leaves behind in the workspace if it works.
const MARK: &str = "PWNED";

/// Where x86 has what loads programs.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "program-by-another",
            "a rule about a program holds whichever other program would start it, and frees none that starts any",
            every_way_works,
            |stand| {
                // A rule that denies, one in Cedar, and a list: each alone.
                let ways = ways();
                let gate = stand.gate(ruled(free(), RuleEffect::Deny, "touch")?)?;
                for way in &ways {
                    gate.call("shell", way.call.clone(), Ending::Refused("denied_by_rule"))?;
                }
                let gate = stand.gate(in_cedar()?)?;
                for way in &ways {
                    let code = if way.is_told { "denied_by_rule" } else { "rule_failed" };
                    gate.call("shell", way.call.clone(), Ending::Refused(code))?;
                }
                let denied = ShellSettings { denied: ["touch".to_owned()].into(), ..ShellSettings::default() };
                let gate = stand.gate(Settings { shell: denied, ..free() })?;
                for way in &ways {
                    gate.call("shell", way.call.clone(), Ending::Refused("command_not_allowed"))?;
                }
                // A rule that frees the program which is named.
                for way in &ways {
                    let named = way.call.get("command").and_then(Value::as_str).unwrap_or_default();
                    let gate = stand.gate(ruled(with_any_program(standard()), RuleEffect::Approve, named)?)?;
                    let (call, _) = gate.waits("shell", way.call.clone())?;
                    end(&gate, &call, Vote::Reject, "rejected")?;
                }
                marked(stand)
            },
        )
        .without("the rule about a program", every_way_works),
        Case::new(
            "lists-by-another",
            "a list of commands is about what they start, too, and has nothing of which that cannot be told",
            every_way_works,
            |stand| {
                let pieces = [format!("t''ouch {MARK}"), format!("/bin/to?ch {MARK}"), format!("$0 {MARK}")];
                let denied = ShellSettings { denied: ["touch".to_owned()].into(), ..ShellSettings::default() };
                let gate = stand.gate(Settings { shell: denied, ..free() })?;
                for text in &pieces {
                    let call = json!({ "command": "sh", "args": ["-c", text, "touch"], "profile": "mutate" });
                    gate.call("shell", call, Ending::Refused("command_not_allowed"))?;
                }
                // Every program that is named is allowed, and `touch` is not.
                let names = ways().into_iter().flat_map(|way| named_in(&way.call));
                let allowed = ShellSettings { allowed: Some(names.collect()), ..ShellSettings::default() };
                let gate = stand.gate(Settings { shell: allowed, ..free() })?;
                for way in ways() {
                    gate.call("shell", way.call, Ending::Refused("command_not_allowed"))?;
                }
                let harmless = json!({ "command": "env", "args": ["env"], "profile": "mutate" });
                gate.call("shell", harmless, Ending::Done)?;
                marked(stand)
            },
        )
        .without("the list of allowed commands", every_way_works),
    ]
}

/// One way to start `touch` by another program.
struct Way {
    call: Value,
    /// Whether the words say so.
    is_told: bool,
}

fn ways() -> Vec<Way> {
    let touch = format!("touch {MARK}");
    let way = |command: &str, words: &[&str], is_told| Way {
        call: json!({ "command": command, "args": words, "profile": "mutate" }),
        is_told,
    };
    let fed = |text: &str, command: &str, words: &[&str]| Way {
        call: json!({
            "command": "printf",
            "args": [text],
            "stages": [{ "command": command, "args": words }],
            "profile": "mutate",
        }),
        is_told: false,
    };
    let action = format!("--checkpoint-act=exec={touch}");
    let option = format!("--checkpoint=1 --checkpoint-action=exec=touch\\ {MARK}");
    let ways = vec![
        way("env", &["touch", MARK], true),
        way("env", &["-S", &touch], true),
        way("env", &["-S", &format!("\"touch\" {MARK}")], false),
        way("env", &["-vS", &format!("t'ou'ch {MARK}")], false),
        way("nice", &["-n", "5", "timeout", "9", "touch", MARK], true),
        way("find", &[".", "-maxdepth", "0", "-exec", "touch", MARK, "{}", "+"], true),
        way("git", &["-c", &format!("alias.x=!{touch}"), "x"], false),
        way("tar", &["-cf", "/dev/null", "--checkpoint=1", &action, "."], false),
        way("awk", &[&format!("BEGIN {{ system(\"{touch}\") }}")], false),
        way("sh", &["-c", "echo DENWP hcuot | rev | sh"], false),
        fed(&touch, "sh", &[]),
        fed(&touch, "xargs", &["env"]),
        fed(&touch, "xargs", &["-I", "X", "sh", "-c", "X"]),
        fed("x\\n", "sed", &[&format!("1e {touch}")]),
        way("flock", &["lock", "-c", &touch], false),
        way("busybox", &["env", "touch", MARK], true),
        way("python3", &["-c", &format!("open('{MARK}', 'w')")], false),
        way(LOADER, &["/usr/bin/touch", MARK], true),
        Way {
            call: json!({
                "command": "tar",
                "args": ["-cf", "/dev/null", "."],
                "env": { "TAR_OPTIONS": option },
                "profile": "mutate",
            }),
            is_told: false,
        },
    ];
    // Not every host has all of them.
    let is_there = |name: &String| find_program(name).is_some() || Path::new(name).exists();
    ways.into_iter().filter(|way| named_in(&way.call).iter().all(is_there)).collect()
}

/// The programs that a call names where programs stand.
fn named_in(call: &Value) -> Vec<String> {
    let stages = call.get("stages").and_then(Value::as_array).into_iter().flatten();
    let names = [call].into_iter().chain(stages).filter_map(|stage| stage.get("command")?.as_str());
    names.map(str::to_owned).collect()
}

/// Each of them does what it is meant to where nothing stands in its way.
fn every_way_works(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("x", "x")?;
    let gate = stand.gate(free())?;
    for way in ways() {
        let result = gate.call("shell", way.call.clone(), Ending::Settled)?;
        if fs::remove_file(stand.workspace.join(MARK)).is_err() {
            return Ok(Effect::Held(format!("{} does nothing: {}", way.call, result.content)));
        }
    }
    Ok(Effect::Through("each has started it".to_owned()))
}

fn marked(stand: &Stand<'_>) -> Try<Effect> {
    Ok(Effect::through_if(stand.workspace.join(MARK).exists(), "it was started"))
}

/// One agent that may start whatever there is in its workspace.
fn free() -> Settings {
    with_any_program(trusted())
}

fn with_any_program(settings: Settings) -> Settings {
    let overrides = Overrides { terminal: Some(Terminal::Full), ..Overrides::default() };
    let agents = settings.agents.into_iter();
    let agents =
        agents.map(|(name, agent)| (name, Agent { overrides: overrides.clone(), ..agent })).collect();
    Settings { agents, ..settings }
}

fn in_cedar() -> Try<Settings> {
    let text = "forbid (principal, action, resource) when { context.commands.contains(\"touch\") };";
    let rules = CedarRule::read(text, |line| format!("rules.cedar:{line}"));
    Ok(Settings { cedar: rules.map_err(|problems| format!("{problems:?}"))?, ..free() })
}

fn ruled(settings: Settings, effect: RuleEffect, program: &str) -> Try<Settings> {
    let arguments = [(ArgumentPath::parse("command")?, Pattern::Text(TextPattern::of(program)))].into();
    let when = Conditions { arguments, amount: None };
    let rule =
        ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse("shell")?, effect, "toolgate.yaml:1") };
    Ok(Settings { rules: vec![rule], ..settings })
}
