//! An MCP client that says what it likes, over HTTP, in any revision.

use serde_json::{Value, json};

use crate::Try;
use crate::gate::doors::{Door, Response, bearer};
use crate::gate::stand::{Opening, Stand, standard};

/// The revision without sessions.
pub(super) const NEWEST: &str = "2026-07-28";
/// The newest with sessions.
pub(super) const NEWEST_WITH_SESSIONS: &str = "2025-11-25";
/// Those with sessions that are spoken over HTTP.
pub(super) const WITH_SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", NEWEST_WITH_SESSIONS];

pub(super) const ACCEPT: &str = "Accept: application/json, text/event-stream";

/// A client of a door.
pub(super) struct Client<'a> {
    pub(super) door: &'a Door<'a>,
    pub(super) token: &'a str,
    pub(super) revision: &'a str,
    /// What it can do, by its own words.
    pub(super) able: Value,
    pub(super) session: Option<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(door: &'a Door<'a>, token: &'a str, revision: &'a str) -> Client<'a> {
        Client { door, token, revision, able: json!({}), session: None }
    }

    /// One that has opened a session.
    pub(super) fn greet(door: &'a Door<'a>, token: &'a str, revision: &'a str) -> Try<Client<'a>> {
        let mut client = Client::new(door, token, revision);
        let params = json!({
            "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let answer = client.post(&message.to_string(), &[])?;
        let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
        let session = lines.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        client.session =
            Some(session.ok_or(format!("no session: {} {}", answer.status, answer.body))?.1.to_owned());
        Ok(client)
    }

    /// Calls a tool.
    pub(super) fn call(&self, name: &str, arguments: &Value) -> Try<Response> {
        self.request("tools/call", json!({ "name": name, "arguments": arguments }), &[])
    }

    /// Sends a request with everything that its revision wants, and more headers.
    pub(super) fn request(&self, method: &str, params: Value, more: &[&str]) -> Try<Response> {
        let mut headers: Vec<String> = vec![format!("Mcp-Method: {method}")];
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params.get(key)?.as_str());
        headers.extend(name.map(|name| format!("Mcp-Name: {name}")));
        if self.revision != NEWEST {
            headers.clear();
        }
        headers.extend(more.iter().map(|header| (*header).to_owned()));
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.post(&self.message(method, params).to_string(), &headers)
    }

    pub(super) fn message(&self, method: &str, mut params: Value) -> Value {
        if self.revision == NEWEST
            && let Some(members) = params.as_object_mut()
        {
            members.insert(
                "_meta".to_owned(),
                json!({
                    "io.modelcontextprotocol/protocolVersion": NEWEST,
                    "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
                    "io.modelcontextprotocol/clientCapabilities": self.able,
                }),
            );
        }
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
    }

    /// Sends a text, with the headers of its revision.
    pub(super) fn post(&self, text: &str, more: &[&str]) -> Try<Response> {
        self.send("POST", text, more)
    }

    pub(super) fn send(&self, method: &str, text: &str, more: &[&str]) -> Try<Response> {
        let headers = self.headers(more);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.door.ask(method, "/mcp", &headers, text)
    }

    /// The headers of its revision, and more.
    pub(super) fn headers(&self, more: &[&str]) -> Vec<String> {
        let mut headers = vec![bearer(self.token), ACCEPT.to_owned()];
        headers.push(format!("MCP-Protocol-Version: {}", self.revision));
        headers.extend(self.session.iter().map(|session| format!("Mcp-Session-Id: {session}")));
        headers.extend(more.iter().map(|header| (*header).to_owned()));
        headers
    }
}

/// The message in an answer, whether it came as it is or as an event.
pub(super) fn message_in(answer: &Response) -> Try<Value> {
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let found = events.chain(answer.body.lines()).find(|line| line.starts_with('{'));
    Ok(serde_json::from_str(found.ok_or(format!("no message: {} {}", answer.status, answer.body))?)?)
}

/// How a call stands, by its answer.
pub(super) fn status_in(answer: &Response) -> Try<String> {
    let message = message_in(answer)?;
    let status = message.pointer("/result/structuredContent/status").and_then(Value::as_str);
    Ok(status.map(str::to_owned).unwrap_or_else(|| message.to_string()))
}

/// A door by which nobody waits.
pub(super) fn open<'a>(stand: &'a Stand<'a>) -> Try<Door<'a>> {
    Door::open_with(at_once(), stand)
}

/// Settings by which nobody waits.
pub(super) fn at_once() -> Opening {
    let mut settings = standard();
    settings.asking.wait_for = 0;
    Opening::with(settings)
}
