//! `toolgate doctor`: what this host can really enforce, how it was proved, and how to get the rest.

use anyhow::Context;
use clap::Args;
use jail::{Control, Level};
use sandbox::{Capability, Native, Proof, Proofs, Refusal, host_facts};
use serde::Serialize;

use crate::{config, talk};

/// Show what this host can really enforce, and how to get the rest
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Findings<'a> {
    usable: bool,
    host: &'a [Capability],
    controls: &'a [sandbox::ProvedControl],
    error: Option<String>,
    fix: Option<String>,
}

/// Runs the canaries anew and shows what they found. 0 when every required wall stands, else 3.
pub(crate) fn run(arguments: &Arguments) -> i32 {
    let host = host_facts();
    if !arguments.json {
        talk::say("trying every wall from inside a fresh sandbox …");
    }
    let (proof, refusal) = match prove() {
        Ok(Ok(proof)) => (Some(proof), None),
        Ok(Err(refusal)) => (None, Some(refusal)),
        Err(error) => {
            talk::error(&error, None);
            return 2;
        }
    };
    let usable = proof.as_ref().is_some_and(|proof| proof.missing_walls().is_empty());
    let controls = proof.as_ref().map(Proof::controls).unwrap_or_default();
    let error = refusal.map(|refusal| {
        let fix = refusal.fix();
        (format!("{:#}", anyhow::Error::from(refusal)), fix)
    });
    let (error, fix) = error.unzip();
    let findings = Findings { usable, host: &host, controls, error, fix: fix.flatten() };
    if arguments.json {
        talk::data(&serde_json::to_string_pretty(&findings).unwrap_or_default());
    } else {
        show(&findings);
    }
    if usable { 0 } else { 3 }
}

fn prove() -> anyhow::Result<Result<Proof, Refusal>> {
    let prober = std::env::current_exe().context("cannot find the toolgate binary")?;
    let proofs = Proofs { folder: config::state_folder(), prober };
    Ok(Native::single_threaded(proofs, None).prove())
}

fn show(findings: &Findings<'_>) {
    talk::data("host");
    for fact in findings.host {
        talk::data(&format!("  {:<16} {}", fact.name, fact.found));
        if let Some(fix) = &fact.fix {
            talk::data(&format!("  {:<16} fix: {fix}", ""));
        }
    }
    if !findings.controls.is_empty() {
        talk::data("\nnative sandbox    state     canary   by");
    }
    for proved in findings.controls {
        let mark = if proved.control.is_required() { "*" } else { " " };
        let canary = match proved.canary.as_str() {
            "held" => "held",
            text if text.starts_with("got through") => "THROUGH",
            _ => "–",
        };
        let (name, level) = (proved.control.name(), proved.level.to_string());
        // Why nothing was seen to hold is not for the reader to guess.
        let why = if canary == "–" { format!(" ({})", proved.canary) } else { String::new() };
        talk::data(&format!("{mark} {name:<15} {level:<9} {canary:<8} {}{why}", proved.how));
        if canary == "THROUGH" {
            talk::data(&format!("  {:<15} {}", "", proved.canary));
        }
    }
    if let Some(error) = &findings.error {
        talk::data(&format!("\nnative sandbox    {error}"));
    }
    if let Some(fix) = &findings.fix {
        talk::data(&format!("fix: {fix}"));
    }
    talk::data(&format!("\n{}", verdict(findings)));
}

fn verdict(findings: &Findings<'_>) -> String {
    let count = |level: Level| findings.controls.iter().filter(|proved| proved.level == level).count();
    if !findings.usable {
        return "not usable: without every wall marked * nothing is run".to_owned();
    }
    let (enforced, partly, all) = (count(Level::Enforced), count(Level::Partly), Control::ALL.len());
    format!("usable: {enforced} of {all} controls enforced, {partly} partly; * must stand or nothing is run")
}
