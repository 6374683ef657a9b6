//! Tools from files, and so many of them that they are told step by step.

use std::fs;

use serde_json::Value;

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
