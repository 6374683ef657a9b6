//! Questions to people, and what must not count as their answer.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use contract::{
    AgentName, ApprovalId, Autonomy, CallId, CallStatus, Idempotency, OperatorName, ReceiptBody, SafetyClass,
};
use engine::{AnswerRefused, Credential, Waiting};
use policy::{Agent, ApprovalRule, RuleEffect, Settings, ToolGlob};
use serde_json::{Value, json};
use store::{AnswerError, CallRow, Role, Settlement, Vote};
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, settings_of, standard, trusted};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "unasked",
            "what has to be asked for does not happen while nobody has answered",
            |stand| deleted_bare(stand, "precious"),
            |stand| {
                let gate = furnished(stand)?;
                let (call, _) = gate.waits("shell", remove("precious"))?;
                // Nor by asking for it again, nor by asking how it is.
                gate.waits("shell", remove("precious"))?;
                status(&gate, AGENT, &call)?;
                end(&gate, &call, Vote::Reject, "rejected")?;
                deleted(stand, "precious")
            },
        )
        .without("the question", |stand| {
            stand.put("precious", "x")?;
            stand.gate(trusted())?.call("shell", remove("precious"), Ending::Done)?;
            deleted(stand, "precious")
        }),
        Case::new(
            "yes-to-another-call",
            "a yes is good for the very call it was given to, and no other",
            control_another_call,
            use_for_another_call,
        ),
        Case::new("used-twice", "a yes is good once", control_twice, use_twice),
        Case::new(
            "changed-while-waiting",
            "a yes that was given under another policy is none",
            control_changed,
            change_while_waiting,
        ),
        Case::new(
            "another-workspace",
            "a yes that was given for one workspace is none in another",
            |stand| {
                stand.place.file("other/build/x", "x")?;
                stand.bare("rm", &["-r", "build"], &stand.place.path("other"))?;
                Ok(Effect::through_if(!stand.place.path("other/build").exists(), "the same words, elsewhere"))
            },
            run_elsewhere,
        ),
        Case::new(
            "completed-without-a-yes",
            "a call that waits, or was refused, cannot be completed behind the gate's back",
            control_complete,
            complete_unasked,
        ),
        Case::new(
            "decided-twice",
            "a question that was answered is not answered again, nor by the same person twice",
            |stand| {
                // The second answer, if it were the first.
                let gate = furnished(stand)?;
                let (_, view) = gate.waits("shell", remove("build"))?;
                gate.answer(view.id.as_str(), Vote::Approve)?;
                gate.call("shell", remove("build"), Ending::Done)?;
                deleted(stand, "build")
            },
            decide_twice,
        ),
        Case::new(
            "wrong-credential",
            "whoever answers has the operator's credential, not just any",
            |stand| {
                // The same answer with the right one.
                let gate = furnished(stand)?;
                let (_, view) = gate.waits("shell", remove("build"))?;
                let credential = Credential::load_or_create(&stand.home())?;
                let taken = answered(&gate, view.id.as_str(), Vote::Approve, &credential)?;
                Ok(Effect::through_if(taken.is_ok(), format!("{taken:?}")))
            },
            answer_as_nobody,
        ),
        Case::new(
            "empty-credential",
            "a credential file that was cut off makes nobody an operator",
            |stand| {
                // What is registered with nothing is known by nothing.
                let store = stand.store()?;
                let nothing = Credential::presented("").digest();
                let found = runtime()?.block_on(async {
                    store.add_operator(&OperatorName::parse("nobody")?, Role::Admin, nothing, 1).await?;
                    Try::Ok(store.operator_by_credential(&Credential::presented(" \n").digest()).await?)
                })?;
                Ok(Effect::through_if(found.is_some(), "nobody is an operator"))
            },
            answer_with_nothing,
        )
        .before_any_call(),
        Case::new(
            "late-answer",
            "an answer after its time changes nothing, and the call is over",
            |stand| deleted_bare(stand, "precious"),
            answer_late,
        ),
        Case::new(
            "anothers-question",
            "an agent cannot use or see what was answered to another",
            control_another_call,
            use_anothers,
        ),
        Case::new(
            "guessed-question",
            "a question is not found by guessing a little of its id",
            |stand| {
                let gate = furnished(stand)?;
                let (_, view) = gate.waits("shell", remove("precious"))?;
                let guess = "0123456789abcdef".chars().find(|c| view.id.as_str().starts_with(*c));
                Ok(Effect::through_if(guess.is_some(), "sixteen guesses at most"))
            },
            guess,
        ),
        Case::new(
            "nobody-to-ask",
            "what two people must approve is refused where there are not two",
            |stand| {
                let gate = paying(stand, SafetyClass::Write, Idempotency::None)?;
                gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
                paid(stand, 1)
            },
            |stand| {
                let gate = paying(stand, SafetyClass::Privileged, Idempotency::None)?;
                gate.call("pay", json!({ "amount": 1 }), Ending::Refused("no_operator"))?;
                paid(stand, 1)
            },
        ),
        Case::new(
            "same-person-twice",
            "what two people must approve is not approved by one who answers twice",
            |stand| {
                // Where one is enough, one is enough.
                let gate = paying(stand, SafetyClass::Financial, Idempotency::None)?;
                let (_, view) = gate.waits("pay", json!({ "amount": 1 }))?;
                gate.answer(view.id.as_str(), Vote::Approve)?;
                gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
                paid(stand, 1)
            },
            approve_alone,
        ),
        Case::new(
            "shown-in-part",
            "whoever is asked sees every word of what would run",
            |_| {
                let call = hidden_part();
                let shown = format!("{:?} {:?}", call.get("command"), call.get("args"));
                Ok(Effect::through_if(!shown.contains("PRECIOUS"), "the first command alone is harmless"))
            },
            show_in_part,
        ),
        Case::new(
            "proposed-again",
            "the same payment proposed again is the same payment",
            |stand| {
                let gate = paying(stand, SafetyClass::Write, Idempotency::None)?;
                gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
                gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
                paid(stand, 2)
            },
            propose_again,
        )
        .without("the claim on a payment", |stand| {
            let gate = paying(stand, SafetyClass::Write, Idempotency::Optional)?;
            for _ in 0..2 {
                gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
            }
            paid(stand, 2)
        }),
        Case::new(
            "two-gates-one-yes",
            "two gates that wait for the same yes run it once",
            |stand| {
                stand.bare("sh", &["-c", "echo x >> book; echo x >> book"], &stand.workspace)?;
                lines(stand, 2)
            },
            run_at_two_gates,
        ),
    ]
}

// ---- what is asked for

/// Deletes something: everybody has to ask for that.
pub(super) fn remove(name: &str) -> Value {
    json!({ "command": "rm", "args": ["-r", name], "profile": "mutate" })
}

pub(super) fn furnished<'a>(stand: &'a Stand<'a>) -> Try<Gate<'a>> {
    for name in ["precious", "other", "build/x"] {
        stand.put(name, "x")?;
    }
    stand.gate(standard())
}

pub(super) fn deleted(stand: &Stand<'_>, name: &str) -> Try<Effect> {
    Ok(Effect::through_if(!stand.workspace.join(name).exists(), format!("`{name}` and its fate")))
}

fn deleted_bare(stand: &Stand<'_>, name: &str) -> Try<Effect> {
    stand.put(name, "x")?;
    stand.bare("rm", &["-r", name], &stand.workspace)?;
    deleted(stand, name)
}

fn status(gate: &Gate<'_>, agent: &str, call: &CallId) -> Try<Option<CallStatus>> {
    let agent = AgentName::parse(agent)?;
    let result =
        runtime()?.block_on(gate.engine.collect(&agent, call, Duration::ZERO, CancellationToken::new()))?;
    Ok(result.map(|result| result.status))
}

/// Answers what a call waits for, and has it end so.
pub(super) fn end(gate: &Gate<'_>, call: &CallId, vote: Vote, code: &'static str) -> Try<()> {
    let row = row(gate, call)?;
    gate.answer(row.approval.ok_or("the call waits for nothing")?.as_str(), vote)?;
    gate.expect(call, Ending::Refused(code));
    Ok(())
}

pub(super) fn row(gate: &Gate<'_>, call: &CallId) -> Try<CallRow> {
    Ok(runtime()?.block_on(gate.engine.store().call(call))?.ok_or("the call is lost")?)
}

// ---- a yes, and what it is good for

/// With a yes of its own, the call runs.
fn control_another_call(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (_, view) = gate.waits("shell", remove("precious"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.call("shell", remove("precious"), Ending::Done)?;
    deleted(stand, "precious")
}

fn use_for_another_call(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (_, view) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    let mut others = vec![remove("precious")];
    for (key, value) in [("cwd", json!(".")), ("env", json!({ "A": "b" })), ("timeout", json!(5))] {
        let mut call = remove("build");
        call.as_object_mut().map(|members| members.insert(key.to_owned(), value));
        others.push(call);
    }
    for other in others {
        let (call, _) = gate.waits("shell", other)?;
        end(&gate, &call, Vote::Reject, "rejected")?;
    }
    // For another task it is another call.
    let request = engine::Request { task: None, ..gate.request("shell", remove("build"))? };
    let result = gate.send(request)?;
    end(&gate, &result.call_id, Vote::Reject, "rejected")?;
    let gone = deleted(stand, "build")?;
    Ok(if matches!(gone, Effect::Through(_)) { gone } else { deleted(stand, "precious")? })
}

fn control_twice(stand: &Stand<'_>) -> Try<Effect> {
    for _ in 0..2 {
        deleted_bare(stand, "build")?;
    }
    deleted(stand, "build")
}

fn use_twice(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (_, view) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.call("shell", remove("build"), Ending::Done)?;
    if !matches!(deleted(stand, "build")?, Effect::Through(_)) {
        return Err("the approved call did not run".into());
    }
    stand.put("build/x", "again")?;
    let (call, again) = gate.waits("shell", remove("build"))?;
    let authority = json!({});
    let store = gate.engine.store();
    let started = runtime()?.block_on(store.start_approved(&call, &view.id, authority, gate.engine.now()))?;
    if started || again.id == view.id {
        return Ok(Effect::Through("the same yes was taken again".to_owned()));
    }
    end(&gate, &call, Vote::Reject, "rejected")?;
    deleted(stand, "build")
}

fn control_changed(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (_, view) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    // The same policy: it runs.
    furnished(stand)?.call("shell", remove("build"), Ending::Done)?;
    deleted(stand, "build")
}

fn change_while_waiting(stand: &Stand<'_>) -> Try<Effect> {
    let denies = ApprovalRule::about(ToolGlob::parse("shell")?, RuleEffect::Deny, "x:1");
    let locked = settings_of(Agent { autonomy: Autonomy::Locked, ..Agent::default() });
    let other = Settings { ask_for: 77_000, ..standard() };
    let changes = [
        (Settings { rules: vec![denies], ..standard() }, "denied_by_rule"),
        (locked, "locked"),
        (other, "expired"),
        (Settings::default(), "unknown_agent"),
    ];
    for (changed, code) in changes {
        let gate = furnished(stand)?;
        let (call, view) = gate.waits("shell", remove("build"))?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        let later = stand.gate(changed)?;
        later.send(later.request("shell", remove("build"))?)?;
        later.expect(&call, Ending::Refused(code));
        if matches!(deleted(stand, "build")?, Effect::Through(_)) {
            return Ok(Effect::Through(format!("it ran under a policy that says {code}")));
        }
    }
    Ok(Effect::Held("it never ran".to_owned()))
}

fn run_elsewhere(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let other = stand.place.folder("other")?;
    stand.place.file("other/build/x", "x")?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    let elsewhere = stand.open(Opening { workspace: Some(other.clone()), ..Opening::with(standard()) })?;
    let result = elsewhere.send(elsewhere.request("shell", remove("build"))?)?;
    status(&elsewhere, AGENT, &call)?;
    if !other.join("build").exists() {
        return Ok(Effect::Through(format!("it ran in the other workspace: {}", result.content)));
    }
    end(&elsewhere, &result.call_id, Vote::Reject, "rejected")?;
    // Where it was asked for, it still runs.
    gate.call("shell", remove("build"), Ending::Done)?;
    Ok(Effect::through_if(stand.workspace.join("build").exists(), "it did not run where it was approved"))
}

// ---- around the gate

/// One that people have said yes to is started and completed in the very same way.
fn control_complete(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    let done = start(&gate, &call, &view.id)? && complete(&gate, &call)?;
    Ok(Effect::through_if(done, "it was completed, and nothing has run"))
}

/// Says of a call that it ran and went well.
fn complete(gate: &Gate<'_>, call: &CallId) -> Try<bool> {
    let row = row(gate, call)?;
    let settlement = Settlement {
        call: row.id.clone(),
        status: CallStatus::Completed,
        body: forged(&row),
        result: "{}".to_owned(),
        raw: None,
        artifacts: Vec::new(),
        now: gate.engine.now(),
    };
    Ok(runtime()?.block_on(gate.engine.store().settle(&settlement)).is_ok())
}

fn start(gate: &Gate<'_>, call: &CallId, approval: &ApprovalId) -> Try<bool> {
    let store = gate.engine.store();
    Ok(runtime()?.block_on(store.start_approved(call, approval, json!({}), gate.engine.now()))?)
}

fn complete_unasked(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    if complete(&gate, &call)? || start(&gate, &call, &view.id)? {
        return Ok(Effect::Through("a waiting call was completed or started".to_owned()));
    }
    end(&gate, &call, Vote::Reject, "rejected")?;
    if complete(&gate, &call)? || start(&gate, &call, &view.id)? {
        return Ok(Effect::Through("a rejected call was completed or started".to_owned()));
    }
    deleted(stand, "build")
}

fn forged(row: &CallRow) -> ReceiptBody {
    ReceiptBody {
        version: 1,
        call_id: row.id.clone(),
        agent: row.agent.clone(),
        task: row.task.clone(),
        purpose: row.purpose.clone(),
        tool: row.tool.clone(),
        contract: row.contract,
        request: row.request,
        arguments: row.arguments,
        policy: row.policy,
        approval: None,
        operands: None,
        status: CallStatus::Completed,
        reason: None,
        run: None,
        cost: None,
        asked_at: row.asked_at,
        settled_at: row.asked_at,
        reconciled: None,
    }
}

// ---- who answers

pub(super) fn answered(
    gate: &Gate<'_>,
    id: &str,
    vote: Vote,
    credential: &Credential,
) -> Try<Result<(), AnswerRefused>> {
    Ok(runtime()?.block_on(gate.engine.answer(id, vote, None, credential, "attack")).map(drop))
}

fn decide_twice(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let credential = Credential::load_or_create(&stand.home())?;
    for first in [Vote::Reject, Vote::Approve] {
        let (call, view) = gate.waits("shell", remove("build"))?;
        gate.answer(view.id.as_str(), first)?;
        for second in [Vote::Approve, Vote::Reject] {
            match answered(&gate, view.id.as_str(), second, &credential)? {
                Err(AnswerRefused::Answer(AnswerError::Decided { .. })) => {}
                other => return Ok(Effect::Through(format!("{second:?} after {first:?}: {other:?}"))),
            }
        }
        if first == Vote::Reject {
            gate.expect(&call, Ending::Refused("rejected"));
            if matches!(deleted(stand, "build")?, Effect::Through(_)) {
                return Ok(Effect::Through("it ran after a no".to_owned()));
            }
        }
    }
    Ok(Effect::Held("the first answer counts".to_owned()))
}

fn answer_as_nobody(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    let true_one = fs::read_to_string(stand.home().join("operator.key"))?;
    let shorter = true_one.get(1..).unwrap_or_default().to_owned();
    let longer = format!("{true_one}0");
    let digest = Credential::presented(&true_one).digest().to_string();
    for text in ["", "x", "me", "admin", &shorter, &longer, &true_one.to_uppercase(), &digest] {
        match answered(&gate, view.id.as_str(), Vote::Approve, &Credential::presented(text))? {
            Err(AnswerRefused::NotAnOperator) => {}
            other => return Ok(Effect::Through(format!("`{text}` was taken: {other:?}"))),
        }
    }
    gate.waits("shell", remove("build"))?;
    end(&gate, &call, Vote::Reject, "rejected")?;
    deleted(stand, "build")
}

/// What is left when a gate ends between making the file and writing it.
fn answer_with_nothing(stand: &Stand<'_>) -> Try<Effect> {
    for left in ["", "\n", "ab"] {
        super::secrets::private(&stand.home().join("operator.key"), left)?;
        let Ok(gate) = stand.gate(standard()) else { continue };
        let digest = Credential::presented(left).digest();
        let operator = runtime()?.block_on(gate.engine.store().operator_by_credential(&digest))?;
        if let Some(operator) = operator {
            return Ok(Effect::Through(format!("{left:?} is the credential of `{}`", operator.name)));
        }
    }
    // The store is made by whoever may: the trace looks at it.
    fs::remove_file(stand.home().join("operator.key"))?;
    stand.gate(standard())?;
    Ok(Effect::Held("it is nobody's".to_owned()))
}

fn answer_late(stand: &Stand<'_>) -> Try<Effect> {
    furnished(stand)?;
    let gate = stand.gate(Settings { ask_for: 2000, ..standard() })?;
    let (call, view) = gate.waits("shell", remove("precious"))?;
    while gate.engine.now() <= view.expires_at {
        std::thread::sleep(Duration::from_millis(10));
    }
    let credential = Credential::load_or_create(&stand.home())?;
    if answered(&gate, view.id.as_str(), Vote::Approve, &credential)?.is_ok() {
        return Ok(Effect::Through("the answer was taken".to_owned()));
    }
    gate.expect(&call, Ending::Refused("expired"));
    // Asking again asks anew.
    let (again, _) = gate.waits("shell", remove("precious"))?;
    if again == call {
        return Ok(Effect::Through("the call is not over".to_owned()));
    }
    deleted(stand, "precious")
}

fn use_anothers(stand: &Stand<'_>) -> Try<Effect> {
    furnished(stand)?;
    let mut settings = standard();
    settings.agents.insert(AgentName::parse("other")?, Agent::default());
    let gate = stand.gate(settings)?;
    let (call, view) = gate.waits("shell", remove("precious"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    if status(&gate, "other", &call)?.is_some() {
        return Ok(Effect::Through("another agent sees the call".to_owned()));
    }
    let request =
        engine::Request { agent: AgentName::parse("other")?, ..gate.request("shell", remove("precious"))? };
    let result = gate.send(request)?;
    end(&gate, &result.call_id, Vote::Reject, "rejected")?;
    deleted(stand, "precious")
}

fn guess(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let credential = Credential::load_or_create(&stand.home())?;
    let (call, view) = gate.waits("shell", remove("precious"))?;
    let id = view.id.as_str();
    let upper = id.to_uppercase();
    let short: String = id.chars().take(3).collect();
    for text in ["", "%", "_", "*", "' OR 1=1 --", &short, &upper, &format!("{id}0"), &format!("{short}%")] {
        if answered(&gate, text, Vote::Approve, &credential)?.is_ok() && *text != upper {
            return Ok(Effect::Through(format!("`{text}` is enough")));
        }
    }
    let ids: Vec<CallId> =
        (0..8).map(|n| gate.waits("shell", remove(&format!("x{n}"))).map(|it| it.0)).collect::<Try<_>>()?;
    let mut begins: Vec<&str> = ids.iter().filter_map(|id| id.as_str().get(..8)).collect();
    begins.sort_unstable();
    begins.dedup();
    if begins.len() != ids.len() || ids.iter().any(|id| id.as_str().len() != 32) {
        return Ok(Effect::Through(format!("ids are not random: {ids:?}")));
    }
    end(&gate, &call, Vote::Reject, "rejected")?;
    deleted(stand, "precious")
}

// ---- payments

fn book(stand: &Stand<'_>) -> PathBuf {
    stand.place.path("book")
}

pub(super) fn paying<'a>(
    stand: &'a Stand<'a>,
    safety: SafetyClass,
    idempotency: Idempotency,
) -> Try<Gate<'a>> {
    let tool = Payment { safety, idempotency, ..Payment::into(book(stand)) }.tool()?;
    stand.open(Opening { tools: vec![tool], ..Opening::with(standard()) })
}

/// Whether at least so many payments were made.
pub(super) fn paid(stand: &Stand<'_>, least: usize) -> Try<Effect> {
    let book = fs::read_to_string(book(stand)).unwrap_or_default();
    Ok(Effect::through_if(book.lines().count() >= least, format!("paid: {book:?}")))
}

fn approve_alone(stand: &Stand<'_>) -> Try<Effect> {
    let gate = paying(stand, SafetyClass::Privileged, Idempotency::None)?;
    let second = Credential::presented("the second person's credential");
    let store = gate.engine.store();
    let name = OperatorName::parse("second")?;
    runtime()?.block_on(store.add_operator(&name, Role::Viewer, second.digest(), gate.engine.now()))?;
    // Somebody who could be the second to approve, and never answers.
    let (absent, unused) = (OperatorName::parse("absent")?, Credential::presented("of nobody here"));
    runtime()?.block_on(store.add_operator(&absent, Role::Approver, unused.digest(), gate.engine.now()))?;
    let (call, view) = gate.waits("pay", json!({ "amount": 1 }))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.waits("pay", json!({ "amount": 1 }))?;
    let own = Credential::load_or_create(&stand.home())?;
    let twice = answered(&gate, view.id.as_str(), Vote::Approve, &own)?;
    let viewer = answered(&gate, view.id.as_str(), Vote::Approve, &second)?;
    if twice.is_ok() || viewer.is_ok() {
        return Ok(Effect::Through(format!("{twice:?} {viewer:?}")));
    }
    gate.waits("pay", json!({ "amount": 1 }))?;
    let cancelled = runtime()?.block_on(store.cancel(&view.id, gate.engine.now()));
    cancelled?;
    // Whoever joins it now hears that it is over, and a new one is asked.
    let refused = gate.call("pay", json!({ "amount": 1000 }), Ending::Refused("bad_arguments"))?;
    if refused.call_id == call {
        return Err("the calls are one".into());
    }
    paid(stand, 1)
}

fn propose_again(stand: &Stand<'_>) -> Try<Effect> {
    let gate = paying(stand, SafetyClass::Write, Idempotency::Required)?;
    let first = gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
    // In other words, with another purpose, at another gate of the same store.
    let mut again = gate.request("pay", json!({ "amount": 1.0 }))?;
    again.purpose = Some("now with feeling".to_owned());
    let second = gate.ask(again.clone(), Ending::Done)?;
    let other = paying(stand, SafetyClass::Write, Idempotency::Required)?;
    let third = other.ask(again, Ending::Done)?;
    if [&second, &third].iter().any(|result| result.call_id != first.call_id) {
        return Ok(Effect::Through("it was taken for another call".to_owned()));
    }
    // Under a key of its own, another amount is a conflict and not a payment.
    let key = Some(contract::Key::parse("k1")?);
    let keyed = engine::Request { key: key.clone(), ..gate.request("pay", json!({ "amount": 2 }))? };
    gate.ask(keyed, Ending::Done)?;
    let changed = engine::Request { key, ..gate.request("pay", json!({ "amount": 3 }))? };
    gate.ask(changed, Ending::Refused("key_conflict"))?;
    paid(stand, 3)
}

// ---- what people see

fn hidden_part() -> Value {
    json!({
        "command": "touch",
        "args": ["notes"],
        "stages": [{ "command": "rm", "args": ["-rf", "PRECIOUS"] }],
        "cwd": "SUB",
        "env": { "VARIABLE": "VALUE" },
        "profile": "mutate",
    })
}

fn show_in_part(stand: &Stand<'_>) -> Try<Effect> {
    stand.place.folder("work/SUB")?;
    let gate = furnished(stand)?;
    let (call, _) = gate.waits("shell", hidden_part())?;
    let waiting = runtime()?.block_on(gate.engine.waiting())?;
    let question = waiting.iter().find(|question| question.approval.call == call).ok_or("nobody is asked")?;
    let shown = seen_by_people(question);
    end(&gate, &call, Vote::Reject, "rejected")?;
    let missing: Vec<&str> = ["touch", "rm", "PRECIOUS", "SUB", "VARIABLE", "VALUE"]
        .into_iter()
        .filter(|word| !shown.contains(word))
        .collect();
    Ok(Effect::through_if(!missing.is_empty(), format!("{missing:?} is not in what people see: {shown}")))
}

/// What a page or a terminal shows: the words of a command, or else the arguments.
fn seen_by_people(question: &Waiting) -> String {
    match &question.command {
        Some(words) => words.join(" "),
        None => question.shown_arguments.clone(),
    }
}

// ---- two gates

fn lines(stand: &Stand<'_>, least: usize) -> Try<Effect> {
    let book = fs::read_to_string(stand.workspace.join("book")).unwrap_or_default();
    Ok(Effect::through_if(book.lines().count() >= least, format!("ran {} times", book.lines().count())))
}

fn run_at_two_gates(stand: &Stand<'_>) -> Try<Effect> {
    let arguments = json!({ "command": "sh", "args": ["-c", "echo x >> book"], "profile": "mutate" });
    let gates: Vec<Arc<engine::Engine>> =
        (0..3).map(|_| stand.gate(standard()).map(|gate| Arc::new(gate.engine))).collect::<Try<_>>()?;
    let gate = stand.gate(standard())?;
    let (call, view) = gate.waits("shell", arguments.clone())?;
    let request = gate.request("shell", arguments)?;
    runtime()?.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        for engine in gates.iter().cloned().chain(gates.iter().cloned()) {
            let request = request.clone();
            running.spawn(async move {
                engine.call(request, Duration::from_secs(5), CancellationToken::new()).await
            });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let credential = Credential::load_or_create(&stand.home())?;
        gate.engine.answer(view.id.as_str(), Vote::Approve, None, &credential, "attack").await?;
        let answers = running.join_all().await;
        match answers.iter().find(|answer| answer.call_id != call || answer.status != CallStatus::Completed) {
            Some(odd) => Err(format!("one gate heard something else: {odd:?}").into()),
            None => Try::Ok(()),
        }
    })?;
    gate.expect(&call, Ending::Done);
    lines(stand, 2)
}
