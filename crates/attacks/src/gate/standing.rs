//! A yes for more than one call: what it covers, and what ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use contract::{CallId, CallStatus, Idempotency, SafetyClass, Scope};
use engine::{Clock, Credential, Reach, Reply, RevokeRefused};
use policy::Settings;
use serde_json::{Value, json};
use store::{RevokeError, Vote};
use tokio_util::sync::CancellationToken;

use super::approvals::{answered, deleted, end, furnished, paid, paying, remove};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, standard};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "standing-by-program",
            "a yes that was given to one command does not cover another of the same program",
            covered,
            |stand| {
                let gate = furnished(stand)?;
                approve(&gate, remove("build"), Scope::Agent)?;
                // Programs that are many programs, and the same one with other words.
                let others = [
                    remove("precious"),
                    json!({ "command": "rm", "args": ["-r", "build", "precious"], "profile": "mutate" }),
                    json!({ "command": "mv", "args": ["precious", "build"], "profile": "mutate" }),
                ];
                ask_all(&gate, others)?;
                let many = json!({ "command": "busybox", "args": ["rm", "precious"], "profile": "mutate" });
                gate.call("shell", many, Ending::Refused("command_not_allowed"))?;
                deleted(stand, "precious")
            },
        )
        .without("the exact arguments", |stand| {
            let gate = furnished(stand)?;
            approve(&gate, remove("build"), Scope::Type)?;
            gate.call("shell", remove("precious"), Ending::Done)?;
            deleted(stand, "precious")
        }),
        Case::new(
            "standing-outlives-its-files",
            "a yes to a script ends when the script changes",
            |stand| run_script(stand, Scope::Agent, "true"),
            |stand| run_script(stand, Scope::Agent, "rm -r precious"),
        )
        .without("the bound content", |stand| run_script(stand, Scope::Type, "rm -r precious")),
        Case::new(
            "standing-for-too-many-files",
            "a call that names more files than can be bound is approved once, or for its kind",
            covered,
            |stand| {
                let gate = furnished(stand)?;
                let names: Vec<String> = (0..70).map(|number| format!("f{number}")).collect();
                names.iter().try_for_each(|name| stand.put(name, "true").map(drop))?;
                let calls = json!({ "command": "rm", "args": names, "profile": "mutate" });
                let (call, view) = gate.waits("shell", calls)?;
                for scope in [Scope::Task, Scope::Agent] {
                    if reply(&gate, view.id.as_str(), scope, None).is_ok() {
                        return Ok(Effect::Through(format!("it was approved for its {scope}")));
                    }
                }
                end(&gate, &call, Vote::Reject, "rejected")?;
                Ok(Effect::Held("its files are not all bound".to_owned()))
            },
        ),
        Case::new(
            "standing-outlives-its-tool",
            "a yes ends when the tool's contract changes",
            |stand| pay_twice(stand, "Pays."),
            |stand| pay_twice(stand, "Pays, and more."),
        ),
        Case::new("standing-outlives-its-policy", "a yes ends when the policy changes", covered, |stand| {
            let gate = furnished(stand)?;
            approve(&gate, remove("build"), Scope::Type)?;
            let changed = stand.gate(Settings { ask_for: 77_000, ..standard() })?;
            ask_all(&changed, [remove("precious")])?;
            deleted(stand, "precious")
        }),
        Case::new(
            "policy-restored",
            "a yes that ended with its policy stays ended when that policy comes back",
            covered,
            |stand| {
                let gate = furnished(stand)?;
                approve(&gate, remove("build"), Scope::Type)?;
                let changed = stand.gate(Settings { ask_for: 77_000, ..standard() })?;
                // It is enough that somebody called under the other one.
                changed.call("fs.list", json!({}), Ending::Done)?;
                for restored in [stand.gate(standard())?, gate] {
                    ask_all(&restored, [remove("precious")])?;
                }
                deleted(stand, "precious")
            },
        )
        .without("the other policy", |stand| {
            let gate = furnished(stand)?;
            approve(&gate, remove("build"), Scope::Type)?;
            stand.gate(standard())?.call("fs.list", json!({}), Ending::Done)?;
            gate.call("shell", remove("precious"), Ending::Done)?;
            deleted(stand, "precious")
        }),
        Case::new(
            "standing-for-money",
            "nothing that spends money or can change what guards is approved for more than one call",
            |stand| {
                let gate = paying(stand, SafetyClass::Financial, Idempotency::None)?;
                let (_, view) = gate.waits("pay", json!({ "amount": 1 }))?;
                gate.answer(view.id.as_str(), Vote::Approve)?;
                gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
                paid(stand, 1)
            },
            |stand| {
                let gate = paying(stand, SafetyClass::Financial, Idempotency::None)?;
                let (call, view) = gate.waits("pay", json!({ "amount": 1 }))?;
                for scope in [Scope::Task, Scope::Agent, Scope::Type] {
                    if reply(&gate, view.id.as_str(), scope, None).is_ok() {
                        return Ok(Effect::Through(format!("it was approved for its {scope}")));
                    }
                }
                end(&gate, &call, Vote::Reject, "rejected")?;
                paid(stand, 1)
            },
        ),
        Case::new(
            "revoked-while-calling",
            "what was taken back lets nothing begin, and no race gives it back",
            covered,
            race_revocation,
        )
        .without("the revocation", covered),
        Case::new(
            "approve-and-revoke-at-once",
            "of a yes and its revocation that come at once neither undoes the other by coming second",
            covered,
            race_approval,
        )
        .without("the revocation", covered),
        Case::new(
            "revoked-unused",
            "a yes that was taken back before it was used is none, and approving again does not restore it",
            covered,
            |stand| {
                let gate = furnished(stand)?;
                let (call, view) = gate.waits("shell", remove("precious"))?;
                gate.answer(view.id.as_str(), Vote::Approve)?;
                revoke(&gate, view.id.as_str())?;
                let own = Credential::load_or_create(&stand.home())?;
                if answered(&gate, view.id.as_str(), Vote::Approve, &own)?.is_ok() {
                    return Ok(Effect::Through("it was approved again".to_owned()));
                }
                gate.expect(&call, Ending::Refused("rejected"));
                ask_all(&gate, [remove("precious")])?;
                deleted(stand, "precious")
            },
        ),
        Case::new(
            "standing-for-too-long",
            "no yes is good for longer than the configuration lets it, nor for the past",
            covered,
            |stand| {
                let gate = furnished(stand)?;
                let (call, view) = gate.waits("shell", remove("precious"))?;
                let now = gate.engine.now();
                for until in [now - 1, now, now + 9 * 3_600_000, i64::MAX] {
                    if reply(&gate, view.id.as_str(), Scope::Type, Some(until)).is_ok() {
                        return Ok(Effect::Through(format!("until {until}")));
                    }
                }
                end(&gate, &call, Vote::Reject, "rejected")?;
                deleted(stand, "precious")
            },
        ),
        Case::new(
            "clock-set-back",
            "a clock that is set back brings no question and no yes back to life",
            |stand| jump(stand, 0),
            |stand| jump(stand, -24 * 3_600_000),
        ),
    ]
}

/// Approves a call for a scope, and lets it run.
fn approve(gate: &Gate<'_>, arguments: Value, scope: Scope) -> Try<()> {
    let (_, view) = gate.waits("shell", arguments.clone())?;
    reply(gate, view.id.as_str(), scope, None)?;
    gate.call("shell", arguments, Ending::Settled)?;
    Ok(())
}

pub(super) fn reply(gate: &Gate<'_>, id: &str, scope: Scope, until: Option<i64>) -> Try<()> {
    let credential = gate.operator()?;
    let reply = Reply { vote: Vote::Approve, reason: None, reach: Reach { scope, until } };
    runtime()?.block_on(gate.engine.reply(id, reply, &credential, "attack"))?;
    Ok(())
}

pub(super) fn revoke(gate: &Gate<'_>, id: &str) -> Try<()> {
    let credential = gate.operator()?;
    runtime()?.block_on(gate.engine.revoke(id, None, &credential))?;
    Ok(())
}

/// Each of them has to wait; and is ended in order, for the ledger.
fn ask_all(gate: &Gate<'_>, calls: impl IntoIterator<Item = Value>) -> Try<()> {
    for arguments in calls {
        let (call, _) = gate.waits("shell", arguments)?;
        end(gate, &call, Vote::Reject, "rejected")?;
    }
    Ok(())
}

/// What a yes covers runs again without another question.
fn covered(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    approve(&gate, remove("build"), Scope::Agent)?;
    stand.put("build/x", "again")?;
    gate.call("shell", remove("build"), Ending::Done)?;
    deleted(stand, "build")
}

/// Approves a script, changes it, and runs it again.
fn run_script(stand: &Stand<'_>, scope: Scope, second: &str) -> Try<Effect> {
    let gate = furnished(stand)?;
    let calls = json!({ "command": "sh", "args": ["clean.sh"], "profile": "mutate" });
    stand.put("clean.sh", "true")?;
    approve(&gate, calls.clone(), scope)?;
    stand.put("clean.sh", second)?;
    let result = gate.send(gate.request("shell", calls)?)?;
    if result.status == CallStatus::Waiting {
        end(&gate, &result.call_id, Vote::Reject, "rejected")?;
        return deleted(stand, "precious");
    }
    Ok(Effect::Through(format!("it ran: {}", result.content)))
}

/// Approves a payment for its kind, and pays again with a tool of that name.
fn pay_twice(stand: &Stand<'_>, description: &'static str) -> Try<Effect> {
    let open = |description| -> Try<Gate<'_>> {
        let payment = super::payment::Payment {
            idempotency: Idempotency::None,
            description,
            ..super::payment::Payment::into(stand.place.path("book"))
        };
        stand.open(Opening { tools: vec![payment.tool()?], ..Opening::with(asking()) })
    };
    let gate = open("Pays.")?;
    let (_, view) = gate.waits("pay", json!({ "amount": 1 }))?;
    reply(&gate, view.id.as_str(), Scope::Type, None)?;
    gate.call("pay", json!({ "amount": 1 }), Ending::Done)?;
    let again = open(description)?;
    let result = again.send(again.request("pay", json!({ "amount": 2 }))?)?;
    if result.status == CallStatus::Waiting {
        end(&again, &result.call_id, Vote::Reject, "rejected")?;
    }
    paid(stand, 2)
}

/// An agent that asks for everything it changes.
fn asking() -> Settings {
    let agent = policy::Agent { autonomy: contract::Autonomy::Supervised, ..policy::Agent::default() };
    crate::gate::stand::settings_of(agent)
}

/// Many calls at once from several gates, and a revocation among them: once it has returned, nothing begins.
fn race_revocation(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let arguments = json!({ "command": "sh", "args": ["-c", "echo x >> book"], "profile": "mutate" });
    let (_, view) = gate.waits("shell", arguments.clone())?;
    reply(&gate, view.id.as_str(), Scope::Agent, None)?;
    gate.call("shell", arguments.clone(), Ending::Done)?;
    let engines: Vec<Arc<engine::Engine>> =
        (0..3).map(|_| stand.gate(standard()).map(|gate| Arc::new(gate.engine))).collect::<Try<_>>()?;
    let request = gate.request("shell", arguments)?;
    let credential = gate.operator()?;
    let late = runtime()?.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        for engine in engines.iter().cycle().take(12) {
            let (engine, request) = (Arc::clone(engine), request.clone());
            running
                .spawn(async move { engine.call(request, Duration::ZERO, CancellationToken::new()).await });
        }
        gate.engine.revoke(view.id.as_str(), None, &credential).await?;
        let size = gate.engine.store().ledger_size().await?;
        running.join_all().await;
        let after = gate.engine.store().latest_event(i64::try_from(size)? - 1).await?;
        Try::Ok(after.iter().filter(|entry| entry.kind == "approval.used").count())
    })?;
    if late > 0 {
        return Ok(Effect::Through(format!("{late} calls began after it was taken back")));
    }
    // Now it has to be asked for, at every gate.
    let (call, _) = gate
        .waits("shell", json!({ "command": "sh", "args": ["-c", "echo x >> book"], "profile": "mutate" }))?;
    end_all_waiting(&gate, &call)?;
    Ok(Effect::Held("nothing began".to_owned()))
}

/// One operator says yes for more than one call while another takes it back, at two gates, again and again.
fn race_approval(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let other = stand.gate(standard())?.engine.clone();
    let credential = gate.operator()?;
    for round in 0..6 {
        let (call, view) = gate.waits("shell", remove("precious"))?;
        let id = view.id.as_str();
        let reply =
            Reply { vote: Vote::Approve, reason: None, reach: Reach { scope: Scope::Type, until: None } };
        let (yes, no) = runtime()?.block_on(async {
            tokio::join!(
                gate.engine.reply(id, reply, &credential, "attack"),
                other.revoke(id, None, &credential)
            )
        });
        match (yes, no) {
            (Ok(_), Ok(_)) => {}
            // There was nothing to take back yet; now there is.
            (Ok(_), Err(RevokeRefused::Revoke(RevokeError::Nothing { .. }))) => revoke(&gate, id)?,
            both => return Ok(Effect::Through(format!("round {round}: {both:?}"))),
        }
        gate.expect(&call, Ending::Refused("rejected"));
        // Neither the call that was asked about nor another of its kind runs, at either gate.
        for arguments in [remove("precious"), remove("other")] {
            let (asked, _) = gate.waits("shell", arguments)?;
            end(&gate, &asked, Vote::Reject, "rejected")?;
        }
    }
    deleted(stand, "precious")
}

/// Ends everything that waits, and notes the one that matters.
fn end_all_waiting(gate: &Gate<'_>, call: &CallId) -> Try<()> {
    let waiting = runtime()?.block_on(gate.engine.waiting())?;
    for question in waiting {
        gate.answer(question.approval.id.as_str(), Vote::Reject)?;
        for folded in question.folded {
            gate.answer(folded.id.as_str(), Vote::Reject)?;
        }
    }
    gate.expect(call, Ending::Refused("rejected"));
    Ok(())
}

/// What the clock of [`jump`] says beyond the system's.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Lets time pass over a question and a yes; then sets the clock back, and tries both again, at a gate of its own.
fn jump(stand: &Stand<'_>, back: i64) -> Try<Effect> {
    let clock = Clock::of(|| Clock::system().now() + AHEAD.load(Ordering::SeqCst));
    let open = || stand.open(Opening { clock, ..Opening::with(standard()) });
    AHEAD.store(0, Ordering::SeqCst);
    furnished(stand)?;
    let gate = open()?;
    approve(&gate, remove("build"), Scope::Agent)?;
    let (call, view) = gate.waits("shell", remove("precious"))?;
    // For the control no time passes; for the attack nine hours do, and then a day is taken back.
    AHEAD.store(if back == 0 { 0 } else { 9 * 3_600_000 }, Ordering::SeqCst);
    let waiting = runtime()?.block_on(gate.engine.waiting())?.len();
    AHEAD.fetch_add(back, Ordering::SeqCst);
    for gate in [gate, open()?] {
        let own = Credential::load_or_create(&stand.home())?;
        if answered(&gate, view.id.as_str(), Vote::Approve, &own)?.is_ok() {
            AHEAD.store(0, Ordering::SeqCst);
            return Ok(Effect::Through(format!("it was answered; {waiting} waited")));
        }
        stand.put("build/x", "again")?;
        let again = gate.send(gate.request("shell", remove("build"))?)?;
        if again.status != CallStatus::Waiting {
            AHEAD.store(0, Ordering::SeqCst);
            return Ok(Effect::Through(format!("the yes was good again: {}", again.content)));
        }
        end(&gate, &again.call_id, Vote::Reject, "rejected")?;
        gate.expect(&call, Ending::Refused("expired"));
    }
    AHEAD.store(0, Ordering::SeqCst);
    deleted(stand, "precious")
}
