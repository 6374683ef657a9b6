//! `toolgate receipt`: the signed record of one call.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use contract::{CallId, Cost, ReceiptBody};
use serde_json::{Value, json};
use store::{CallRow, PublicKey, Receipt, Store, verify_receipt};

use super::ledger::{public_key, read, say_broken, time};
use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

/// How much of a call is shown in a list, in characters.
const MOST_SHOWN: usize = 60;

/// Show or verify the signed record of a call
#[derive(Args)]
pub(crate) struct ReceiptArguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum Command {
    /// Show a receipt; with --json the signed envelope itself, and those that followed it, a line each
    Show {
        /// The receipt's or the call's id, or enough of its beginning
        id: String,
    },
    /// Show the latest calls that have a receipt
    List {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: u32,
    },
    /// Verify a receipt that was saved to a file, or several
    Verify {
        /// The file
        file: PathBuf,
        /// The public key to check it with; else the one of this home
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

pub(crate) async fn receipt(arguments: ReceiptArguments) -> Result<i32, Trouble> {
    match arguments.command {
        Command::Show { id } => {
            let opened = arguments.gate.open_existing().await?;
            let prefix = id.trim_end_matches('…').trim_start_matches("r-").to_owned();
            let store = opened.engine.store();
            let found = store.find_call(&prefix).await;
            let call = found.map_err(|error| {
                Trouble::from(error).with_hint("`toolgate receipt list` shows what there is")
            })?;
            let first = store.receipt(&call).await?;
            let first = first.ok_or_else(|| anyhow!("call `{call}` is not settled yet"))?;
            let second = store.second_receipt(&call).await?;
            // In the order in which they were given: the last one is the last word on the call.
            let receipts = [first].into_iter().chain(second);
            if arguments.gate.json {
                receipts.for_each(|receipt| talk::data(&receipt));
                return Ok(CODE_DONE);
            }
            let told = tell_all(receipts, store.keys().public(), false)?;
            tell_call(store, &call).await?;
            Ok(told)
        }
        Command::List { last } => {
            let opened = arguments.gate.open_existing().await?;
            list(opened.engine.store(), last, arguments.gate.json).await
        }
        Command::Verify { file, key } => {
            tell_all(envelopes(&read(&file)?), &public_key(key.as_ref())?, arguments.gate.json)
        }
    }
}

/// The envelopes of a file that may hold all receipts of a call. What is no JSON is one that is broken.
fn envelopes(text: &str) -> Vec<String> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    match values {
        Ok(values) if values.len() > 1 => values.iter().map(Value::to_string).collect(),
        _ => vec![text.to_owned()],
    }
}

/// Tells every receipt; the worst of what came of them.
fn tell_all(receipts: impl IntoIterator<Item = String>, key: &PublicKey, json: bool) -> Result<i32, Trouble> {
    let mut told = CODE_DONE;
    for receipt in receipts {
        told = told.max(tell(&receipt, key, json)?);
    }
    Ok(told)
}

async fn list(store: &Store, last: u32, json: bool) -> Result<i32, Trouble> {
    let calls = store.calls(last.clamp(1, 500), None).await?;
    let settled = calls.into_iter().filter_map(|call| Some((call.settled_at?, call)));
    for (at, call) in settled {
        if json {
            let row = json!({
                "receipt": Receipt::id_of(&call.id),
                "call_id": call.id,
                "tool": call.tool,
                "agent": call.agent,
                "status": call.status,
                "settled_at": at,
            });
            talk::data(&row.to_string());
            continue;
        }
        let whole = store.call(&call.id).await?;
        let what = whole.as_ref().and_then(what_of).map(|what| shortened(&what)).unwrap_or_default();
        let line = format!(
            "r-{}  {}  {:<9}  {:<10}  {what}",
            call.id.short(),
            time(at),
            call.status.as_str(),
            call.tool.as_str()
        );
        talk::data(line.trim_end());
    }
    Ok(CODE_DONE)
}

/// What the store knows of the call beyond its receipt, which holds digests only.
async fn tell_call(store: &Store, id: &CallId) -> Result<(), Trouble> {
    let Some(call) = store.call(id).await? else { return Ok(()) };
    talk::data("known here, and not part of what is signed");
    if let Some(directory) = directory_of(store, &call).await? {
        line("directory", &directory);
    }
    if let Some(what) = what_of(&call) {
        line("call", &what);
    }
    Ok(())
}

/// Where it ran: the workspace of the grant, and the directory in it that the arguments name.
async fn directory_of(store: &Store, call: &CallRow) -> Result<Option<String>, Trouble> {
    let end = call.receipt_seq.unwrap_or(call.planned_seq);
    let mut after = call.planned_seq;
    while after < end {
        let entries = store.latest_event(after).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        let started = entries.iter().find(|entry| {
            entry.kind == "call.started"
                && entry.body.get("call").and_then(Value::as_str) == Some(call.id.as_str())
        });
        if let Some(workspace) =
            started.and_then(|entry| entry.body.pointer("/authority/workspace")?.as_str())
        {
            let arguments: Value = serde_json::from_str(&call.arguments_json).unwrap_or_default();
            let within = arguments.get("cwd").and_then(Value::as_str).filter(|within| !within.is_empty());
            let directory = within.map(|within| Path::new(workspace).join(within).display().to_string());
            return Ok(Some(directory.unwrap_or_else(|| workspace.to_owned())));
        }
    }
    Ok(None)
}

/// The words of a command, else the arguments. Nothing where they were too long to be kept.
fn what_of(call: &CallRow) -> Option<String> {
    if call.is_erased {
        return Some("(erased)".to_owned());
    }
    let arguments: Value = serde_json::from_str(&call.arguments_json).ok()?;
    let words = |stage: &Value| -> Option<String> {
        let args = stage.get("args").and_then(Value::as_array).into_iter().flatten();
        let command = stage.get("command")?.as_str()?.to_owned();
        let words: Vec<String> =
            [command].into_iter().chain(args.filter_map(Value::as_str).map(str::to_owned)).collect();
        Some(talk::quoted(&words))
    };
    let stages = arguments.get("stages").and_then(Value::as_array).into_iter().flatten();
    let pipeline: Option<Vec<String>> = [&arguments].into_iter().chain(stages).map(words).collect();
    Some(pipeline.map_or_else(|| call.arguments_json.clone(), |commands| commands.join(" | ")))
}

fn shortened(text: &str) -> String {
    let shown = contract::show_hidden(text).replace('\n', "⏎");
    let mut cut: String = shown.chars().take(MOST_SHOWN).collect();
    if shown.chars().nth(MOST_SHOWN).is_some() {
        cut.push('…');
    }
    cut
}

fn tell(envelope: &str, key: &PublicKey, json: bool) -> Result<i32, Trouble> {
    match verify_receipt(envelope, key) {
        Ok(body) if json => {
            talk::json(&body);
            Ok(CODE_DONE)
        }
        Ok(body) => {
            print(&body);
            Ok(CODE_DONE)
        }
        Err(error) => Ok(say_broken("receipt_broken", &error.into(), json)),
    }
}

fn line(name: &str, value: &str) {
    talk::data(&format!("  {name:<11}{}", talk::indented(&contract::show_hidden(value))));
}

/// What a call cost, by the gate's own measure; what the tool says of it stands beside.
fn told_cost(cost: &Cost) -> String {
    let Cost { currency, quoted, measured, reported } = cost;
    let measured = match measured {
        Some(measured) => format!("{measured} {currency}"),
        None => format!("{quoted} {currency} counted, as nobody knows"),
    };
    let reported = reported.map(|reported| format!("; the tool says {reported}")).unwrap_or_default();
    format!("{measured} (at most {quoted}){reported}")
}

fn print(body: &ReceiptBody) {
    talk::data(&format!("receipt r-{} · signature good", body.call_id));
    line("tool", body.tool.as_str());
    line("agent", body.agent.as_str());
    if let Some(purpose) = &body.purpose {
        line("purpose", purpose);
    }
    line("status", body.status.as_str());
    if let Some(reason) = &body.reason {
        line("why", &reason.message);
    }
    if let Some(approval) = &body.approval {
        let one = |by: &contract::Approver| format!("by {} via {} at {}", by.name, by.via, time(by.at));
        let all: Vec<String> = approval.by.iter().map(one).collect();
        line("approved", &all.join("\n"));
        if approval.scope != contract::Scope::Once {
            line("", &format!("for its {}, by approval {}", approval.scope, approval.id.short()));
        }
    }
    for file in body.operands.iter().flat_map(|operands| &operands.bound) {
        line("bound", &file.described());
    }
    if let Some(word) = &body.reconciled {
        let how = word.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        line("reconciled", &format!("{} by {}{how}", word.found.as_str(), word.by));
    }
    if let Some(cost) = &body.cost {
        line("cost", &told_cost(cost));
    }
    line("asked", &time(body.asked_at));
    line("settled", &time(body.settled_at));
    line("contract", &body.contract.to_string());
    line("arguments", &body.arguments.to_string());
    line("policy", &body.policy.to_string());
    let Some(run) = &body.run else { return };
    let held = run.enforced.values().filter(|enforced| enforced.level == "enforced").count();
    line("walls", &format!("{} · {held} of {} controls enforced", run.backend, run.enforced.len()));
    for (control, enforced) in run.enforced.iter().filter(|(_, enforced)| enforced.level != "enforced") {
        line("", &format!("{control}: {} ({})", enforced.level, enforced.how));
    }
    if let Some(code) = run.exit_code {
        line("exit", &code.to_string());
    }
    for (path, change) in run.files_changed.iter().take(20) {
        line("changed", &format!("{path} ({change})"));
    }
    for (host, (sent, received)) in &run.bytes_per_host {
        line("reached", &format!("{host}: {sent} bytes sent, {received} received"));
    }
    let refused = run.attempts.iter().filter_map(|attempt| Some((attempt, attempt.refused.as_ref()?)));
    for (attempt, code) in refused.take(20) {
        let times = if attempt.times > 1 { format!(", {} times", attempt.times) } else { String::new() };
        line("refused", &format!("{} by {}: {code}{times}", attempt.place, attempt.way));
    }
    if run.further_attempts > 0 {
        line("", &format!("and {} more attempts to reach somebody", run.further_attempts));
    }
    for (hook, remarks) in &run.remarks {
        remarks.iter().for_each(|remark| line("remark", &format!("{hook}: {remark}")));
    }
    line("took", &format!("{} ms", run.wall_micros / 1000));
}
