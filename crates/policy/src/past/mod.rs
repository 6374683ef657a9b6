//! What another policy would have said of past calls, beside what the one in force says of them.
//!
//! Pure: calls come with the facts of their time, and each is decided twice with the same ones. What a yes of people, hooks
//! and rates did to a call then is not a part of it: neither side hears of them. Budgets are heard as if nothing was spent.

mod tally;
mod unheard;

use std::cmp::Ordering;

use contract::{AgentName, CallId, Code, Reason, ToolName};
use serde::Serialize;

use crate::decide::{decide, layer_before};
use crate::facts::{Admitted, Facts};
use crate::settings::Policy;
use crate::verdict::{Ruling, Step, Verdict};

pub use unheard::unheard;

pub use tally::{Calls, Drifted, Flipped, Left, MOST_GROUPS, NotDecided, Simulation, Tally};

/// Layers of a recorded trace that no policy speaks in by itself.
const NOT_REPLAYED: [&str; 4] = ["hook", "rate", "budget", "shadow"];

/// The longest words of a decision that are kept, in characters.
const LONGEST_WHY: usize = 300;

/// An answer in one word; what comes later is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It runs.
    Allow,
    /// People are asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Word {
    /// The word itself.
    pub fn as_str(self) -> &'static str {
        match self {
            Word::Allow => "allow",
            Word::Ask => "ask",
            Word::Deny => "deny",
        }
    }

    /// What the policy of its time said of a call, by what each layer of the recorded trace said. Where nothing is
    /// recorded, the call was refused before any layer was heard, or `was_refused` says that it was not.
    pub fn recorded<'a>(trace: impl IntoIterator<Item = (&'a str, &'a str)>, was_refused: bool) -> Word {
        let mut steps = trace.into_iter().filter(|(layer, _)| !NOT_REPLAYED.contains(layer)).peekable();
        if steps.peek().is_none() && was_refused {
            return Word::Deny;
        }
        let said = steps.map(|(_, says)| match says {
            "deny" => Word::Deny,
            "ask" => Word::Ask,
            _ => Word::Allow,
        });
        said.max().unwrap_or(Word::Allow)
    }
}

/// An answer, and how many people it takes; what comes later is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Says {
    /// In one word.
    #[serde(rename = "says")]
    pub word: Word,
    /// How many people are asked.
    #[serde(skip_serializing_if = "is_nobody")]
    pub people: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_nobody(people: &usize) -> bool {
    *people == 0
}

impl Says {
    const DENY: Says = Says { word: Word::Deny, people: 0 };

    fn of(verdict: &Verdict) -> Says {
        match verdict {
            Verdict::Allow(_) => Says { word: Word::Allow, people: 0 },
            Verdict::Ask(question) => Says { word: Word::Ask, people: question.quorum },
            Verdict::Deny(_) => Says::DENY,
        }
    }
}

/// What a policy says of a call, and what in it decides that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Answer {
    /// What it says.
    #[serde(flatten)]
    pub says: Says,
    /// The layer that decides.
    pub layer: &'static str,
    /// The line of the configuration that decides, if one does.
    pub place: Option<String>,
    /// The code of the refusal, if it is one.
    pub code: Option<Code>,
    /// In its own words, which may be about one call only.
    pub why: String,
}

impl Answer {
    /// What decides in a ruling; where several layers ask, the first that the other ruling does not have.
    fn beside(ruling: &Ruling, other: Option<&Ruling>) -> Answer {
        let says = Says::of(&ruling.verdict);
        let (layer, why, place) = match deciding(ruling, says.word, other) {
            Some(step) => (step.layer, step.why.as_str(), step.place.clone()),
            None => ("-", "", None),
        };
        let code = match &ruling.verdict {
            Verdict::Deny(reason) => Some(reason.code),
            Verdict::Allow(_) | Verdict::Ask(_) => None,
        };
        Answer { says, layer, place, code, why: shortened(why) }
    }

    /// What decides in a ruling.
    pub fn of(ruling: &Ruling) -> Answer {
        Answer::beside(ruling, None)
    }

    /// The answer to a call that no policy is asked about.
    pub fn not_admitted(reason: &Reason) -> Answer {
        let why = shortened(&reason.message);
        Answer { says: Says::DENY, layer: layer_before(reason), place: None, code: Some(reason.code), why }
    }
}

fn deciding<'a>(ruling: &'a Ruling, word: Word, other: Option<&Ruling>) -> Option<&'a Step> {
    let steps = &ruling.trace;
    match word {
        Word::Deny => steps.iter().rfind(|step| step.says == "deny"),
        Word::Ask => {
            let mut asks = steps.iter().filter(|step| step.says == "ask");
            let is_new = |step: &&Step| other.is_none_or(|other| !other.trace.contains(step));
            asks.clone().find(is_new).or_else(|| asks.next())
        }
        // Of all that says yes, what says why nobody is asked.
        Word::Allow => {
            let mut allows = steps.iter().rev().filter(|step| step.says == "allow");
            allows.clone().find(|step| step.layer == "action").or_else(|| allows.next())
        }
    }
}

fn shortened(why: &str) -> String {
    match why.char_indices().nth(LONGEST_WHY) {
        Some((end, _)) => format!("{}…", why.get(..end).unwrap_or_default()),
        None => why.to_owned(),
    }
}

/// A past call as one policy sees it.
pub struct Side<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// What there is to decide, or why nothing is.
    pub tried: &'a Result<(Admitted, Facts), Reason>,
}

impl Side<'_> {
    fn ruling(&self) -> Result<Ruling, &Reason> {
        self.tried.as_ref().map(|(call, facts)| decide(call, facts, self.policy))
    }
}

/// Which call, and what was said of it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCall {
    /// Which call.
    pub call: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// Which tool.
    pub tool: ToolName,
    /// When, in milliseconds since 1970.
    pub asked_at: i64,
    /// What the policy of its time said.
    pub then: Word,
}

/// A past call under two policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Which call.
    pub call: PastCall,
    /// What each says, where that differs.
    pub flip: Option<Box<Flip>>,
    /// What the policy in force says, where another was recorded.
    pub drift: Option<Box<Answer>>,
    /// Whether a rule of the candidate could not be evaluated, which denies.
    pub rule_failed: bool,
}

/// A call of which the candidate says something else than the policy in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    /// What the policy in force says.
    pub today: Answer,
    /// What the candidate says.
    pub candidate: Answer,
}

impl Flip {
    /// Whether the candidate is less strict.
    pub fn loosens(&self) -> bool {
        self.today.says.cmp(&self.candidate.says) == Ordering::Greater
    }
}

/// Decides a past call by both policies.
pub fn compare(call: PastCall, today: &Side<'_>, candidate: &Side<'_>) -> Compared {
    let (in_force, proposed) = (today.ruling(), candidate.ruling());
    let says = |ruling: &Result<Ruling, &Reason>| match ruling {
        Ok(ruling) => Says::of(&ruling.verdict),
        Err(_) => Says::DENY,
    };
    let answer = |own: &Result<Ruling, &Reason>, other: &Result<Ruling, &Reason>| match own {
        Ok(ruling) => Answer::beside(ruling, other.as_ref().ok()),
        Err(reason) => Answer::not_admitted(reason),
    };
    let (now, then) = (says(&in_force), says(&proposed));
    // Words are looked for only where they are told: that is rare, and takes longer than to decide.
    let flip = (now != then).then(|| {
        let (today, candidate) = (answer(&in_force, &proposed), answer(&proposed, &in_force));
        Box::new(Flip { today, candidate })
    });
    let drift = (now.word != call.then).then(|| Box::new(answer(&in_force, &in_force)));
    let rule_failed = matches!(&proposed, Ok(Ruling { verdict: Verdict::Deny(reason), .. })
        if reason.code == Code::RuleFailed);
    Compared { call, flip, drift, rule_failed }
}

/// What one policy says of a call, with all that led to it.
pub fn answer(side: &Side<'_>) -> (Answer, Vec<Step>) {
    match side.ruling() {
        Ok(ruling) => (Answer::of(&ruling), ruling.trace),
        Err(reason) => {
            let step = Step::of(layer_before(reason), "deny", reason.message.clone());
            (Answer::not_admitted(reason), vec![step])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_what_the_policy_said_then_whatever_people_hooks_and_limits_did() {
        let said = |steps: &[(&'static str, &'static str)], was_refused| {
            Word::recorded(steps.iter().copied(), was_refused)
        };
        assert_eq!(said(&[], true), Word::Deny);
        assert_eq!(said(&[("permission", "allow"), ("autonomy", "-")], false), Word::Allow);
        assert_eq!(said(&[("permission", "allow"), ("hook", "deny")], true), Word::Allow);
        assert_eq!(said(&[("permission", "allow"), ("rate", "deny")], true), Word::Allow);
        assert_eq!(said(&[("permission", "allow"), ("shadow", "deny")], false), Word::Allow);
        assert_eq!(said(&[("action", "ask"), ("standing", "allow")], false), Word::Ask);
        assert_eq!(said(&[("action", "ask"), ("quorum", "deny")], true), Word::Deny);
    }
}
