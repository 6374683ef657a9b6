//! A tool of the suite's own, whose every run can be counted: it pays.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use contract::{
    Actions, Canonical, Category, Contract, CostTier, Definition, EgressClass, Idempotency, Output, Reason,
    RunFacts, SafetyClass,
};
use policy::{Facets, Grant, Settings, WorkspaceAccess};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::{Ran, Surroundings, Tool};

use crate::Try;

/// What is particular about the tool.
pub(crate) struct Payment {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) safety: SafetyClass,
    pub(crate) idempotency: Idempotency,
    /// Whether its schema admits what it does not name.
    pub(crate) open: bool,
    /// Whether its schema says nothing at all of what it takes.
    pub(crate) any: bool,
    /// Where it writes a line for each run.
    pub(crate) book: PathBuf,
}

impl Payment {
    pub(crate) fn into(book: PathBuf) -> Payment {
        Payment {
            name: "pay",
            description: "Pays.",
            safety: SafetyClass::Write,
            idempotency: Idempotency::Required,
            open: false,
            any: false,
            book,
        }
    }

    /// What its author would hand in.
    pub(crate) fn definition(&self) -> Definition {
        let input = json!({
            "type": "object",
            "properties": { "amount": { "type": "integer", "maximum": 100 } },
            "required": ["amount"],
        });
        let anything = json!({ "type": "object", "properties": {}, "additionalProperties": true });
        let mut input = if self.any { anything } else { input };
        if let (true, Some(members)) = (self.open, input.as_object_mut()) {
            members.insert("additionalProperties".to_owned(), Value::Bool(true));
        }
        Definition {
            name: self.name.to_owned(),
            title: "Pay".to_owned(),
            description: self.description.to_owned(),
            category: Category::FileSystem,
            action: "code:write".to_owned(),
            safety: self.safety,
            egress: EgressClass::None,
            idempotency: self.idempotency,
            cost: CostTier::Free,
            input,
            output: json!({ "type": "object", "properties": {} }),
            examples: Vec::new(),
            failure_modes: Vec::new(),
            timeout_seconds: 5,
            origin: None,
        }
    }

    /// The tool itself.
    pub(crate) fn tool(self) -> Try<Arc<dyn Tool>> {
        let contract = Contract::internal(self.definition())?;
        Ok(Arc::new(Paying { contract, safety: self.safety, book: self.book }))
    }
}

struct Paying {
    contract: Contract,
    safety: SafetyClass,
    book: PathBuf,
}

impl Tool for Paying {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn facets(&self, _arguments: &Value, _settings: &Settings) -> Result<Facets, Reason> {
        let action =
            Actions::default().parse("code:write").map_err(|error| Reason::internal(error.to_string()))?;
        Ok(Facets {
            action,
            safety: self.safety,
            egress: EgressClass::None,
            access: WorkspaceAccess::None,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: Vec::new(),
        })
    }

    fn run<'a>(
        &'a self,
        _grant: Grant,
        arguments: &'a Canonical,
        _at: &'a Surroundings,
        _cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            // As careless programs read their arguments: the first key that fits, in whatever case it is.
            let members = arguments.value().as_object();
            let mut amounts =
                members.into_iter().flatten().filter(|(key, _)| key.eq_ignore_ascii_case("amount"));
            let amount = amounts.next().map(|(_, value)| value.to_string()).unwrap_or_default();
            store::crash::reach("effect/before");
            let written = OpenOptions::new().append(true).create(true).open(&self.book);
            let failure = written.and_then(|mut book| writeln!(book, "{amount}")).err();
            store::crash::reach("effect/after");
            Ran {
                output: Output { content: "paid".to_owned(), structured: json!({}), ..Output::default() },
                findings: engine::Findings::default(),
                facts: RunFacts::default(),
                failure: failure.map(|error| Reason::tool_failed(error.to_string())),
            }
        })
    }
}
