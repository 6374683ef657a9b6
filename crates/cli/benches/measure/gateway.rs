//! What the gate adds to a call of somebody else's server: the same server, asked directly and through the gate, over standard
//! input and output and over HTTP, in the same rounds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::doors::{Ask, NOTHING_ARGUMENT, Server, answer_nothing};
use crate::gate::{Home, README};
use crate::options::Options;
use crate::report::{Cell, Table};
use crate::rounds::{Lane, Sample, time_rounds, time_slices};

const CALL: &str = r#"{"name":"nothing","arguments":{}}"#;
const THROUGH: &str = r#"{"name":"mcp_s_nothing","arguments":{}}"#;

/// The table, and what is told beside it.
pub(crate) fn measure(options: &Options) -> Result<(Table, String)> {
    let program = std::env::current_exe()?;
    let mut direct = Command::new(&program);
    direct.arg(NOTHING_ARGUMENT).stderr(Stdio::null());
    let direct = Server::start(direct)?;
    let folder = program.parent().context("this program is in no folder")?;
    let started = json!({ "command": [program, NOTHING_ARGUMENT], "ro": [folder] });
    let stdio = gate(options, "gateway-stdio", &started)?;

    let web = Web::start()?;
    let asked = json!({ "url": format!("http://{}/mcp", web.address) });
    let http = gate(options, "gateway-http", &asked)?;

    let stdio_direct = Ask::new("stdio, directly", &direct, "tools/call", CALL, README);
    let stdio_through = Ask::new("stdio, through the gate", &stdio, "tools/call", THROUGH, README);
    let http_through = Ask::new("HTTP, through the gate", &http, "tools/call", THROUGH, README);
    let lanes: [&dyn Lane; 4] = [&stdio_direct, &stdio_through, &web, &http_through];
    let samples = time_rounds(&lanes, options.effort())?;
    let rates = time_slices(&lanes, 1, options.effort())?;
    let mut table = Table::new(["", "p50 ms", "p99 ms", "added p50", "added p99", "calls/s", "calls"]);
    for (sample, rate) in samples.iter().zip(&rates) {
        let way = sample.name.split(',').next().unwrap_or_default();
        let base = samples.iter().find(|base| base.name == format!("{way}, directly"));
        let added = |percent: usize| {
            let base = base.filter(|base| base.name != sample.name)?;
            Some(sample.percentile(percent) - base.percentile(percent))
        };
        table.rows.push(vec![
            Cell::text(&sample.name),
            Cell::Number(sample.percentile(50), 3),
            Cell::Number(sample.percentile(99), 3),
            Cell::maybe(added(50), 3),
            Cell::maybe(added(99), 3),
            Cell::Number(Sample::per_second(rate), 0),
            Cell::Number(sample.calls() as f64, 0),
        ]);
    }
    let note = "Through the gate a call is decided, recorded, cleaned and settled with a receipt; over HTTP it is an \
                introduction, a list and the call, each by a worker behind walls."
        .to_owned();
    Ok((table, note))
}

/// A gate before the server, with its tool looked at and found harmless.
fn gate(options: &Options, name: &str, server: &Value) -> Result<Server> {
    let home = Home::make(&options.toolgate, options.folder.join(name))?;
    let agent = json!({ "overrides": { "categories": ["file_system", "mcp"] } });
    let configuration = json!({ "agents": { "default": agent }, "egress": { "private": ["127.0.0.1"] },
        "mcp": { "servers": { "s": server } } });
    home.replace_configuration(&configuration.to_string())?;
    let egress = if server.get("url").is_some() { "read_only" } else { "none" };
    let safety = if egress == "none" { "read" } else { "network" };
    let run = |arguments: &[&str]| -> Result<Vec<u8>> {
        let done = home.command(arguments).output()?;
        ensure!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stdout));
        Ok(done.stdout)
    };
    run(&["tools", "refresh"])?;
    let shown: Value = serde_json::from_slice(&run(&["tools", "show", "mcp_s_nothing", "--json"])?)?;
    let hash = shown.get("hash").and_then(Value::as_str).unwrap_or_default();
    run(&["tools", "pin", "mcp_s_nothing", "--hash", hash, "--safety", safety, "--egress", egress])?;
    Server::start(home.command(&["mcp"]))
}

/// The same server over HTTP, in this process; and a connection to it that is kept.
struct Web {
    address: String,
    connection: Mutex<BufReader<TcpStream>>,
}

impl Web {
    fn start() -> Result<Web> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // One that hangs up has had its answer.
                thread::spawn(move || drop(serve(stream)));
            }
        });
        let stream = TcpStream::connect(&address)?;
        stream.set_nodelay(true)?;
        Ok(Web { address, connection: Mutex::new(BufReader::new(stream)) })
    }
}

impl Lane for Web {
    fn name(&self) -> &str {
        "HTTP, directly"
    }

    fn call(&self) -> Result<()> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "nothing" } });
        let body = body.to_string();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.get_mut().write_all((head + &body).as_bytes())?;
        let answer = message(&mut connection)?.context("the server hung up")?;
        ensure!(String::from_utf8_lossy(&answer).contains(README), "it was not done");
        Ok(())
    }
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(body) = message(&mut stream)? {
        let answer = answer_nothing(&serde_json::from_slice(&body)?);
        let (status, body) = match &answer {
            Some(answer) => ("200 OK", answer.to_string()),
            None => ("202 Accepted", String::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.get_mut().write_all((head + &body).as_bytes())?;
    }
    Ok(())
}

/// The body of the next message; nothing at the end.
fn message(stream: &mut BufReader<TcpStream>) -> Result<Option<Vec<u8>>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Some(body))
}
