//! What people are told of questions that wait.
//!
//! # Invariants
//! - No argument, no purpose and no output is in it: only names that were checked, classes, and why it is asked, cleaned.
//! - Nothing of it means anything to a chat but text: no mention, no link but ours, no escape.

use contract::show_hidden;
use engine::clean_text;
use serde_json::{Value, json};
use store::{ApprovalRow, DueNotice};

use crate::talk;

/// How many questions one message tells of; the others are counted.
pub(super) const MOST_TOLD: usize = 10;
/// The longest reason, in characters.
const LONGEST_WHY: usize = 160;

/// Questions that somebody is told of together.
pub(super) struct Told<'a> {
    /// Those that are told, each with what it is told for.
    pub(super) questions: &'a [(DueNotice, ApprovalRow)],
    /// How many there are besides.
    pub(super) more: usize,
    /// How people get to them.
    pub(super) link: &'a str,
    /// When, in milliseconds since 1970.
    pub(super) now: i64,
}

impl Told<'_> {
    /// In one line.
    pub(super) fn subject(&self) -> String {
        let escalated = self.questions.iter().any(|(notice, _)| notice.step > 0);
        let late = if escalated { ", and nobody has answered" } else { "" };
        match self.questions.len() + self.more {
            1 => format!("1 call waits for approval{late}"),
            all => format!("{all} calls wait for approval{late}"),
        }
    }

    /// As text, for a mail.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![self.subject(), String::new()];
        for (notice, row) in self.questions {
            lines.push(format!("{} of agent {}", row.tool, row.agent));
            lines.push(format!("  why      {}", why(row)));
            lines.extend(what(row).map(|what| format!("  does     {what}")));
            if notice.step > 0 && !row.escalated_to.is_empty() {
                lines.push(format!("  now with {}", names(row)));
            }
            lines.push(format!("  left     {}", left(row, self.now)));
            lines.push(format!("  id       {}", row.id));
            lines.push(String::new());
        }
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        lines.push(format!("Look at them before you answer: {}", self.link));
        lines.join("\n")
    }

    /// As a message of Slack's.
    pub(super) fn slack(&self) -> Value {
        let mut lines = vec![format!("*{}*", escaped(&self.subject()))];
        for (_, row) in self.questions {
            let what = what(row).map(|what| format!(" ({})", escaped(&what))).unwrap_or_default();
            lines.push(format!(
                "• `{}` of agent `{}`{what}: {}\n   {} left, `/approve {}`",
                escaped(row.tool.as_str()),
                escaped(row.agent.as_str()),
                escaped(&why(row)),
                left(row, self.now),
                row.id,
            ));
        }
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        lines.push(format!("<{}|look at them before you answer>", self.link));
        // Names and addresses in the text are not made into links, and nobody is called by it.
        json!({ "text": lines.join("\n"), "mrkdwn": true, "parse": "none", "link_names": false, "unfurl_links": false, "unfurl_media": false })
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let questions: Vec<Value> = self
            .questions
            .iter()
            .map(|(notice, row)| {
                json!({
                    "approval_id": row.id,
                    "call_id": row.call,
                    "agent": row.agent,
                    "task": row.task,
                    "tool": row.tool,
                    "why": why(row),
                    "action": row.about.as_ref().map(|about| &about.action),
                    "safety": row.about.as_ref().map(|about| about.safety),
                    "egress": row.about.as_ref().map(|about| about.egress),
                    "quorum": row.quorum,
                    "step": notice.step,
                    "escalated_to": row.escalated_to,
                    "asked_at": row.asked_at,
                    "expires_at": row.expires_at,
                })
            })
            .collect();
        json!({ "event": "approval.waiting", "at": self.now, "link": self.link, "questions": questions, "more": self.more })
    }
}

/// Why it is asked. It may repeat words of the agent's, so it is cleaned as output is.
fn why(row: &ApprovalRow) -> String {
    let whole = row.why.join("; ");
    let cleaned = clean_text(&whole, 4 * LONGEST_WHY).text.replace(['\n', '\r', '\t'], " ");
    let shown = show_hidden(&cleaned);
    match shown.char_indices().nth(LONGEST_WHY) {
        Some((at, _)) => format!("{}…", shown.get(..at).unwrap_or_default()),
        None => shown,
    }
}

fn what(row: &ApprovalRow) -> Option<String> {
    row.about
        .as_ref()
        .map(|about| format!("{}, {}, egress {}", show_hidden(&about.action), about.safety, about.egress))
}

fn names(row: &ApprovalRow) -> String {
    row.escalated_to.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn left(row: &ApprovalRow, now: i64) -> String {
    talk::lasting(u64::try_from(row.expires_at.saturating_sub(now)).unwrap_or(0) / 1000)
}

/// What Slack reads as more than text is text: links, mentions, and marks.
fn escaped(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // A mark that the text has is no mark of ours.
    escaped.replace('`', "'").replace('*', "∗").replace('~', "∼")
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, ApprovalId, CallId, Digest, EgressClass, SafetyClass, ToolName};
    use store::{About, ApprovalState};

    use super::*;

    fn question(why: &str) -> (DueNotice, ApprovalRow) {
        let digest = Digest::of(b"x");
        let row = ApprovalRow {
            id: ApprovalId::from_random([2; 16]),
            call: CallId::from_random([1; 16]),
            agent: AgentName::parse("builder").unwrap(),
            task: None,
            tool: ToolName::parse("http.request").unwrap(),
            contract: digest,
            request: digest,
            arguments: digest,
            arguments_json: Some(r#"{"body":"the argument"}"#.to_owned()),
            policy: digest,
            purpose: Some("the purpose".to_owned()),
            why: vec![why.to_owned()],
            quorum: 1,
            answers: Vec::new(),
            approvers: Vec::new(),
            state: ApprovalState::Pending,
            asked_at: 0,
            expires_at: 300_000,
            decided_at: None,
            usable_until: None,
            reason: None,
            about: Some(About {
                workspace: "/work".to_owned(),
                place: digest,
                action: "web:write".to_owned(),
                safety: SafetyClass::Network,
                egress: EgressClass::Write,
                profile: None,
                content: None,
                proposer: None,
            }),
            escalated_to: Vec::new(),
            standing: None,
            revoked: None,
            planned_seq: 0,
        };
        (DueNotice { approval: row.id.clone(), step: 0, attempts: 1 }, row)
    }

    fn all(why: &str) -> [String; 3] {
        let questions = [question(why)];
        let told = Told { questions: &questions, more: 2, link: "https://gate.example/", now: 0 };
        [told.text(), told.slack().to_string(), told.json().to_string()]
    }

    #[test]
    fn what_a_call_says_is_in_no_message() {
        for text in all("a host that is not listed") {
            assert!(!text.contains("the argument") && !text.contains("the purpose"), "{text}");
            assert!(text.contains("http.request") && text.contains("builder"), "{text}");
            assert!(text.contains("a host that is not listed"), "{text}");
        }
    }

    #[test]
    fn a_secret_in_a_reason_is_covered_and_a_reason_has_an_end() {
        let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4).chars().take(36).collect::<String>());
        for text in all(&format!("`{token}` is not listed")) {
            assert!(!text.contains(&token), "{text}");
        }
        for text in all(&"long ".repeat(1000)) {
            assert!(text.chars().count() < 1500, "{}", text.len());
        }
    }

    #[test]
    fn a_reason_calls_nobody_and_leads_nowhere() {
        let [mail, slack, _] =
            all("<!channel> <https://evil.example|look at them> *x* `y`\u{1b}[2J\nSubject: x");
        assert!(!slack.contains("<!channel>") && !slack.contains("<https://evil"), "{slack}");
        assert!(slack.contains("&lt;!channel&gt;") || !slack.contains("!channel"), "{slack}");
        assert!(!mail.contains('\u{1b}') && !mail.contains("\nSubject"), "{mail}");
    }
}
