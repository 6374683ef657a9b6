//! Reads rules: Cedar policies that forbid, with annotations that say how.

use std::str::FromStr;

use cedar_policy::{
    ActionConstraint, Effect, EntityUid, Policy, PolicySet, PrincipalConstraint, ResourceConstraint,
};
use miette::Diagnostic;
use serde::Serialize;
use serde_json::Value;

use super::names::{Named, Reads, check, entities_of, reads_context, reads_of};
use super::say::of_parser;
use super::words::Odd;

/// More people than any house has for one call.
const MOST_PEOPLE: usize = 20;
const LONGEST_ID: usize = 64;
const LONGEST_WHY: usize = 500;

/// A rule in Cedar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CedarRule {
    /// Where it stands: file and line.
    pub place: String,
    /// Its name, if it has one.
    pub id: Option<String>,
    /// What it says about a call that it is about.
    pub effect: CedarEffect,
    /// Why, for people and models.
    pub why: Option<String>,
    /// As it was written.
    text: String,
    #[serde(skip)]
    policy: Policy,
    /// It alone, as it is evaluated.
    #[serde(skip)]
    set: PolicySet,
    /// Its scope alone: which calls it can be about.
    #[serde(skip)]
    scope: PolicySet,
    #[serde(skip)]
    reads: Reads,
    #[serde(skip)]
    reads_spend: bool,
}

/// What a rule in Cedar says about a call that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CedarEffect {
    /// It may not run.
    Forbid,
    /// So many people must approve it.
    Ask {
        /// How many different ones.
        people: usize,
    },
}

/// What is wrong with a text, and where in it, both from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CedarProblem {
    /// In which of its lines.
    pub line: usize,
    /// At which of its characters.
    pub column: usize,
    /// What.
    pub message: String,
}

impl CedarRule {
    /// Every rule of a text, in order; `place_of` says where a line of it stands.
    pub fn read(text: &str, place_of: impl Fn(usize) -> String) -> Result<Vec<CedarRule>, Vec<CedarProblem>> {
        let set = PolicySet::from_str(text).map_err(|errors| {
            errors
                .iter()
                .map(|error| {
                    let offset = offset_of(error);
                    problem_at(text, offset, of_parser(&error.to_string(), text, offset))
                })
                .collect::<Vec<_>>()
        })?;
        if set.num_of_templates() > 0 {
            let why = "a rule has no slots: name the agent or the tool that is meant";
            return Err(vec![problem_at(text, 0, why.to_owned())]);
        }
        let mut policies: Vec<(usize, &Policy)> =
            set.policies().map(|policy| (policy.as_ref().loc().map_or(0, |at| at.start()), policy)).collect();
        policies.sort_by_key(|(offset, _)| *offset);
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for (offset, policy) in policies {
            let line = problem_at(text, offset, String::new()).line;
            match CedarRule::of(policy, place_of(line)) {
                Ok(rule) => rules.push(rule),
                Err(odd) => problems.extend(odd.into_iter().map(|Odd { written, why }| {
                    problem_at(text, offset_within(policy, text, &written), why)
                })),
            }
        }
        if problems.is_empty() { Ok(rules) } else { Err(problems) }
    }

    fn of(policy: &Policy, place: String) -> Result<CedarRule, Vec<Odd>> {
        let whole = |why: String| vec![Odd { written: String::new(), why }];
        if policy.effect() == Effect::Permit {
            let why =
                "`permit` changes nothing here: levels, lists and people permit, a rule only forbids or asks";
            return Err(whole(why.to_owned()));
        }
        let annotations = Annotations::of(policy).map_err(whole)?;
        let tree = policy.to_json().map_err(|error| whole(error.to_string()))?;
        let problems = check(&tree);
        if !problems.is_empty() {
            return Err(problems);
        }
        let set = PolicySet::from_policies([policy.clone()]).map_err(|error| whole(error.to_string()))?;
        let scope = scope_of(&tree).map_err(whole)?;
        let Annotations { id, effect, why } = annotations;
        let text = policy.to_cedar().unwrap_or_else(|| policy.to_string());
        Ok(CedarRule {
            place,
            id,
            effect,
            why,
            text,
            policy: policy.clone(),
            set,
            scope,
            reads: reads_of(&tree),
            reads_spend: reads_context(&tree, "spend"),
        })
    }

    /// The same rule with a name, unless it has one in its text or this is none.
    pub fn with_id(self, text: &str) -> Result<CedarRule, String> {
        if self.id.is_some() {
            return Err("the rule has a name already: `@id` in its text".to_owned());
        }
        Ok(CedarRule { id: Some(id(text)?), ..self })
    }

    /// The one tool that its scope names, if it names one. A tool is in no other, so `in` means `==`.
    pub fn tool(&self) -> Option<String> {
        match self.policy.resource_constraint() {
            ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => {
                Some(uid.id().unescaped().to_owned())
            }
            ResourceConstraint::Any | ResourceConstraint::Is(_) => None,
        }
    }

    /// The one agent that its scope names, if it names one. An agent is in no other, so `in` means `==`.
    pub fn agent(&self) -> Option<String> {
        match self.policy.principal_constraint() {
            PrincipalConstraint::Eq(uid)
            | PrincipalConstraint::In(uid)
            | PrincipalConstraint::IsIn(_, uid) => Some(uid.id().unescaped().to_owned()),
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
        }
    }

    /// The actions and categories that its scope names; nothing, if it is about all.
    pub(crate) fn actions(&self) -> Option<Vec<String>> {
        let id_of = |uid: &EntityUid| uid.id().unescaped().to_owned();
        match self.policy.action_constraint() {
            ActionConstraint::Eq(uid) => Some(vec![id_of(&uid)]),
            ActionConstraint::In(uids) => Some(uids.iter().map(id_of).collect()),
            ActionConstraint::Any => None,
        }
    }

    /// Its conditions, as a tree; without any, nothing.
    pub(crate) fn conditions(&self) -> Vec<Value> {
        let tree = self.tree();
        tree.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Whether its scope surely fits every call that another's fits. The types in a scope are those there are, so they
    /// narrow nothing.
    pub(crate) fn scope_covers(&self, other: &CedarRule) -> bool {
        let is_wider = |own: Option<String>, others: Option<String>| own.is_none() || own == others;
        let actions = match (self.actions(), other.actions()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => {
                let has = |name: &String| {
                    let is_in = self.policy.action_constraint();
                    let category = name.split(':').next().unwrap_or_default();
                    let by_category =
                        matches!(is_in, ActionConstraint::In(_)) && own.iter().any(|own| own == category);
                    own.contains(name) || by_category
                };
                // `== Action::"vcs"` is about no call, and `in` about many.
                let alike = matches!(self.policy.action_constraint(), ActionConstraint::In(_))
                    || matches!(other.policy.action_constraint(), ActionConstraint::Eq(_))
                    || others.iter().all(|name| name.contains(':'));
                alike && others.iter().all(has)
            }
        };
        actions && is_wider(self.agent(), other.agent()) && is_wider(self.tool(), other.tool())
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Agents, actions and tools that it names.
    pub fn names(&self) -> Vec<Named> {
        entities_of(&self.policy)
    }

    /// The arguments that it reads.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Whether it asks what was spent.
    pub(crate) fn reads_spend(&self) -> bool {
        self.reads_spend
    }

    /// Whether it looks at something of the context.
    pub(crate) fn looks_at(&self, name: &str) -> bool {
        reads_context(&self.tree(), name)
    }

    /// The tree of its text.
    pub(super) fn tree(&self) -> Value {
        self.policy.to_json().unwrap_or_default()
    }

    /// Where it begins in the text that it was read from.
    pub(super) fn offset(&self) -> usize {
        self.policy.as_ref().loc().map_or(0, |at| at.start())
    }

    /// Where something is written in it first; where that cannot be found, where it begins.
    pub(super) fn offset_of(&self, text: &str, written: &str) -> usize {
        offset_within(&self.policy, text, written)
    }

    /// In which line and column of the text that it was read from one of these is written, both from 1: the first that is,
    /// and where the rule begins if none is.
    pub fn place_of(&self, text: &str, written: &[&str]) -> (usize, usize) {
        let mut offsets = written.iter().map(|written| self.offset_of(text, written));
        let offset = offsets.find(|offset| *offset != self.offset()).unwrap_or(self.offset());
        let CedarProblem { line, column, .. } = problem_at(text, offset, String::new());
        (line, column)
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn set(&self) -> &PolicySet {
        &self.set
    }

    pub(super) fn scope(&self) -> &PolicySet {
        &self.scope
    }

    /// For people: where it stands, its name, and why it is there.
    pub(crate) fn described(&self) -> String {
        let named = self.id.as_ref().map(|id| format!(" `{id}`")).unwrap_or_default();
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{named}{why}", self.place)
    }
}

/// The same rule without its conditions.
fn scope_of(tree: &Value) -> Result<PolicySet, String> {
    let mut tree = tree.clone();
    if let Some(conditions) = tree.get_mut("conditions") {
        *conditions = Value::Array(Vec::new());
    }
    let policy = Policy::from_json(None, tree).map_err(|error| error.to_string())?;
    PolicySet::from_policies([policy]).map_err(|error| error.to_string())
}

/// What the annotations of a rule say.
struct Annotations {
    id: Option<String>,
    effect: CedarEffect,
    why: Option<String>,
}

impl Annotations {
    fn of(policy: &Policy) -> Result<Annotations, String> {
        for (name, _) in policy.annotations() {
            if !["id", "effect", "people", "why"].contains(&name) {
                return Err(format!(
                    "unknown annotation `@{name}`; there is `@id`, `@effect`, `@people` and `@why`"
                ));
            }
        }
        let id = policy.annotation("id").map(id).transpose()?;
        let why = policy.annotation("why").map(why).transpose()?;
        let people = policy.annotation("people").map(people).transpose()?;
        let effect = match (policy.annotation("effect"), people) {
            (None | Some("forbid"), None) => CedarEffect::Forbid,
            (None | Some("forbid"), Some(_)) => {
                return Err("`@people` means nothing to a rule without `@effect(\"ask\")`".to_owned());
            }
            (Some("ask"), people) => CedarEffect::Ask { people: people.unwrap_or(1) },
            (Some(other), _) => {
                return Err(format!(
                    "unknown effect `{}`; there is `forbid` and `ask`",
                    other.escape_debug()
                ));
            }
        };
        Ok(Annotations { id, effect, why })
    }
}

fn id(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > LONGEST_ID || !text.chars().all(plain) {
        return Err(format!(
            "the name of a rule has at most {LONGEST_ID} letters, digits, `-`, `_` and `.`, unlike `{}`",
            text.escape_debug()
        ));
    }
    Ok(text.to_owned())
}

/// It is read by models, too: nothing that cannot be seen, and not without end.
fn why(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().count() > LONGEST_WHY {
        return Err(format!("`@why` is a text of at most {LONGEST_WHY} characters"));
    }
    if text.chars().any(|c| c.is_control() || contract::is_hidden(c)) {
        return Err("`@why` has characters that cannot be seen".to_owned());
    }
    Ok(text.to_owned())
}

fn people(text: &str) -> Result<usize, String> {
    let read = text.parse().ok().filter(|people| (1..=MOST_PEOPLE).contains(people));
    read.ok_or_else(|| {
        format!("`@people` is a number from 1 to {MOST_PEOPLE}, not `{}`", text.escape_debug())
    })
}

fn offset_within(policy: &Policy, text: &str, written: &str) -> usize {
    let Some(at) = policy.as_ref().loc() else { return 0 };
    let own = text.get(at.start()..at.end()).unwrap_or_default();
    own.find(written).map_or(at.start(), |found| at.start() + found)
}

fn offset_of(error: &dyn Diagnostic) -> usize {
    error.labels().and_then(|mut labels| labels.next()).map_or(0, |label| label.offset())
}

pub(super) fn problem_at(text: &str, offset: usize, message: String) -> CedarProblem {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    CedarProblem { line, column, message }
}
