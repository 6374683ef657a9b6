//! `toolgate demo`: one minute, four real calls.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use contract::CallResult;
use engine::Credential;
use serde_json::json;
use store::Vote;

use super::call::{Who, make};
use super::open::{Opened, open_apart};
use super::{CODE_BROKEN, CODE_DONE, Trouble};
use crate::talk;

/// A one-minute tour that runs real calls in a folder of its own
#[derive(Args)]
pub(crate) struct DemoArguments {}

pub(crate) async fn demo(DemoArguments {}: DemoArguments) -> Result<i32, Trouble> {
    let place = Place::make()?;
    let outcome = tour(&place).await;
    place.remove();
    outcome
}

/// A home and a workspace that exist for the demo alone. Not in `/tmp`, which is something else inside a sandbox.
struct Place {
    root: std::path::PathBuf,
}

impl Place {
    fn make() -> Result<Place, Trouble> {
        let root = super::open::home()?.join(format!("demo-{}", std::process::id()));
        let place = Place { root };
        let workspace = place.workspace();
        fs::create_dir_all(workspace.join("build")).context("cannot make the demo's folder")?;
        fs::create_dir_all(place.home()).context("cannot make the demo's folder")?;
        fs::write(workspace.join("README.md"), "# Demo\n\nA workspace for one minute.\n")?;
        fs::write(workspace.join(".env"), "API_KEY=not-for-agents\n")?;
        fs::write(workspace.join("build/old.o"), "old")?;
        Ok(place)
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.root.join("workspace")
    }

    fn home(&self) -> std::path::PathBuf {
        self.root.join("home")
    }

    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

async fn tour(place: &Place) -> Result<i32, Trouble> {
    // Whatever is configured is for real work: here something is deleted.
    let opened = open_apart(&place.home(), &place.workspace()).await?;

    talk::data("1. An agent reads a file. Free: it stays in the workspace.");
    let read = step(&opened, "fs.read", json!({ "path": "README.md" })).await?;
    expect(&read, "completed")?;

    talk::data("\n2. It tries to read a secret. Refused: `.env` is hidden, whatever the program.");
    let secret = step(&opened, "fs.read", json!({ "path": ".env" })).await?;
    if !secret.is_error || secret.content.contains("not-for-agents") {
        return Ok(CODE_BROKEN);
    }

    talk::data("\n3. It wants to delete something. That waits for a person; here, the demo says yes.");
    let arguments =
        json!({ "command": "rm", "args": ["-r", "build"], "profile": "mutate", "purpose": "clean" });
    let waiting = step(&opened, "shell", arguments.clone()).await?;
    expect(&waiting, "waiting")?;
    if let Some(approval) = &waiting.approval {
        talk::data(&format!("   $ toolgate approve {}", approval.id.short()));
        let credential = Credential::load_or_create(&place.home())?;
        opened.engine.answer(approval.id.as_str(), Vote::Approve, None, &credential, "demo").await?;
    }
    let removed = step(&opened, "shell", arguments).await?;
    expect(&removed, "completed")?;

    talk::data("\n4. Everything is on record: chained, in a Merkle tree, signed.");
    let verified = opened.engine.store().verify(None).await?;
    talk::data("   $ toolgate ledger verify");
    talk::data(&format!(
        "   ok: {} entries, {} receipts, root {}",
        verified.entries, verified.receipts, verified.root
    ));
    let own = talk::own_name();
    talk::data(&format!(
        "\nNext: `{own} up` for the page, `claude mcp add toolgate -- {own} mcp` for an assistant."
    ));
    Ok(CODE_DONE)
}

async fn step(opened: &Opened, tool: &str, arguments: serde_json::Value) -> Result<CallResult, Trouble> {
    talk::data(&format!("   $ toolgate call {tool} '{arguments}'"));
    let who = Who { agent: "default".to_owned(), task: Some("demo".to_owned()), purpose: None };
    let request = who.request(tool, &arguments.to_string(), None)?;
    let result = make(&opened.engine, request, Duration::ZERO, true).await?;
    for line in result.content.lines().take(6) {
        talk::data(&format!("   {line}"));
    }
    if let Some(receipt) = &result.receipt {
        talk::data(&format!("   receipt {receipt}"));
    }
    Ok(result)
}

fn expect(result: &CallResult, status: &str) -> Result<(), Trouble> {
    if result.status.as_str() == status {
        return Ok(());
    }
    Err(Trouble::from(anyhow::anyhow!("the demo expected `{status}` and got `{}`", result.status.as_str()))
        .with_hint("`toolgate doctor` says what this host cannot enforce"))
}
