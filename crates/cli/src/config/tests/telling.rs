//! Who is told, and who answers: what is said about those that could not be, or should not.

use super::{load, loaded};
use crate::config::Telling;

fn refused(text: &str) -> String {
    match load("toolgate.yaml", text.as_bytes()) {
        Ok(loaded) => panic!("{text} was read as {:?}", loaded.meaning.telling),
        Err(problems) => problems,
    }
}

fn told_by(channel: &str) -> String {
    format!("egress: {{private: [10.1.0.1]}}\napproval: {{notify: [{{name: ops, {channel}}}]}}")
}

#[test]
fn nobody_is_told_and_nobody_answers_unless_it_is_said() {
    assert_eq!(loaded("{}").meaning.telling, Telling::default());
}

#[test]
fn what_leaves_goes_by_tls_or_to_a_host_that_is_listed() {
    let secret = "secret: \"env:S\"";
    for good in ["https://desk.example.com/x", "http://10.1.0.1:8080/x", "https://10.1.0.1/x"] {
        loaded(&told_by(&format!("webhook: {{url: \"{good}\", {secret}}}")));
    }
    for plain in ["http://desk.example.com/x", "http://10.1.0.2/x", "http://127.0.0.1/x"] {
        let why = refused(&told_by(&format!("webhook: {{url: \"{plain}\", {secret}}}")));
        assert!(why.ends_with("without TLS only a host is spoken to that `egress.private` lists"), "{why}");
    }
    // What may be a password is not repeated.
    let why =
        refused(&told_by(&format!("webhook: {{url: \"https://me:hunter2@desk.example.com/\", {secret}}}")));
    assert!(!why.contains("hunter2") && why.contains("without a name or password"), "{why}");
}

#[test]
fn a_mail_has_one_server_plain_addresses_and_a_password_only_with_tls() {
    let mail = |more: &str| {
        told_by(&format!(
            "email: {{server: \"10.1.0.1:25\", from: gate@example.com, to: [ops@example.com], {more}}}"
        ))
    };
    loaded(&mail("tls: never"));
    loaded(&mail("user: gate, password: \"env:MAIL\""));
    for (more, why) in [
        ("tls: never, user: gate, password: \"env:MAIL\"", "no password is said without TLS"),
        ("user: gate", "`user` and `password` go together"),
        ("tls: sometimes", "`tls` is `starttls`, `implicit` or `never`"),
    ] {
        assert!(refused(&mail(more)).contains(why), "{}", refused(&mail(more)));
    }
    let plain = "approval: {notify: [{name: ops, email: {server: \"mail.example.com:25\", tls: never, from: a@b.example, to: [c@d.example]}}]}";
    assert!(refused(plain).contains("without TLS only a host is spoken to"), "{}", refused(plain));
    let injected =
        told_by("email: {server: \"10.1.0.1:25\", from: \"a@b\\r\\nRCPT TO:<x@y>\", to: [c@d.example]}");
    assert!(refused(&injected).contains("this is not an address for mail"), "{}", refused(&injected));
}

#[test]
fn somebody_is_told_in_one_way_under_a_name_of_their_own() {
    for (text, why) in [
        ("approval: {notify: [{slack: \"env:S\"}]}", "`name` is missing"),
        ("approval: {notify: [{name: ops}]}", "somebody is told in one way"),
        ("approval: {notify: [{name: Ops!, slack: \"env:S\"}]}", "a name has small letters"),
        (
            "approval: {notify: [{name: ops, slack: \"env:S\"}, {name: ops, slack: \"env:S\"}]}",
            "there is a `ops` already",
        ),
        (
            "approval: {notify: [{name: ops, slack: \"https://hooks.example.com/secret\"}]}",
            "a secret does not stand here",
        ),
    ] {
        let told = refused(text);
        assert!(told.contains(why) && !told.contains("hooks.example.com"), "{told}");
    }
}

#[test]
fn a_chat_has_a_secret_and_users_who_are_operators() {
    let chat = "approval: {chat: {slack: {signing_secret: \"env:S\", team: T1, users: {U1: alice}}}}";
    let telling = loaded(chat).meaning.telling;
    let slack = telling.slack.unwrap();
    assert_eq!((slack.team.as_str(), slack.users.get("U1").map(|name| name.as_str())), ("T1", Some("alice")));
    for (text, why) in [
        ("approval: {chat: {slack: {signing_secret: \"env:S\", users: {U1: alice}}}}", "`team` is missing"),
        ("approval: {chat: {webhook: {users: {U1: alice}}}}", "`secret` is missing"),
        ("approval: {chat: {webhook: {secret: \"env:S\", users: {U1: \"no body\"}}}}", "no body"),
        ("metrics: {token: \"vault:a/b#c\"}", "comes from `env:NAME` or `file:PATH`"),
        ("telemetry: {traces: true}", "`endpoint` is missing"),
        ("telemetry: {endpoint: \"https://c.example\", header: authorization}", "go together"),
    ] {
        assert!(refused(text).contains(why), "{}", refused(text));
    }
}
