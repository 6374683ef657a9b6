//! Hooks: code of the operator's own that is heard before a call runs and after it has.
//!
//! Knows nothing of programs: those that a configuration names are hooks like others ([`crate::command_hook`]).
//!
//! # Invariants
//! - A hook only makes stricter: before a call it asks or denies, after one it remarks or withholds. There is no word for
//!   "allow", and one that has nothing to say changes nothing.
//! - A hook that fails, panics or takes too long has said no; the ledger has it as the reason.
//! - What was denied already is not asked about: no hook hears of it. When others hear of theirs, [`crate::turns`] says.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clean::{MAX_CONTENT, clean_text};
use contract::{Action, AgentName, CallId, Canonical, Output, Reason, TaskName, ToolName};
use policy::{Admitted, HookTime, Question, Setting, Step, Verdict};
use serde_json::Value;
use thiserror::Error;
use tools::Ran;

use crate::batch::caught;
use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::request::Request;
use crate::settle::Case;
use crate::turns::no_place;

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

/// Which call a hook is asked about after it has run.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Which call.
    pub call: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool, by its true name.
    pub tool: ToolName,
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

    /// Whether it is heard about calls of this tool, before or after them.
    fn hears(&self, _time: HookTime, _tool: &ToolName) -> bool {
        true
    }

    /// Looks at a call that would run, or be asked about.
    fn before<'a>(&'a self, _call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async { Ok(Objection::None) })
    }

    /// Looks at what a call gave, before it is cleaned.
    fn after<'a>(&'a self, _call: &'a Finished, _output: &'a Output) -> Hearing<'a, Remark> {
        Box::pin(async { Ok(Remark::None) })
    }
}

impl Engine {
    /// Sets the hooks of this engine, besides those that its settings name, once, before its first call. False if there
    /// are some already.
    pub fn set_hooks(&self, hooks: Vec<Arc<dyn Hook>>) -> bool {
        self.inner.hooks.set(hooks).is_ok()
    }

    fn hooks(&self) -> Vec<Arc<dyn Hook>> {
        self.snapshot().hooks.iter().chain(self.inner.hooks.get().into_iter().flatten()).cloned().collect()
    }

    /// Whether any hook is heard about calls of this tool.
    pub(crate) fn is_heard(&self, time: HookTime, tool: &ToolName) -> bool {
        self.hooks().iter().any(|hook| hears(hook.as_ref(), time, tool))
    }

    /// A verdict after the hooks had their say, and the trace with it. Whose turn it is was seen to before.
    pub(crate) async fn hear_before(
        &self,
        request: &Request,
        admitted: &Admitted,
        mut verdict: Verdict,
        mut trace: Value,
    ) -> Result<(Verdict, Value), EngineError> {
        let hooks = self.hooks();
        if hooks.is_empty() || matches!(verdict, Verdict::Deny(_)) {
            return Ok((verdict, trace));
        }
        let settings = self.settings();
        let proposed = Proposed {
            call: admitted.call.clone(),
            agent: admitted.agent.clone(),
            task: admitted.task.clone(),
            tool: admitted.tool.name.clone(),
            action: admitted.facets.action.clone(),
            arguments: request.arguments.clone(),
        };
        for hook in hooks.iter().filter(|hook| hears(hook.as_ref(), HookTime::Before, &proposed.tool)) {
            let name = hook.name();
            let place = settings.origins.of(&Setting::Hook(name.to_owned()));
            let reason = match heard(name, || hook.before(&proposed)).await {
                Ok(Objection::None) => {
                    tell(&mut trace, place, "-", format!("hook `{name}` has nothing against it"))?;
                    continue;
                }
                Ok(Objection::Ask(why)) => {
                    let why = format!("hook `{name}`: {}", short(&why));
                    tell(&mut trace, place, "ask", why.clone())?;
                    verdict = self.asked_too(verdict, why);
                    continue;
                }
                Ok(Objection::Deny(why)) => Reason::denied_by_hook(format!("hook `{name}`: {}", short(&why))),
                // ATTACK(failing-hook): no answer is a no.
                Err(silence) => Reason::hook_failed(format!("hook `{name}` {silence}")),
            };
            tell(&mut trace, place, "deny", reason.message.clone())?;
            return Ok((Verdict::Deny(reason), trace));
        }
        Ok((verdict, trace))
    }

    /// The same verdict where people are asked, for this reason too.
    fn asked_too(&self, verdict: Verdict, why: String) -> Verdict {
        match verdict {
            Verdict::Ask(question) => {
                Verdict::Ask(Question { why: question.why.into_iter().chain([why]).collect(), ..question })
            }
            Verdict::Allow(_) => Verdict::Ask(Question {
                why: vec![why],
                quorum: 1,
                expires_at: self.now().saturating_add(self.settings().ask_for),
            }),
            denied @ Verdict::Deny(_) => denied,
        }
    }

    /// What a call gave, after the hooks had their say.
    pub(crate) async fn hear_after(&self, case: &Case, mut ran: Ran) -> Ran {
        let finished = Finished {
            call: case.id.clone(),
            agent: case.agent.clone(),
            task: case.task.clone(),
            tool: case.tool.clone(),
        };
        if !self.is_heard(HookTime::After, &case.tool) {
            return ran;
        }
        let withheld = |ran: Ran, reason: Reason| {
            // What the tool did stays done; what it said is passed on to nobody.
            Ran { output: Output::default(), failure: Some(reason), facts: ran.facts, findings: ran.findings }
        };
        let Some(_place) = self.wait_for_place(&case.agent).await else {
            return withheld(ran, no_place());
        };
        for hook in self.hooks().iter().filter(|hook| hears(hook.as_ref(), HookTime::After, &case.tool)) {
            let name = hook.name();
            let reason = match heard(name, || hook.after(&finished, &ran.output)).await {
                Ok(Remark::None) => continue,
                Ok(Remark::Found(found)) => {
                    let kept = found.iter().take(MOST_REMARKS).map(|remark| short(remark)).collect();
                    ran.facts.remarks.insert(name.to_owned(), kept);
                    continue;
                }
                Ok(Remark::Withhold(why)) => {
                    Reason::withheld(format!("hook `{name}` withholds the output: {}", short(&why)))
                }
                Err(silence) => {
                    Reason::hook_failed(format!("hook `{name}` {silence}, so the output is withheld"))
                }
            };
            return withheld(ran, reason);
        }
        ran
    }
}

/// One more step of a trace.
pub(crate) fn tell(
    trace: &mut Value,
    place: Option<&str>,
    says: &'static str,
    why: String,
) -> Result<(), EngineError> {
    if let Value::Array(steps) = trace {
        let place = place.map(str::to_owned);
        steps.push(written("trace", &Step { place, ..Step::of("hook", says, why) })?);
    }
    Ok(())
}

/// Whether a hook is heard. One whose own code fails over that is.
fn hears(hook: &dyn Hook, time: HookTime, tool: &ToolName) -> bool {
    caught(|| hook.hears(time, tool)).unwrap_or(true)
}

/// Why nothing was heard of a hook, in words that leak nothing of what it says of itself.
#[derive(Clone, Copy, Debug, Error)]
enum Silence {
    #[error("failed")]
    Failed,
    #[error("took too long")]
    TooLong,
}

/// What a hook says, whatever its own code does. Operators are told why there is nothing.
async fn heard<'a, T>(name: &str, begin: impl FnOnce() -> Hearing<'a, T>) -> Result<T, Silence> {
    let heard = match caught(begin) {
        Ok(hearing) => tokio::time::timeout(LONGEST, Caught(hearing)).await,
        Err(_) => Ok(None),
    };
    let (why, silence) = match heard {
        Ok(Some(Ok(said))) => return Ok(said),
        Ok(Some(Err(error))) => (error.why, Silence::Failed),
        Ok(None) => ("its own code failed".to_owned(), Silence::Failed),
        Err(_) => ("it took too long".to_owned(), Silence::TooLong),
    };
    tracing::warn!(hook = name, ?why, "a hook failed");
    Err(silence)
}

/// An answer on its way, whose panic is no answer.
struct Caught<'a, T>(Hearing<'a, T>);

impl<T> Future for Caught<'_, T> {
    type Output = Option<Result<T, HookError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        match caught(|| self.0.as_mut().poll(context)) {
            Ok(polled) => polled.map(Some),
            Err(_) => std::task::Poll::Ready(None),
        }
    }
}

/// What a hook says may be what a tool said: it is cleaned as that is, and then cut.
fn short(text: &str) -> String {
    let clean = clean_text(text, MAX_CONTENT).text;
    contract::show_hidden(&clean.chars().take(LONGEST_REMARK).collect::<String>())
}
