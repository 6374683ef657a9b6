//! Who is told what: by a real mail server, a webhook, a chat, and a collector that reads the official form of OTLP.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]
#![expect(clippy::indexing_slicing, reason = "so is what is not there")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::place::{Place, Up, text};
use crate::toolgate::{missing, until};

const REMOVE: &str = r#"{"command":"rm","args":["-r","build","secret-argument"],"profile":"mutate","purpose":"secret purpose"}"#;
/// What is in a call and must not be in what is told.
const PRIVATE: [&str; 2] = ["secret-argument", "secret purpose"];

/// Receivers; ended when dropped.
struct Receivers {
    child: Child,
    heard: Arc<Mutex<Vec<Value>>>,
    mail: u64,
    http: u64,
    folder: PathBuf,
}

impl Receivers {
    fn start(place: &Place) -> Option<Receivers> {
        #[expect(clippy::disallowed_methods, reason = "tests are told by their environment what is there")]
        let clients = std::env::var_os("TOOLGATE_CLIENTS").map(PathBuf::from);
        let python =
            clients.map(|folder| folder.join("receivers/bin/python")).filter(|python| python.exists());
        let Some(python) = python else {
            missing("clients", "TOOLGATE_CLIENTS names no folder with `receivers`");
            return None;
        };
        let folder = place.home().join("receivers");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("password"), "the password").unwrap();
        fs::write(folder.join("secret"), "the secret of a webhook").unwrap();
        fs::write(folder.join("api-key"), "the key of a collector").unwrap();
        fs::write(folder.join("scrape"), "a-token-of-thirty-two-characters-or-more").unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/receivers.py");
        #[expect(clippy::disallowed_methods, reason = "whoever receives is a program of its own")]
        let mut command = Command::new(python);
        let mut child = command.arg(script).arg(&folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ports: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let heard = Arc::<Mutex<Vec<Value>>>::default();
        let hears = Arc::clone(&heard);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                hears.lock().unwrap().extend(serde_json::from_str::<Value>(&line));
            }
        });
        let port = |name: &str| ports[name].as_u64().unwrap();
        fs::write(folder.join("slack"), format!("http://127.0.0.1:{}/services/T0/B0/x", port("http")))
            .unwrap();
        Some(Receivers { child, heard, mail: port("mail"), http: port("http"), folder })
    }

    fn all(&self, kind: &str) -> Vec<Value> {
        self.heard.lock().unwrap().iter().filter(|heard| heard["kind"] == kind).cloned().collect()
    }

    fn posted(&self, path: &str) -> Option<Value> {
        self.all("post").into_iter().find(|post| post["path"] == path)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configure(place: &Place, configuration: &Value) {
    fs::write(place.home().join("toolgate.yaml"), configuration.to_string()).unwrap();
}

fn events(place: &Place, kind: &str) -> Vec<Value> {
    let shown = place.toolgate(&["ledger", "show", "--json"]).stdout;
    let entries = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries.filter(|entry| entry["kind"] == kind).collect()
}

#[test]
fn people_are_told_by_mail_by_a_chat_and_by_a_webhook_and_nothing_of_the_call_is_in_it() {
    let Some(place) = Place::new() else { return };
    let Some(to) = Receivers::start(&place) else { return };
    configure(
        &place,
        &json!({
            "egress": { "private": ["127.0.0.1"], "extra_roots": to.path("root.pem") },
            "approval": { "link": "https://gate.example.com/", "notify": [
                { "name": "mail", "email": {
                    "server": format!("127.0.0.1:{}", to.mail), "from": "gate@example.com", "to": ["ops@example.com"],
                    "user": "gate", "password": format!("file:{}", to.path("password")),
                } },
                { "name": "desk", "webhook": {
                    "url": format!("http://127.0.0.1:{}/desk", to.http), "secret": format!("file:{}", to.path("secret")),
                } },
                { "name": "flaky", "every_seconds": 1, "webhook": {
                    "url": format!("http://127.0.0.1:{}/flaky", to.http), "secret": format!("file:{}", to.path("secret")),
                } },
                { "name": "chat", "slack": format!("file:{}", to.path("slack")) },
                { "name": "nowhere", "webhook": {
                    "url": "https://10.255.255.1/x", "secret": format!("file:{}", to.path("secret")),
                } },
            ] },
        }),
    );
    let _up = Up::start(&place);
    let (_, waiting) = place.call("shell", REMOVE);
    let id = text(&waiting, "/approval/id");
    let mail = until("a mail", || to.all("mail").into_iter().next());
    assert_eq!((&mail["tls"], &mail["user"]), (&json!(true), &json!("gate")), "{mail}");
    assert_eq!((&mail["from"], &mail["to"]), (&json!("gate@example.com"), &json!(["ops@example.com"])));
    assert_eq!(mail["subject"], "[toolgate] 1 call waits for approval");
    let desk = until("a webhook", || to.posted("/desk"));
    assert_eq!(desk["signed"], true, "{desk}");
    assert_eq!(desk["body"]["questions"][0]["approval_id"], json!(id), "{desk}");
    let slack = until("a chat", || to.posted("/services/T0/B0/x"));
    until("a second try", || to.posted("/flaky"));
    for told in [&mail, &desk, &slack] {
        let told = told.to_string();
        assert!(
            told.contains(&id) && told.contains("shell") && told.contains("https://gate.example.com/"),
            "{told}"
        );
        assert!(PRIVATE.iter().all(|private| !told.contains(private)), "{told}");
    }
    // What cannot be sent is said, and harms nobody.
    let failed = until("that it was given up", || events(&place, "notice.failed").into_iter().next());
    assert_eq!(failed["body"]["channel"], "nowhere", "{failed}");
    assert!(failed["body"]["why"].as_str().is_some_and(|why| why.contains("has to be granted")), "{failed}");
    let sent = until("that all others were sent", || {
        let sent = events(&place, "notice.sent");
        (sent.len() >= 4).then_some(sent)
    });
    assert!(sent.iter().all(|entry| entry["body"]["approvals"] == json!([id])), "{sent:?}");
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

/// After this long nobody has anything to tell any more: a step is due after four seconds, and told within three.
const LONGER_THAN_ANY_STEP: Duration = Duration::from_secs(9);

#[test]
fn many_questions_are_one_message_and_a_restart_tells_nobody_twice() {
    let Some(place) = Place::new() else { return };
    let Some(to) = Receivers::start(&place) else { return };
    configure(
        &place,
        &json!({
            "egress": { "private": ["127.0.0.1"] },
            "approval": { "escalation": [{ "after_seconds": 4, "to": ["lead"] }], "notify": [
                { "name": "desk", "every_seconds": 3, "webhook": {
                    "url": format!("http://127.0.0.1:{}/desk", to.http), "secret": format!("file:{}", to.path("secret")),
                } },
                { "name": "lead", "from_step": 1, "every_seconds": 1, "webhook": {
                    "url": format!("http://127.0.0.1:{}/lead", to.http), "secret": format!("file:{}", to.path("secret")),
                } },
            ] },
        }),
    );
    for number in 0..15 {
        let arguments = json!({ "command": "rm", "args": [format!("f{number}")], "profile": "mutate" });
        assert_eq!(place.call("shell", &arguments.to_string()).0, Some(4));
    }
    let up = Up::start(&place);
    let first = until("a message", || to.posted("/desk"));
    let told = first["body"]["questions"].as_array().map_or(0, Vec::len);
    assert_eq!((told, &first["body"]["more"]), (10, &json!(5)), "{first}");
    let lead = until("the next ones", || to.posted("/lead"));
    assert_eq!(lead["body"]["questions"][0]["escalated_to"], json!(["lead"]), "{lead}");
    until("the second message", || (to.all("post").len() >= 3).then_some(()));
    // Where calls take long, their steps come one after another: all of them are told before the gate ends.
    let mut before = 0;
    while before < to.all("post").len() {
        before = to.all("post").len();
        std::thread::sleep(LONGER_THAN_ANY_STEP);
    }
    drop(up);
    let _up = Up::start(&place);
    std::thread::sleep(LONGER_THAN_ANY_STEP);
    assert_eq!(to.all("post").len(), before, "{:?}", to.all("post"));
}

#[test]
fn a_collector_gets_a_trace_of_each_call_and_prometheus_its_numbers() {
    let Some(place) = Place::new() else { return };
    let Some(to) = Receivers::start(&place) else { return };
    configure(
        &place,
        &json!({
            "egress": { "private": ["127.0.0.1"] },
            "metrics": { "token": format!("file:{}", to.path("scrape")) },
            "telemetry": {
                "endpoint": format!("http://127.0.0.1:{}", to.http), "every_seconds": 1,
                "header": "x-api-key", "header_from": format!("file:{}", to.path("api-key")),
            },
        }),
    );
    let up = Up::start(&place);
    // From where the collector was there on.
    until("numbers", || to.all("metrics").into_iter().next());
    let (code, called) = place.json(&[
        "call",
        "shell",
        r#"{"command":"printenv","purpose":"secret purpose"}"#,
        "--task",
        "t1",
    ]);
    assert_eq!(code, Some(0), "{called}");
    let id = text(&called, "/call_id");
    let content = text(&called, "/content");
    for expected in ["TOOLGATE_AGENT_ID=default", "TOOLGATE_TASK_ID=t1", &format!("TOOLGATE_REQUEST_ID={id}")]
    {
        assert!(content.contains(expected), "{content}");
    }
    let told = until("spans", || {
        let of_it = |told: &Value| {
            told["spans"].as_array().is_some_and(|spans| spans.iter().any(|span| span["trace"] == json!(id)))
        };
        to.all("spans").into_iter().find(of_it)
    });
    assert_eq!(told["secret"], "the key of a collector");
    let spans: Vec<&Value> =
        told["spans"].as_array().unwrap().iter().filter(|span| span["trace"] == json!(id)).collect();
    let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
    assert_eq!(names, ["call shell", "run", "settle"], "{told}");
    assert_eq!(spans[0]["parent"], "", "{told}");
    assert!(spans[1..].iter().all(|span| span["parent"] == spans[0]["id"]), "{told}");
    assert_eq!(spans[0]["attributes"]["toolgate.task_id"], "t1", "{told}");
    assert!(
        !told["raw"].as_str().unwrap().contains("secret purpose")
            && !told["raw"].as_str().unwrap().contains("printenv"),
        "{told}"
    );
    until("events", || {
        to.all("logs").into_iter().find(|logs| logs["logs"].to_string().contains("call.settled"))
    });
    assert_eq!(to.all("bad"), Vec::<Value>::new());

    let ask = |token: &str| {
        let token = format!("Authorization: Bearer {token}");
        let mut command = curl();
        let asked =
            command.args(["-s", "-w", "%{http_code}", "-H", &token, &format!("{}/metrics", up.url())]);
        String::from_utf8(asked.output().unwrap().stdout).unwrap()
    };
    let numbers = ask("a-token-of-thirty-two-characters-or-more");
    assert!(numbers.contains("toolgate_calls_total{status=\"completed\",tool=\"shell\"} 1\n"), "{numbers}");
    assert!(numbers.contains("toolgate_run_seconds_count 1\n") && numbers.ends_with("200"), "{numbers}");
    assert!(ask("another-token-of-thirty-two-characters").ends_with("401"));
}

#[expect(clippy::disallowed_methods, reason = "a client of the gate")]
fn curl() -> Command {
    Command::new("curl")
}
