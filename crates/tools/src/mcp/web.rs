//! Servers that are asked over HTTP: each message is one request, made by a worker behind walls whose network leads to the
//! server and nowhere else.
//!
//! Nothing is kept between calls, so a call begins with an introduction, in whichever era of the protocol the server speaks. What
//! comes back is read as strictly as what a program says: an answer in JSON, or one of the events of a stream, the others of
//! which are passed over. Who is not let in signs in, if that is configured (`egress::SignIn`); no token is seen here.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use contract::{Canonical, Digest, Reason, RunFacts, Target};
use egress::{NotSignedIn, SignIn};
use policy::{Grant, UpstreamWay};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cut::unless_cut;
use super::instance::{
    NotIntroduced, Offers, check_introduction, introduction, named_digest, not_introduced,
};
use super::message::{self, Garbled, Message, RpcError};
use super::mirrored;
use super::session::Silence;
use super::upstream::Upstream;
use crate::http::{Address, Got, Heard, Scheme, WebRequest};
use crate::surroundings::Surroundings;
use crate::tool::taken_back;

/// As much of an answer as is read.
const MOST_BYTES: u64 = 16 << 20;
/// Milliseconds that one message may take at most.
const LONGEST: u64 = 60_000;
/// How often a stream that breaks off is taken up, and how many milliseconds a server may have us wait for that.
const MOST_RESUMES: usize = 4;
const MOST_PAUSE: u64 = 10_000;
/// How often a server may ask back.
const MOST_ROUNDS: usize = 4;
/// The revision without sessions, and what a server says that does not know it.
const STATELESS: &str = "2026-07-28";
const UNSUPPORTED: i64 = -32022;

/// Why a call has no answer.
pub(super) enum NoAnswer {
    /// The server offers the tool otherwise by now.
    Changed,
    /// There was none.
    Silent(Silence),
    /// Nobody was asked, or not reached.
    Refused(Reason),
}

impl From<Trouble> for NoAnswer {
    fn from(trouble: Trouble) -> NoAnswer {
        match trouble {
            Trouble::Refused(reason) => NoAnswer::Refused(reason),
            Trouble::Silent(silence) => NoAnswer::Silent(silence),
            Trouble::Status(status) => NoAnswer::Refused(by_status(status)),
        }
    }
}

/// Where a server is.
pub(super) fn address_of(url: &str) -> Result<Address, Reason> {
    Address::parse(url)
}

/// The host that an address leads to, and whether TLS is spoken there.
pub fn place_of(url: &str) -> Result<(Target, bool), Reason> {
    let address = address_of(url)?;
    Ok((address.target, address.scheme == Scheme::Https))
}

/// What a server offers.
pub(super) async fn offers(
    upstream: &Upstream,
    grant: &Grant,
    at: &Surroundings,
    cancel: &CancellationToken,
) -> (Result<Vec<Value>, Reason>, RunFacts) {
    let mut conversation = match HttpConversation::of(upstream, grant, at, cancel) {
        Ok(conversation) => conversation,
        Err(reason) => return (Err(reason), RunFacts::default()),
    };
    let listed = conversation.introduce_and_list().await;
    let listed = listed.map_err(|why| match why {
        Unlisted::Odd(why) => not_introduced(upstream.name(), &NotIntroduced::Odd(why)),
        Unlisted::Trouble(Trouble::Silent(silence)) => {
            not_introduced(upstream.name(), &NotIntroduced::Silent(silence))
        }
        Unlisted::Trouble(Trouble::Refused(reason)) => reason,
        Unlisted::Trouble(Trouble::Status(status)) => by_status(status),
    });
    (listed, conversation.facts)
}

/// Makes a call.
pub(super) async fn call(
    upstream: &Arc<Upstream>,
    tool: &str,
    digest: Digest,
    grant: &Grant,
    arguments: &Canonical,
    at: &Surroundings,
    cancel: &CancellationToken,
) -> (Result<Value, NoAnswer>, RunFacts) {
    let mut conversation = match HttpConversation::of(upstream, grant, at, cancel) {
        Ok(conversation) => conversation,
        Err(reason) => return (Err(NoAnswer::Refused(reason)), RunFacts::default()),
    };
    let offers = match conversation.introduce_and_list().await {
        Ok(offers) => offers,
        Err(Unlisted::Trouble(Trouble::Refused(reason))) => {
            return (Err(NoAnswer::Refused(reason)), conversation.facts);
        }
        Err(Unlisted::Trouble(Trouble::Status(status))) => {
            return (Err(NoAnswer::Refused(by_status(status))), conversation.facts);
        }
        Err(Unlisted::Trouble(Trouble::Silent(silence))) => {
            let reason = not_introduced(upstream.name(), &NotIntroduced::Silent(silence));
            return (Err(NoAnswer::Refused(reason)), conversation.facts);
        }
        Err(Unlisted::Odd(why)) => {
            let reason = not_introduced(upstream.name(), &NotIntroduced::Odd(why));
            return (Err(NoAnswer::Refused(reason)), conversation.facts);
        }
    };
    // ATTACK(rug-pull)
    let now = offers.iter().filter_map(named_digest).find(|(name, _)| name == tool);
    if now.map(|(_, digest)| digest) != Some(digest) {
        return (Err(NoAnswer::Changed), conversation.facts);
    }
    let offer = offers.iter().find(|offer| offer.get("name").and_then(Value::as_str) == Some(tool));
    let schema = offer.and_then(|offer| offer.get("inputSchema")).unwrap_or(&Value::Null);
    let answered = conversation.call(tool, schema, arguments.value()).await.map_err(NoAnswer::from);
    (answered, conversation.facts)
}

/// Why there is no list.
enum Unlisted {
    Odd(&'static str),
    Trouble(Trouble),
}

impl From<Trouble> for Unlisted {
    fn from(trouble: Trouble) -> Unlisted {
        Unlisted::Trouble(trouble)
    }
}

impl From<NotIntroduced> for Unlisted {
    fn from(why: NotIntroduced) -> Unlisted {
        match why {
            NotIntroduced::Odd(why) => Unlisted::Odd(why),
            NotIntroduced::Silent(silence) => Unlisted::Trouble(Trouble::Silent(silence)),
        }
    }
}

/// Why a message has no answer.
enum Trouble {
    Refused(Reason),
    Silent(Silence),
    /// It answers with this status, and no message.
    Status(u16),
}

fn by_status(status: u16) -> Reason {
    Reason::tool_failed(format!("the server answers with status {status}"))
}

/// Which era of the protocol a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// It is greeted first, and may keep a session.
    Sessions,
    /// Every message says all about itself.
    Stateless,
}

/// What is said to a server and heard from it over HTTP, for one call.
struct HttpConversation<'a> {
    upstream: &'a Upstream,
    address: Address,
    grant: &'a Grant,
    at: &'a Surroundings,
    cancel: &'a CancellationToken,
    sign_in: Option<SignIn>,
    session: Option<String>,
    revision: Option<String>,
    era: Spoken,
    latest: u64,
    facts: RunFacts,
}

/// A message on its way.
struct Sent {
    body: Vec<u8>,
    /// The number of the answer that it gets, if it is a question.
    id: Option<u64>,
    headers: Vec<(String, String)>,
}

/// What came back.
struct Reply {
    status: u16,
    is_stream: bool,
    text: String,
}

impl<'a> HttpConversation<'a> {
    fn of(
        upstream: &'a Upstream,
        grant: &'a Grant,
        at: &'a Surroundings,
        cancel: &'a CancellationToken,
    ) -> Result<HttpConversation<'a>, Reason> {
        let UpstreamWay::Url(url) = &upstream.settings().way else {
            return Err(Reason::internal("the server is not somewhere else"));
        };
        let address = address_of(url)?;
        Ok(HttpConversation {
            upstream,
            address,
            grant,
            at,
            cancel,
            sign_in: at.sign_in(upstream.name()),
            session: None,
            revision: None,
            era: Spoken::Sessions,
            latest: 0,
            facts: RunFacts::default(),
        })
    }

    async fn introduce_and_list(&mut self) -> Result<Vec<Value>, Unlisted> {
        if let Some(sign_in) = &self.sign_in {
            let made_ready = async {
                sign_in.make_ready().await;
                Ok(())
            };
            unless_cut(self.cancel, made_ready).await.map_err(Trouble::Refused)?;
        }
        self.introduce().await?;
        let mut offers = Offers::default();
        loop {
            let page = self.ask("tools/list", offers.next_page(), Vec::new()).await?;
            if offers.take(page)? {
                return Ok(offers.all);
            }
        }
    }

    /// Finds out what is spoken. A server that is known to want a greeting is not asked for anything newer.
    async fn introduce(&mut self) -> Result<(), Unlisted> {
        let heard = *self.upstream.heard_era.lock().unwrap_or_else(PoisonError::into_inner);
        let spoken = match heard {
            Some(Spoken::Sessions) => Spoken::Sessions,
            Some(Spoken::Stateless) | None => self.discover().await?,
        };
        self.era = spoken;
        if spoken == Spoken::Sessions {
            self.revision = None;
            let answer = self.ask("initialize", introduction(), Vec::new()).await?;
            let revision = check_introduction(&answer)?;
            self.revision = Some(revision.to_owned());
            let body = message::notice("notifications/initialized", &json!({}));
            self.reach(&Sent { body, id: None, headers: Vec::new() }).await?;
        }
        *self.upstream.heard_era.lock().unwrap_or_else(PoisonError::into_inner) = Some(spoken);
        Ok(())
    }

    /// Asks as one does who needs no greeting. Whoever does not understand wants one.
    async fn discover(&mut self) -> Result<Spoken, Unlisted> {
        (self.era, self.revision) = (Spoken::Stateless, Some(STATELESS.to_owned()));
        // A server that says it knows no such revision is asked once more: what it knows may be this one.
        for _ in 0..2 {
            let answered = match self.ask("server/discover", json!({}), Vec::new()).await {
                Err(Trouble::Silent(Silence::Error(error))) if error.code == UNSUPPORTED => continue,
                Err(Trouble::Silent(_) | Trouble::Status(_)) => return Ok(Spoken::Sessions),
                answered => answered?,
            };
            let supported = answered.get("supportedVersions").and_then(Value::as_array);
            if !supported.is_some_and(|all| all.contains(&json!(STATELESS))) {
                return Ok(Spoken::Sessions);
            }
            if answered.pointer("/capabilities/tools").is_none() {
                return Err(Unlisted::Odd("it offers no tools"));
            }
            return Ok(Spoken::Stateless);
        }
        Ok(Spoken::Sessions)
    }

    /// Has a tool called. What the server wants to know first is not told: nobody here answers in another's name.
    async fn call(&mut self, tool: &str, schema: &Value, arguments: &Value) -> Result<Value, Trouble> {
        let headers = match self.era {
            Spoken::Stateless => mirrored::headers(schema, arguments),
            Spoken::Sessions => Vec::new(),
        };
        let params = json!({ "name": tool, "arguments": arguments });
        let mut answer = self.ask("tools/call", params.clone(), headers.clone()).await?;
        for _ in 0..MOST_ROUNDS {
            let Some(declined) = declined(&answer) else { return Ok(answer) };
            let mut params = params.clone();
            if let Some(members) = params.as_object_mut() {
                members.insert("inputResponses".to_owned(), declined?);
                // As it was given, or not at all.
                if let Some(state) = answer.get_mut("requestState").map(Value::take) {
                    members.insert("requestState".to_owned(), state);
                }
            }
            answer = self.ask("tools/call", params, headers.clone()).await?;
        }
        Err(Trouble::Refused(Reason::tool_failed("the server asks back without end")))
    }

    async fn ask(
        &mut self,
        method: &str,
        mut params: Value,
        mut headers: Vec<(String, String)>,
    ) -> Result<Value, Trouble> {
        self.latest += 1;
        let id = self.latest;
        if self.era == Spoken::Stateless {
            headers.push(("mcp-method".to_owned(), method.to_owned()));
            if let Some(name) = params.get("name").and_then(Value::as_str) {
                headers.push(("mcp-name".to_owned(), mirrored::written(name)));
            }
            if let Some(members) = params.as_object_mut() {
                members.insert("_meta".to_owned(), about_us());
            }
        }
        let sent = Sent { body: message::question(id, method, &params), id: Some(id), headers };
        let mut reply = self.reach(&sent).await?;
        for _ in 0..MOST_RESUMES {
            match answer_in(&reply, id)? {
                Some(answer) => return answer.map_err(|error| Trouble::Silent(Silence::Error(error))),
                None if !(200..300).contains(&reply.status) => return Err(Trouble::Status(reply.status)),
                None => {}
            }
            // A stream that broke off is taken up where it was.
            let last = events_of(&reply.text).into_iter().fold(StreamEvent::default(), StreamEvent::then);
            let Some(after) = last.id.filter(|_| reply.is_stream && self.era == Spoken::Sessions) else {
                break;
            };
            let pause = Duration::from_millis(last.retry.unwrap_or(1000).min(MOST_PAUSE));
            let paused = async {
                tokio::time::sleep(pause).await;
                Ok(())
            };
            unless_cut(self.cancel, paused).await.map_err(Trouble::Refused)?;
            reply = self.resume(id, &after).await?;
        }
        Err(Trouble::Silent(Silence::Over(None)))
    }

    /// Asks for the rest of a stream.
    async fn resume(&mut self, id: u64, after: &str) -> Result<Reply, Trouble> {
        let headers = vec![("last-event-id".to_owned(), after.to_owned())];
        self.reach(&Sent { body: Vec::new(), id: Some(id), headers }).await
    }

    /// Sends a message, and once more if the server would not let it in and does now.
    async fn reach(&mut self, sent: &Sent) -> Result<Reply, Trouble> {
        for attempt in 0.. {
            let (got, body) = self.send(sent).await?;
            if matches!(got.status, 401 | 403) {
                tokio::select! {
                    turned_away = self.turned_away(&got, attempt) => turned_away?,
                    () = self.cancel.cancelled() => return Err(Trouble::Refused(taken_back())),
                }
                continue;
            }
            if !got.whole {
                return Err(Trouble::Silent(Silence::Over(Some(Garbled::TooLong))));
            }
            let session = got.headers.get("mcp-session-id").and_then(|values| values.first());
            let is_plain = |id: &&String| id.len() <= 256 && id.chars().all(|c| c.is_ascii_graphic());
            self.session = session.filter(is_plain).cloned().or(self.session.take());
            let kind = got.headers.get("content-type").and_then(|values| values.first());
            let is_stream = kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"));
            let text = String::from_utf8(body);
            let text = text.map_err(|_| Trouble::Silent(Silence::Over(Some(Garbled::NotText))))?;
            if sent.id.is_none() && !(200..300).contains(&got.status) {
                return Err(Trouble::Status(got.status));
            }
            return Ok(Reply { status: got.status, is_stream, text });
        }
        Err(Trouble::Silent(Silence::NotAsked))
    }

    /// Whether it is worth while to ask again; else why not.
    async fn turned_away(&self, got: &Got, attempt: usize) -> Result<(), Trouble> {
        let name = self.upstream.name();
        let refused = |why: String| Reason::tool_failed(why);
        let Some(sign_in) = &self.sign_in else {
            let why = format!("the server `{name}` answers with status {}", got.status);
            let hint = format!("whoever runs this gate can configure `mcp.servers.{name}.auth`");
            return Err(Trouble::Refused(refused(why).with_hint(hint)));
        };
        let asks = got.headers.get("www-authenticate").cloned().unwrap_or_default();
        let result = match attempt {
            0 | 1 => sign_in.turned_away(got.status, &asks).await,
            // ATTACK(endless-step-up)
            _ => Err(NotSignedIn::NotEnough),
        };
        result.map_err(|why| {
            let reason = refused(format!("the server `{name}` does not let the gate in: {why}"));
            Trouble::Refused(match why {
                NotSignedIn::NobodyHas => reason
                    .with_hint(format!("whoever runs this gate can sign in: `toolgate tools login {name}`")),
                _ => reason,
            })
        })
    }

    async fn send(&mut self, sent: &Sent) -> Result<(Got, Vec<u8>), Trouble> {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let is_question = !sent.body.is_empty();
        let mut headers = if is_question {
            vec![
                header("content-type", "application/json"),
                header("accept", "application/json, text/event-stream"),
            ]
        } else {
            vec![header("accept", "text/event-stream")]
        };
        headers.extend(self.session.as_deref().map(|session| header("mcp-session-id", session)));
        headers.extend(self.revision.as_deref().map(|revision| header("mcp-protocol-version", revision)));
        headers.extend(sent.headers.iter().cloned());
        let timeout = u64::try_from(self.grant.authority().limits.timeout.as_millis()).unwrap_or(LONGEST);
        let request = WebRequest {
            method: if is_question { "POST" } else { "GET" }.to_owned(),
            address: self.address.clone(),
            headers,
            body: sent.body.clone(),
            // A server that leads elsewhere is another server.
            redirects: 0,
            max_bytes: MOST_BYTES,
            timeout_ms: timeout.min(LONGEST),
            until: sent.id,
        };
        let Heard { said, facts } = request.ask_server(self.grant, self.at, self.cancel).await;
        self.add(facts);
        said.map_err(Trouble::Refused)
    }

    /// The facts of several requests as those of one call.
    fn add(&mut self, facts: RunFacts) {
        let before = std::mem::replace(&mut self.facts, facts);
        let now = &mut self.facts;
        now.wall_micros += before.wall_micros;
        now.cpu_micros += before.cpu_micros;
        now.peak_memory = now.peak_memory.max(before.peak_memory);
        now.further_attempts += before.further_attempts;
        now.attempts =
            before.attempts.into_iter().chain(std::mem::take(&mut now.attempts)).take(64).collect();
        for (host, (sent, received)) in before.bytes_per_host {
            let sum = now.bytes_per_host.entry(host).or_default();
            (sum.0, sum.1) = (sum.0 + sent, sum.1 + received);
        }
    }
}

/// The answer with this number, if it is there.
fn answer_in(reply: &Reply, id: u64) -> Result<Option<Result<Value, RpcError>>, Trouble> {
    let garbled = |garbled| Trouble::Silent(Silence::Over(Some(garbled)));
    let is_fine = (200..300).contains(&reply.status);
    let messages: Vec<String> = match reply.is_stream {
        true => events_of(&reply.text).into_iter().map(|event| event.data).collect(),
        false => vec![reply.text.clone()],
    };
    for message in messages.iter().filter(|message| !message.trim().is_empty()) {
        match message::read(message) {
            // A result that comes with an error of HTTP is none; an error that does is what the server says of it.
            Ok(Message::Answer { id: of, answer }) if of == id && (is_fine || answer.is_err()) => {
                return Ok(Some(answer));
            }
            // What comes with an error of HTTP may be anything.
            _ if !is_fine => return Ok(None),
            Ok(Message::Answer { .. }) => return Err(garbled(Garbled::Unasked)),
            Ok(Message::Question { .. } | Message::Notice { .. }) => {}
            Err(why) => return Err(garbled(why)),
        }
    }
    Ok(None)
}

/// What is answered to a server that wants to know something first: no. Nothing if it does not want to.
fn declined(answer: &Value) -> Option<Result<Value, Trouble>> {
    if answer.get("resultType").and_then(Value::as_str) != Some("input_required") {
        return None;
    }
    let asked = answer.get("inputRequests").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut answers = serde_json::Map::new();
    for (key, question) in asked {
        if question.get("method").and_then(Value::as_str) != Some("elicitation/create") {
            let why = "the server asks for what a gate does not give: a model, or folders";
            return Some(Err(Trouble::Refused(Reason::tool_failed(why))));
        }
        // People are asked by their gate, not by servers through it.
        answers.insert(key, json!({ "action": "decline" }));
    }
    Some(Ok(Value::Object(answers)))
}

/// What each message says of us, where nothing was said before.
fn about_us() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": { "name": "toolgate", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamEvent {
    pub(crate) data: String,
    id: Option<String>,
    retry: Option<u64>,
}

impl StreamEvent {
    /// What is known after the next one.
    fn then(self, next: StreamEvent) -> StreamEvent {
        StreamEvent { data: next.data, id: next.id.or(self.id), retry: next.retry.or(self.retry) }
    }
}

/// The events of a stream.
pub(crate) fn events_of(text: &str) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    let mut now = StreamEvent::default();
    let mut data: Vec<&str> = Vec::new();
    let mut end = |now: &mut StreamEvent, data: &mut Vec<&str>| {
        now.data = std::mem::take(data).join("\n");
        events.push(std::mem::take(now));
    };
    for line in text.lines() {
        let value = |rest: &'_ str| rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        if line.is_empty() {
            end(&mut now, &mut data);
        } else if let Some(rest) = line.strip_prefix("data:") {
            data.push(rest.strip_prefix(' ').unwrap_or(rest));
        } else if let Some(rest) = line.strip_prefix("id:") {
            // What could not stand in a header is no id.
            let is_plain = |id: &String| id.len() <= 256 && id.bytes().all(|byte| byte.is_ascii_graphic());
            now.id = Some(value(rest)).filter(is_plain).filter(|id| !id.is_empty());
        } else if let Some(rest) = line.strip_prefix("retry:") {
            now.retry = value(rest).parse().ok();
        }
    }
    if !data.is_empty() || now != StreamEvent::default() {
        end(&mut now, &mut data);
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_one_by_one() {
        let text = ": hello\nevent: message\ndata: {\"a\":\ndata: 1}\n\nid: 2\nretry: 500\ndata:{}\n\n";
        let events = events_of(text);
        let data: Vec<&str> = events.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, ["{\"a\":\n1}", "{}"]);
        let last = events.into_iter().fold(StreamEvent::default(), StreamEvent::then);
        assert_eq!((last.id.as_deref(), last.retry), (Some("2"), Some(500)));
    }

    #[test]
    fn a_server_that_asks_first_is_told_no_and_nothing_else() {
        let answer = json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "elicitation/create" } } });
        let told = declined(&answer).and_then(Result::ok);
        assert_eq!(told, Some(json!({ "a": { "action": "decline" } })));
        let model = json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "sampling/createMessage" } } });
        assert!(declined(&model).is_some_and(|told| told.is_err()));
        assert!(declined(&json!({ "content": [] })).is_none());
    }
}
