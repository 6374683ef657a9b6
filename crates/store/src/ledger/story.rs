//! Checks that what the ledger tells hangs together: receipts with what was planned, asked and answered.
//!
//! Pure: entries are fed to it in their order, each proved to be what was signed. What it has heard of people and questions
//! can be compared with the tables afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use contract::Digest;
use serde_json::Value;

use super::entry::{Entry, RECONCILED, SETTLED};
use super::verify::Fault;
use crate::operators::Role;

/// What a receipt repeats of the call that was planned.
const REPEATED: [&str; 7] = ["agent", "task", "tool", "contract", "request", "arguments", "purpose"];

/// All that was told so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) people: BTreeMap<String, Person>,
    pub(crate) questions: HashMap<String, Question>,
    /// Calls without a known end.
    calls: HashMap<String, Value>,
}

/// An operator, as entries tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) role: Role,
    /// Nothing in entries of earlier versions.
    pub(crate) credential: Option<Digest>,
    pub(crate) removed: bool,
}

/// A question, as entries tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Question {
    pub(crate) call: Value,
    pub(crate) quorum: u64,
    pub(crate) expires_at: Value,
    /// The digest of what it bound; nothing in entries of earlier versions.
    pub(crate) operands: Option<Value>,
    /// Who said what, and by which way.
    pub(crate) answers: BTreeSet<(String, String, String)>,
    /// How far a yes reaches, and until when.
    pub(crate) reach: Option<(String, Option<i64>)>,
    pub(crate) revoked: bool,
    pub(crate) ended: bool,
}

impl Question {
    /// How many different people said yes.
    pub(crate) fn approvers(&self) -> u64 {
        let yes = self.answers.iter().filter(|(_, verdict, _)| verdict == "approve");
        yes.map(|(by, ..)| by).collect::<BTreeSet<_>>().len() as u64
    }
}

impl Story {
    /// Takes in the next entry; what is wrong with it, if something is.
    pub(crate) fn hear(&mut self, entry: &Entry) -> Option<Fault> {
        let kind = entry.kind.as_str();
        let is_told_of = kind.starts_with("operator.") || kind.starts_with("approval.");
        if !is_told_of && !["call.planned", SETTLED, RECONCILED].contains(&kind) {
            return None;
        }
        let Ok(body) = serde_json::from_str::<Value>(&entry.body) else { return None };
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind {
            "operator.added" | "operator.carried" => {
                let role = Role::parse(&text("role"))?;
                let removed = body.get("removed_at").is_some_and(|at| !at.is_null());
                let person = Person { role, credential: Digest::parse(&text("credential")), removed };
                self.people.insert(text("operator"), person);
            }
            "operator.rotated" => {
                self.people.get_mut(&text("operator"))?.credential = Digest::parse(&text("credential"));
            }
            "operator.removed" => self.people.get_mut(&text("operator"))?.removed = true,
            "call.planned" => {
                self.calls.insert(text("call"), body);
            }
            "approval.asked" => {
                let question = Question {
                    call: body.get("call").cloned().unwrap_or_default(),
                    quorum: body.get("quorum").and_then(Value::as_u64).unwrap_or(u64::MAX),
                    expires_at: body.get("expires_at").cloned().unwrap_or_default(),
                    operands: body.get("operands_digest").cloned(),
                    ..Question::default()
                };
                self.questions.insert(text("approval"), question);
            }
            "approval.answered" => return self.hear_answer(&text, &body),
            "approval.revoked" => self.questions.get_mut(&text("approval"))?.revoked = true,
            "approval.ended" => self.questions.get_mut(&text("approval"))?.ended = true,
            SETTLED | RECONCILED => return self.hear_end(&text("call_id"), &body),
            _ => {}
        }
        None
    }

    fn hear_answer(&mut self, text: &dyn Fn(&str) -> String, body: &Value) -> Option<Fault> {
        let (approval, by) = (text("approval"), text("by"));
        let may = self.people.get(&by).is_some_and(|person| !person.removed && person.role >= Role::Approver);
        if !may {
            return Some(Fault::Stranger { operator: by });
        }
        let question = self.questions.get_mut(&approval)?;
        question.answers.insert((by, text("verdict"), text("via")));
        if let Some(scope) = body.get("scope").and_then(Value::as_str).filter(|scope| *scope != "once") {
            let until = body.get("until").and_then(Value::as_i64);
            question.reach = Some((scope.to_owned(), until));
        }
        None
    }

    /// A receipt says of its call what was planned, and of an approval what was answered.
    fn hear_end(&mut self, call: &str, body: &Value) -> Option<Fault> {
        let planned = match body.get("status").and_then(Value::as_str) {
            // It may get a second receipt.
            Some("unknown") => self.calls.get(call).cloned(),
            _ => self.calls.remove(call),
        };
        let Some(planned) = planned else { return Some(Fault::Unplanned { call: call.to_owned() }) };
        let differs =
            |key: &&str| planned.get(*key).unwrap_or(&Value::Null) != body.get(*key).unwrap_or(&Value::Null);
        if let Some(what) = REPEATED.into_iter().find(|key| differs(key)) {
            return Some(Fault::NotAsPlanned { what });
        }
        let approval = body.get("approval").filter(|approval| !approval.is_null())?;
        let id = approval.get("id").and_then(Value::as_str).unwrap_or_default();
        let unproved = || Some(Fault::Unproved { approval: id.to_owned() });
        let Some(question) = self.questions.get(id) else { return unproved() };
        let is_told = |answer: &Value| {
            let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
            question.answers.iter().any(|(by, _, via)| by == text("name") && via == text("via"))
        };
        let by = approval.get("by").and_then(Value::as_array);
        if !by.is_some_and(|by| by.iter().all(is_told)) {
            return unproved();
        }
        let ran = body.get("run").is_some_and(|run| !run.is_null());
        if ran && question.approvers() < question.quorum { unproved() } else { None }
    }
}

impl Person {
    /// Whether a row says of an operator what was told.
    pub(crate) fn is(&self, role: Role, credential: &Digest, removed: bool) -> bool {
        (self.role, self.removed) == (role, removed) && self.credential.is_none_or(|told| told == *credential)
    }
}
