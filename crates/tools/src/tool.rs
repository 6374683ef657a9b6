//! What every tool has: a contract, a reading of its arguments, and a way to be run.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use clean::Findings;
use contract::{
    AgentName, Canonical, Contract, ContractError, EgressClass, Output, Profile, Reason, RunFacts,
    SafetyClass,
};
use policy::{Facets, Grant, Settings, WorkspaceAccess};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::files;
use crate::git;
use crate::guides::{Guide, guide_of};
use crate::http::HttpRequest;
use crate::operands::{Sealed, check_operands};
use crate::pipeline::Ready;
use crate::shell::Shell;
use crate::surroundings::Surroundings;

/// A tool.
pub trait Tool: Send + Sync {
    /// What it promises.
    fn contract(&self) -> &Contract;

    /// What a call can be, where that depends on its arguments. Empty where every call is what the contract says.
    fn kinds(&self) -> Vec<CallKind> {
        Vec::new()
    }

    /// Every action that a call of it can be, for rules that name actions. That of the contract, where none depends on
    /// the arguments.
    fn actions(&self) -> Vec<&str> {
        vec![&self.contract().definition().action]
    }

    /// How dangerous the least of its calls is.
    fn least_safety(&self) -> SafetyClass {
        self.kinds().iter().map(|kind| kind.safety).min().unwrap_or(self.contract().definition().safety)
    }

    /// Whether it is for this agent, whatever levels and lists say.
    fn is_for(&self, _agent: &AgentName) -> bool {
        true
    }

    /// Whether what the arguments name is there for this agent. What is for others is refused as what there is not is.
    fn check_for(&self, _agent: &AgentName, _arguments: &Value) -> Result<(), Reason> {
        Ok(())
    }

    /// What a call would do, read from its arguments alone; or why it can never be done.
    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason>;

    /// How long its arguments may be, in bytes, if that is more than other tools' may.
    fn most_arguments(&self, _settings: &Settings) -> Option<u64> {
        None
    }

    /// Binds the files that a call names, for people who are asked about it. A tool that names none binds none.
    fn seal<'a>(
        &'a self,
        _arguments: &'a Canonical,
        _workspace: &'a Path,
        _at: &'a Surroundings,
    ) -> Pin<Box<dyn Future<Output = Result<Sealed, Reason>> + Send + 'a>> {
        Box::pin(async { Ok(Sealed::default()) })
    }

    /// What is told of it beyond its contract, the first being the most useful.
    fn guides(&self) -> Vec<Guide> {
        guide_of(self.contract().name()).into_iter().collect()
    }

    /// Gets a sandbox ready for a call that only reads, while somebody still records that it may run: nothing of what it
    /// asks for begins. It is for [`Surroundings::with_ready`]. Does not block; where there is nothing to gain, does nothing.
    fn get_ready(&self, _grant: &Grant, _arguments: &Canonical, _at: &Surroundings) -> Option<Ready> {
        None
    }

    /// Whether nothing outside of its sandbox can tell, until its answer is given, that a call with this grant was run: it
    /// runs behind walls, writes nowhere and reaches nobody. Then it may run while its record is on its way to the disk.
    fn is_unnoticed(&self, _grant: &Grant) -> bool {
        false
    }

    /// Does it. The grant is used up, whatever comes of it; cancelling, or dropping the future, ends every process of
    /// the call.
    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>>;
}

/// One kind of call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallKind {
    /// The word in the arguments that makes it this kind.
    pub word: &'static str,
    /// How dangerous it is.
    pub safety: SafetyClass,
    /// What leaves the machine.
    pub egress: EgressClass,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the tool gave. Not clean, but where it is only a part of something.
    pub output: Output,
    /// What was taken out of such parts, and is not there to be found again.
    pub findings: Findings,
    /// What was enforced and observed.
    pub facts: RunFacts,
    /// Why it did not go well, if it did not. A command that ran and exited with a code other than 0 is no failure.
    pub failure: Option<Reason>,
}

impl Ran {
    /// A call of which nothing came.
    pub(crate) fn failed(reason: Reason, facts: RunFacts) -> Ran {
        let content = match &reason.hint {
            Some(hint) => format!("{}\nhint: {hint}", reason.message),
            None => reason.message.clone(),
        };
        let output = Output { content, is_error: true, structured: Value::Null, artifacts: Vec::new() };
        Ran { output, findings: Findings::default(), facts, failure: Some(reason) }
    }
}

/// The tools that are always there.
pub fn built_in(settings: &Settings) -> Result<Vec<Arc<dyn Tool>>, ContractError> {
    let mut tools = files::all(&settings.files)?;
    tools.push(Arc::new(Shell::new()?));
    tools.extend(git::all()?);
    tools.push(Arc::new(HttpRequest::new(&settings.egress.http)?));
    Ok(tools)
}

/// Checks that a grant is for this call. Whoever runs anything asks this first.
pub(crate) fn check_grant(
    grant: &Grant,
    contract: &Contract,
    arguments: &Canonical,
    at: &Surroundings,
) -> Result<(), Reason> {
    if grant.authority().contract != contract.hash() {
        return Err(Reason::internal("the grant is for another version of this tool"));
    }
    if !grant.covers(contract.name(), arguments.digest(), at.now()) {
        return Err(Reason::internal("the grant is for another call, or has expired"));
    }
    check_operands(grant, at.in_force())
}

/// Whether a grant lets nothing be changed, and nobody be reached.
pub(crate) fn only_looks(grant: &Grant) -> bool {
    let authority = grant.authority();
    authority.access != WorkspaceAccess::Write
        && authority.egress == EgressClass::None
        && authority.hosts.is_empty()
        && authority.profile.is_none_or(|profile| profile == Profile::Inspect)
}

/// Why a call ended that nobody wanted any more.
pub(crate) fn taken_back() -> Reason {
    Reason::cancelled("the call was taken back")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contract_is_clean_described_and_says_how_it_is_used_and_how_it_fails() {
        let tools = built_in(&Settings::default()).unwrap();
        for tool in tools.into_iter().chain(crate::guide::count()) {
            let definition = tool.contract().definition();
            let name = &definition.name;
            assert_eq!(tool.contract().findings(), [], "{name}");
            assert!(definition.title != *name && !definition.description.is_empty(), "{name}");
            assert!(!definition.examples.is_empty() && !definition.failure_modes.is_empty(), "{name}");
        }
    }

    #[test]
    fn every_example_is_an_action_that_its_tool_says_it_can_be() {
        let settings = Settings::default();
        for tool in built_in(&settings).unwrap() {
            for example in &tool.contract().definition().examples {
                let action =
                    tool.facets(&example.arguments, &settings).map(|facets| facets.action.to_string());
                let name = tool.contract().name();
                assert!(action.is_ok_and(|action| tool.actions().contains(&action.as_str())), "{name}");
            }
        }
    }
}
