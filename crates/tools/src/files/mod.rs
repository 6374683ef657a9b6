//! The `fs` tools: files of the workspace, read and changed by a worker behind walls.

mod show;
mod types;
mod verb;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use contract::{Actions, Canonical, Contract, ContractError, Digest, EgressClass, Output, Reason, RunFacts};
use policy::{Facets, FileSettings, Grant, Settings, WorkspaceAccess};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use types::{
    AppendInput, DeleteInput, DeleteOutput, EditInput, EditOutput, Encoding, Entry, FileCall, FileResult,
    Kind, ListInput, ListOutput, MakeDirectoryInput, MakeDirectoryOutput, Match, MoveInput, MoveOutput,
    ReadInput, ReadOutput, Scope, SearchInput, SearchOutput, StatInput, StatOutput, WriteInput, WriteOutput,
};

use crate::facts::{facts_of, micros};
use crate::operands::{InForce, Sealed, Sought};
use crate::path::{Guard, names_of};
use crate::pool::Asked;
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant, only_looks, taken_back};
use crate::wire::{Links, WorkerRequest, WorkerResponse};
use verb::Verb;

/// The largest file whatever the settings say: as base64 it must fit into a frame.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// All of them.
pub(crate) fn all(settings: &FileSettings) -> Result<Vec<Arc<dyn Tool>>, ContractError> {
    let tool = |verb: Verb| -> Result<Arc<dyn Tool>, ContractError> {
        let contract = Contract::internal(verb.definition())?;
        Ok(Arc::new(FileTool { contract, verb, settings: settings.clone() }))
    };
    Verb::ALL.into_iter().map(tool).collect()
}

struct FileTool {
    contract: Contract,
    verb: Verb,
    settings: FileSettings,
}

impl Tool for FileTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn actions(&self) -> Vec<&str> {
        match self.verb {
            Verb::Write => vec!["code:write", "code:create"],
            Verb::Move => vec!["code:write", "code:delete"],
            _ => vec![&self.contract.definition().action],
        }
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let call = self.verb.parse(arguments)?;
        self.refuse_what_can_never_be(&call, &settings.files)?;
        let action =
            Actions::built_in().parse(call.action()).map_err(|error| Reason::internal(error.to_string()))?;
        Ok(Facets {
            action,
            safety: self.verb.safety(),
            egress: EgressClass::None,
            access: self.verb.access(),
            profile: None,
            commands: Vec::new(),
            trees: call.trees().into_iter().map(str::to_owned).collect(),
            reaches: Vec::new(),
            hosts: Vec::new(),
        })
    }

    fn most_arguments(&self, settings: &Settings) -> Option<u64> {
        // Content in base64, or with its line ends and quotes escaped, is longer than it is.
        let content = settings.files.max_bytes.min(MOST_BYTES).saturating_mul(2).saturating_add(64 << 10);
        matches!(self.verb, Verb::Write | Verb::Append | Verb::Edit).then_some(content)
    }

    fn seal<'a>(
        &'a self,
        arguments: &'a Canonical,
        workspace: &'a Path,
        at: &'a Surroundings,
    ) -> Pin<Box<dyn Future<Output = Result<Sealed, Reason>> + Send + 'a>> {
        Box::pin(async move {
            let call = self.verb.parse(arguments.value())?;
            let (root, directory) = (workspace.to_owned(), ".".to_owned());
            let (words, not_bound, unseen) = (call.operands()?, Vec::new(), false);
            at.bind(Sought { root, links: self.links(), directory, words, not_bound, unseen }).await
        })
    }

    fn is_unnoticed(&self, grant: &Grant) -> bool {
        only_looks(grant)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            match self.prepare(&grant, arguments, at) {
                Ok(_) if cancel.is_cancelled() => Ran::failed(taken_back(), RunFacts::default()),
                Ok(question) => self.ask(&grant, question, at, &cancel).await,
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

impl FileTool {
    /// What no worker would do either. It is refused here so that nobody is asked about it, and nothing is started.
    fn refuse_what_can_never_be(&self, call: &FileCall, settings: &FileSettings) -> Result<(), Reason> {
        let writes = self.verb.access() == WorkspaceAccess::Write;
        let names = names_of(settings);
        let guard = Guard { names: &names, root: Path::new("/") };
        for path in call.paths()? {
            let guarded = if writes {
                guard.against_writing(&path.path())
            } else {
                guard.against_reading(&path.path())
            };
            if let Some(guarded) = guarded {
                return Err(guarded.reason(&path.text()));
            }
        }
        Ok(())
    }

    fn prepare(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
    ) -> Result<WorkerRequest, Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        if grant.authority().access < self.verb.access() {
            return Err(Reason::internal("the grant does not permit this access to the workspace"));
        }
        let call = self.verb.parse(arguments.value())?;
        self.refuse_what_can_never_be(&call, &self.settings)?;
        Ok(WorkerRequest {
            root: grant.workspace().to_owned(),
            names: at.told_names(),
            max_bytes: self.settings.max_bytes.min(MOST_BYTES),
            links: self.links(),
            expected: at.in_force().map(InForce::expected).unwrap_or_default(),
            call,
        })
    }

    fn links(&self) -> Links {
        if self.settings.follow_links { Links::FollowInside } else { Links::Refuse }
    }

    async fn ask(
        &self,
        grant: &Grant,
        question: WorkerRequest,
        at: &Surroundings,
        cancel: &CancellationToken,
    ) -> Ran {
        let begun = Instant::now();
        let access = self.verb.access();
        let limits = grant.authority().limits;
        let timeout = limits.timeout;
        let asked = tokio::select! {
            // What was answered already counts, whatever came at the same moment.
            biased;
            asked = at.ask(access, limits, &question) => asked,
            () = cancel.cancelled() => Err(taken_back()),
            () = tokio::time::sleep(timeout) => Err(too_long(timeout)),
        };
        match asked {
            Ok(Asked { answer, enforcement }) => {
                let mut facts = facts_of(&enforcement, at.worker_digest().await);
                facts.wall_micros = micros(begun.elapsed());
                self.conclude(answer, facts)
            }
            Err(reason) => {
                // Dropped in the middle of its work, so nobody knows how far it came, nor what that took.
                let facts = RunFacts {
                    files_changed_complete: access == WorkspaceAccess::Read,
                    wall_micros: micros(begun.elapsed()),
                    cpu_incomplete: true,
                    ..RunFacts::default()
                };
                Ran::failed(reason, facts)
            }
        }
    }

    fn conclude(&self, answer: WorkerResponse, mut facts: RunFacts) -> Ran {
        facts.cpu_micros = answer.cpu_micros;
        facts.peak_memory = answer.peak_memory;
        facts.files_changed_complete = answer.changed.more == 0;
        facts.files_changed = answer.changed.paths;
        let shown = answer.result.and_then(|result| show::show(self.verb, result));
        match shown {
            Ok(output) => {
                facts.output = Some(Digest::of(output.content.as_bytes()));
                Ran { output, findings: answer.findings, facts, failure: None }
            }
            Err(reason) => Ran::failed(reason, facts),
        }
    }
}

fn too_long(timeout: std::time::Duration) -> Reason {
    Reason::timeout(format!("it took longer than {} seconds", timeout.as_secs_f64()))
}

/// What a tool gives: the text, and the same for programs.
fn output(content: String, structured: impl serde::Serialize) -> Result<Output, Reason> {
    let structured =
        serde_json::to_value(structured).map_err(|error| Reason::bad_output(error.to_string()))?;
    Ok(Output { content, is_error: false, structured, artifacts: Vec::new() })
}

#[cfg(test)]
mod tests {
    use policy::Settings;
    use serde_json::json;

    use super::*;
    use crate::built_in;

    fn facets(tool: &str, arguments: Value) -> Result<Facets, Reason> {
        let settings = Settings::default();
        let tools = built_in(&settings).unwrap();
        let tool = tools.iter().find(|candidate| candidate.contract().name().as_str() == tool).unwrap();
        assert_eq!(tool.contract().input().problems(&arguments), Vec::<String>::new());
        tool.facets(&arguments, &Settings::default())
    }

    fn action(tool: &str, arguments: Value) -> (String, WorkspaceAccess) {
        let facets = facets(tool, arguments).unwrap();
        assert_eq!(facets.egress, EgressClass::None);
        (facets.action.to_string(), facets.access)
    }

    #[test]
    fn every_call_says_what_it_would_do() {
        use WorkspaceAccess::{Read, Write};
        let cases = [
            ("fs.read", json!({ "path": "a" }), "code:read", Read),
            ("fs.list", json!({}), "code:read", Read),
            ("fs.stat", json!({ "path": "a" }), "code:read", Read),
            ("fs.search", json!({ "pattern": "a" }), "code:read", Read),
            ("fs.write", json!({ "path": "a", "content": "" }), "code:write", Write),
            ("fs.write", json!({ "path": "a", "content": "", "create_only": true }), "code:create", Write),
            ("fs.append", json!({ "path": "a", "content": "" }), "code:write", Write),
            ("fs.edit", json!({ "path": "a", "old": "x", "new": "y" }), "code:write", Write),
            ("fs.mkdir", json!({ "path": "a" }), "code:create", Write),
            ("fs.move", json!({ "from": "a", "to": "b" }), "code:write", Write),
            ("fs.move", json!({ "from": "a", "to": "b", "overwrite": true }), "code:delete", Write),
            ("fs.delete", json!({ "path": "a" }), "code:delete", Write),
        ];
        for (tool, arguments, expected, access) in cases {
            assert_eq!(action(tool, arguments.clone()), (expected.to_owned(), access), "{tool} {arguments}");
        }
    }

    #[test]
    fn what_can_never_be_is_refused_before_anybody_is_asked() {
        let code = |tool, arguments| facets(tool, arguments).err().map(|reason| reason.code.to_string());
        assert_eq!(code("fs.read", json!({ "path": "../x" })).as_deref(), Some("outside"));
        assert_eq!(code("fs.read", json!({ "path": ".env" })).as_deref(), Some("protected"));
        assert_eq!(
            code("fs.write", json!({ "path": ".git/hooks/x", "content": "" })).as_deref(),
            Some("protected")
        );
        assert_eq!(code("fs.move", json!({ "from": "a", "to": "/etc/x" })).as_deref(), Some("outside"));
        assert_eq!(code("fs.read", json!({ "path": ".git/HEAD" })), None);
    }
}
