//! The words every other crate speaks: tools, calls, classes, reasons, results and receipts.
//!
//! Pure: it knows no clock, disk, socket or environment, and decides nothing.
//!
//! # Invariants
//! - Text from outside becomes a type here once, by `parse`; what has the type is valid.
//! - Equal requests have equal canonical bytes, and so equal digests.
//! - A contract's hash covers everything its author wrote, also what is not shown.
#![forbid(unsafe_code)]

mod action;
mod amount;
mod canonical;
mod chain;
mod class;
mod cleaning;
mod id;
mod misfit;
mod nearest;
mod net;
mod operand;
mod rate;
mod reason;
mod receipt;
mod result;
mod scan;
mod schema;
mod tool;

pub use action::{Action, ActionError, Actions};
pub use amount::{Amount, AmountError, Cost, Measure, OfTask, Pot, Tally};
pub use canonical::{Canonical, CanonicalError, Digest, MAX_JSON_BYTES, case_variant};
pub use chain::chain;
pub use class::{
    Autonomy, Category, CostTier, EgressClass, Idempotency, Level, Profile, SafetyClass, Scope, ToolStatus,
    TrustLabel,
};
pub use cleaning::Cleaning;
pub use id::{
    AgentName, ApprovalId, CallId, GateId, IdError, Key, OperatorName, RoleName, SourceName, TaskName,
    ToolName,
};
pub use nearest::nearest;
pub use net::{
    Host, HostError, HostPattern, Network, NetworkError, PRESETS, Private, PrivateError, Reach, ReachError,
    Special, Target, Zone, preset, special_name, special_purpose,
};
pub use operand::{Binding, NotBound, Operand, Operands};
pub use rate::{CLOCKS_APART_MS, OnTheClock, Rate};
pub use reason::{Code, Reason};
pub use receipt::{Approved, Approver, Attempt, Enforced, Found, ReceiptBody, Reconciled, RunFacts};
pub use result::{ApprovalView, Artifact, CallResult, CallStatus, Output};
pub use scan::{Finding, is_hidden, is_odd_blank, quoted, scan_description, show_hidden, spoken};
pub use schema::{Schema, SchemaError};
pub use tool::{Contract, ContractError, Definition, Example, MAX_DESCRIPTION, Origin};
