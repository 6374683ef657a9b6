//! What happens, as it happens: server-sent events, one per entry of the ledger.
//!
//! # Invariants
//! - An event says that something happened and to which call, never what was in it.
//! - A follower that comes back with the last id it saw misses nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::Credential;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio_util::io::ReaderStream;

use super::app::App;
use super::caller::{Caller, single};
use super::doors::SessionKey;
use super::gate::{Event, GateError};
use super::problem::Problem;
use super::room::Held;

/// How often the ledger is looked at: other processes write to it, too.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// How often a silent stream shows that it lives: once in so many looks.
const LOOKS_PER_SIGN: u32 = 50;
/// How many events are read at once.
const AT_ONCE: u32 = 200;
/// Room for events on their way.
const BUFFER: usize = 64 * 1024;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn follow(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(held): Extension<Arc<Held>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    let (session, whose) = (operator.session, operator.credential.clone());
    let place = app.followers.clone().try_acquire_owned().map_err(|_| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_followers", "too many follow events already")
    })?;
    let size = app.gate.ledger_size().await?;
    let seen = single(&headers, &LAST_EVENT_ID).and_then(|text| text.parse::<u64>().ok());
    // A follower from another ledger, or another time, starts over at the end.
    let from = seen.map_or(size, |seen| seen.saturating_add(1).min(size));
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let follower = Follower { app: app.clone(), session, whose, to: ours, next: from };
    app.tasks.spawn(async move {
        // The request goes on as long as events do.
        let _place = (place, held);
        follower.run().await;
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::from_stream(ReaderStream::new(theirs))).into_response())
}

struct Follower {
    app: App,
    session: Option<SessionKey>,
    whose: Arc<Credential>,
    to: DuplexStream,
    next: u64,
}

/// The follower is not there any more, or may not be.
struct Over;

impl Follower {
    async fn run(mut self) {
        let stop = self.app.shutdown.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            Over = self.tell_all() => {}
        }
    }

    async fn tell_all(&mut self) -> Over {
        // Whoever hears this has missed nothing that they do not ask for now.
        if let Err(over) = self.write("event: hello\ndata: {}\n\n").await {
            return over;
        }
        for look in 1.. {
            if let Err(over) = self.look(look).await {
                return over;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Over
    }

    async fn look(&mut self, look: u32) -> Result<(), Over> {
        if self.session.is_some_and(|session| !self.app.doors.goes_on(session, self.app.gate.now())) {
            return Err(Over);
        }
        // Whoever is no operator any more hears nothing more.
        if !matches!(self.app.gate.operator(&self.whose).await, Ok(Some(_))) {
            return Err(Over);
        }
        if look.is_multiple_of(LOOKS_PER_SIGN) {
            self.write(": still here\n\n").await?;
        }
        loop {
            let events = self.app.gate.events(self.next, AT_ONCE).await.map_err(|_: GateError| Over)?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                self.write(&written(&event)).await?;
                self.next = event.seq.saturating_add(1);
            }
        }
    }

    async fn write(&mut self, text: &str) -> Result<(), Over> {
        self.to.write_all(text.as_bytes()).await.map_err(|_| Over)
    }
}

fn written(event: &Event) -> String {
    // The name of an event is a field of its own only where it cannot end the line.
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\nevent: ledger\ndata: {data}\n\n", event.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_three_lines_whatever_its_kind_holds() {
        let event =
            Event { seq: 7, kind: "call\n\ndata: x".into(), time: 1, call_id: None, approval_id: None };
        assert_eq!(
            written(&event),
            "id: 7\nevent: ledger\ndata: {\"seq\":7,\"kind\":\"call\\n\\ndata: x\",\"time\":1}\n\n"
        );
    }
}
