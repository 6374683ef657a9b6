//! Hooks: code of the operator's own that is heard before a call runs and after it has.
//!
//! # Invariants
//! - A hook only makes stricter: before a call it asks or denies, after one it remarks or withholds. There is no word for
//!   "allow", and one that has nothing to say changes nothing.
//! - A hook that fails, panics or takes too long has said no; the ledger has it as the reason.
//! - What was denied already is not asked about: no hook hears of it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use contract::{Action, AgentName, CallId, Canonical, Output, Reason, TaskName, ToolName};
use policy::{Admitted, Question, Step, Verdict};
use serde_json::Value;
use thiserror::Error;
use tools::Ran;

use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::request::Request;

/// How long a hook may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How many remarks of one hook are kept, and how long each is at most, in characters.
const MOST_REMARKS: usize = 32;
const LONGEST_REMARK: usize = 500;

/// What a hook is asked to look at before a call.
#[derive(Clone, Debug)]
pub struct Proposed {
    /// Which call.
    pub call: CallId,
    /// Who asks.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool, by its true name.
    pub tool: ToolName,
    /// What it would do.
    pub action: Action,
    /// With which arguments.
    pub arguments: Canonical,
}

/// What a hook says before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// Nothing.
    None,
    /// People must be asked, and why.
    Ask(String),
    /// It may not run, and why.
    Deny(String),
}

/// What a hook says after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Nothing.
    None,
    /// What it has found; the receipt has it.
    Found(Vec<String>),
    /// The output must not be passed on, and why.
    Withhold(String),
}

/// Why a hook has no answer.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct HookError {
    /// For operators.
    pub why: String,
}

/// An answer on its way.
pub type Hearing<'a, T> = Pin<Box<dyn Future<Output = Result<T, HookError>> + Send + 'a>>;

/// Code that is heard before and after calls.
pub trait Hook: Send + Sync {
    /// By which it is named in reasons and receipts.
    fn name(&self) -> &str;

    /// Looks at a call that would run, or be asked about.
    fn before<'a>(&'a self, _call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async { Ok(Objection::None) })
    }

    /// Looks at what a call gave, before it is cleaned.
    fn after<'a>(&'a self, _call: &'a CallId, _output: &'a Output) -> Hearing<'a, Remark> {
        Box::pin(async { Ok(Remark::None) })
    }
}

impl Engine {
    /// Sets the hooks of this engine, once, before its first call. False if there are some already.
    pub fn set_hooks(&self, hooks: Vec<Arc<dyn Hook>>) -> bool {
        self.inner.hooks.set(hooks).is_ok()
    }

    fn hooks(&self) -> &[Arc<dyn Hook>] {
        self.inner.hooks.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// A verdict after the hooks had their say, and the trace with it.
    pub(crate) async fn hear_before(
        &self,
        request: &Request,
        admitted: &Admitted,
        mut verdict: Verdict,
        mut trace: Value,
    ) -> Result<(Verdict, Value), EngineError> {
        if self.hooks().is_empty() || matches!(verdict, Verdict::Deny(_)) {
            return Ok((verdict, trace));
        }
        let proposed = Proposed {
            call: admitted.call.clone(),
            agent: admitted.agent.clone(),
            task: admitted.task.clone(),
            tool: admitted.tool.name.clone(),
            action: admitted.facets.action.clone(),
            arguments: request.arguments.clone(),
        };
        for hook in self.hooks() {
            let (says, why) = match heard(hook.before(&proposed)).await {
                Ok(Objection::None) => ("-", format!("hook `{}` has nothing against it", hook.name())),
                Ok(Objection::Ask(why)) => ("ask", format!("hook `{}`: {}", hook.name(), short(&why))),
                Ok(Objection::Deny(why)) => ("deny", format!("hook `{}`: {}", hook.name(), short(&why))),
                // ATTACK(failing-hook): no answer is a no.
                Err(silence) => ("failed", format!("hook `{}` {silence}", hook.name())),
            };
            let told = if says == "failed" { "deny" } else { says };
            let step = Step { layer: "hook", says: told, why: why.clone() };
            if let Value::Array(steps) = &mut trace {
                steps.push(written("trace", &step)?);
            }
            verdict = match (says, verdict) {
                ("-", verdict) => verdict,
                ("ask", Verdict::Ask(question)) => Verdict::Ask(Question {
                    why: question.why.into_iter().chain([why]).collect(),
                    ..question
                }),
                ("ask", _) => Verdict::Ask(Question {
                    why: vec![why],
                    quorum: 1,
                    expires_at: self.now().saturating_add(self.settings().ask_for),
                }),
                ("deny", _) => return Ok((Verdict::Deny(Reason::denied_by_hook(why)), trace)),
                _ => return Ok((Verdict::Deny(Reason::hook_failed(why)), trace)),
            };
        }
        Ok((verdict, trace))
    }

    /// What a call gave, after the hooks had their say.
    pub(crate) async fn hear_after(&self, call: &CallId, mut ran: Ran) -> Ran {
        for hook in self.hooks() {
            let reason = match heard(hook.after(call, &ran.output)).await {
                Ok(Remark::None) => continue,
                Ok(Remark::Found(found)) => {
                    let kept = found.iter().take(MOST_REMARKS).map(|remark| short(remark)).collect();
                    ran.facts.remarks.insert(hook.name().to_owned(), kept);
                    continue;
                }
                Ok(Remark::Withhold(why)) => {
                    Reason::withheld(format!("hook `{}` withholds the output: {}", hook.name(), short(&why)))
                }
                Err(silence) => Reason::hook_failed(format!(
                    "hook `{}` {silence}, so the output is withheld",
                    hook.name()
                )),
            };
            // What the tool did stays done; what it said is passed on to nobody.
            return Ran {
                output: Output::default(),
                failure: Some(reason),
                facts: ran.facts,
                findings: ran.findings,
            };
        }
        ran
    }
}

/// Why nothing was heard of a hook, in words that leak nothing of what it says of itself.
#[derive(Clone, Copy, Debug, Error)]
enum Silence {
    #[error("failed")]
    Failed,
    #[error("took too long")]
    TooLong,
}

async fn heard<T: Send>(hearing: Hearing<'_, T>) -> Result<T, Silence> {
    let caught = CatchUnwind(AssertUnwindSafe(hearing));
    match tokio::time::timeout(LONGEST, caught).await {
        Ok(Some(Ok(said))) => Ok(said),
        Ok(Some(Err(_)) | None) => Err(Silence::Failed),
        Err(_) => Err(Silence::TooLong),
    }
}

/// A future whose panic is nothing, and not ours.
struct CatchUnwind<'a, T>(AssertUnwindSafe<Hearing<'a, T>>);

impl<T> Future for CatchUnwind<'_, T> {
    type Output = Option<Result<T, HookError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        let hearing = &mut self.0.0;
        match std::panic::catch_unwind(AssertUnwindSafe(|| hearing.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => std::task::Poll::Ready(None),
        }
    }
}

fn short(text: &str) -> String {
    contract::show_hidden(&text.chars().take(LONGEST_REMARK).collect::<String>())
}
