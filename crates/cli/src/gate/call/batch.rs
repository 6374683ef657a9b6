//! `toolgate call --batch`: many calls at once, a line each.

use std::io::Read;

use anyhow::{Context, anyhow};
use contract::{Canonical, MAX_JSON_BYTES};
use engine::{AT_ONCE, MOST_TOGETHER, Request};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{CallArguments, Who, cancelled_by_interrupt, code_of};
use crate::gate::{CODE_DONE, Trouble};
use crate::talk;

/// As much as is read, whatever the number of calls.
const MOST_BYTES: u64 = 4 * MAX_JSON_BYTES as u64;

/// One line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    key: Option<String>,
}

/// Makes all calls, prints an answer for each line in its place, and exits as the worst of them would.
pub(super) async fn call_all(arguments: CallArguments) -> Result<i32, Trouble> {
    let requests = read(&arguments.who)?;
    let opened = arguments.gate.open().await?;
    let wait = super::patience(&opened.engine, arguments.wait, 24 * 3600);
    let batch = opened.engine.call_all(requests, AT_ONCE, wait, cancelled_by_interrupt()).await;
    for result in &batch.results {
        talk::line(result);
    }
    if !batch.panicked.is_empty() {
        let lines: Vec<String> = batch.panicked.iter().map(|place| (place + 1).to_string()).collect();
        talk::warning(&format!(
            "code failed in the calls of lines {}; what they did is unknown",
            lines.join(", ")
        ));
    }
    Ok(batch.results.iter().map(code_of).max_by_key(|code| weight(*code)).unwrap_or(CODE_DONE))
}

/// What people need to hear of first.
fn weight(code: i32) -> u8 {
    use crate::gate::{CODE_BROKEN, CODE_REFUSED, CODE_TOOL_FAILED, CODE_WAITING};
    match code {
        CODE_BROKEN => 4,
        CODE_TOOL_FAILED => 3,
        CODE_REFUSED => 2,
        CODE_WAITING => 1,
        _ => 0,
    }
}

/// Every line, or what is wrong with the first that is not understood: then nothing is called.
fn read(who: &Who) -> Result<Vec<Request>, Trouble> {
    let mut text = String::new();
    let read =
        std::io::stdin().take(MOST_BYTES + 1).read_to_string(&mut text).context("cannot read the calls")?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if read as u64 > MOST_BYTES || lines.len() > MOST_TOGETHER {
        return Err(anyhow!("{MOST_TOGETHER} calls of {MOST_BYTES} bytes in all are taken together").into());
    }
    let request = |(at, line): (usize, &&str)| -> anyhow::Result<Request> {
        let place = || format!("line {} is not a call", at + 1);
        let value = Canonical::parse(line).with_context(place)?.into_value();
        let line: Line = serde_json::from_value(value).with_context(place)?;
        let arguments = Value::Object(line.arguments).to_string();
        // `-` reads standard input, and an object is never `-`.
        let request = who.request(&line.tool, &arguments, line.key.as_deref());
        request.map_err(|trouble| trouble.error.context(place()))
    };
    Ok(lines.iter().enumerate().map(request).collect::<anyhow::Result<Vec<Request>>>()?)
}
