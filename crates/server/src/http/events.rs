//! What happens, as it happens: server-sent events, one per entry of the ledger.
//!
//! The ledger is looked at once for all who follow, however many they are.
//!
//! # Invariants
//! - An event says that something happened and to which call, never what was in it.
//! - A follower that comes back with the last id it saw misses nothing.
//! - Nobody is told anything who is no operator by then, or whose session has ended.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::chain;
use engine::Credential;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio_util::io::ReaderStream;

use super::app::App;
use super::caller::{Caller, single};
use super::gate::{Event, GateError};
use super::problem::Problem;
use super::room::Held;
use super::sessions::SessionKey;

/// How often the ledger is looked at: other processes write to it, too.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// How often a follower looks whether its session goes on.
const TICK: Duration = Duration::from_secs(1);
/// How often a silent stream shows that it lives: once in so many ticks.
const TICKS_PER_SIGN: u32 = 15;
/// How many events are read at once.
const AT_ONCE: u32 = 200;
/// Room for events on their way.
const BUFFER: usize = 64 * 1024;
/// How far a follower may be behind before it reads for itself.
const MOST_NEWS: usize = 16;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What is new, told to all who follow.
pub(super) struct Tidings(Sender<Arc<News>>);

/// Entries of the ledger that follow each other, as they are told.
struct News {
    /// The first.
    from: u64,
    /// The one after the last.
    next: u64,
    told: Vec<(u64, String)>,
}

impl Default for Tidings {
    fn default() -> Tidings {
        Tidings(broadcast::channel(MOST_NEWS).0)
    }
}

impl Tidings {
    /// Looks at the ledger for as long as somebody follows, until the server stops.
    pub(super) async fn watch(app: App) {
        let mut next = None;
        loop {
            tokio::select! {
                () = app.shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            if app.tidings.0.receiver_count() == 0 {
                next = None;
                continue;
            }
            // What fails now is tried again; whoever follows misses nothing by it.
            if let Ok(after) = app.tidings.look(&app, next).await {
                next = Some(after);
            }
        }
    }

    /// Tells what came since the last look; where to go on.
    async fn look(&self, app: &App, next: Option<u64>) -> Result<u64, GateError> {
        let Some(mut from) = next else {
            // Whoever came a moment before this has to know where it begins.
            let from = app.gate.ledger_size().await?;
            let _ = self.0.send(Arc::new(News { from, next: from, told: Vec::new() }));
            return Ok(from);
        };
        loop {
            let events = app.gate.events(from, AT_ONCE).await?;
            let Some(last) = events.last() else { return Ok(from) };
            let next = last.seq.saturating_add(1);
            let told = events.iter().map(|event| (event.seq, written(event))).collect();
            let _ = self.0.send(Arc::new(News { from, next, told }));
            from = next;
        }
    }
}

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
    // Before the end of the ledger is looked up: what comes between is told twice rather than never, and written once.
    let news = app.tidings.0.subscribe();
    let size = app.gate.ledger_size().await?;
    let seen = single(&headers, &LAST_EVENT_ID).and_then(|text| text.parse::<u64>().ok());
    // A follower from another ledger, or another time, starts over at the end.
    let from = seen.map_or(size, |seen| seen.saturating_add(1).min(size));
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let follower = Follower { app: app.clone(), session, whose, to: ours, next: from, news };
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
    news: Receiver<Arc<News>>,
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
        if let Err(over) = self.catch_up().await {
            return over;
        }
        let mut ticks = 0_u32;
        let mut ticking = tokio::time::interval(TICK);
        loop {
            let told = tokio::select! {
                news = self.news.recv() => self.tell(news).await,
                _ = ticking.tick() => {
                    ticks = ticks.wrapping_add(1);
                    self.show_life(ticks).await
                }
            };
            if let Err(over) = told {
                return over;
            }
        }
    }

    async fn tell(&mut self, news: Result<Arc<News>, RecvError>) -> Result<(), Over> {
        let news = match news {
            Ok(news) if news.from <= self.next => news,
            Ok(_) | Err(RecvError::Lagged(_)) => return self.catch_up().await,
            Err(RecvError::Closed) => return Err(Over),
        };
        if news.next <= self.next {
            return Ok(());
        }
        self.check().await?;
        let from = self.next;
        for (_, text) in news.told.iter().filter(|(seq, _)| *seq >= from) {
            self.write(text).await?;
        }
        self.next = news.next;
        Ok(())
    }

    /// Reads for itself what was told before it came, or while it was slow.
    async fn catch_up(&mut self) -> Result<(), Over> {
        self.check().await?;
        loop {
            let events = self.app.gate.events(self.next, AT_ONCE).await.map_err(|error: GateError| {
                tracing::warn!(
                    error = chain(&error),
                    "events could not be read for somebody who follows them"
                );
                Over
            })?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                self.write(&written(&event)).await?;
                self.next = event.seq.saturating_add(1);
            }
        }
    }

    async fn show_life(&mut self, ticks: u32) -> Result<(), Over> {
        self.check_session()?;
        if !ticks.is_multiple_of(TICKS_PER_SIGN) {
            return Ok(());
        }
        self.check().await?;
        self.write(": still here\n\n").await
    }

    /// Whoever is no operator any more hears nothing more. That they are none is an event itself.
    async fn check(&self) -> Result<(), Over> {
        self.check_session()?;
        match self.app.gate.operator(&self.whose).await {
            Ok(Some(_)) => Ok(()),
            _ => Err(Over),
        }
    }

    fn check_session(&self) -> Result<(), Over> {
        let ended =
            self.session.is_some_and(|session| !self.app.sessions.goes_on(session, self.app.gate.now()));
        if ended { Err(Over) } else { Ok(()) }
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
