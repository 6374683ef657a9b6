//! `toolgate ledger`: what happened, and the proof that nobody has changed it.

use std::fs;
use std::io::{self, BufWriter};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;
use store::{ExportError, LedgerEntry, PublicKey, Store};

use super::open::{Gate, home};
use super::{CODE_DONE, Trouble};
use crate::talk;

const AFTER_HELP: &str = "\
A checkpoint that is kept elsewhere finds what a look at the ledger alone cannot: an end that was cut off, or another
ledger in its place. Exit code 1 if something is wrong with the ledger.";

/// Verify, show, export and prove what happened
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LedgerArguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum Command {
    /// Check every entry, every signature and the whole tree
    Verify {
        /// A checkpoint kept elsewhere that the ledger must still agree with
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
        /// Check an exported file instead; needs nothing but a public key
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
        /// The public key to check an exported file with; else the one of this home
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Show the latest entries
    Show {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: i64,
    },
    /// Write the whole ledger as JSON lines, to be verified elsewhere
    Export {
        /// Where to; else standard output
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Sign and print a checkpoint, to be kept elsewhere
    Checkpoint,
    /// Prove that an entry is in the ledger
    Prove {
        /// Its number
        seq: i64,
    },
}

/// What was to be verified is not as it should be.
const CODE_NOT_VERIFIED: i32 = 1;

pub(crate) async fn ledger(arguments: LedgerArguments) -> Result<i32, Trouble> {
    let json = arguments.gate.json;
    if let Command::Verify { export: Some(export), checkpoint, key } = &arguments.command {
        return verify_export(export, checkpoint.as_ref(), key.as_ref(), json);
    }
    let opened = arguments.gate.open_existing().await?;
    let (store, now) = (opened.engine.store(), opened.engine.now());
    match arguments.command {
        Command::Verify { checkpoint, .. } => verify(store, checkpoint, json).await,
        Command::Show { last } => show(store, last, json).await,
        Command::Export { to } => export(store, to).await,
        Command::Checkpoint => {
            talk::data(store.checkpoint(now).await?.trim_end_matches('\n'));
            Ok(CODE_DONE)
        }
        Command::Prove { seq } => {
            let proof = store.prove(seq).await?;
            talk::json(&proof);
            Ok(CODE_DONE)
        }
    }
}

pub(super) fn read(path: &PathBuf) -> Result<String, Trouble> {
    Ok(fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?)
}

async fn verify(store: &Store, checkpoint: Option<PathBuf>, json: bool) -> Result<i32, Trouble> {
    let checkpoint = checkpoint.as_ref().map(read).transpose()?;
    let checked = store.verify(checkpoint.as_deref()).await;
    tell(checked.map_err(anyhow::Error::from), json)
}

fn verify_export(
    export: &PathBuf,
    checkpoint: Option<&PathBuf>,
    key: Option<&PathBuf>,
    json: bool,
) -> Result<i32, Trouble> {
    let key = public_key(key)?;
    let checkpoint = checkpoint.map(read).transpose()?;
    let file = fs::File::open(export).with_context(|| format!("cannot read `{}`", export.display()))?;
    let checked = store::verify_export(io::BufReader::new(file), &key, checkpoint.as_deref());
    tell(checked.map_err(anyhow::Error::from), json)
}

/// The public key to verify with: the one named, else the one of this home.
pub(super) fn public_key(named: Option<&PathBuf>) -> Result<PublicKey, Trouble> {
    let own = || home().map(|home| home.join("signing.pub"));
    let text = read(&named.cloned().map_or_else(own, Ok)?)?;
    Ok(PublicKey::parse(text.trim()).map_err(|_| anyhow!("the public key is not understood"))?)
}

/// Says that a record is broken, and how. The exit code for it.
pub(super) fn say_broken(code: &str, error: &anyhow::Error, json: bool) -> i32 {
    let why = format!("{error:#}");
    if json {
        talk::failure(code, &why, None);
    } else {
        talk::say(&format!("broken: {why}"));
    }
    CODE_NOT_VERIFIED
}

fn tell(checked: Result<store::Verified, anyhow::Error>, json: bool) -> Result<i32, Trouble> {
    match checked {
        Ok(verified) => {
            if json {
                talk::json(&verified);
            } else {
                talk::data(&format!(
                    "ok: {} entries, {} receipts, root {}",
                    verified.entries, verified.receipts, verified.root
                ));
            }
            Ok(CODE_DONE)
        }
        Err(broken) => Ok(say_broken("ledger_broken", &broken, json)),
    }
}

async fn show(store: &Store, last: i64, json: bool) -> Result<i32, Trouble> {
    let size = i64::try_from(store.ledger_size().await?).unwrap_or(i64::MAX);
    let entries = store.latest_event(size.saturating_sub(last.clamp(1, 500)) - 1).await?;
    for entry in entries {
        if json {
            talk::line(&entry);
            continue;
        }
        talk::data(&line_of(&entry));
    }
    Ok(CODE_DONE)
}

/// An entry in one line: its place, its time, what happened, to which call, and what is to be said of it.
fn line_of(entry: &LedgerEntry) -> String {
    let of = |key: &str| entry.body.get(key).and_then(Value::as_str);
    let call = of("call").or_else(|| of("call_id")).map(short).unwrap_or_default();
    let reason = || entry.body.pointer("/reason/code").and_then(Value::as_str);
    let told = [
        of("tool").or_else(|| of("name")).map(str::to_owned),
        of("operator").map(|name| match of("by") {
            Some(by) => format!("{name} by {by}"),
            None => name.to_owned(),
        }),
        of("decision").map(|decision| format!("→ {decision}")),
        of("verdict").map(|vote| format!("{vote} by {}", of("by").unwrap_or("nobody"))),
        of("status").map(|status| {
            format!("{status}{}", reason().map(|code| format!(" ({code})")).unwrap_or_default())
        }),
        of("state").map(|state| format!("→ {state}")),
        super::policy::said_of(entry),
        of("approval").map(|id| format!("approval {}", short(id))),
        of("agent").map(|agent| format!("agent {agent}")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    let line = format!(
        "{:>6}  {}  {:<18} {call:<8}  {}",
        entry.seq,
        time(entry.time),
        entry.kind,
        contract::show_hidden(&told.join(" "))
    );
    line.trim_end().to_owned()
}

/// As much of an id as people type.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

async fn export(store: &Store, to: Option<PathBuf>) -> Result<i32, Trouble> {
    match to {
        None => match store.export(&mut io::stdout()).await {
            // Whoever stops reading has seen enough.
            Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
            exported => exported?,
        },
        Some(path) => {
            let file =
                fs::File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
            store.export(&mut BufWriter::new(file)).await?;
        }
    }
    Ok(CODE_DONE)
}

/// A moment as people write it, in UTC.
pub(crate) fn time(milliseconds: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(milliseconds) {
        Some(moment) => moment.format("%Y-%m-%d %H:%M:%S").to_string(),
        None => milliseconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_people_write_them() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(time(1_794_743_790_205), "2026-11-15 11:56:30");
    }
}
