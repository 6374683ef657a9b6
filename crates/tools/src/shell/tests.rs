use contract::{Code, EgressClass, SafetyClass};
use policy::{Command, WorkspaceAccess};
use serde_json::json;

use super::*;

fn facets(arguments: Value) -> Result<Facets, Reason> {
    let shell = Shell::new().unwrap();
    assert_eq!(shell.contract().input().problems(&arguments), Vec::<String>::new());
    shell.facets(&arguments, &Settings::default())
}

#[test]
fn a_call_is_what_its_profile_is() {
    let of = |profile: &str| {
        let facets = facets(json!({ "command": "ls", "profile": profile })).unwrap();
        (facets.action.to_string(), facets.safety, facets.egress, facets.access)
    };
    let (read, write) = (WorkspaceAccess::Read, WorkspaceAccess::Write);
    assert_eq!(of("inspect"), ("exec:inspect".into(), SafetyClass::Read, EgressClass::None, read));
    assert_eq!(of("build"), ("exec:build".into(), SafetyClass::Write, EgressClass::None, write));
    assert_eq!(of("mutate"), ("exec:mutate".into(), SafetyClass::Write, EgressClass::None, write));
    assert_eq!(of("networked"), ("exec:networked".into(), SafetyClass::Network, EgressClass::Write, write));
}

#[test]
fn every_program_of_a_pipeline_is_named_and_checked() {
    let piped =
        json!({ "command": "cat", "args": ["x"], "stages": [{ "command": "sort" }, { "command": "wc" }] });
    let listed = |name: &str| Command::named(name);
    assert_eq!(facets(piped).unwrap().commands, ["cat", "sort", "wc"].map(listed));
    let smuggled = json!({ "command": "cat", "stages": [{ "command": "rm", "args": ["x"] }] });
    let commands = facets(smuggled).unwrap().commands;
    let unlisted = commands.iter().map(|command| command.unlisted.as_ref().map(|reason| reason.code));
    assert_eq!(unlisted.collect::<Vec<_>>(), [None, Some(Code::CommandNotAllowed)]);
}

#[test]
fn hosts_in_arguments_are_told() {
    let call = json!({ "command": "curl", "args": ["http://169.254.169.254/"], "profile": "networked" });
    assert_eq!(facets(call).unwrap().hosts, [contract::Target::parse("169.254.169.254:80").unwrap()]);
}

#[test]
fn directory_time_and_variables_are_checked() {
    let code = |arguments: Value| facets(arguments).err().map(|reason| reason.code.to_string());
    assert_eq!(code(json!({ "command": "ls", "cwd": "../x" })).as_deref(), Some("outside"));
    assert_eq!(code(json!({ "command": "../ls", "profile": "build" })).as_deref(), Some("outside"));
    assert_eq!(code(json!({ "command": "a/../../b", "profile": "build" })).as_deref(), Some("outside"));
    assert_eq!(code(json!({ "command": "ls", "cwd": "/etc" })).as_deref(), Some("outside"));
    assert_eq!(code(json!({ "command": "ls", "cwd": ".ssh" })).as_deref(), Some("protected"));
    assert_eq!(code(json!({ "command": "ls", "timeout": 601 })).as_deref(), Some("bad_arguments"));
    for name in ["LD_PRELOAD", "path", "API_KEY", "GIT_SSH_COMMAND"] {
        assert_eq!(
            code(json!({ "command": "ls", "env": { name: "x" } })).as_deref(),
            Some("constrained"),
            "{name}"
        );
    }
    assert_eq!(code(json!({ "command": "ls", "env": { "RUST_LOG": "debug" }, "cwd": "src" })), None);
}
