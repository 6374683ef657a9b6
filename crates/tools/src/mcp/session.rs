//! A conversation with one server: questions with numbers, and what it says besides.
//!
//! Knows no process and no network: it reads from one side and writes to the other.
//!
//! # Invariants
//! - An answer counts once, and only for the question whose number it carries; any other ends the conversation.
//! - A question that is given up is taken back. A server that goes on with it for longer than [`GRACE`] is ended with
//!   everything else that it does: nothing of a call goes on after its end.
//! - What a server asks of us is refused, but for whether we are there; what it says unasked is counted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::message::{self, Garbled, Lines, Message, RpcError};

/// How long a server may take to let go of what was taken back.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// As many things as a server says unasked between two answers.
const MOST_UNASKED: usize = 10_000;
/// As many bytes of them.
const MOST_UNASKED_BYTES: usize = 64 << 20;
/// Messages of ours that wait to be written.
const WAITING: usize = 64;

/// A conversation. A clone is the same one.
#[derive(Clone, Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    say: mpsc::Sender<Vec<u8>>,
}

#[derive(Debug)]
struct Shared {
    talk: Mutex<Talk>,
    /// Cancelled when it is over.
    over: CancellationToken,
    /// Counts how often the server said that its tools are others.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Talk {
    latest: u64,
    under_way: HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>,
    /// Those that were taken back and not answered.
    taken_back: HashSet<u64>,
    /// Why it is over, if that is the server's doing.
    why: Option<Garbled>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Silence {
    /// It was not sent.
    NotAsked,
    /// It was, and then the conversation was over.
    Over(Option<Garbled>),
    /// The server says that it cannot.
    Error(RpcError),
}

impl Session {
    /// Begins to read and to write.
    pub(super) fn over(
        reading: impl AsyncRead + Send + Unpin + 'static,
        writing: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Session {
        let (say, said) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            talk: Mutex::default(),
            over: CancellationToken::new(),
            changes: watch::Sender::new(0),
        });
        let session = Session { shared: Arc::clone(&shared), say };
        tokio::spawn(write(writing, said, shared.over.clone()));
        tokio::spawn(listen(reading, Arc::clone(&shared), session.say.downgrade()));
        session
    }

    /// Asks. Dropping the future takes the question back.
    pub(super) async fn ask(&self, method: &str, mut params: Value) -> Result<Value, Silence> {
        let (sender, answer) = oneshot::channel();
        let asking = {
            let mut talk = self.lock();
            if self.is_over() {
                return Err(Silence::NotAsked);
            }
            talk.latest += 1;
            let number = talk.latest;
            talk.under_way.insert(number, sender);
            Asking { session: self, number, is_sent: false }
        };
        if let Some(members) = params.as_object_mut().filter(|_| method == "tools/call") {
            members.insert("_meta".to_owned(), json!({ "progressToken": asking.number }));
        }
        let mut asking = asking;
        let question = message::question(asking.number, method, &params);
        if self.say.send(question).await.is_err() {
            return Err(Silence::NotAsked);
        }
        asking.is_sent = true;
        match answer.await {
            Ok(answered) => answered.map_err(Silence::Error),
            Err(_) => Err(Silence::Over(self.lock().why.clone())),
        }
    }

    /// Tells the server something.
    pub(super) async fn tell(&self, method: &str, params: Value) {
        let _ = self.say.send(message::notice(method, &params)).await;
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.shared.over.is_cancelled()
    }

    /// Counts how often the server said that its tools are others.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Ends it. Whoever waits for an answer gets none.
    pub(super) fn end(&self) {
        self.shared.end(None);
    }

    fn lock(&self) -> MutexGuard<'_, Talk> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Talk> {
        // Whoever panicked with it in hand has left it whole.
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: Option<Garbled>) {
        self.over.cancel();
        let mut talk = self.lock();
        talk.why = talk.why.take().or(why);
        talk.under_way.clear();
    }
}

/// A question under way. Dropped before its answer, it is taken back.
struct Asking<'a> {
    session: &'a Session,
    number: u64,
    is_sent: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Session { shared, say } = self.session;
        let number = self.number;
        {
            let mut talk = shared.lock();
            if talk.under_way.remove(&number).is_none() || !self.is_sent || shared.over.is_cancelled() {
                return;
            }
            talk.taken_back.insert(number);
        }
        let params = json!({ "requestId": number, "reason": "the call was taken back" });
        // One that reads nothing any more is ended below.
        let _ = say.try_send(message::notice("notifications/cancelled", &params));
        let shared = Arc::clone(shared);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return shared.end(None) };
        drop(runtime.spawn(async move {
            tokio::select! {
                () = shared.over.cancelled() => {}
                () = tokio::time::sleep(GRACE) => {
                    // ATTACK(server-that-goes-on): it may be at work for a call that has ended.
                    if shared.lock().taken_back.contains(&number) {
                        shared.end(None);
                    }
                }
            }
        }));
    }
}

async fn write(
    mut writing: impl AsyncWrite + Unpin,
    mut said: mpsc::Receiver<Vec<u8>>,
    over: CancellationToken,
) {
    loop {
        let next = tokio::select! {
            () = over.cancelled() => return,
            next = said.recv() => next,
        };
        let Some(bytes) = next else { return };
        let written = tokio::select! {
            () = over.cancelled() => return,
            written = writing.write_all(&bytes) => written,
        };
        if written.is_err() {
            over.cancel();
        }
    }
}

async fn listen(reading: impl AsyncRead + Unpin, shared: Arc<Shared>, say: mpsc::WeakSender<Vec<u8>>) {
    let over = shared.over.clone();
    let why = tokio::select! {
        () = over.cancelled() => None,
        why = hear(Lines::of(reading), &shared, &say) => why,
    };
    shared.end(why);
}

/// Hears the server out; says why it stopped, if that is the server's doing.
async fn hear<R: AsyncRead + Unpin>(
    mut lines: Lines<R>,
    shared: &Shared,
    say: &mpsc::WeakSender<Vec<u8>>,
) -> Option<Garbled> {
    let (mut unasked, mut bytes) = (0, 0);
    loop {
        let (message, length) = match lines.next().await {
            Ok(Some(next)) => next,
            Ok(None) => return None,
            Err(garbled) => return Some(garbled),
        };
        unasked += 1;
        bytes += length;
        match message {
            Message::Answer { id, answer } => {
                (unasked, bytes) = (0, 0);
                let mut talk = shared.lock();
                match talk.under_way.remove(&id) {
                    Some(waiting) => drop(waiting.send(answer)),
                    None if talk.taken_back.remove(&id) => {}
                    // ATTACK(answer-of-another)
                    None => return Some(Garbled::Unasked),
                }
            }
            Message::Question { id, method } => {
                if let Some(say) = say.upgrade() {
                    // A server that asks faster than it reads is not waited for.
                    let _ = say.try_send(message::answer(&id, &method));
                }
            }
            Message::Notice { method, .. } => {
                if method == "notifications/tools/list_changed" {
                    shared.changes.send_modify(|count| *count = count.wrapping_add(1));
                }
            }
        }
        // ATTACK(flood-of-notices): to read what nobody asked for is work.
        if unasked > MOST_UNASKED || bytes > MOST_UNASKED_BYTES {
            return Some(Garbled::TooMuch(MOST_UNASKED));
        }
    }
}
