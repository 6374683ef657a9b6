//! Calls over HTTP, on connections that are kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::What;
use crate::gate::Up;
use crate::rounds::Lane;

/// Workers are kept for the tasks of an agent; this many are at work.
const TASKS: usize = 8;

/// A connection that was idle for longer is not used again: the gate closes it after 15 seconds.
const FRESH: Duration = Duration::from_secs(8);

/// One call, on as many connections as there are callers at once.
pub(crate) struct Http {
    name: String,
    address: String,
    token: String,
    tool: &'static str,
    arguments: &'static str,
    gives: &'static str,
    made: AtomicUsize,
    idle: Mutex<Vec<Connection>>,
}

struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    used: Instant,
}

impl Http {
    pub(crate) fn new(up: &Up, what: &What) -> Http {
        Http {
            name: format!("http {}", what.name),
            address: up.address.clone(),
            token: up.token.clone(),
            tool: what.tool,
            arguments: what.arguments,
            gives: what.gives,
            made: AtomicUsize::new(0),
            idle: Mutex::default(),
        }
    }

    fn connect(&self) -> Result<Connection> {
        let task = self.made.fetch_add(1, Ordering::Relaxed) % TASKS;
        let Http { address, token, tool, arguments, .. } = self;
        let body = format!(r#"{{"tool":"{tool}","task":"bench-{task}","arguments":{arguments}}}"#);
        let request = format!(
            "POST /v1/calls HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len(),
        );
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), request: request.into_bytes(), used: Instant::now() })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane for Http {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&self, at_once: usize) -> Result<()> {
        let mut idle = self.idle();
        idle.retain(|connection| connection.used.elapsed() < FRESH);
        while idle.len() < at_once {
            idle.push(self.connect()?);
        }
        Ok(())
    }

    fn call(&self) -> Result<()> {
        let kept = self.idle().pop();
        let mut connection = kept.map_or_else(|| self.connect(), Ok)?;
        let (head, body) = connection.ask().with_context(|| format!("`{}` got no answer", self.name))?;
        let done = head.starts_with("HTTP/1.1 200 ")
            && body.contains(r#""status":"completed""#)
            && body.contains(self.gives);
        ensure!(done, "`{}` was not done, so no figure stands:\n{head}{body}", self.name);
        connection.used = Instant::now();
        self.idle().push(connection);
        Ok(())
    }
}

impl Connection {
    fn ask(&mut self) -> Result<(String, String)> {
        self.stream.get_mut().write_all(&self.request)?;
        let mut head = String::new();
        let mut length = None;
        loop {
            let begin = head.len();
            ensure!(self.stream.read_line(&mut head)? > 0, "the gate hung up: {head}");
            let line = head.get(begin..).unwrap_or_default().trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse()?);
            }
        }
        let mut body = vec![0; length.context("the answer has no length")?];
        self.stream.read_exact(&mut body)?;
        Ok((head, String::from_utf8(body)?))
    }
}
