//! Real MCP servers behind the gate: they work, and none of them reads what it was not given or reaches anybody.
//!
//! `./test` puts them into the folder `servers` of the one that `TOOLGATE_CLIENTS` names.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::place::{Place, text};
use crate::toolgate::{Ran, finish_within, missing, start};

/// A server of Node or Python takes its time where much else is done.
const A_SERVER_STARTS: Duration = Duration::from_secs(120);

const SECRET: &str = "planted-secret-7261";

pub(super) fn servers() -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLGATE_CLIENTS").map(|folder| PathBuf::from(folder).join("servers"));
    let found = folder.filter(|folder| folder.join("py/bin/mcp-server-time").exists());
    if found.is_none() {
        missing("clients", "TOOLGATE_CLIENTS names no folder with MCP servers");
    }
    found
}

/// A gate with one real server, and a file that it must not read.
pub(super) struct Served {
    place: Place,
    secret: PathBuf,
}

impl Served {
    /// `of` says how the server is configured, given where the servers are and which file is secret.
    pub(super) fn by(of: impl Fn(&str, &str) -> Value) -> Option<Served> {
        let (place, servers) = (Place::new()?, servers()?);
        let secret = place.home().join("planted");
        fs::write(&secret, SECRET).expect("a file can be written");
        let plain = |path: &PathBuf| path.to_str().expect("a plain path").to_owned();
        let server = of(&plain(&servers), &plain(&secret));
        let agent = json!({ "overrides": { "categories": ["file_system", "mcp"] } });
        let configuration = json!({ "agents": { "default": agent }, "egress": { "private": ["127.0.0.1"] },
            "mcp": { "servers": { "s": server } } });
        fs::write(place.home().join("toolgate.yaml"), configuration.to_string()).expect("written");
        let served = Served { place, secret };
        let listed = served.run(&["tools", "refresh"]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        Some(served)
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.place.command(arguments);
        command.env("PLANTED_SECRET", SECRET).env("PLANTED", SECRET);
        finish_within(start(&mut command), A_SERVER_STARTS)
    }

    /// Looks at a tool, and pins what it has seen.
    pub(super) fn pin(&self, tool: &str, safety: &str, egress: &str) {
        let shown = self.run(&["tools", "show", tool, "--json"]);
        let shown: Value =
            serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
        let hash = shown.get("hash").and_then(Value::as_str).expect("it has a hash");
        let pinned =
            self.run(&["tools", "pin", tool, "--hash", hash, "--safety", safety, "--egress", egress]);
        assert_eq!(pinned.code, Some(0), "{pinned:?}");
    }

    /// Pins a tool, and calls it. What came of it, in which the secret never is.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let tool = format!("mcp_s_{tool}");
        self.pin(&tool, "read", "none");
        let ran = self.run(&["call", &tool, &arguments.to_string(), "--json"]);
        assert!(!ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET), "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("not JSON: {error}: {ran:?}"))
    }

    /// The same for a call that has to come to a good end.
    fn content(&self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(
            (result.pointer("/status"), result.pointer("/is_error")),
            (Some(&json!("completed")), Some(&json!(false))),
            "{result}"
        );
        text(&result, "/content")
    }

    fn secret(&self) -> &str {
        self.secret.to_str().expect("a plain path")
    }
}

pub(super) fn node(servers: &str, package: &str) -> String {
    format!("{servers}/node/node_modules/@modelcontextprotocol/{package}/dist/index.js")
}

/// Somebody who is not to be reached.
fn nobody() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.set_nonblocking(true).expect("it can be asked without waiting");
    let url = format!("http://{}/x", listener.local_addr().expect("it has an address"));
    (listener, url)
}

#[test]
fn server_filesystem_reads_the_workspace_and_nothing_else() {
    let of = |servers: &str, _: &str| {
        json!({ "command": ["node", node(servers, "server-filesystem"), "/"],
        "ro": [servers], "workspace": "read" })
    };
    let Some(served) = Served::by(of) else { return };
    let readme = served.place.work().join("README.md");
    assert_eq!(served.content("read_text_file", &json!({ "path": readme })), "# Project\n");
    for path in [served.secret(), "/etc/shadow", served.place.work().join(".env").to_str().expect("plain")] {
        let result = served.call("read_text_file", &json!({ "path": path }));
        assert_eq!(result["is_error"], true, "{result}");
    }
    let written = served.call("write_file", &json!({ "path": readme, "content": "changed" }));
    assert_eq!(written["is_error"], true, "{written}");
    assert_eq!(fs::read_to_string(readme).expect("it is there"), "# Project\n");
}

#[test]
fn server_everything_has_no_variable_of_ours_and_reaches_nobody() {
    let of = |servers: &str, _: &str| json!({ "command": ["node", node(servers, "server-everything")], "ro": [servers] });
    let Some(served) = Served::by(of) else { return };
    assert_eq!(served.content("echo", &json!({ "message": "hello" })), "Echo: hello");
    let environment = served.content("get-env", &json!({}));
    assert!(!environment.contains("PLANTED") && !environment.contains("TOOLGATE"), "{environment}");
    let (listener, url) = nobody();
    served.call("gzip-file-as-resource", &json!({ "name": "x", "data": url }));
    assert!(listener.accept().is_err(), "somebody came");
}

#[test]
fn server_memory_remembers_in_its_own_scratch_space() {
    let of = |servers: &str, secret: &str| {
        json!({ "command": ["node", node(servers, "server-memory")],
        "ro": [servers], "env": { "MEMORY_FILE_PATH": secret } })
    };
    let Some(served) = Served::by(of) else { return };
    let graph: Value = serde_json::from_str(&served.content("read_graph", &json!({}))).expect("it is JSON");
    assert_eq!(graph["entities"], json!([]));
    let entity = json!({ "entities": [{ "name": "a", "entityType": "t", "observations": [] }] });
    served.call("create_entities", &entity);
    assert_eq!(fs::read_to_string(&served.secret).expect("it is there"), SECRET, "nothing was written");
}

#[test]
fn server_git_sees_the_repository_of_the_workspace_alone() {
    let of = |servers: &str, _: &str| {
        json!({ "command": [format!("{servers}/py/bin/mcp-server-git")],
        "ro": [servers], "workspace": "read" })
    };
    let Some(served) = Served::by(of) else { return };
    let outside = served.place.home().join("repository");
    for folder in [&served.place.work(), &outside] {
        let mut git = std::process::Command::new("git");
        git.arg("init").arg("--quiet").arg(folder);
        served.place.settle(&mut git);
        assert_eq!(finish_within(start(&mut git), A_SERVER_STARTS).code, Some(0));
    }
    let status = served.content("git_status", &json!({ "repo_path": served.place.work() }));
    assert!(status.contains("README.md"), "{status}");
    let result = served.call("git_status", &json!({ "repo_path": outside }));
    assert_eq!(result["is_error"], true, "{result}");
}

#[test]
fn server_fetch_reaches_whom_it_is_listed_for_and_nobody_else() {
    let (granted, its_url) = nobody();
    let place = granted.local_addr().expect("it has an address").to_string();
    let of = |servers: &str, _: &str| {
        let program = format!("{servers}/py/bin/mcp-server-fetch");
        json!({ "command": [program, "--ignore-robots-txt", "--allow-private-ips"], "ro": [servers], "allow": [place] })
    };
    let Some(served) = Served::by(of) else { return };
    granted.set_nonblocking(false).expect("it can wait");
    std::thread::spawn(move || {
        let (mut line, _) = granted.accept().expect("somebody comes");
        let mut asked = [0; 4096];
        let _ = line.read(&mut asked);
        let _ = line
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 7\r\n\r\ngranted");
    });
    served.pin("mcp_s_fetch", "network", "read_only");
    let call =
        |url: &str| served.run(&["call", "mcp_s_fetch", &json!({ "url": url, "raw": true }).to_string()]);
    let reached = call(&its_url);
    assert!(reached.stdout.contains("granted"), "{reached:?}");
    let (listener, url) = nobody();
    let refused = call(&url);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(listener.accept().is_err(), "somebody came");
    // The same server, of which somebody has said that nothing leaves the machine.
    let (listener, url) = nobody();
    let result = served.call("fetch", &json!({ "url": url }));
    assert_eq!(result["is_error"], true, "{result}");
    assert!(listener.accept().is_err(), "somebody came");
}

#[test]
fn server_time_tells_the_time() {
    let of = |servers: &str, _: &str| json!({ "command": [format!("{servers}/py/bin/mcp-server-time")], "ro": [servers] });
    let Some(served) = Served::by(of) else { return };
    let told = served.content("get_current_time", &json!({ "timezone": "Etc/UTC" }));
    assert!(told.contains("\"timezone\": \"Etc/UTC\""), "{told}");
}
