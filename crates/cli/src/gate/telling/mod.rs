//! Who is told what happens while a gate runs, and who brings answers from elsewhere.
//!
//! What is configured may change at any moment: everybody here looks at it anew each time.

mod elsewhere;
mod notices;
mod text;
mod trace;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context;
use egress::{Egress, SecretSource};
use engine::Engine;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Trouble;
use crate::config::{Meaning, Telling};
use crate::way_out;

/// What is configured now, and the way out.
pub(crate) struct Live {
    egress: Egress,
    now: RwLock<Arc<Telling>>,
}

impl Live {
    /// What the configuration says at the start. A secret that is named and not there is an error then.
    pub(crate) fn new(egress: Egress, telling: &Telling) -> Result<Arc<Live>, Trouble> {
        for source in telling.sources() {
            way_out::source_of(source).context("who is told, and who answers, cannot be set up")?;
        }
        Ok(Arc::new(Live { egress, now: RwLock::new(Arc::new(telling.clone())) }))
    }

    /// Takes what the configuration says now.
    pub(crate) fn refresh(&self, meaning: &Meaning) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(meaning.telling.clone());
    }

    fn telling(&self) -> Arc<Telling> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where a secret is to be had, now; nothing if its variable is gone.
    fn source(&self, source: &policy::SecretSource) -> Option<SecretSource> {
        way_out::source_of(source).ok()
    }

    /// Begins to tell, until it is stopped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        engine: &Engine,
        listens: SocketAddr,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let notices = notices::Notifier::new(Arc::clone(self), engine.clone(), listens);
        tasks.spawn(stop.clone().run_until_cancelled_owned(notices.run()));
        let tracer = trace::Tracer::new(Arc::clone(self), engine.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(tracer.run()));
    }
}
