//! Who decides: people who are none any more, people who want it themselves, and amounts that hide from them.

use contract::{AgentName, Amount, CallStatus, Idempotency, OperatorName, SafetyClass, TaskName};
use engine::{AnswerRefused, Credential, LocalOperator, Request};
use policy::{
    Agent, AmountLimit, Amounts, ApprovalRule, ArgumentPath, Conditions, RuleEffect, Settings, ToolGlob,
};
use serde_json::{Value, json};
use store::{AnswerError, Role, Vote};

use super::approvals::{answered, deleted, end, furnished, paid, remove};
use super::payment::Payment;
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, settings_of, standard, trusted};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "proposer-approves",
            "whoever an agent works for does not approve what it asks",
            |stand| approve_own(stand, None),
            |stand| approve_own(stand, Some("me")),
        )
        .without("the proposer's exclusion", |stand| approve_own(stand, Some("somebody-else"))),
        Case::new(
            "two-proposers",
            "neither whoever makes a call nor the one for whom its agent works approves it, once or before",
            |stand| approve_for_agent(stand, None),
            |stand| approve_for_agent(stand, Some("me")),
        )
        .without("the second proposer's exclusion", |stand| approve_for_agent(stand, Some("third"))),
        Case::new(
            "joined-proposer",
            "whoever makes a call that waits already wants it, too, and does not approve it",
            |stand| approve_what_waits(stand, None, "second"),
            |stand| approve_what_waits(stand, Some("second"), "second"),
        )
        .without("the joined proposer's exclusion", |stand| {
            approve_what_waits(stand, Some("second"), "third")
        }),
        Case::new(
            "hired-for-the-answer",
            "one admin is not two people: whoever is added after a question was asked does not say yes to it",
            |stand| approve_by_two(stand, false),
            |stand| approve_by_two(stand, true),
        ),
        Case::new(
            "removed-operator",
            "whoever was removed decides nothing, and what they said does not count",
            |stand| {
                let gate = furnished(stand)?;
                let second = hire(&gate, "second", Role::Approver)?;
                let (_, view) = gate.waits("shell", remove("precious"))?;
                answered(&gate, view.id.as_str(), Vote::Approve, &second)??;
                gate.call("shell", remove("precious"), Ending::Done)?;
                deleted(stand, "precious")
            },
            |stand| {
                let gate = furnished(stand)?;
                let second = hire(&gate, "second", Role::Approver)?;
                let (before, view) = gate.waits("shell", remove("precious"))?;
                answered(&gate, view.id.as_str(), Vote::Approve, &second)??;
                fire(&gate, "second")?;
                let result = gate.send(gate.request("shell", remove("precious"))?)?;
                gate.expect(&before, Ending::Refused("expired"));
                if result.status == CallStatus::Waiting {
                    let id = result.approval.ok_or("nothing waits")?.id;
                    match answered(&gate, id.as_str(), Vote::Approve, &second)? {
                        Err(AnswerRefused::NotAnOperator) => {}
                        other => return Ok(Effect::Through(format!("{other:?}"))),
                    }
                    end(&gate, &result.call_id, Vote::Reject, "rejected")?;
                }
                deleted(stand, "precious")
            },
        ),
        Case::new(
            "two-operators-at-once",
            "of a yes and a no that come at once one counts, and the other is told so",
            |stand| {
                let gate = furnished(stand)?;
                let (_, view) = gate.waits("shell", remove("precious"))?;
                gate.answer(view.id.as_str(), Vote::Approve)?;
                gate.call("shell", remove("precious"), Ending::Done)?;
                deleted(stand, "precious")
            },
            decide_at_once,
        ),
        Case::new(
            "lost-key",
            "a new file in the place of the operator's credential makes nobody an operator",
            |stand| {
                let gate = furnished(stand)?;
                let known = matches!(gate.engine.local_operator(), LocalOperator::Known(_));
                Ok(Effect::through_if(known, "the first start makes one"))
            },
            |stand| {
                let gate = furnished(stand)?;
                let (call, view) = gate.waits("shell", remove("precious"))?;
                let key = stand.home().join("operator.key");
                let kept = std::fs::read_to_string(&key)?;
                std::fs::remove_file(&key)?;
                let lost = stand.gate(standard())?;
                if key.exists() || matches!(lost.engine.local_operator(), LocalOperator::Known(_)) {
                    return Ok(Effect::Through("a new credential was made".to_owned()));
                }
                super::secrets::private(&key, &"a".repeat(64))?;
                let forged = Credential::presented(&"a".repeat(64));
                let again = stand.gate(standard())?;
                if answered(&again, view.id.as_str(), Vote::Approve, &forged)?.is_ok() {
                    return Ok(Effect::Through("it was taken for the operator's".to_owned()));
                }
                std::fs::remove_file(&key)?;
                super::secrets::private(&key, &kept)?;
                end(&gate, &call, Vote::Reject, "rejected")?;
                deleted(stand, "precious")
            },
        ),
        Case::new(
            "unseen-question",
            "an answer is to the questions that were shown, not to the same asked later",
            |stand| {
                let gate = furnished(stand)?;
                let ids = [ask_for_task(&gate, "one")?, ask_for_task(&gate, "two")?];
                let shown = runtime()?.block_on(gate.engine.waiting())?;
                let is_one = shown.len() == 1 && shown.iter().all(|question| question.folded.len() == 1);
                ids.iter().try_for_each(|id| gate.answer(id, Vote::Reject))?;
                Ok(Effect::through_if(is_one, format!("two that are the same are shown as one: {shown:?}")))
            },
            |stand| {
                let gate = furnished(stand)?;
                let first = ask_for_task(&gate, "one")?;
                // Seen by a person now; the second comes before they answer.
                let shown = runtime()?.block_on(gate.engine.waiting())?;
                let second = ask_for_task(&gate, "two")?;
                for question in &shown {
                    gate.answer(question.approval.id.as_str(), Vote::Approve)?;
                    question
                        .folded
                        .iter()
                        .try_for_each(|folded| gate.answer(folded.id.as_str(), Vote::Approve))?;
                }
                gate.ask(for_task(&gate, "one")?, Ending::Done)?;
                stand.put("build/x", "again")?;
                let result = gate.send(for_task(&gate, "two")?)?;
                if result.status != CallStatus::Waiting || first == second {
                    return Ok(Effect::Through(result.content));
                }
                end(&gate, &result.call_id, Vote::Reject, "rejected")?;
                deleted(stand, "build")
            },
        ),
        Case::new(
            "hidden-amount",
            "an amount that is missing, misspelt, nested or not a number gets past no rule",
            |stand| {
                // What the rule lets through is paid.
                let gate = limited(stand, limits()?)?;
                gate.call("pay", json!({ "amount": 10 }), Ending::Done)?;
                paid(stand, 1)
            },
            |stand| {
                let gate = limited(stand, limits()?)?;
                for arguments in hidden_amounts() {
                    let (call, _) = gate.waits("pay", arguments)?;
                    end(&gate, &call, Vote::Reject, "rejected")?;
                }
                paid(stand, 1)
            },
        )
        .without("the rule about amounts", |stand| {
            let gate = limited(stand, trusted())?;
            for arguments in hidden_amounts() {
                gate.call("pay", arguments, Ending::Done)?;
            }
            paid(stand, hidden_amounts().len())
        }),
    ]
}

/// Adds somebody, as the local operator does.
fn hire(gate: &Gate<'_>, name: &str, role: Role) -> Try<Credential> {
    let by = gate.operator()?;
    Ok(runtime()?.block_on(gate.engine.add_operator(&OperatorName::parse(name)?, role, &by))?)
}

fn fire(gate: &Gate<'_>, name: &str) -> Try<()> {
    let by = gate.operator()?;
    Ok(runtime()?.block_on(gate.engine.remove_operator(&OperatorName::parse(name)?, &by))?)
}

/// An agent asks; somebody makes the same call for it, and somebody says yes.
fn approve_what_waits(stand: &Stand<'_>, joins: Option<&str>, answers: &str) -> Try<Effect> {
    let gate = furnished(stand)?;
    let people = ["second", "third"].map(|name| (name, hire(&gate, name, Role::Approver)));
    let (first, view) = gate.waits("shell", remove("precious"))?;
    if let Some(name) = joins {
        let proposer = Some(OperatorName::parse(name)?);
        let joined = gate.send(Request { proposer, ..gate.request("shell", remove("precious"))? })?;
        if joined.call_id != first {
            return Err("it is another call".into());
        }
    }
    let (_, credential) = people.into_iter().find(|(name, _)| *name == answers).ok_or("nobody")?;
    match answered(&gate, view.id.as_str(), Vote::Approve, &credential?)? {
        Ok(()) => {
            gate.call("shell", remove("precious"), Ending::Done)?;
        }
        Err(AnswerRefused::Answer(AnswerError::Proposer { .. })) => {
            let waiting = runtime()?.block_on(gate.engine.waiting())?;
            let named =
                waiting.iter().any(|waiting| waiting.proposers.iter().any(|by| by.as_str() == answers));
            if !named {
                return Ok(Effect::Through("nobody is told that they want it".to_owned()));
            }
            end(&gate, &first, Vote::Reject, "rejected")?;
        }
        Err(other) => return Err(other.into()),
    }
    deleted(stand, "precious")
}

/// Two have to say yes: the local operator, and somebody whom they add, before or after it was asked.
fn approve_by_two(stand: &Stand<'_>, added_after: bool) -> Try<Effect> {
    let pay = Payment {
        safety: SafetyClass::Privileged,
        idempotency: Idempotency::None,
        ..Payment::into(stand.place.path("book"))
    };
    let gate = stand.open(Opening { tools: vec![pay.tool()?], ..Opening::with(standard()) })?;
    // Somebody who could be the second, and never answers.
    hire(&gate, "absent", Role::Approver)?;
    let before = (!added_after).then(|| hire(&gate, "sock", Role::Approver)).transpose()?;
    let (call, view) = gate.waits("pay", json!({ "amount": 1 }))?;
    answered(&gate, view.id.as_str(), Vote::Approve, &gate.operator()?)??;
    let sock = match before {
        Some(sock) => sock,
        None => hire(&gate, "sock", Role::Approver)?,
    };
    match answered(&gate, view.id.as_str(), Vote::Approve, &sock)? {
        Ok(()) => {
            gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
        }
        Err(AnswerRefused::Answer(AnswerError::TooNew { .. })) => {
            // Nor by another credential of somebody who was there.
            let (absent, me) = (OperatorName::parse("absent")?, gate.operator()?);
            let absent = runtime()?.block_on(gate.engine.rotate_operator(&absent, &me))?;
            if answered(&gate, view.id.as_str(), Vote::Approve, &absent)?.is_ok() {
                return Ok(Effect::Through("a new credential of another counts".to_owned()));
            }
            answered(&gate, view.id.as_str(), Vote::Reject, &sock)??;
            gate.expect(&call, Ending::Refused("rejected"));
        }
        Err(other) => return Err(other.into()),
    }
    paid(stand, 1)
}

/// The local operator approves a call of an agent that works for somebody.
/// Somebody else makes the call for the agent; `me` says yes to it.
fn approve_for_agent(stand: &Stand<'_>, works_for: Option<&str>) -> Try<Effect> {
    let gate = furnished(stand)?;
    for name in ["second", "third"] {
        hire(&gate, name, Role::Approver)?;
    }
    let operator = works_for.map(OperatorName::parse).transpose()?;
    let gate = stand.gate(settings_of(Agent { operator, ..Agent::default() }))?;
    let second = OperatorName::parse("second")?;
    let by_second = || -> Try<Request> {
        Ok(Request { proposer: Some(second.clone()), ..gate.request("shell", remove("precious"))? })
    };
    let id = gate.send(by_second()?)?.approval.ok_or("it does not wait")?.id;
    match answered(&gate, id.as_str(), Vote::Approve, &gate.operator()?)? {
        Ok(()) => {
            gate.ask(by_second()?, Ending::Done)?;
        }
        Err(AnswerRefused::Answer(AnswerError::Proposer { .. })) => {
            let store = gate.engine.store();
            runtime()?.block_on(store.cancel(&id, gate.engine.now()))?;
            gate.call("fs.read", json!({ "path": "nowhere" }), Ending::Settled)?;
        }
        Err(other) => return Err(other.into()),
    }
    deleted(stand, "precious")
}

fn approve_own(stand: &Stand<'_>, works_for: Option<&str>) -> Try<Effect> {
    let gate = furnished(stand)?;
    for name in ["second", "somebody-else"] {
        hire(&gate, name, Role::Approver)?;
    }
    let operator = works_for.map(OperatorName::parse).transpose()?;
    let gate = stand.gate(settings_of(Agent { operator, ..Agent::default() }))?;
    let (call, view) = gate.waits("shell", remove("precious"))?;
    let own = gate.operator()?;
    match answered(&gate, view.id.as_str(), Vote::Approve, &own)? {
        Ok(()) => {
            gate.call("shell", remove("precious"), Ending::Done)?;
            deleted(stand, "precious")
        }
        Err(AnswerRefused::Answer(AnswerError::Proposer { .. })) => {
            // Nor by anything else they could say; time ends it.
            let no = answered(&gate, view.id.as_str(), Vote::Reject, &own)?;
            gate.waits("shell", remove("precious"))?;
            let store = gate.engine.store();
            runtime()?.block_on(store.cancel(&view.id, gate.engine.now()))?;
            let refused = gate.call("fs.read", json!({ "path": "nowhere" }), Ending::Settled)?;
            if no.is_ok() || refused.call_id == call {
                return Ok(Effect::Through("they said no to it".to_owned()));
            }
            deleted(stand, "precious")
        }
        Err(error) => Err(error.into()),
    }
}

fn decide_at_once(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (me, second) = (gate.operator()?, hire(&gate, "second", Role::Approver)?);
    for round in 0..6 {
        let (call, view) = gate.waits("shell", remove("precious"))?;
        let (engine, other) = (gate.engine.clone(), stand.gate(standard())?.engine.clone());
        let id = view.id.as_str();
        let (yes, no) = runtime()?.block_on(async {
            tokio::join!(
                engine.answer(id, Vote::Approve, None, &me, "attack"),
                other.answer(id, Vote::Reject, None, &second, "attack"),
            )
        });
        match (yes, no) {
            (Ok(_), Err(AnswerRefused::Answer(AnswerError::Decided { .. }))) => {
                gate.call("shell", remove("precious"), Ending::Settled)?;
                stand.put("precious", "again")?;
            }
            (Err(AnswerRefused::Answer(AnswerError::Decided { .. })), Ok(_)) => {
                gate.expect(&call, Ending::Refused("rejected"));
            }
            both => return Ok(Effect::Through(format!("round {round}: {both:?}"))),
        }
    }
    Ok(Effect::Held("one of the two counted, each time".to_owned()))
}

/// The same thing, for a task.
fn for_task(gate: &Gate<'_>, task: &str) -> Try<engine::Request> {
    Ok(engine::Request { task: Some(TaskName::parse(task)?), ..gate.request("shell", remove("build"))? })
}

fn ask_for_task(gate: &Gate<'_>, task: &str) -> Try<String> {
    let result = gate.send(for_task(gate, task)?)?;
    Ok(result.approval.ok_or("it does not wait")?.id.to_string())
}

// ---- amounts

/// A tool that pays whatever it is told, however it is told.
fn limited<'a>(stand: &'a Stand<'a>, settings: Settings) -> Try<Gate<'a>> {
    let payment = Payment {
        safety: SafetyClass::Write,
        idempotency: Idempotency::None,
        any: true,
        ..Payment::into(stand.place.path("book"))
    };
    stand.open(Opening { tools: vec![payment.tool()?], ..Opening::with(settings) })
}

/// Payments up to 10 are free; more is asked for.
fn limits() -> Try<Settings> {
    let limit = |amounts| -> Try<Conditions> {
        let argument = ArgumentPath::parse("amount")?;
        Ok(Conditions { amount: Some(AmountLimit { argument, amounts }), ..Conditions::default() })
    };
    let rule = |effect, when| -> Try<ApprovalRule> {
        Ok(ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse("pay")?, effect, "x:1") })
    };
    let ten = Amount::parse(10.0)?;
    let rules = vec![
        rule(RuleEffect::Approve, limit(Amounts::UpTo(ten))?)?,
        rule(RuleEffect::Prompt, limit(Amounts::Over(ten))?)?,
    ];
    let agent = (AgentName::parse(AGENT)?, Agent::default());
    Ok(Settings { agents: [agent].into(), rules, ..Settings::default() })
}

fn hidden_amounts() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "amt": 1000 }),
        json!({ "Amount": 1000 }),
        json!({ "amount": "1000" }),
        json!({ "amount": -1000 }),
        json!({ "amount": [1000] }),
        json!({ "payment": { "amount": 1000 } }),
        json!({ "amount": 1, "total": 1000 }),
        json!({ "amount": 1, "lines": [{ "amount": 1000 }] }),
        json!({ "amount": 1, "\u{430}mount": 1000 }),
        json!({ "amount": 1, "cents": 10_000_000 }),
        json!({ "amount": 1, "feeUsd": 1000 }),
        json!({ "amount": 1, "qty": 1000 }),
        json!({ "amount": 1, "charge": 1000 }),
        json!({ "amount": 1, "units": 1000 }),
        json!({ "amount": 1, "currency": "BTC" }),
        json!({ "amount": 10.000_001 }),
        json!({ "amount": 1e3 }),
    ]
}
