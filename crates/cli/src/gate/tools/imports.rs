//! Tools that come from elsewhere: what they are, how far they are trusted, and what an operator says of them.

use anyhow::anyhow;
use contract::{Contract, EgressClass, SafetyClass, ToolName, ToolStatus, show_hidden};
use engine::{Credential, Engine, ListedTool, Lowering, PinError};
use serde_json::{Value, json};

use super::super::{CODE_DONE, CODE_TOOL_FAILED, Trouble};
use crate::talk;

/// All tools there are, with where they come from.
pub(super) fn list(engine: &Engine, json: bool) {
    let all = engine.all_tools();
    if json {
        let rows: Vec<Value> = all.iter().map(row).collect();
        return talk::json(&rows);
    }
    for tool in &all {
        let source = tool.source.as_ref().map_or("built in", |source| source.as_str());
        let (facts, findings) = (&tool.facts, tool.contract.findings().len());
        let found = match findings {
            0 => String::new(),
            1 => " · 1 finding".to_owned(),
            more => format!(" · {more} findings"),
        };
        talk::data(&format!(
            "{:<28} {:<16} {:<10} {:<10} {} · egress {}{found}",
            facts.name.as_str(),
            source,
            facts.trust.as_str(),
            facts.status.as_str(),
            facts.safety,
            facts.egress,
        ));
    }
}

fn row(tool: &ListedTool) -> Value {
    json!({
        "name": tool.facts.name,
        "source": tool.source,
        "trust": tool.facts.trust,
        "status": tool.facts.status,
        "safety": tool.facts.safety,
        "egress": tool.facts.egress,
        "requires_approval": tool.facts.requires_approval,
        "hash": tool.facts.hash,
        "pinned": tool.pinned,
        "findings": tool.contract.findings(),
    })
}

fn find(engine: &Engine, contract: &Contract) -> Option<ListedTool> {
    let all = engine.all_tools();
    all.into_iter().find(|tool| tool.facts.name == *contract.name() && tool.source.is_some())
}

/// What there is to say of one that comes from elsewhere, in lines.
pub(super) fn about(engine: &Engine, contract: &Contract) -> Vec<String> {
    let Some(tool) = find(engine, contract) else { return Vec::new() };
    let source = tool.source.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut lines = vec![
        format!("  from      {source}"),
        format!("  status    {}", tool.facts.status),
        format!("  counts as {} · egress {}", tool.facts.safety, tool.facts.egress),
    ];
    if let Some(pinned) = tool.pinned {
        let same = if pinned == tool.facts.hash { "as it is" } else { "and has changed since" };
        lines.push(format!("  pinned    {pinned}, {same}"));
    }
    lines
}

pub(super) fn as_json(engine: &Engine, contract: &Contract) -> Value {
    find(engine, contract).map_or(Value::Null, |tool| row(&tool))
}

/// Asks servers what they offer.
pub(super) async fn refresh(engine: &Engine, server: Option<&str>, json: bool) -> Result<i32, Trouble> {
    let names: Vec<String> = match server {
        Some(server) => vec![server.to_owned()],
        None => engine.upstreams().iter().map(|upstream| upstream.name().to_owned()).collect(),
    };
    if names.is_empty() {
        return Err(Trouble::from(anyhow!("no MCP server is configured")).with_hint(
            "name some under `mcp.servers` in toolgate.yaml; docs/guide/mcp-servers.md says how",
        ));
    }
    let (mut rows, mut code) = (Vec::new(), CODE_DONE);
    for name in names {
        match engine.refresh_upstream(&name).await {
            Ok(imported) => {
                talk_of(&name, &imported, json);
                talk_of_suspended(engine, &imported);
                let refused = imported.refused.iter().map(|one| json!({ "name": one.name, "why": one.why }));
                rows.push(json!({ "server": name, "listed": imported.listed, "refused": refused.collect::<Vec<_>>() }));
            }
            Err(error) => {
                code = CODE_TOOL_FAILED;
                talk::warning(&error.to_string());
                if matches!(error, engine::RefreshError::Nobody { .. }) {
                    talk::hint(
                        "give an agent the category: `overrides: { categories: [mcp, …] }`, or `allowed_tools: [mcp.refresh, mcp_*]`",
                    );
                }
                let hint = match &error {
                    engine::RefreshError::NotAsked { why, .. } => why.hint.clone(),
                    _ => None,
                };
                if let Some(hint) = &hint {
                    talk::hint(hint);
                }
                rows.push(json!({ "server": name, "error": error.to_string(), "hint": hint }));
            }
        }
    }
    if json {
        talk::json(&rows);
    }
    engine.close().await;
    Ok(code)
}

fn talk_of(name: &str, imported: &engine::Imported, json: bool) {
    for refused in &imported.refused {
        talk::warning(&format!(
            "`{name}` offers `{}`, which is not taken: {}",
            show_hidden(&refused.name),
            refused.why
        ));
    }
    if json {
        return;
    }
    for tool in &imported.listed {
        talk::data(tool.as_str());
    }
}

fn talk_of_suspended(engine: &Engine, imported: &engine::Imported) {
    let all = engine.all_tools();
    for tool in all.iter().filter(|tool| tool.is_suspended() && imported.listed.contains(&tool.facts.name)) {
        let name = &tool.facts.name;
        talk::warning(&format!("`{name}` has changed since it was pinned, and is suspended"));
        talk::hint(&format!("look at what has changed: toolgate tools diff {name}"));
    }
}

/// Reads how far an operator lowers a tool.
pub(super) fn lowering(safety: Option<&str>, egress: Option<&str>) -> Result<Lowering, Trouble> {
    let safety = safety.map(|text| {
        let class = SafetyClass::parse(text).filter(|class| *class <= SafetyClass::Network);
        class.ok_or_else(|| anyhow!("`{text}` is no class that a tool lowers to: read, write or network"))
    });
    let egress = egress.map(|text| {
        EgressClass::parse(text).ok_or_else(|| anyhow!("`{text}` is no class: none, read_only or write"))
    });
    Ok(Lowering { safety: safety.transpose()?, egress: egress.transpose()? })
}

/// Pins a tool as it was shown.
pub(super) async fn pin(
    engine: &Engine,
    name: &str,
    hash: &str,
    lowering: Lowering,
    by: &Credential,
    json: bool,
) -> Result<(), Trouble> {
    let tool = ToolName::parse(name)?;
    let pin = engine.pin_tool(&tool, hash, lowering, by).await.map_err(not_said)?;
    if json {
        talk::json(
            &json!({ "tool": tool, "hash": pin.hash, "safety": pin.safety, "egress": pin.egress, "by": pin.by }),
        );
        return Ok(());
    }
    talk::data(&format!("{tool} is pinned by {}: {} · egress {}", pin.by, pin.safety, pin.egress));
    talk::data(&format!("  hash      {}", pin.hash));
    if pin.asks() {
        talk::hint(
            "each call of it still asks: what writes outside always does; `--egress read_only` or `none` says that it does not",
        );
    }
    Ok(())
}

/// Switches a tool off or on.
pub(super) async fn switch(
    engine: &Engine,
    name: &str,
    status: ToolStatus,
    by: &Credential,
    json: bool,
) -> Result<(), Trouble> {
    let tool = ToolName::parse(name)?;
    engine.switch_tool(&tool, status, by).await.map_err(not_said)?;
    if json {
        talk::json(&json!({ "tool": tool, "status": status }));
    } else {
        talk::data(&format!("{tool} is {status}"));
    }
    Ok(())
}

fn not_said(error: PinError) -> Trouble {
    match error {
        PinError::NotAnOperator | PinError::Stance(store::StanceError::NotAdmin { .. }) => {
            Trouble::refused(error.into())
        }
        PinError::Unknown { .. } => {
            Trouble::from(error).with_hint("`toolgate tools list --all` shows all there are")
        }
        PinError::Another { .. } => Trouble::from(error).with_hint("look at it again: `toolgate tools show`"),
        error => Trouble::from(error),
    }
}

/// Shows what has changed in a tool since it was pinned.
pub(super) async fn diff(engine: &Engine, name: &str, json: bool) -> Result<i32, Trouble> {
    let tool = ToolName::parse(name)?;
    let Some(versions) = engine.versions_of(&tool).await? else {
        return Err(Trouble::from(anyhow!("no tool `{tool}` was ever registered")));
    };
    if json {
        talk::json(&json!({
            "tool": tool,
            "before": { "hash": versions.before.0, "definition": versions.before.1 },
            "now": { "hash": versions.now.0, "definition": versions.now.1 },
            "changed": versions.before.0 != versions.now.0,
        }));
        return Ok(CODE_DONE);
    }
    if versions.before.0 == versions.now.0 {
        talk::data(&format!("{tool} is as it was: {}", versions.now.0));
        return Ok(CODE_DONE);
    }
    talk::data(&format!("- {}", versions.before.0));
    talk::data(&format!("+ {}", versions.now.0));
    let (before, now) = (lines_of(&versions.before.1), lines_of(&versions.now.1));
    for line in compared(&before, &now) {
        talk::data(&line);
    }
    Ok(CODE_DONE)
}

/// A definition as lines that can be compared, with everything hidden made visible.
fn lines_of(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(show_hidden).collect()
}

/// The lines that differ, with a few around them.
fn compared(before: &[String], now: &[String]) -> Vec<String> {
    let start = before.iter().zip(now).take_while(|(one, other)| one == other).count();
    let rest = before.len().min(now.len()) - start;
    let same_end =
        before.iter().rev().zip(now.iter().rev()).take(rest).take_while(|(one, other)| one == other);
    let end = same_end.count();
    let part = |lines: &[String], sign: &str| -> Vec<String> {
        let changed = lines.iter().take(lines.len() - end).skip(start);
        changed.map(|line| format!("{sign} {line}")).collect()
    };
    let around = before.iter().take(start).skip(start.saturating_sub(2)).map(|line| format!("  {line}"));
    let after = before.iter().skip(before.len() - end).take(2).map(|line| format!("  {line}"));
    around.chain(part(before, "-")).chain(part(now, "+")).chain(after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown_and_nothing_in_it_is_hidden() {
        let lines = |text: &str| lines_of(&json!({ "a": 1, "b": text, "c": 3 }));
        let shown = compared(&lines("reads"), &lines("re\u{200b}ads, and mails"));
        assert_eq!(
            shown,
            [
                "  {",
                "    \"a\": 1,",
                "-   \"b\": \"reads\",",
                "+   \"b\": \"re⟨U+200B⟩ads, and mails\",",
                "    \"c\": 3",
                "  }"
            ]
        );
    }
}
