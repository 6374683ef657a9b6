//! Budgets, and the ways to spend more than there is.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contract::{Actions, Amount, CallId, CallResult, CallStatus, Idempotency, SafetyClass, Scope};
use engine::{Clock, Reach, Reply};
use policy::{
    AmountLimit, Amounts, ApprovalRule, ArgumentPath, Budget, BudgetLimit, CedarRule, Conditions, Over, Per,
    Period, Price, PriceSettings, RuleBudget, RuleEffect, Settings, ToolGlob, ToolPrice,
};
use serde_json::{Value, json};
use store::Vote;
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::approvals::end;
use crate::gate::case::Case;
use crate::gate::crashes::kill_within;
use crate::gate::limits::{book, open, pay, payments};
use crate::gate::payment::Payment;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, standard, trusted};

const DAY: i64 = 24 * 3_600_000;

/// A Wednesday, at noon.
const NOON: i64 = 1_794_916_800_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "hidden-amount-of-a-budget",
            "an amount that a budget cannot count is asked about, and neither freed nor skipped",
            |stand| {
                let gate = open_wide(stand, by_amount(100.0)?)?;
                gate.call("pay", json!({ "amount": 60 }), Ending::Done)?;
                Ok(Effect::through_if(payments(stand) == 1, "what is counted is paid"))
            },
            |stand| {
                let gate = open_wide(stand, by_amount(100.0)?)?;
                for arguments in uncountable() {
                    let (call, _) = gate.waits("pay", arguments)?;
                    end(&gate, &call, Vote::Reject, "rejected")?;
                }
                // Whoever may not exceed a budget is not asked instead because it hides how much it takes.
                let gate = open_wide(stand, frugal(by_amount(100.0)?)?)?;
                for arguments in uncountable() {
                    gate.call("pay", arguments, Ending::Refused("denied_by_list"))?;
                }
                Ok(Effect::through_if(payments(stand) > 0, format!("{} payments", payments(stand))))
            },
        )
        .without("the budget of amounts", |stand| {
            let gate = open_wide(stand, trusted())?;
            for arguments in uncountable() {
                gate.call("pay", arguments, Ending::Done)?;
            }
            Ok(Effect::through_if(payments(stand) == uncountable().len(), "all of them"))
        }),
        Case::new(
            "budget-raced",
            "calls at once at two gates never spend more than there is",
            |stand| race(stand, standard()),
            |stand| race(stand, calls(5, Over::Deny)?),
        )
        .without("the budget", |stand| race(stand, standard())),
        Case::new(
            "budget-cleared",
            "neither a restart nor another configuration gives back what was spent",
            |stand| after_restart(stand, [standard(), standard()]),
            |stand| after_restart(stand, [calls(2, Over::Deny)?, money(0.02, 0.01)?]),
        )
        .without("the budget after the restart", |stand| {
            after_restart(stand, [calls(2, Over::Deny)?, standard()])
        }),
        Case::new(
            "budget-burnt",
            "calls that are refused spend nothing that a later call needs",
            |stand| burnt(stand, pay(), Ending::Done),
            |stand| burnt(stand, json!({ "amount": "much" }), Ending::Refused("bad_arguments")),
        )
        .without("what tells refused calls from others", |stand| burnt(stand, pay(), Ending::Done)),
        Case::new(
            "yes-before-the-budget-was-spent",
            "a yes from before a budget was spent lets nothing run beyond it",
            |stand| late_yes(stand, SafetyClass::Financial, standard()),
            |stand| late_yes(stand, SafetyClass::Financial, calls(1, Over::Ask)?),
        )
        .without("the words of the question", |stand| late_yes(stand, SafetyClass::Financial, standard())),
        Case::new(
            "yes-before-the-rule-asked",
            "a yes from before a rule asked is no answer to it",
            |stand| late_yes(stand, SafetyClass::Financial, standard()),
            |stand| late_yes(stand, SafetyClass::Financial, asked_once_spent()?),
        )
        .without("the words of the question", |stand| late_yes(stand, SafetyClass::Financial, standard())),
        Case::new(
            "standing-beyond-a-budget",
            "a yes beyond a budget is good for its one call, whatever it was given for",
            |stand| twice_beyond(stand, None),
            |stand| twice_beyond(stand, Some(0)),
        )
        .without("the budget that was exceeded", |stand| twice_beyond(stand, None)),
        Case::new(
            "clock-set-back-for-a-new-period",
            "a clock that is set back begins no period anew",
            |stand| set_back(stand, standard()),
            |stand| set_back(stand, calls(2, Over::Deny)?),
        )
        .without("the budget", |stand| set_back(stand, standard())),
        Case::new(
            "reservation-dropped",
            "what a gate that died had reserved stays counted when another ends its call",
            |stand| dropped(stand, None),
            |stand| dropped(stand, Some(1)),
        )
        .without("the budget", |stand| dropped(stand, None)),
    ]
}

fn budget(limit: BudgetLimit, over: Over) -> Try<Budget> {
    Ok(Budget {
        tools: ToolGlob::parse("pay")?,
        agent: None,
        task: None,
        per: Per::All,
        limit,
        period: Period::Daily,
        over,
        place: "toolgate.yaml:7".to_owned(),
    })
}

/// The usual settings, and so many calls.
pub(crate) fn calls(most: u64, over: Over) -> Try<Settings> {
    Ok(Settings { budgets: vec![budget(BudgetLimit::Calls(most), over)?], ..standard() })
}

/// A price, and a rule that asks as soon as something was spent.
fn asked_once_spent() -> Try<Settings> {
    let text = r#"@effect("ask") forbid (principal, action, resource)
        when { context.spend.day.greaterThan(decimal("0.0")) };"#;
    let cedar =
        CedarRule::read(text, |line| format!("rules.cedar:{line}")).map_err(|_| "the rule is wrong")?;
    Ok(Settings { cedar, budgets: Vec::new(), ..money(1.0, 1.0)? })
}

/// So much money in all, at this price.
fn money(most: f64, call: f64) -> Try<Settings> {
    let price = Price { call: Amount::parse(call)?, ..Price::default() };
    let prices = PriceSettings {
        currency: "USD".to_owned(),
        tools: vec![ToolPrice { tools: ToolGlob::parse("pay")?, price }],
    };
    // Calls were counted before there was a price.
    let budgets = vec![
        budget(BudgetLimit::Amount(Amount::parse(most)?), Over::Deny)?,
        budget(BudgetLimit::Calls(2), Over::Deny)?,
    ];
    Ok(Settings { prices, budgets, ..standard() })
}

/// A rule that frees amounts until so much is spent.
fn by_amount(most: f64) -> Try<Settings> {
    let limit = BudgetLimit::Amount(Amount::parse(most)?);
    let effect = RuleEffect::Budget(RuleBudget { limit, period: Period::Daily });
    let amount =
        AmountLimit { argument: ArgumentPath::parse("amount")?, amounts: Amounts::UpTo(Amount::MOST) };
    let when = Conditions { amount: Some(amount), ..Conditions::default() };
    let rule =
        ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse("pay")?, effect, "toolgate.yaml:3") };
    Ok(Settings { rules: vec![rule], ..trusted() })
}

/// The same, where nobody may go beyond a budget.
fn frugal(mut settings: Settings) -> Try<Settings> {
    let exceed = Actions::default().parse("budget:exceed")?;
    settings.agents.values_mut().for_each(|agent| agent.denied_actions.extend([exceed.clone()]));
    Ok(settings)
}

/// Amounts that say something else than they seem to, or nothing; and one that is more than there is.
fn uncountable() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "Amount": 1000 }),
        json!({ "amount ": 1000 }),
        json!({ "am0unt": 1000, "amount": 1 }),
        json!({ "amount": "1000 cents" }),
        json!({ "amount": { "value": 1000, "unit": "cents" } }),
        json!({ "amount": 1, "amount_cents": 100_000 }),
        json!({ "payment": { "amount": 1000 } }),
        json!({ "amount": -1000 }),
        json!({ "amount": 9_000_000_000_000_000_u64 }),
        json!({ "amount": "NaN" }),
        json!({ "amount": null }),
        json!({ "amount": 100.000_001 }),
    ]
}

/// A tool whose schema admits whatever is sent.
fn open_wide<'a>(stand: &'a Stand<'a>, settings: Settings) -> Try<Gate<'a>> {
    let any = Payment { idempotency: Idempotency::None, any: true, ..Payment::into(book(stand)) };
    stand.open(Opening { tools: vec![any.tool()?], ..Opening::with(settings) })
}

fn note(gate: &Gate<'_>, result: &CallResult) {
    let ending = match result.status {
        CallStatus::Completed => Ending::Done,
        _ => Ending::Refused("over_budget"),
    };
    gate.expect(&result.call_id, ending);
}

/// Twenty at once, at two gates on one store.
fn race(stand: &Stand<'_>, settings: Settings) -> Try<Effect> {
    let (one, two) = (open(stand, settings.clone())?, open(stand, settings)?);
    let mut all = tokio::task::JoinSet::new();
    for number in 0..20 {
        let gate = if number % 2 == 0 { &one } else { &two };
        let (engine, request) = (gate.engine.clone(), gate.request("pay", pay())?);
        let call = async move { engine.call(request, Duration::ZERO, CancellationToken::new()).await };
        all.spawn_on(call, runtime()?.handle());
    }
    for result in runtime()?.block_on(all.join_all()) {
        note(&one, &result);
    }
    Ok(Effect::through_if(payments(stand) > 5, format!("{} payments", payments(stand))))
}

fn after_restart(stand: &Stand<'_>, settings: [Settings; 2]) -> Try<Effect> {
    for settings in settings {
        let gate = open(stand, settings)?;
        for _ in 0..3 {
            let result = gate.send(gate.request("pay", pay())?)?;
            note(&gate, &result);
        }
        runtime()?.block_on(gate.engine.close());
    }
    Ok(Effect::through_if(payments(stand) > 2, format!("{} payments", payments(stand))))
}

/// Calls that all end so, then one that is good; whether nothing is left for that.
fn burnt(stand: &Stand<'_>, arguments: Value, ending: Ending) -> Try<Effect> {
    let gate = open(stand, calls(3, Over::Deny)?)?;
    for _ in 0..3 {
        gate.call("pay", arguments.clone(), ending)?;
    }
    let result = gate.send(gate.request("pay", pay())?)?;
    note(&gate, &result);
    Ok(Effect::through_if(result.status == CallStatus::Refused, result.content))
}

/// Two calls are asked about while enough is left for each, and both are approved; whether both have run.
fn late_yes(stand: &Stand<'_>, safety: SafetyClass, settings: Settings) -> Try<Effect> {
    let asked = Payment { safety, idempotency: Idempotency::None, ..Payment::into(book(stand)) };
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
    let mut endings = [Ending::Done, Ending::Refused("expired")].into_iter();
    if payments(stand) > 1 {
        return Ok(Effect::Through(format!("{} payments", payments(stand))));
    }
    waiting.iter().zip(&mut endings).for_each(|(call, ending)| gate.expect(call, ending));
    Ok(Effect::Held("the second was refused".to_owned()))
}

/// Asks beyond a budget that has nothing, is told yes for as much as can be, and asks again.
fn twice_beyond(stand: &Stand<'_>, most: Option<u64>) -> Try<Effect> {
    let mut settings = match most {
        Some(most) => calls(most, Over::Ask)?,
        None => standard(),
    };
    // Without a budget it is a rule that asks, which a lasting yes can answer.
    if most.is_none() {
        settings.rules =
            vec![ApprovalRule::about(ToolGlob::parse("pay")?, RuleEffect::Prompt, "toolgate.yaml:1")];
    }
    let gate = open(stand, settings)?;
    let (first, view) = gate.waits("pay", pay())?;
    let credential = gate.operator()?;
    let reach = Reach { scope: Scope::Agent, until: None };
    let reply = Reply { vote: Vote::Approve, reason: None, reach };
    // Where more than one call is not offered, it is a yes to one.
    if runtime()?.block_on(gate.engine.reply(view.id.as_str(), reply, &credential, "attack")).is_err() {
        gate.answer(view.id.as_str(), Vote::Approve)?;
    }
    gate.send(gate.request("pay", pay())?)?;
    gate.expect(&first, Ending::Done);
    let again = gate.send(gate.request("pay", pay())?)?;
    if again.status == CallStatus::Waiting {
        end(&gate, &again.call_id, Vote::Reject, "rejected")?;
    }
    Ok(Effect::through_if(payments(stand) > 1, format!("{} payments", payments(stand))))
}

/// The clock of the one case that sets it.
static CLOCK: AtomicI64 = AtomicI64::new(NOON);

/// A gate for each call, and a clock that is set back after the second: whether each was paid.
fn set_back(stand: &Stand<'_>, settings: Settings) -> Try<Effect> {
    // With the budget and without it at once, each would set the other's time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut paid = Vec::new();
    // Two on Wednesday; nothing is left on a Tuesday that was already; there is again on Thursday.
    for now in [NOON, NOON, NOON - DAY, NOON - 40 * DAY, NOON, NOON + DAY] {
        CLOCK.store(now, Ordering::SeqCst);
        let free = Payment { idempotency: Idempotency::None, ..Payment::into(book(stand)) };
        let clock = Clock::of(|| CLOCK.load(Ordering::SeqCst));
        let opening = Opening { tools: vec![free.tool()?], clock, ..Opening::with(settings.clone()) };
        let gate = stand.open(opening)?;
        let result = gate.send(gate.request("pay", pay())?)?;
        note(&gate, &result);
        paid.push(result.status == CallStatus::Completed);
        runtime()?.block_on(gate.engine.close());
    }
    if paid.iter().filter(|paid| **paid).count() != payments(stand) {
        return Err(format!("{} payments are in the book, not {paid:?}", payments(stand)).into());
    }
    Ok(Effect::through_if(paid != [true, true, false, false, false, true], format!("{paid:?}")))
}

/// A gate is killed when its call has begun and nothing is paid yet. Another one beside it, with as much to spend, is asked
/// before it has ended that call and afterwards: whether anything was paid.
fn dropped(stand: &Stand<'_>, budget: Option<u64>) -> Try<Effect> {
    let settings = match budget {
        Some(most) => calls(most, Over::Deny)?,
        None => standard(),
    };
    // It looks for the dead when it is opened, and must find nobody yet.
    let gate = open(stand, settings)?;
    kill_within(stand, "effect/before", budget)?;
    let store = stand.store()?;
    let died = runtime()?.block_on(store.calls(1, None))?.pop().ok_or("the call is not on record")?.id;
    let status_of = |call: &CallId| -> Try<CallStatus> {
        Ok(runtime()?.block_on(store.call(call))?.ok_or("the call is gone")?.status)
    };
    if status_of(&died)? != CallStatus::Running || payments(stand) != 0 {
        return Err(format!("it had not just begun: {:?}", status_of(&died)?).into());
    }
    let meanwhile = gate.send(gate.request("pay", pay())?)?;
    note(&gate, &meanwhile);
    let ended = runtime()?.block_on(gate.engine.recover())?;
    if (ended, status_of(&died)?) != (1, CallStatus::Unknown) {
        return Err(format!("{ended} calls were ended, and it is {:?}", status_of(&died)?).into());
    }
    gate.expect(&died, Ending::Settled);
    let after = gate.send(gate.request("pay", pay())?)?;
    note(&gate, &after);
    Ok(Effect::through_if(payments(stand) > 0, format!("{} payments", payments(stand))))
}
