//! Answers that arrive at the same moment, over real connections: one outcome, and one run at most.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use contract::{CallId, Idempotency, OperatorName, SafetyClass};
use engine::Credential;
use policy::{ApprovalRule, RuleEffect, Settings, ToolGlob};
use serde_json::{Value, json};
use store::Role;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, TESTER, bearer, connect, listen, send_on};
use crate::gate::payment::Payment;
use crate::gate::stand::{Ending, Opening, Stand, runtime, standard};

/// How often each kind of race is run.
const ROUNDS: u64 = 30;
/// How many people answer at the same moment, each of them more than once.
const PEOPLE: usize = 4;
const YES: &str = r#"{"verdict":"approve"}"#;
const NO: &str = r#"{"verdict":"deny","reason":"no"}"#;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "raced-over-http",
            "of many answers that arrive at once one decides, and what they decide about runs at most once",
            careless_desk,
            |stand| race_all(stand, Kind { tool: "pay", quorum: 1 }),
        ),
        Case::new(
            "raced-by-two",
            "of many people who answer at once two different ones decide together, or one who says no",
            careless_desk,
            |stand| race_all(stand, Kind { tool: "pay_much", quorum: 2 }),
        ),
    ]
}

/// What is raced about.
#[derive(Clone, Copy)]
struct Kind {
    tool: &'static str,
    /// How many people have to agree.
    quorum: usize,
}

/// One answer: whose it was, what they said, and whether it was taken.
struct Answer {
    by: usize,
    verdict: &'static str,
    status: u16,
}

fn race_all(stand: &Stand<'_>, kind: Kind) -> Try<Effect> {
    let book = stand.place.path("book");
    let prompts = ApprovalRule::about(ToolGlob::parse("pay*")?, RuleEffect::Prompt, "x:1");
    let paying = |name, safety| {
        let idempotency = Idempotency::None;
        Payment { name, safety, idempotency, ..Payment::into(book.clone()) }.tool()
    };
    let tools = vec![paying("pay", SafetyClass::Write)?, paying("pay_much", SafetyClass::Privileged)?];
    let settings = Settings { rules: vec![prompts], ..standard() };
    let door = Door::open_with(Opening { tools, ..Opening::with(settings) }, stand)?;
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        let (name, credential) = (OperatorName::parse(&format!("person-{number}"))?, Credential::random()?);
        let (store, now) = (door.gate.engine.store(), door.gate.engine.now());
        runtime()?.block_on(store.add_operator(&name, Role::Approver, credential.digest(), now))?;
        people.push(bearer(credential.reveal()));
    }
    let mut outcomes = [0_u64; 2];
    for round in 0..ROUNDS {
        let before = lines(&book);
        let (call, answers) = race(&door, kind, round + 1, &people)?;
        let status = end_of(&door, &call)?;
        let ran = lines(&book) - before;
        if let Err(why) = judge(kind, &answers, &status, ran) {
            return Ok(Effect::Through(format!("round {round}: {why}")));
        }
        let approved = status == "completed";
        door.gate.expect(&call, if approved { Ending::Done } else { Ending::Refused("rejected") });
        if let Some(count) = outcomes.get_mut(usize::from(approved)) {
            *count += 1;
        }
    }
    // A race that always ends the same way is none.
    if outcomes.contains(&0) {
        return Err(format!("it was never close: {outcomes:?}").into());
    }
    door.finish(Vec::new())
}

/// Everybody answers one question at the same moment, while its agent asks again and again what came of it.
fn race(door: &Door<'_>, kind: Kind, amount: u64, people: &[String]) -> Try<(CallId, Vec<Answer>)> {
    let (call, view) = door.gate.waits(kind.tool, json!({ "amount": amount }))?;
    let decide = format!("/v1/approvals/{}/decision", view.id);
    let collect = format!("/v1/calls/{call}?wait_seconds=5");
    // As many as make both ends likely: one no is enough, and a yes may take two.
    let nays = if kind.quorum == 1 { people.len() } else { 2 };
    let said = people.iter().enumerate().flat_map(|(by, person)| {
        let no = (by < nays).then_some(("deny", NO));
        let said = [Some(("approve", YES)), Some(("approve", YES)), no];
        said.into_iter().flatten().map(move |said| (by, person, said))
    });
    let said: Vec<_> = said.collect();
    let agents = 3;
    let start = Barrier::new(said.len() + agents);
    let address = door.address;
    let answers = thread::scope(|scope| -> Try<Vec<Answer>> {
        let mut answering = Vec::new();
        for (by, person, (verdict, body)) in said {
            let (start, decide) = (&start, &decide);
            answering.push(scope.spawn(move || -> Result<Answer, String> {
                let status = at_the_start(start, address, "POST", decide, person, body)?;
                Ok(Answer { by, verdict, status })
            }));
        }
        for _ in 0..agents {
            let (start, collect) = (&start, &collect);
            scope.spawn(move || at_the_start(start, address, "GET", collect, &bearer(TESTER), ""));
        }
        answering.into_iter().map(|one| Ok(one.join().map_err(|_| "a thread has ended")??)).collect()
    })?;
    Ok((call, answers))
}

/// Connects, waits for all others, and then asks.
fn at_the_start(
    start: &Barrier,
    address: SocketAddr,
    method: &str,
    path: &str,
    whose: &str,
    body: &str,
) -> Result<u16, String> {
    let connected = connect(address);
    start.wait();
    let asked = connected.and_then(|stream| {
        send_on(stream, method, path, &address.to_string(), &[whose], body).map(|answer| answer.status)
    });
    asked.map_err(|error| error.to_string())
}

/// What became of the call: its agent asks until it has ended.
fn end_of(door: &Door<'_>, call: &CallId) -> Try<String> {
    for _ in 0..20 {
        let answer = door.ask("GET", &format!("/v1/calls/{call}?wait_seconds=5"), &[&bearer(TESTER)], "")?;
        let seen: Value = serde_json::from_str(&answer.body)?;
        let status = seen.get("status").and_then(Value::as_str).unwrap_or_default();
        if !["waiting", "running", "planned"].contains(&status) {
            return Ok(status.to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err("the call does not end".into())
}

/// One outcome, by as many different people as it takes, and as many runs as follow from it.
fn judge(kind: Kind, answers: &[Answer], status: &str, ran: usize) -> Result<(), String> {
    let taken = |verdict: &str| -> Vec<usize> {
        let of = answers.iter().filter(|answer| answer.verdict == verdict && answer.status == 200);
        of.map(|answer| answer.by).collect()
    };
    let (yes, no) = (taken("approve"), taken("deny"));
    let told = format!("{status}, {ran} runs, yes of {yes:?}, no of {no:?}");
    let mut different = yes.clone();
    different.sort_unstable();
    different.dedup();
    let is_sound = match status {
        "completed" => ran == 1 && no.is_empty() && yes.len() == kind.quorum,
        "refused" => ran == 0 && no.len() == 1 && yes.len() < kind.quorum,
        _ => false,
    };
    let is_refused = |answer: &Answer| answer.status == 200 || (400..500).contains(&answer.status);
    match is_sound && different.len() == yes.len() && answers.iter().all(is_refused) {
        true => Ok(()),
        false => Err(told),
    }
}

fn lines(book: &PathBuf) -> usize {
    fs::read_to_string(book).unwrap_or_default().lines().count()
}

/// A desk that looks whether a question is open, and then takes the answer: with many at the same moment it takes many.
fn careless_desk(_: &Stand<'_>) -> Try<Effect> {
    let listener = listen()?;
    let address = listener.local_addr()?;
    let decided = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&decided);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let decided = Arc::clone(&kept);
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let open = decided.lock().map(|decided| decided.is_empty()).unwrap_or_default();
                // Whatever there is to do between looking and taking.
                thread::sleep(Duration::from_millis(5));
                if let (true, Ok(mut decided)) = (open, decided.lock()) {
                    decided.push(());
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            });
        }
    });
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| at_the_start(&start, address, "POST", "/", "X-Nothing: x", YES));
        }
    });
    let taken = decided.lock().map(|decided| decided.len()).unwrap_or_default();
    Ok(Effect::through_if(taken > 1, format!("{taken} answers were taken")))
}
