//! Those who would come in as an operator, and pages that are left open.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use contract::{AgentName, Idempotency, OperatorName, SafetyClass};
use engine::{Clock, Credential, Password};
use serde_json::{Value, json};
use server::Guard;
use store::{Replace, Role, Vote, danger};

use crate::Try;
use crate::case::Effect;
use crate::gate::authenticator::{Authenticator, THERE};
use crate::gate::case::Case;
use crate::gate::doors::{Door, Response, bearer, opened, send_to};
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Ending, Opening, Stand, runtime, standard};

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
            "old-password-in-the-meantime",
            "a password that is replaced while it is compared opens no session",
            |stand| replaced_while_compared(stand, false),
            |stand| replaced_while_compared(stand, true),
        ),
        Case::new(
            "rotated-credential",
            "whoever had a credential that was replaced is not in by what they left behind",
            |stand| left_behind(stand, false),
            |stand| left_behind(stand, true),
        ),
        Case::new(
            "made-up-names",
            "tries under names that are nobody's keep nobody out",
            |stand| {
                let door = with_password(stand)?;
                for _ in 0..5 {
                    door.ask("POST", SIGN_IN, &[], WRONG)?;
                }
                let kept_out = door.ask("POST", SIGN_IN, &[], RIGHT)?.status == 429;
                Ok(Effect::through_if(kept_out, "tries under their own name do"))
            },
            |stand| {
                let door = with_password(stand)?;
                let key = with_passkey(&door)?;
                for number in 0..60 {
                    let made_up = WRONG.replace("\"me\"", &format!("\"nobody-{number}\""));
                    let tried = door.ask("POST", SIGN_IN, &[], &made_up)?;
                    if tried.status != 401 {
                        return Ok(Effect::Through(format!("{number}: {} {}", tried.status, tried.body)));
                    }
                }
                // Nor do answers of an authenticator that are none.
                for _ in 0..8 {
                    let forged = key.sign_in(&challenge(&door)?, "http://evil.example", THERE, 1)?;
                    by_passkey(&door, &forged)?;
                }
                let signed = key.sign_in(&challenge(&door)?, &origin(&door), THERE, 2)?;
                for came in [door.ask("POST", SIGN_IN, &[], RIGHT)?, by_passkey(&door, &signed)?] {
                    if came.status != 200 {
                        return Ok(Effect::Through(format!("{} {}", came.status, came.body)));
                    }
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "pushed-out",
            "sessions, links and challenges of others end nobody's",
            |stand| {
                let door = Door::open(stand)?;
                let first = door.sign_in()?;
                for _ in 0..16 {
                    link_and_session(&door, &door.operator)?;
                }
                let ended = door.ask("GET", "/v1/me", &[&first.0, &first.1], "")?.status == 401;
                Ok(Effect::through_if(ended, "one's own do"))
            },
            |stand| {
                let door = Door::open(stand)?;
                let key = with_passkey(&door)?;
                let guest = Credential::presented("the credential of somebody who only looks");
                let (name, engine) = (OperatorName::parse("guest")?, &door.gate.engine);
                let added = engine.store().add_operator(&name, Role::Viewer, guest.digest(), engine.now());
                runtime()?.block_on(added)?;
                let session = link_and_session(&door, &door.operator)?;
                let signed = key.sign_in(&challenge(&door)?, &origin(&door), THERE, 1)?;
                for _ in 0..70 {
                    link_and_session(&door, guest.reveal())?;
                    new_link(&door, guest.reveal())?;
                    challenge(&door)?;
                }
                let still = [
                    door.ask("GET", "/v1/me", &[&session.0, &session.1], "")?,
                    by_passkey(&door, &signed)?,
                ];
                if let Some(ended) = still.iter().find(|answer| answer.status != 200) {
                    return Ok(Effect::Through(format!("{} {}", ended.status, ended.body)));
                }
                // The link that was there first.
                if door.sign_in().is_err() {
                    return Ok(Effect::Through("the link of somebody else is gone".to_owned()));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "endless-roster",
            "nobody fills the list of who is who, which everybody waits for",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.ask("PUT", "/v1/me/password", &[&bearer(&door.operator)], NEW)?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let guest = Credential::presented("the credential of somebody who only looks");
                let (name, engine) = (OperatorName::parse("guest")?, &door.gate.engine);
                let added = engine.store().add_operator(&name, Role::Viewer, guest.digest(), engine.now());
                runtime()?.block_on(added)?;
                let mut last = None;
                for _ in 0..40 {
                    last = Some(door.ask("PUT", "/v1/me/password", &[&bearer(guest.reveal())], NEW)?);
                }
                door.finish(last.into_iter().collect())
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
            "a page that was left open changes no way in, adds nobody, and says yes to nothing that takes its owner",
            |stand| {
                let door = Door::open(stand)?;
                let (cookie, page) = door.sign_in()?;
                Ok(opened(door.ask("PUT", "/v1/me/password", &[&cookie, &page], NEW)?))
            },
            |stand| {
                static AHEAD: AtomicI64 = AtomicI64::new(0);
                // With and without its guard, it has one clock.
                static TURN: Mutex<()> = Mutex::new(());
                let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
                let clock = Clock::of(|| Clock::system().now() + AHEAD.load(Ordering::SeqCst));
                // What waits is there for longer than the page stays fresh.
                let mut settings = standard();
                settings.asking.deny_after =
                    SafetyClass::ALL.iter().map(|class| (*class, 60 * 60 * 1000)).collect();
                let pay = Payment {
                    safety: SafetyClass::Financial,
                    idempotency: Idempotency::None,
                    ..Payment::into(stand.place.path("book"))
                };
                let opening = Opening { clock, tools: vec![pay.tool()?], ..Opening::with(settings) };
                let door = Door::open_with(opening, stand)?;
                let (paying, asked) = door.gate.waits("pay", json!({ "amount": 1 }))?;
                let (cookie, page) = door.sign_in()?;
                AHEAD.store(6 * 60 * 1000, Ordering::SeqCst);
                let session = [cookie.as_str(), page.as_str()];
                let tried = vec![
                    door.ask("PUT", "/v1/me/password", &session, NEW)?,
                    door.ask("POST", "/v1/me/passkeys/challenge", &session, "{}")?,
                    door.ask("POST", &format!("/v1/agents/{AGENT}/token"), &session, "")?,
                    door.ask("POST", "/v1/operators", &session, r#"{"operator":"sock","role":"admin"}"#)?,
                    door.ask("DELETE", "/v1/operators/me", &session, "")?,
                    door.ask(
                        "POST",
                        &format!("/v1/approvals/{}/decision", asked.id),
                        &session,
                        r#"{"verdict":"approve"}"#,
                    )?,
                    door.ask(
                        "POST",
                        "/v1/answers",
                        &session,
                        &format!(r#"{{"text":"/approve {}"}}"#, asked.id),
                    )?,
                ];
                AHEAD.store(0, Ordering::SeqCst);
                if let Some(taken) = tried.iter().find(|answer| answer.status != 403) {
                    return Ok(Effect::Through(format!("{} {}", taken.status, taken.body)));
                }
                // What takes nobody, the page does: it was not turned away for being old.
                let looked = door.ask("GET", "/v1/approvals", &session, "")?;
                if looked.status != 200 {
                    return Err(format!("the session is over: {}", looked.status).into());
                }
                door.gate.answer(asked.id.as_str(), Vote::Reject)?;
                door.gate.expect(&paying, Ending::Refused("rejected"));
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Presence]),
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

/// Somebody comes in by the old password, many times at once, while its owner gets another.
fn replaced_while_compared(stand: &Stand<'_>, replaced: bool) -> Try<Effect> {
    let door = Door::open(stand)?;
    let (engine, me) = (door.gate.engine.clone(), OperatorName::parse("me")?);
    let set = |password: &str| -> Try<()> {
        let password = Password::choose(password)?;
        Ok(runtime()?.block_on(engine.set_password(&door.gate.operator()?, password))?)
    };
    // What another password is compared with is known beforehand: it is there between two steps of the others.
    set("another password")?;
    let other = runtime()?.block_on(engine.store().password_of(&me))?.ok_or("no password")?;
    let (address, host) = (door.address, door.address.to_string());
    let mut tried = Vec::new();
    for wait in [5, 15, 30, 60] {
        set(PASSWORD)?;
        let came = thread::scope(|scope| -> Try<Vec<Response>> {
            let come = || send_to(address, "POST", SIGN_IN, &host, &[], RIGHT).map_err(|e| e.to_string());
            let tries: Vec<_> = (0..4).map(|_| scope.spawn(come)).collect();
            thread::sleep(Duration::from_millis(wait));
            if replaced {
                runtime()?.block_on(engine.store().set_password(&me, &other, engine.now()))?;
            }
            tries.into_iter().map(|one| Ok(one.join().map_err(|_| "a try has ended")??)).collect()
        })?;
        for answer in came {
            match answer.status {
                200 => {
                    let session = session_of(&answer)?;
                    tried.push(door.ask("GET", "/v1/approvals", &[&session.0, &session.1], "")?);
                }
                _ => tried.push(answer),
            }
        }
        runtime()?.block_on(engine.store().has_signed_in("me"))?;
    }
    door.finish(tried)
}

/// Somebody sets a password and adds a passkey by a credential, which is replaced then.
fn left_behind(stand: &Stand<'_>, rotated: bool) -> Try<Effect> {
    let door = with_password(stand)?;
    let key = with_passkey(&door)?;
    if rotated {
        let engine = &door.gate.engine;
        let (_, credential) = runtime()?.block_on(engine.recover_local_operator())?;
        std::fs::remove_file(Credential::local(&stand.home()))?;
        credential.save(&Credential::local(&stand.home()))?;
    }
    let signed = key.sign_in(&challenge(&door)?, &origin(&door), THERE, 1)?;
    let tried = vec![
        door.ask("POST", SIGN_IN, &[], RIGHT)?,
        by_passkey(&door, &signed)?,
        door.decide(&[&bearer(&door.operator)])?,
    ];
    door.finish(tried)
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

/// A new link of somebody's.
fn new_link(door: &Door<'_>, credential: &str) -> Try<String> {
    let link = door.ask("POST", "/v1/sign-in-links", &[&bearer(credential)], "")?;
    let link: Value = serde_json::from_str(&link.body)?;
    Ok(link.get("sign_in_url").and_then(Value::as_str).ok_or("no link")?.to_owned())
}

/// A new session of somebody's.
fn link_and_session(door: &Door<'_>, credential: &str) -> Try<(String, String)> {
    door.sign_in_with(&new_link(door, credential)?)
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
