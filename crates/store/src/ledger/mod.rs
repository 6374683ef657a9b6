//! The ledger: one entry per event, chained, in a tree, and signed.
//!
//! `entry`, `tree`, `note`, `lists`, `dsse`, `story` and `verify` are pure; `chain`, `proof`,
//! `told`, `tables` and `audit` keep them in the database;
//! `export` checks a file without one.

mod audit;
mod chain;
mod dsse;
mod entry;
mod event;
mod export;
mod lists;
mod note;
mod proof;
mod retell;
mod story;
mod tables;
mod told;
mod tree;
mod verify;

pub use dsse::{ReceiptError, verify_receipt};
pub use entry::LedgerEntry;
pub use event::EventError;
pub use export::{ExportError, verify_export};
pub use note::{Checkpoint, NoteError};
pub use proof::{ConsistencyProof, InclusionProof, ProofError};
pub use retell::{Retold, retold};
pub use verify::{Broken, Fault, Verified, VerifyError};

pub(crate) use chain::{LAST, LastEntry, Tail, last_of, stands};
pub(crate) use dsse::sign as sign_receipt;
pub(crate) use entry::{RECONCILED, SETTLED};
pub(crate) use lists::{List, has_lists};
pub(crate) use proof::entry_of;
pub(crate) use told::{Told, told};
pub(crate) use tree::Hash;
