//! `toolgate receipt`: the signed record of one call.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use contract::ReceiptBody;
use store::{PublicKey, verify_receipt};

use super::ledger::{public_key, read, say_broken, time};
use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

/// Show or verify the signed record of a call
#[derive(Args)]
pub(crate) struct ReceiptArguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum Command {
    /// Show a receipt; with --json the signed envelope itself
    Show {
        /// The receipt's or the call's id, or enough of its beginning
        id: String,
    },
    /// Verify a receipt that was saved to a file
    Verify {
        /// The file
        file: PathBuf,
        /// The public key to check it with; else the one of this home
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

pub(crate) async fn receipt(arguments: ReceiptArguments) -> Result<i32, Trouble> {
    match arguments.command {
        Command::Show { id } => {
            let opened = arguments.gate.open_existing().await?;
            let prefix = id.trim_end_matches('…').trim_start_matches("r-").to_owned();
            let store = opened.engine.store();
            let found = store.find_call(&prefix).await;
            let call = found.map_err(|error| {
                Trouble::from(error).with_hint("`toolgate ledger show` lists what happened")
            })?;
            let envelope = store.receipt(&call).await?;
            let envelope = envelope.ok_or_else(|| anyhow!("call `{call}` is not settled yet"))?;
            if arguments.gate.json {
                talk::data(&envelope);
                return Ok(CODE_DONE);
            }
            tell(&envelope, store.keys().public(), false)
        }
        Command::Verify { file, key } => tell(&read(&file)?, &public_key(key.as_ref())?, arguments.gate.json),
    }
}

fn tell(envelope: &str, key: &PublicKey, json: bool) -> Result<i32, Trouble> {
    match verify_receipt(envelope, key) {
        Ok(body) if json => {
            talk::json(&body);
            Ok(CODE_DONE)
        }
        Ok(body) => {
            print(&body);
            Ok(CODE_DONE)
        }
        Err(error) => Ok(say_broken("receipt_broken", &error.into(), json)),
    }
}

fn print(body: &ReceiptBody) {
    let line = |name: &str, value: &str| {
        talk::data(&format!("  {name:<11}{}", talk::indented(&contract::show_hidden(value))));
    };
    talk::data(&format!("receipt r-{} · signature good", body.call_id));
    line("tool", body.tool.as_str());
    line("agent", body.agent.as_str());
    if let Some(purpose) = &body.purpose {
        line("purpose", purpose);
    }
    line("status", body.status.as_str());
    if let Some(reason) = &body.reason {
        line("why", &reason.message);
    }
    if let Some(approval) = &body.approval {
        line("approved", &format!("by {} via {} at {}", approval.by, approval.via, time(approval.at)));
    }
    line("asked", &time(body.asked_at));
    line("settled", &time(body.settled_at));
    line("contract", &body.contract.to_string());
    line("arguments", &body.arguments.to_string());
    line("policy", &body.policy.to_string());
    let Some(run) = &body.run else { return };
    let held = run.enforced.values().filter(|enforced| enforced.level == "enforced").count();
    line("walls", &format!("{} · {held} of {} controls enforced", run.backend, run.enforced.len()));
    for (control, enforced) in run.enforced.iter().filter(|(_, enforced)| enforced.level != "enforced") {
        line("", &format!("{control}: {} ({})", enforced.level, enforced.how));
    }
    if let Some(code) = run.exit_code {
        line("exit", &code.to_string());
    }
    for (path, change) in run.files_changed.iter().take(20) {
        line("changed", &format!("{path} ({change})"));
    }
    line("took", &format!("{} ms", run.wall_micros / 1000));
}
