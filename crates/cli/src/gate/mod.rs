//! The commands that talk to a gate: here, one embedded in this process, on the store that all of them share.

mod agents;
mod answer;
mod approvals;
mod artifact;
mod budgets;
mod call;
mod calls;
mod demo;
mod explain;
mod ledger;
mod mcp;
mod open;
mod operators;
mod person;
mod policy;
mod port;
mod private;
mod receipt;
mod register;
mod reload;
mod replay;
mod telling;
mod tools;
mod up;
mod watch;

pub(crate) use agents::{AgentsArguments, agents};
pub(crate) use answer::{
    AnswerArguments, ApproveArguments, DenyArguments, RevokeArguments, answer, approve, deny, revoke,
};
pub(crate) use approvals::{ApprovalsArguments, approvals};
pub(crate) use artifact::{ArtifactArguments, artifact};
pub(crate) use budgets::{BudgetsArguments, budgets};
pub(crate) use call::{CallArguments, call};
pub(crate) use calls::{CallsArguments, ReconcileArguments, calls, reconcile};
pub(crate) use demo::{DemoArguments, demo};
pub(crate) use explain::{ExplainArguments, explain};
pub(crate) use ledger::{LedgerArguments, ledger};
pub(crate) use mcp::{McpArguments, mcp};
pub(crate) use operators::{OperatorsArguments, operators};
pub(crate) use policy::{PolicyArguments, policy};
pub(crate) use private::{EraseArguments, RevealArguments, erase, reveal};
pub(crate) use receipt::{ReceiptArguments, receipt};
pub(crate) use replay::{ReplayArguments, replay};
pub(crate) use tools::{ToolsArguments, tools};
pub(crate) use up::{UpArguments, up};

use crate::talk;

const CODE_DONE: i32 = 0;
const CODE_TOOL_FAILED: i32 = 1;
const CODE_BROKEN: i32 = 2;
const CODE_REFUSED: i32 = 3;
const CODE_WAITING: i32 = 4;

/// Why a command could not do its work, and what to do about it.
pub(crate) struct Trouble {
    code: i32,
    error: anyhow::Error,
    hint: Option<String>,
}

impl Trouble {
    fn refused(error: anyhow::Error) -> Trouble {
        Trouble { code: CODE_REFUSED, error, hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> Trouble {
        Trouble { hint: Some(hint.into()), ..self }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble { code: CODE_BROKEN, error: error.into(), hint: None }
    }
}

/// Runs one command of the gate to its exit code.
pub(crate) fn run<F>(json: bool, work: F) -> i32
where
    F: Future<Output = Result<i32, Trouble>>,
{
    crate::fall::live_on();
    crate::log::begin();
    // Two threads: one sees calls through, one keeps talking to people.
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let runtime = threads.worker_threads(2).thread_stack_size(server::THREAD_STACK).enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            // What still reads standard input must not keep us.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(code) => code,
        Err(Trouble { code, error, hint }) => {
            if json {
                let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
                let name = if code == CODE_REFUSED { "refused" } else { "failed" };
                talk::failure(name, &causes.join(": "), hint.as_deref());
            } else {
                talk::error(&error, hint.as_deref());
            }
            code
        }
    }
}
