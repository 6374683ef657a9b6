//! Limits, and the ways around them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{
    AgentName, CallResult, CallStatus, Canonical, Contract, Idempotency, Rate, Reason, SafetyClass,
};
use engine::{Boot, Clock, Hearing, Hook, HookError, Objection, Proposed};
use policy::{Agent, Facets, Grant, RateSettings, Settings, ToolGlob, ToolRate};
use serde_json::{Value, json};
use store::Vote;
use tokio_util::sync::CancellationToken;
use tools::{Ran, Surroundings, Tool};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, standard};

const HOUR: i64 = 3_600_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "too-often",
            "calls at once stay within the limit, however many",
            |stand| many_at_once(stand, standard()),
            |stand| many_at_once(stand, limited("pay", 5)?),
        )
        .without("the rate limit", |stand| many_at_once(stand, standard())),
        Case::new(
            "limit-by-another",
            "what one agent does uses up nothing of another's limit",
            |stand| used_up_by(stand, AGENT),
            |stand| used_up_by(stand, "other"),
        )
        .without("the agent in the count", |stand| used_up_by(stand, AGENT)),
        Case::new(
            "limit-cleared",
            "neither a restart nor another configuration clears what was used up",
            |stand| after_restart(stand, standard(), standard()),
            |stand| after_restart(stand, limited("pay", 2)?, limited("p*", 2)?),
        )
        .without("the limit after the restart", |stand| after_restart(stand, limited("pay", 2)?, standard())),
        Case::new(
            "limit-burnt",
            "calls that are refused use up nothing that a later call needs",
            |stand| burnt(stand, json!({ "amount": 1 }), Ending::Done),
            |stand| burnt(stand, json!({ "amount": "much" }), Ending::Refused("bad_arguments")),
        )
        .without("the difference between run and refused", |stand| {
            burnt(stand, json!({ "amount": 1 }), Ending::Done)
        }),
        Case::new(
            "clock-set-back",
            "a clock that is set back empties no limit, and when it is right again, nothing is shut",
            |_| {
                // A count that goes by the clock's own word has nothing in it, a day before.
                let (spent, now) = (NOON, NOON - 24 * HOUR);
                Ok(Effect::through_if(!(now - HOUR..=now).contains(&spent), "nothing was spent"))
            },
            set_back,
        ),
        Case::new(
            "clock-set-back-between-gates",
            "gates that come and go under a clock that was set back neither stand still in time nor gain any",
            |_| {
                // Time that goes on from the record alone, anew in each process, is a day late by the end of the day.
                let (record, clock) = (NOON, NOON - 22 * HOUR);
                Ok(Effect::through_if(record.max(clock) - NOON < HOUR, "after two hours no window has ended"))
            },
            |stand| set_back_between(stand, wrong_clock().beside(unset_witness)),
        )
        .without("the witness of time", |stand| set_back_between(stand, wrong_clock())),
        Case::new(
            "buried-in-questions",
            "however many an agent asks at once, no more questions of it wait than may",
            |stand| bury(stand, &[AGENT, "other"]),
            |stand| bury(stand, &[AGENT]),
        )
        .without("the count for each agent", |stand| bury(stand, &[AGENT, "other"])),
        Case::new(
            "turn-lost",
            "a call that people approved keeps its turn while the limit is used up, and stays within it",
            |stand| out_of_turn(stand, standard()),
            |stand| out_of_turn(stand, limited("pay", 1)?),
        )
        .without("the limit on what was approved", |stand| out_of_turn(stand, standard())),
        Case::new(
            "panic-prints-arguments",
            "what a panic says stays unsaid: neither answer nor ledger holds the arguments it fell over",
            |stand| {
                let words = stand.secret.clone();
                let fell = catch_unwind(AssertUnwindSafe(move || resume_unwind(Box::new(words))));
                let said = fell.err().and_then(|said| said.downcast::<String>().ok());
                Ok(stand.shown_in(&said.map(|said| *said).unwrap_or_default()))
            },
            fall_over,
        ),
        Case::new(
            "failing-hook",
            "a hook that fails or panics has said no: nothing runs, and the ledger has why",
            |stand| hooked(stand, Mood::Content),
            |stand| match hooked(stand, Mood::Failing)? {
                Effect::Held(_) => hooked(stand, Mood::Falling),
                through => Ok(through),
            },
        )
        .without("the hook's no", |stand| hooked(stand, Mood::Content)),
        Case::new(
            "panic-in-a-batch",
            "a call whose code panics takes none of its siblings along",
            |_| {
                let both = catch_unwind(|| {
                    resume_unwind(Box::new("the first"));
                });
                Ok(Effect::through_if(both.is_err(), "the second never came"))
            },
            fall_among_others,
        ),
    ]
}

pub(super) fn limited(tools: &str, max_calls: u64) -> Try<Settings> {
    let limit = ToolRate {
        tools: ToolGlob::parse(tools)?,
        rate: Rate { max_calls, window_ms: HOUR.unsigned_abs() },
        place: "attack:1".to_owned(),
    };
    Ok(Settings { rates: RateSettings { tools: vec![limit], ..RateSettings::default() }, ..standard() })
}

pub(super) fn book(stand: &Stand<'_>) -> PathBuf {
    stand.place.path("book")
}

pub(super) fn payments(stand: &Stand<'_>) -> usize {
    fs::read_to_string(book(stand)).unwrap_or_default().lines().count()
}

pub(super) fn open<'a>(stand: &'a Stand<'a>, settings: Settings) -> Try<Gate<'a>> {
    let free = Payment { idempotency: Idempotency::None, ..Payment::into(book(stand)) };
    stand.open(Opening { tools: vec![free.tool()?], ..Opening::with(settings) })
}

pub(super) fn pay() -> Value {
    json!({ "amount": 1 })
}

fn many_at_once(stand: &Stand<'_>, settings: Settings) -> Try<Effect> {
    let gate = open(stand, settings)?;
    let requests = (0..20).map(|_| gate.request("pay", pay())).collect::<Try<Vec<_>>>()?;
    let all = gate.engine.call_all(requests, 20, Duration::ZERO, CancellationToken::new());
    for result in runtime()?.block_on(all).results {
        note(&gate, &result);
    }
    Ok(Effect::through_if(payments(stand) > 5, format!("{} payments", payments(stand))))
}

pub(super) fn note(gate: &Gate<'_>, result: &CallResult) {
    let ending = match result.status {
        CallStatus::Completed => Ending::Done,
        _ => Ending::Refused("rate_limited"),
    };
    gate.expect(&result.call_id, ending);
}

/// One agent uses up the limit; whether the tester has nothing left.
fn used_up_by(stand: &Stand<'_>, who: &str) -> Try<Effect> {
    let mut settings = limited("pay", 3)?;
    settings.agents.insert(AgentName::parse("other")?, Agent::default());
    let gate = open(stand, settings)?;
    for _ in 0..6 {
        let request = engine::Request { agent: AgentName::parse(who)?, ..gate.request("pay", pay())? };
        let result = gate.send(request)?;
        note(&gate, &result);
    }
    let result = gate.send(gate.request("pay", pay())?)?;
    note(&gate, &result);
    Ok(Effect::through_if(result.status == CallStatus::Refused, result.content))
}

fn after_restart(stand: &Stand<'_>, before: Settings, after: Settings) -> Try<Effect> {
    for settings in [before, after] {
        let gate = open(stand, settings)?;
        for _ in 0..3 {
            let result = gate.send(gate.request("pay", pay())?)?;
            note(&gate, &result);
        }
        runtime()?.block_on(gate.engine.close());
    }
    Ok(Effect::through_if(payments(stand) > 2, format!("{} payments", payments(stand))))
}

/// Calls that all end so, then one that is good; whether that has nothing left.
fn burnt(stand: &Stand<'_>, arguments: Value, ending: Ending) -> Try<Effect> {
    let gate = open(stand, limited("pay", 3)?)?;
    for _ in 0..3 {
        gate.call("pay", arguments.clone(), ending)?;
    }
    let result = gate.send(gate.request("pay", pay())?)?;
    note(&gate, &result);
    Ok(Effect::through_if(result.status == CallStatus::Refused, result.content))
}

const NOON: i64 = 1_790_000_000_000;

/// The clock of the one case that sets it.
static CLOCK: AtomicI64 = AtomicI64::new(NOON);

fn set_back(stand: &Stand<'_>) -> Try<Effect> {
    let free = Payment { idempotency: Idempotency::None, ..Payment::into(book(stand)) };
    let clock = Clock::of(|| CLOCK.load(Ordering::SeqCst));
    let opening = Opening { tools: vec![free.tool()?], clock, ..Opening::with(limited("pay", 2)?) };
    let gate = stand.open(opening)?;
    let mut paid = Vec::new();
    // Twice at noon; then a day back, where nothing is left; then two hours after noon, when there is again. How time goes
    // on while the clock is wrong is told by another witness, which nobody sets here.
    for now in [NOON, NOON, NOON - 24 * HOUR, NOON - 23 * HOUR, NOON + 2 * HOUR, NOON + 2 * HOUR] {
        CLOCK.store(now, Ordering::SeqCst);
        let result = gate.send(gate.request("pay", pay())?)?;
        note(&gate, &result);
        paid.push(result.status == CallStatus::Completed);
    }
    Ok(Effect::through_if(paid != [true, true, false, false, true, true], format!("{paid:?}")))
}

/// How long the host of the one case that sets it has been up, in milliseconds.
static UP: AtomicI64 = AtomicI64::new(HOUR);

/// What the clock of that host says.
static OTHER_CLOCK: AtomicI64 = AtomicI64::new(NOON);

fn wrong_clock() -> Clock {
    Clock::of(|| OTHER_CLOCK.load(Ordering::SeqCst))
}

fn unset_witness() -> Option<Boot> {
    Some(Boot { id: "a start".to_owned(), up: UP.load(Ordering::SeqCst) })
}

/// A gate for each call, and a clock that is set back a day after the second: whether each was paid.
fn set_back_between(stand: &Stand<'_>, clock: Clock) -> Try<Effect> {
    // With its witness and without it at once, each would set the other's time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut paid = Vec::new();
    for minutes in [0, 1, 2, 30, 59, 62, 63, 64] {
        let passed = minutes * 60_000;
        let set_back = if minutes >= 2 { 24 * HOUR } else { 0 };
        OTHER_CLOCK.store(NOON + passed - set_back, Ordering::SeqCst);
        UP.store(HOUR + passed, Ordering::SeqCst);
        let free = Payment { idempotency: Idempotency::None, ..Payment::into(book(stand)) };
        let opening = Opening { tools: vec![free.tool()?], clock, ..Opening::with(limited("pay", 2)?) };
        let gate = stand.open(opening)?;
        let result = gate.send(gate.request("pay", pay())?)?;
        note(&gate, &result);
        paid.push(result.status == CallStatus::Completed);
        runtime()?.block_on(gate.engine.close());
    }
    // Two in the first hour; two in the next, and no third.
    let right = [true, true, false, false, false, true, true, false];
    Ok(Effect::through_if(paid != right, format!("{paid:?}")))
}

/// Asks for a lot at once, at two gates; whether more wait than one agent may have waiting.
fn bury(stand: &Stand<'_>, agents: &[&str]) -> Try<Effect> {
    const MAY_WAIT: usize = 20;
    let mut settings = standard();
    settings.agents.insert(AgentName::parse("other")?, Agent::default());
    let open = || {
        let safety = SafetyClass::Financial;
        let asked = Payment { safety, idempotency: Idempotency::None, ..Payment::into(book(stand)) };
        stand.open(Opening { tools: vec![asked.tool()?], ..Opening::with(settings.clone()) })
    };
    let (one, two) = (open()?, open()?);
    let mut all = tokio::task::JoinSet::new();
    for amount in 0..30 {
        for (agent, gate) in agents.iter().zip([&one, &two].into_iter().cycle().skip(amount % 2)) {
            let request = gate.request("pay", json!({ "amount": amount }))?;
            let request = engine::Request { agent: AgentName::parse(agent)?, ..request };
            let engine = gate.engine.clone();
            let call = async move { engine.call(request, Duration::ZERO, CancellationToken::new()).await };
            all.spawn_on(call, runtime()?.handle());
        }
    }
    let results = runtime()?.block_on(all.join_all());
    let waiting = results.iter().filter(|result| result.status == CallStatus::Waiting);
    let waiting = waiting.collect::<Vec<_>>();
    for result in results.iter().filter(|result| result.status != CallStatus::Waiting) {
        one.expect(&result.call_id, Ending::Refused("rate_limited"));
    }
    Ok(Effect::through_if(waiting.len() > MAY_WAIT, format!("{} wait", waiting.len())))
}

/// A call is approved while another has used up the limit; whether both have run.
fn out_of_turn(stand: &Stand<'_>, settings: Settings) -> Try<Effect> {
    let asked = Payment {
        safety: SafetyClass::Financial,
        idempotency: Idempotency::None,
        ..Payment::into(book(stand))
    };
    let gate = stand.open(Opening { tools: vec![asked.tool()?], ..Opening::with(settings) })?;
    let mut waiting = Vec::new();
    for amount in [1, 2] {
        let (call, view) = gate.waits("pay", json!({ "amount": amount }))?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        waiting.push(call);
    }
    for amount in [1, 2] {
        gate.send(gate.request("pay", json!({ "amount": amount }))?)?;
    }
    let store = gate.engine.store();
    for call in &waiting {
        let row = runtime()?.block_on(store.call(call))?.ok_or("the call is gone")?;
        match row.status {
            CallStatus::Completed => gate.expect(call, Ending::Done),
            // Neither refused nor forgotten: it is still there to be collected.
            CallStatus::Waiting => {}
            other => return Ok(Effect::Through(format!("{other:?}: what was approved has lost its turn"))),
        }
    }
    Ok(Effect::through_if(payments(stand) > 1, format!("{} payments", payments(stand))))
}

/// How a hook answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Content,
    Failing,
    Falling,
}

impl Hook for Mood {
    fn name(&self) -> &str {
        "mood"
    }

    fn before<'a>(&'a self, _call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async move {
            match self {
                Mood::Content => Ok(Objection::None),
                Mood::Failing => Err(HookError { why: "it is out of order".to_owned() }),
                Mood::Falling => resume_unwind(Box::new("it falls")),
            }
        })
    }
}

fn hooked(stand: &Stand<'_>, mood: Mood) -> Try<Effect> {
    let gate = open(stand, standard())?;
    gate.engine.set_hooks(vec![Arc::new(mood)]);
    let ending = if mood == Mood::Content { Ending::Done } else { Ending::Refused("hook_failed") };
    gate.call("pay", pay(), ending)?;
    Ok(Effect::through_if(payments(stand) > 0, "paid"))
}

/// Falls over its own arguments, and says them as it falls.
struct Clumsy(Arc<dyn Tool>);

impl Tool for Clumsy {
    fn contract(&self) -> &Contract {
        self.0.contract()
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        if arguments.get("amount") == Some(&json!(2)) {
            resume_unwind(Box::new(arguments.to_string()));
        }
        self.0.facets(arguments, settings)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        if arguments.value().get("amount") == Some(&json!(1)) {
            return Box::pin(async move { resume_unwind(Box::new(arguments.text().to_owned())) });
        }
        self.0.run(grant, arguments, at, cancel)
    }
}

fn clumsy<'a>(stand: &'a Stand<'a>) -> Try<Gate<'a>> {
    let free = Payment { idempotency: Idempotency::None, open: true, ..Payment::into(book(stand)) };
    let tool: Arc<dyn Tool> = Arc::new(Clumsy(free.tool()?));
    stand.open(Opening { tools: vec![tool], ..Opening::with(standard()) })
}

fn fall_over(stand: &Stand<'_>) -> Try<Effect> {
    let gate = clumsy(stand)?;
    let secret = &stand.secret;
    let running = gate.call("pay", json!({ "amount": 1, "note": secret }), Ending::Settled)?;
    let reading = gate.call("pay", json!({ "amount": 2, "note": secret }), Ending::Refused("internal"))?;
    if (running.status, reading.status) != (CallStatus::Unknown, CallStatus::Refused) {
        return Err(format!("they ended as {:?} and {:?}", running.status, reading.status).into());
    }
    let mut told = format!("{running:?} {reading:?}");
    let store = gate.engine.store();
    runtime()?.block_on(async {
        for call in [&running.call_id, &reading.call_id] {
            told.push_str(&store.receipt(call).await?.unwrap_or_default());
        }
        let mut ledger = Vec::new();
        store.export(&mut ledger).await?;
        told.push_str(&String::from_utf8_lossy(&ledger));
        Try::Ok(())
    })?;
    Ok(stand.shown_in(&told))
}

fn fall_among_others(stand: &Stand<'_>) -> Try<Effect> {
    let gate = clumsy(stand)?;
    let requests = [3, 1, 4, 2, 5].map(|amount| gate.request("pay", json!({ "amount": amount }))).into_iter();
    let requests = requests.collect::<Try<Vec<_>>>()?;
    let all = gate.engine.call_all(requests, 2, Duration::ZERO, CancellationToken::new());
    let batch = runtime()?.block_on(all);
    for (result, ending) in batch.results.iter().zip([
        Ending::Done,
        Ending::Settled,
        Ending::Done,
        Ending::Refused("internal"),
        Ending::Done,
    ]) {
        gate.expect(&result.call_id, ending);
    }
    let lost = payments(stand) != 3 || batch.panicked != [1, 3];
    Ok(Effect::through_if(lost, format!("{} of 3, {:?}", payments(stand), batch.panicked)))
}
