//! What happens, in numbers, for Prometheus; and whether calls can be taken at all.

use std::fmt::Write as _;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{Family, NumberKind, Numbers, Times};
use tokio::sync::Mutex;

use super::app::App;
use super::problem::Problem;
use super::{body, shapes};

/// The form of what is told.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long the store may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long that is believed, in milliseconds: anybody may ask, and nobody shall keep the store busy by it.
const BELIEVED_MS: i64 = 1000;

/// Whether the store has answered, and when.
pub(super) type Readiness = Mutex<Option<(i64, bool)>>;

/// Everything that is counted, as Prometheus reads it.
pub(super) async fn show(State(app): State<App>) -> Result<Response, Problem> {
    let numbers = app.gate.numbers().await?;
    let mut text = written(&numbers);
    own(&mut text);
    Ok(([(header::CONTENT_TYPE, KIND)], text).into_response())
}

/// Whether calls can be taken: the store answers, and the policy is known. Nothing else about the gate.
pub(super) async fn ready(State(app): State<App>) -> Response {
    let now = app.gate.now();
    let mut known = app.readiness.lock().await;
    let answers = match *known {
        Some((at, answers)) if now.saturating_sub(at) < BELIEVED_MS && now >= at => answers,
        _ => {
            let asked = tokio::time::timeout(PATIENCE, app.gate.ledger_size()).await;
            let answers = matches!(asked, Ok(Ok(_)));
            *known = Some((now, answers));
            answers
        }
    };
    drop(known);
    let (status, said) = match (answers, app.gate.is_suspended()) {
        (true, false) => (StatusCode::OK, shapes::Readiness::Ready),
        (true, true) => (StatusCode::SERVICE_UNAVAILABLE, shapes::Readiness::Suspended),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, shapes::Readiness::NoStore),
    };
    body::json(status, &shapes::Ready { status: said })
}

fn written(numbers: &Numbers) -> String {
    let mut text = String::new();
    for Family { name, help, kind, samples } in &numbers.families {
        let kind = match kind {
            NumberKind::Counter => "counter",
            NumberKind::Gauge => "gauge",
        };
        head(&mut text, name, help, kind);
        for (labels, value) in samples {
            line(&mut text, name, labels, *value);
        }
    }
    for Times { name, help, buckets, longer, sum } in &numbers.times {
        head(&mut text, name, help, "histogram");
        let mut so_far = 0;
        for (most, count) in buckets {
            so_far += count;
            line(&mut text, &format!("{name}_bucket"), &[("le", most.to_string())], so_far as f64);
        }
        let all = so_far + longer;
        line(&mut text, &format!("{name}_bucket"), &[("le", "+Inf".to_owned())], all as f64);
        line(&mut text, &format!("{name}_sum"), &[], *sum);
        line(&mut text, &format!("{name}_count"), &[], all as f64);
    }
    text
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(text: &mut String, name: &str, labels: &[(&str, String)], value: f64) {
    text.push_str(name);
    if !labels.is_empty() {
        let written: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let _ = write!(text, "{{{}}}", written.join(","));
    }
    let _ = writeln!(text, " {value}");
}

/// A label's value cannot end its line.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// What is this process's own.
fn own(text: &mut String) {
    let version = env!("CARGO_PKG_VERSION");
    head(text, "toolgate_build_info", "The version that runs.", "gauge");
    line(text, "toolgate_build_info", &[("version", version.to_owned())], 1.0);
    let resident = std::fs::read_to_string("/proc/self/status").ok().and_then(|read| {
        let line = read.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    if let Some(resident) = resident {
        let name = "process_resident_memory_bytes";
        head(text, name, "Resident memory size in bytes.", "gauge");
        line(text, name, &[], resident.saturating_mul(1024) as f64);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        head(text, "process_open_fds", "Number of open file descriptors.", "gauge");
        line(text, "process_open_fds", &[], open.count() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prometheus_reads_them_and_labels_end_no_line() {
        let families = vec![Family {
            name: "x_total",
            help: "Things.",
            kind: NumberKind::Counter,
            samples: vec![(vec![("tool", "a\"} 1\nx_total{tool=\"b".to_owned())], 2.0)],
        }];
        let buckets = vec![(0.5, 1), (1.0, 2)];
        let times = vec![Times { name: "y", help: "Times.", buckets, longer: 3, sum: 9.5 }];
        assert_eq!(
            written(&Numbers { families, times }),
            "# HELP x_total Things.\n# TYPE x_total counter\nx_total{tool=\"a\\\"} 1\\nx_total{tool=\\\"b\"} 2\n\
             # HELP y Times.\n# TYPE y histogram\ny_bucket{le=\"0.5\"} 1\ny_bucket{le=\"1\"} 3\n\
             y_bucket{le=\"+Inf\"} 6\ny_sum 9.5\ny_count 6\n"
        );
    }
}
