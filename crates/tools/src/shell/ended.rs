//! What came of a command: its output, its code, and why it did not come to its end.

use std::time::Duration;

use contract::{Digest, Output, Reason, RunFacts};
use jail::{Limit, Outcome, Report};

use super::show::{SHOWN, cut};
use super::types::{ShellOutput, StageOutput};
use crate::inside::{Chunk, End, Pipeline, PipelineError, Stage, StageEnd};
use crate::path::shown;
use crate::tool::{Ran, taken_back};

/// For what is said besides a command's own output.
const ROOM: usize = 600;

/// What a worker said, put together.
#[derive(Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<Result<End, PipelineError>>,
}

impl Said {
    fn of(report: &Report) -> Said {
        let mut said = Said::default();
        for chunk in Chunk::read_all(&report.stdout.bytes) {
            match chunk {
                Chunk::Stdout(bytes) => said.stdout.extend(bytes),
                Chunk::Stderr(bytes) => said.stderr.extend(bytes),
                Chunk::End(end) => {
                    said.end = Some(end);
                    break;
                }
            }
        }
        said
    }
}

/// What came of a pipeline, put together from what its worker said and what was seen from outside.
pub(super) fn conclude(report: &Report, pipeline: &Pipeline, timeout: Duration, mut facts: RunFacts) -> Ran {
    let said = Said::of(report);
    let whole: Vec<u8> = said.stdout.iter().chain(&said.stderr).copied().collect();
    facts.output = Some(Digest::of(&whole));
    let (end, failure) = match (&report.outcome, said.end.clone()) {
        (Outcome::Exit(0), Some(Ok(end))) if end.stages.len() == pipeline.stages.len() => (Some(end), None),
        (Outcome::Exit(0), Some(Err(error))) => (None, Some(not_run(&error, pipeline))),
        (outcome, _) => (None, Some(stopped(outcome, timeout))),
    };
    let timed_out = report.outcome == Outcome::Stopped(Limit::Timeout);
    let structured = structured(&said, end.as_ref(), pipeline, timed_out);
    facts.exit_code = structured.exit_code;
    facts.signal = structured.signal;
    let content = content_of(&structured, failure.as_ref());
    let is_error = failure.is_some() || structured.exit_code != Some(0);
    let mut artifacts = Vec::new();
    if structured.truncated {
        let streams = [("stdout", said.stdout), ("stderr", said.stderr)];
        artifacts
            .extend(streams.into_iter().filter(|(_, b)| !b.is_empty()).map(|(name, b)| (name.to_owned(), b)));
    }
    let structured = serde_json::to_value(structured).unwrap_or_default();
    Ran { output: Output { content, is_error, structured, artifacts }, facts, failure }
}

fn structured(said: &Said, end: Option<&End>, pipeline: &Pipeline, timed_out: bool) -> ShellOutput {
    let totals =
        end.map_or((said.stdout.len() as u64, said.stderr.len() as u64), |end| (end.stdout, end.stderr));
    // Complaints are short; what they leave is for the output.
    let stderr = cut(&said.stderr, totals.1, SHOWN / 3, "stderr");
    let stdout = cut(&said.stdout, totals.0, SHOWN - stderr.text.len().min(SHOWN / 3) - ROOM, "stdout");
    let ends = end.map(|end| end.stages.as_slice()).unwrap_or_default();
    let (exit_code, signal) = code_of(ends);
    let stage = |(stage, end): (&Stage, &StageEnd)| StageOutput {
        command: stage.command.clone(),
        exit_code: end.exit_code,
        signal: end.signal,
    };
    ShellOutput {
        exit_code,
        signal,
        timed_out,
        truncated: stdout.truncated || stderr.truncated,
        stdout: stdout.text,
        stderr: stderr.text,
        stdout_bytes: totals.0,
        stderr_bytes: totals.1,
        stages: pipeline.stages.iter().zip(ends).map(stage).collect(),
    }
}

/// The code of the last command that did not go well. One before the last that nobody listened to any more has done
/// its part: `yes | head` went well.
pub(super) fn code_of(ends: &[StageEnd]) -> (Option<i32>, Option<i32>) {
    const SIGPIPE: i32 = 13;
    let last = ends.len().saturating_sub(1);
    let mut code = (!ends.is_empty()).then_some(0);
    let mut signal = None;
    for (index, end) in ends.iter().enumerate() {
        match (end.exit_code, end.signal) {
            (Some(0), _) => {}
            (None, Some(SIGPIPE)) if index < last => {}
            (Some(other), _) => (code, signal) = (Some(other), None),
            (None, number) => (code, signal) = (number.map(|number| 128 + number), number),
        }
    }
    (code, signal)
}

fn not_run(error: &PipelineError, pipeline: &Pipeline) -> Reason {
    match error {
        PipelineError::Directory => {
            let why = format!("`{}` is not a directory of the workspace", shown(&pipeline.directory));
            Reason::outside(why).with_hint("`cwd` is relative to the workspace, and goes through no link")
        }
        PipelineError::NotFound { command } => {
            Reason::tool_failed(format!("there is no `{}` in the sandbox", shown(command))).with_hint(
                "it may not be installed; toolchains in the home directory need the profile `build`",
            )
        }
        PipelineError::CannotExecute { command, error } => {
            let why = std::io::Error::from_raw_os_error(*error);
            Reason::tool_failed(format!("`{}` cannot be executed: {why}", shown(command)))
        }
        PipelineError::Broken => Reason::tool_failed("the commands could not be connected"),
    }
}

/// Why a worker did not come to the end of its work.
fn stopped(outcome: &Outcome, timeout: Duration) -> Reason {
    match outcome {
        Outcome::Stopped(Limit::Timeout) => Reason::timeout(format!(
            "it was killed after {} seconds, with every process it had",
            timeout.as_secs()
        ))
        .with_hint("ask for a longer `timeout` (at most 600), or for less work"),
        Outcome::Stopped(Limit::Memory) => {
            Reason::tool_failed("it was stopped: it took more memory than it may")
        }
        Outcome::Stopped(Limit::Disk) => Reason::tool_failed("it was stopped: it wrote more than it may"),
        Outcome::Stopped(Limit::Abandoned) => taken_back(),
        Outcome::Exit(_) | Outcome::Signal(_) => Reason::tool_failed("its worker was ended from inside"),
        Outcome::NotFound | Outcome::CannotExecute(_) => {
            Reason::cannot_enforce("our own binary cannot be executed in the sandbox")
        }
    }
}

/// Output as a terminal would show it, and in the end what is not to be seen in it.
fn content_of(output: &ShellOutput, failure: Option<&Reason>) -> String {
    let mut content = output.stdout.clone();
    if !output.stderr.is_empty() {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str("stderr:\n");
        content.push_str(&output.stderr);
    }
    let mut say = |line: String| {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&line);
    };
    match (failure, output.exit_code, output.signal) {
        (Some(reason), _, _) => {
            say(reason.message.clone());
            if let Some(hint) = &reason.hint {
                say(format!("hint: {hint}"));
            }
        }
        (None, _, Some(signal)) => say(format!("ended by signal {signal}")),
        (None, Some(code), None) if code != 0 => say(format!("exit code {code}")),
        _ => {}
    }
    content
}
