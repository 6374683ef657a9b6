//! The ledger: one entry per event, chained, in a tree, and signed.
//!
//! `entry`, `tree`, `note`, `dsse` and `verify` are pure; `chain`, `proof` and `audit` keep them in the database;
//! `export` checks a file without one.

mod audit;
mod chain;
mod dsse;
mod entry;
mod event;
mod export;
mod note;
mod proof;
mod tree;
mod verify;

pub use dsse::{ReceiptError, verify_receipt};
pub use entry::LedgerEntry;
pub use event::EventError;
pub use export::{ExportError, verify_export};
pub use note::{Checkpoint, NoteError};
pub use proof::{ConsistencyProof, InclusionProof, ProofError};
pub use verify::{Broken, Fault, Verified, VerifyError};

pub(crate) use chain::{Tail, stands};
pub(crate) use dsse::sign as sign_receipt;
pub(crate) use entry::{RECONCILED, SETTLED};
pub(crate) use tree::Hash;
