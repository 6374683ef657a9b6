//! Calls over MCP on standard input and output, as lines of JSON-RPC; and a server that does nothing, to compare with.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::What;
use crate::gate::{README, end};
use crate::rounds::{Lane, Slice};

/// Makes this program a server that does nothing.
pub(crate) const NOTHING_ARGUMENT: &str = "--serve-nothing";

/// A server that was greeted; ended when dropped.
pub(crate) struct Server(Mutex<Talk>);

struct Talk {
    child: Child,
    /// Gone when it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
    last_id: u64,
}

/// As much of an answer as says whose it is.
#[derive(Deserialize)]
struct Answer {
    id: Option<u64>,
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Result<Server> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut talk = Talk { child, input, output, line: String::new(), last_id: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        });
        let id = talk.send("initialize", &hello.to_string())?;
        ensure!(talk.receive()? == id && talk.line.contains("serverInfo"), "no greeting: {}", talk.line);
        talk.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(Server(Mutex::new(talk)))
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Talk {
    fn write(&mut self, line: &str) -> Result<()> {
        Ok(self.input.as_mut().context("it was ended")?.write_all(line.as_bytes())?)
    }

    fn send(&mut self, method: &str, parameters: &str) -> Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{parameters}}}\n"
        ))?;
        Ok(id)
    }

    /// Waits for the next answer, leaves it in `line`, and says to what it is one.
    fn receive(&mut self) -> Result<u64> {
        loop {
            self.line.clear();
            ensure!(self.output.read_line(&mut self.line)? > 0, "the server hung up");
            if let Some(id) = serde_json::from_str::<Answer>(&self.line)?.id {
                return Ok(id);
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.input = None;
        end(&mut self.child);
    }
}

/// One call of one server.
pub(crate) struct Call<'a> {
    name: String,
    server: &'a Server,
    parameters: String,
    gives: &'static str,
}

impl<'a> Call<'a> {
    pub(crate) fn new(whose: &str, server: &'a Server, what: &What) -> Call<'a> {
        Call {
            name: if whose == "mcp" { format!("mcp {}", what.name) } else { whose.to_owned() },
            server,
            parameters: format!(r#"{{"name":"{}","arguments":{}}}"#, what.mcp_tool, what.arguments),
            gives: what.gives,
        }
    }

    fn check(&self, line: &str) -> Result<()> {
        let done = line.contains(self.gives) && line.contains("\"isError\":false");
        ensure!(done, "`{}` was not done, so no figure stands: {line}", self.name);
        Ok(())
    }
}

impl Lane for Call<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self) -> Result<()> {
        let mut talk = self.server.talk();
        let id = talk.send("tools/call", &self.parameters)?;
        ensure!(talk.receive()? == id, "an answer to nothing: {}", talk.line);
        self.check(&talk.line)
    }

    /// All on the one line there is, as a client does it: no thread has to wake another.
    fn call_for(&self, at_once: usize, slice: Duration) -> Result<Slice> {
        let mut talk = self.server.talk();
        let started = Instant::now();
        let mut under_way = HashMap::new();
        let mut times = Vec::new();
        while under_way.len() < at_once {
            let begun = Instant::now();
            under_way.insert(talk.send("tools/call", &self.parameters)?, begun);
        }
        while !under_way.is_empty() {
            let id = talk.receive()?;
            let begun: Instant = under_way.remove(&id).context("an answer to nothing")?;
            times.push(begun.elapsed());
            self.check(&talk.line)?;
            if started.elapsed() < slice {
                let begun = Instant::now();
                under_way.insert(talk.send("tools/call", &self.parameters)?, begun);
            }
        }
        Ok(Slice { times, took: started.elapsed() })
    }
}

/// One question to one server.
pub(crate) struct Ask<'a> {
    name: &'static str,
    server: &'a Server,
    method: &'static str,
    parameters: &'static str,
    gives: &'a str,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(
        name: &'static str,
        server: &'a Server,
        method: &'static str,
        parameters: &'static str,
        gives: &'a str,
    ) -> Ask<'a> {
        Ask { name, server, method, parameters, gives }
    }
}

impl Lane for Ask<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn call(&self) -> Result<()> {
        let mut talk = self.server.talk();
        let id = talk.send(self.method, self.parameters)?;
        ensure!(talk.receive()? == id, "an answer to nothing: {}", talk.line);
        ensure!(
            talk.line.contains(self.gives),
            "`{}` does not give what it should: {}",
            self.name,
            talk.line
        );
        Ok(())
    }
}

/// Becomes the server that does nothing, if asked.
pub(crate) fn serve_nothing_if_asked() {
    if std::env::args().nth(1).as_deref() == Some(NOTHING_ARGUMENT) {
        let served = serve_nothing();
        std::process::exit(i32::from(served.is_err()));
    }
}

fn serve_nothing() -> Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Some(answer) = answer_nothing(&serde_json::from_str(&line?)?) else { continue };
        output.write_all(format!("{answer}\n").as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// What the server that does nothing answers; nothing to what is no question.
pub(crate) fn answer_nothing(request: &Value) -> Option<Value> {
    let id = request.get("id")?;
    let result = match request.get("method").and_then(Value::as_str) {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "nothing", "version": "1" },
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "nothing", "description": "Does nothing.",
            "inputSchema": { "type": "object" } }] }),
        _ => json!({ "content": [{ "type": "text", "text": README }], "isError": false }),
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
