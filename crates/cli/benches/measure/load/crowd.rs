//! Thousands of questions that wait, and hundreds who listen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::row;
use crate::gate::{Home, Up};
use crate::memory::resident;
use crate::options::Options;
use crate::report::{Cell, Table};

/// How many wait, and with `--quick`.
const QUESTIONS: (usize, usize) = (5000, 500);
/// How many of one agent can wait.
const OF_ONE_AGENT: usize = 20;
const LISTENERS: usize = 200;
/// One operator may have 48 requests under way at most.
const OF_ONE_OPERATOR: usize = 40;
/// How many are answered while everybody listens.
const ANSWERS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// The table, and in words how many there were.
pub(super) fn measure(options: &Options, memory: &mut Table) -> Result<(Table, String)> {
    let many = if options.quick { QUESTIONS.1 } else { QUESTIONS.0 };
    let home = Home::make(&options.toolgate, options.folder.join("crowd"))?;
    let agents: Vec<String> = (0..many.div_ceil(OF_ONE_AGENT)).map(|number| format!("a{number}")).collect();
    // They wait for as long as this takes.
    home.configure(&(super::configuration(&agents) + "approval: { timeout_seconds: 3600 }\n"))?;
    let up = home.up()?;
    memory.rows.push(row(&format!("just started, with {} agents", agents.len()), resident(up.id())?));
    let me = Client { up: &up, credential: home.operator_key()? };
    // Whoever proposes does not answer.
    let loader = Client { up: &up, credential: home.add_operator("loader")? };
    let began = Instant::now();
    for (number, agent) in agents.iter().enumerate() {
        loader.propose(agent, OF_ONE_AGENT.min(many - number * OF_ONE_AGENT), number)?;
    }
    let mut table = Table::new(["", "p50 ms", "most ms", "times"]);
    table.rows.push(line("questions asked, each", &[began.elapsed() / u32::try_from(many)?]));
    memory.rows.push(row(&format!("{many} questions wait"), resident(up.id())?));

    let (mut pages, mut seen, mut first) = (Vec::new(), 0, Vec::new());
    let mut path = "/v1/approvals".to_owned();
    loop {
        let began = Instant::now();
        let page = me.ask("GET", &path, None)?;
        pages.push(began.elapsed());
        let questions = page.get("approvals").and_then(Value::as_array).context("no questions")?;
        seen += questions.len();
        if first.is_empty() {
            let id = |question: &Value| question.get("approval_id")?.as_str().map(str::to_owned);
            first = questions.iter().filter_map(id).collect();
            ensure!(page.get("waiting").and_then(Value::as_u64) == Some(many as u64), "not all of them wait");
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => path = format!("/v1/approvals?cursor={next}"),
            None => break,
        }
    }
    ensure!(seen == many, "{seen} of {many} are listed");
    table.rows.push(line("a page of 200 questions", &pages));
    table.rows.push(line("all pages", &[pages.iter().sum()]));
    let looks = first.iter().take(20).map(|id| me.timed("GET", &format!("/v1/approvals/{id}"), None));
    table.rows.push(line("one question with all of it", &looks.collect::<Result<Vec<_>>>()?));

    let listeners = listen(&home, &up)?;
    memory.rows.push(row(&format!("and {LISTENERS} listen"), resident(up.id())?));
    let (mut taken, mut told) = (Vec::new(), Vec::new());
    for id in first.iter().rev().take(ANSWERS) {
        let began = Instant::now();
        me.ask("POST", &format!("/v1/approvals/{id}/decision"), Some(&json!({ "verdict": "approve" })))?;
        taken.push(began.elapsed());
        for (number, listener) in listeners.iter().enumerate() {
            loop {
                let (heard, at) = listener
                    .recv_timeout(PATIENCE)
                    .with_context(|| format!("listener {number} was not told of {id}"))?;
                if heard == *id {
                    told.push(at.saturating_duration_since(began));
                    break;
                }
            }
        }
    }
    table.rows.push(line("an answer given", &taken));
    table.rows.push(line("told to each of them", &told));
    let last: Vec<Duration> =
        told.chunks(LISTENERS).filter_map(|of_one| of_one.iter().max().copied()).collect();
    table.rows.push(line("told to all of them", &last));
    let listed = (0..20).map(|_| me.timed("GET", "/v1/approvals", None)).collect::<Result<Vec<_>>>()?;
    table.rows.push(line("a page of questions meanwhile", &listed));
    memory.rows.push(row("after those answers", resident(up.id())?));
    Ok((table, format!("{many} questions that wait and {LISTENERS} who listen")))
}

fn line(what: &str, times: &[Duration]) -> Vec<Cell> {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let middle = times.get(times.len() / 2).copied();
    vec![
        Cell::text(what),
        Cell::maybe(middle, 2),
        Cell::maybe(times.last().copied(), 2),
        Cell::Number(times.len() as f64, 0),
    ]
}

/// Whoever asks at the gate, on a connection for each time.
struct Client<'a> {
    up: &'a Up,
    credential: String,
}

impl Client<'_> {
    fn timed(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Duration> {
        let began = Instant::now();
        self.ask(method, path, body)?;
        Ok(began.elapsed())
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.ask_for(method, path, body, "")
    }

    fn ask_for(&self, method: &str, path: &str, body: Option<&Value>, header: &str) -> Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.up.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (address, credential, length) = (&self.up.address, &self.credential, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {credential}\r\n{header}\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {head}\n{body}");
        Ok(serde_json::from_str(body)?)
    }

    /// Has an agent ask for so many things that people decide.
    fn propose(&self, agent: &str, many: usize, round: usize) -> Result<()> {
        let call = |number: usize| {
            let url = format!("https://api.example.com/v1/items/{round}-{number}");
            json!({ "tool": "http.request", "arguments": { "url": url, "method": "POST", "body": "{}" } })
        };
        let calls: Vec<Value> = (0..many).map(call).collect();
        let body = json!({ "calls": calls, "wait_seconds": 0 });
        let header = format!("X-Toolgate-Agent: {agent}\r\n");
        let answer = self.ask_for("POST", "/v1/calls:batch", Some(&body), &header)?;
        let results = answer.get("results").and_then(Value::as_array).context("no results")?;
        let waits = |result: &&Value| result.get("status").and_then(Value::as_str) == Some("waiting");
        ensure!(results.iter().filter(waits).count() == many, "not all of them wait: {answer}");
        Ok(())
    }
}

type Heard = mpsc::Receiver<(String, Instant)>;

/// Many who follow events, each with a thread. What they hear of answers, and when.
fn listen(home: &Home, up: &Up) -> Result<Vec<Heard>> {
    let mut listeners = Vec::new();
    let mut credential = String::new();
    for number in 0..LISTENERS {
        if number % OF_ONE_OPERATOR == 0 {
            credential = home.add_operator(&format!("listener{}", number / OF_ONE_OPERATOR))?;
        }
        let mut stream = TcpStream::connect(&up.address)?;
        let address = &up.address;
        write!(
            stream,
            "GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {credential}\r\n\r\n"
        )?;
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().context("it hangs up")??;
        ensure!(first.starts_with("HTTP/1.1 200"), "listener {number}: {first}");
        let (say, hear) = mpsc::channel();
        thread::Builder::new().stack_size(128 << 10).spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some(event) = line.strip_prefix("data: ") else { continue };
                let at = Instant::now();
                let Ok(event) = serde_json::from_str::<Value>(event) else { continue };
                let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                if text("kind") == "approval.answered" && say.send((text("approval_id"), at)).is_err() {
                    return;
                }
            }
        })?;
        listeners.push(hear);
    }
    Ok(listeners)
}

impl Home {
    /// The credential of the gate's owner.
    fn operator_key(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.state().join("operator.key"))?.trim().to_owned())
    }

    /// Adds an operator who may do everything. Their credential.
    fn add_operator(&self, name: &str) -> Result<String> {
        let added =
            self.command(&["operators", "add", name, "--role", "admin"]).stdout(Stdio::piped()).output()?;
        ensure!(added.status.success(), "operator `{name}` cannot be added");
        Ok(String::from_utf8(added.stdout)?.trim().to_owned())
    }
}
