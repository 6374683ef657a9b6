//! `wrk`, and what it found.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::gate::{Home, Up};

/// What is asked of a gate.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) at_once: usize,
    pub(super) seconds: u32,
    /// Whose calls they are, in turn.
    pub(super) tokens: &'a [String],
    /// The call, without its task.
    pub(super) call: &'a str,
}

/// What came of it.
pub(super) struct Found {
    pub(super) calls: u64,
    pub(super) seconds: f64,
    /// In milliseconds, as the next one.
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) errors: u64,
}

pub(super) fn is_there() -> bool {
    Command::new("wrk").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

pub(super) fn run(up: &Up, home: &Home, asked: &Asked<'_>) -> Result<Found> {
    let script = home.put("load.lua", &script(asked))?;
    let threads = asked.at_once.min(2).to_string();
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads", &threads, "--connections", &asked.at_once.to_string(), "--timeout", "20s"]);
    wrk.args(["--duration", &format!("{}s", asked.seconds), "--script", &script]);
    wrk.arg(format!("http://{}/v1/calls", up.address)).stdin(Stdio::null()).stderr(Stdio::null());
    let output = wrk.output().context("`wrk` does not start")?;
    ensure!(output.status.success(), "`wrk` failed");
    let text = String::from_utf8(output.stdout)?;
    let told = text.lines().find_map(|line| line.strip_prefix("found ")).context("`wrk` tells nothing")?;
    let told: Value = serde_json::from_str(told)?;
    let number = |name: &str| told.get(name).and_then(Value::as_f64).with_context(|| format!("no `{name}`"));
    Ok(Found {
        calls: number("calls")? as u64,
        seconds: number("microseconds")? / 1e6,
        p50: number("p50")? / 1e3,
        p99: number("p99")? / 1e3,
        errors: number("errors")? as u64,
    })
}

/// Each request is of the next agent, for one of a few tasks of its own.
fn script(asked: &Asked<'_>) -> String {
    let tokens: Vec<String> = asked.tokens.iter().map(|token| format!("\"{token}\"")).collect();
    format!(
        r#"local tokens = {{ {} }}
local next = 0
wrk.method = "POST"
request = function()
  next = next + 1
  local headers = {{ ["Content-Type"] = "application/json" }}
  headers["Authorization"] = "Bearer " .. tokens[next % #tokens + 1]
  local task = math.floor(next / #tokens) % 2
  return wrk.format("POST", nil, headers, '{{"task":"load-' .. task .. '",{}}}')
end
done = function(summary, latency, requests)
  local errors = summary.errors
  local sum = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('found {{"calls":%d,"microseconds":%d,"p50":%d,"p99":%d,"errors":%d}}\n',
    summary.requests - errors.status, summary.duration, latency:percentile(50), latency:percentile(99), sum))
end
"#,
        tokens.join(", "),
        asked.call
    )
}
