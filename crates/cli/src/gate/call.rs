//! `toolgate call`: one call through the gate, or many.

mod batch;

use std::io::Read;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use contract::{CallResult, CallStatus, Canonical, Code, Key, MAX_JSON_BYTES, TaskName, ToolName};
use engine::{Engine, Request};
use tokio_util::sync::CancellationToken;

use super::open::{Gate, agent};
use super::{CODE_BROKEN, CODE_DONE, CODE_REFUSED, CODE_TOOL_FAILED, CODE_WAITING, Trouble};
use crate::talk;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 the tool failed, 2 usage or internal, 3 refused, 4 waiting for approval.

Examples:
  toolgate call fs.read '{\"path\":\"README.md\"}'
  toolgate call shell '{\"command\":\"ls\",\"args\":[\"-la\"]}'
  toolgate call shell '{\"command\":\"rm\",\"args\":[\"-r\",\"build\"],\"profile\":\"mutate\",\"purpose\":\"clean\"}'
  echo '{\"path\":\".\"}' | toolgate call fs.list -
  echo '{\"tool\":\"fs.list\",\"arguments\":{}}' | toolgate call --batch";

/// Call a tool
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CallArguments {
    /// The tool, such as fs.read or shell
    #[arg(required_unless_present = "batch")]
    tool: Option<String>,

    /// Its arguments as JSON; - reads them from standard input
    #[arg(default_value = "{}")]
    arguments: String,

    /// Make many calls at once: one JSON object a line on standard input, one answer a line
    #[arg(long, conflicts_with_all = ["tool", "key"])]
    batch: bool,

    #[command(flatten)]
    who: Who,

    /// The same key twice is the same call
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// How long to wait for an approval; else as configured, or 45
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// On whose behalf a call is made.
#[derive(Args, Clone)]
pub(crate) struct Who {
    /// The agent that asks
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) agent: String,

    /// The task it belongs to
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) purpose: Option<String>,
}

impl Who {
    /// The request for a tool on this behalf.
    pub(crate) fn request(&self, tool: &str, arguments: &str, key: Option<&str>) -> Result<Request, Trouble> {
        let text = match arguments {
            "-" => read_standard_input()?,
            given => given.to_owned(),
        };
        let arguments =
            Canonical::parse(&text).context("the arguments are not understood").map_err(|error| {
                let examples =
                    ToolName::parse(tool).map(|tool| format!("; `toolgate tools show {tool}` has examples"));
                Trouble::from(error).with_hint(format!(
                    "arguments are a JSON object, such as '{{\"path\":\"README.md\"}}'{}",
                    examples.unwrap_or_default()
                ))
            })?;
        let purpose = Request::purpose_of(self.purpose.as_deref(), &arguments);
        Ok(Request {
            agent: agent(&self.agent)?,
            task: self.task.as_deref().map(TaskName::parse).transpose()?,
            tool: tool.to_owned(),
            arguments,
            key: key.map(Key::parse).transpose()?,
            purpose,
            proposer: None,
        })
    }
}

fn read_standard_input() -> Result<String, Trouble> {
    let mut text = String::new();
    let most = MAX_JSON_BYTES as u64 + 1;
    std::io::stdin().take(most).read_to_string(&mut text).context("cannot read the arguments")?;
    Ok(text)
}

pub(crate) async fn call(arguments: CallArguments) -> Result<i32, Trouble> {
    let Some(tool) = &arguments.tool else { return batch::call_all(arguments).await };
    let request = arguments.who.request(tool, &arguments.arguments, arguments.key.as_deref())?;
    let opened = arguments.gate.open().await?;
    let wait = patience(&opened.engine, arguments.wait, 24 * 3600);
    let result = make(&opened.engine, request, wait, arguments.gate.json).await?;
    show(&result, arguments.gate.json);
    Ok(code_of(&result))
}

/// Ends a call when whoever waits for it interrupts.
pub(crate) fn cancelled_by_interrupt() -> CancellationToken {
    let cancel = CancellationToken::new();
    let on_interrupt = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_interrupt.cancel();
        }
    });
    cancel
}

/// How long a caller waits: as it says, else as is configured.
pub(crate) fn patience(engine: &Engine, said: Option<u64>, most: u64) -> Duration {
    let configured =
        Duration::from_millis(u64::try_from(engine.settings().asking.wait_for).unwrap_or_default());
    said.map_or(configured, Duration::from_secs).min(Duration::from_secs(most))
}

/// Makes a call, and says at once if it has to wait. An interrupt ends it.
pub(crate) async fn make(
    engine: &Engine,
    request: Request,
    wait: Duration,
    quiet: bool,
) -> Result<CallResult, Trouble> {
    let cancel = cancelled_by_interrupt();
    let first = engine.call(request.clone(), Duration::ZERO, cancel.clone()).await;
    if first.status != CallStatus::Waiting {
        return Ok(first);
    }
    if !quiet {
        say_waiting(&first);
    }
    if wait.is_zero() {
        return Ok(first);
    }
    if !quiet {
        talk::say(&format!("  waits    {} s for an answer; `--wait 0` does not", wait.as_secs()));
    }
    // Joined by its id: if it is denied meanwhile, nobody is asked anew.
    let joined = engine.collect(&request.agent, &first.call_id, wait, cancel).await?;
    Ok(joined.unwrap_or(first))
}

fn say_waiting(result: &CallResult) {
    if let Some(approval) = &result.approval {
        // A hook may have put into it what an agent said.
        talk::say(&format!("waiting: {}", talk::indented(&approval.why)));
        talk::say(&format!("  approve  toolgate approve {}", approval.id.short()));
        talk::say(&format!("  deny     toolgate deny {} --reason TEXT", approval.id.short()));
    }
}

pub(crate) fn show(result: &CallResult, json: bool) {
    if json {
        talk::json(result);
        return;
    }
    match result.status {
        CallStatus::Completed
        | CallStatus::Failed
        | CallStatus::Cancelled
        | CallStatus::Planned
        | CallStatus::Running => {
            let failed = result.reason.as_ref().filter(|_| result.status != CallStatus::Completed);
            // What is said of a failure anyway is not told twice.
            let is_told = failed.is_some_and(|reason| {
                let hint = reason.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                let content = result.content.trim_end();
                content == reason.message || content == format!("{}{hint}", reason.message)
            });
            if !result.content.is_empty() && !is_told {
                talk::data(result.content.trim_end_matches('\n'));
            }
            if let Some(reason) = failed {
                talk::say(&format!("{}: {}", result.status.as_str(), talk::indented(&reason.message)));
                if let Some(hint) = &reason.hint {
                    talk::hint(hint);
                }
            }
        }
        CallStatus::Waiting => {
            talk::say(&format!("  call     {}", result.call_id));
            talk::hint(
                "once it is approved, make the same call again: it joins this one; if it is denied, that asks anew",
            );
        }
        CallStatus::Refused | CallStatus::Unknown => {
            let reason = result.reason.as_ref();
            let message = reason.map(ToString::to_string).unwrap_or_default();
            talk::say(&format!("{}: `{}`", result.status.as_str(), result.tool));
            talk::say(&format!("  why      {}", talk::indented(&message)));
            talk::say(&format!("  code     {}", reason.map_or("", |reason| reason.code.as_str())));
            if let Some(wait) = reason.and_then(|reason| reason.retry_after_ms) {
                talk::say(&format!("  again in {}", until_again(wait)));
            }
            if let Some(hint) = reason.and_then(|reason| reason.hint.as_ref()) {
                talk::hint(hint);
            }
            let told = reason.and_then(|reason| where_arguments_are_told(reason.code, result.tool.as_str()));
            told.iter().for_each(|hint| talk::hint(hint));
        }
    }
    for artifact in &result.artifacts {
        let name = talk::indented(&artifact.name);
        talk::say(&format!(
            "  artifact {name} ({} bytes): toolgate artifact {}",
            artifact.bytes, artifact.digest
        ));
    }
    if let Some(receipt) = &result.receipt {
        talk::say(&format!("  receipt  {receipt}"));
    }
}

/// Where people see what a tool takes, if that was not what it got.
pub(super) fn where_arguments_are_told(code: Code, tool: &str) -> Option<String> {
    (code == Code::BadArguments).then(|| format!("`toolgate tools show {tool}` has it, with examples"))
}

/// Rounded up: a call that comes a moment too early is refused again.
fn until_again(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    talk::lasting(if seconds < 120 { seconds } else { seconds.next_multiple_of(60) })
}

pub(crate) fn code_of(result: &CallResult) -> i32 {
    match result.status {
        CallStatus::Completed if !result.is_error => CODE_DONE,
        CallStatus::Completed | CallStatus::Failed | CallStatus::Cancelled => CODE_TOOL_FAILED,
        CallStatus::Refused => CODE_REFUSED,
        CallStatus::Planned | CallStatus::Waiting | CallStatus::Running => CODE_WAITING,
        CallStatus::Unknown => CODE_BROKEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_try_again_is_told_in_hours_and_minutes_and_never_too_early() {
        let told = [200, 59_001, 120_001, 15_148_000, 7_200_000].map(until_again);
        assert_eq!(told, ["1 s", "60 s", "3 min", "4 h 13 min", "2 h"]);
    }
}
