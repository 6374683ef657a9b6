//! What the gate tells its operators besides the ledger: events on standard error, which may be lost.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config;

/// Begins to tell, from warnings on unless `TOOLGATE_LOG` says otherwise.
pub(crate) fn begin() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(config::log_filter().unwrap_or_default());
    let events =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // It has begun before, or nobody can be told: neither is a reason not to work.
    let _ = events.try_init();
}
