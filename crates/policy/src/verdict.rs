//! The three answers there are, and how one was come by.

use contract::Reason;
use serde::Serialize;

use crate::grant::Grant;

/// A verdict with everything that led to it.
#[derive(Debug)]
pub struct Ruling {
    /// The answer.
    pub verdict: Verdict,
    /// Each layer that had a say, in order.
    pub trace: Vec<Step>,
}

/// The answer to "may this call run?".
#[derive(Debug)]
pub enum Verdict {
    /// Run, with this authority.
    Allow(Grant),
    /// Ask people first.
    Ask(Question),
    /// Do not run.
    Deny(Reason),
}

impl Verdict {
    /// The answer in one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verdict::Allow(_) => "allow",
            Verdict::Ask(_) => "ask",
            Verdict::Deny(_) => "deny",
        }
    }
}

/// What people are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Why it is asked, each source in its own words.
    pub why: Vec<String>,
    /// How many different people must say yes.
    pub quorum: usize,
    /// When it is too late, in milliseconds since 1970.
    pub expires_at: i64,
}

/// One layer's say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which layer.
    pub layer: &'static str,
    /// `allow`, `ask`, `deny`, or `-` where it had nothing to say.
    pub says: &'static str,
    /// In its own words.
    pub why: String,
    /// The line of the configuration that it comes from, `FILE:LINE`; nothing where it is built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Step {
    /// A say that no line of the configuration is behind.
    pub fn of(layer: &'static str, says: &'static str, why: impl Into<String>) -> Step {
        Step { layer, says, why: why.into(), place: None }
    }

    /// Its words, with the line that they come from where they do not name it.
    pub fn told(&self) -> String {
        with_place(&self.why, self.place.as_deref())
    }
}

/// Words, with the line that they come from where they do not name it.
pub fn with_place(why: &str, place: Option<&str>) -> String {
    match place.filter(|place| !why.contains(place)) {
        Some(place) => format!("{why} ({place})"),
        None => why.to_owned(),
    }
}
