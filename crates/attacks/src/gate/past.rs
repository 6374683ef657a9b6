//! Past calls that are looked at again: nothing of them happens, and nobody is fooled by what the tables say of them.

use std::fs;
use std::path::Path;

use contract::CallId;
use engine::{Candidate, Past, ReplayError, Simulated, ToolSince};
use policy::{CedarRule, Settings};
use serde_json::json;
use store::{Span, danger};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, standard, trusted};
use crate::launch::command_of;

/// A rule that fails for every call: none of them belongs to a project.
const FAILING: &str = "forbid (principal, action, resource) when { context.arguments.project == \"x\" };";

/// What clears the screen, writes the title, or turns the line around.
const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;all is well\u{7}\u{202e}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "replayed-for-real",
            "to look at a past call, or to try a policy on it, does nothing of it again and leaves no entry",
            |stand| paid_once_more(stand, Again::Called),
            |stand| paid_once_more(stand, Again::Looked),
        )
        .without("the look", |stand| paid_once_more(stand, Again::Called)),
        Case::new(
            "candidate-that-fails",
            "a rule of a candidate that cannot be evaluated counts as a refusal of each call, and permits are no rules",
            |stand| unnoticed(stand, trusted()),
            |stand| {
                for text in [
                    "permit (principal, action, resource);",
                    "@effect(\"allow\") forbid (principal, action, resource);",
                    "forbid (principal, action, resource) unless { true }; permit (principal, action, resource);",
                ] {
                    if rules(text).is_ok() {
                        return Ok(Effect::Through(format!("it is a rule: {text}")));
                    }
                }
                unnoticed(stand, Settings { cedar: rules(FAILING)?, ..trusted() })
            },
        )
        .without("the rule's failing", |stand| unnoticed(stand, trusted())),
        Case::new(
            "past-rewritten",
            "what somebody has changed of a past call in the database is told, and not decided as if it had been asked",
            |stand| {
                let (gate, [one, _]) = two_calls(stand)?;
                let simulated = simulate(&gate, stand, standard())?;
                Ok(Effect::through_if(simulated.found.decided == 2, format!("{one} is decided as it stands")))
            },
            rewrite,
        ),
        Case::new(
            "past-in-escapes",
            "what a past call had in it is shown without moving anybody's cursor",
            |_| Ok(Effect::through_if(has_escapes(ESCAPES), "a terminal would obey them")),
            |stand| {
                let gate = stand.gate(trusted())?;
                let call = json!({ "command": format!("x{ESCAPES}y"), "args": [ESCAPES] });
                let result = gate.call("shell", call, Ending::Settled)?;
                drop(gate);
                let agents = format!("agents:\n  {AGENT}: {{ autonomy: full }}\n");
                stand.place.file("home/toolgate.yaml", &agents)?;
                let denied = format!("{agents}    level: sandboxed\n").replace("{ autonomy: full }", "");
                let next = stand.place.file("next.yaml", &denied)?;
                let next = next.display().to_string();
                let mut shown = String::new();
                for arguments in [
                    &["policy", "simulate", "--policy", &next, "--drift"][..],
                    &["policy", "simulate", "--policy", &next, "--json"],
                    &["replay", result.call_id.as_str(), "--policy", &next],
                    &["replay", result.call_id.as_str(), "--json"],
                ] {
                    shown.push_str(&shipped(stand, arguments)?);
                }
                if !shown.contains(result.call_id.as_str()) {
                    return Err(format!("nothing of the call is shown: {shown}").into());
                }
                Ok(Effect::through_if(has_escapes(&shown), shown.escape_debug().to_string()))
            },
        )
        .on_what_is_shipped(),
    ]
}

/// How somebody has a payment made again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Called,
    Looked,
}

fn paid_once_more(stand: &Stand<'_>, again: Again) -> Try<Effect> {
    let book = stand.place.path("book");
    let gate = stand
        .open(Opening { tools: vec![Payment::into(book.clone()).tool()?], ..Opening::with(trusted()) })?;
    let mut request = gate.request("pay", json!({ "amount": 1 }))?;
    let first = gate.ask(request.clone(), Ending::Done)?;
    let size = runtime()?.block_on(gate.engine.store().ledger_size())?;
    if again == Again::Called {
        request.key = Some(contract::Key::parse("another")?);
        gate.ask(request, Ending::Done)?;
    } else {
        for _ in 0..2 {
            let replayed = runtime()?.block_on(gate.engine.replay(first.call_id.as_str(), None))?;
            if replayed.now.is_none() || replayed.tool_since != ToolSince::Same {
                return Err(format!("it was not decided again: {replayed:?}").into());
            }
            let simulated = simulate(&gate, stand, trusted())?;
            if simulated.found.decided != 1 {
                return Err(format!("it was not decided again: {simulated:?}").into());
            }
        }
        let now = runtime()?.block_on(gate.engine.store().ledger_size())?;
        if now != size {
            return Ok(Effect::Through(format!("the ledger has {} more entries", now - size)));
        }
    }
    let payments = fs::read_to_string(&book)?.lines().count();
    Ok(Effect::through_if(payments != 1, format!("{payments} payments")))
}

/// Through if a candidate says of every past call what the policy in force says.
fn unnoticed(stand: &Stand<'_>, candidate: Settings) -> Try<Effect> {
    stand.put("a", "x")?;
    let gate = stand.gate(trusted())?;
    gate.call("fs.read", json!({ "path": "a" }), Ending::Done)?;
    gate.call("fs.list", json!({}), Ending::Done)?;
    let found = simulate(&gate, stand, candidate)?.found;
    if found.decided != 2 {
        return Err(format!("not every call was decided: {found:?}").into());
    }
    let denied = found.tightened == 2 && found.rules_failed == 2;
    let codes: Vec<_> = found.groups.iter().filter_map(|group| group.candidate.code).collect();
    let is_told = !codes.is_empty() && codes.iter().all(|code| code.as_str() == "rule_failed");
    Ok(Effect::through_if(!(denied && is_told), format!("{found:?}")))
}

fn rules(text: &str) -> Try<Vec<CedarRule>> {
    let read = CedarRule::read(text, |line| format!("candidate.yaml:{line}"));
    read.map_err(|problems| format!("{problems:?}").into())
}

fn two_calls<'a>(stand: &'a Stand<'a>) -> Try<(Gate<'a>, [CallId; 2])> {
    stand.put("a", "x")?;
    stand.put("b", "x")?;
    let gate = stand.gate(standard())?;
    let one = gate.call("fs.read", json!({ "path": "a" }), Ending::Done)?.call_id;
    let other = gate.call("fs.read", json!({ "path": "b" }), Ending::Done)?.call_id;
    Ok((gate, [one, other]))
}

/// Each change is taken back afterwards, so that the ledger can be asked about the calls.
fn rewrite(stand: &Stand<'_>) -> Try<Effect> {
    let (gate, [one, other]) = two_calls(stand)?;
    let of = |table: &str, set: &str, id: &CallId, key: &str| {
        format!("UPDATE {table} SET {set} WHERE {key} = '{id}'")
    };
    let swap = vec![
        "CREATE TABLE aside AS SELECT call, sealed FROM private WHERE kind = 'asked'".to_owned(),
        format!(
            "UPDATE private SET sealed = (SELECT sealed FROM aside WHERE call <> private.call) \
             WHERE kind = 'asked' AND call IN ('{one}', '{other}')"
        ),
        "DROP TABLE aside".to_owned(),
    ];
    let changes: [(Vec<String>, Vec<String>); 4] = [
        (swap.clone(), swap),
        (
            vec![of("calls", "agent = 'somebody'", &one, "id")],
            vec![of("calls", &format!("agent = '{AGENT}'"), &one, "id")],
        ),
        (
            vec![of("calls", "tool = 'fs.delete'", &one, "id")],
            vec![of("calls", "tool = 'fs.read'", &one, "id")],
        ),
        (
            vec![of("calls", "asked_at = asked_at - 3600000", &one, "id")],
            vec![of("calls", "asked_at = asked_at + 3600000", &one, "id")],
        ),
    ];
    for (change, undo) in changes {
        runtime()?.block_on(danger::meddle(&stand.store_url(), &change))?;
        let simulated = simulate(&gate, stand, standard())?;
        let replayed = runtime()?.block_on(gate.engine.replay(one.as_str(), None));
        runtime()?.block_on(danger::meddle(&stand.store_url(), &undo))?;
        let altered = &simulated.found.not_decided.altered;
        if !altered.examples.contains(&one.to_string()) {
            return Ok(Effect::Through(format!("{change:?} is not noticed: {simulated:?}")));
        }
        if !matches!(replayed, Err(ReplayError::Altered { .. })) {
            return Ok(Effect::Through(format!("{change:?} is shown as it stands: {replayed:?}")));
        }
    }
    Ok(Effect::Held("each was told".to_owned()))
}

fn simulate(gate: &Gate<'_>, stand: &Stand<'_>, settings: Settings) -> Try<Simulated> {
    let mut tools = tools::built_in(&settings)?;
    tools.push(Payment::into(stand.place.path("book")).tool()?);
    let candidate = Candidate { settings, workspaces: [].into(), timeouts: [].into(), tools };
    let past = Past { span: Span::default(), tool: None, examples: 10, most_calls: None, longest: None };
    Ok(runtime()?.block_on(gate.engine.simulate(candidate, &past, |_, _| ()))?)
}

fn has_escapes(text: &str) -> bool {
    text.chars().any(|c| (c.is_control() && c != '\n') || contract::is_hidden(c))
}

/// What the binary that is shipped prints.
fn shipped(stand: &Stand<'_>, arguments: &[&str]) -> Try<String> {
    let shipped: &Path = stand.bench.settings.shipped.as_deref().ok_or("`toolgate` is not built")?;
    let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).into()).collect();
    let output = command_of(shipped, &arguments)
        .env_clear()
        .env("PATH", jail::DEFAULT_PATH)
        .env("TOOLGATE_HOME", stand.home())
        .current_dir(&stand.workspace)
        .output()?;
    if !output.status.success() {
        return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
