//! Whatever an operator does is in the ledger, with their name: every route that changes something is tried.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::{Digest, OperatorName};
use engine::Candidate;
use hmac::{Hmac, KeyInit as _, Mac as _};
use policy::Settings;
use serde_json::{Value, json};
use server::{ChatKey, ChatWay, Elsewhere, Pending, ROUTES, Who};
use sha2::Sha256;
use tokio::time::{Duration, sleep};

use crate::authenticator::Authenticator;
use crate::{Served, waiting_tool};

const SECRET: &str = "what the chats sign with";
const PASSWORD: &str = "correct horse battery";

/// Routes that change nothing although they are no `GET`: there is nothing to tell of them.
const ONLY_LOOK: [(&str, &str); 4] = [
    ("POST", "/v1/me/passkeys/challenge"), // a number to be signed; what is made of it is told
    ("POST", "/v1/sign-in/passkey/challenge"),
    ("POST", "/v1/explain"),
    ("POST", "/v1/ledger/verification"),
];

/// A chat in which `alice` is `me`.
struct Chat;

impl Elsewhere for Chat {
    fn key(&self, _: ChatWay) -> Pending<'_, Option<ChatKey>> {
        Box::pin(async { Some(SECRET.as_bytes().to_vec().into()) })
    }

    fn operator_of(&self, _: ChatWay, _: &str, user: &str) -> Option<OperatorName> {
        (user == "alice").then(|| OperatorName::parse("me").unwrap())
    }

    fn may_count(&self, _: Digest) -> bool {
        false
    }
}

impl Served {
    /// The kinds and bodies of all entries from a place on.
    async fn entries(&self, from: usize) -> Vec<(String, Value)> {
        let entries = self.engine.store().latest_event(-1).await.unwrap();
        entries.into_iter().skip(from).map(|entry| (entry.kind, entry.body)).collect()
    }

    /// A question that waits; the number tells it from others.
    async fn question(&self, number: u32) -> (String, String) {
        let arguments = json!({ "command": "ls", "profile": "mutate", "purpose": format!("{number}") });
        let asked = json!({ "tool": "shell", "arguments": arguments, "wait_seconds": 0 });
        let (status, waiting) = self.agent.json("POST", "/v1/calls", Some(asked)).await;
        assert_eq!(status, 202, "{waiting}");
        let (call, approval) = (&waiting["call_id"], &waiting["approval"]["id"]);
        (call.as_str().unwrap().to_owned(), approval.as_str().unwrap().to_owned())
    }

    /// A call that runs until it is told to end.
    async fn running_call(&self) -> String {
        let (agent, asked) =
            (self.agent.clone(), json!({ "tool": waiting_tool::NAME, "arguments": { "how": "wait" } }));
        tokio::spawn(async move { agent.json("POST", "/v1/calls", Some(asked)).await });
        loop {
            let (_, listed) = self.operator.json("GET", "/v1/calls?limit=1", None).await;
            let newest = &listed["calls"][0];
            if newest["tool"] == waiting_tool::NAME && newest["status"] == "running" {
                return newest["call_id"].as_str().unwrap().to_owned();
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// A session of the page: its cookie, and its token.
    async fn session(&self) -> [String; 2] {
        let (_, made) = self.operator.json("POST", "/v1/sign-in-links", None).await;
        let host = self.operator.address.to_string();
        let path = made["sign_in_url"].as_str().unwrap().split_once(&host).unwrap().1.to_owned();
        let (_, head, _) = self.operator.send("GET", &path, &host, &["X-Nothing: x".to_owned()], "").await;
        let of = |name: &str| {
            let line = head.lines().find(|line| line.to_lowercase().starts_with(name)).unwrap();
            line.split_once(": ").unwrap().1.to_owned()
        };
        let cookie = of("set-cookie").split(';').next().unwrap().to_owned();
        let page = of("location").strip_prefix("/#page=").unwrap().to_owned();
        [format!("Cookie: {cookie}"), format!("X-Toolgate-Page: {page}")]
    }

    /// Asks under the name that passkeys belong to.
    async fn ask_by_name(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let host = format!("localhost:{}", self.operator.address.port());
        let headers = [format!("Authorization: Bearer {}", self.operator.credential)];
        let (status, _, text) = self.operator.send(method, path, &host, &headers, &body.to_string()).await;
        (status, text)
    }

    async fn chat(&self, path: &str, names: [&str; 2], version: &str, body: &str) -> (u16, String) {
        let time = self.engine.now() / 1000;
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(format!("{version}:{time}:{body}").as_bytes());
        let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let headers = [format!("{}: {time}", names[0]), format!("{}: {version}={digits}", names[1])];
        let host = self.operator.address.to_string();
        let (status, _, text) = self.operator.send("POST", path, &host, &headers, body).await;
        (status, text)
    }

    /// Does what a route is for, as `me`: what was answered, and the kind of entry that has to tell of it.
    async fn act(&self, method: &str, path: &str, key: &Authenticator) -> ((u16, String), &'static str) {
        let operator = &self.operator;
        let ask = async |path: &str, body: Option<Value>| operator.ask(method, path, body).await;
        let origin = format!("http://localhost:{}", operator.address.port());
        let challenge = async |path: &str| {
            let (_, text) = self.ask_by_name("POST", path, json!({})).await;
            let told: Value = serde_json::from_str(&text).unwrap();
            told["challenge"].as_str().unwrap().to_owned()
        };
        let yes = json!({ "verdict": "approve" });
        match (method, path) {
            ("POST", "/v1/sign-in/password") => {
                let said = json!({ "operator": "me", "password": PASSWORD });
                (ask(path, Some(said)).await, "operator.signed_in")
            }
            ("POST", "/v1/sign-in/passkey") => {
                let said = key.sign_in(&challenge("/v1/sign-in/passkey/challenge").await, &origin);
                (self.ask_by_name(method, path, said).await, "operator.signed_in")
            }
            ("PUT", "/v1/me/password") => {
                (ask(path, Some(json!({ "password": PASSWORD }))).await, "operator.password")
            }
            ("POST", "/v1/me/passkeys") => {
                let said = key.register(&challenge("/v1/me/passkeys/challenge").await, &origin);
                (self.ask_by_name(method, path, said).await, "operator.passkey")
            }
            ("DELETE", "/v1/me/passkeys/{id}") => {
                let (_, known) = operator.json("GET", "/v1/me/passkeys", None).await;
                let id = known["passkeys"][0]["id"].as_str().unwrap();
                (ask(&path.replace("{id}", id), None).await, "operator.passkey_removed")
            }
            ("POST", "/v1/agents/{name}/token") => {
                (ask("/v1/agents/default/token", None).await, "agent.token")
            }
            ("DELETE", "/v1/agents/{name}/token") => {
                (ask("/v1/agents/default/token", None).await, "agent.token_revoked")
            }
            ("POST", "/v1/operators") => {
                let said = json!({ "operator": "second", "role": "approver" });
                (ask(path, Some(said)).await, "operator.added")
            }
            ("DELETE", "/v1/operators/{name}") => {
                (ask("/v1/operators/second", None).await, "operator.removed")
            }
            ("POST", "/v1/sign-in-links") => (ask(path, None).await, "operator.link_made"),
            ("POST", "/v1/sign-out") => {
                let session = self.session().await;
                let host = operator.address.to_string();
                let (status, _, text) = operator.send(method, path, &host, &session, "").await;
                ((status, text), "operator.signed_out")
            }
            ("DELETE", "/v1/calls/{id}") => {
                let call = self.running_call().await;
                (ask(&path.replace("{id}", &call), None).await, "call.stopped")
            }
            ("POST", "/v1/calls/{id}/reconciliation") => {
                let asked = json!({ "tool": waiting_tool::NAME, "arguments": { "how": "break" } });
                let (_, lost) = self.agent.json("POST", "/v1/calls", Some(asked)).await;
                let path = path.replace("{id}", lost["call_id"].as_str().unwrap());
                (ask(&path, Some(json!({ "found": "did_not" }))).await, "call.reconciled")
            }
            ("POST", "/v1/calls/{id}/reading") => {
                let (call, _) = self.question(1).await;
                (ask(&path.replace("{id}", &call), None).await, "call.read")
            }
            ("POST", "/v1/approvals/{id}/decision") => {
                let (_, approval) = self.question(2).await;
                (ask(&path.replace("{id}", &approval), Some(yes)).await, "approval.answered")
            }
            ("POST", "/v1/answers") => {
                let (_, approval) = self.question(3).await;
                let said = json!({ "text": format!("/deny {approval} no") });
                (ask(path, Some(said)).await, "approval.answered")
            }
            ("POST", "/v1/chat/slack") => {
                let (_, approval) = self.question(4).await;
                let body = format!("team_id=T1&user_id=alice&command=%2Fapprove&text={approval}");
                let names = ["X-Slack-Request-Timestamp", "X-Slack-Signature"];
                (self.chat(path, names, "v0", &body).await, "approval.answered")
            }
            ("POST", "/v1/chat/webhook") => {
                let (_, approval) = self.question(5).await;
                let body = json!({ "user": "alice", "text": format!("/approve {approval}") }).to_string();
                let names = ["X-Toolgate-Timestamp", "X-Toolgate-Signature"];
                (self.chat(path, names, "v1", &body).await, "approval.answered")
            }
            ("POST", "/v1/approvals/{id}/revocation") => {
                let (_, approval) = self.question(6).await;
                operator.ask("POST", &format!("/v1/approvals/{approval}/decision"), Some(yes)).await;
                (ask(&path.replace("{id}", &approval), Some(json!({}))).await, "approval.revoked")
            }
            ("POST", "/v1/policy/simulate") => {
                (ask(path, Some(json!({ "policy": "{}" }))).await, "policy.tried")
            }
            _ => panic!("say how `{method} {path}` is done, and which entry of the ledger tells of it"),
        }
    }
}

#[tokio::test]
async fn whatever_an_operator_does_is_in_the_ledger_with_their_name() {
    let served = Served::start(Arc::new(Chat)).await;
    let key = Authenticator::new();
    served.engine.read_candidates_by(Arc::new(|_| {
        let settings = Settings::default();
        let tools = tools::built_in(&settings).map_err(|error| error.to_string())?;
        Ok(Candidate { settings, tools, workspaces: Default::default(), timeouts: Default::default() })
    }));
    let mut routes: Vec<_> = ROUTES
        .iter()
        .filter(|(method, path, who)| {
            let by_operators = match who {
                Who::Operator | Who::Either | Who::Signed => true,
                // Whoever signs in is an operator then.
                Who::Anyone => path.starts_with("/v1/"),
                Who::Agent | Who::Counter => false,
            };
            by_operators && *method != "GET" && !ONLY_LOOK.contains(&(method, path))
        })
        .collect();
    // What is signed in with is made first, and what is taken away again is made first.
    let late = |method: &str, path: &str| {
        (method == "DELETE", path.starts_with("/v1/sign-in/"), !path.starts_with("/v1/me"))
    };
    routes.sort_by_key(|(method, path, _)| late(method, path));
    let mut kinds = BTreeSet::new();
    for (method, path, _) in routes {
        let before = served.entries(0).await.len();
        let ((status, text), kind) = served.act(method, path, &key).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        let told = served.entries(before).await;
        let places = ["/by", "/operator", "/reconciled/by"];
        let names_them = |body: &Value| places.iter().any(|place| body.pointer(place) == Some(&json!("me")));
        let tells = told.iter().any(|(known, body)| known == kind && names_them(body));
        assert!(tells, "{method} {path}: no `{kind}` of `me` in {told:?}");
        kinds.insert(kind);
    }
    assert!(kinds.len() > 12, "{kinds:?}");
    served.close().await;
}

#[tokio::test]
async fn who_ended_a_call_is_told_before_it_ends_and_not_of_one_that_had_ended() {
    let served = Served::start(Arc::new(server::NobodyElsewhere)).await;
    let call = served.running_call().await;
    let path = format!("/v1/calls/{call}");
    assert_eq!(served.operator.ask("DELETE", &path, None).await.0, 202);
    let ended = loop {
        let (_, seen) = served.operator.json("GET", &path, None).await;
        if seen["status"] != "running" {
            break seen;
        }
        sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let told = served.entries(0).await;
    let of_it: Vec<&str> =
        told.iter().map(|(kind, _)| kind.as_str()).filter(|kind| kind.starts_with("call.")).collect();
    assert_eq!(of_it, ["call.planned", "call.started", "call.stopped", "call.settled"]);
    let stopped = &told.iter().find(|(kind, _)| kind == "call.stopped").unwrap().1;
    assert_eq!(
        (&stopped["call"], &stopped["by"], &stopped["via"]),
        (&json!(call), &json!("me"), &json!("http"))
    );
    assert_eq!(served.operator.ask("DELETE", &path, None).await.0, 409);
    assert_eq!(served.entries(0).await.len(), told.len(), "nothing was done");
    // Its own agent ends its own call; the receipt says that it was ended.
    let own = served.running_call().await;
    assert_eq!(served.agent.ask("DELETE", &format!("/v1/calls/{own}"), None).await.0, 202);
    served.close().await;
}
