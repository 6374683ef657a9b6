//! A tool's contract: what it is, what goes in and comes out, and how dangerous it is.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::action::{ActionError, Actions};
use crate::canonical::{Canonical, CanonicalError, Digest};
use crate::class::{Category, CostTier, EgressClass, Idempotency, Profile, SafetyClass, TrustLabel};
use crate::id::{IdError, SourceName, ToolName};
use crate::scan::{Finding, is_hidden, scan_all, scan_description};
use crate::schema::{Schema, SchemaError};

/// The longest description that is shown.
pub const MAX_DESCRIPTION: usize = 4096;

/// What a tool's author declares. Everything in it is hashed.
///
/// Begin with [`Definition::of`], which takes the schemas from two Rust types and supposes the worst of the rest, so that
/// what is left out is refused and not allowed by mistake. `docs/guide/adding-a-tool.md` goes through it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name, such as `fs.read`.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it does, for models and people. The first sentence stands alone in lists.
    pub description: String,
    /// What it works on. An agent's level includes categories, so this says who sees the tool at all.
    pub category: Category,
    /// What a call of it does, as `category:action`, unless its arguments say otherwise. Whether people are asked hangs
    /// on this.
    pub action: String,
    /// How dangerous its worst call is.
    pub safety: SafetyClass,
    /// What leaves the machine.
    pub egress: EgressClass,
    /// Whether the same call twice has one effect.
    pub idempotency: Idempotency,
    /// What it costs.
    pub cost: CostTier,
    /// A JSON schema of its arguments.
    pub input: Value,
    /// A JSON schema of its structured result. What does not fit it is withheld.
    pub output: Value,
    /// How it is used. Each must fit the input schema.
    pub examples: Vec<Example>,
    /// How it fails: `code: when, and what to do instead`.
    pub failure_modes: Vec<String>,
    /// How long it may take, in seconds. No call gets more.
    pub timeout_seconds: u64,
    /// What it was made from, where its author is somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// What a definition was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Where it comes from.
    pub source: SourceName,
    /// What its author wrote, word for word. It is hashed and searched, and never shown to a model.
    pub original: Value,
}

/// One way to call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// What it is for.
    pub about: String,
    /// The arguments.
    pub arguments: Value,
}

impl Example {
    /// An example, such as `Example::of("a whole file", json!({ "path": "src/main.rs" }))`.
    pub fn of(about: &str, arguments: Value) -> Example {
        Example { about: about.to_owned(), arguments }
    }
}

/// A definition that has been checked. A clone is the same contract, and costs a count.
#[derive(Clone, Debug)]
pub struct Contract {
    checked: Arc<Checked>,
    trust: TrustLabel,
    findings: Arc<[Finding]>,
}

#[derive(Debug)]
struct Checked {
    definition: Definition,
    name: ToolName,
    hash: Digest,
    input: Schema,
    output: Schema,
}

/// Why a definition is not a contract.
#[derive(Debug, Error)]
pub enum ContractError {
    /// Its name is not one.
    #[error("the tool has no valid name")]
    Name(#[from] IdError),
    /// A schema is not accepted.
    #[error("the {which} schema of `{tool}` is not accepted")]
    Schema {
        /// Which tool.
        tool: String,
        /// Input or output.
        which: &'static str,
        /// Why.
        source: SchemaError,
    },
    /// Its action is none of ours.
    #[error("`{tool}` does not say what it does")]
    Action {
        /// Which tool.
        tool: String,
        /// Why.
        source: ActionError,
    },
    /// It would be able to do more than it says.
    #[error("`{tool}` says that it is `{declared}`, but the profile `{profile}` permits more than that")]
    Understated {
        /// Which tool.
        tool: String,
        /// The class or action it declares.
        declared: String,
        /// The profile it runs under.
        profile: Profile,
    },
    /// It cannot be hashed.
    #[error("the definition of `{tool}` has no canonical form")]
    Canonical {
        /// Which tool.
        tool: String,
        /// Why.
        source: CanonicalError,
    },
    /// An example that the tool itself would refuse.
    #[error("an example of `{tool}` does not fit its own schema: {problem}")]
    Example {
        /// Which tool.
        tool: String,
        /// What does not fit.
        problem: String,
    },
}

impl Definition {
    /// A definition whose schemas are those of two Rust types. Until its author says otherwise it is as dangerous as can
    /// be: `Definition { safety: SafetyClass::Read, ..Definition::of::<Input, Output>("text.count") }`.
    pub fn of<Input: JsonSchema, Output: JsonSchema>(name: &str) -> Definition {
        Definition {
            name: name.to_owned(),
            title: name.to_owned(),
            description: String::new(),
            category: Category::Other,
            action: "other:privileged".to_owned(),
            safety: SafetyClass::Privileged,
            egress: EgressClass::Write,
            idempotency: Idempotency::None,
            cost: CostTier::Free,
            input: schema_of::<Input>(),
            output: schema_of::<Output>(),
            examples: Vec::new(),
            failure_modes: Vec::new(),
            timeout_seconds: 30,
            origin: None,
        }
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(members) = schema.as_object_mut() {
        members.remove("title");
    }
    schema
}

impl Contract {
    /// Checks a definition of our own, whose action is one that everybody has.
    pub fn internal(definition: Definition) -> Result<Contract, ContractError> {
        Actions::built_in()
            .parse(&definition.action)
            .map_err(|source| ContractError::Action { tool: definition.name.clone(), source })?;
        Contract::with_trust(definition, TrustLabel::Internal)
    }

    /// Checks a definition from somewhere.
    pub fn with_trust(definition: Definition, trust: TrustLabel) -> Result<Contract, ContractError> {
        let name = ToolName::parse(&definition.name)?;
        let tool = || definition.name.clone();
        let compile = |schema: &Value, which| {
            Schema::compile(schema).map_err(|source| ContractError::Schema { tool: tool(), which, source })
        };
        let input = compile(&definition.input, "input")?;
        let output = compile(&definition.output, "output")?;
        for example in &definition.examples {
            if let Some(problem) = input.problems(&example.arguments).into_iter().next() {
                return Err(ContractError::Example { tool: tool(), problem });
            }
        }
        let canonical = serde_json::to_value(&definition)
            .map_err(|error| CanonicalError::Json { why: error.to_string() })
            .and_then(Canonical::of)
            .map_err(|source| ContractError::Canonical { tool: tool(), source })?;
        let mut findings = Vec::new();
        let mut characters = definition.description.chars().count();
        match &definition.origin {
            None => findings.extend(scan_description(&definition.description)),
            // What is shown was made fit for that; what it was made from tells more of its author.
            Some(origin) => {
                scan_all(&origin.original, &mut findings);
                let own = origin.original.get("description").and_then(Value::as_str);
                characters = own.map_or(0, |text| text.chars().count());
            }
        }
        if characters > MAX_DESCRIPTION {
            findings.push(Finding::TooLong { characters });
        }
        let checked = Checked { name, hash: canonical.digest(), input, output, definition };
        Ok(Contract { checked: Arc::new(checked), trust, findings: findings.into() })
    }

    /// The same contract under another label: what operators have said of it since.
    #[must_use]
    pub fn labelled(&self, trust: TrustLabel) -> Contract {
        Contract { trust, ..self.clone() }
    }

    /// The same, and what is suspicious about it beside others.
    #[must_use]
    pub fn with_findings(&self, more: Vec<Finding>) -> Contract {
        let findings = self.findings.iter().cloned().chain(more).collect();
        Contract { findings, ..self.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &ToolName {
        &self.checked.name
    }

    /// What its author declared.
    pub fn definition(&self) -> &Definition {
        &self.checked.definition
    }

    /// The hash of all that.
    pub fn hash(&self) -> Digest {
        self.checked.hash
    }

    /// Where it comes from.
    pub fn trust(&self) -> TrustLabel {
        self.trust
    }

    /// What is suspicious about its description.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The schema of its arguments.
    pub fn input(&self) -> &Schema {
        &self.checked.input
    }

    /// The schema of its structured result.
    pub fn output(&self) -> &Schema {
        &self.checked.output
    }

    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.checked.definition.timeout_seconds)
    }

    /// The description as it is shown: cut to a length, nothing hidden left in it.
    pub fn shown_description(&self) -> String {
        let description = &self.checked.definition.description;
        description.chars().filter(|c| !is_hidden(*c)).take(MAX_DESCRIPTION).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its shape is used")]
    struct Input {
        path: String,
        limit: Option<u32>,
    }

    #[derive(JsonSchema)]
    struct Output {}

    fn definition() -> Definition {
        Definition { description: "Reads.".into(), ..Definition::of::<Input, Output>("fs.read") }
    }

    #[test]
    fn the_hash_covers_everything_the_author_wrote() {
        let hash = |definition| Contract::internal(definition).unwrap().hash();
        let first = hash(definition());
        assert_eq!(first, hash(definition()));
        assert_ne!(first, hash(Definition { description: "Reads. ".into(), ..definition() }));
        assert_ne!(first, hash(Definition { timeout_seconds: 31, ..definition() }));
    }

    #[test]
    fn what_is_shown_is_cut_and_cleaned_and_what_is_hashed_is_not() {
        let long = format!("a\u{200b}{}", "é".repeat(5000));
        let contract = Contract::internal(Definition { description: long, ..definition() }).unwrap();
        assert_eq!(contract.shown_description().chars().count(), MAX_DESCRIPTION);
        assert_eq!(
            contract.findings(),
            [Finding::HiddenCharacters { count: 1 }, Finding::TooLong { characters: 5002 }]
        );
    }

    #[test]
    fn an_example_that_the_tool_would_refuse_is_an_error() {
        let example = Example::of("wrong", json!({ "Path": "x" }));
        let wrong = Definition { examples: vec![example], ..definition() };
        assert!(matches!(Contract::internal(wrong), Err(ContractError::Example { .. })));
    }

    #[test]
    fn an_action_that_nobody_has_is_an_error_that_names_the_nearest() {
        let wrong = Definition { action: "code:raed".into(), ..definition() };
        let Err(ContractError::Action { source, .. }) = Contract::internal(wrong) else {
            panic!("it was accepted");
        };
        assert_eq!(source.to_string(), "there is no action `code:raed`, did you mean `code:read`?");
    }

    #[test]
    fn a_missing_optional_argument_is_no_problem() {
        let contract = Contract::internal(definition()).unwrap();
        assert_eq!(contract.input().problems(&json!({ "path": "x" })), Vec::<String>::new());
        assert_eq!(contract.input().problems(&json!({})).len(), 1);
    }
}
