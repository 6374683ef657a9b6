//! `toolgate policy history` and `toolgate policy shadow`: which policies were in force, and what a shadow would have said.

use std::collections::BTreeMap;

use contract::show_hidden;
use serde::Serialize;
use serde_json::Value;
use store::{LedgerEntry, Shadowed, Store};

use crate::gate::ledger::time;
use crate::gate::{CODE_DONE, Trouble};
use crate::talk;

/// As many calls as a report is made of.
const MOST_CALLS: u32 = 100_000;

/// As many calls as are named for each kind of difference.
const MOST_EXAMPLES: usize = 3;

pub(super) async fn history(store: &Store, last: u32, json: bool) -> Result<i32, Trouble> {
    let entries = store.policy_history(last.clamp(1, 10_000)).await?;
    if entries.is_empty() && !json {
        talk::say("no policy is on record yet; `toolgate up` and `toolgate mcp` put theirs there");
    }
    for entry in entries {
        if json {
            talk::line(&entry);
        } else {
            talk::data(&line_of(&entry));
        }
    }
    Ok(CODE_DONE)
}

fn line_of(entry: &LedgerEntry) -> String {
    let kind = if entry.kind == "policy.in_force" { "in force" } else { "rejected" };
    format!("{}  {kind}  {}", time(entry.time), said_of(entry).unwrap_or_default())
}

/// What an entry of the ledger says of a policy, if it says anything.
pub(crate) fn said_of(entry: &LedgerEntry) -> Option<String> {
    let of = |key: &str| {
        show_hidden(entry.body.get(key).and_then(Value::as_str).unwrap_or("-")).replace('\n', " ")
    };
    match entry.kind.as_str() {
        "policy.in_force" => {
            let shadow = entry.body.get("shadow").and_then(Value::as_str);
            let shadow = shadow.map(|hash| format!(", shadow {}", short(hash))).unwrap_or_default();
            let (hash, source, by) = (of("policy"), of("source"), of("by"));
            Some(format!("{}  {source} ({by}{shadow})", short(&hash)))
        }
        "policy.rejected" => {
            let (what, calls, why, by) = (of("what"), of("calls"), of("why"), of("by"));
            Some(format!("{what} ({by}), calls {calls}: {why}"))
        }
        _ => None,
    }
}

/// As much of a digest as people compare.
fn short(digest: &str) -> String {
    digest.chars().take(19).collect()
}

/// One kind of difference.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Differences {
    count: u64,
    /// A reason, as the first of them gave it.
    why: String,
    examples: Vec<String>,
}

/// What differences have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Kind {
    tool: String,
    from: String,
    to: String,
    layer: String,
    rule: Option<String>,
    code: Option<String>,
    policy: String,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    kind: &'a Kind,
    #[serde(flatten)]
    differences: &'a Differences,
}

pub(super) async fn shadow(store: &Store, since: i64, json: bool) -> Result<i32, Trouble> {
    let grouped = group(&store.shadowed(since, MOST_CALLS).await?);
    let mut lines: Vec<Line<'_>> =
        grouped.iter().map(|(kind, differences)| Line { kind, differences }).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.differences.count));
    if json {
        talk::json(&lines);
        return Ok(CODE_DONE);
    }
    if lines.is_empty() {
        talk::say("no call on record was decided otherwise by a shadow");
    }
    for Line { kind, differences } in lines {
        let rule = kind.rule.as_deref().map(|rule| format!(" {rule}")).unwrap_or_default();
        let code = kind.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
        let Kind { tool, from, to, layer, .. } = kind;
        talk::data(&format!("{:>6}  {tool:<16} {from} → {to:<5}  {layer}{rule}{code}", differences.count));
        talk::data(&format!("        {}", show_hidden(&differences.why).replace('\n', " ")));
        talk::data(&format!("        such as {}", differences.examples.join(", ")));
    }
    Ok(CODE_DONE)
}

fn group(shadowed: &[Shadowed]) -> BTreeMap<Kind, Differences> {
    let mut grouped: BTreeMap<Kind, Differences> = BTreeMap::new();
    for Shadowed { call, tool, step } in shadowed {
        let of = |key: &str| step.get(key).and_then(Value::as_str);
        let why = of("why").unwrap_or_default();
        let kind = Kind {
            tool: tool.to_string(),
            from: of("from").unwrap_or("-").to_owned(),
            to: of("says").unwrap_or("-").to_owned(),
            layer: of("by").unwrap_or("-").to_owned(),
            rule: of("place").map(str::to_owned),
            code: of("code").map(str::to_owned),
            policy: of("policy").unwrap_or("-").to_owned(),
        };
        let differences = grouped.entry(kind).or_default();
        differences.count += 1;
        if differences.why.is_empty() {
            why.clone_into(&mut differences.why);
        }
        if differences.examples.len() < MOST_EXAMPLES {
            differences.examples.push(call.to_string());
        }
    }
    grouped
}

#[cfg(test)]
mod tests {
    use contract::{CallId, ToolName};
    use serde_json::json;

    use super::*;

    fn shadowed(number: u8, place: &str) -> Shadowed {
        Shadowed {
            call: CallId::from_random([number; 16]),
            tool: ToolName::parse("shell").unwrap(),
            step: json!({ "layer": "shadow", "says": "deny", "why": format!("{place} forbids `{number}`"), "place": place, "from": "allow", "policy": "p", "by": "cedar", "code": "denied_by_rule" }),
        }
    }

    #[test]
    fn differences_of_one_rule_are_one_line_whatever_the_call() {
        let calls =
            [shadowed(1, "rules.cedar:3"), shadowed(2, "rules.cedar:3"), shadowed(3, "rules.cedar:9")];
        let grouped = group(&calls);
        let counts: Vec<(Option<&str>, u64)> =
            grouped.iter().map(|(kind, of)| (kind.rule.as_deref(), of.count)).collect();
        assert_eq!(counts, [(Some("rules.cedar:3"), 2), (Some("rules.cedar:9"), 1)]);
    }
}
