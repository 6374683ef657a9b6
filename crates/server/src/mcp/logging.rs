//! Messages beside the answers, for whoever watches a client that asks for them.
//!
//! They say of a call what its answer says, never what was in it.

use std::sync::atomic::{AtomicU8, Ordering};

use contract::{CallResult, CallStatus};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

/// Nobody wants to hear anything.
const SILENT: u8 = u8::MAX;

/// From where on this client wants to hear of things.
pub(super) struct Log(AtomicU8);

impl Default for Log {
    fn default() -> Log {
        Log(AtomicU8::new(SILENT))
    }
}

impl Log {
    pub(super) fn set(&self, level: LoggingLevel) {
        self.0.store(rank(level), Ordering::Relaxed);
    }

    /// Tells how a call stands.
    pub(super) async fn tell(&self, result: &CallResult, context: &RequestContext<RoleServer>) {
        let level = match result.status {
            CallStatus::Completed => LoggingLevel::Info,
            CallStatus::Planned | CallStatus::Running | CallStatus::Waiting => LoggingLevel::Notice,
            CallStatus::Refused | CallStatus::Cancelled => LoggingLevel::Warning,
            CallStatus::Failed | CallStatus::Unknown => LoggingLevel::Error,
        };
        if rank(level) < self.wanted(context) {
            return;
        }
        let code = result.reason.as_ref().map(|reason| reason.code);
        let data =
            json!({ "call_id": result.call_id, "tool": result.tool, "status": result.status, "code": code });
        let told = LoggingMessageNotificationParam::new(level, data).with_logger("toolgate");
        let _ = context.peer.notify_logging_message(told).await;
    }

    /// Newer revisions say it with each request, and whoever does not say it there hears nothing.
    pub(super) fn wanted(&self, context: &RequestContext<RoleServer>) -> u8 {
        match context.meta.protocol_version() {
            Some(version) if !version.has_initialize() => context.meta.log_level().map_or(SILENT, rank),
            _ => self.0.load(Ordering::Relaxed),
        }
    }
}

impl Log {
    /// Whether a client wants to hear of what is so grave.
    pub(super) fn wants(&self, level: LoggingLevel, context: &RequestContext<RoleServer>) -> bool {
        rank(level) >= self.wanted(context)
    }
}

/// The name of a rank; nothing if nobody wants to hear anything.
pub(super) fn named(rank: u8) -> Option<&'static str> {
    LEVELS.get(usize::from(rank)).copied()
}

/// The level of a name; one that nobody knows is not grave.
pub(super) fn level_of(name: &str) -> LoggingLevel {
    match name {
        "debug" => LoggingLevel::Debug,
        "notice" => LoggingLevel::Notice,
        "warning" => LoggingLevel::Warning,
        "error" => LoggingLevel::Error,
        "critical" => LoggingLevel::Critical,
        "alert" => LoggingLevel::Alert,
        "emergency" => LoggingLevel::Emergency,
        _ => LoggingLevel::Info,
    }
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
