//! What people see of one question: the same facts as a card of the console has.

use contract::{Host, Scope, show_hidden};
use engine::{Engine, Waiting};
use serde_json::Value;

use super::screen::{Line, wrapped};
use crate::talk;

/// The most lines that a card has: longer arguments are looked at elsewhere.
const MOST_LINES: usize = 5000;

/// One line for the list.
pub(super) fn summary(question: &Waiting, now: i64, width: usize) -> Line {
    let row = &question.approval;
    let times = match question.folded.len() {
        0 => String::new(),
        more => format!(" ×{}", more + 1),
    };
    let people =
        if row.quorum > 1 { format!("  {} of {}", row.approvers.len(), row.quorum) } else { String::new() };
    let safety = question.safety.map(|safety| safety.to_string()).unwrap_or_default();
    let left = left(row.expires_at, now);
    let text = format!(
        "{}  {:<20} {:<14} {left:<12} {safety}{people}{times}",
        row.id.short(),
        row.tool.as_str(),
        row.agent.as_str()
    );
    Line::cut(&text, width)
}

/// Everything about a question.
pub(super) fn card(question: &Waiting, engine: &Engine, now: i64, width: usize) -> Vec<Line> {
    let row = &question.approval;
    let mut lines = Vec::new();
    let mut line = |name: &str, text: &str| lines.extend(wrapped(name, text, width));
    let label = engine.all_tools().into_iter().find(|tool| *tool.contract.name() == row.tool);
    let label = label.map(|tool| match tool.source {
        Some(source) => format!("{} (from {source})", tool.facts.trust),
        None => tool.facts.trust.to_string(),
    });
    let label = label.unwrap_or_else(|| "not known here".to_owned());
    line("tool", &format!("{}  trust {label}", row.tool));
    line(
        "agent",
        &match &row.task {
            Some(task) => format!("{}  task {task}", row.agent),
            None => row.agent.to_string(),
        },
    );
    if let Some(about) = &row.about {
        line(
            "does",
            &format!("{}  class {}  egress {}", show_hidden(&about.action), about.safety, about.egress),
        );
        line("in", &show_hidden(&about.workspace));
    }
    row.why.iter().for_each(|why| line("why", &show_hidden(why)));
    if let Some(purpose) = &row.purpose {
        line("purpose", &show_hidden(purpose));
    }
    let arguments = row.arguments_json.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let hosts = arguments.as_ref().map(hosts_in).unwrap_or_default();
    hosts.iter().for_each(|host| line("host", host));
    if let Some(words) = &question.command {
        line(
            "argv",
            &words
                .iter()
                .enumerate()
                .map(|(at, word)| format!("[{at}] {word}"))
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    if let Some(diff) = arguments.as_ref().and_then(|arguments| diff(row.tool.as_str(), arguments)) {
        line("diff", &diff);
    }
    line("with", &question.shown_arguments);
    if let Some(operands) = &question.operands {
        operands.bound.iter().for_each(|file| line("bound", &file.described()));
        operands.described_absent().iter().for_each(|absent| line("absent", absent));
        operands
            .not_bound
            .iter()
            .for_each(|thing| line("unbound", &format!("{}: {}", thing.what, thing.why)));
    }
    if row.quorum > 1 {
        let names: Vec<&str> = row.approvers.iter().map(|name| name.as_str()).collect();
        let so_far = if names.is_empty() { "nobody yet".to_owned() } else { names.join(", ") };
        line("people", &format!("{} of {} have said yes: {so_far}", names.len(), row.quorum));
    }
    question.proposers.iter().for_each(|name| line("not by", &format!("{name}, who proposed it")));
    if !row.escalated_to.is_empty() {
        let names: Vec<&str> = row.escalated_to.iter().map(|name| name.as_str()).collect();
        line("now with", &names.join(", "));
    }
    for folded in &question.folded {
        line("also", &format!("{}, {} left", folded.id.short(), left(folded.expires_at, now)));
    }
    for offer in question.offers.iter().filter(|offer| offer.scope != Scope::Once) {
        line(
            "or",
            &format!(
                "toolgate approve {} --scope {}: {}",
                row.id.short(),
                offer.scope.as_str(),
                offer.covers
            ),
        );
    }
    line("digest", &row.arguments.to_string());
    line("id", row.id.as_str());
    lines.truncate(MOST_LINES);
    lines
}

pub(super) fn left(expires_at: i64, now: i64) -> String {
    let seconds = u64::try_from(expires_at.saturating_sub(now)).unwrap_or(0) / 1000;
    match seconds {
        0 => "expired".to_owned(),
        // Where it matters, it is told to the second.
        1..600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => talk::lasting(seconds),
    }
}

/// What an edit takes away and puts there.
fn diff(tool: &str, arguments: &Value) -> Option<String> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let marked = |mark: char, text: &str| {
        text.split('\n').map(|line| format!("{mark} {}", show_hidden(line))).collect::<Vec<_>>().join("\n")
    };
    match tool {
        "fs.edit" => Some(format!("{}\n{}", marked('-', text("old")?), marked('+', text("new")?))),
        "fs.write" | "fs.append" => Some(marked('+', text("content").or_else(|| text("text"))?)),
        _ => None,
    }
}

/// The hosts that arguments name in addresses, and what each is.
fn hosts_in(arguments: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![arguments];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) => found.extend(text.split("://").skip(1).map(host_of)),
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.values()),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found.truncate(16);
    found
}

fn host_of(after: &str) -> String {
    let end = after.find(['/', '?', '#', ' ', '"', '\'', '\\']).unwrap_or(after.len());
    let authority = after.get(..end).unwrap_or_default();
    let (has_user, place) = match authority.rsplit_once('@') {
        Some((_, place)) => (true, place),
        None => (false, authority),
    };
    let name = if place.starts_with('[') {
        place.split_inclusive(']').next().unwrap_or_default()
    } else {
        place.split(':').next().unwrap_or_default()
    };
    let kind = match Host::parse(name) {
        Ok(host) => host.special().map_or("public", |special| special.describe()),
        Err(_) => "no host that can be reached",
    };
    let user = if has_user { ", with a name before it that is no part of the host" } else { "" };
    format!("{} ({kind}{user})", show_hidden(place))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_is_shown_as_what_goes_and_what_comes() {
        let shown = diff("fs.edit", &json!({ "path": "a", "old": "x\ny", "new": "z\u{202e}" }));
        assert_eq!(shown.as_deref(), Some("- x\n- y\n+ z⟨U+202E⟩"));
        assert_eq!(diff("shell", &json!({ "command": "ls" })), None);
    }

    #[test]
    fn hosts_are_named_with_what_they_are() {
        let hosts = hosts_in(
            &json!({ "url": "https://api.example.com@10.0.0.1:80/x", "more": ["http://example.com/"] }),
        );
        assert_eq!(hosts.len(), 2);
        assert!(
            hosts[0].starts_with("10.0.0.1:80 (") && hosts[0].contains("no part of the host"),
            "{hosts:?}"
        );
        assert!(!hosts[0].contains("public"), "{hosts:?}");
        assert_eq!(hosts[1], "example.com (public)");
    }

    #[test]
    fn the_last_minutes_are_told_to_the_second() {
        assert_eq!(
            [0, 999, 61_000, 599_000, 3_600_000].map(|at| left(at, 0)),
            ["expired", "expired", "1:01", "9:59", "60 min"]
        );
    }
}
