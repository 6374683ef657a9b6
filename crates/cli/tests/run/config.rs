//! `toolgate config`: which file is taken, what is said about it, and with which exit code.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::toolgate::{Gate, Ran, finish, ran, start};

#[test]
fn a_good_file_is_one_line_and_its_warnings_are_talk() {
    let gate = Gate::new();
    fs::write(gate.work().join("toolgate.yaml"), "agents: { a: {} }\nsandboxing: { k8s: {} }\n")
        .expect("written");
    let ended = config(&gate, &["check", "toolgate.yaml"]);
    let (line, hash) = ended.stdout.split_once(", policy ").expect("it names the policy");
    assert_eq!(line, "toolgate.yaml: valid, 2 agents, 0 rules");
    assert_eq!((hash.len(), hash.ends_with('\n')), (65, true), "{hash}");
    let said = "warning: toolgate.yaml:2:20: `sandboxing.k8s` is read but not in force yet\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), said));
    let found = json_of(&config(&gate, &["check", "toolgate.yaml", "--json"]), 0);
    let warning = "toolgate.yaml:2:20: `sandboxing.k8s` is read but not in force yet";
    assert_eq!(found, json!({ "file": "toolgate.yaml", "valid": true, "warnings": [warning] }));
}

#[test]
fn a_bad_file_is_an_error_for_each_thing_that_is_wrong() {
    let gate = Gate::new();
    fs::write(gate.work().join("bad.yaml"), "listen: x\nagents: { a: { denied_tools: [shel] } }\n")
        .expect("written");
    let said = "error: bad.yaml:1:9: `x` is not an address such as `127.0.0.1:7433`\n\
        error: bad.yaml:2:31: there is no tool `shel`, did you mean `shell`?\n";
    assert_eq!(config(&gate, &["check", "bad.yaml"]), ran(2, "", said));
    assert_eq!(config(&gate, &["show", "--config", "bad.yaml"]), ran(2, "", said));
    let found = json_of(&config(&gate, &["check", "bad.yaml", "--json"]), 2);
    assert_eq!(found["valid"], false);
    assert_eq!(found["error"]["code"], "bad_config");
    assert_eq!(
        found["problems"],
        json!([
            { "line": 1, "column": 9, "message": "`x` is not an address such as `127.0.0.1:7433`", "nearest": null },
            { "line": 2, "column": 31, "message": "there is no tool `shel`", "nearest": "shell" },
        ])
    );
}

#[test]
fn what_is_no_file_or_no_text_is_an_error_and_nothing_waits() {
    let gate = Gate::new();
    let work = gate.work();
    fs::create_dir(work.join("folder")).expect("made");
    fs::write(work.join("large"), vec![b'#'; (1 << 20) + 1]).expect("written");
    fs::write(work.join("latin"), b"# caf\xe9").expect("written");
    symlink("nowhere", work.join("dangling")).expect("made");
    let made = Command::new("mkfifo").arg(work.join("pipe")).status().expect("there is a mkfifo");
    assert!(made.success());
    let cases = [
        ("folder", "`folder` is a directory, not a file"),
        ("pipe", "`pipe` is a pipe or a device, not a file"),
        ("/dev/zero", "`/dev/zero` is a pipe or a device, not a file"),
        ("large", "`large` is larger than a configuration may be: 1 MiB"),
        ("latin", "latin:1:6: the byte `0xe9` is not UTF-8"),
        ("dangling", "cannot read `dangling`: No such file or directory (os error 2)"),
        ("missing", "cannot read `missing`: No such file or directory (os error 2)"),
    ];
    for (file, said) in cases {
        assert_eq!(config(&gate, &["check", file]), ran(2, "", format!("error: {said}\n")), "{file}");
    }
    fs::write(work.join("open"), "{}").expect("written");
    fs::set_permissions(work.join("open"), PermissionsExt::from_mode(0o666)).expect("changed");
    let said = "error: `open` is not trusted: anybody can write it\n";
    assert_eq!(config(&gate, &["check", "open"]), ran(2, "", said));
    if !geteuid().is_root() {
        fs::write(work.join("secret"), "{}").expect("written");
        fs::set_permissions(work.join("secret"), PermissionsExt::from_mode(0o000)).expect("changed");
        let said = "error: cannot read `secret`: Permission denied (os error 13)\n";
        assert_eq!(config(&gate, &["check", "secret"]), ran(2, "", said));
    }
}

#[test]
fn the_file_named_comes_first_then_the_variable_then_here_then_the_state_folder() {
    let gate = Gate::new();
    let source = |gate: &Gate, named: &[&str], variable: Option<&str>| {
        let mut command = gate.command(&[&["config", "show", "--json"], named].concat());
        command.envs(variable.map(|name| ("TOOLGATE_CONFIG", name)));
        json_of(&finish(start(&mut command)), 0)["source"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(source(&gate, &[], None), "built in");
    assert_eq!(source(&gate, &[], Some("")), "built in");
    fs::write(gate.state().join("toolgate.yaml"), "{}").expect("written");
    assert_eq!(source(&gate, &[], None), gate.state().join("toolgate.yaml").display().to_string());
    for name in ["toolgate.yaml", "variable.yaml", "named.yaml"] {
        fs::write(gate.work().join(name), "{}").expect("written");
    }
    // Agents write in the current directory.
    assert_eq!(source(&gate, &[], None), gate.state().join("toolgate.yaml").display().to_string());
    assert_eq!(source(&gate, &[], Some("variable.yaml")), "variable.yaml");
    assert_eq!(source(&gate, &["--config", "named.yaml"], Some("variable.yaml")), "named.yaml");
}

#[test]
fn a_file_that_is_there_and_cannot_be_used_is_not_passed_over() {
    let gate = Gate::new();
    let own = gate.state().join("toolgate.yaml");
    symlink("nowhere", &own).expect("made");
    let said = format!("error: cannot read `{}`: No such file or directory (os error 2)\n", own.display());
    assert_eq!(config(&gate, &["show"]), ran(2, "", said));
    let mut command = gate.command(&["config", "check"]);
    command.env("TOOLGATE_CONFIG", "missing.yaml");
    let said = "error: cannot read `missing.yaml`: No such file or directory (os error 2)\n";
    assert_eq!(finish(start(&mut command)), ran(2, "", said));
}

#[test]
fn a_file_under_a_name_that_is_not_looked_for_is_noticed() {
    let gate = Gate::new();
    let stray = gate.state().join("toolgate.yml");
    fs::write(&stray, "{}").expect("written");
    let ended = config(&gate, &["check"]);
    assert!(ended.stdout.starts_with("built-in defaults: valid, 1 agent, 0 rules"), "{}", ended.stdout);
    let said =
        format!("warning: `{}` is not read: the name looked for is `toolgate.yaml`\n", stray.display());
    assert_eq!((ended.code, ended.stderr), (Some(0), said));
}

#[test]
fn a_configuration_that_was_planted_in_the_workspace_is_mentioned_and_not_obeyed() {
    let gate = Gate::new();
    fs::write(gate.work().join("toolgate.yaml"), "agents: { default: { autonomy: full } }").expect("written");
    let ended = config(&gate, &["show"]);
    let own = gate.state().join("toolgate.yaml");
    let said = format!(
        "warning: `toolgate.yaml` here is not read: if it is yours, move it to `{}`, or out of the workspace and name it with `--config`\n",
        own.display()
    );
    assert_eq!((ended.code, &ended.stderr), (Some(0), &said));
    // Nor does a test of rules pass without a word.
    let tested = finish(start(&mut gate.command(&["policy", "test"])));
    assert_eq!((tested.code, &tested.stderr), (Some(0), &said));
    let autonomy = ended.stdout.lines().find(|line| line.trim_start().starts_with("autonomy"));
    assert_eq!(
        autonomy.map(|line| line.split_whitespace().collect()),
        Some(vec!["autonomy", "semi", "default"])
    );
}

#[test]
fn show_fills_in_every_default() {
    let gate = Gate::new();
    let shown = json_of(&config(&gate, &["show", "--json"]), 0);
    let here = gate.work().display().to_string();
    let agent = &shown["agents"]["default"];
    let value = |value: Value, source: &str| json!({ "value": value, "source": source });
    assert_eq!(agent["level"], value(json!("standard"), "default"));
    assert_eq!(agent["autonomy"], value(json!("semi"), "default"));
    assert_eq!(agent["workspace"], value(json!(here), "current directory"));
    assert_eq!(agent["constraints"]["terminal"], value(json!("restricted_commands"), "level standard"));
    assert_eq!(shown["levels"]["standard"]["terminal"], value(json!("restricted_commands"), "default"));
    assert_eq!(shown["backends"]["terminal"], value(json!("native"), "default"));
    assert_eq!(shown["ask_for_seconds"], value(json!(300), "default"));
    assert_eq!(shown["listen"], value(json!("127.0.0.1:7433"), "default"));
    assert_eq!(shown["max_arguments_bytes"], value(json!(1 << 20), "default"));
    assert_eq!(shown["resources"], value(json!([]), "default"));
    assert_eq!(shown["home"]["source"], "TOOLGATE_HOME");
    assert!(shown["rates"].is_object(), "{shown}");
    let text = config(&gate, &["show"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    assert!(text.stdout.starts_with("source: built in (there is no file)\npolicy: "), "{}", text.stdout);
    // A path is as long as it is.
    let fits = |line: &str| line.contains('/') || line.chars().count() <= 80;
    assert!(text.stdout.lines().all(fits), "{}", text.stdout);
    let row = |name: &str| text.stdout.lines().find(|line| line.trim_start().starts_with(name));
    let words: Vec<&str> = row("wait_seconds").unwrap_or_default().split_whitespace().collect();
    assert_eq!(words, ["wait_seconds", "45", "default"], "{}", text.stdout);
}

#[test]
fn every_value_stands_beside_where_it_comes_from() {
    let gate = Gate::new();
    let text = "\
agents:
  a:
    preset: reviewer
    autonomy: locked
    denied_actions: [exec:build]
    overrides: { git: full }
  b: { level: elevated, seniority: junior }
toolAccess: { levels: { standard: { network: open } } }
tools: { shell: { timeoutMs: 1000 } }
sandboxing: { overrides: { git: native } }
";
    fs::write(gate.state().join("toolgate.yaml"), text).expect("written");
    let mut command = gate.command(&["config", "show", "--json"]);
    command.env("TOOLGATE_STORE", "postgres://me:secret@db.example/gate");
    let shown = json_of(&finish(start(&mut command)), 0);
    let source = |path: &str| {
        shown.pointer(path).unwrap_or(&Value::Null)["source"].as_str().unwrap_or_default().to_owned()
    };
    for (path, expected) in [
        ("/agents/a/preset", "toolgate.yaml:3"),
        ("/agents/a/level", "preset reviewer"),
        ("/agents/a/autonomy", "toolgate.yaml:4"),
        ("/agents/a/allowed_tools", "preset reviewer"),
        ("/agents/a/denied_actions", "preset reviewer, toolgate.yaml:5"),
        ("/agents/a/constraints/git", "toolgate.yaml:6"),
        ("/agents/a/constraints/network", "preset reviewer"),
        ("/agents/a/constraints/deployment", "level custom"),
        ("/agents/b/level", "seniority junior"),
        ("/agents/b/autonomy", "seniority junior"),
        ("/agents/b/constraints/network", "seniority junior"),
        ("/agents/default/constraints/network", "toolgate.yaml:8"),
        ("/levels/standard/network", "toolgate.yaml:8"),
        ("/timeouts_ms/terminal", "toolgate.yaml:9"),
        ("/backends/version_control", "toolgate.yaml:10"),
        ("/backends/web", "default"),
        ("/store", "TOOLGATE_STORE"),
    ] {
        assert_eq!(source(path), expected, "{path}");
    }
    assert_eq!(shown["found_by"], "TOOLGATE_HOME");
    assert!(!shown.to_string().contains("secret"), "a password is nothing to show");
    let named = json_of(&config(&gate, &["show", "--json", "--store", "sqlite:/x.db"]), 0);
    assert_eq!(named["store"], json!({ "value": "sqlite:/x.db", "source": "--store" }));
}

#[test]
fn init_writes_what_check_accepts_and_never_overwrites() {
    let gate = Gate::new();
    let own = gate.state().join("toolgate.yaml");
    let name = own.display();
    let said = format!("wrote {name}; change it, then try `toolgate config check {name}`\n");
    assert_eq!(config(&gate, &["init"]), ran(0, said, ""));
    let checked = config(&gate, &["check"]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
    fs::write(&own, "mine").expect("written");
    let said = format!(
        "error: cannot write `{name}`: File exists (os error 17)\n\
         hint: it is left as it was; name another file, or move it away\n"
    );
    assert_eq!(config(&gate, &["init"]), ran(2, "", said));
    assert_eq!(fs::read_to_string(&own).expect("it is there"), "mine");
    let found = json_of(&config(&gate, &["init", "other.yaml", "--json"]), 0);
    assert_eq!(found, json!({ "written": "other.yaml" }));
    let found = json_of(&config(&gate, &["init", "other.yaml", "--json"]), 2);
    assert_eq!(found["error"]["code"], "cannot_write");
}

/// What is commented out in the starter is as valid as what is not.
#[test]
fn every_line_of_the_starter_can_be_switched_on() {
    let gate = Gate::new();
    assert_eq!(config(&gate, &["init"]).code, Some(0));
    let own = gate.state().join("toolgate.yaml");
    let starter = fs::read_to_string(&own).expect("it is there");
    let is_key = |line: &str| line.contains(':') && !line.contains("toolgate config");
    let open = |line: &str| match line.split_once("# ") {
        Some((before, key)) if before.trim().is_empty() && is_key(line) => format!("{before}{key}\n"),
        _ => format!("{line}\n"),
    };
    // Twice, for what is commented out inside of what is.
    let once: String = starter.lines().map(open).collect();
    let twice: String = once.lines().map(open).collect();
    fs::write(&own, &twice).expect("written");
    let ended = config(&gate, &["check"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{twice}");
    assert!(ended.stdout.contains("1 rule,"), "{}", ended.stdout);
}

#[test]
fn the_schema_is_json_and_describes_every_section() {
    let gate = Gate::new();
    let schema = json_of(&config(&gate, &["schema"]), 0);
    assert_eq!(schema["title"], "toolgate.yaml");
    assert_eq!(schema["additionalProperties"], false);
    for section in
        ["agents", "actions", "tool_access", "toolAccess", "sandboxing", "trust", "tools", "approval"]
    {
        assert!(schema["properties"][section]["description"].is_string(), "{section}");
    }
    assert_eq!(schema, json_of(&config(&gate, &["schema", "--json"]), 0));
}

fn config(gate: &Gate, arguments: &[&str]) -> Ran {
    finish(start(&mut gate.command(&[&["config"], arguments].concat())))
}

fn json_of(ended: &Ran, code: i32) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{}", ended.stdout);
    serde_json::from_str(&ended.stdout).expect("it is JSON")
}
