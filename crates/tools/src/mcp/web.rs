//! Servers that are asked over HTTP: each message is one request, made by a worker behind walls whose network leads to the
//! server and nowhere else.
//!
//! Nothing is kept between calls, so a call begins with an introduction. What comes back is read as strictly as what a program
//! says: an answer in JSON, or one of the events of a stream, the others of which are passed over.

use std::sync::Arc;

use contract::{Canonical, Digest, Reason, RunFacts, Target};
use policy::{Grant, UpstreamWay};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::instance::{
    NotIntroduced, Offers, check_introduction, introduction, named_digest, not_introduced,
};
use super::message::{self, Garbled, Message};
use super::session::Silence;
use super::upstream::Upstream;
use crate::http::{Address, Got, Heard, Scheme, WebRequest};
use crate::surroundings::Surroundings;

/// As much of an answer as is read.
const MOST_BYTES: u64 = 16 << 20;
/// Milliseconds that one message may take at most.
const LONGEST: u64 = 60_000;

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
    let mut line = match Line::of(upstream, grant, at, cancel) {
        Ok(line) => line,
        Err(reason) => return (Err(reason), RunFacts::default()),
    };
    let listed = line.introduce_and_list().await;
    let listed = listed.map_err(|why| match why {
        Unlisted::Odd(why) => not_introduced(upstream.name(), &NotIntroduced::Odd(why)),
        Unlisted::Trouble(Trouble::Silent(silence)) => {
            not_introduced(upstream.name(), &NotIntroduced::Silent(silence))
        }
        Unlisted::Trouble(Trouble::Refused(reason)) => reason,
    });
    (listed, line.facts)
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
    let mut line = match Line::of(upstream, grant, at, cancel) {
        Ok(line) => line,
        Err(reason) => return (Err(NoAnswer::Refused(reason)), RunFacts::default()),
    };
    let offers = match line.introduce_and_list().await {
        Ok(offers) => offers,
        Err(Unlisted::Trouble(Trouble::Refused(reason))) => {
            return (Err(NoAnswer::Refused(reason)), line.facts);
        }
        Err(Unlisted::Trouble(Trouble::Silent(silence))) => {
            let reason = not_introduced(upstream.name(), &NotIntroduced::Silent(silence));
            return (Err(NoAnswer::Refused(reason)), line.facts);
        }
        Err(Unlisted::Odd(why)) => {
            let reason = not_introduced(upstream.name(), &NotIntroduced::Odd(why));
            return (Err(NoAnswer::Refused(reason)), line.facts);
        }
    };
    // ATTACK(rug-pull)
    let now = offers.iter().filter_map(named_digest).find(|(name, _)| name == tool);
    if now.map(|(_, digest)| digest) != Some(digest) {
        return (Err(NoAnswer::Changed), line.facts);
    }
    let asked = line.ask("tools/call", json!({ "name": tool, "arguments": arguments.value() })).await;
    let answered = asked.map_err(NoAnswer::from);
    (answered, line.facts)
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
}

/// The line to a server, for one call.
struct Line<'a> {
    address: Address,
    grant: &'a Grant,
    at: &'a Surroundings,
    cancel: &'a CancellationToken,
    session: Option<String>,
    revision: Option<String>,
    latest: u64,
    facts: RunFacts,
}

impl<'a> Line<'a> {
    fn of(
        upstream: &Upstream,
        grant: &'a Grant,
        at: &'a Surroundings,
        cancel: &'a CancellationToken,
    ) -> Result<Line<'a>, Reason> {
        let UpstreamWay::Url(url) = &upstream.settings().way else {
            return Err(Reason::internal("the server is not somewhere else"));
        };
        let address = address_of(url)?;
        Ok(Line {
            address,
            grant,
            at,
            cancel,
            session: None,
            revision: None,
            latest: 0,
            facts: RunFacts::default(),
        })
    }

    async fn introduce_and_list(&mut self) -> Result<Vec<Value>, Unlisted> {
        let answer = self.ask("initialize", introduction()).await?;
        let revision = check_introduction(&answer)?;
        self.revision = Some(revision.to_owned());
        self.send(message::notice("notifications/initialized", &json!({}))).await?;
        let mut offers = Offers::default();
        loop {
            let page = self.ask("tools/list", offers.next_page()).await?;
            if offers.take(page)? {
                return Ok(offers.all);
            }
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Trouble> {
        self.latest += 1;
        let id = self.latest;
        let (got, body) = self.send(message::question(id, method, &params)).await?;
        let garbled = |garbled| Trouble::Silent(Silence::Over(Some(garbled)));
        if !got.whole {
            return Err(garbled(Garbled::TooLong));
        }
        let text = String::from_utf8(body).map_err(|_| garbled(Garbled::NotText))?;
        let kind = got.headers.get("content-type").and_then(|values| values.first());
        let is_stream = kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"));
        let messages = if is_stream { events(&text) } else { vec![text] };
        for message in messages.iter().filter(|message| !message.trim().is_empty()) {
            match message::read(message).map_err(garbled)? {
                Message::Answer { id: of, answer } if of == id => {
                    return answer.map_err(|error| Trouble::Silent(Silence::Error(error)));
                }
                Message::Answer { .. } => return Err(garbled(Garbled::Unasked)),
                Message::Question { .. } | Message::Notice { .. } => {}
            }
        }
        Err(Trouble::Silent(Silence::Over(None)))
    }

    async fn send(&mut self, message: Vec<u8>) -> Result<(Got, Vec<u8>), Trouble> {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            header("content-type", "application/json"),
            header("accept", "application/json, text/event-stream"),
        ];
        headers.extend(self.session.as_deref().map(|session| header("mcp-session-id", session)));
        headers.extend(self.revision.as_deref().map(|revision| header("mcp-protocol-version", revision)));
        let timeout = u64::try_from(self.grant.authority().limits.timeout.as_millis()).unwrap_or(LONGEST);
        let request = WebRequest {
            method: "POST".to_owned(),
            address: self.address.clone(),
            headers,
            body: message,
            // A server that leads elsewhere is another server.
            redirects: 0,
            max_bytes: MOST_BYTES,
            timeout_ms: timeout.min(LONGEST),
        };
        let Heard { said, facts } = request.ask_server(self.grant, self.at, self.cancel).await;
        self.add(facts);
        let (got, body) = said.map_err(Trouble::Refused)?;
        if !(200..300).contains(&got.status) {
            let why = format!("the server answers with status {}", got.status);
            return Err(Trouble::Refused(Reason::tool_failed(why)));
        }
        let session = got.headers.get("mcp-session-id").and_then(|values| values.first());
        let is_plain = |id: &&String| id.len() <= 256 && id.chars().all(|c| c.is_ascii_graphic());
        self.session = session.filter(is_plain).cloned().or(self.session.take());
        Ok((got, body))
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

/// The data of each event of a stream.
fn events(text: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.is_empty() {
            events.push(std::mem::take(&mut data).join("\n"));
        } else if let Some(rest) = line.strip_prefix("data:") {
            data.push(rest.strip_prefix(' ').unwrap_or(rest));
        }
    }
    events.push(data.join("\n"));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_one_by_one() {
        let text = ": hello\nevent: message\ndata: {\"a\":\ndata: 1}\n\nid: 2\ndata:{}\n\n";
        assert_eq!(events(text), ["{\"a\":\n1}", "{}", ""]);
    }
}
