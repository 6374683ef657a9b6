//! Why a call did not run: an answer for the agent, which leaks nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a call did not run, or did not end well.
///
/// Its code is stable and for programs; its message and hint are for people and models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// A stable name.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What could be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A constructor for each code there is.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal),+ $(,)?) => {
        impl Reason {
            $(
                $(#[$doc])*
                pub fn $name(message: impl Into<String>) -> Reason {
                    Reason { code: $code.to_owned(), message: message.into(), hint: None }
                }
            )+

            /// Every code there is.
            pub const CODES: &'static [&'static str] = &[$($code),+];
        }
    };
}

reasons!(
    /// The request itself is not understood.
    bad_request = "bad_request",
    /// There is no such tool, or not for this agent.
    unknown_tool = "unknown_tool",
    /// The arguments do not fit the tool's schema.
    bad_arguments = "bad_arguments",
    /// There is no such agent.
    unknown_agent = "unknown_agent",
    /// The tool is switched off or suspended.
    tool_disabled = "tool_disabled",
    /// The agent's own list denies it.
    denied_by_list = "denied_by_list",
    /// The agent's level does not include it.
    not_in_level = "not_in_level",
    /// A constraint of the agent's level forbids it.
    constrained = "constrained",
    /// The class of the call demands approval that nobody can give.
    no_operator = "no_operator",
    /// A rule of the configuration denies it.
    denied_by_rule = "denied_by_rule",
    /// The agent is locked.
    locked = "locked",
    /// A path is outside of what was granted.
    outside = "outside",
    /// A path is secret or protected.
    protected = "protected",
    /// The command is not one of the profile's.
    command_not_allowed = "command_not_allowed",
    /// Shell syntax where there is no shell.
    shell_syntax = "shell_syntax",
    /// A host is private, or not granted.
    host_not_allowed = "host_not_allowed",
    /// What is asked for cannot be enforced here.
    cannot_enforce = "cannot_enforce",
    /// A person said no.
    rejected = "rejected",
    /// Nobody answered in time.
    expired = "expired",
    /// The caller went away, or took it back.
    cancelled = "cancelled",
    /// The key was used for another call.
    key_conflict = "key_conflict",
    /// It may have happened; nobody knows.
    outcome_unknown = "outcome_unknown",
    /// The tool failed.
    tool_failed = "tool_failed",
    /// It took too long.
    timeout = "timeout",
    /// The tool's answer does not fit its own schema.
    bad_output = "bad_output",
    /// Too many calls.
    rate_limited = "rate_limited",
    /// The gate itself failed.
    internal = "internal",
);

impl Reason {
    /// The same, with what could be done about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Reason {
        Reason { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}
