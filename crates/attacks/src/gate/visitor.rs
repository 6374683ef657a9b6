//! A gate in a process of its own, and a client that talks to it as any program could: by bytes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use contract::AgentName;
use policy::Settings;
use serde_json::Value;

use crate::Try;
use crate::gate::stand::{AGENT, Opening, Stand, open, runtime, standard, trusted};
use crate::launch::command_of;

/// The argument that makes our binary a gate on its standard input and output.
const GATE_ARGUMENT: &str = "__gate";

/// The word for the settings that everybody has at the start.
const STANDARD: &str = "standard";

/// Becomes a gate if the arguments say so, and does not return then.
pub fn serve_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == GATE_ARGUMENT) {
        let [home, workspace] =
            [arguments.next(), arguments.next()].map(|path| PathBuf::from(path.unwrap_or_default()));
        let settings =
            if arguments.next().is_some_and(|word| word == STANDARD) { standard() } else { trusted() };
        std::process::exit(i32::from(serve(&home, workspace, settings).is_err()));
    }
}

fn serve(home: &Path, workspace: PathBuf, settings: Settings) -> Try<()> {
    let binary = std::env::current_exe()?;
    let agent = AgentName::parse(AGENT)?;
    runtime()?.block_on(async {
        let engine = open(&binary, home, workspace, Opening::with(settings)).await?;
        Ok(server::serve_stdio(engine, agent, Duration::ZERO).await?)
    })
}

/// A client of such a gate.
pub(crate) struct Visitor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Visitor {
    /// Starts a gate for a stand whose agent need not ask, and greets it.
    pub(crate) fn greet(stand: &Stand<'_>) -> Try<Visitor> {
        Visitor::greet_as(stand, "trusted")
    }

    /// The same where the agent is as everybody is at the start.
    pub(crate) fn greet_as_anybody(stand: &Stand<'_>) -> Try<Visitor> {
        Visitor::greet_as(stand, STANDARD)
    }

    fn greet_as(stand: &Stand<'_>, settings: &str) -> Try<Visitor> {
        let arguments =
            [GATE_ARGUMENT.into(), stand.home().into(), stand.workspace.clone().into(), settings.into()];
        Visitor::meet(&mut command_of(&stand.bench.tool, &arguments))
    }

    /// The same at the gate that is shipped, with the environment of nobody in particular.
    pub(crate) fn greet_shipped(stand: &Stand<'_>, agent: &str, more: &[OsString]) -> Try<Visitor> {
        let shipped = stand.bench.settings.shipped.as_ref().ok_or("`toolgate` is not built")?;
        let mut arguments: Vec<OsString> =
            ["mcp", "--agent", agent, "--wait", "0"].map(OsString::from).into();
        arguments.extend_from_slice(more);
        let mut command = command_of(shipped, &arguments);
        command.env_clear().env("PATH", jail::DEFAULT_PATH).env("TOOLGATE_HOME", stand.home());
        Visitor::meet(command.current_dir(&stand.workspace).stderr(Stdio::null()))
    }

    fn meet(command: &mut Command) -> Try<Visitor> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("the gate has no output")?);
        let mut visitor = Visitor { child, input, output };
        visitor.say(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"visitor","version":"1"}}}"#,
        )?;
        visitor.hear(1)?;
        visitor.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(visitor)
    }

    /// Says a line.
    pub(crate) fn say(&mut self, line: &str) -> Try<()> {
        let input = self.input.as_mut().ok_or("the gate has hung up")?;
        input.write_all(line.as_bytes())?;
        input.write_all(b"\n")?;
        Ok(input.flush()?)
    }

    /// The answer to this id.
    pub(crate) fn hear(&mut self, id: u64) -> Try<Value> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            let answer: Value = serde_json::from_str(&line)?;
            if answer.get("id").and_then(Value::as_u64) == Some(id) {
                return Ok(answer);
            }
            line.clear();
        }
        Err("the gate has hung up".into())
    }

    /// Says something that never ends, up to so many bytes. How many were taken.
    pub(crate) fn drone(&mut self, most: usize) -> Try<usize> {
        let mut input = self.input.take().ok_or("the gate has hung up")?;
        let piece = [b'a'; 1 << 16];
        let mut taken = 0;
        while taken < most && input.write_all(&piece).is_ok() {
            taken += piece.len();
        }
        Ok(taken)
    }

    /// Hangs up, and waits for the gate's end. What it still said.
    pub(crate) fn leave(mut self) -> Try<String> {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest)?;
        self.child.wait()?;
        Ok(rest)
    }
}
