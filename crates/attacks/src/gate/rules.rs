//! Rules that operators write, and calls that say the same in other words.

use std::fs;

use engine::AnswerRefused;
use policy::{
    ApprovalRule, ArgumentPath, CedarRule, Conditions, Pattern, RuleEffect, Settings, TextPattern, ToolGlob,
};
use serde_json::{Value, json};
use store::Vote;

use crate::Try;
use crate::case::Effect;
use crate::gate::approvals::{answered, end};
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand, runtime, standard, trusted};

/// What stands in the file before an attack.
const BEFORE: &str = "as it was";

/// What an attack leaves behind in the workspace if it works.
const MARK: &str = "PWNED";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "rule-by-spelling",
            "a rule about a path or a program is about each of its spellings",
            |stand| {
                write_all(stand, trusted(), Ending::Done)?;
                overwritten(stand)
            },
            |stand| {
                write_all(stand, denying("fs.*", "path", "infra/*")?, Ending::Refused("denied_by_rule"))?;
                touch_all(stand, denying("shell", "command", "touch")?)?;
                match stand.workspace.join(MARK).exists() {
                    true => Ok(Effect::Through("the program was started".to_owned())),
                    false => overwritten(stand),
                }
            },
        )
        .without("the rule", |stand| {
            touch_all_as(stand, trusted(), Ending::Settled)?;
            Ok(Effect::through_if(stand.workspace.join(MARK).exists(), "it was started"))
        }),
        Case::new(
            "cedar-error-skips",
            "a rule in Cedar that a call makes fail is no rule that is skipped",
            |stand| {
                touch_all_as(stand, trusted(), Ending::Settled)?;
                delete(stand, trusted(), Ending::Done)?;
                marked_or_deleted(stand)
            },
            |stand| {
                // The program is told by its name, however it is spelt; what cannot be told makes the rule fail.
                let gate = stand.gate(in_cedar(
                    "forbid (principal, action, resource) when { context.commands.contains(\"touch\") };",
                )?)?;
                let untold = touches().len().saturating_sub(1);
                for (place, call) in touches().into_iter().enumerate() {
                    let code = if place == untold { "rule_failed" } else { "denied_by_rule" };
                    gate.call("shell", call, Ending::Refused(code))?;
                }
                drop(gate);
                delete(stand, in_cedar(CARELESS)?, Ending::Refused("rule_failed"))?;
                marked_or_deleted(stand)
            },
        )
        .without("the rule's failing", |stand| {
            let guarded = CARELESS.replace("when {", "when { context.arguments has recursive &&");
            delete(stand, in_cedar(&guarded)?, Ending::Done)?;
            marked_or_deleted(stand)
        }),
        Case::new(
            "odd-blanks",
            "a blank that is no space is seen as such by whoever decides",
            |_| {
                Ok(Effect::through_if(
                    "\u{a0}\u{2800}".chars().all(|c| !contract::is_hidden(c)),
                    "they look empty",
                ))
            },
            |stand| {
                let gate = stand.gate(standard())?;
                let call = json!({ "command": "rm", "args": ["a\u{a0}b", "\u{2800}", "c\u{3000}"], "profile": "mutate" });
                let (call, _) = gate.waits("shell", call)?;
                let shown = runtime()?.block_on(gate.engine.waiting())?;
                let shown = shown.first().ok_or("nothing waits")?;
                let words = shown.command.clone().unwrap_or_default().concat() + &shown.shown_arguments;
                end(&gate, &call, Vote::Reject, "rejected")?;
                Ok(Effect::through_if(words.chars().any(contract::is_odd_blank), words))
            },
        ),
        Case::new(
            "approved-unseen",
            "what no list shows whole is approved by nobody",
            |stand| approve_long(stand, 0),
            |stand| approve_long(stand, 2),
        )
        .without("the others before it", |stand| approve_long(stand, 1)),
        Case::new(
            "approved-first-of-many",
            "a rule that frees one program frees no other that is started with it",
            |stand| {
                stand.bare("sh", &["-c", &format!("true | touch {MARK}")], &stand.workspace)?;
                Ok(Effect::through_if(stand.workspace.join(MARK).exists(), "it was started"))
            },
            |stand| {
                let gate = stand.gate(ruled(standard(), RuleEffect::Approve, "shell", "command", "true")?)?;
                gate.call("shell", json!({ "command": "true", "profile": "mutate" }), Ending::Done)?;
                let piped = json!({
                    "command": "true",
                    "stages": [{ "command": "touch", "args": [MARK] }],
                    "profile": "mutate",
                });
                let result = gate.send(gate.request("shell", piped)?)?;
                Ok(Effect::through_if(stand.workspace.join(MARK).exists(), result.content))
            },
        ),
    ]
}

/// A rule whose author has not thought of calls that leave an argument out.
const CARELESS: &str =
    "forbid (principal, action, resource == Tool::\"fs.delete\") when { context.arguments.recursive };";

fn in_cedar(text: &str) -> Try<Settings> {
    let rules = CedarRule::read(text, |line| format!("rules.cedar:{line}"));
    let cedar = rules.map_err(|problems| format!("{problems:?}"))?;
    Ok(Settings { cedar, ..trusted() })
}

/// Leaves out what the rule looks at.
fn delete(stand: &Stand<'_>, settings: Settings, ending: Ending) -> Try<()> {
    stand.put("precious", BEFORE)?;
    stand.gate(settings)?.call("fs.delete", json!({ "path": "precious" }), ending)?;
    Ok(())
}

fn marked_or_deleted(stand: &Stand<'_>) -> Try<Effect> {
    let is_marked = stand.workspace.join(MARK).exists();
    Ok(Effect::through_if(is_marked || !stand.workspace.join("precious").exists(), "it was done"))
}

/// Asks for something after so many others that are long, and says yes to it.
fn approve_long(stand: &Stand<'_>, others: usize) -> Try<Effect> {
    stand.put("precious", "x")?;
    let gate = stand.gate(standard())?;
    let long = |command: &str, length: usize, mark: usize| {
        let padding = "x".repeat(length);
        json!({ "command": command, "args": ["precious"], "env": { "A": padding, "B": mark.to_string() }, "profile": "mutate" })
    };
    let mut before = Vec::new();
    for mark in 0..others {
        before.push(gate.waits("shell", long("rm", 600_000, mark))?.0);
    }
    let (call, view) = gate.waits("shell", long("rm", 40_000, 9))?;
    match answered(&gate, view.id.as_str(), Vote::Approve, &gate.operator()?)? {
        Ok(()) => {
            gate.call("shell", long("rm", 40_000, 9), Ending::Done)?;
        }
        Err(AnswerRefused::NotShown) => end(&gate, &call, Vote::Reject, "rejected")?,
        Err(other) => return Err(other.into()),
    }
    before.iter().try_for_each(|call| end(&gate, call, Vote::Reject, "rejected"))?;
    Ok(Effect::through_if(!stand.workspace.join("precious").exists(), "what nobody had seen whole"))
}

fn write_all(stand: &Stand<'_>, settings: Settings, ending: Ending) -> Try<()> {
    stand.put("infra/main.tf", BEFORE)?;
    let gate = stand.gate(settings)?;
    for path in ["infra/main.tf", "./infra/main.tf", "infra//main.tf", "infra/./main.tf", ".//infra/main.tf"]
    {
        gate.call("fs.write", json!({ "path": path, "content": MARK }), ending)?;
    }
    gate.call("fs.delete", json!({ "path": "infra/", "recursive": true }), ending)?;
    Ok(())
}

fn overwritten(stand: &Stand<'_>) -> Try<Effect> {
    let now = fs::read_to_string(stand.workspace.join("infra/main.tf")).unwrap_or_default();
    Ok(Effect::through_if(now != BEFORE, now))
}

fn touch_all(stand: &Stand<'_>, settings: Settings) -> Try<()> {
    touch_all_as(stand, settings, Ending::Refused("denied_by_rule"))
}

fn touch_all_as(stand: &Stand<'_>, settings: Settings, ending: Ending) -> Try<()> {
    let gate = stand.gate(settings)?;
    for call in touches() {
        gate.call("shell", call, ending)?;
    }
    Ok(())
}

fn touches() -> Vec<Value> {
    vec![
        json!({ "command": "touch", "args": [MARK], "profile": "mutate" }),
        json!({ "command": "/usr/bin/touch", "args": [MARK], "profile": "mutate" }),
        json!({ "command": "true", "stages": [{ "command": "touch", "args": [MARK] }], "profile": "mutate" }),
        json!({ "command": "env", "args": ["touch", MARK], "profile": "mutate" }),
        json!({ "command": "timeout", "args": ["-k", "5", "9", "env", "-i", "touch", MARK], "profile": "mutate" }),
        json!({ "command": "sh", "args": ["-c", format!("t\"\"ouch {MARK}")], "profile": "mutate" }),
    ]
}

fn denying(tool: &str, argument: &str, pattern: &str) -> Try<Settings> {
    ruled(trusted(), RuleEffect::Deny, tool, argument, pattern)
}

fn ruled(settings: Settings, effect: RuleEffect, tool: &str, argument: &str, pattern: &str) -> Try<Settings> {
    let arguments = [(ArgumentPath::parse(argument)?, Pattern::Text(TextPattern::of(pattern)))].into();
    let when = Conditions { arguments, amount: None };
    let rule =
        ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse(tool)?, effect, "toolgate.yaml:1") };
    Ok(Settings { rules: vec![rule], ..settings })
}
