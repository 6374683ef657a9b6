//! Which entries decide who may say yes, what was said, and which tools are believed: three lists through the ledger, each
//! entry naming the one before.
//!
//! Where each list ends is signed with the head. So it can be told that something was *not* taken back, and not used, from
//! the entries of a list alone: whoever leaves one out has to sign another head.
//!
//! # Invariants
//! - An entry of a list says in `after` which one comes before it, or that none does.
//! - A head that is signed names the last entry of each list.

use serde_json::{Value, json};

/// How the line of a head begins that says where the lists end.
const LINE: &str = "toolgate-lists ";

/// A list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// Who is an operator, and by which credential, password and passkeys; and which tokens are whose.
    People,
    /// What people have answered and taken back, and which answers were used up.
    Answers,
    /// Which tools were pinned, suspended, and switched off.
    Tools,
}

impl List {
    /// The list that entries of a kind belong to.
    pub(crate) fn of(kind: &str) -> Option<List> {
        match kind {
            "operator.added"
            | "operator.carried"
            | "operator.removed"
            | "operator.rotated"
            | "operator.password"
            | "operator.passkey"
            | "operator.passkey_removed"
            | "agent.token"
            | "agent.token_revoked" => Some(List::People),
            "approval.answered" | "approval.revoked" | "approval.ended" | "approval.joined" => {
                Some(List::Answers)
            }
            "tool.pinned" | "tool.suspended" | "tool.disabled" | "tool.enabled" => Some(List::Tools),
            _ => None,
        }
    }
}

/// Where the lists end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    people: Option<i64>,
    answers: Option<i64>,
    tools: Option<i64>,
}

impl Lists {
    /// The last entry of a list.
    pub(crate) fn last(&self, list: List) -> Option<i64> {
        match list {
            List::People => self.people,
            List::Answers => self.answers,
            List::Tools => self.tools,
        }
    }

    /// Makes an entry the last one of a list; its body says which was before.
    pub(crate) fn push(&mut self, list: List, seq: i64, body: &mut Value) {
        if let Some(members) = body.as_object_mut() {
            members.insert("after".to_owned(), json!(self.last(list)));
        }
        match list {
            List::People => self.people = Some(seq),
            List::Answers => self.answers = Some(seq),
            List::Tools => self.tools = Some(seq),
        }
    }

    /// The line that a head has for them.
    pub(crate) fn line(&self) -> String {
        let place = |seq: Option<i64>| seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
        format!("{LINE}{} {} {}\n", place(self.people), place(self.answers), place(self.tools))
    }

    /// Reads them from the lines of a head that was signed.
    pub(crate) fn find<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Lists> {
        let mut places = lines.filter_map(|line| line.strip_prefix(LINE)).next()?.split(' ');
        let mut place = || match places.next()? {
            "-" => Some(None),
            seq => seq.parse().ok().map(Some),
        };
        // Earlier versions knew no list of tools, and so had none pinned.
        Some(Lists { people: place()?, answers: place()?, tools: place().flatten() })
    }
}

/// Whether a head was written by a version that knows of lists. Only a hint: it is not checked who signed it.
pub(crate) fn has_lists(note: &str) -> bool {
    Lists::find(note.lines()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_back_as_themselves() {
        let mut lists = Lists::default();
        assert_eq!(Lists::find(lists.line().lines()), Some(lists));
        let mut body = json!({ "a": 1 });
        lists.push(List::Answers, 7, &mut body);
        assert_eq!(body, json!({ "a": 1, "after": null }));
        lists.push(List::Answers, 9, &mut body);
        assert_eq!(body, json!({ "a": 1, "after": 7 }));
        assert_eq!((lists.last(List::People), lists.last(List::Answers)), (None, Some(9)));
        assert_eq!(Lists::find(format!("origin\n9\nroot\n{}", lists.line()).lines()), Some(lists));
        assert_eq!(Lists::find("origin\n9\nroot\n".lines()), None);
        assert_eq!(Lists::find("toolgate-lists 1\n".lines()), None);
        let earlier = Lists { people: Some(1), answers: Some(2), tools: None };
        assert_eq!(Lists::find("toolgate-lists 1 2\n".lines()), Some(earlier));
    }
}
