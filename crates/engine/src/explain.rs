//! What would be decided of a call, and why, without running anything.

use policy::{HookTime, Question, Step, Verdict, layer_of};
use serde::Serialize;

use contract::{CallId, Code, Reason};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::request::Request;

/// A decision that nobody acts on.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// `allow`, `ask` or `deny`.
    pub verdict: &'static str,
    /// Which tool, by its true name.
    pub tool: String,
    /// Why not, if denied.
    pub reason: Option<Reason>,
    /// What people would be asked.
    pub question: Option<Question>,
    /// What a grant would permit.
    pub authority: Option<policy::Authority>,
    /// Each layer that had a say, in order.
    pub trace: Vec<Step>,
    /// The policy that decided.
    pub policy: contract::Digest,
}

impl Engine {
    /// The decision for a request, with its trace. Runs nothing and records nothing.
    pub async fn explain(&self, request: &Request) -> Result<Explanation, EngineError> {
        let engine = self.anew();
        let policy = engine.policy().hash();
        let nothing = Explanation {
            verdict: "deny",
            tool: request.tool.clone(),
            reason: None,
            question: None,
            authority: None,
            trace: Vec::new(),
            policy,
        };
        let admitted = match engine.admit(CallId::from_random([0; 16]), request) {
            Ok(admitted) => admitted,
            Err(reason) => {
                let layer = match reason.code {
                    Code::NotInRole | Code::Locked => layer_of(&reason),
                    _ => "admit",
                };
                let step = Step { layer, says: "deny", why: reason.message.clone() };
                return Ok(Explanation { reason: Some(reason), trace: vec![step], ..nothing });
            }
        };
        let operators = self.inner.store.operators().await?;
        let ruling = engine.rule(request, &admitted, &operators).await?.ruling;
        let mut explanation =
            Explanation { verdict: ruling.verdict.as_str(), trace: ruling.trace, ..nothing };
        if !matches!(ruling.verdict, Verdict::Deny(_)) {
            let settings = engine.settings();
            let hooks =
                settings.hooks.iter().filter(|hook| hook.hears(HookTime::Before, &admitted.tool.name));
            explanation.trace.extend(hooks.map(|hook| {
                let why = format!("hook `{}` would be heard, and can ask or deny", hook.name);
                Step { layer: "hook", says: "-", why }
            }));
        }
        match ruling.verdict {
            Verdict::Allow(grant) => explanation.authority = Some(grant.authority().clone()),
            Verdict::Ask(question) => explanation.question = Some(question),
            Verdict::Deny(reason) => explanation.reason = Some(reason),
        }
        Ok(explanation)
    }
}
