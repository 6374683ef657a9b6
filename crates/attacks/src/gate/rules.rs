//! Rules that operators write, and calls that say the same in other words.

use std::fs;

use policy::{ApprovalRule, ArgumentPath, Conditions, Pattern, RuleEffect, Settings, ToolGlob};
use serde_json::{Value, json};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand, standard, trusted};

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
        json!({ "command": "nice", "args": ["-n", "5", "env", "-i", "touch", MARK], "profile": "mutate" }),
        json!({ "command": "sh", "args": ["-c", format!("t\"\"ouch {MARK}")], "profile": "mutate" }),
    ]
}

fn denying(tool: &str, argument: &str, pattern: &str) -> Try<Settings> {
    ruled(trusted(), RuleEffect::Deny, tool, argument, pattern)
}

fn ruled(settings: Settings, effect: RuleEffect, tool: &str, argument: &str, pattern: &str) -> Try<Settings> {
    let arguments = [(ArgumentPath::parse(argument)?, Pattern::Text(pattern.to_owned()))].into();
    let when = Conditions { arguments, amount: None };
    let rule =
        ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse(tool)?, effect, "toolgate.yaml:1") };
    Ok(Settings { rules: vec![rule], ..settings })
}
