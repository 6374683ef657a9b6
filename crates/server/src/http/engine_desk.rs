//! The engine as what the console looks into. It translates, adds up, and decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use contract::{ApprovalId, CallId, CallStatus, ReceiptBody, ToolName, show_hidden};
use engine::{Credential, Engine, ListedTool, PrivateRefused, ReplayError};
use serde_json::{Value, json};
use store::{FindCallError, LedgerEntry, Pulse, Receipt, RevealError, verify_receipt};

use super::desk::{Desk, ReadingError};
use super::engine_gate::trouble;
use super::gate::{GateError, Pending};
use super::tools::{in_full, in_short};

/// As many settled calls as are added up for the places they reached.
const MOST_SETTLED: u32 = 500;
/// As many calls as are counted for the charts, and for how long back.
const MOST_COUNTED: u32 = 10_000;
const HOURS: i64 = 24;
const HOUR_MS: i64 = 60 * 60 * 1000;
/// As many days of what was spent as are shown.
const DAYS: i64 = 14;
const DAY_MS: i64 = 24 * HOUR_MS;
/// As many agents as are listed, and calls of each that are counted.
const MOST_AGENTS: usize = 200;
const CALLS_OF_AGENT: u32 = 100;
/// As many versions of a tool as are told, newest first.
const MOST_VERSIONS: usize = 50;
/// As many changes of the policy as are told.
const MOST_POLICIES: u32 = 30;

impl Desk for Engine {
    fn review<'a>(&'a self, id: &'a ApprovalId) -> Pending<'a, Result<Option<Value>, GateError>> {
        Box::pin(async move {
            let Some(review) = Engine::review(self, id).await.map_err(trouble)? else { return Ok(None) };
            let similar: Vec<Value> = review
                .similar
                .iter()
                .map(|call| {
                    json!({
                        "call_id": call.id, "asked_at": call.asked_at, "status": call.status,
                        "question": call.question, "same": call.is_same,
                    })
                })
                .collect();
            Ok(Some(json!({
                "approval_id": id,
                "exact_arguments": review.exact_arguments,
                "arguments_digest": review.arguments_digest,
                "trust": review.trust,
                "source": review.source,
                "trace": review.trace,
                "places": review.places,
                "similar": similar,
            })))
        })
    }

    fn story<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<Value>, GateError>> {
        Box::pin(async move { story_of(self, id).await })
    }

    fn receipt<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<Value>, GateError>> {
        Box::pin(async move { receipt_of(self, id).await })
    }

    fn reading<'a>(
        &'a self,
        id: &'a CallId,
        credential: &'a Credential,
    ) -> Pending<'a, Result<Value, ReadingError>> {
        Box::pin(async move {
            let reading = self.read_private(id.as_str(), credential).await.map_err(not_read)?;
            let arguments = reading.arguments.as_deref().map(engine::exact);
            Ok(json!({
                "call_id": reading.call_id, "exact_arguments": arguments, "raw": reading.raw,
                "result": reading.result, "salt": reading.salt,
            }))
        })
    }

    fn registry(&self) -> Pending<'_, Result<Vec<Value>, GateError>> {
        Box::pin(
            async move { Ok(self.all_tools_anew().await.map_err(trouble)?.iter().map(listed).collect()) },
        )
    }

    fn registered<'a>(&'a self, name: &'a ToolName) -> Pending<'a, Result<Option<Value>, GateError>> {
        Box::pin(async move {
            let all = self.all_tools_anew().await.map_err(trouble)?;
            let Some(tool) = all.into_iter().find(|tool| tool.facts.name == *name) else { return Ok(None) };
            let versions = self.store().tool_versions(name).await.map_err(trouble)?;
            let told: Vec<Value> = versions
                .iter()
                .rev()
                .take(MOST_VERSIONS)
                .map(|(hash, definition, seen_at)| {
                    json!({ "hash": hash, "definition": definition, "seen_at": seen_at })
                })
                .collect();
            let further = versions.len().saturating_sub(MOST_VERSIONS);
            let tool = with(listed(&tool), json!(in_full(&tool.contract)));
            Ok(Some(with(tool, json!({ "versions": told, "further_versions": further }))))
        })
    }

    fn agents(&self) -> Pending<'_, Result<Vec<Value>, GateError>> {
        Box::pin(async move {
            let settings = self.settings();
            let mut agents = Vec::new();
            for (name, agent) in settings.agents.iter().take(MOST_AGENTS) {
                let calls = self.store().calls_of(name, CALLS_OF_AGENT, None).await.map_err(trouble)?;
                let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
                for call in &calls {
                    *ends.entry(call.status.as_str()).or_default() += 1;
                }
                agents.push(json!({
                    "name": name,
                    "settings": agent,
                    "level_in_force": agent.level_in_force(),
                    "autonomy_in_force": agent.autonomy_in_force(),
                    "constraints": settings.constraints_of(agent),
                    "tools": self.tools_for(name).len(),
                    "last_calls": { "looked_at": calls.len(), "by_status": ends,
                        "last_at": calls.first().map(|call| call.asked_at) },
                }));
            }
            Ok(agents)
        })
    }

    fn egress(&self, before: Option<u64>) -> Pending<'_, Result<Value, GateError>> {
        Box::pin(async move {
            let before = before.map_or(i64::MAX, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
            let settled = self.store().settled_before(before, MOST_SETTLED).await.map_err(trouble)?;
            Ok(reached(&settled))
        })
    }

    fn overview(&self) -> Pending<'_, Result<Value, GateError>> {
        Box::pin(async move {
            let now = Engine::now(self);
            let first = (now / HOUR_MS - (HOURS - 1)) * HOUR_MS;
            let pulses = self.store().pulses(first, MOST_COUNTED).await.map_err(trouble)?;
            let spent = self.store().spent_since(now / DAY_MS - (DAYS - 1)).await.map_err(trouble)?;
            let settings = self.settings();
            let spent: Vec<Value> = spent
                .iter()
                .map(|(day, spent)| json!({ "day": day * DAY_MS, "millionths": spent }))
                .collect();
            let own = json!({
                "now": now, "spent": spent, "currency": settings.prices.currency, "suspended": self.is_suspended(),
                "agents": settings.agents.len(), "tools": self.all_tools().len(),
            });
            Ok(with(counted(&pulses, first), own))
        })
    }

    fn policy(&self) -> Pending<'_, Result<Value, GateError>> {
        Box::pin(async move {
            let history = self.store().policy_history(MOST_POLICIES).await.map_err(trouble)?;
            let settings = self.settings();
            let agents: Vec<_> = settings.agents.keys().collect();
            Ok(json!({ "policy": self.policy_hash(), "suspended": self.is_suspended(), "history": history,
                "agents": agents }))
        })
    }

    fn entries(&self, before: Option<u64>, most: u32) -> Pending<'_, Result<Value, GateError>> {
        Box::pin(async move {
            let size = self.store().ledger_size().await.map_err(trouble)?;
            let end = before.unwrap_or(size).min(size);
            let from = end.saturating_sub(u64::from(most));
            let after = i64::try_from(from).unwrap_or(i64::MAX).saturating_sub(1);
            let mut entries = self.store().latest_event(after).await.map_err(trouble)?;
            entries.truncate(usize::try_from(end.saturating_sub(from)).unwrap_or_default());
            entries.reverse();
            let key = self.store().keys().public().id();
            Ok(json!({ "size": size, "key": key, "entries": entries, "next": (from > 0).then_some(from) }))
        })
    }

    fn verify(&self) -> Pending<'_, Result<Value, GateError>> {
        Box::pin(async move {
            Ok(match self.store().verify(None).await {
                Ok(verified) => with(json!({ "state": "verified" }), json!(verified)),
                Err(store::VerifyError::Broken(broken)) => {
                    json!({ "state": "broken", "seq": broken.seq, "why": broken.to_string() })
                }
                Err(error) => return Err(trouble(error)),
            })
        })
    }
}

async fn story_of(engine: &Engine, id: &CallId) -> Result<Option<Value>, GateError> {
    let Some(chapter) = engine.store().chapter(id).await.map_err(trouble)? else { return Ok(None) };
    let (replay, altered) = match engine.replay(id.as_str(), None).await {
        Ok(replay) => (json!(replay), false),
        Err(ReplayError::Altered { .. }) => (Value::Null, true),
        Err(ReplayError::Find(_)) => return Ok(None),
        Err(error) => return Err(trouble(error)),
    };
    let row = engine.store().call(id).await.map_err(trouble)?;
    let approval = match row.as_ref().and_then(|row| row.approval.as_ref()) {
        Some(approval) => engine.store().approval(approval).await.map_err(trouble)?,
        None => None,
    };
    let answers = approval.iter().flat_map(|approval| &approval.answers).map(|answer| {
        json!({ "by": answer.by, "verdict": answer.vote, "at": answer.at, "via": answer.via,
            "reason": answer.reason.as_deref().map(show_hidden) })
    });
    let question = approval.as_ref().map(|approval| {
        json!({ "approval_id": approval.id, "state": approval.state, "quorum": approval.quorum,
            "why": approval.why.iter().map(|why| show_hidden(why)).collect::<Vec<_>>(),
            "asked_at": approval.asked_at, "answers": answers.collect::<Vec<_>>() })
    });
    let result = engine.store().result(id).await.map_err(trouble)?;
    let receipt =
        chapter.entries.iter().rev().find(|entry| is_receipt(entry)).map(|entry| entry.body.clone());
    Ok(Some(json!({
        "call_id": id,
        "altered": altered,
        "replay": replay,
        "safety": row.as_ref().map(|row| row.safety),
        "question": question,
        "entries": chapter.entries,
        "partial": chapter.is_partial,
        "result": result,
        "receipt": receipt,
    })))
}

fn is_receipt(entry: &LedgerEntry) -> bool {
    matches!(entry.kind.as_str(), "call.settled" | "call.reconciled")
}

async fn receipt_of(engine: &Engine, id: &CallId) -> Result<Option<Value>, GateError> {
    let store = engine.store();
    let Some(row) = store.call(id).await.map_err(trouble)? else { return Ok(None) };
    let envelope = store.receipt(id).await.map_err(trouble)?;
    let (Some(seq), Some(envelope)) = (row.receipt_seq, envelope) else { return Ok(None) };
    let key = store.keys().public();
    let signed: Result<ReceiptBody, _> = verify_receipt(&envelope, key);
    let proof = store.prove(seq).await.map_err(trouble)?;
    let holds = proof.verify(key);
    // The entry has to say what was signed, or the two prove different things.
    let is_entry = signed.as_ref().is_ok_and(|body| json!(body) == proof.entry.body);
    Ok(Some(json!({
        "receipt": Receipt::id_of(id),
        "envelope": serde_json::from_str::<Value>(&envelope).unwrap_or_default(),
        "body": signed.as_ref().ok(),
        "signature": { "holds": signed.is_ok(), "key": key.id(), "why": signed.as_ref().err().map(ToString::to_string) },
        "inclusion": {
            "holds": holds.is_ok() && is_entry, "seq": seq, "tree_size": proof.tree_size,
            "hashes": proof.hashes, "checkpoint": proof.checkpoint,
            "why": holds.err().map(|error| error.to_string())
                .or_else(|| (!is_entry).then(|| "the entry says something else than the receipt".to_owned())),
        },
    })))
}

fn listed(tool: &ListedTool) -> Value {
    let facts = &tool.facts;
    let own = json!({
        "status": facts.status, "requires_approval": facts.requires_approval, "source": tool.source,
        "pinned": tool.pinned, "trust": facts.trust, "safety": facts.safety, "egress": facts.egress,
    });
    with(json!(in_short(&tool.contract)), own)
}

/// The members of both; of one that both have, the second's.
fn with(mut first: Value, second: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (first.as_object_mut(), second) {
        members.extend(more);
    }
    first
}

#[derive(Default)]
struct Reached {
    sent: u64,
    received: u64,
    calls: u64,
    tried: u64,
    refused: BTreeMap<String, u64>,
    ports: BTreeSet<u16>,
    agents: BTreeSet<String>,
    tools: BTreeSet<String>,
    last: Option<(i64, CallId)>,
}

/// The host of a place, and the port if one is named.
fn host_of(place: &str) -> (&str, Option<u16>) {
    match place.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        // An address of IPv6 has colons of its own, and stands in brackets where a port follows.
        Some((host, Ok(port))) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (place, None),
    }
}

/// Whom settled calls reached, or tried to.
fn reached(settled: &[LedgerEntry]) -> Value {
    let mut places: BTreeMap<String, Reached> = BTreeMap::new();
    for entry in settled {
        let Ok(body) = serde_json::from_value::<ReceiptBody>(entry.body.clone()) else { continue };
        let Some(run) = &body.run else { continue };
        let tried = run.attempts.iter().map(|attempt| host_of(&attempt.place).0);
        let hosts: BTreeSet<&str> = run.bytes_per_host.keys().map(String::as_str).chain(tried).collect();
        for host in hosts {
            let reached = places.entry(show_hidden(host)).or_default();
            reached.calls += 1;
            reached.agents.insert(body.agent.to_string());
            reached.tools.insert(body.tool.to_string());
            reached.last.get_or_insert((body.settled_at, body.call_id.clone()));
            if let Some((sent, received)) = run.bytes_per_host.get(host) {
                reached.sent = reached.sent.saturating_add(*sent);
                reached.received = reached.received.saturating_add(*received);
            }
        }
        for attempt in &run.attempts {
            let (host, port) = host_of(&attempt.place);
            let reached = places.entry(show_hidden(host)).or_default();
            reached.ports.extend(port);
            reached.tried = reached.tried.saturating_add(attempt.times);
            if let Some(why) = &attempt.refused {
                *reached.refused.entry(why.clone()).or_default() += attempt.times;
            }
        }
    }
    let places: Vec<Value> = places
        .into_iter()
        .map(|(place, reached)| {
            let (last_at, last_call) = reached.last.unzip();
            json!({
                "place": place, "sent": reached.sent, "received": reached.received, "calls": reached.calls,
                "tried": reached.tried, "ports": reached.ports, "refused": reached.refused, "agents": reached.agents,
                "tools": reached.tools, "last_at": last_at, "last_call": last_call,
            })
        })
        .collect();
    let is_full = settled.len() >= usize::try_from(MOST_SETTLED).unwrap_or(usize::MAX);
    json!({
        "looked_at": settled.len(),
        "since": settled.last().map(|entry| entry.time),
        "next": settled.last().filter(|_| is_full).map(|entry| entry.seq),
        "places": places,
    })
}

#[derive(Default)]
struct Hour {
    calls: u64,
    refused: u64,
    failed: u64,
    asked: u64,
    took: Vec<i64>,
}

/// Calls by the hour.
fn counted(pulses: &[Pulse], first: i64) -> Value {
    let mut hours: Vec<Hour> = (0..HOURS).map(|_| Hour::default()).collect();
    let mut took = Vec::new();
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for pulse in pulses {
        *ends.entry(pulse.status.as_str()).or_default() += 1;
        let place = usize::try_from((pulse.asked_at - first) / HOUR_MS).unwrap_or(usize::MAX);
        let Some(hour) = hours.get_mut(place) else { continue };
        hour.calls += 1;
        hour.refused += u64::from(pulse.status == CallStatus::Refused);
        hour.failed += u64::from(matches!(pulse.status, CallStatus::Failed | CallStatus::Unknown));
        hour.asked += u64::from(pulse.was_asked);
        // How long people take is not how long the gate does.
        if let (Some(settled_at), false) = (pulse.settled_at, pulse.was_asked) {
            hour.took.push(settled_at.saturating_sub(pulse.asked_at));
            took.push(settled_at.saturating_sub(pulse.asked_at));
        }
    }
    let hours: Vec<Value> = (0_i64..)
        .zip(&mut hours)
        .map(|(place, hour)| {
            json!({
                "at": first + place * HOUR_MS, "calls": hour.calls, "refused": hour.refused,
                "failed": hour.failed, "asked": hour.asked,
                "p50_ms": at_most(&mut hour.took, 50), "p95_ms": at_most(&mut hour.took, 95),
            })
        })
        .collect();
    let is_full = pulses.len() >= usize::try_from(MOST_COUNTED).unwrap_or(usize::MAX);
    json!({
        "since": if is_full { pulses.last().map_or(first, |pulse| pulse.asked_at) } else { first },
        "complete": !is_full, "looked_at": pulses.len(), "by_status": ends, "hours": hours,
        "p50_ms": at_most(&mut took, 50), "p95_ms": at_most(&mut took, 95),
    })
}

/// What so many of a hundred took at most.
fn at_most(took: &mut [i64], hundredths: usize) -> Option<i64> {
    took.sort_unstable();
    let place = (took.len() * hundredths).div_ceil(100).saturating_sub(1);
    took.get(place).copied()
}

fn not_read(error: PrivateRefused) -> ReadingError {
    match error {
        PrivateRefused::Find(FindCallError::Store(error)) => ReadingError::Gate(trouble(error)),
        PrivateRefused::Find(_) => ReadingError::Unknown,
        PrivateRefused::Erased { .. } => ReadingError::Erased,
        PrivateRefused::Reveal(RevealError::Store(error)) => ReadingError::Gate(trouble(error)),
        error @ (PrivateRefused::NotAnOperator | PrivateRefused::Reveal(RevealError::NotAllowed { .. })) => {
            ReadingError::Forbidden { why: error.to_string() }
        }
        error => ReadingError::Gate(trouble(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ten_calls_the_ninety_fifth_hundredth_is_the_slowest() {
        let mut took: Vec<i64> = (1..=10).rev().collect();
        assert_eq!((at_most(&mut took, 50), at_most(&mut took, 95)), (Some(5), Some(10)));
        assert_eq!(at_most(&mut [], 50), None);
    }

    #[test]
    fn a_place_is_a_host_and_perhaps_a_port() {
        assert_eq!(host_of("a.example:443"), ("a.example", Some(443)));
        assert_eq!(host_of("a.example"), ("a.example", None));
        assert_eq!((host_of("[::1]:80"), host_of("::1")), (("[::1]", Some(80)), ("::1", None)));
    }

    #[test]
    fn a_call_is_counted_in_the_hour_in_which_it_was_asked() {
        let pulse = |asked_at, status, was_asked| Pulse {
            asked_at,
            settled_at: Some(asked_at + 7),
            status,
            was_asked,
        };
        let told = counted(
            &[
                pulse(HOUR_MS * 2, CallStatus::Refused, false),
                pulse(HOUR_MS, CallStatus::Completed, true),
                pulse(HOUR_MS - 1, CallStatus::Completed, false),
            ],
            0,
        );
        let hour = |place: usize, key: &str| told.pointer(&format!("/hours/{place}/{key}")).cloned();
        assert_eq!(
            (hour(0, "calls"), hour(1, "calls"), hour(2, "refused")),
            (Some(json!(1)), Some(json!(1)), Some(json!(1)))
        );
        assert_eq!((hour(1, "p95_ms"), hour(1, "asked")), (Some(Value::Null), Some(json!(1))));
        assert_eq!(told.pointer("/p50_ms"), Some(&json!(7)));
    }
}
