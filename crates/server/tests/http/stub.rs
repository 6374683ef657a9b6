//! A gate that answers from memory, and the server before it.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use contract::{
    AgentName, ApprovalId, ApprovalView, CallId, CallResult, CallStatus, Code, Contract, Definition, Digest,
    EgressClass, OperatorName, Reason, SafetyClass, Scope, ToolName,
};
use engine::{Audience, Batch, Credential, Numbers, RefusedMessage, RefusedToken, Request, ShownBudget};
use serde_json::{Value, json};
use server::{
    Answered, CallRecord, CallSummary, Cancelled, ChatKey, ChatWay, DecideError, Decision, Elsewhere, Event,
    Gate, GateError, HttpOptions, Limits, Outside, Pending, Person, Question, Questions, Simulate,
    SimulateError, Stands, Word, WordError, serve_gate,
};
use store::{Passkey, Role, Vote};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Response, Wish, exchange};
use crate::entrance::VOUCHED;

pub(crate) const OPERATOR: &str = "operator-credential";
pub(crate) const VIEWER: &str = "viewer-credential";
pub(crate) const APPROVER: &str = "approver-credential";
pub(crate) const AGENT: &str = "agent-token-of-builder";
/// What the chats sign with.
pub(crate) const CHAT_SECRET: &str = "secret of a chat";
/// The token of whoever counts.
pub(crate) const COUNTER: &str = "counter-token";
pub(crate) const OTHER_AGENT: &str = "agent-token-of-tester";

/// The credentials of more people who look.
pub(crate) fn crowd(number: usize) -> String {
    format!("credential-of-person-{number}")
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

/// The call of agent `builder` that is on record.
pub(crate) fn call_id() -> CallId {
    CallId::from_random([1; 16])
}

/// The question that waits.
pub(crate) fn approval_id() -> ApprovalId {
    ApprovalId::from_random([2; 16])
}

#[derive(Default)]
pub(crate) struct Stub {
    /// What was asked of the gate: `call`, `decide` and so on, with the details that matter.
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) clock: AtomicI64,
    /// Messages that were taken, and those that were not.
    pub(crate) taken: Mutex<HashSet<Digest>>,
    pub(crate) refused: Mutex<Vec<String>>,
    /// Whether the operator is none any more.
    pub(crate) removed: AtomicBool,
    /// Whether the question is about what takes a fresh proof.
    pub(crate) sensitive: AtomicBool,
    /// How many are in by a link.
    pub(crate) came_in: AtomicI64,
    pub(crate) passkeys: Mutex<Vec<Passkey>>,
    /// How often a call was told to end.
    pub(crate) cancelled: CancellationToken,
}

impl Stub {
    pub(crate) fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn happen(&self, kind: &str) {
        let mut events = self.events.lock().unwrap();
        let seq = events.len() as u64;
        let call_id = Some(call_id());
        events.push(Event { seq, kind: kind.to_owned(), time: 5, call_id, approval_id: None });
    }
}

pub(crate) fn result(status: CallStatus, reason: Option<Reason>) -> CallResult {
    let approval = (status == CallStatus::Waiting).then(|| ApprovalView {
        id: approval_id(),
        why: "it deletes".to_owned(),
        expires_at: 300_000,
    });
    CallResult {
        call_id: call_id(),
        tool: ToolName::parse("fs.read").unwrap(),
        status,
        content: "text".to_owned(),
        is_error: reason.is_some(),
        structured: None,
        artifacts: Vec::new(),
        cleaning: None,
        reason,
        approval,
        cost: None,
        receipt: None,
    }
}

pub(crate) fn ready<'a, T: Send + 'a>(value: T) -> Pending<'a, T> {
    Box::pin(async move { value })
}

impl Gate for Stub {
    fn now(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(45)
    }

    fn is_suspended(&self) -> bool {
        false
    }

    fn operator<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<Option<Person>, GateError>> {
        let person = |name: &str, role| Person { name: OperatorName::parse(name).unwrap(), role };
        let removed = self.removed.load(Ordering::SeqCst);
        ready(Ok(match credential.digest() {
            digest
                if !removed
                    && [OPERATOR, VOUCHED].map(|known| Digest::of(known.as_bytes())).contains(&digest) =>
            {
                Some(person("me", Role::Admin))
            }
            digest if (0..6).any(|number| digest == Digest::of(crowd(number).as_bytes())) => {
                let number = (0..6).find(|number| digest == Digest::of(crowd(*number).as_bytes()));
                Some(person(&format!("person-{}", number.unwrap()), Role::Viewer))
            }
            digest if digest == Digest::of(VIEWER.as_bytes()) => Some(person("guest", Role::Viewer)),
            digest if digest == Digest::of(APPROVER.as_bytes()) => Some(person("second", Role::Approver)),
            _ => None,
        }))
    }

    /// What comes back is named by the tool: `refused.key_conflict`, `waiting`, `slow` and so on.
    fn call(
        &self,
        request: Request,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Pending<'_, CallResult> {
        self.note(format!(
            "call {} {} {} key={} patience={}{}",
            request.agent,
            request.tool,
            request.arguments.text(),
            request.key.map(|key| key.as_str().to_owned()).unwrap_or_default(),
            patience.as_secs(),
            request.proposer.map(|by| format!(" by={by}")).unwrap_or_default(),
        ));
        let cancelled = self.cancelled.clone();
        Box::pin(async move {
            if request.tool == "slow" {
                // As the engine does: the run has a task of its own, which is told when its caller goes.
                let told = cancel.clone();
                tokio::spawn(async move {
                    told.cancelled().await;
                    cancelled.cancel();
                });
                std::future::pending::<()>().await;
            }
            if request.tool == "brief" {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(400)) => {}
                    () = cancel.cancelled() => return result(CallStatus::Cancelled, None),
                }
            }
            if request.tool == "endless" {
                cancel.cancelled().await;
                return result(CallStatus::Cancelled, None);
            }
            if let Some(code) = request.tool.strip_prefix("refused.") {
                let known = Code::ALL.iter().find(|known| known.as_str() == code);
                let code = known.copied().unwrap_or(Code::Internal);
                let reason = Reason { code, ..Reason::internal("no") };
                return result(CallStatus::Refused, Some(reason));
            }
            if request.tool == "failed.internal" {
                return result(CallStatus::Failed, Some(Reason::internal("it could not be recorded")));
            }
            result(CallStatus::parse(&request.tool).unwrap_or(CallStatus::Completed), None)
        })
    }

    fn call_all(
        &self,
        requests: Vec<Request>,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Pending<'_, Batch> {
        Box::pin(async move {
            let mut results = Vec::new();
            for request in requests {
                results.push(self.call(request, patience, cancel.clone()).await);
            }
            Batch { results, panicked: Vec::new() }
        })
    }

    fn status<'a>(
        &'a self,
        agent: &'a AgentName,
        id: &'a CallId,
        patience: Duration,
    ) -> Pending<'a, Result<Option<CallResult>, GateError>> {
        self.note(format!("status {agent} {} patience={}", id.short(), patience.as_secs()));
        ready(Ok(Some(result(CallStatus::Completed, None))))
    }

    fn calls<'a>(
        &'a self,
        of: Option<&'a AgentName>,
        most: u32,
        before: Option<&'a CallId>,
    ) -> Pending<'a, Result<Vec<CallSummary>, GateError>> {
        let before = before.map(|id| format!(" before={}", id.short())).unwrap_or_default();
        self.note(format!("calls of={} most={most}{before}", of.map(AgentName::as_str).unwrap_or("all")));
        ready(Ok(vec![CallSummary {
            call_id: call_id(),
            agent: agent("builder"),
            task: None,
            tool: ToolName::parse("fs.read").unwrap(),
            purpose: None,
            status: CallStatus::Completed,
            asked_at: 1,
            settled_at: Some(2),
            receipt: Some(format!("r-{}", call_id())),
        }]))
    }

    fn record<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<CallRecord>, GateError>> {
        let known = *id == call_id();
        ready(Ok(known.then(|| CallRecord {
            result: result(CallStatus::Waiting, None),
            agent: agent("builder"),
            task: None,
            purpose: None,
            asked_at: 1,
        })))
    }

    fn cancel<'a>(
        &'a self,
        id: &'a CallId,
        by: Option<(&'a Credential, &'static str)>,
    ) -> Pending<'a, Result<Cancelled, GateError>> {
        self.note(format!("cancel {} {}", id.short(), by.map_or("its agent", |(_, via)| via)));
        ready(Ok(Cancelled::Ending))
    }

    fn questions<'a>(
        &'a self,
        after: Option<&'a (i64, ApprovalId)>,
        most: u32,
    ) -> Pending<'a, Result<Questions, GateError>> {
        // Three of them, asked in one moment.
        let all = [2, 3, 4].map(|number| (0, ApprovalId::from_random([number; 16])));
        let rest: Vec<_> = all.iter().filter(|place| after.is_none_or(|after| *place > after)).collect();
        let questions: Vec<Question> = rest
            .iter()
            .take(most as usize)
            .map(|(_, id)| Question { approval_id: id.clone(), ..question() })
            .collect();
        let last = questions.last().filter(|_| rest.len() > questions.len());
        let next = last.map(|last| (last.asked_at, last.approval_id.clone()));
        ready(Ok(Questions { questions, next, waiting: 3 }))
    }

    fn decide_by_chat<'a>(
        &'a self,
        id: &'a ApprovalId,
        vote: Vote,
        reason: Option<String>,
        by: &'a OperatorName,
        via: &'a str,
    ) -> Pending<'a, Result<Answered, DecideError>> {
        let reason = reason.unwrap_or("-".into());
        self.note(format!("chat {} {vote:?} reason={reason} by={by} via={via}", id.short()));
        let state = "approved".to_owned();
        ready(Ok(Answered { approval_id: id.clone(), call_id: call_id(), state }))
    }

    fn take_message<'a>(&'a self, message: &'a Digest, _: i64) -> Pending<'a, Result<bool, GateError>> {
        ready(Ok(self.taken.lock().unwrap().insert(*message)))
    }

    fn tell_refused<'a>(&'a self, refused: RefusedMessage<'a>) -> Pending<'a, Result<(), GateError>> {
        let RefusedMessage { way, why, user, .. } = refused;
        self.refused.lock().unwrap().push(format!("{way} {why} {}", user.unwrap_or("-")));
        ready(Ok(()))
    }

    fn tell_refused_token<'a>(&'a self, refused: RefusedToken<'a>) -> Pending<'a, Result<(), GateError>> {
        self.refused.lock().unwrap().push(format!("{} {}", refused.door, refused.code));
        ready(Ok(()))
    }

    fn numbers(&self) -> Pending<'_, Result<Numbers, GateError>> {
        ready(Ok(Numbers::default()))
    }

    fn reconcile<'a>(
        &'a self,
        id: &'a CallId,
        word: Word,
        credential: &'a Credential,
    ) -> Pending<'a, Result<CallResult, WordError>> {
        let known = credential.digest() == Digest::of(OPERATOR.as_bytes());
        let reason = word.reason.as_deref().unwrap_or("-");
        self.note(format!(
            "reconcile {} {} reason={reason} operator={known}",
            id.short(),
            word.found.as_str()
        ));
        // The reason says how the gate takes it.
        ready(match word.reason.as_deref() {
            _ if *id != call_id() => Err(WordError::Unknown),
            Some("twice") => Err(WordError::Known { why: "it is reconciled already".to_owned() }),
            Some("viewer") => Err(WordError::Forbidden { why: "a viewer does not reconcile".to_owned() }),
            _ => Ok(result(CallStatus::Completed, None)),
        })
    }

    fn decide<'a>(
        &'a self,
        id: &'a ApprovalId,
        decision: Decision,
        credential: &'a Credential,
        via: &'static str,
    ) -> Pending<'a, Result<Answered, DecideError>> {
        let known = credential.digest() == Digest::of(OPERATOR.as_bytes());
        self.note(format!(
            "decide {} {:?} reason={} operator={known} via={via}{}",
            id.short(),
            decision.vote,
            decision.reason.as_deref().unwrap_or("-"),
            if decision.scope == Scope::Once { String::new() } else { format!(" scope={}", decision.scope) },
        ));
        let state = if decision.vote == Vote::Approve { "approved" } else { "rejected" };
        // The reason says how the gate takes it.
        ready(match decision.reason.as_deref() {
            _ if *id != approval_id() => Err(DecideError::Unknown),
            Some("twice") => Err(DecideError::Closed { state: "approved".to_owned() }),
            Some("late") => Err(DecideError::Expired),
            Some("viewer") => Err(DecideError::Forbidden { why: "a viewer does not decide".to_owned() }),
            _ => Ok(Answered { approval_id: id.clone(), call_id: call_id(), state: state.to_owned() }),
        })
    }

    fn standing(&self) -> Pending<'_, Result<Vec<Stands>, GateError>> {
        ready(Ok(Vec::new()))
    }

    fn budgets(&self) -> Pending<'_, Result<Vec<ShownBudget>, GateError>> {
        ready(Ok(Vec::new()))
    }

    fn revoke<'a>(
        &'a self,
        id: &'a ApprovalId,
        reason: Option<String>,
        credential: &'a Credential,
    ) -> Pending<'a, Result<(), DecideError>> {
        let known = credential.digest() == Digest::of(OPERATOR.as_bytes());
        self.note(format!("revoke {} reason={} operator={known}", id.short(), reason.unwrap_or_default()));
        ready(Ok(()))
    }

    fn find_question<'a>(&'a self, prefix: &'a str) -> Pending<'a, Result<ApprovalId, DecideError>> {
        let known = approval_id().as_str().starts_with(prefix);
        ready(if known { Ok(approval_id()) } else { Err(DecideError::Unknown) })
    }

    fn tools(&self, _agent: &AgentName) -> Vec<Contract> {
        static READS: LazyLock<Contract> = LazyLock::new(|| {
            let definition = Definition { description: "Reads.".to_owned(), ..definition() };
            Contract::internal(definition).unwrap()
        });
        vec![READS.clone()]
    }

    fn explain<'a>(&'a self, request: &'a Request, _: Audience) -> Pending<'a, Result<Value, GateError>> {
        self.note(format!("explain {} {}", request.agent, request.tool));
        ready(Ok(json!({ "verdict": "allow", "tool": request.tool })))
    }

    fn simulate<'a>(
        &'a self,
        wish: Simulate,
        by: &'a OperatorName,
    ) -> Pending<'a, Result<Value, SimulateError>> {
        self.note(format!("simulate {} bytes for {by}", wish.policy.len()));
        ready(Ok(json!({ "flips": 0 })))
    }

    fn checkpoint(&self) -> Pending<'_, Result<String, GateError>> {
        ready(Ok("toolgate/x\n1\nroot\n".to_owned()))
    }

    fn proof(&self, seq: u64) -> Pending<'_, Result<Option<Value>, GateError>> {
        ready(Ok((seq == 0).then(|| json!({ "seq": 0 }))))
    }

    fn ledger_size(&self) -> Pending<'_, Result<u64, GateError>> {
        ready(Ok(self.events.lock().unwrap().len() as u64))
    }

    fn events(&self, from: u64, most: u32) -> Pending<'_, Result<Vec<Event>, GateError>> {
        let events = self.events.lock().unwrap();
        ready(Ok(events.iter().skip(from as usize).take(most as usize).cloned().collect()))
    }

    fn leave(&self) {
        self.note("leave".to_owned());
    }

    fn close(&self) -> Pending<'_, ()> {
        self.note("close".to_owned());
        ready(())
    }
}

fn definition() -> Definition {
    Definition {
        name: "fs.read".to_owned(),
        title: "Read".to_owned(),
        description: String::new(),
        category: contract::Category::FileSystem,
        action: "code:read".to_owned(),
        safety: SafetyClass::Read,
        egress: EgressClass::None,
        idempotency: contract::Idempotency::None,
        cost: contract::CostTier::Free,
        input: json!({ "type": "object", "additionalProperties": false }),
        output: json!({ "type": "object" }),
        examples: Vec::new(),
        failure_modes: Vec::new(),
        timeout_seconds: 30,
        origin: None,
    }
}

pub(crate) fn question() -> Question {
    Question {
        approval_id: approval_id(),
        call_id: call_id(),
        agent: agent("builder"),
        task: None,
        tool: ToolName::parse("shell").unwrap(),
        purpose: Some("clean".to_owned()),
        why: vec!["`shell` with `mutate` asks".to_owned()],
        shown_arguments: "{\n  \"command\": \"rm\"\n}".to_owned(),
        command: Some(vec!["rm".to_owned()]),
        action: Some("exec:mutate".to_owned()),
        safety: Some(SafetyClass::Write),
        egress: Some(EgressClass::None),
        operands: None,
        contract: Digest::of(b"contract"),
        policy: Digest::of(b"policy"),
        workspace: Some("/work".to_owned()),
        offers: Vec::new(),
        also: Vec::new(),
        proposers: Vec::new(),
        escalated_to: Vec::new(),
        quorum: 1,
        approved_by: Vec::new(),
        asked_at: 0,
        expires_at: 300_000,
    }
}

/// Two chats, each with somebody who is an operator, and somebody who counts.
struct Chats;

impl Elsewhere for Chats {
    fn key(&self, _: ChatWay) -> Pending<'_, Option<ChatKey>> {
        Box::pin(async { Some(CHAT_SECRET.as_bytes().to_vec().into()) })
    }

    fn operator_of(&self, way: ChatWay, team: &str, user: &str) -> Option<OperatorName> {
        let known = [(ChatWay::Slack, "T1", "U1"), (ChatWay::Webhook, "", "alice")];
        known.contains(&(way, team, user)).then(|| OperatorName::parse("me").unwrap())
    }

    fn may_count(&self, token: Digest) -> bool {
        token == Digest::of(COUNTER.as_bytes())
    }
}

/// A server on a free port, with the stub behind it.
pub(crate) struct Server {
    pub(crate) gate: Arc<Stub>,
    pub(crate) home: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) sign_in_url: String,
    pub(crate) link_socket: Option<PathBuf>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) running: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::start_with(Outside::default()).await
    }

    pub(crate) async fn start_with(outside: Outside) -> Server {
        Server::start_within(outside, Limits::default()).await
    }

    /// The same where somebody may take longer, or not so long.
    pub(crate) async fn start_within(outside: Outside, limits: Limits) -> Server {
        let gate = Arc::new(Stub::default());
        let home = tempfile::tempdir().unwrap();
        let shutdown = CancellationToken::new();
        let tokens: HashMap<Digest, AgentName> = [(AGENT, "builder"), (OTHER_AGENT, "tester")]
            .map(|(token, name)| (Digest::of(token.as_bytes()), agent(name)))
            .into();
        let options = HttpOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            operator_credential: Credential::presented(OPERATOR),
            outside,
            agent_tokens: Arc::new(tokens),
            access_tokens: None,
            elsewhere: Arc::new(Chats),
            home: Some(home.path().to_owned()),
            limits,
            shutdown: shutdown.clone(),
        };
        let (tell, told) = oneshot::channel();
        let behind: Arc<Stub> = gate.clone();
        let running = tokio::spawn(async move {
            serve_gate(behind, options, |ready| tell.send(ready).unwrap()).await.unwrap();
        });
        let ready = told.await.unwrap();
        Server {
            gate,
            home,
            address: ready.address,
            sign_in_url: ready.sign_in_url,
            link_socket: ready.link_socket,
            shutdown,
            running,
        }
    }

    pub(crate) async fn ask(&self, wish: Wish) -> Response {
        exchange(self.address, &wish.written(&self.address.to_string())).await
    }

    /// The same under our name, since addresses have no passkeys.
    pub(crate) async fn ask_by_name(&self, wish: Wish) -> Response {
        let host = format!("localhost:{}", self.address.port());
        exchange(self.address, &wish.written(&host)).await
    }

    /// Signs in as a browser does: the cookie and the page token.
    pub(crate) async fn sign_in(&self) -> (String, String) {
        let path = self.sign_in_url.split_once(&self.address.to_string()).unwrap().1;
        let answer = self.ask(Wish::get(path)).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let page = answer.header("location").unwrap().strip_prefix("/#page=").unwrap().to_owned();
        (cookie, page)
    }
}
