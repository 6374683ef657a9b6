//! Gates that die in the middle of a call, and what must not come of it: an effect twice, or one that nobody recorded.
//!
//! Every point of a call is tried by the storm; here is why each guard stands.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use contract::{CallStatus, Found, Idempotency, Key, SafetyClass};
use engine::{Clock, Credential, ReconcileRefused};
use serde_json::json;
use store::CLAIM_KEPT_MS;
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::payment::Payment;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, trusted};
use crate::launch::command_of;
use crate::storm::{ARGUMENT, Deed, Orders};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "blind-retry",
            "a payment whose gate was killed is not made again",
            pay_twice_unbegun,
            |stand| {
                kill_at(stand, "effect/after", None)?;
                pay_again(&paying(stand)?, Ending::Settled)?;
                paid(stand, 2)
            },
        )
        .without("the record that a call begins", pay_twice_unbegun),
        Case::new(
            "effect-without-record",
            "nothing is done before it is on record that it may begin",
            |stand| {
                drive(stand, None, Some("acts_without_any_record"))?;
                let store = stand.store()?;
                match runtime()?.block_on(store.calls(1, None))?.is_empty() {
                    true => paid(stand, 1),
                    false => Ok(Effect::Held("there is a record of it".to_owned())),
                }
            },
            |stand| {
                kill_at(stand, "call.started/before-commit", None)?;
                if let through @ Effect::Through(_) = paid(stand, 1)? {
                    return Ok(through);
                }
                pay_again(&paying(stand)?, Ending::Done)?;
                paid(stand, 2)
            },
        ),
        Case::new(
            "living-owner",
            "a call whose gate lives is not taken for a dead one's",
            |stand| {
                kill_at(stand, "effect/after", None)?;
                let gate = paying(stand)?;
                let rows = runtime()?.block_on(gate.engine.store().calls(1, None))?;
                let ended = rows.first().is_some_and(|row| row.status == CallStatus::Unknown);
                Ok(Effect::through_if(ended, "the other gate has ended it"))
            },
            look_at_the_living,
        ),
        Case::new(
            "reservation-expires",
            "a claim outlives its day while nobody knows how its call ended",
            |stand| {
                pay_again(&paying(stand)?, Ending::Done)?;
                pay_again(&paying_at(stand, Clock::of(two_days_later))?, Ending::Done)?;
                paid(stand, 2)
            },
            |stand| {
                kill_at(stand, "effect/after", None)?;
                pay_again(&paying_at(stand, Clock::of(two_days_later))?, Ending::Settled)?;
                paid(stand, 2)
            },
        ),
        Case::new(
            "agents-word",
            "an agent's word on what happened is not taken",
            |stand| {
                kill_at(stand, "effect/after", None)?;
                let gate = paying(stand)?;
                let operator = Credential::load_or_create(&stand.home())?;
                deny_it_happened(&gate, &operator)?.map_err(|error| error.to_string())?;
                pay_again(&gate, Ending::Done)?;
                paid(stand, 2)
            },
            |stand| {
                kill_at(stand, "effect/after", None)?;
                let gate = paying(stand)?;
                let agent = Credential::presented("a token that only an agent has, of some length");
                match deny_it_happened(&gate, &agent)? {
                    Err(ReconcileRefused::NotAnOperator) => {}
                    other => return Ok(Effect::Through(format!("{other:?}"))),
                }
                pay_again(&gate, Ending::Settled)?;
                paid(stand, 2)
            },
        ),
        Case::new(
            "keyless-tool",
            "a key that would mean nothing is refused",
            |stand| {
                let gate = paying_with(stand, Idempotency::None, Clock::system())?;
                for _ in 0..2 {
                    pay_again(&gate, Ending::Done)?;
                }
                paid(stand, 2)
            },
            |stand| {
                let gate = paying_with(stand, Idempotency::None, Clock::system())?;
                for _ in 0..2 {
                    let request = Deed::Pay.request(1)?;
                    let key = Some(Key::parse("once")?);
                    gate.ask(engine::Request { key, ..request }, Ending::Refused("bad_request"))?;
                }
                paid(stand, 1)
            },
        ),
    ]
}

/// Without the record that it begins, a payment that was made looks like one that was not.
fn pay_twice_unbegun(stand: &Stand<'_>) -> Try<Effect> {
    let mistake = Some("acts_before_it_records_that_it_begins");
    kill_at(stand, "effect/after", mistake)?;
    drive(stand, None, mistake)?;
    paid(stand, 2)
}

/// A gate looks for the dead while another one runs a command.
fn look_at_the_living(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("log", "x\n")?;
    let gate = stand.gate(trusted())?;
    let command = json!({ "command": "tail", "args": ["-f", "log"], "profile": "build", "timeout": 60 });
    let request = gate.request("shell", command)?;
    let (engine, cancel) = (gate.engine.clone(), CancellationToken::new());
    let own = cancel.clone();
    let runs = runtime()?.spawn(async move { engine.call(request, Duration::ZERO, own).await });
    let store = stand.store()?;
    let began = Instant::now();
    let call = loop {
        let rows = runtime()?.block_on(store.calls(1, None))?;
        if let Some(row) = rows.into_iter().find(|row| row.status == CallStatus::Running) {
            break row.id;
        }
        if began.elapsed() > Duration::from_secs(20) {
            return Err("the command never begins".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let other = stand.gate(trusted())?;
    runtime()?.block_on(other.engine.recover())?;
    let row = runtime()?.block_on(store.call(&call))?.ok_or("the call is gone")?;
    cancel.cancel();
    let result = runtime()?.block_on(runs)?;
    gate.expect(&result.call_id, Ending::Settled);
    let taken = row.status != CallStatus::Running || result.status == CallStatus::Unknown;
    Ok(Effect::through_if(taken, format!("while it ran it became {:?}", row.status)))
}

// ---- gates that die, and gates that come after

/// Runs a gate of its own that pays once and is killed at a point.
fn kill_at(stand: &Stand<'_>, point: &str, mistake: Option<&str>) -> Try<()> {
    was_killed(point, drive(stand, Some(point), mistake)?)
}

/// The same for a gate with a budget of so many calls.
pub(super) fn kill_within(stand: &Stand<'_>, point: &str, budget: Option<u64>) -> Try<()> {
    was_killed(point, carry_out(stand, &Orders { budget, ..orders(stand, Some(point), None) })?)
}

fn was_killed(point: &str, signal: Option<i32>) -> Try<()> {
    match signal {
        Some(9) => Ok(()),
        signal => Err(format!("the gate was not killed at `{point}` but ended with {signal:?}").into()),
    }
}

/// The signal that ended a gate which pays once.
fn drive(stand: &Stand<'_>, point: Option<&str>, mistake: Option<&str>) -> Try<Option<i32>> {
    carry_out(stand, &orders(stand, point, mistake))
}

fn orders(stand: &Stand<'_>, point: Option<&str>, mistake: Option<&str>) -> Orders {
    Orders {
        home: stand.home(),
        workspace: stand.workspace.clone(),
        book: stand.place.path("book"),
        store: stand.store_url(),
        deed: Deed::Pay,
        round: 1,
        point: point.map(str::to_owned),
        mistake: mistake.map(str::to_owned),
        budget: None,
    }
}

fn carry_out(stand: &Stand<'_>, orders: &Orders) -> Try<Option<i32>> {
    let arguments = [ARGUMENT.into(), serde_json::to_string(orders)?.into()];
    Ok(command_of(&stand.bench.tool, &arguments).output()?.status.signal())
}

fn paying<'a>(stand: &'a Stand<'a>) -> Try<Gate<'a>> {
    paying_at(stand, Clock::system())
}

fn paying_at<'a>(stand: &'a Stand<'a>, clock: Clock) -> Try<Gate<'a>> {
    paying_with(stand, Idempotency::Required, clock)
}

fn paying_with<'a>(stand: &'a Stand<'a>, idempotency: Idempotency, clock: Clock) -> Try<Gate<'a>> {
    let book = stand.place.path("book");
    let pay = Payment { safety: SafetyClass::Write, idempotency, ..Payment::into(book) }.tool()?;
    stand.open(Opening { tools: vec![pay], clock, ..Opening::with(trusted()) })
}

/// The same payment as the gate that died was to make.
fn pay_again(gate: &Gate<'_>, ending: Ending) -> Try<()> {
    gate.ask(Deed::Pay.request(1)?, ending).map(drop)
}

fn deny_it_happened(gate: &Gate<'_>, credential: &Credential) -> Try<Result<(), ReconcileRefused>> {
    let rows = runtime()?.block_on(gate.engine.store().calls(1, None))?;
    let call = rows.first().ok_or("there is no call")?.id.clone();
    let said = gate.engine.reconcile(call.as_str(), Found::DidNot, None, credential);
    Ok(runtime()?.block_on(said).map(drop))
}

fn two_days_later() -> i64 {
    Clock::system().now() + 2 * CLAIM_KEPT_MS
}

/// Whether at least so many payments were made.
fn paid(stand: &Stand<'_>, least: usize) -> Try<Effect> {
    let book = fs::read_to_string(stand.place.path("book")).unwrap_or_default();
    Ok(Effect::through_if(book.lines().count() >= least, format!("paid: {book:?}")))
}
