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
    fn wanted(&self, context: &RequestContext<RoleServer>) -> u8 {
        match context.meta.protocol_version() {
            Some(version) if !version.has_initialize() => context.meta.log_level().map_or(SILENT, rank),
            _ => self.0.load(Ordering::Relaxed),
        }
    }
}

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
