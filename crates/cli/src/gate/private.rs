//! `toolgate reveal` and `toolgate erase`: what a call keeps private, for operators.

use clap::Args;
use engine::PrivateRefused;
use serde_json::json;
use store::{EraseError, RevealError};

use super::ledger::time;
use super::open::Gate;
use super::person::Person;
use super::{CODE_DONE, Trouble};
use crate::talk;

const REVEAL_HELP: &str = "\
What a tool gave is shown as it was, with hidden characters made visible; with --json, as it is. It is hostile text.
That it was looked at is in the ledger. The salt lets whoever has it check the digests of the receipt.";

const ERASE_HELP: &str = "\
Takes away the key of the call: arguments, answer, raw output and artifacts cannot be read any more, by anybody. The ledger
and the receipt stay and verify. The purpose, the reason of a refusal, and the names of changed files are part of the
ledger, and stay. Copies of the database have what they had. What is still needed is not erased: a call without a known end,
one whose key is younger than 24 hours, one that people have approved for more calls than itself.";

/// Show what a call was asked and what its tool really gave
#[derive(Args)]
#[command(after_help = REVEAL_HELP)]
pub(crate) struct RevealArguments {
    /// The call's id, or enough of its beginning
    call: String,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Erase what a call was asked and what it gave
#[derive(Args)]
#[command(after_help = ERASE_HELP)]
pub(crate) struct EraseArguments {
    /// The call's id, or enough of its beginning
    call: String,

    /// Why; it is in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn reveal(arguments: RevealArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_existing().await?;
    let credential = arguments.person.credential(&opened).await?;
    let reading = opened.engine.read_private(id_of(&arguments.call), &credential).await.map_err(refused)?;
    if arguments.gate.json {
        talk::json(&reading);
        return Ok(CODE_DONE);
    }
    let show = |name: &str, text: &str| {
        talk::data(&format!("  {name:<11}{}", talk::indented(&contract::show_hidden(text))));
    };
    talk::data(&format!("call {}", reading.call_id));
    show("arguments", reading.arguments.as_deref().unwrap_or("too long to be kept"));
    match &reading.raw {
        Some(raw) => show("raw", &raw.to_string()),
        None if reading.result.is_none() => show("raw", "nothing yet"),
        None => show("raw", "as it was answered"),
    }
    if let Some(result) = &reading.result {
        show("answered", &result.to_string());
    }
    show("salt", &reading.salt);
    Ok(CODE_DONE)
}

pub(crate) async fn erase(arguments: EraseArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_existing().await?;
    let credential = arguments.person.credential(&opened).await?;
    let erased = opened.engine.erase(id_of(&arguments.call), arguments.reason.as_deref(), &credential).await;
    let call = erased.map_err(refused)?;
    if arguments.gate.json {
        talk::json(&json!({ "call_id": call, "erased": true }));
    } else {
        talk::say(&format!("erased: what call {call} was asked and gave"));
    }
    Ok(CODE_DONE)
}

/// An id as it is copied from what was shown.
fn id_of(text: &str) -> &str {
    text.trim_end_matches('…').trim_start_matches("r-")
}

fn refused(error: PrivateRefused) -> Trouble {
    let hint = match &error {
        PrivateRefused::Erase(EraseError::Claimed { until }) => {
            Some(format!("try again after {}", time(*until)))
        }
        PrivateRefused::Erase(EraseError::Stands { approval }) => {
            Some(format!("`toolgate revoke {}` takes it back", approval.short()))
        }
        PrivateRefused::Erase(EraseError::NotEnded { .. }) => Some(
            "deny or cancel what waits; `toolgate reconcile` says what became of what is unknown".to_owned(),
        ),
        PrivateRefused::Find(_) => Some("`toolgate calls` shows what there is".to_owned()),
        _ => None,
    };
    let trouble = match error {
        refused @ (PrivateRefused::NotAnOperator
        | PrivateRefused::Erased { .. }
        | PrivateRefused::Reveal(RevealError::NotAllowed { .. })
        | PrivateRefused::Erase(
            EraseError::NotAllowed { .. }
            | EraseError::NotEnded { .. }
            | EraseError::Erased { .. }
            | EraseError::Claimed { .. }
            | EraseError::Stands { .. },
        )) => Trouble::refused(refused.into()),
        other => Trouble::from(other),
    };
    match hint {
        Some(hint) => trouble.with_hint(hint),
        None => trouble,
    }
}
