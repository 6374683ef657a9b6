//! The HTTP surface before the real engine and a real store: a question from its call to its answer, and what the ledger
//! tells of everything that operators do.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "what a test needs and does not get fails it; it is a client of the server"
)]

mod actions;
#[path = "../http/authenticator.rs"]
mod authenticator;
mod waiting_tool;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use contract::{AgentName, Digest};
use engine::{Clock, Credential, Engine, Options};
use policy::{Agent, Settings};
use sandbox::{Host, Proofs};
use serde_json::{Value, json};
use server::{Elsewhere, HttpOptions, serve_http};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "the token of agent default";

/// Nothing is run behind walls here, so that no sandbox is needed.
async fn engine(home: &Path, workspace: &Path) -> Engine {
    let clock = Clock::system();
    let binary = home.join("no-binary");
    let proofs = Proofs { folder: None, prober: binary.clone() };
    let agents = [(AgentName::parse("default").unwrap(), Agent::default())].into();
    let settings = Settings { agents, ..Settings::default() };
    let mut tools = tools::built_in(&settings).unwrap();
    tools.push(waiting_tool::tool());
    let options = Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        tools,
        settings,
        workspaces: std::collections::BTreeMap::new(),
        timeouts: std::collections::BTreeMap::new(),
        workspace: workspace.to_owned(),
        surroundings: tools::Surroundings::new(binary, proofs, Host::default(), clock.as_function()),
        clock,
    };
    Engine::open(options).await.unwrap()
}

/// A gate with its server, until it is closed.
struct Served {
    engine: Engine,
    agent: Client,
    operator: Client,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), server::HttpError>>,
    _places: [TempDir; 2],
}

impl Served {
    async fn start(elsewhere: Arc<dyn Elsewhere>) -> Served {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let home = places[0].path();
        let engine = engine(home, places[1].path()).await;
        let shutdown = CancellationToken::new();
        let tokens: HashMap<Digest, AgentName> =
            [(Digest::of(TOKEN.as_bytes()), AgentName::parse("default").unwrap())].into();
        let options = HttpOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            operator_credential: Credential::load_or_create(home).unwrap(),
            outside: server::Outside::default(),
            agent_tokens: Arc::new(tokens),
            access_tokens: None,
            elsewhere,
            home: None,
            limits: server::Limits::default(),
            shutdown: shutdown.clone(),
        };
        let (tell, told) = oneshot::channel();
        let running = tokio::spawn(serve_http(engine.clone(), options, |ready| tell.send(ready).unwrap()));
        let address = told.await.unwrap().address;
        let agent = Client { address, credential: TOKEN.to_owned() };
        let key = std::fs::read_to_string(home.join("operator.key")).unwrap();
        let operator = Client { address, credential: key };
        Served { engine, agent, operator, shutdown, running, _places: places }
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

#[derive(Clone)]
struct Client {
    address: SocketAddr,
    credential: String,
}

impl Client {
    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let headers = [format!("Authorization: Bearer {}", self.credential)];
        let (status, _, body) = self.send(method, path, &self.address.to_string(), &headers, &body).await;
        (status, body)
    }

    /// Sends exactly these headers: the status, the head and the body of the answer.
    async fn send(
        &self,
        method: &str,
        path: &str,
        host: &str,
        headers: &[String],
        body: &str,
    ) -> (u16, String, String) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            headers.join("\r\n"),
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
    }

    async fn json(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let (status, text) = self.ask(method, path, body).await;
        (status, serde_json::from_str(&text).unwrap())
    }
}

#[tokio::test]
async fn a_question_goes_from_its_call_to_its_answer() {
    let served = Served::start(Arc::new(server::NobodyElsewhere)).await;
    let (agent, operator) = (&served.agent, &served.operator);

    // No word of it names a file: there is no sandbox here to look at one.
    let arguments = json!({ "command": "ls", "profile": "mutate", "purpose": "cl\u{202e}ean" });
    let asked = json!({ "tool": "shell", "arguments": arguments, "wait_seconds": 0 });
    let (status, waiting) = agent.json("POST", "/v1/calls", Some(asked.clone())).await;
    assert_eq!((status, &waiting["status"]), (202, &json!("waiting")), "{waiting}");
    let call = waiting["call_id"].as_str().unwrap();

    let (status, open) = operator.json("GET", "/v1/approvals", None).await;
    assert_eq!((status, open["approvals"].as_array().unwrap().len()), (200, 1));
    let question = &open["approvals"][0];
    assert_eq!(question["call_id"], call);
    assert_eq!(question["purpose"], "cl⟨U+202E⟩ean");
    assert_eq!(question["command"], json!(["ls"]));
    assert_eq!(question["operands"]["bound"], json!([]));
    assert_eq!(question["operands"]["not_bound"][0]["what"], "ls");
    assert!(question["shown_arguments"].as_str().unwrap().contains("⟨U+202E⟩"));
    assert_eq!(question["action"], "exec:mutate");
    assert!(question["safety"].is_string());

    // The same call again joins it; there is still one question.
    assert_eq!(agent.json("POST", "/v1/calls", Some(asked)).await.1["call_id"], call);
    assert_eq!(operator.json("GET", "/v1/approvals", None).await.1["approvals"].as_array().unwrap().len(), 1);

    let decide = format!("/v1/approvals/{}/decision", question["approval_id"].as_str().unwrap());
    let no = json!({ "verdict": "deny", "reason": "not today" });
    assert_eq!(agent.json("POST", &decide, Some(no.clone())).await.0, 403);
    let (status, answered) = operator.json("POST", &decide, Some(no.clone())).await;
    assert_eq!((status, &answered["state"]), (200, &json!("rejected")), "{answered}");
    assert_eq!(operator.json("POST", &decide, Some(no)).await.0, 409);

    let (status, ended) = agent.json("GET", &format!("/v1/calls/{call}"), None).await;
    assert_eq!(
        (status, &ended["status"], &ended["reason"]["code"]),
        (200, &json!("refused"), &json!("rejected"))
    );
    assert!(ended["reason"]["message"].as_str().unwrap().contains("not today"));
    let (_, listed) = operator.json("GET", "/v1/calls?limit=20", None).await;
    assert_eq!(listed["calls"][0]["receipt"], format!("r-{call}"));

    let (status, refused) = agent.json("POST", "/v1/calls", Some(json!({ "tool": "shel" }))).await;
    assert_eq!((status, &refused["reason"]["code"]), (404, &json!("unknown_tool")), "{refused}");
    assert_eq!(agent.json("GET", "/v1/tools", None).await.0, 200);
    assert_eq!(agent.json("POST", "/v1/explain", Some(json!({ "tool": "fs.list" }))).await.0, 200);
    let (status, note) = agent.ask("GET", "/v1/ledger/checkpoint", None).await;
    assert_eq!((status, note.contains("\n\u{2014} ")), (200, true), "{note}");
    assert_eq!(operator.json("GET", "/v1/ledger/proof/1", None).await.0, 200);
    assert_eq!(operator.json("GET", "/v1/ledger/proof/99999", None).await.0, 404);
    assert_eq!(operator.json("DELETE", &format!("/v1/calls/{call}"), None).await.0, 409);

    served.close().await;
}
