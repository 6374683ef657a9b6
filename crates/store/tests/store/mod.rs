//! The suite that both databases pass. A test takes its store from [`gate::Gate`], and the SQL that differs from
//! [`gate::Raw`].

mod approvals;
mod calls;
mod clocks;
mod crowd;
mod entering;
mod evidence;
mod forged;
pub(crate) mod gate;
mod ledger;
mod migrations;
mod money;
mod notices;
mod opening;
mod owners;
mod past;
mod people;
mod private;
mod reconcile;
mod registry;
mod rules;
mod sealing;
mod seals;
mod sign_ins;
mod spending;
mod stances;
mod standing;
mod survey;
mod together;

/// Which database the suite runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}
