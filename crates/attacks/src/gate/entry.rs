//! Those who would come in as an operator, and pages that are left open.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use contract::{AgentName, OperatorName, SafetyClass};
use engine::{Clock, Password};
use serde_json::Value;
use server::Guard;
use store::{Replace, Role, danger};

use crate::Try;
use crate::case::Effect;
use crate::gate::authenticator::{Authenticator, THERE};
use crate::gate::case::Case;
use crate::gate::doors::{Door, Response, bearer, opened, send_to};
use crate::gate::stand::{AGENT, Opening, Stand, runtime, standard};

const PASSWORD: &str = "correct horse battery";
const SIGN_IN: &str = "/v1/sign-in/password";
const RIGHT: &str = r#"{"operator":"me","password":"correct horse battery"}"#;
const WRONG: &str = r#"{"operator":"me","password":"correct horse batterz"}"#;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "guessed-password",
            "a password is not guessed: not one after the other, not at once, and not over a restart",
            |stand| {
                let door = with_password(stand)?;
                door.ask("POST", SIGN_IN, &[], WRONG)?;
                Ok(opened(door.ask("POST", SIGN_IN, &[], RIGHT)?))
            },
            |stand| {
                let door = with_password(stand)?;
                let address = door.address;
                let host = address.to_string();
                let tried = thread::scope(|scope| -> Try<Vec<Response>> {
                    let tries: Vec<_> = (0..12)
                        .map(|_| {
                            scope.spawn(|| {
                                send_to(address, "POST", SIGN_IN, &host, &[], WRONG)
                                    .map_err(|e| e.to_string())
                            })
                        })
                        .collect();
                    tries.into_iter().map(|one| Ok(one.join().map_err(|_| "a try has ended")??)).collect()
                })?;
                let counted = tried.iter().filter(|answer| answer.status == 401).count();
                if counted > 5 {
                    return Ok(Effect::Through(format!("{counted} guesses were taken")));
                }
                let right = door.ask("POST", SIGN_IN, &[], RIGHT)?;
                let effect = door.finish(tried.into_iter().chain([right]).collect())?;
                // Another gate on the same store, as after a restart.
                let again = stand.open(Opening::with(standard()))?;
                let typed = Password::type_in(PASSWORD)?;
                let came_in = runtime()?.block_on(again.engine.sign_in_by_password("me", typed)).is_ok();
                Ok(if came_in { Effect::Through("a restart forgets".to_owned()) } else { effect })
            },
        ),
        Case::new(
            "forged-password",
            "a row in the table of passwords is nobody's password",
            |stand| {
                let door = with_password(stand)?;
                Ok(opened(door.ask("POST", SIGN_IN, &[], RIGHT)?))
            },
            |stand| {
                let door = with_password(stand)?;
                let name = OperatorName::parse("me")?;
                let told =
                    runtime()?.block_on(door.gate.engine.store().password_of(&name))?.ok_or("no password")?;
                let other = Password::choose("another password")?;
                runtime()?.block_on(door.gate.engine.set_password(&door.gate.operator()?, other))?;
                // What was good before is put back, so that the old password would fit.
                let put = format!("UPDATE operator_passwords SET verifier = '{told}'");
                runtime()?.block_on(danger::meddle(&stand.store_url(), &[put]))?;
                let tried = door.ask("POST", SIGN_IN, &[], RIGHT)?;
                door.finish(vec![tried])
            },
        ),
        Case::new(
            "session-fixation",
            "whoever plants a session in a browser is not in when its owner is",
            |stand| {
                let door = with_password(stand)?;
                let answer = door.ask("POST", SIGN_IN, &[], RIGHT)?;
                let session = session_of(&answer)?;
                Ok(opened(door.ask("GET", "/v1/approvals", &[&session.0, &session.1], "")?))
            },
            |stand| {
                let door = with_password(stand)?;
                let planted = format!("Cookie: toolgate_{}={}", door.address.port(), "0".repeat(64));
                let page = format!("X-Toolgate-Page: {}", "0".repeat(64));
                let answer = door.ask("POST", SIGN_IN, &[&planted, &page], RIGHT)?;
                let first = session_of(&answer)?;
                let second = door.ask("POST", SIGN_IN, &[&first.0, &first.1], RIGHT)?;
                let second = session_of(&second)?;
                let tried = vec![
                    door.decide(&[&planted, &page])?,
                    door.decide(&[&planted, &first.1])?,
                    door.decide(&[&first.0, &first.1])?,
                    door.decide(&[&first.0, &second.1])?,
                ];
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Sessions]),
        Case::new(
            "session-outlives-its-proof",
            "a session ends with the password that opened it, and with its owner's authority",
            |stand| {
                let door = with_password(stand)?;
                let session = session_of(&door.ask("POST", SIGN_IN, &[], RIGHT)?)?;
                Ok(opened(door.ask("GET", "/v1/approvals", &[&session.0, &session.1], "")?))
            },
            |stand| {
                let door = with_password(stand)?;
                let session = session_of(&door.ask("POST", SIGN_IN, &[], RIGHT)?)?;
                let other = Password::choose("another password")?;
                runtime()?.block_on(door.gate.engine.set_password(&door.gate.operator()?, other))?;
                let mut tried = vec![door.decide(&[&session.0, &session.1])?];
                // Somebody else, who is removed while they are in.
                let (engine, now) = (door.gate.engine.clone(), door.gate.engine.now());
                let (name, guest) =
                    (OperatorName::parse("guest")?, engine::Credential::presented(&"7".repeat(64)));
                let store = engine.store();
                runtime()?.block_on(store.add_operator(&name, Role::Approver, guest.digest(), now))?;
                runtime()?.block_on(engine.set_password(&guest, Password::choose(PASSWORD)?))?;
                let as_guest = RIGHT.replace("\"me\"", "\"guest\"");
                let session = session_of(&door.ask("POST", SIGN_IN, &[], &as_guest)?)?;
                runtime()?.block_on(engine.remove_operator(&name, &door.gate.operator()?))?;
                tried.push(door.decide(&[&session.0, &session.1])?);
                tried.push(door.ask("POST", SIGN_IN, &[], &as_guest)?);
                door.finish(tried)
            },
        ),
        Case::new(
            "forged-passkey",
            "a passkey signs in by its own signature, for one challenge, from our page, with its owner there",
            |stand| {
                let door = Door::open(stand)?;
                let key = with_passkey(&door)?;
                let body = key.sign_in(&challenge(&door)?, &origin(&door), THERE, 1)?;
                Ok(opened(by_passkey(&door, &body)?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let key = with_passkey(&door)?;
                let ours = origin(&door);
                let good = key.sign_in(&challenge(&door)?, &ours, THERE, 7)?;
                if by_passkey(&door, &good)?.status != 200 {
                    return Err("the passkey does not sign in".into());
                }
                let elsewhere = key.sign_in(&challenge(&door)?, "http://evil.example", THERE, 8)?;
                let another = Authenticator::new()?.sign_in(&challenge(&door)?, &ours, THERE, 8)?;
                let asleep = key.sign_in(&challenge(&door)?, &ours, 0x01, 8)?;
                let copied = key.sign_in(&challenge(&door)?, &ours, THERE, 7)?;
                let made_up = key.sign_in(&"A".repeat(43), &ours, THERE, 8)?;
                let bodies = [good, elsewhere, another, made_up, asleep, copied];
                let tried = bodies.iter().map(|body| by_passkey(&door, body)).collect::<Try<Vec<_>>>()?;
                door.finish(tried)
            },
        ),
        Case::new(
            "left-open",
            "a page that was left open changes none of its owner's ways in, and no agent's token",
            |stand| {
                let door = Door::open(stand)?;
                let (cookie, page) = door.sign_in()?;
                Ok(opened(door.ask("PUT", "/v1/me/password", &[&cookie, &page], NEW)?))
            },
            |stand| {
                static AHEAD: AtomicI64 = AtomicI64::new(0);
                let clock = Clock::of(|| Clock::system().now() + AHEAD.load(Ordering::SeqCst));
                // What waits is there for longer than the page stays fresh.
                let mut settings = standard();
                settings.asking.deny_after =
                    SafetyClass::ALL.iter().map(|class| (*class, 60 * 60 * 1000)).collect();
                let door = Door::open_with(Opening { clock, ..Opening::with(settings) }, stand)?;
                let (cookie, page) = door.sign_in()?;
                AHEAD.store(6 * 60 * 1000, Ordering::SeqCst);
                let session = [cookie.as_str(), page.as_str()];
                let tried = vec![
                    door.ask("PUT", "/v1/me/password", &session, NEW)?,
                    door.ask("POST", "/v1/me/passkeys/challenge", &session, "{}")?,
                    door.ask("POST", &format!("/v1/agents/{AGENT}/token"), &session, "")?,
                ];
                AHEAD.store(0, Ordering::SeqCst);
                door.finish(tried)
            },
        ),
        Case::new(
            "key-of-another-gate",
            "every gate makes keys of its own, and what opens one opens no other",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.ask("GET", "/v1/approvals", &[&bearer(&door.operator)], "")?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let elsewhere = Stand::new(stand.bench)?;
                let other = elsewhere.gate(standard())?;
                let token = runtime()?.block_on(other.engine.issue_token(&agent()?, Replace::Yes))?;
                let (ours, theirs) = (stand.store()?, elsewhere.store()?);
                if ours.keys().public() == theirs.keys().public() {
                    return Ok(Effect::Through("two gates sign with one key".to_owned()));
                }
                let mut tried = Vec::new();
                let operator = other.operator()?;
                let known = ["toolgate", "changeme", "default", "secret", "admin", "me", "operator.key"];
                for credential in [operator.reveal(), token.reveal()].into_iter().chain(known) {
                    tried.push(door.decide(&[&bearer(credential)])?);
                    tried.push(door.ask("GET", "/v1/calls", &[&bearer(credential)], "")?);
                    tried.push(door.ask("POST", "/mcp", &[&bearer(credential)], "{}")?);
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "revoked-token",
            "a token that was revoked or replaced is nobody's, at once",
            |stand| {
                let door = Door::open(stand)?;
                let token = runtime()?.block_on(door.gate.engine.issue_token(&agent()?, Replace::Yes))?;
                Ok(opened(door.ask("GET", "/v1/calls", &[&bearer(token.reveal())], "")?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let engine = &door.gate.engine;
                let first = runtime()?.block_on(engine.issue_token(&agent()?, Replace::Yes))?;
                let second = runtime()?.block_on(engine.issue_token(&agent()?, Replace::Yes))?;
                let mut tried = vec![door.ask("GET", "/v1/calls", &[&bearer(first.reveal())], "")?];
                // Revoked by another process, which shares the store with the gate.
                let store = stand.store()?;
                runtime()?.block_on(store.revoke_token(&agent()?, store::By::Owner, engine.now()))?;
                tried.push(door.ask("GET", "/v1/calls", &[&bearer(second.reveal())], "")?);
                tried.push(door.ask(
                    "POST",
                    "/v1/calls",
                    &[&bearer(first.reveal())],
                    r#"{"tool":"fs.list"}"#,
                )?);
                door.finish(tried)
            },
        ),
    ]
}

const NEW: &str = r#"{"password":"a password of the attacker"}"#;

fn agent() -> Try<AgentName> {
    Ok(AgentName::parse(AGENT)?)
}

/// A door whose operator has a password.
fn with_password<'a>(stand: &'a Stand<'a>) -> Try<Door<'a>> {
    let door = Door::open(stand)?;
    let password = Password::choose(PASSWORD)?;
    runtime()?.block_on(door.gate.engine.set_password(&door.gate.operator()?, password))?;
    Ok(door)
}

/// Adds a passkey of the operator's.
fn with_passkey(door: &Door<'_>) -> Try<Authenticator> {
    let key = Authenticator::new()?;
    let operator = bearer(door.gate.operator()?.reveal());
    let host = format!("localhost:{}", door.address.port());
    let asked = door.send("POST", "/v1/me/passkeys/challenge", &host, &[&operator], "{}")?;
    let asked: Value = serde_json::from_str(&asked.body)?;
    let challenge = asked.get("challenge").and_then(Value::as_str).ok_or("no challenge")?;
    let body = key.register(challenge, &origin(door))?.to_string();
    let added = door.send("POST", "/v1/me/passkeys", &host, &[&operator], &body)?;
    if added.status == 201 { Ok(key) } else { Err(format!("{} {}", added.status, added.body).into()) }
}

fn origin(door: &Door<'_>) -> String {
    format!("http://localhost:{}", door.address.port())
}

fn challenge(door: &Door<'_>) -> Try<String> {
    let host = format!("localhost:{}", door.address.port());
    let asked = door.send("POST", "/v1/sign-in/passkey/challenge", &host, &[], "{}")?;
    let asked: Value = serde_json::from_str(&asked.body)?;
    Ok(asked.get("challenge").and_then(Value::as_str).ok_or("no challenge")?.to_owned())
}

fn by_passkey(door: &Door<'_>, body: &Value) -> Try<Response> {
    let host = format!("localhost:{}", door.address.port());
    door.send("POST", "/v1/sign-in/passkey", &host, &[], &body.to_string())
}

/// The headers that a page of ours sends after this answer.
fn session_of(answer: &Response) -> Try<(String, String)> {
    let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    let cookie = lines.find(|(key, _)| key.eq_ignore_ascii_case("set-cookie")).map(|(_, value)| value);
    let cookie = cookie.and_then(|cookie| cookie.split(';').next()).ok_or("no session")?;
    let body: Value = serde_json::from_str(&answer.body)?;
    let page = body.get("page").and_then(Value::as_str).ok_or("no page")?;
    Ok((format!("Cookie: {cookie}"), format!("X-Toolgate-Page: {page}")))
}
