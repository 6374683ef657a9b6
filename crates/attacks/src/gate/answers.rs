//! Answers from elsewhere, and what is told elsewhere: forged, old, repeated, by the wrong people, to the wrong places.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use contract::{Digest, Idempotency, OperatorName, Private, SafetyClass, ToolName};
use egress::{Egress, EgressSettings, OwnUrl, Patience, Post, PostTo};
use engine::{AnswerRefused, Clock};
use hmac::{Hmac, KeyInit as _, Mac as _};
use policy::{Agent, ApprovalRule, RuleEffect, Settings, ToolGlob};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use server::{ChatKey, ChatWay, Elsewhere, Guard, Pending};
use sha2::Sha256;
use store::{AnswerError, Role, Vote};

use crate::Try;
use crate::case::Effect;
use crate::gate::approvals::paid;
use crate::gate::case::Case;
use crate::gate::doors::{Door, Response, connect, opened, remove};
use crate::gate::payment::Payment;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, settings_of, standard};
use crate::launch::command_of;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "replayed-webhook",
            "a signed message is taken once, also by another gate of the same store",
            |stand| {
                // Written anew, the same words are another message.
                let door = chatting(stand)?;
                let text = message("alice", "/approve ffffffffffff");
                let first = post(&door, now(&door), &text)?;
                let second = post(&door, now(&door) + 1, &text)?;
                Ok(Effect::through_if(first.status == second.status, "both were read"))
            },
            |stand| {
                let door = chatting(stand)?;
                let text = message("alice", "/approve ffffffffffff");
                let time = now(&door);
                let first = post(&door, time, &text)?;
                let other = chatting(stand)?;
                let tried = vec![post(&door, time, &text)?, post(&other, time, &text)?];
                if first.status != 404 || tried.iter().any(|answer| answer.status != 409) {
                    return Ok(Effect::Through(format!("{} {:?}", first.status, statuses(&tried))));
                }
                refused_with(&door, "replayed", 2)?;
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Replays]),
        Case::new(
            "slow-chat",
            "messages that never end keep no answer of a chat out",
            |_| {
                // A server that has so many places, and takes one before it has read anything.
                let listener = listen()?;
                let _slow = connect(listener.local_addr()?)?;
                let _taken = listener.accept()?;
                let mut late = connect(listener.local_addr()?)?;
                late.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")?;
                late.set_read_timeout(Some(Duration::from_millis(200)))?;
                Ok(Effect::through_if(late.read(&mut [0; 1]).is_err(), "the second is never read"))
            },
            |stand| {
                let door = chatting(stand)?;
                let mut slow = Vec::new();
                for _ in 0..24 {
                    let mut stream = connect(door.address)?;
                    write!(
                        stream,
                        "POST /v1/chat/webhook HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\r\n{{",
                        door.address
                    )?;
                    slow.push(stream);
                }
                std::thread::sleep(Duration::from_millis(300));
                let answer = post(&door, now(&door), &message("alice", "/approve ffffffffffff"))?;
                // A flood of what nobody has signed hides nothing that somebody has.
                for number in 0..40 {
                    send(&door, now(&door), &"0".repeat(64), &message("alice", &number.to_string()))?;
                }
                post(&door, now(&door), &message("mallory", "/approve ffffffffffff"))?;
                drop(slow);
                refused_with(&door, "unmapped_user", 1)?;
                if answer.status != 404 {
                    return Ok(Effect::Through(format!("{} {}", answer.status, answer.body)));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "webhook-body-changed",
            "a signature is good for its own bytes, its own secret and its own way",
            approve_by_chat,
            |stand| {
                let door = chatting(stand)?;
                let time = now(&door);
                let no = message("alice", &format!("/deny {} no", door.approval));
                let yes = message("alice", &format!("/approve {}", door.approval));
                let tried = vec![
                    send(&door, time, &signed(SECRET, "v1", time, &no), &yes)?,
                    send(&door, time, &signed("another secret", "v1", time, &yes), &yes)?,
                    send(&door, time, &signed("", "v1", time, &yes), &yes)?,
                    send(&door, time, &signed(SECRET, "v0", time, &yes), &yes)?,
                    send(&door, time + 1, &signed(SECRET, "v1", time, &yes), &yes)?,
                    send(&door, time, "v1=", &yes)?,
                    send(&door, time, "", &yes)?,
                    door.ask("POST", WEBHOOK, &[], &yes)?,
                ];
                refused_with(&door, "bad_signature", tried.len())?;
                door.finish(tried)
            },
        ),
        Case::new(
            "old-webhook",
            "a signed message that was kept for later is too old",
            approve_by_chat,
            |stand| {
                let door = chatting(stand)?;
                let yes = message("alice", &format!("/approve {}", door.approval));
                let time = now(&door);
                let tried = vec![
                    post(&door, time - 400, &yes)?,
                    post(&door, time + 400, &yes)?,
                    post(&door, 0, &yes)?,
                ];
                if tried.iter().any(|answer| answer.status == 200) {
                    return Ok(Effect::Through(format!("{:?}", statuses(&tried))));
                }
                refused_with(&door, "too_old", tried.len())?;
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Ages]),
        Case::new(
            "unmapped-chat-user",
            "somebody of the chat who is no operator decides nothing and learns nothing",
            approve_by_chat,
            |stand| {
                let door = chatting(stand)?;
                let mut tried = Vec::new();
                for (later, user) in (0..).zip(["mallory", "", "Alice", "alice ", "me", "alice\u{0}"]) {
                    let yes = message(user, &format!("/approve {}", door.approval));
                    tried.push(post(&door, now(&door) + later, &yes)?);
                }
                let there = tried.first().map(|answer| answer.body.clone());
                let not_there = post(&door, now(&door), &message("mallory", "/approve ffffffffffff"))?;
                if there != Some(not_there.body) {
                    return Ok(Effect::Through("they can tell what waits".to_owned()));
                }
                refused_with(&door, "unmapped_user", 6)?;
                door.finish(tried)
            },
        ),
        Case::new(
            "chat-of-the-proposer",
            "the operator for whom an agent works does not approve its calls by a chat either",
            |stand| approve_for(stand, "second"),
            |stand| approve_for(stand, "me"),
        ),
        Case::new(
            "chat-approves-privileged",
            "a chat alone is not enough for a yes to what spends money or can change what guards",
            |stand| pay_by_chat(stand, SafetyClass::Network),
            |stand| pay_by_chat(stand, SafetyClass::Financial),
        ),
        Case::new(
            "guessed-approval",
            "no question is met by guessing, and none by a few digits of its id",
            approve_by_chat,
            |stand| {
                let door = chatting(stand)?;
                let few = door.approval.get(..7).unwrap_or_default().to_owned();
                let mut tried = vec![post(&door, now(&door), &message("alice", &format!("/approve {few}")))?];
                for guess in 0..200_i64 {
                    let id = Digest::of(&guess.to_le_bytes()).to_string();
                    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
                    tried.push(post(&door, now(&door), &message("alice", &format!("/approve {digits}")))?);
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "label-explosion",
            "tools that an agent makes up are no series of their own",
            |stand| {
                let gate = stand.gate(standard())?;
                let names = make_up(&gate)?;
                Ok(Effect::through_if(names >= MADE_UP, format!("{names} names are in the ledger")))
            },
            |stand| {
                let gate = stand.gate(standard())?;
                runtime()?.block_on(gate.engine.begin_counting())?;
                make_up(&gate)?;
                let numbers = runtime()?.block_on(gate.engine.numbers())?;
                let calls = numbers.families.iter().find(|family| family.name == "toolgate_calls_total");
                let samples = calls.map(|calls| calls.samples.clone()).unwrap_or_default();
                let counted: f64 = samples.iter().map(|(_, count)| count).sum();
                if counted < MADE_UP as f64 {
                    return Err(format!("only {counted} were counted").into());
                }
                Ok(Effect::through_if(samples.len() > 3, format!("{} series", samples.len())))
            },
        ),
        Case::new(
            "notice-to-private",
            "what the gate itself sends goes to no special address that is not listed",
            |_| told(&["127.0.0.1"], "http"),
            |_| {
                for scheme in ["https", "http"] {
                    if let through @ Effect::Through(_) = told(&[], scheme)? {
                        return Ok(through);
                    }
                }
                // A name that is listed as private does not open another, and a range not what lies beside it.
                told(&["10.0.0.0/8", "elsewhere.internal"], "https")
            },
        )
        .before_any_call(),
        Case::new(
            "escapes-in-watch",
            "nothing that an agent writes is an escape to the terminal of whoever watches",
            |stand| {
                // What the lines are made of, written as it is.
                let gate = stand.gate(standard())?;
                let (call, _) = gate.waits("shell", hostile())?;
                let row = runtime()?.block_on(gate.engine.store().call(&call))?.ok_or("no call")?;
                let arguments: Value = serde_json::from_str(&row.arguments_json)?;
                Ok(Effect::through_if(
                    arguments.to_string().contains("u001b]0;owned"),
                    "it is in the arguments",
                ))
            },
            watch,
        )
        .on_what_is_shipped(),
    ]
}

const SECRET: &str = "what the chat signs with";
const WEBHOOK: &str = "/v1/chat/webhook";
const MADE_UP: usize = 40;

/// A chat in which `alice` is the local operator.
struct Chat;

impl Elsewhere for Chat {
    fn key(&self, way: ChatWay) -> Pending<'_, Option<ChatKey>> {
        Box::pin(async move { (way == ChatWay::Webhook).then(|| SECRET.as_bytes().to_vec().into()) })
    }

    fn operator_of(&self, _: ChatWay, _: &str, user: &str) -> Option<OperatorName> {
        (user == "alice").then(|| OperatorName::parse("me").ok()).flatten()
    }

    fn may_count(&self, _: Digest) -> bool {
        false
    }
}

fn chatting<'a>(stand: &'a Stand<'a>) -> Try<Door<'a>> {
    Door::open_to(Opening::with(standard()), stand, Arc::new(Chat))
}

fn now(door: &Door<'_>) -> i64 {
    door.gate.engine.now() / 1000
}

fn message(user: &str, text: &str) -> String {
    json!({ "user": user, "text": text }).to_string()
}

fn signed(secret: &str, version: &str, time: i64, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{version}:{time}:{body}").as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{version}={digits}")
}

fn post(door: &Door<'_>, time: i64, body: &str) -> Try<Response> {
    send(door, time, &signed(SECRET, "v1", time, body), body)
}

fn send(door: &Door<'_>, time: i64, mac: &str, body: &str) -> Try<Response> {
    let headers = [format!("X-Toolgate-Timestamp: {time}"), format!("X-Toolgate-Signature: {mac}")];
    door.ask("POST", WEBHOOK, &headers.each_ref().map(String::as_str), body)
}

fn statuses(answers: &[Response]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

/// The control of most: the message that it is about, as it should be.
fn approve_by_chat(stand: &Stand<'_>) -> Try<Effect> {
    let door = chatting(stand)?;
    let yes = message("alice", &format!("/approve {}", door.approval));
    Ok(opened(post(&door, now(&door), &yes)?))
}

/// The ledger holds that so many messages were refused for this.
fn refused_with(door: &Door<'_>, why: &str, least: usize) -> Try<()> {
    let entries = runtime()?.block_on(door.gate.engine.store().latest_event(-1))?;
    let is_it = |body: &Value| body.get("why").and_then(Value::as_str) == Some(why);
    let told = entries.iter().filter(|entry| entry.kind == "chat.refused" && is_it(&entry.body)).count();
    if told < least { Err(format!("the ledger tells of {told} `{why}`, not {least}").into()) } else { Ok(()) }
}

/// `me` approves by a chat what an agent asks for that works for somebody.
fn approve_for(stand: &Stand<'_>, works_for: &str) -> Try<Effect> {
    stand.put("precious", "x")?;
    let first = stand.gate(standard())?;
    let second = OperatorName::parse("second")?;
    runtime()?.block_on(first.engine.add_operator(&second, Role::Approver, &first.operator()?))?;
    let operator = Some(OperatorName::parse(works_for)?);
    let gate = stand.gate(settings_of(Agent { operator, ..Agent::default() }))?;
    let (_, view) = gate.waits("shell", remove())?;
    let me = OperatorName::parse("me")?;
    let answering = gate.engine.answer_by_chat(&view.id, Vote::Approve, None, &me, "webhook:alice");
    match runtime()?.block_on(answering) {
        Ok(_) => {
            gate.call("shell", remove(), Ending::Done)?;
        }
        Err(AnswerRefused::Answer(AnswerError::Proposer { .. })) => {
            runtime()?.block_on(gate.engine.store().cancel(&view.id, gate.engine.now()))?;
            gate.call("fs.read", json!({ "path": "nowhere" }), Ending::Settled)?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Effect::through_if(!stand.workspace.join("precious").exists(), "what was asked about"))
}

fn pay_by_chat(stand: &Stand<'_>, safety: SafetyClass) -> Try<Effect> {
    // It is asked about whatever it is.
    let prompts = ApprovalRule::about(ToolGlob::parse("pay")?, RuleEffect::Prompt, "x:1");
    let tool = Payment { safety, idempotency: Idempotency::None, ..Payment::into(stand.place.path("book")) }
        .tool()?;
    let settings = Settings { rules: vec![prompts], ..standard() };
    let gate = stand.open(Opening { tools: vec![tool], ..Opening::with(settings) })?;
    let (call, view) = gate.waits("pay", json!({ "amount": 1 }))?;
    let me = OperatorName::parse("me")?;
    let answer = |vote| gate.engine.answer_by_chat(&view.id, vote, None, &me, "webhook:alice");
    match runtime()?.block_on(answer(Vote::Approve)) {
        Ok(_) => {
            gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
        }
        Err(AnswerRefused::NeedsPresence) => {
            gate.waits("pay", json!({ "amount": 1 }))?;
            // A no needs nobody's presence.
            runtime()?.block_on(answer(Vote::Reject))?;
            gate.expect(&call, Ending::Refused("rejected"));
        }
        Err(error) => return Err(error.into()),
    }
    paid(stand, 1)
}

/// Calls tools that there are not, each of another name. How many names the ledger has then.
fn make_up(gate: &Gate<'_>) -> Try<usize> {
    for number in 0..MADE_UP {
        gate.call(&format!("made_up.{number}"), json!({}), Ending::Settled)?;
    }
    let calls = runtime()?.block_on(gate.engine.store().calls(200, None))?;
    let names: std::collections::BTreeSet<&ToolName> = calls.iter().map(|call| &call.tool).collect();
    Ok(names.len())
}

/// Has the gate tell somebody at a loopback address, where these are listed. What is believed is what arrives there.
fn told(listed: &[&str], scheme: &str) -> Try<Effect> {
    let listener = listen()?;
    let address = listener.local_addr()?;
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || {
        if let Ok((mut stream, _)) = listener.accept() {
            let _ = say.send(());
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    let mut private = Private::none();
    for entry in listed {
        private.add(entry)?;
    }
    let url = match OwnUrl::parse(&format!("{scheme}://{address}/hook"), &private) {
        Ok(url) => url,
        Err(error) => return Ok(Effect::Held(error.to_string())),
    };
    let settings = EgressSettings {
        nameservers: Vec::new(),
        extra_roots: String::new(),
        credentials: Vec::new(),
        sign_ins: Vec::new(),
        vault: None,
        known_hosts: Vec::new(),
        patience: Patience::default(),
        clock: Clock::system().as_function(),
    };
    let sent = runtime()?.block_on(async {
        let egress = Egress::new(settings)?;
        let post =
            Post { content_type: "text/plain", body: b"x".to_vec(), signed: None, secret_header: None };
        Ok::<_, egress::EgressError>(egress.post(PostTo::Url(&url), post, &private).await)
    })?;
    let arrived = hear.recv_timeout(Duration::from_millis(500)).is_ok();
    Ok(Effect::through_if(arrived, format!("something came to {address}: {sent:?}")))
}

#[expect(clippy::disallowed_methods, reason = "whoever is told, or is not")]
fn listen() -> Try<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?)
}

fn hostile() -> Value {
    let escapes = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[1;1Happroved\u{9b}31m\r\u{202e}";
    json!({ "command": "rm", "args": [escapes, "precious"], "profile": "mutate", "purpose": escapes })
}

/// Watches, at a terminal of our own, and looks at every byte that comes to it.
fn watch(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let (call, view) = gate.waits("shell", hostile())?;
    let shipped = stand.bench.settings.shipped.as_ref().ok_or("`toolgate` is not built")?;
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?;
    let inside = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    let arguments = ["approvals", "--watch"].map(std::ffi::OsString::from);
    let mut command = command_of(shipped, &arguments);
    command.env_clear().env("PATH", jail::DEFAULT_PATH).env("TOOLGATE_HOME", stand.home());
    command.current_dir(&stand.workspace).stdin(inside.try_clone()?).stdout(inside).stderr(Stdio::null());
    let mut child = command.spawn()?;
    drop(command);
    let mut terminal = std::fs::File::from(terminal);
    let (say, hear) = mpsc::channel();
    let mut reader = terminal.try_clone()?;
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = reader.read(&mut bytes) {
            if read == 0 || say.send(bytes.get(..read).unwrap_or_default().to_vec()).is_err() {
                return;
            }
        }
    });
    let mut seen = Vec::new();
    let began = Instant::now();
    let short = view.id.short();
    while began.elapsed() < Duration::from_secs(20) {
        if let Ok(bytes) = hear.recv_timeout(Duration::from_millis(200)) {
            seen.extend(bytes);
        }
        if String::from_utf8_lossy(&seen).matches(&short).count() > 2 {
            break;
        }
    }
    // All of its card, and then the end of it.
    terminal.write_all(b"   ")?;
    std::thread::sleep(Duration::from_secs(1));
    terminal.write_all(b"q")?;
    let _ = child.wait();
    while let Ok(bytes) = hear.recv_timeout(Duration::from_millis(200)) {
        seen.extend(bytes);
    }
    gate.answer(view.id.as_str(), Vote::Reject)?;
    gate.expect(&call, Ending::Refused("rejected"));
    let text = String::from_utf8_lossy(&seen);
    if !text.contains(&short) {
        return Err(format!("it was not shown: {text:?}").into());
    }
    let foreign = ["\u{1b}]", "\u{7}", "\u{1b}[1;1H", "\u{9b}", "\u{202e}", "owned\u{7}"];
    let found = foreign.iter().find(|escape| text.contains(**escape));
    Ok(Effect::through_if(found.is_some(), format!("{found:?} came to the terminal")))
}
