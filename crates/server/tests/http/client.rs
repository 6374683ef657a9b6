//! The smallest client there is: it sends exactly what a test writes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request, until it is written.
#[derive(Clone)]
pub(crate) struct Wish {
    method: String,
    path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Wish {
    pub(crate) fn new(method: &str, path: &str) -> Wish {
        Wish { method: method.to_owned(), path: path.to_owned(), host: None, headers: Vec::new(), body: None }
    }

    pub(crate) fn get(path: &str) -> Wish {
        Wish::new("GET", path)
    }

    pub(crate) fn post(path: &str, body: &str) -> Wish {
        Wish::new("POST", path).body(body)
    }

    pub(crate) fn body(self, body: &str) -> Wish {
        let sent = Wish { body: Some(body.to_owned()), ..self };
        sent.with("Content-Type", "application/json")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Wish {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn method(self, method: &str) -> Wish {
        Wish { method: method.to_owned(), ..self }
    }

    pub(crate) fn host(self, host: &str) -> Wish {
        Wish { host: Some(host.to_owned()), ..self }
    }

    pub(crate) fn bearer(self, token: &str) -> Wish {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn session(self, (cookie, page): &(String, String)) -> Wish {
        self.with("Cookie", cookie).with("X-Toolgate-Page", page)
    }

    pub(crate) fn written(&self, host: &str) -> String {
        let host = self.host.as_deref().unwrap_or(host);
        let mut text =
            format!("{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        } else {
            text.push_str("\r\n");
        }
        text
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn read(text: &str) -> Response {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem, after a look at its shape.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        let keys: Vec<&String> = problem.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["type", "title", "status", "code", "detail", "hint"], "{problem}");
        assert_eq!(problem["status"], self.status);
        let code = problem["code"].as_str().unwrap();
        assert_eq!(problem["type"], format!("urn:toolgate:problem:{code}"));
        code.to_owned()
    }
}

pub(crate) async fn exchange(address: SocketAddr, text: &str) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close before all is written.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    Response::read(&String::from_utf8_lossy(&answer))
}
