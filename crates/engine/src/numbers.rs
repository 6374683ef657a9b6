//! What happens, in numbers: read from the ledger, so that every gate of the store is counted, and no call waits for it.
//!
//! # Invariants
//! - Nothing that an agent or a tool has written becomes a label: tools are those that are registered, agents those that are
//!   configured, the rest is `other`. However many names are made up, there are so many series and no more.
//! - Numbers are about what was done, never about what was in it.

use std::collections::BTreeMap;

use contract::{CallStatus, ReceiptBody};
use serde_json::Value;
use store::LedgerEntry;

use crate::engine::Engine;
use crate::error::EngineError;

/// What stands for every name that is not known.
const OTHER: &str = "other";
/// How many series one family has at most; those beyond are counted together.
const MOST_SERIES: usize = 512;
/// How many pages of the ledger are read for one look; the rest is read by the next.
const MOST_PAGES: usize = 100;
/// Up to how many seconds a bucket counts.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// It only grows, as long as the gate runs.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// Numbers of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// What kind of number it is.
    pub kind: NumberKind,
    /// Each with its labels.
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Times of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Its name.
    pub name: &'static str,
    /// What was measured.
    pub help: &'static str,
    /// For each bucket, up to how many seconds, and how many took no longer than that and longer than the one before.
    pub buckets: Vec<(f64, u64)>,
    /// How many took longer than all of them.
    pub longer: u64,
    /// How long they took together, in seconds.
    pub sum: f64,
}

/// Everything that is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// Counters and gauges.
    pub families: Vec<Family>,
    /// Times.
    pub times: Vec<Times>,
}

/// What has been counted so far.
pub(crate) struct Tally {
    /// The last entry that was read.
    seen: i64,
    counts: BTreeMap<&'static str, Series>,
    run: Measured,
    settled: Measured,
    answered: Measured,
}

type Series = BTreeMap<Vec<(&'static str, String)>, f64>;

#[derive(Default)]
struct Measured {
    buckets: [u64; BUCKETS.len()],
    longer: u64,
    sum: f64,
}

impl Measured {
    fn note(&mut self, seconds: f64) {
        self.sum += seconds;
        match BUCKETS.iter().position(|most| seconds <= *most).and_then(|at| self.buckets.get_mut(at)) {
            Some(bucket) => *bucket += 1,
            None => self.longer += 1,
        }
    }

    fn told(&self, name: &'static str, help: &'static str) -> Times {
        let buckets = BUCKETS.into_iter().zip(self.buckets).collect();
        Times { name, help, buckets, longer: self.longer, sum: self.sum }
    }
}

/// Every family that is counted, in the order in which it is told.
const COUNTED: [(&str, &str); 12] = [
    ("toolgate_calls_total", "Calls that have ended, by tool and by how."),
    ("toolgate_agent_calls_total", "Calls that have ended, by agent and by how."),
    ("toolgate_refusals_total", "Calls that were refused or failed, by the code of the reason."),
    ("toolgate_approvals_total", "What became of questions to people."),
    ("toolgate_answers_total", "Answers of people, by the way that they came and by what they were."),
    ("toolgate_run_cpu_seconds_total", "Processor time of what ran in sandboxes."),
    ("toolgate_egress_bytes_total", "Bytes that calls have sent and received."),
    ("toolgate_egress_refused_total", "Attempts to reach a place that were refused."),
    ("toolgate_cleaning_findings_total", "What cleaning found in the output of tools."),
    ("toolgate_notices_total", "Messages that a question waits, by channel and by what came of them."),
    ("toolgate_chat_refused_total", "Messages of chats that were not taken, by way and reason."),
    ("toolgate_gates_lost_total", "Gates that ended in the middle of their calls."),
];

/// Ways of answering that are told apart; what comes after a colon is somebody's name.
const WAYS: [&str; 7] = ["cli", "http", "page", "chat", "slack", "webhook", "elicitation"];

impl Tally {
    fn since(size: u64) -> Tally {
        Tally {
            seen: i64::try_from(size).unwrap_or(i64::MAX).saturating_sub(1),
            counts: BTreeMap::new(),
            run: Measured::default(),
            settled: Measured::default(),
            answered: Measured::default(),
        }
    }

    // ATTACK(label-explosion): beyond so many series, all further ones are one.
    fn add(&mut self, name: &'static str, labels: Vec<(&'static str, String)>, amount: f64) {
        let series = self.counts.entry(name).or_default();
        let labels = if series.len() >= MOST_SERIES && !series.contains_key(&labels) {
            labels.into_iter().map(|(label, _)| (label, OTHER.to_owned())).collect()
        } else {
            labels
        };
        *series.entry(labels).or_default() += amount;
    }

    fn count(&mut self, entry: &LedgerEntry, knows: &impl Fn(Name<'_>) -> bool) {
        self.seen = entry.seq;
        let text = |key: &str| entry.body.get(key).and_then(Value::as_str).unwrap_or_default();
        let approvals = "toolgate_approvals_total";
        match entry.kind.as_str() {
            "call.settled" => {
                if let Ok(receipt) = serde_json::from_value::<ReceiptBody>(entry.body.clone()) {
                    self.count_call(&receipt, knows);
                }
            }
            "approval.asked" => self.add(approvals, vec![("event", "asked".to_owned())], 1.0),
            "approval.expired" => self.add(approvals, vec![("event", "expired".to_owned())], 1.0),
            "approval.cancelled" => self.add(approvals, vec![("event", "cancelled".to_owned())], 1.0),
            "approval.escalated" => self.add(approvals, vec![("event", "escalated".to_owned())], 1.0),
            "approval.revoked" => self.add(approvals, vec![("event", "revoked".to_owned())], 1.0),
            "approval.answered" => {
                let way = text("via").split(':').next().unwrap_or_default();
                let way = WAYS.into_iter().find(|known| *known == way).unwrap_or(OTHER).to_owned();
                let verdict = if text("verdict") == "approve" { "approve" } else { "reject" };
                self.add("toolgate_answers_total", vec![("verdict", verdict.to_owned()), ("via", way)], 1.0);
            }
            "notice.sent" | "notice.failed" => {
                let outcome = if entry.kind == "notice.sent" { "sent" } else { "failed" };
                let labels = vec![("channel", text("channel").to_owned()), ("outcome", outcome.to_owned())];
                self.add("toolgate_notices_total", labels, 1.0);
            }
            "chat.refused" => {
                let unrecorded = entry.body.get("unrecorded").and_then(Value::as_u64).unwrap_or_default();
                let labels = vec![("way", text("way").to_owned()), ("why", text("why").to_owned())];
                self.add("toolgate_chat_refused_total", labels, 1.0);
                if unrecorded > 0 {
                    let labels = vec![("way", OTHER.to_owned()), ("why", "unrecorded".to_owned())];
                    self.add("toolgate_chat_refused_total", labels, unrecorded as f64);
                }
            }
            "gate.lost" => self.add("toolgate_gates_lost_total", Vec::new(), 1.0),
            _ => {}
        }
    }

    fn count_call(&mut self, receipt: &ReceiptBody, knows: &impl Fn(Name<'_>) -> bool) {
        let known = |name: Name<'_>, text: &str| if knows(name) { text.to_owned() } else { OTHER.to_owned() };
        let status = receipt.status.as_str().to_owned();
        let tool = known(Name::Tool(receipt.tool.as_str()), receipt.tool.as_str());
        let agent = known(Name::Agent(receipt.agent.as_str()), receipt.agent.as_str());
        self.add("toolgate_calls_total", vec![("status", status.clone()), ("tool", tool)], 1.0);
        self.add("toolgate_agent_calls_total", vec![("agent", agent), ("status", status)], 1.0);
        if let (false, Some(reason)) = (receipt.status == CallStatus::Completed, &receipt.reason) {
            let labels = vec![("code", reason.code.as_str().to_owned())];
            self.add("toolgate_refusals_total", labels, 1.0);
        }
        let seconds = |from: i64, to: i64| to.saturating_sub(from).max(0) as f64 / 1000.0;
        self.settled.note(seconds(receipt.asked_at, receipt.settled_at));
        let answers = receipt.approval.iter().flat_map(|approval| &approval.by);
        // One that stood before the call was not waited for.
        if let Some(last) = answers.map(|by| by.at).filter(|at| *at >= receipt.asked_at).max() {
            self.answered.note(seconds(receipt.asked_at, last));
        }
        let Some(run) = &receipt.run else { return };
        self.run.note(run.wall_micros as f64 / 1e6);
        self.add("toolgate_run_cpu_seconds_total", Vec::new(), run.cpu_micros as f64 / 1e6);
        let (sent, received) = run.bytes_per_host.values().fold((0, 0), |all, (sent, received)| {
            (u64::saturating_add(all.0, *sent), u64::saturating_add(all.1, *received))
        });
        for (direction, bytes) in [("sent", sent), ("received", received)] {
            if bytes > 0 {
                let labels = vec![("direction", direction.to_owned())];
                self.add("toolgate_egress_bytes_total", labels, bytes as f64);
            }
        }
        let refused = run.attempts.iter().filter(|attempt| attempt.refused.is_some());
        let refused: u64 = refused.map(|attempt| attempt.times).sum();
        if refused > 0 {
            self.add("toolgate_egress_refused_total", Vec::new(), refused as f64);
        }
        if !run.cleaning.is_empty() {
            self.add("toolgate_cleaning_findings_total", Vec::new(), 1.0);
        }
    }

    fn told(&self) -> Numbers {
        let families = COUNTED.into_iter().map(|(name, help)| {
            let samples = self.counts.get(name).into_iter().flatten();
            let samples = samples.map(|(labels, count)| (labels.clone(), *count)).collect();
            Family { name, help, kind: NumberKind::Counter, samples }
        });
        let times = vec![
            self.run.told("toolgate_run_seconds", "How long sandboxes were at work for one call."),
            self.settled.told("toolgate_call_seconds", "From the request to the receipt, people included."),
            self.answered.told("toolgate_answer_seconds", "From the question to the last answer it took."),
        ];
        Numbers { families: families.collect(), times }
    }
}

/// A name that may become a label.
enum Name<'a> {
    Tool(&'a str),
    Agent(&'a str),
}

impl Engine {
    /// Counts from now on.
    pub async fn begin_counting(&self) -> Result<(), EngineError> {
        let mut tally = self.inner.tally.lock().await;
        if tally.is_none() {
            *tally = Some(Tally::since(self.inner.store.ledger_size().await?));
        }
        Ok(())
    }

    /// What has happened since counting began, at every gate of this store, and what there is now.
    pub async fn numbers(&self) -> Result<Numbers, EngineError> {
        self.begin_counting().await?;
        let store = &self.inner.store;
        let (catalogue, settings) = (self.catalogue(), self.settings());
        let knows = |name: Name<'_>| match name {
            Name::Tool(name) => catalogue.find(name).is_some(),
            Name::Agent(name) => settings.agents.keys().any(|agent| agent.as_str() == name),
        };
        let mut held = self.inner.tally.lock().await;
        let tally = held.as_mut().ok_or(EngineError::Missing)?;
        for _ in 0..MOST_PAGES {
            let entries = store.latest_event(tally.seen).await?;
            if entries.is_empty() {
                break;
            }
            entries.iter().for_each(|entry| tally.count(entry, &knows));
        }
        let mut numbers = tally.told();
        let seen = tally.seen;
        drop(held);
        let (waiting, oldest) = store.count_waiting().await?;
        let size = store.ledger_size().await?;
        let oldest = oldest.map_or(0, |asked| self.now().saturating_sub(asked).max(0));
        let behind = i64::try_from(size).unwrap_or(i64::MAX).saturating_sub(seen.saturating_add(1)).max(0);
        let gauge = |name, help, value| Family {
            name,
            help,
            kind: NumberKind::Gauge,
            samples: vec![(Vec::new(), value)],
        };
        let is_suspended = if self.is_suspended() { 1.0 } else { 0.0 };
        numbers.families.extend([
            gauge("toolgate_approvals_waiting", "Questions that wait for people.", waiting as f64),
            gauge(
                "toolgate_approvals_oldest_seconds",
                "How long the oldest of them waits.",
                oldest as f64 / 1000.0,
            ),
            gauge("toolgate_ledger_entries", "Entries of the ledger.", size as f64),
            gauge(
                "toolgate_ledger_entries_uncounted",
                "Entries that are counted by the next look.",
                behind as f64,
            ),
            gauge(
                "toolgate_workers_kept",
                "Workers that are kept for somebody.",
                self.inner.surroundings.leases() as f64,
            ),
            gauge(
                "toolgate_suspended",
                "Whether no call begins, since nobody can tell what the policy is.",
                is_suspended,
            ),
        ]);
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(seq: i64, kind: &str, body: Value) -> LedgerEntry {
        LedgerEntry { seq, time: seq, kind: kind.to_owned(), prev: String::new(), body }
    }

    fn count(tally: &Tally, name: &str) -> Vec<(String, f64)> {
        let told = tally.told();
        let family = told.families.iter().find(|family| family.name == name).unwrap();
        let shown = |labels: &Vec<(&str, String)>| {
            labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
        };
        family.samples.iter().map(|(labels, value)| (shown(labels), *value)).collect()
    }

    #[test]
    fn names_that_are_made_up_are_one_and_series_have_an_end() {
        let mut tally = Tally::since(0);
        for number in 0..2000 {
            let body = json!({ "channel": format!("c{number}") });
            tally.count(&entry(number, "notice.sent", body), &|_| true);
        }
        let series = count(&tally, "toolgate_notices_total");
        assert_eq!(series.len(), MOST_SERIES + 1);
        assert!(series.contains(&("other other".to_owned(), (2000 - MOST_SERIES) as f64)));
        assert_eq!(series.iter().map(|(_, count)| count).sum::<f64>(), 2000.0);
    }

    #[test]
    fn an_answer_is_counted_by_its_way_and_never_by_a_name() {
        let mut tally = Tally::since(0);
        for (seq, via) in (0..).zip(["slack:U1", "slack:U2", "page", "made up\"} 1\n"]) {
            let body = json!({ "via": via, "verdict": "approve" });
            tally.count(&entry(seq, "approval.answered", body), &|_| false);
        }
        let expected = [("approve other", 1.0), ("approve page", 1.0), ("approve slack", 2.0)];
        assert_eq!(count(&tally, "toolgate_answers_total"), expected.map(|(name, n)| (name.to_owned(), n)));
    }

    #[test]
    fn times_fall_into_the_first_bucket_that_is_long_enough() {
        let mut measured = Measured::default();
        [0.005, 0.006, 299.0, 301.0].into_iter().for_each(|seconds| measured.note(seconds));
        let told = measured.told("x", "y");
        assert_eq!((told.buckets[0].1, told.buckets[1].1, told.buckets[11].1, told.longer), (1, 1, 1, 1));
    }
}
