//! Traces, numbers and events for a collector that speaks OTLP over HTTP, as JSON.
//!
//! Everything is read from the ledger, after it has happened: no call waits for a collector, and calls of every gate of the
//! store are told. The id of a call is the id of its trace.
//!
//! # Invariants
//! - Names, classes, times and digests are told; no argument, no output, no purpose and no reason in words.
//! - A collector that does not answer costs so much memory and no more: what it does not take is dropped, and that is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::{CallStatus, Digest, ReceiptBody};
use egress::{OwnError, Post, PostTo};
use engine::{Engine, Family, NumberKind, Numbers, Times};
use serde_json::{Value, json};
use store::{LedgerEntry, StoreError};

use super::Live;
use crate::config::{Collector, Telling};

/// How often it is looked whether it is time.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many pages of the ledger are told at once.
const MOST_PAGES: usize = 8;
/// How many calls are followed that have not ended.
const MOST_OPEN: usize = 10_000;
/// How often the same is sent before it is dropped.
const MOST_TRIES: u32 = 5;

pub(super) struct Tracer {
    live: Arc<Live>,
    engine: Engine,
    /// The last entry that was read; nothing before a collector was there.
    seen: Option<i64>,
    began: i64,
    last: i64,
    /// What has happened to calls that have not ended, oldest first.
    open: BTreeMap<String, Vec<(String, i64)>>,
    waiting: Option<Batch>,
}

/// What the collector has not taken yet.
struct Batch {
    bodies: Vec<(&'static str, Value)>,
    tries: u32,
}

impl Tracer {
    pub(super) fn new(live: Arc<Live>, engine: Engine) -> Tracer {
        let began = engine.now();
        Tracer { live, engine, seen: None, began, last: 0, open: BTreeMap::new(), waiting: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let telling = self.live.telling();
            let Some(collector) = &telling.telemetry else {
                self.seen = None;
                continue;
            };
            let now = self.engine.now();
            if now.saturating_sub(self.last) < collector.every_ms {
                continue;
            }
            self.last = now;
            if let Err(error) = self.tell(collector, &telling).await {
                tracing::warn!(%error, "what happened could not be read for the collector");
            }
        }
    }

    async fn tell(&mut self, collector: &Collector, telling: &Telling) -> Result<(), StoreError> {
        if self.waiting.is_none() {
            let (spans, logs) = self.read(collector).await?;
            let mut bodies = Vec::new();
            if collector.traces && !spans.is_empty() {
                bodies.push(("/v1/traces", of_resource("resourceSpans", "scopeSpans", "spans", spans)));
            }
            if collector.logs && !logs.is_empty() {
                bodies.push(("/v1/logs", of_resource("resourceLogs", "scopeLogs", "logRecords", logs)));
            }
            if collector.metrics
                && let Ok(numbers) = self.engine.numbers().await
            {
                let told = metrics(&numbers, self.began, self.engine.now());
                bodies.push(("/v1/metrics", of_resource("resourceMetrics", "scopeMetrics", "metrics", told)));
            }
            self.waiting = Some(Batch { bodies, tries: 0 });
        }
        let Some(mut batch) = self.waiting.take() else { return Ok(()) };
        batch.tries += 1;
        while let Some((path, body)) = batch.bodies.last() {
            match self.post(collector, telling, path, body).await {
                Ok(()) => drop(batch.bodies.pop()),
                Err(error) if error.is_final() || batch.tries >= MOST_TRIES => {
                    tracing::warn!(%error, path, "the collector does not take what it is told, which is dropped");
                    batch.bodies.pop();
                }
                Err(error) => {
                    tracing::info!(%error, path, "the collector does not answer");
                    self.waiting = Some(batch);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn post(
        &self,
        collector: &Collector,
        telling: &Telling,
        path: &str,
        body: &Value,
    ) -> Result<(), OwnError> {
        let header = match &collector.header {
            Some((name, source)) => Some((name, self.live.source(source).ok_or(OwnError::NoSecret)?)),
            None => None,
        };
        let post = Post {
            content_type: "application/json",
            body: body.to_string().into_bytes(),
            signed: None,
            secret_header: header.as_ref().map(|(name, source)| (name.as_str(), source)),
        };
        let url = collector.endpoint.join(path);
        self.live.egress.post(PostTo::Url(&url), post, &telling.private).await
    }

    /// What has happened since the last time: spans of calls that have ended, and every entry.
    async fn read(&mut self, collector: &Collector) -> Result<(Vec<Value>, Vec<Value>), StoreError> {
        let engine = self.engine.clone();
        let store = engine.store();
        let mut seen = match self.seen {
            Some(seen) => seen,
            None => i64::try_from(store.ledger_size().await?).unwrap_or(i64::MAX).saturating_sub(1),
        };
        let (mut spans, mut logs) = (Vec::new(), Vec::new());
        for _ in 0..MOST_PAGES {
            let entries = store.latest_event(seen).await?;
            let Some(last) = entries.last() else { break };
            seen = last.seq;
            for entry in &entries {
                if collector.logs {
                    logs.push(log(entry));
                }
                self.follow(entry, &mut spans);
            }
        }
        self.seen = Some(seen);
        Ok((spans, logs))
    }

    fn follow(&mut self, entry: &LedgerEntry, spans: &mut Vec<Value>) {
        let Some(call) = call_of(entry) else { return };
        if entry.kind == "call.settled" {
            let hops = self.open.remove(call).unwrap_or_default();
            if let Ok(receipt) = serde_json::from_value::<ReceiptBody>(entry.body.clone()) {
                spans.extend(spans_of(&receipt, &hops));
            }
            return;
        }
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(call) {
            // Calls that nobody has heard of the longest are told without what happened on the way.
            let oldest = self.open.iter().min_by_key(|(_, hops)| hops.first().map(|(_, at)| *at));
            if let Some(oldest) = oldest.map(|(call, _)| call.clone()) {
                self.open.remove(&oldest);
            }
        }
        let hops = self.open.entry(call.to_owned()).or_default();
        if hops.len() < 64 {
            hops.push((entry.kind.clone(), entry.time));
        }
    }
}

fn call_of(entry: &LedgerEntry) -> Option<&str> {
    let key = if entry.kind == "call.settled" { "call_id" } else { "call" };
    entry.body.get(key).and_then(Value::as_str).filter(|id| is_id(id))
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A call from its request to its receipt, and within it what it waited for and what ran.
fn spans_of(receipt: &ReceiptBody, hops: &[(String, i64)]) -> Vec<Value> {
    let call = receipt.call_id.as_str();
    let root = span_id(call, "call");
    let at = |kind: &str| hops.iter().rev().find(|(known, _)| known == kind).map(|(_, time)| *time);
    let span = |name: &str, from: i64, to_nanos: i64, more: Vec<Value>| {
        json!({
            "traceId": call, "spanId": span_id(call, name), "parentSpanId": root, "name": name, "kind": 1,
            "startTimeUnixNano": nanos(from).to_string(), "endTimeUnixNano": to_nanos.max(nanos(from)).to_string(),
            "attributes": more,
        })
    };
    let mut attributes = vec![
        text("toolgate.request_id", call),
        text("toolgate.agent_id", receipt.agent.as_str()),
        text("toolgate.tool", receipt.tool.as_str()),
        text("toolgate.status", receipt.status.as_str()),
        text("toolgate.contract", &receipt.contract.to_string()),
        text("toolgate.arguments", &receipt.arguments.to_string()),
        text("toolgate.policy", &receipt.policy.to_string()),
    ];
    attributes.extend(receipt.task.as_ref().map(|task| text("toolgate.task_id", task.as_str())));
    attributes.extend(receipt.reason.as_ref().map(|reason| text("toolgate.reason", reason.code.as_str())));
    let events: Vec<Value> = hops
        .iter()
        .map(|(kind, time)| json!({ "name": kind, "timeUnixNano": nanos(*time).to_string() }))
        .collect();
    let is_bad = matches!(receipt.status, CallStatus::Failed | CallStatus::Refused | CallStatus::Unknown);
    let mut spans = vec![json!({
        "traceId": call, "spanId": root, "name": format!("call {}", receipt.tool), "kind": 2,
        "startTimeUnixNano": nanos(receipt.asked_at).to_string(),
        "endTimeUnixNano": nanos(receipt.settled_at).to_string(),
        "attributes": attributes, "events": events,
        "status": { "code": if is_bad { 2 } else { 1 } },
    })];
    if let Some(asked) = at("approval.asked") {
        let ends = ["approval.answered", "approval.expired", "approval.cancelled"];
        let answered = ends.into_iter().filter_map(at).max().unwrap_or(receipt.settled_at);
        let approval = receipt.approval.as_ref();
        let more = approval.map(|approval| {
            vec![
                text("toolgate.approval", approval.id.as_str()),
                text(
                    "toolgate.approved_by",
                    &approval.by.iter().map(|by| by.name.as_str()).collect::<Vec<_>>().join(","),
                ),
            ]
        });
        spans.push(span("approve", asked, nanos(answered), more.unwrap_or_default()));
    }
    if let Some(run) = &receipt.run {
        let started = at("call.started").unwrap_or(receipt.asked_at);
        let wall = i64::try_from(run.wall_micros).unwrap_or(i64::MAX).saturating_mul(1000);
        let ended = nanos(started).saturating_add(wall).min(nanos(receipt.settled_at).max(nanos(started)));
        let mut more = vec![
            text("toolgate.backend", &run.backend),
            number("toolgate.cpu_micros", run.cpu_micros),
            number("toolgate.peak_memory", run.peak_memory),
        ];
        more.extend(
            run.exit_code.map(
                |code| json!({ "key": "toolgate.exit_code", "value": { "intValue": code.to_string() } }),
            ),
        );
        spans.push(span("run", started, ended, more));
        spans.push(span("settle", ended / 1_000_000, nanos(receipt.settled_at), Vec::new()));
    }
    spans
}

/// An entry, without what it is about.
fn log(entry: &LedgerEntry) -> Value {
    let mut attributes = vec![number("toolgate.seq", u64::try_from(entry.seq).unwrap_or_default())];
    let word = |key: &str| entry.body.get(key).and_then(Value::as_str).filter(|word| word.len() <= 128);
    for (key, name) in [
        ("agent", "toolgate.agent_id"),
        ("task", "toolgate.task_id"),
        ("tool", "toolgate.tool"),
        ("approval", "toolgate.approval"),
        ("status", "toolgate.status"),
        ("channel", "toolgate.channel"),
    ] {
        attributes.extend(word(key).map(|word| text(name, &contract::show_hidden(word))));
    }
    let is_bad = ["refused", "failed", "lost", "flooding", "suspended", "expired"];
    let is_bad = is_bad.iter().any(|bad| entry.kind.ends_with(bad)) || word("status") == Some("refused");
    let mut record = json!({
        "timeUnixNano": nanos(entry.time).to_string(),
        "observedTimeUnixNano": nanos(entry.time).to_string(),
        "severityNumber": if is_bad { 13 } else { 9 },
        "severityText": if is_bad { "WARN" } else { "INFO" },
        "body": { "stringValue": contract::show_hidden(&entry.kind) },
        "attributes": attributes,
    });
    if let (Some(call), Some(record)) = (call_of(entry), record.as_object_mut()) {
        record.insert("traceId".to_owned(), json!(call));
        record.insert("spanId".to_owned(), json!(span_id(call, "call")));
    }
    record
}

fn metrics(numbers: &Numbers, began: i64, now: i64) -> Vec<Value> {
    let (start, time) = (nanos(began).to_string(), nanos(now).to_string());
    let mut told = Vec::new();
    for Family { name, help, kind, samples } in
        numbers.families.iter().filter(|family| !family.samples.is_empty())
    {
        let points: Vec<Value> = samples
            .iter()
            .map(|(labels, value)| {
                let labels: Vec<Value> = labels.iter().map(|(key, value)| text(key, value)).collect();
                json!({ "attributes": labels, "startTimeUnixNano": start, "timeUnixNano": time, "asDouble": value })
            })
            .collect();
        told.push(match kind {
            NumberKind::Counter => json!({ "name": name, "description": help,
                "sum": { "dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true } }),
            NumberKind::Gauge => {
                json!({ "name": name, "description": help, "gauge": { "dataPoints": points } })
            }
        });
    }
    for Times { name, help, buckets, longer, sum } in &numbers.times {
        let bounds: Vec<f64> = buckets.iter().map(|(most, _)| *most).collect();
        let counts: Vec<u64> = buckets.iter().map(|(_, count)| *count).chain([*longer]).collect();
        let point = json!({
            "startTimeUnixNano": start, "timeUnixNano": time, "sum": sum, "explicitBounds": bounds,
            "count": counts.iter().sum::<u64>().to_string(),
            "bucketCounts": counts.iter().map(u64::to_string).collect::<Vec<_>>(),
        });
        told.push(json!({ "name": name, "description": help, "unit": "s",
            "histogram": { "dataPoints": [point], "aggregationTemporality": 2 } }));
    }
    told
}

fn of_resource(resources: &str, scopes: &str, things: &str, all: Vec<Value>) -> Value {
    let resource = json!({ "attributes": [
        text("service.name", "toolgate"), text("service.version", env!("CARGO_PKG_VERSION")),
    ] });
    let scope = json!({ "scope": { "name": "toolgate" }, things: all });
    json!({ resources: [{ "resource": resource, scopes: [scope] }] })
}

/// The same for the same thing, whoever tells it.
fn span_id(call: &str, name: &str) -> String {
    let digest = Digest::of(format!("{call}:{name}").as_bytes()).to_string();
    let digits: String = digest.chars().rev().take(16).filter(char::is_ascii_hexdigit).collect();
    format!("{digits:0>16}")
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn nanos(milliseconds: i64) -> i64 {
    milliseconds.saturating_mul(1_000_000)
}
