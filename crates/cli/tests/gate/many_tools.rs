//! Tools from files, and so many of them that they are told step by step.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::many_tools;
use crate::place::{Place, text};

const MANIFEST: &str = r#"
tools:
  - name: text.words
    title: Count words
    description: Counts the words of a file.
    permission_level: read
    arguments:
      path: { type: path, description: The file., required: true }
    command: [wc, -w, "{path}"]
"#;

#[test]
fn a_file_is_looked_at_first_and_registered_when_that_is_asked_for() {
    let Some(place) = Place::new() else { return };
    let file = place.home().join("mine.yaml");
    let own = "  - { name: fs.read, description: x, permission_level: read, command: [ls] }\n";
    fs::write(&file, format!("{MANIFEST}{own}")).expect("written");
    let file = file.to_str().expect("a plain path");
    let looked = place.toolgate(&["tools", "register", file]);
    assert_eq!(looked.code, Some(0), "{looked:?}");
    for line in ["text.words · Count words", "runs      wc -w {path}", "trust     imported"] {
        assert!(looked.stdout.contains(line), "{line}: {looked:?}");
    }
    assert!(
        looked.stderr.contains("`fs.read` is refused") && looked.stderr.contains("--apply"),
        "{looked:?}"
    );
    assert_eq!(place.toolgate(&["tools", "show", "text.words"]).code, Some(2), "nothing was changed");
    let applied = place.toolgate(&["tools", "register", file, "--apply"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let shown = place.toolgate(&["tools", "show", "text.words"]);
    assert!(shown.stdout.contains("trust     imported"), "{shown:?}");
    assert!(place.toolgate(&["tools", "show", "fs.read"]).stdout.contains("trust     internal"));
    // Whoever wrote it is a stranger: it is asked about, and runs behind walls once somebody has said yes.
    let (code, waiting) = place.call("text.words", r#"{"path":"README.md"}"#);
    assert_eq!(code, Some(4), "{waiting}");
    let approval = text(&waiting, "/approval/id");
    assert_eq!(place.toolgate(&["approve", &approval]).code, Some(0));
    let (code, done) = place.call("text.words", r#"{"path":"README.md"}"#);
    assert_eq!((code, text(&done, "/structured/stdout").trim()), (Some(0), "2 ./README.md"), "{done}");
    let (code, refused) = place.call("text.words", r#"{"path":"../outside"}"#);
    assert_eq!((code, text(&refused, "/reason/code").as_str()), (Some(3), "outside"));
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn a_file_without_a_tool_is_refused_and_not_kept() {
    let Some(place) = Place::new() else { return };
    for (name, content) in [
        ("bad.yaml", "tools:\n  - { name: a.b, permission_level: privileged, command: [ls] }\n"),
        (
            "shadow.yaml",
            "tools:\n  - { name: shell, description: x, permission_level: read, command: [ls] }\n",
        ),
    ] {
        let file = place.home().join(name);
        fs::write(&file, content).expect("written");
        let ran = place.toolgate(&["tools", "register", file.to_str().expect("a plain path"), "--apply"]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(!place.home().join("tools").join(name).exists());
    }
}

#[test]
fn a_client_with_many_tools_finds_loads_and_calls_them() {
    let Some(place) = Place::new() else { return };
    let entry = |n: usize| {
        format!(
            "  - {{ name: more.tool{n}, description: Does thing {n}., permission_level: read, command: [ls] }}\n"
        )
    };
    let file = place.home().join("more.yaml");
    fs::write(&file, format!("tools:\n{}", (0..40).map(entry).collect::<String>())).expect("written");
    let applied = place.toolgate(&["tools", "register", file.to_str().expect("a plain path"), "--apply"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let Some(seen) = many_tools(&place) else { return };
    let names = |key: &str| -> Vec<String> {
        let all = seen.get(key).and_then(Value::as_array).expect("a list");
        all.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let always =
        ["call_status", "call_tool", "list_tools", "load_tool", "load_tool_resource", "search_tools"];
    assert_eq!(names("before"), always);
    assert!(names("after").contains(&"fs_read".to_owned()) && names("after").len() == always.len() + 1);
    assert!(names("heard").iter().any(|name| name.contains("ToolListChanged")), "{seen}");
    let instructions = text(&seen, "/instructions");
    assert!(
        instructions.contains("more.tool39") && instructions.contains("- fs.read: Reads a file"),
        "{instructions}"
    );
    assert!(text(&seen, "/found").starts_with("fs.read ["), "{seen}");
    assert!(text(&seen, "/loaded").contains("offset"), "{seen}");
    assert_eq!(
        (text(&seen, "/direct").as_str(), text(&seen, "/around").as_str()),
        ("# Project\n", "# Project\n")
    );
    assert_eq!(text(&seen, "/around_tool"), "fs.read");
    assert!(text(&seen, "/unloaded").contains("not loaded"), "{seen}");
    assert!(text(&seen, "/guide").starts_with("# Reading files"), "{seen}");
}

/// A client on standard input and output that reads whatever comes.
struct Client {
    child: Child,
    heard: mpsc::Receiver<Value>,
}

impl Client {
    fn start(place: &Place) -> Client {
        let mut command = place.command(&["mcp"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the gate starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (say, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("every line is a message");
                if say.send(message).is_err() {
                    return;
                }
            }
        });
        let mut client = Client { child, heard };
        client.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } } }));
        client.wait_for(|message| message["id"] == 1);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        let input = self.child.stdin.as_mut().expect("it is piped");
        writeln!(input, "{message}").expect("the gate reads");
    }

    fn wait_for(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.heard.recv_timeout(left).expect("it comes in time");
            if is_it(&message) {
                return message;
            }
        }
    }

    fn lists(&mut self, id: u64, tool: &str) -> bool {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {} }));
        let listed = self.wait_for(|message| message["id"] == id);
        let tools = listed.pointer("/result/tools").and_then(Value::as_array).expect("it is a list");
        tools.iter().any(|listed| listed["name"] == tool)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_client_hears_of_tools_that_somebody_else_registers_and_switches_off() {
    let Some(place) = Place::new() else { return };
    let file = place.home().join("mine.yaml");
    fs::write(&file, MANIFEST).expect("written");
    let file = file.to_str().expect("a plain path");
    let mut client = Client::start(&place);
    assert!(!client.lists(2, "text_words"));
    let applied = place.toolgate(&["tools", "register", file, "--apply"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    client.wait_for(|message| message["method"] == "notifications/tools/list_changed");
    assert!(client.lists(3, "text_words"), "it is there without a restart");
    // And it goes as it came.
    fs::remove_file(place.home().join("tools/mine.yaml")).expect("it is kept there");
    client.wait_for(|message| message["method"] == "notifications/tools/list_changed");
    assert!(!client.lists(4, "text_words"));
}
