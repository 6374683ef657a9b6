//! A tool that runs until it is told to end, or breaks: for calls that somebody ends, or whose end nobody knows.

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

pub(crate) const NAME: &str = "wait";

pub(crate) fn tool() -> Arc<dyn Tool> {
    let contract = Contract::internal(Definition {
        name: NAME.to_owned(),
        title: "Wait".to_owned(),
        description: "Waits until it is told to end.".to_owned(),
        category: Category::FileSystem,
        action: "code:read".to_owned(),
        safety: SafetyClass::Read,
        egress: EgressClass::None,
        idempotency: Idempotency::None,
        cost: CostTier::Free,
        input: json!({ "type": "object", "properties": { "how": { "enum": ["wait", "break", "briefly"] } }, "required": ["how"] }),
        output: json!({ "type": "object", "properties": {} }),
        examples: Vec::new(),
        failure_modes: Vec::new(),
        timeout_seconds: 60,
        origin: None,
    });
    Arc::new(Waiting(contract.unwrap()))
}

struct Waiting(Contract);

impl Tool for Waiting {
    fn contract(&self) -> &Contract {
        &self.0
    }

    fn facets(&self, _: &Value, _: &Settings) -> Result<Facets, Reason> {
        Ok(Facets {
            action: Actions::default().parse("code:read").unwrap(),
            safety: SafetyClass::Read,
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
        _: Grant,
        arguments: &'a Canonical,
        _: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let failure = match arguments.value()["how"].as_str() {
                Some("break") => panic!("as it was told to"),
                Some("briefly") => {
                    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
                    None
                }
                _ => {
                    cancel.cancelled().await;
                    Some(Reason::cancelled("it was told to end"))
                }
            };
            let output = Output { content: "waited".to_owned(), structured: json!({}), ..Output::default() };
            Ran { output, findings: engine::Findings::default(), facts: RunFacts::default(), failure }
        })
    }
}
