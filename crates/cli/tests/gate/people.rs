//! The people who decide, and how far a yes of theirs reaches.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::place::{CLEAN, Place, text};
use crate::toolgate::until;

const PRIVILEGED_RULE: &str = "approval:\n  rules:\n    - { tool: shell, action: prompt, quorum: 2 }\n";

/// Adds an operator, with the credential in a file.
fn add(place: &Place, name: &str, role: &str) -> String {
    let file = place.home().with_file_name(format!("{name}.key"));
    let file = file.to_str().expect("a plain path").to_owned();
    let added = place.toolgate(&["operators", "add", name, "--role", role, "--out", &file]);
    assert_eq!(added.code, Some(0), "{added:?}");
    file
}

#[test]
fn people_decide_and_look_wherever_they_stand_and_agents_work_in_projects() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    let in_root = |arguments: &[&str]| {
        crate::toolgate::finish(crate::toolgate::start(place.command(arguments).current_dir("/")))
    };
    for arguments in
        [&["approvals"][..], &["calls"], &["ledger", "verify"], &["operators", "list"], &["agents", "list"]]
    {
        let ran = in_root(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    }
    // Where they stand aside no agent works, so what guards agents may be there.
    let hook = "hooks:\n  - { name: no, command: /usr/bin/false, tools: [notify.email] }\n";
    fs::write(place.home().join("toolgate.yaml"), hook).expect("a configuration can be written");
    let ran = in_root(&["approvals"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    fs::remove_file(place.home().join("toolgate.yaml")).expect("it is there");
    let approved = in_root(&["approve", &id]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let called = in_root(&["call", "fs.list", "{}"]);
    assert!(called.code == Some(2) && called.stderr.contains("the workspace is `/`"), "{called:?}");
    assert_eq!(place.call("shell", CLEAN).0, Some(0), "it runs where it was asked for");
}

#[test]
fn a_credential_is_shown_once_and_kept_nowhere() {
    let Some(place) = Place::new() else { return };
    let added = place.toolgate(&["operators", "add", "alice", "--role", "approver"]);
    let credential = added.stdout.trim().to_owned();
    assert_eq!((added.code, credential.len()), (Some(0), 64), "{added:?}");
    let database = fs::read(place.home().join("toolgate.db")).expect("there is a store");
    let wal = fs::read(place.home().join("toolgate.db-wal")).unwrap_or_default();
    let holds = |bytes: &[u8]| bytes.windows(credential.len()).any(|window| window == credential.as_bytes());
    assert!(!holds(&database) && !holds(&wal));
    let file = add(&place, "bob", "viewer");
    assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o600);

    let listed = place.toolgate(&["operators", "list"]);
    let names: Vec<&str> = listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["alice", "bob", "me"]);
    assert!(!listed.stdout.contains(&credential));

    // Only an admin changes who decides.
    let refused = place.toolgate(&["operators", "add", "eve", "--role", "admin", "--key-file", &file]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("`bob` is not an admin"), "{refused:?}");
    let again = place.toolgate(&["operators", "add", "alice", "--role", "admin"]);
    assert_eq!(again.code, Some(3), "{again:?}");
    let last = place.toolgate(&["operators", "remove", "me"]);
    assert!(last.code == Some(3) && last.stderr.contains("last admin"), "{last:?}");
}

#[test]
fn two_people_approve_what_takes_two_and_the_receipt_names_both() {
    let Some(place) = Place::new() else { return };
    fs::write(place.home().join("toolgate.yaml"), PRIVILEGED_RULE).expect("a configuration can be written");
    let file = add(&place, "alice", "approver");
    let viewer = add(&place, "guest", "viewer");
    let (code, waiting) = place.call("shell", CLEAN);
    assert_eq!(code, Some(4), "{waiting}");
    let id = text(&waiting, "/approval/id");

    let first = place.toolgate(&["approve", &id]);
    assert!(first.stderr.contains("approved by 1 of 2"), "{first:?}");
    let listed = place.toolgate(&["approvals"]);
    assert!(listed.stdout.contains("people   1 of 2: me"), "{listed:?}");
    assert!(listed.stdout.contains("toolgate.yaml:3: `shell` asks 2 people"), "{listed:?}");
    assert_eq!(place.call("shell", CLEAN).0, Some(4), "one is not enough");

    assert_eq!(place.toolgate(&["approve", &id]).code, Some(3), "nor is one twice");
    let looks = place.toolgate(&["approve", &id, "--key-file", &viewer]);
    assert!(looks.code == Some(3) && looks.stderr.contains("`guest` is not an operator who may answer"));
    let not_me = place.toolgate(&["approve", &id, "--as", "alice"]);
    assert!(not_me.stderr.contains("the credential is `me`'s, not `alice`'s"), "{not_me:?}");

    let key = fs::read_to_string(&file).expect("it can be read");
    let mut command = place.command(&["approve", &id, "--as", "alice"]);
    let second = crate::toolgate::finish(crate::toolgate::start(command.env("TOOLGATE_OPERATOR_KEY", key)));
    assert_eq!(second.code, Some(0), "{second:?}");
    let (code, done) = place.call("shell", CLEAN);
    assert_eq!(code, Some(0), "{done}");
    let shown = place.toolgate(&["receipt", "show", &text(&done, "/receipt")]);
    assert!(shown.stdout.contains("by me via cli") && shown.stdout.contains("by alice via cli"), "{shown:?}");
}

#[test]
fn a_lost_credential_is_said_aloud_and_can_be_recovered() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    let key = place.home().join("operator.key");
    fs::remove_file(&key).expect("it can be removed");
    for command in [&["approve", id.as_str()][..], &["up", "--listen", "127.0.0.1:0"]] {
        let refused = place.toolgate(command);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.stderr.contains("is gone, and with it the operator `me`"), "{refused:?}");
        assert!(refused.stderr.contains("hint: put the old one back, or let `toolgate operators recover`"));
    }
    assert!(!key.exists(), "no new one is made in silence");
    let recovered = place.toolgate(&["operators", "recover"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert_eq!(fs::metadata(&key).expect("there is one").mode() & 0o777, 0o600);
    assert_eq!(place.toolgate(&["approve", &id]).code, Some(0));
    let told = place.toolgate(&["ledger", "show"]);
    assert!(told.stdout.contains("operator.rotated"), "{told:?}");
    assert_eq!(place.toolgate(&["operators", "recover"]).code, Some(2), "nothing is lost");
}

#[test]
fn whoever_was_removed_decides_nothing_and_a_new_credential_ends_the_old() {
    let Some(place) = Place::new() else { return };
    let (first, second) = (add(&place, "alice", "approver"), place.home().with_file_name("alice2.key"));
    let second = second.to_str().expect("a plain path");
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    let rotated = place.toolgate(&["operators", "rotate", "alice", "--key-file", &first, "--out", second]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert_eq!(place.toolgate(&["approve", &id, "--key-file", &first]).code, Some(3));
    assert_eq!(place.toolgate(&["operators", "revoke", "alice"]).code, Some(0));
    let refused = place.toolgate(&["approve", &id, "--key-file", second]);
    assert!(refused.code == Some(3) && refused.stderr.contains("nobody's"), "{refused:?}");
    let all = place.toolgate(&["operators", "list", "--all"]);
    assert!(all.stdout.contains("alice") && all.stdout.contains("removed"), "{all:?}");
}

#[test]
fn a_yes_for_the_agent_covers_the_same_call_until_it_is_revoked() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    let too_long = place.toolgate(&["approve", &id, "--scope", "agent", "--until", "9h"]);
    assert!(
        too_long.code == Some(2) && too_long.stderr.contains("more than 480 minutes away"),
        "{too_long:?}"
    );
    let approved = place.toolgate(&["approve", &id, "--scope", "agent", "--until", "1h"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.stderr.contains("toolgate revoke"), "{approved:?}");
    assert_eq!(place.call("shell", CLEAN).0, Some(0));

    fs::create_dir(place.work().join("build")).expect("a folder can be made");
    let (code, again) = place.call("shell", CLEAN);
    assert_eq!(code, Some(0), "{again}");
    let shown = place.toolgate(&["receipt", "show", &text(&again, "/receipt")]);
    assert!(shown.stdout.contains("for its agent, by approval"), "{shown:?}");
    fs::create_dir(place.work().join("build")).expect("a folder can be made");
    let explained = place.toolgate(&["explain", "shell", CLEAN]);
    assert!(explained.stdout.contains("covers it, for its agent"), "{explained:?}");
    let other = r#"{"command":"rm","args":["-r","README.md"],"profile":"mutate","purpose":"clean"}"#;
    assert_eq!(place.call("shell", other).0, Some(4), "other arguments are another call");

    let standing = place.toolgate(&["approvals", "--standing"]);
    assert!(standing.stdout.contains("this very call again, by agent `default`"), "{standing:?}");
    assert!(standing.stdout.contains("used     1 times"), "{standing:?}");
    assert_eq!(place.toolgate(&["revoke", &id[..8], "--reason", "enough"]).code, Some(0));
    assert_eq!(place.toolgate(&["revoke", &id[..8]]).code, Some(3), "once");
    assert_eq!(place.call("shell", CLEAN).0, Some(4));
    let told = place.toolgate(&["ledger", "show"]);
    for kind in ["approval.used", "approval.revoked"] {
        assert!(told.stdout.contains(kind), "{kind}: {told:?}");
    }
}

#[test]
fn questions_that_are_the_same_are_one_and_are_answered_by_all_their_ids() {
    let Some(place) = Place::new() else { return };
    let ask = |task: &str| place.json(&["call", "shell", CLEAN, "--wait", "0", "--task", task]).1;
    let ids: Vec<String> = ["one", "two", "three"].map(|task| text(&ask(task), "/approval/id")).into();
    let listed = place.toolgate(&["approvals"]);
    assert!(listed.stdout.contains("asked 3 times"), "{listed:?}");
    let short: Vec<&str> = ids.iter().map(|id| &id[..8]).collect();
    assert!(listed.stdout.contains(&format!("toolgate approve {}", short.join(" "))), "{listed:?}");
    let denied = place.toolgate(&["deny", short[0], short[1], "--reason", "no"]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let (_, left) = place.json(&["approvals"]);
    assert_eq!((left.as_array().map(Vec::len), text(&left, "/0/id")), (Some(1), ids[2].clone()));
}

#[test]
fn chat_text_answers() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    assert_eq!(place.toolgate(&["answer", "looks good to me"]).code, Some(2));
    assert_eq!(place.toolgate(&["answer", &format!("/deny {id} not today")]).code, Some(0));
    let shown = place.toolgate(&["receipt", "show", &text(&waiting, "/call_id")]);
    assert!(shown.stdout.contains("`me` said no: not today"), "{shown:?}");
}

#[test]
fn a_question_goes_on_to_others_and_the_proposer_does_not_answer() {
    let Some(place) = Place::new() else { return };
    let config = "agents:\n  default: { operator: me }\napproval:\n  escalation:\n    - { after_seconds: 1, to: [boss] }\n";
    fs::write(place.home().join("toolgate.yaml"), config).expect("a configuration can be written");
    let (code, refused) = place.call("shell", CLEAN);
    assert_eq!((code, text(&refused, "/reason/code").as_str()), (Some(3), "no_operator"), "{refused}");
    let file = add(&place, "boss", "approver");
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    let own = place.toolgate(&["approve", &id]);
    assert!(own.code == Some(3) && own.stderr.contains("`me` proposed the call"), "{own:?}");
    until("others are asked", || {
        let listed = place.toolgate(&["approvals"]);
        assert!(listed.stdout.contains("not by   me, who proposed it"), "{listed:?}");
        listed.stdout.contains("now with boss").then_some(())
    });
    assert_eq!(place.toolgate(&["approve", &id, "--key-file", &file]).code, Some(0));
    let told = place.toolgate(&["ledger", "show"]);
    assert!(told.stdout.contains("approval.escalated"), "{told:?}");
}

#[test]
fn a_credential_that_others_can_read_is_not_used() {
    let Some(place) = Place::new() else { return };
    let file = add(&place, "alice", "approver");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode can be set");
    let refused = place.toolgate(&["approve", "00000000", "--key-file", &file]);
    assert!(refused.stderr.contains("can be read by others"), "{refused:?}");
}
