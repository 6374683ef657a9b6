//! Whoever can write the database and has no key: rows and entries of which the signed ledger does not tell.

use contract::{ApprovalId, ApprovalView, CallId, Scope};
use engine::{AnswerRefused, Credential};
use serde_json::{Value, json};
use store::{Vote, danger};

use super::approvals::{deleted, furnished, remove};
use super::standing::{reply, revoke};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, runtime};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "forged-answer",
            "a yes that stands in every table, and for a moment in a row of the ledger, runs nothing",
            |stand| approved(stand, Vote::Approve),
            forge_answer,
        ),
        Case::new(
            "swapped-call",
            "a yes does not go over to another call whose rows are put in its place",
            |stand| approved(stand, Vote::Approve),
            swap_calls,
        ),
        Case::new(
            "swapped-seal",
            "what people were shown of files is what binds the call, whatever is put in its place",
            |stand| run_changed(stand, Seals::OfNobody),
            |stand| run_changed(stand, Seals::Swapped),
        ),
        Case::new(
            "forged-operator",
            "a row in the table of operators makes nobody one",
            |stand| approved(stand, Vote::Approve),
            forge_operator,
        ),
        Case::new(
            "unrevoked",
            "a yes that was taken back stays so when the row that says so is removed",
            |stand| {
                let gate = furnished(stand)?;
                stand_by(stand, &gate)?;
                gate.call("shell", remove("build"), Ending::Done)?;
                deleted(stand, "build")
            },
            unrevoke,
        ),
    ]
}

/// A call that an operator has answered.
fn approved(stand: &Stand<'_>, vote: Vote) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (_, view) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), vote)?;
    gate.call("shell", remove("build"), Ending::Done)?;
    deleted(stand, "build")
}

fn meddle(stand: &Stand<'_>, statements: &[String]) -> Try<()> {
    Ok(runtime()?.block_on(danger::meddle(&stand.store_url(), statements))?)
}

/// Nothing is right that `ledger verify` does not name.
fn is_named(gate: &Gate<'_>) -> Try<bool> {
    Ok(runtime()?.block_on(gate.engine.store().verify(None)).is_err())
}

fn forge_answer(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    let (id, now) = (&view.id, gate.engine.now());
    let entry =
        runtime()?.block_on(gate.engine.store().latest_event(0))?.into_iter().next().ok_or("no entry")?;
    let answer = json!({ "approval": id, "by": "me", "verdict": "approve", "call": call, "state": "approved",
        "via": "cli", "reason": null, "scope": "once", "until": null, "after": null });
    let overwrite = |kind: &str, body: &Value| {
        let body = body.to_string().replace('\'', "''");
        format!("UPDATE ledger SET kind = '{kind}', body = '{body}' WHERE seq = {}", entry.seq)
    };
    meddle(
        stand,
        &[
            overwrite("approval.answered", &answer),
            format!(
                "INSERT INTO answers (approval, operator, verdict, via, answered_at) \
                 VALUES ('{id}', 'me', 'approve', 'cli', {now})"
            ),
            format!(
                "INSERT INTO answer_entries (seq, approval, operator) VALUES ({}, '{id}', 'me')",
                entry.seq
            ),
            format!(
                "UPDATE approvals SET state = 'approved', decided_at = {now}, usable_until = {} WHERE id = '{id}'",
                now + 600_000
            ),
        ],
    )?;
    gate.call("shell", remove("build"), Ending::Refused("unproved"))?;
    let named = is_named(&gate)?;
    // As they do who want nobody to find out.
    meddle(
        stand,
        &[
            overwrite(&entry.kind, &entry.body),
            format!("DELETE FROM answer_entries WHERE approval = '{id}'"),
            format!("DELETE FROM answers WHERE approval = '{id}'"),
            format!("UPDATE approvals SET state = 'expired', usable_until = NULL WHERE id = '{id}'"),
        ],
    )?;
    if !named {
        return Ok(Effect::Through("verify finds nothing".to_owned()));
    }
    deleted(stand, "build")
}

/// Exchanges what two questions are about.
fn exchange(stand: &Stand<'_>, one: (&ApprovalId, &CallId), other: (&ApprovalId, &CallId)) -> Try<()> {
    let to = |id: &ApprovalId, call: &str| format!("UPDATE approvals SET call = '{call}' WHERE id = '{id}'");
    let nobody = "0".repeat(32);
    meddle(stand, &[to(one.0, &nobody), to(other.0, one.1.as_str()), to(one.0, other.1.as_str())])
}

fn swap_calls(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let harmless = || json!({ "command": "mkdir", "args": ["fine"], "profile": "mutate" });
    let (asked, view) = gate.waits("shell", harmless())?;
    let (evil, other) = gate.waits("shell", remove("build"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    exchange(stand, (&view.id, &asked), (&other.id, &evil))?;
    gate.call("shell", remove("build"), Ending::Refused("unproved"))?;
    let named = is_named(&gate)?;
    exchange(stand, (&view.id, &evil), (&other.id, &asked))?;
    // What was approved runs, as it was asked.
    gate.call("shell", harmless(), Ending::Done)?;
    if !named {
        return Ok(Effect::Through("verify finds nothing".to_owned()));
    }
    deleted(stand, "build")
}

/// What is in the place of what was bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seals {
    /// Nothing is bound at all: somebody runs the script by hand.
    OfNobody,
    /// What another question bound.
    Swapped,
}

fn run_changed(stand: &Stand<'_>, seals: Seals) -> Try<Effect> {
    let gate = furnished(stand)?;
    for name in ["clean.sh", "other.sh"] {
        stand.put(name, "true")?;
    }
    let script = |name: &str| json!({ "command": "sh", "args": [name], "profile": "mutate" });
    let (_, view) = gate.waits("shell", script("clean.sh"))?;
    let (other, its) = gate.waits("shell", script("other.sh"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    stand.put("clean.sh", "rm -r build")?;
    if seals == Seals::OfNobody {
        stand.bare("sh", &["clean.sh"], &stand.workspace)?;
        return deleted(stand, "build");
    }
    let (one, two, nobody) = (&view.id, &its.id, "0".repeat(32));
    let mut exchange = Vec::new();
    for table in ["seals", "sealed_files"] {
        let to =
            |from: &str, to: &str| format!("UPDATE {table} SET approval = '{to}' WHERE approval = '{from}'");
        exchange.extend([
            to(one.as_str(), &nobody),
            to(two.as_str(), one.as_str()),
            to(&nobody, two.as_str()),
        ]);
    }
    meddle(stand, &exchange)?;
    gate.call("shell", script("clean.sh"), Ending::Refused("unproved"))?;
    meddle(stand, &exchange)?;
    super::approvals::end(&gate, &other, Vote::Reject, "rejected")?;
    deleted(stand, "build")
}

fn forge_operator(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    let eve = Credential::presented("a credential that eve has made for herself");
    let digest = eve.digest();
    meddle(
        stand,
        &[format!(
            "INSERT INTO operators (name, role, credential, added_at) VALUES ('eve', 'admin', '{digest}', 1)"
        )],
    )?;
    let engine = &gate.engine;
    let answered = runtime()?.block_on(engine.answer(view.id.as_str(), Vote::Approve, None, &eve, "attack"));
    let named = is_named(&gate)?;
    meddle(stand, &["DELETE FROM operators WHERE name = 'eve'".to_owned()])?;
    if !named || !matches!(answered, Err(AnswerRefused::NotAnOperator)) {
        return Ok(Effect::Through(format!("{answered:?}, named: {named}")));
    }
    super::approvals::end(&gate, &call, Vote::Reject, "rejected")?;
    deleted(stand, "build")
}

/// A yes for more than one call, which one has used; what it removed is there again.
fn stand_by(stand: &Stand<'_>, gate: &Gate<'_>) -> Try<ApprovalView> {
    let (_, view) = gate.waits("shell", remove("build"))?;
    reply(gate, view.id.as_str(), Scope::Agent, None)?;
    gate.call("shell", remove("build"), Ending::Done)?;
    stand.put("build/x", "again")?;
    Ok(view)
}

fn unrevoke(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let view = stand_by(stand, &gate)?;
    revoke(&gate, view.id.as_str())?;
    let store = gate.engine.store();
    let row =
        runtime()?.block_on(store.approval(&view.id))?.and_then(|row| row.revoked).ok_or("not revoked")?;
    meddle(stand, &[format!("DELETE FROM revocations WHERE approval = '{}'", view.id)])?;
    gate.call("shell", remove("build"), Ending::Refused("unproved"))?;
    let named = is_named(&gate)?;
    meddle(
        stand,
        &[format!(
            "INSERT INTO revocations (approval, operator, revoked_at) VALUES ('{}', '{}', {})",
            view.id, row.by, row.at
        )],
    )?;
    if !named {
        return Ok(Effect::Through("verify finds nothing".to_owned()));
    }
    deleted(stand, "build")
}
