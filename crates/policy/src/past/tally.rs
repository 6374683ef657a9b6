//! Adds up what differs, in groups that a person can look through.
//!
//! # Invariants
//! - What is kept does not grow with the calls: groups, names and words have an upper bound, and what is beyond is counted.
//! - The same calls in the same order are told in the same words.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use contract::{AgentName, CallId, Code, ToolName};
use serde::Serialize;

use super::{Answer, Compared, Flip, PastCall, Says, Word};

/// So many groups are kept of each kind; calls of further ones are counted.
pub const MOST_GROUPS: usize = 1000;

/// So many agents of a group are named.
const MOST_AGENTS: usize = 5;

/// What a candidate changes over past calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Simulation {
    /// Calls that were decided by both policies.
    pub decided: u64,
    /// Of these, those of which both say the same.
    pub unchanged: u64,
    /// Those of which they do not.
    pub flips: u64,
    /// Flips by which the candidate is less strict.
    pub loosened: u64,
    /// Flips by which it is stricter.
    pub tightened: u64,
    /// Calls that a rule of the candidate denies because it cannot be evaluated.
    pub rules_failed: u64,
    /// The flips, what loosens first.
    pub groups: Vec<Flipped>,
    /// Flips beyond the groups that are kept.
    pub flips_in_no_group: u64,
    /// Calls of which the policy in force says something else than was recorded.
    pub drift: u64,
    /// These, the most first.
    pub drift_groups: Vec<Drifted>,
    /// Such calls beyond the groups that are kept.
    pub drift_in_no_group: u64,
    /// Calls that nobody can decide again.
    pub not_decided: NotDecided,
}

/// Flips that are one to whoever wrote the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flipped {
    /// Whether the candidate is less strict.
    pub loosens: bool,
    /// Which tool.
    pub tool: ToolName,
    /// What the policy in force says; its words are about the first call.
    pub today: Answer,
    /// What the candidate says; its words are about the first call.
    pub candidate: Answer,
    /// Which calls.
    #[serde(flatten)]
    pub calls: Calls,
}

/// Calls of which the policy in force says something else than was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drifted {
    /// Which tool.
    pub tool: ToolName,
    /// What was recorded.
    pub then: Word,
    /// What the policy in force says; its words are about the first call.
    pub today: Answer,
    /// Which calls.
    #[serde(flatten)]
    pub calls: Calls,
}

/// The calls of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// When the first was asked, in milliseconds since 1970.
    pub first: i64,
    /// When the last was.
    pub last: i64,
    /// Whose they are: some of them, if they are many.
    pub agents: BTreeSet<AgentName>,
    /// The first of them.
    pub examples: Vec<CallId>,
}

impl Calls {
    fn add(&mut self, call: PastCall, examples: usize) {
        self.first = if self.count == 0 { call.asked_at } else { self.first.min(call.asked_at) };
        self.last = if self.count == 0 { call.asked_at } else { self.last.max(call.asked_at) };
        self.count += 1;
        if self.agents.len() < MOST_AGENTS {
            self.agents.insert(call.agent);
        }
        if self.examples.len() < examples {
            self.examples.push(call.call);
        }
    }
}

/// Calls that nobody can decide again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotDecided {
    /// What they were asked is erased.
    pub erased: Left,
    /// They were refused because their arguments were too long, and those were not kept.
    pub not_kept: Left,
    /// What the tables have of them is not what was recorded.
    pub altered: Left,
}

/// Some calls, by their number and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// How many.
    pub count: u64,
    /// The first of them, by what the tables call them.
    pub examples: Vec<String>,
}

impl Left {
    /// One more.
    pub fn add(&mut self, call: &str, examples: usize) {
        self.count += 1;
        if self.examples.len() < examples {
            self.examples.push(call.to_owned());
        }
    }
}

/// By what calls are of one group: words that are about one call have no part in it.
type By = (Says, &'static str, Option<String>, Option<Code>);

fn by(answer: &Answer) -> By {
    (answer.says, answer.layer, answer.place.clone(), answer.code)
}

/// Adds up calls, one after the other.
#[derive(Default)]
pub struct Tally {
    examples: usize,
    so_far: Simulation,
    flips: HashMap<(ToolName, By, By), usize>,
    drifts: HashMap<(ToolName, Word, By), usize>,
}

impl Tally {
    /// Nothing yet; of each group so many calls will be named.
    pub fn naming(examples: usize) -> Tally {
        Tally { examples, ..Tally::default() }
    }

    /// Adds a call that was decided.
    pub fn add(&mut self, compared: Compared) {
        let Compared { call, flip, drift, rule_failed } = compared;
        self.so_far.decided += 1;
        self.so_far.rules_failed += u64::from(rule_failed);
        if let Some(today) = drift {
            self.add_drift(call.clone(), *today);
        }
        match flip {
            Some(flip) => self.add_flip(call, *flip),
            None => self.so_far.unchanged += 1,
        }
    }

    /// Where calls go that nobody can decide again, and how many of each kind are named.
    pub fn not_decided(&mut self) -> (&mut NotDecided, usize) {
        (&mut self.so_far.not_decided, self.examples)
    }

    fn add_flip(&mut self, call: PastCall, flip: Flip) {
        let loosens = flip.loosens();
        self.so_far.flips += 1;
        self.so_far.loosened += u64::from(loosens);
        self.so_far.tightened += u64::from(!loosens);
        let Flip { today, candidate } = flip;
        let key = (call.tool.clone(), by(&today), by(&candidate));
        let groups = &mut self.so_far.groups;
        let at = match self.flips.get(&key) {
            Some(at) => *at,
            None if groups.len() >= MOST_GROUPS => {
                self.so_far.flips_in_no_group += 1;
                return;
            }
            None => {
                let (tool, calls) = (call.tool.clone(), Calls::default());
                groups.push(Flipped { loosens, tool, today, candidate, calls });
                self.flips.insert(key, groups.len() - 1);
                groups.len() - 1
            }
        };
        if let Some(group) = groups.get_mut(at) {
            group.calls.add(call, self.examples);
        }
    }

    fn add_drift(&mut self, call: PastCall, today: Answer) {
        self.so_far.drift += 1;
        let key = (call.tool.clone(), call.then, by(&today));
        let groups = &mut self.so_far.drift_groups;
        let at = match self.drifts.get(&key) {
            Some(at) => *at,
            None if groups.len() >= MOST_GROUPS => {
                self.so_far.drift_in_no_group += 1;
                return;
            }
            None => {
                let (tool, calls) = (call.tool.clone(), Calls::default());
                groups.push(Drifted { tool, then: call.then, today, calls });
                self.drifts.insert(key, groups.len() - 1);
                groups.len() - 1
            }
        };
        if let Some(group) = groups.get_mut(at) {
            group.calls.add(call, self.examples);
        }
    }

    /// All of it: what loosens the most first, then what happens the most.
    pub fn told(self) -> Simulation {
        let mut told = self.so_far;
        told.groups.sort_by_cached_key(|group| {
            let (from, to) = (group.today.says, group.candidate.says);
            // From a no to a yes is further than to a question.
            let danger = if group.loosens { (Reverse(from), to) } else { (Reverse(to), from) };
            let which = (group.tool.clone(), by(&group.today), by(&group.candidate));
            (Reverse(group.loosens), danger, Reverse(group.calls.count), which)
        });
        told.drift_groups.sort_by_cached_key(|group| {
            (Reverse(group.calls.count), group.tool.clone(), group.then, by(&group.today))
        });
        told
    }
}
