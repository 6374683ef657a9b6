//! A conversation with one server: questions with numbers, and what it says besides.
//!
//! Knows no process and no network: it reads from one side and writes to the other.
//!
//! # Invariants
//! - An answer counts once, and only for the question whose number it carries; any other ends the conversation.
//! - A question that is given up is taken back. A server that goes on with it for longer than [`GRACE`] is ended with
//!   everything else that it does: nothing of a call goes on after its end.
//! - What a server asks of us is refused, but for whether we are there, and for what somebody has said that it may ask of
//!   whoever made the one call that is under way. What it says unasked is counted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use policy::{Era, Passed};

use super::caller::{Caller, needed_for};
use super::guards::{Guard, Guards};
use super::instance::{CLIENT, STATELESS};
use super::message::{self, Garbled, Lines, Message, RpcError};

/// How long a server may take to let go of what was taken back.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// As many things as a server says unasked between two answers.
const MOST_UNASKED: usize = 10_000;
/// As many bytes of them.
const MOST_UNASKED_BYTES: usize = 64 << 20;
/// Messages of ours that wait to be written.
const WAITING: usize = 64;
/// As many words about how far it is as are passed on of one call.
const MOST_PROGRESS: usize = 1000;
/// As many questions as are asked in one call.
const MOST_QUESTIONS: usize = 32;

/// In which manner a server is talked to.
#[derive(Clone, Debug, Default)]
pub(super) struct Manner {
    pub(super) server: String,
    pub(super) passes: BTreeSet<Passed>,
    pub(super) era: Era,
    pub(super) guards: Guards,
}

/// What is heard of a server while it is at work for one call.
#[derive(Debug, Default)]
pub(super) struct Ears {
    caller: Option<Arc<Caller>>,
    heard: Mutex<HeardOf>,
}

#[derive(Debug, Default)]
struct HeardOf {
    progress: Option<f64>,
    told: usize,
    questions: usize,
    notes: BTreeSet<String>,
}

impl Ears {
    pub(super) fn of(caller: Option<&Arc<Caller>>) -> Arc<Ears> {
        Arc::new(Ears { caller: caller.map(Arc::clone), heard: Mutex::default() })
    }

    pub(super) fn caller(&self) -> Option<&Arc<Caller>> {
        self.caller.as_ref()
    }

    /// What it has asked, for whoever reads the answer.
    pub(super) fn notes(&self) -> Vec<String> {
        self.lock().notes.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HeardOf> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// ATTACK(flood-of-progress): numbers that go up, and not too many.
    fn progress(&self, params: &Value) {
        let Some(caller) = &self.caller else { return };
        let mut heard = self.lock();
        let next = params.get("progress").and_then(Value::as_f64);
        if heard.told >= MOST_PROGRESS || heard.progress.is_some_and(|before| next <= Some(before)) {
            return;
        }
        if let Some(progress) = caller.progress(params) {
            (heard.progress, heard.told) = (Some(progress), heard.told + 1);
        }
    }

    fn note(&self, method: &str, became: &str) {
        let asked: String = contract::show_hidden(method).chars().take(64).collect();
        let mut heard = self.lock();
        if heard.notes.len() < MOST_QUESTIONS {
            heard.notes.insert(format!("the server asked back ({asked}): {became}"));
        }
    }
}

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
    /// Counts how often the server said that it offers something else.
    changes: watch::Sender<u64>,
    /// What it says has become another, by its address.
    updates: broadcast::Sender<String>,
    manner: Manner,
}

#[derive(Debug, Default)]
struct Talk {
    latest: u64,
    under_way: HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>,
    /// Whoever hears what is said beside the answers.
    ears: HashMap<u64, Arc<Ears>>,
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
        manner: Manner,
    ) -> Session {
        let (say, said) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            talk: Mutex::default(),
            over: CancellationToken::new(),
            changes: watch::Sender::new(0),
            updates: broadcast::channel(WAITING).0,
            manner,
        });
        let session = Session { shared: Arc::clone(&shared), say };
        tokio::spawn(write(writing, said, shared.over.clone()));
        tokio::spawn(listen(reading, Arc::clone(&shared), session.say.downgrade()));
        session
    }

    /// Asks. Dropping the future takes the question back.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, Silence> {
        self.ask_for(method, params, &Arc::default()).await
    }

    /// The same for a call whose maker hears what is said beside the answer.
    pub(super) async fn ask_for(
        &self,
        method: &str,
        mut params: Value,
        ears: &Arc<Ears>,
    ) -> Result<Value, Silence> {
        let (sender, answer) = oneshot::channel();
        let asking = {
            let mut talk = self.lock();
            if self.is_over() {
                return Err(Silence::NotAsked);
            }
            talk.latest += 1;
            let number = talk.latest;
            talk.under_way.insert(number, sender);
            talk.ears.insert(number, Arc::clone(ears));
            Asking { session: self, number, is_sent: false }
        };
        if let (Some(members), Some(meta)) = (params.as_object_mut(), self.meta(method, asking.number, ears))
        {
            members.insert("_meta".to_owned(), meta);
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

    /// What is said beside a question.
    fn meta(&self, method: &str, number: u64, ears: &Ears) -> Option<Value> {
        let manner = &self.shared.manner;
        if manner.era == Era::Sessions {
            return (method == "tools/call").then(|| json!({ "progressToken": number }));
        }
        let able = ears.caller.as_ref().map(|caller| caller.capabilities(|passed| self.passes(passed)));
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": { "name": CLIENT, "version": env!("CARGO_PKG_VERSION") },
            "io.modelcontextprotocol/clientCapabilities": able.unwrap_or_else(|| json!({})),
        });
        let level = ears.caller.as_ref().and_then(|caller| caller.level());
        if let Some(members) = meta.as_object_mut() {
            if method == "tools/call" {
                members.insert("progressToken".to_owned(), Value::from(number));
            }
            if let Some(level) = level.filter(|_| self.passes(Passed::Logging)) {
                members.insert("io.modelcontextprotocol/logLevel".to_owned(), Value::from(level));
            }
        }
        Some(meta)
    }

    /// Whether somebody has said that this is passed on.
    pub(super) fn passes(&self, passed: Passed) -> bool {
        self.shared.manner.passes.contains(&passed)
    }

    /// What it says has become another, from now on.
    pub(super) fn updates(&self) -> broadcast::Receiver<String> {
        self.shared.updates.subscribe()
    }

    /// Tells the server something.
    pub(super) async fn tell(&self, method: &str, params: Value) {
        let _ = self.say.send(message::notice(method, &params)).await;
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.shared.over.is_cancelled()
    }

    /// Counts how often the server said that it offers something else.
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
        talk.ears.clear();
    }

    /// Whoever a server may ask that: the maker of the one call that is under way. With several nobody knows whose it is.
    // ATTACK(server-asks-unbidden)
    fn whom_to_ask(&self, method: &str) -> Option<Arc<Ears>> {
        let may = |needed: &Passed| {
            self.manner.passes.contains(needed) || !self.manner.guards.stands(Guard::Questions)
        };
        needed_for(method).filter(may)?;
        let talk = self.lock();
        let mut calls = talk.ears.values().filter(|ears| ears.caller.is_some());
        let (first, second) = (calls.next()?, calls.next());
        let mut heard = first.lock();
        heard.questions += 1;
        (second.is_none() && heard.questions <= MOST_QUESTIONS).then(|| Arc::clone(first))
    }

    /// What is not asked is told with the answers of whatever is under way.
    fn note_refused(&self, method: &str) {
        self.lock().ears.values().for_each(|ears| ears.note(method, "refused"));
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
            talk.ears.remove(&number);
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
        why = hear(Lines::of(reading, shared.manner.guards), &shared, &say) => why,
    };
    shared.end(why);
}

/// Hears the server out; says why it stopped, if that is the server's doing.
async fn hear<R: AsyncRead + Unpin>(
    mut lines: Lines<R>,
    shared: &Arc<Shared>,
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
                talk.ears.remove(&id);
                match talk.under_way.remove(&id) {
                    Some(waiting) => drop(waiting.send(answer)),
                    None if talk.taken_back.remove(&id) => {}
                    // ATTACK(answer-of-another)
                    None => return Some(Garbled::Unasked),
                }
            }
            Message::Question { id, method, params } => {
                let Some(say) = say.upgrade() else { continue };
                match shared.whom_to_ask(&method) {
                    Some(ears) => {
                        drop(tokio::spawn(pass_on(Arc::clone(shared), ears, say, id, method, params)))
                    }
                    None => {
                        if method != "ping" {
                            shared.note_refused(&method);
                        }
                        // A server that asks faster than it reads is not waited for.
                        let _ = say.try_send(message::answer(&id, &method));
                    }
                }
            }
            Message::Notice { method, params } => noticed(shared, &method, params),
        }
        // ATTACK(flood-of-notices): to read what nobody asked for is work.
        if unasked > MOST_UNASKED || bytes > MOST_UNASKED_BYTES {
            return Some(Garbled::TooMuch(MOST_UNASKED));
        }
    }
}

/// Takes a question to the client of a call, and the answer back.
async fn pass_on(
    shared: Arc<Shared>,
    ears: Arc<Ears>,
    say: mpsc::Sender<Vec<u8>>,
    id: Value,
    method: String,
    params: Value,
) {
    let Some(caller) = &ears.caller else { return };
    let answer = tokio::select! {
        () = shared.over.cancelled() => return,
        answer = caller.ask(&shared.manner.server, &method, params) => answer,
    };
    ears.note(&method, if answer.is_some() { "passed on, and answered" } else { "refused" });
    let told = match answer {
        Some(answer) => message::passed_on(&id, &answer),
        None => message::answer(&id, &method),
    };
    let _ = say.send(told).await;
}

/// Takes in what a server says unasked.
fn noticed(shared: &Shared, method: &str, params: Value) {
    match method {
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed" => {
            shared.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
        "notifications/progress" => {
            let number = params.get("progressToken").and_then(Value::as_u64);
            let ears = number.and_then(|number| shared.lock().ears.get(&number).cloned());
            if let Some(ears) = ears {
                ears.progress(&params);
            }
        }
        "notifications/message" if shared.manner.passes.contains(&Passed::Logging) => {
            let all: Vec<Arc<Ears>> = shared.lock().ears.values().cloned().collect();
            for caller in all.iter().filter_map(|ears| ears.caller.as_ref()) {
                caller.log(&shared.manner.server, params.clone());
            }
        }
        "notifications/resources/updated" => {
            if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                // Nobody may listen.
                let _ = shared.updates.send(uri.to_owned());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

    use super::super::caller::{Able, Brought, Said};
    use super::*;

    /// A conversation, and the server's side of it.
    fn talk(passes: &[Passed]) -> (Session, BufReader<ReadHalf<DuplexStream>>, WriteHalf<DuplexStream>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reading, writing) = tokio::io::split(ours);
        let manner =
            Manner { server: "s".to_owned(), passes: passes.iter().copied().collect(), ..Manner::default() };
        let (heard, says) = tokio::io::split(theirs);
        (Session::over(reading, writing, manner), BufReader::new(heard), says)
    }

    async fn next(heard: &mut BufReader<ReadHalf<DuplexStream>>) -> Value {
        let mut line = String::new();
        heard.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn say(says: &mut WriteHalf<DuplexStream>, message: Value) {
        says.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_question_that_is_given_up_is_taken_back_from_the_server() {
        let (session, mut heard, mut says) = talk(&[]);
        let asking = tokio::spawn({
            let session = session.clone();
            async move { session.ask("tools/call", json!({ "name": "t" })).await }
        });
        let asked = next(&mut heard).await;
        asking.abort();
        let told = next(&mut heard).await;
        assert_eq!(told["method"], "notifications/cancelled");
        assert_eq!(told["params"]["requestId"], asked["id"]);
        // A server that lets go is talked to again.
        say(&mut says, json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} })).await;
        let answered = tokio::spawn(async move { session.ask("ping", json!({})).await });
        let ping = next(&mut heard).await;
        say(&mut says, json!({ "jsonrpc": "2.0", "id": ping["id"], "result": { "well": true } })).await;
        assert_eq!(answered.await.unwrap(), Ok(json!({ "well": true })));
    }

    #[tokio::test]
    async fn progress_goes_to_whoever_made_the_call_and_goes_up() {
        let (session, mut heard, mut says) = talk(&[]);
        let (caller, mut hears) = Caller::new(Able::default(), Brought::default(), None);
        let ears = Ears::of(Some(&Arc::new(caller)));
        let asking = tokio::spawn(async move { session.ask_for("tools/call", json!({}), &ears).await });
        let asked = next(&mut heard).await;
        let token = &asked["params"]["_meta"]["progressToken"];
        for (token, progress) in [(token, 1), (&json!(99), 2), (token, 1), (token, 3)] {
            let params = json!({ "progressToken": token, "progress": progress });
            say(&mut says, json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
                .await;
        }
        say(&mut says, json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} })).await;
        assert!(asking.await.unwrap().is_ok());
        let mut told = Vec::new();
        while let Some(Said::Progress { progress, .. }) = hears.recv().await {
            told.push(progress);
        }
        assert_eq!(told, [1.0, 3.0]);
    }

    #[tokio::test]
    async fn what_a_server_may_not_ask_is_refused_and_noted() {
        for (passes, asked) in [(&[][..], false), (&[Passed::Roots][..], true)] {
            let (session, mut heard, mut says) = talk(passes);
            let (caller, mut hears) = Caller::new(Able::default(), Brought::default(), None);
            let ears = Ears::of(Some(&Arc::new(caller)));
            let noted = Arc::clone(&ears);
            let asking = tokio::spawn(async move { session.ask_for("tools/call", json!({}), &ears).await });
            let call = next(&mut heard).await;
            say(&mut says, json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {} }))
                .await;
            if asked {
                let Some(Said::Ask { answer, .. }) = hears.recv().await else { panic!("nobody was asked") };
                answer.send(json!({ "roots": [] })).unwrap();
            }
            let told = next(&mut heard).await;
            assert_eq!((told["id"].as_str(), told.get("result").is_some()), (Some("q"), asked), "{told}");
            say(&mut says, json!({ "jsonrpc": "2.0", "id": call["id"], "result": {} })).await;
            assert!(asking.await.unwrap().is_ok());
            assert_eq!(noted.notes().len(), 1);
            assert_eq!(noted.notes().iter().any(|note| note.ends_with("refused")), !asked);
        }
    }
}
