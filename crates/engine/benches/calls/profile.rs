//! Where the time of a call goes: how long each hop is open, summed up by its name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::span::{Attributes, Id};
use tracing::{Subscriber, subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The hops in the order in which a call takes them.
const HOPS: [&str; 8] = ["admit", "look", "decide", "record", "begin", "run", "clean", "settle"];

/// How long hops took, by name.
#[derive(Clone, Default)]
pub(crate) struct Profile {
    times: Arc<Mutex<BTreeMap<&'static str, Vec<Duration>>>>,
}

impl Profile {
    /// Listens from now on, for as long as the process lives.
    pub(crate) fn listen() -> Profile {
        let profile = Profile::default();
        let layers = tracing_subscriber::registry().with(profile.clone());
        let _ = subscriber::set_global_default(layers);
        profile
    }

    /// Forgets what it has heard.
    pub(crate) fn begin(&self) {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A line for each hop: its median, and its share of calls that took so long in all.
    pub(crate) fn lines(&self, all: Duration) -> Vec<String> {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        let mut known = 0.0;
        for hop in HOPS {
            let Some(times) = times.get_mut(hop) else { continue };
            let sum: Duration = times.iter().sum();
            let share = 100.0 * sum.as_secs_f64() / all.as_secs_f64();
            known += share;
            lines.push(format!("  {hop:<8}      p50 {:>9.1?}  {share:>5.1} %", crate::at(times, 0.5)));
        }
        lines.push(format!("  {:<8}      {:>13}  {:>5.1} %", "the rest", "", 100.0 - known));
        lines
    }
}

struct Opened(Instant);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Profile {
    fn on_new_span(&self, _attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Opened(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Opened(at)) = span.extensions().get() {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.entry(span.name()).or_default().push(at.elapsed());
        }
    }
}
