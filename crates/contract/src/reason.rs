//! Why a call did not run: an answer for the agent, which leaks nothing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a call did not run, or did not end well.
///
/// Its code is stable and for programs; its message and hint are for people and models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// A stable name.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// What could be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// After how many milliseconds the same call may fare better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// A code for each reason there is, and a constructor for each code.
macro_rules! reasons {
    ($($(#[$doc:meta])* $code:ident $name:ident = $text:literal),+ $(,)?) => {
        /// The stable name of a reason. Programs rely on these.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[schemars(rename = "ReasonCode")]
        pub enum Code {
            $(
                $(#[$doc])*
                #[serde(rename = $text)]
                $code,
            )+
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Code] = &[$(Code::$code),+];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $text,)+
                }
            }
        }

        impl Reason {
            $(
                $(#[$doc])*
                pub fn $name(message: impl Into<String>) -> Reason {
                    Reason { code: Code::$code, message: message.into(), hint: None, retry_after_ms: None }
                }
            )+
        }
    };
}

reasons!(
    /// The request itself is not understood.
    BadRequest bad_request = "bad_request",
    /// There is no such tool, or not for this agent.
    UnknownTool unknown_tool = "unknown_tool",
    /// The arguments do not fit the tool's schema.
    BadArguments bad_arguments = "bad_arguments",
    /// The arguments are longer than they may be.
    TooLarge too_large = "too_large",
    /// There is no such agent.
    UnknownAgent unknown_agent = "unknown_agent",
    /// The tool is switched off or suspended.
    ToolDisabled tool_disabled = "tool_disabled",
    /// The agent's own list denies it.
    DeniedByList denied_by_list = "denied_by_list",
    /// The agent's level does not include it.
    NotInLevel not_in_level = "not_in_level",
    /// The agent's role does not include it.
    NotInRole not_in_role = "not_in_role",
    /// A constraint of the agent's level forbids it.
    Constrained constrained = "constrained",
    /// The class of the call demands approval that nobody can give.
    NoOperator no_operator = "no_operator",
    /// A rule of the configuration denies it.
    DeniedByRule denied_by_rule = "denied_by_rule",
    /// The policy has changed, and what it is now cannot be read or cannot come into force.
    PolicyUnreadable policy_unreadable = "policy_unreadable",
    /// A rule cannot be evaluated for the call, so it may not run.
    RuleFailed rule_failed = "rule_failed",
    /// A hook denies it.
    DeniedByHook denied_by_hook = "denied_by_hook",
    /// A hook gave no answer, which means no.
    HookFailed hook_failed = "hook_failed",
    /// A hook withholds what the tool gave.
    Withheld withheld = "withheld",
    /// The agent is locked.
    Locked locked = "locked",
    /// A path is outside of what was granted.
    Outside outside = "outside",
    /// A path is secret or protected.
    Protected protected = "protected",
    /// The command is not one of the profile's.
    CommandNotAllowed command_not_allowed = "command_not_allowed",
    /// Shell syntax where there is no shell.
    ShellSyntax shell_syntax = "shell_syntax",
    /// A host is private, or not granted.
    HostNotAllowed host_not_allowed = "host_not_allowed",
    /// What is asked for cannot be enforced here.
    CannotEnforce cannot_enforce = "cannot_enforce",
    /// A person said no.
    Rejected rejected = "rejected",
    /// Nobody answered in time.
    Expired expired = "expired",
    /// The caller went away, or took it back.
    Cancelled cancelled = "cancelled",
    /// What was approved is no longer what is there.
    Changed changed = "changed",
    /// The signed ledger does not tell of the approval as the store has it.
    Unproved unproved = "unproved",
    /// Somebody else works in the same place right now.
    Busy busy = "busy",
    /// The key was used for another call.
    KeyConflict key_conflict = "key_conflict",
    /// The gate ended before it could begin: nothing has happened, and it may be made again.
    Interrupted interrupted = "interrupted",
    /// It may have happened; nobody knows.
    OutcomeUnknown outcome_unknown = "outcome_unknown",
    /// The tool failed.
    ToolFailed tool_failed = "tool_failed",
    /// It took too long.
    Timeout timeout = "timeout",
    /// The tool's answer does not fit its own schema.
    BadOutput bad_output = "bad_output",
    /// Too many calls.
    RateLimited rate_limited = "rate_limited",
    /// It would spend more than a budget has left.
    OverBudget over_budget = "over_budget",
    /// The gate itself failed.
    Internal internal = "internal",
);

impl Reason {
    /// The same, with what could be done about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Reason {
        Reason { hint: Some(hint.into()), ..self }
    }

    /// The same, with how long to wait before another try.
    #[must_use]
    pub fn retry_after(self, milliseconds: u64) -> Reason {
        Reason { retry_after_ms: Some(milliseconds), ..self }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}
