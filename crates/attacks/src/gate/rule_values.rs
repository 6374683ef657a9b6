//! Rules in Cedar, and calls whose names, keys and values are made to slip past them.

use policy::{CedarRule, Settings};
use serde_json::{Value, json};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, runtime, trusted};

/// What an attack leaves behind in the workspace if it works.
const MARK: &str = "PWNED";

const NO_WRITING: &str = "forbid (principal, action, resource == Tool::\"fs.write\");\n\
                          forbid (principal, action, resource) when { context has hosts && context.hosts.contains(\"example.com\") };";
const NOT_LONG: &str = "forbid (principal, action, resource == Tool::\"shell\") \
                        when { context.arguments has timeout && context.arguments.timeout > 60 };";
const NO_VARIABLES: &str =
    "forbid (principal, action, resource == Tool::\"shell\") when { context.arguments has env };";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "cedar-look-alikes",
            "a name that looks like the one in a rule is that name or none",
            |stand| {
                let gate = stand.gate(trusted())?;
                gate.call("fs.write", writing(), Ending::Done)?;
                marked(stand)
            },
            |stand| {
                let gate = stand.gate(ruled(NO_WRITING)?)?;
                gate.call("fs.write", writing(), Ending::Refused("denied_by_rule"))?;
                // Cyrillic, full-width, with what cannot be seen, in capitals.
                for name in ["fs.wr\u{456}te", "\u{ff46}s.write", "fs.write\u{200b}", "FS.WRITE", "fs\u{3002}write"] {
                    gate.call(name, writing(), Ending::Refused("unknown_tool"))?;
                }
                for host in ["example.com", "EXAMPLE.com", "example.com.", "\u{ff45}xample.com", "example\u{3002}com"] {
                    if let Some(through) = not_denied(&gate, &format!("https://{host}/"))? {
                        return Ok(Effect::Through(through));
                    }
                }
                marked(stand)
            },
        )
        .without("the rule", |stand| {
            stand.gate(trusted())?.call("fs.write", writing(), Ending::Done)?;
            marked(stand)
        }),
        Case::new(
            "cedar-odd-numbers",
            "a number is the same to a rule and to the tool, however it is written, or the call is refused",
            |stand| {
                stand.gate(trusted())?.call("shell", touching("timeout", json!(61)), Ending::Done)?;
                marked(stand)
            },
            |stand| {
                let gate = stand.gate(ruled(NOT_LONG)?)?;
                for over in [json!(61), json!(61.0), json!(1e2), json!(600)] {
                    gate.call("shell", touching("timeout", over), Ending::Refused("denied_by_rule"))?;
                }
                for odd in [json!(-1), json!(61.5), json!("61"), json!(true), json!([61]), json!({ "": 61 })] {
                    gate.call("shell", touching("timeout", odd), Ending::Refused("bad_arguments"))?;
                }
                // What not everybody reads alike is no request at all.
                for odd in [json!(1e300), json!(u64::MAX), json!(i64::MIN)] {
                    if let Ok(request) = gate.request("shell", touching("timeout", odd)) {
                        gate.ask(request, Ending::Refused("bad_arguments"))?;
                    }
                }
                marked(stand)
            },
        )
        .without("the rule", |stand| {
            stand.gate(trusted())?.call("shell", touching("timeout", json!(61)), Ending::Done)?;
            marked(stand)
        }),
        Case::new(
            "cedar-odd-keys",
            "a key means itself to a rule, whatever it would mean to a reader of Cedar's JSON, and no other key stands in for it",
            |stand| {
                stand.gate(trusted())?.call("shell", touching("env", json!({ "A": "b" })), Ending::Done)?;
                marked(stand)
            },
            |stand| {
                let gate = stand.gate(ruled(NO_VARIABLES)?)?;
                for name in ["A", "__entity", "__extn", "__expr", "type", "id"] {
                    let variables = json!({ name: "Tool::\"fs.read\"" });
                    gate.call("shell", touching("env", variables), Ending::Refused("denied_by_rule"))?;
                }
                for key in ["Env", "ENV", "env ", "\u{435}nv", "env\u{200b}", "__entity", "arguments"] {
                    let call = touching(key, json!({ "A": "b" }));
                    gate.call("shell", call, Ending::Refused("bad_arguments"))?;
                }
                marked(stand)
            },
        )
        .without("the rule", |stand| {
            stand.gate(trusted())?.call("shell", touching("env", json!({ "A": "b" })), Ending::Done)?;
            marked(stand)
        }),
    ]
}

fn writing() -> Value {
    json!({ "path": MARK, "content": "x" })
}

/// A command that leaves its mark, with one more argument.
fn touching(key: &str, value: Value) -> Value {
    json!({ "command": "touch", "args": [MARK], "profile": "mutate", key: value })
}

fn marked(stand: &Stand<'_>) -> Try<Effect> {
    Ok(Effect::through_if(stand.workspace.join(MARK).exists(), "it was done"))
}

/// What would be decided of a request to an address, if that is anything but a refusal.
fn not_denied(gate: &Gate<'_>, url: &str) -> Try<Option<String>> {
    let request = gate.request("http.request", json!({ "method": "GET", "url": url }))?;
    let explained = runtime()?.block_on(gate.engine.explain(&request, engine::Audience::Agent))?;
    Ok((explained.verdict != "deny").then(|| format!("{url}: {}", explained.verdict)))
}

fn ruled(text: &str) -> Try<Settings> {
    let rules = CedarRule::read(text, |line| format!("rules.cedar:{line}"));
    let cedar = rules.map_err(|problems| format!("{problems:?}"))?;
    Ok(Settings { cedar, ..trusted() })
}
