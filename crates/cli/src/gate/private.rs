//! `toolgate reveal` and `toolgate erase`: what a call keeps private, for operators.

use clap::Args;
use engine::{Credential, PrivateRefused};
use serde_json::json;

use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

const REVEAL_HELP: &str = "\
What a tool gave is shown as it was, with hidden characters made visible; with --json, as it is. It is hostile text.
That it was looked at is in the ledger. The salt lets whoever has it check the digests of the receipt.";

const ERASE_HELP: &str = "\
Takes away the key of the call: arguments, answer, raw output and artifacts cannot be read any more, by anybody. The ledger
and the receipt stay and verify. The purpose, the reason of a refusal, and the names of changed files are part of the
ledger, and stay. Copies of the database have what they had.";

/// Show what a call was asked and what its tool really gave
#[derive(Args)]
#[command(after_help = REVEAL_HELP)]
pub(crate) struct RevealArguments {
    /// The call, or the beginning of its id
    call: String,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Erase what a call was asked and what it gave
#[derive(Args)]
#[command(after_help = ERASE_HELP)]
pub(crate) struct EraseArguments {
    /// The call, or the beginning of its id
    call: String,

    /// Why; it is in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn reveal(arguments: RevealArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_existing().await?;
    let credential = Credential::load_or_create(&opened.home)?;
    let reading = opened.engine.read_private(&arguments.call, &credential).await.map_err(refused)?;
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
    let credential = Credential::load_or_create(&opened.home)?;
    let erased = opened.engine.erase(&arguments.call, arguments.reason.as_deref(), &credential).await;
    let call = erased.map_err(refused)?;
    if arguments.gate.json {
        talk::json(&json!({ "call_id": call, "erased": true }));
    } else {
        talk::say(&format!("erased: what call {call} was asked and gave"));
    }
    Ok(CODE_DONE)
}

fn refused(error: PrivateRefused) -> Trouble {
    match error {
        refused @ (PrivateRefused::NotAllowed { .. }
        | PrivateRefused::Erase(
            store::EraseError::NotEnded { .. } | store::EraseError::Erased { .. },
        )
        | PrivateRefused::Erased { .. }) => Trouble::refused(refused.into()),
        other => Trouble::from(other),
    }
}
