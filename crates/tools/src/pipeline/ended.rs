//! What came of a pipeline: its output, its code, and why it did not come to its end.

use std::time::Duration;

use clean::Findings;
use contract::{Digest, Output, Reason, RunFacts};
use jail::{Limit, Outcome, Report};

use super::Starter;
use super::show::{SHOWN, cut};
use crate::inside::{Chunk, End, Pipeline, PipelineError, StageEnd};
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
    /// From a worker's pieces.
    fn by_worker(report: &Report) -> Said {
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

    /// From the sandbox itself, which has started the one command that there is.
    fn by_sandbox(report: &Report, pipeline: &Pipeline) -> Said {
        let command = || pipeline.stages.first().map(|stage| stage.command.clone()).unwrap_or_default();
        let ended = |exit_code, signal| {
            let stages = vec![StageEnd { exit_code, signal }];
            Ok(End { stages, stdout: report.stdout.total, stderr: report.stderr.total })
        };
        let end = match report.outcome {
            Outcome::Exit(code) => Some(ended(Some(code), None)),
            Outcome::Signal(number) => Some(ended(None, Some(number))),
            Outcome::NotFound => Some(Err(PipelineError::NotFound { command: command() })),
            Outcome::CannotExecute(error) => {
                Some(Err(PipelineError::CannotExecute { command: command(), error }))
            }
            Outcome::Stopped(_) => None,
        };
        Said { stdout: report.stdout.bytes.clone(), stderr: report.stderr.bytes.clone(), end }
    }
}

/// What came of a pipeline, put together from what its worker said and what was seen from outside.
pub(crate) struct Ended {
    /// What the last command wrote, as much as was kept.
    pub(crate) stdout: Vec<u8>,
    /// What all commands complained, as much as was kept.
    pub(crate) stderr: Vec<u8>,
    /// How much was written in all.
    pub(crate) stdout_bytes: u64,
    /// How much was complained in all.
    pub(crate) stderr_bytes: u64,
    /// Each command and how it ended; none if that is not known.
    pub(crate) stages: Vec<(String, StageEnd)>,
    /// 0 if every command went well, else that of the last one that did not.
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    /// Why it did not come to its end, if it did not.
    pub(crate) failure: Option<Reason>,
    /// Whom it was not let reach, a line each.
    pub(crate) not_reached: Vec<String>,
    pub(crate) facts: RunFacts,
}

/// As much of the output as a model is shown.
pub(crate) struct Shown {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Whether something is left out; the artifacts have it.
    pub(crate) truncated: bool,
    /// What was taken out where it is cut.
    pub(crate) findings: Findings,
}

impl Ended {
    pub(super) fn of(
        report: &Report,
        pipeline: &Pipeline,
        starter: Starter,
        timeout: Duration,
        facts: RunFacts,
    ) -> Ended {
        let said = match starter {
            Starter::Worker => Said::by_worker(report),
            Starter::Sandbox => Said::by_sandbox(report, pipeline),
        };
        let whole: Vec<u8> = said.stdout.iter().chain(&said.stderr).copied().collect();
        // What a worker says counts if it came to its own end.
        let is_whole = starter == Starter::Sandbox || report.outcome == Outcome::Exit(0);
        let (end, failure) = match said.end.filter(|_| is_whole) {
            Some(Ok(end)) if end.stages.len() == pipeline.stages.len() => (Some(end), None),
            Some(Err(error)) => (None, Some(not_run(&error, pipeline))),
            Some(Ok(_)) | None => (None, Some(stopped(&report.outcome, timeout))),
        };
        let kept = (said.stdout.len() as u64, said.stderr.len() as u64);
        let (stdout_bytes, stderr_bytes) = end.as_ref().map_or(kept, |end| (end.stdout, end.stderr));
        let ends = end.map(|end| end.stages).unwrap_or_default();
        let (exit_code, signal) = code_of(&ends);
        let commands = pipeline.stages.iter().map(|stage| stage.command.clone());
        Ended {
            stdout: said.stdout,
            stderr: said.stderr,
            stdout_bytes,
            stderr_bytes,
            stages: commands.zip(ends).collect(),
            exit_code,
            signal,
            timed_out: report.outcome == Outcome::Stopped(Limit::Timeout),
            failure,
            not_reached: Vec::new(),
            facts: RunFacts { output: Some(Digest::of(&whole)), exit_code, signal, ..facts },
        }
    }

    /// Its exit code, if it came to its end and all that it wrote is here.
    pub(crate) fn whole(&self) -> Result<i32, Reason> {
        if let Some(signal) = self.signal {
            return Err(Reason::tool_failed(format!("the command was ended by signal {signal}")));
        }
        // Half of an answer reads like a whole one.
        if self.stdout_bytes > self.stdout.len() as u64 {
            return Err(Reason::tool_failed(
                "the command wrote more than is kept, so its answer is not whole",
            ));
        }
        self.exit_code.ok_or_else(|| Reason::tool_failed("nobody knows how the command ended"))
    }

    /// Cuts the output to what a model is shown.
    pub(crate) fn shown(&self) -> Shown {
        // Complaints are short; what they leave is for the output.
        let stderr = cut(&self.stderr, self.stderr_bytes, SHOWN / 3, "stderr");
        let most = SHOWN - stderr.text.len().min(SHOWN / 3) - ROOM;
        let stdout = cut(&self.stdout, self.stdout_bytes, most, "stdout");
        let mut findings = stdout.findings;
        findings.absorb(stderr.findings);
        let truncated = stdout.truncated || stderr.truncated;
        Shown { stdout: stdout.text, stderr: stderr.text, truncated, findings }
    }

    /// Output as a terminal would show it, and in the end what is not to be seen in it.
    pub(crate) fn content(&self, shown: &Shown) -> String {
        let mut content = shown.stdout.clone();
        let mut say = |line: &str| {
            if !content.is_empty() && !content.ends_with('\n') {
                content.push('\n');
            }
            content.push_str(line);
        };
        if !shown.stderr.is_empty() {
            say("stderr:\n");
            say(&shown.stderr);
        }
        for line in &self.not_reached {
            say(&format!("{line}\n"));
        }
        match (&self.failure, self.exit_code, self.signal) {
            (Some(reason), _, _) => {
                say(&reason.message);
                if let Some(hint) = &reason.hint {
                    say(&format!("hint: {hint}"));
                }
            }
            (None, _, Some(signal)) => say(&format!("ended by signal {signal}")),
            (None, Some(code), None) if code != 0 => say(&format!("exit code {code}")),
            _ => {}
        }
        content
    }

    /// The answer to a call. What a model is not shown is in the artifacts.
    pub(crate) fn answer(self, output: Output, shown: Shown) -> Ran {
        let streams = [("stdout", self.stdout), ("stderr", self.stderr)].into_iter();
        let kept = streams.filter(|(_, bytes)| shown.truncated && !bytes.is_empty());
        let artifacts = kept.map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let output = Output { artifacts, ..output };
        Ran { output, findings: shown.findings, facts: self.facts, failure: self.failure }
    }
}

/// The code of the last command that did not go well. One before the last that nobody listened to any more has done
/// its part: `yes | head` went well.
fn code_of(ends: &[StageEnd]) -> (Option<i32>, Option<i32>) {
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
        PipelineError::Changed(reason) | PipelineError::Repository(reason) => reason.clone(),
        PipelineError::Before { command, end } => {
            let how = match (end.exit_code, end.signal) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "did not end".to_owned(),
            };
            Reason::tool_failed(format!("`{}` {how}", shown(command)))
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
pub(crate) fn stopped(outcome: &Outcome, timeout: Duration) -> Reason {
    match outcome {
        Outcome::Stopped(Limit::Timeout) => Reason::timeout(format!(
            "it was killed after {} seconds, with every process it had",
            timeout.as_secs_f64()
        )),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_command_that_failed_gives_the_code() {
        let exit = |code| StageEnd { exit_code: Some(code), signal: None };
        let killed = |signal| StageEnd { exit_code: None, signal: Some(signal) };
        assert_eq!(code_of(&[exit(0), exit(0)]), (Some(0), None));
        assert_eq!(code_of(&[exit(2), exit(0)]), (Some(2), None));
        assert_eq!(code_of(&[exit(2), exit(3)]), (Some(3), None));
        assert_eq!(code_of(&[killed(9), exit(0)]), (Some(137), Some(9)));
        assert_eq!(code_of(&[killed(13), exit(0)]), (Some(0), None));
        assert_eq!(code_of(&[exit(0), killed(13)]), (Some(141), Some(13)));
        assert_eq!(code_of(&[]), (None, None));
    }
}
