//! What the gate tells its operators besides the ledger: events on standard error, which may be lost.
//!
//! # Invariants
//! - One event is one line, whatever is in it: what an agent or a host has said can neither end a line nor begin another,
//!   and writes no escape to a terminal.
//! - Each line names the call that it is about, where it is about one.

use std::fmt;
use std::io::Write as _;

use engine::Clock;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config;

/// The longest value of a field, in characters.
const LONGEST: usize = 2000;

/// Begins to tell, from warnings on unless `TOOLGATE_LOG` says otherwise; as JSON where `TOOLGATE_LOG_FORMAT` is `json`.
pub(crate) fn begin() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(config::log_filter().unwrap_or_default());
    let lines = Lines { form: if config::logs_json() { Form::Json } else { Form::Text } };
    // It has begun before, or nobody can be told: neither is a reason not to work.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
}

struct Lines {
    form: Form,
}

/// The fields of an event or a span, in the order of their names.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), json!(value));
    }
}

impl Fields {
    // Before it is anybody's line.
    fn put(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(plain(value)));
    }
}

/// A text without anything that is more than text.
fn plain(text: &str) -> String {
    let short: String = text.chars().take(LONGEST).collect();
    contract::show_hidden(&short).replace('\n', "⟨U+000A⟩").replace('\t', " ")
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        // Those of the event itself stand for those of what it is part of.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                for (name, value) in &of_span.0 {
                    fields.0.entry(name).or_insert(value.clone());
                }
            }
        }
        event.record(&mut fields);
        let time = chrono::DateTime::from_timestamp_millis(Clock::system().now()).unwrap_or_default();
        let time = time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let metadata = event.metadata();
        let line = line(self.form, &time, metadata.level().as_str(), metadata.target(), fields.0);
        // Nobody is there to be told that nobody is told.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

fn line(form: Form, time: &str, level: &str, target: &str, mut fields: Map<String, Value>) -> String {
    let message = fields.remove("message");
    let message = message.as_ref().and_then(Value::as_str).unwrap_or_default();
    match form {
        Form::Json => {
            let mut whole = Map::new();
            whole.insert("time".to_owned(), json!(time));
            whole.insert("level".to_owned(), json!(level.to_ascii_lowercase()));
            whole.insert("target".to_owned(), json!(target));
            whole.insert("message".to_owned(), json!(message));
            // No field has the name of one of these.
            for (name, value) in fields {
                whole.entry(name).or_insert(value);
            }
            format!("{}\n", Value::Object(whole))
        }
        Form::Text => {
            let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("{time} {level:>5} {target}: {message}{fields}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Map<String, Value> {
        [("message", "a call"), ("tool", text)]
            .map(|(name, value)| (name.to_owned(), json!(plain(value))))
            .into_iter()
            .collect()
    }

    #[test]
    fn whatever_is_in_an_event_it_is_one_line_of_plain_text() {
        let hostile = "x\n2026-11-18T00:00:00.000Z  WARN engine: approved\r\x1b[2J\u{202e}\u{9b}0m\"}";
        for form in [Form::Text, Form::Json] {
            let line = line(form, "2026-11-18T00:00:00.000Z", "WARN", "engine", fields(hostile));
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(line.trim_end().chars().all(|c| !c.is_control() && !contract::is_hidden(c)), "{line}");
        }
    }

    #[test]
    fn a_line_of_json_has_its_own_words_for_time_and_level() {
        let mut fields = fields("shell");
        fields.insert("level".to_owned(), json!("error"));
        fields.insert("request_id".to_owned(), json!("0123"));
        let line = line(Form::Json, "2026-11-18T00:00:00.000Z", "WARN", "engine", fields);
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            read,
            json!({ "time": "2026-11-18T00:00:00.000Z", "level": "warn", "target": "engine", "message": "a call",
                "tool": "shell", "request_id": "0123" })
        );
    }
}
