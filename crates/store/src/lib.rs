//! Remembers: tools, calls, approvals, people, and the ledger that proves what happened.
//!
//! The only crate that speaks SQL. It decides nothing and reads no clock: times are handed in, in milliseconds since
//! 1970.
//!
//! # Invariants
//! - A call and its ledger entries are one transaction: what is recorded is durable, and in the ledger.
//! - State machines, single use, claims and write-class approval are the database's own rules, not only this code's.
//! - The ledger only grows; each entry is bound to its place, and each receipt to its entry.
#![forbid(unsafe_code)]

mod approvals;
mod calls;
mod carrying;
mod charging;
#[cfg(feature = "crash")]
pub mod crash;
#[cfg(not(feature = "crash"))]
mod crash;
mod deliveries;
mod durable;
mod erase;
mod error;
mod evidence;
mod faults;
mod file;
mod held;
mod join;
mod keys;
mod later;
mod ledger;
mod life;
mod list;
mod lookup;
mod meddle;
mod migrations;
mod notices;
mod open;
mod operators;
mod outlook;
mod owners;
mod past;
mod place;
mod policies;
mod pool;
mod presence;
mod private;
mod questions;
mod read;
mod reconcile;
mod records;
mod registry;
mod sealing;
mod seals;
mod settle;
mod sign_ins;
mod spending;
mod sqlite;
mod stances;
mod standing;
mod stops;
mod survey;
mod time;
mod tokens;
mod unended;
mod wrapping;
mod write;

pub use approvals::{
    Answer, AnswerError, AnswerRow, ApprovalFilter, ApprovalRow, ApprovalState, CancelError, FindError, Vote,
};
pub use calls::{CLAIM_KEPT_MS, CallRow, Course, NewApproval, NewCall, RecordError, Recorded};
pub use charging::{Charge, Reserved, Within};
pub use erase::{EraseError, RevealError, Revealed};
pub use error::StoreError;
pub use evidence::Basis;
pub use join::Joined;
pub use keys::{Keys, KeysError, PublicKey, PublicKeyError};
pub use ledger::{
    Broken, Checkpoint, ConsistencyProof, EventError, ExportError, Fault, InclusionProof, LedgerEntry,
    NoteError, ProofError, ReceiptError, Verified, VerifyError, verify_export, verify_receipt,
};
pub use list::CallLine;
pub use lookup::FindCallError;
pub use notices::{DueNotice, Noticed, Outcome as NoticeOutcome};
pub use open::{OpenError, Store, danger};
pub use operators::{AddOperatorError, By, ChangeOperatorError, OperatorRow, Role};
pub use outlook::{Outlook, Sameness};
pub use owners::Fate;
pub use past::{Opened, PastPage, PastRow, Span};
pub use place::{UrlError, names_no_secret};
pub use policies::{PolicyEvent, Shadowed};
pub use presence::{
    Account, DoorEvent, MOST_TRIES, MOST_TRIES_OF_ALL, Passkey, PresenceError, TRIES_COUNT_FOR, TryError,
};
pub use questions::{About, NewEscalation};
pub use reconcile::{ReconcileError, Reconciliation};
pub use registry::{MOST_NAMES, MOST_VERSIONS, RegisterError, Registered, ToolRow, ToolState};
pub use seals::{Seal, SealRow};
pub use settle::{Receipt, SettleError, Settlement};
pub use spending::{Allowance, UsedUp};
pub use stances::{Pin, Stance, StanceError, Stances, label_of};
pub use standing::{NewStanding, Revocation, RevocationRow, RevokeError, StandingRow};
pub use stops::StopError;
pub use survey::{Chapter, Pulse, Similar};
pub use time::Witness;
pub use tokens::{AgentToken, Replace, TokenError};
pub use write::Durable;
