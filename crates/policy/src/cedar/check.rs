//! Checks rules against what tools take, with Cedar's own validator: once for each tool that a rule can be about.
//!
//! # Invariants
//! - A rule that is taken reads nothing that a tool does not have, and compares nothing with what it is not.
//! - What is said never to match denies nothing and asks nothing, about no call of a tool that is known.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cedar_policy::{ActionConstraint, Policy, PolicySet, ValidationMode, ValidationWarning, Validator};
use miette::Diagnostic;
use serde_json::{Value, json};

use super::names::{Reads, reads_context};
use super::read::{CedarProblem, CedarRule, problem_at};
use super::say::{NO_ARGUMENT, of_validator};
use super::schema::{CedarTool, Variant, for_editors, together};
use super::tree::{any_node, asks_for, has_key, mentions, path_of, reads};
use super::types::{Kind, UNSHOWN};
use super::untold::UNTOLD;
use super::words::{Odd, doubtful_words, odd_words, texts_for_names};

/// As many tools as are named in what is wrong with a rule.
const MOST_NAMED: usize = 3;

/// The category of the actions of tools that are imported.
const IMPORTED: &str = "mcp";

/// The tools that rules are checked against.
pub struct CedarSchema {
    tools: Vec<CedarTool>,
    actions: BTreeSet<String>,
    /// The roles that agents can have, if that is known.
    roles: Option<BTreeSet<String>>,
}

/// What was found about a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// What is wrong with it.
    pub problems: Vec<CedarProblem>,
    /// What somebody should look at, though it is right.
    pub remarks: Vec<String>,
    /// Why it can be about no call of a tool that is known, if it cannot.
    pub never_matches: Option<String>,
}

/// Validators by what they were made for: to make one takes longer than to use it.
pub struct CedarChecks<'a> {
    of: &'a CedarSchema,
    made: BTreeMap<Variant<'a>, Rc<Result<Validator, String>>>,
}

impl CedarSchema {
    /// The schema of these tools; `actions` are all there are.
    pub fn of(tools: Vec<CedarTool>, actions: BTreeSet<String>) -> CedarSchema {
        CedarSchema { tools, actions, roles: None }
    }

    /// The same where agents can have these roles and no others.
    pub fn with_roles(self, roles: BTreeSet<String>) -> CedarSchema {
        CedarSchema { roles: Some(roles), ..self }
    }

    /// Begins to check rules.
    pub fn checks(&self) -> CedarChecks<'_> {
        CedarChecks { of: self, made: BTreeMap::new() }
    }

    /// The tools.
    pub fn tools(&self) -> &[CedarTool] {
        &self.tools
    }

    /// The schema of a tool, or of all of them together, for editors: as JSON, and in Cedar's own words.
    pub fn for_editors(&self, tool: Option<&str>) -> Option<(Value, Result<String, String>)> {
        let meant =
            || self.tools.iter().filter(|known| tool.is_none_or(|name| known.facts.name.as_str() == name));
        meant().next()?;
        let applying = meant().flat_map(|tool| &tool.actions).map(String::as_str).collect();
        let arguments = match tool {
            Some(_) => meant().next()?.arguments.clone(),
            None => together(meant()),
        };
        Some(for_editors(&arguments, applying, &self.actions))
    }
}

impl<'a> CedarChecks<'a> {
    /// Checks a rule that stands in this text.
    pub fn check(&mut self, rule: &CedarRule, text: &str) -> Checked {
        let tree = rule.tree();
        let conditions = tree.get("conditions").cloned().unwrap_or_default();
        let mut checked = Checked::default();
        let nameless = texts_for_names(&conditions);
        if !nameless.is_empty() {
            checked.problems = placed(rule, text, nameless);
            return checked;
        }
        let odd = odd_words(&conditions, self.of.roles.as_ref());
        checked.problems.extend(placed(rule, text, odd));
        checked.remarks.extend(doubtful_words(&conditions));
        let mut found: BTreeMap<(usize, String), Vec<&str>> = BTreeMap::new();
        let (mut can_match, mut about) = (false, 0_usize);
        let mut seen: BTreeMap<(Variant<'a>, Option<String>), Outcome> = BTreeMap::new();
        for tool in &self.of.tools {
            let Some(variant) = self.variant(rule, tool, &conditions) else { continue };
            about += 1;
            // Rules that look at the tool itself are another rule for each.
            let own = mentions(&conditions, "resource").then(|| settled(&conditions, tool));
            let key = (variant, own.as_ref().map(Value::to_string));
            let outcome = match seen.get(&key) {
                Some(outcome) => outcome.clone(),
                None => {
                    let outcome = self.outcome(rule, &key.0, own, &tree);
                    seen.insert(key, outcome.clone());
                    outcome
                }
            };
            checked.remarks.extend(outcome.remarks);
            can_match |= outcome.can_match || !is_surely_silent(rule, &conditions, tool);
            let odd = unshown_below(&conditions, &tool.arguments).map(|why| (rule.offset(), why));
            for (offset, message) in outcome.errors.into_iter().chain(odd) {
                let message = explained(message, &conditions, &tool.arguments);
                found.entry((offset, message)).or_default().push(tool.facts.name.as_str());
            }
        }
        checked.problems.extend(found.into_iter().map(|((offset, message), tools)| {
            problem_at(text, offset, format!("{}: {message}", listed(&tools)))
        }));
        checked.remarks.sort();
        checked.remarks.dedup();
        if checked.problems.is_empty() && !can_match {
            checked.never_matches = match about {
                0 => no_tool_for(rule, &self.of.tools),
                _ => Some("its scope and conditions fit no call of a tool that is known here".to_owned()),
            };
        }
        checked
    }

    /// The schema that a rule is checked against for a tool, if it can be about it.
    fn variant(&self, rule: &CedarRule, tool: &'a CedarTool, conditions: &Value) -> Option<Variant<'a>> {
        if rule.tool().is_some_and(|name| name != tool.facts.name.as_str()) {
            return None;
        }
        let in_scope = |action: &&str| match rule.policy().action_constraint() {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(uid) => uid.id().unescaped() == *action,
            ActionConstraint::In(uids) => uids.iter().any(|uid| {
                let id = uid.id().unescaped();
                id == *action || action.split(':').next() == Some(id)
            }),
        };
        let mut applying: BTreeSet<&str> = tool.actions.iter().map(String::as_str).filter(in_scope).collect();
        let first = *applying.first()?;
        // Where nothing looks at the action, all of them are alike.
        if !mentions(conditions, "action") {
            applying = [first].into();
        }
        let presumed = UNTOLD.into_iter().filter(|name| !asks_for(conditions, name)).collect();
        // Tools that differ in what the rule does not look at are alike to it.
        let arguments = match (rule.reads(), &tool.arguments) {
            (Reads::Names(names), Kind::Record(members)) => {
                let read = members.iter().filter(|(name, _)| names.contains(*name));
                Kind::Record(read.map(|(name, member)| (name.clone(), member.clone())).collect())
            }
            (_, whole) => whole.clone(),
        };
        Some(Variant { arguments, applying, presumed })
    }

    fn outcome(
        &mut self,
        rule: &CedarRule,
        variant: &Variant<'a>,
        own: Option<Value>,
        tree: &Value,
    ) -> Outcome {
        let validator = match self.made.get(variant) {
            Some(made) => made.clone(),
            None => {
                let made = Rc::new(variant.schema(&self.of.actions).map(Validator::new));
                self.made.insert(variant.clone(), made.clone());
                made
            }
        };
        let validator = match validator.as_ref() {
            Ok(validator) => validator,
            Err(why) => {
                return Outcome::broken(rule.offset(), format!("what it takes cannot be shown: {why}"));
            }
        };
        let written = Outcome::of(validator, rule.set(), rule.offset());
        let Some(conditions) = own else { return written };
        let mut tree = tree.clone();
        if let Some(members) = tree.as_object_mut() {
            members.insert("conditions".to_owned(), conditions);
        }
        let set = Policy::from_json(None, tree).map_err(|error| error.to_string());
        let set =
            set.and_then(|policy| PolicySet::from_policies([policy]).map_err(|error| error.to_string()));
        match set {
            Ok(set) => Outcome::of(validator, &set, rule.offset()).placed_by(&written),
            Err(why) => Outcome::broken(rule.offset(), why),
        }
    }
}

fn placed(rule: &CedarRule, text: &str, odd: Vec<Odd>) -> Vec<CedarProblem> {
    odd.into_iter()
        .map(|Odd { written, why }| problem_at(text, rule.offset_of(text, &written), why))
        .collect()
}

/// Why no tool there is can be what the scope of a rule names. Tools that are not known yet are checked by name alone, and so
/// are actions that only tools can be that are imported later.
fn no_tool_for(rule: &CedarRule, tools: &[CedarTool]) -> Option<String> {
    let actions = rule.actions()?;
    let named = quoted(&actions);
    if let (ActionConstraint::Eq(_), Some(category)) =
        (rule.policy().action_constraint(), actions.first().filter(|action| !action.contains(':')))
    {
        return Some(format!(
            "no call is `{category}`, which is many actions: write `action in Action::\"{category}\"`"
        ));
    }
    match rule.tool() {
        Some(name) => {
            let tool = tools.iter().find(|tool| tool.facts.name.as_str() == name)?;
            Some(format!("`{name}` is never {named}: it can be {}", quoted(&tool.actions)))
        }
        None if actions.iter().all(|action| action.split(':').next() == Some(IMPORTED)) => None,
        None => Some(format!("no tool there is now can be {named}; one that is added later might")),
    }
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

/// What a validator says about a rule and a tool.
#[derive(Clone)]
struct Outcome {
    errors: Vec<(usize, String)>,
    remarks: Vec<String>,
    can_match: bool,
}

impl Outcome {
    fn of(validator: &Validator, set: &PolicySet, start: usize) -> Outcome {
        let result = validator.validate(set, ValidationMode::Strict);
        let errors = result.validation_errors().map(|error| {
            let offset =
                error.labels().and_then(|mut labels| labels.next()).map_or(start, |label| label.offset());
            (offset, of_validator(&error.to_string(), error.help().map(|help| help.to_string())))
        });
        let (mut can_match, mut remarks) = (true, Vec::new());
        for warning in result.validation_warnings() {
            match warning {
                ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_) => {
                    can_match = false;
                }
                // Letters that look like others.
                other => remarks.push(of_validator(&other.to_string(), None)),
            }
        }
        Outcome { errors: errors.collect(), remarks, can_match }
    }

    fn broken(start: usize, why: String) -> Outcome {
        Outcome { errors: vec![(start, why)], remarks: Vec::new(), can_match: true }
    }

    /// The same, with what is wrong where it stands in the rule as it was written.
    fn placed_by(mut self, written: &Outcome) -> Outcome {
        for (offset, message) in &mut self.errors {
            if let Some((place, _)) = written.errors.iter().find(|(_, other)| other == message) {
                *offset = *place;
            }
        }
        self
    }
}

/// What is wrong, and which arguments rules cannot be shown, where it comes of one.
fn explained(message: String, conditions: &Value, arguments: &Kind) -> String {
    let Kind::Record(members) = arguments else { return message };
    if let Some(name) = message.strip_prefix(NO_ARGUMENT).and_then(|rest| rest.strip_suffix('`')) {
        let near = contract::nearest(name, members.keys().map(String::as_str));
        let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        return format!("{message}{near}");
    }
    if !message.contains(UNSHOWN) {
        return message;
    }
    let unshown = members.iter().filter_map(|(name, member)| match member.kind {
        Kind::Unshown(why) if reads(conditions, name) => {
            Some(format!("the argument `{name}` is {why}, and rules can only ask whether it is given"))
        }
        _ => None,
    });
    let unshown: Vec<String> = unshown.collect();
    if unshown.is_empty() { message } else { unshown.join("; ") }
}

fn listed(tools: &[&str]) -> String {
    let named: Vec<String> = tools.iter().take(MOST_NAMED).map(|tool| format!("`{tool}`")).collect();
    match tools.len().saturating_sub(MOST_NAMED) {
        0 => format!("for {}", named.join(", ")),
        more => format!("for {} and {more} more", named.join(", ")),
    }
}

/// Whether a rule that matches nothing is silent, too: nothing in it can fail for a call of the tool.
fn is_surely_silent(rule: &CedarRule, conditions: &Value, tool: &CedarTool) -> bool {
    let is_carried =
        |name: &str| tool.arguments.member(name).is_none_or(|member| is_always_carried(&member.kind));
    let all_carried = match rule.reads() {
        Reads::Names(names) => names.iter().all(|name| is_carried(name)),
        Reads::All => is_always_carried(&tool.arguments),
    };
    let counts = ["+", "-", "*", "neg"].iter().any(|operator| has_key(conditions, operator));
    all_carried && !counts && !UNTOLD.iter().any(|name| reads_context(conditions, name))
}

/// Whether every value of it can be shown: numbers can be too large.
fn is_always_carried(kind: &Kind) -> bool {
    match kind {
        Kind::Bool | Kind::String => true,
        Kind::Long | Kind::Decimal | Kind::Unshown(_) => false,
        Kind::Set(item) => is_always_carried(item),
        Kind::Record(members) => members.values().all(|member| is_always_carried(&member.kind)),
    }
}

/// Why something is asked of what rules cannot be shown: to the validator it would merely not be there.
fn unshown_below(tree: &Value, arguments: &Kind) -> Option<String> {
    let found = std::cell::RefCell::new(None);
    any_node(tree, &|key, value| {
        let path = if key == "has" { path_of(value) } else { None };
        let Some((_, of)) = path.as_deref().and_then(<[&str]>::split_last) else { return false };
        let kind = of.iter().try_fold(arguments, |kind, name| kind.member(name).map(|member| &member.kind));
        if let (Some(Kind::Unshown(why)), [_, ..]) = (kind, of) {
            let name = of.join(".");
            let why = format!("the argument `{name}` is {why}, and rules can only ask whether it is given");
            found.replace(Some(why));
        }
        found.borrow().is_some()
    });
    found.into_inner()
}

/// The conditions with what is known of the tool in the place of `resource`.
fn settled(tree: &Value, tool: &CedarTool) -> Value {
    match tree {
        Value::Array(items) => items.iter().map(|item| settled(item, tool)).collect(),
        Value::Object(members) => {
            let members: serde_json::Map<String, Value> =
                members.iter().map(|(key, value)| (key.clone(), settled(value, tool))).collect();
            let known = members.iter().next().filter(|_| members.len() == 1);
            match known.and_then(|(key, value)| known_of(key, value, tool)) {
                Some(value) => json!({ "Value": value }),
                None => Value::Object(members),
            }
        }
        other => other.clone(),
    }
}

/// What an operation on `resource` comes to for a tool.
fn known_of(operator: &str, value: &Value, tool: &CedarTool) -> Option<Value> {
    let (left, right) = (value.get("left"), value.get("right"));
    let is_resource =
        |tree: Option<&Value>| tree.and_then(|tree| tree.get("Var")) == Some(&json!("resource"));
    let is_tool = |tree: &Value| {
        let entity = tree.get("Value").and_then(|value| value.get("__entity"))?;
        (entity.get("type")? == "Tool").then(|| entity.get("id") == Some(&json!(tool.facts.name.as_str())))
    };
    let is_any_of = |tree: &Value| match tree.get("Set").and_then(Value::as_array) {
        Some(items) => items.iter().map(is_tool).try_fold(false, |found, is_it| Some(found || is_it?)),
        None => is_tool(tree),
    };
    match operator {
        "==" | "!=" => {
            let other = if is_resource(left) { right } else { is_resource(right).then_some(left)? };
            Some(json!(is_tool(other?)? == (operator == "==")))
        }
        "in" if is_resource(left) => Some(json!(is_any_of(right?)?)),
        "contains" if is_resource(right) => Some(json!(is_any_of(left?)?)),
        "contains" => {
            let (items, wanted) = (left?.get("Set")?.as_array()?, right?.get("Value")?.as_str()?);
            let texts: Option<Vec<&str>> = items.iter().map(|item| item.get("Value")?.as_str()).collect();
            Some(json!(texts?.contains(&wanted)))
        }
        "." if is_resource(left) => {
            let facts = &tool.facts;
            let text = match value.get("attr")?.as_str()? {
                "category" => facts.category.as_str(),
                "safety" => facts.safety.as_str(),
                "egress" => facts.egress.as_str(),
                "trust" => facts.trust.as_str(),
                _ => return None,
            };
            Some(json!(text))
        }
        _ => None,
    }
}
