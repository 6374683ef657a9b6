//! What would be decided of a call, and why, without running anything.

use policy::{Admitted, HookTime, Nearest, Question, Setting, Sight, Step, Verdict, layer_before};
use serde::Serialize;

use contract::{CallId, Reason};
use store::OperatorRow;

use crate::call::understand;
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
    /// What would have to be different for it to run, where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
    /// The policy that decided.
    pub policy: contract::Digest,
}

/// Whom a decision is explained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Those who may change the configuration: they hear which change is nearest, which takes a while to find out.
    People,
    /// The one that wants the call.
    Agent,
}

impl Engine {
    /// The decision for a request, with its trace. Runs nothing and records nothing.
    pub async fn explain(&self, request: &Request, to: Audience) -> Result<Explanation, EngineError> {
        let engine = self.anew();
        let policy = engine.policy().hash();
        let meant = engine.meant(request);
        let request = meant.as_ref().unwrap_or(request);
        let nothing = Explanation {
            verdict: "deny",
            tool: request.tool.clone(),
            reason: None,
            question: None,
            authority: None,
            trace: Vec::new(),
            nearest: None,
            policy,
        };
        let admitted = meant.as_ref().map_err(Clone::clone);
        let admitted = admitted.and_then(|meant| engine.admit(CallId::from_random([0; 16]), meant));
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(reason) => {
                let place = engine.origin_of_hiding(request);
                let step = Step { place, ..Step::of(layer_before(&reason), "deny", reason.message.clone()) };
                let nearest = match to {
                    Audience::People => engine.nearest_to_seeing(request).await?,
                    Audience::Agent => None,
                };
                return Ok(Explanation { reason: Some(reason), trace: vec![step], nearest, ..nothing });
            }
        };
        let operators = self.inner.store.operators().await?;
        let ruling = engine.rule(request, &admitted, &operators).await?.ruling;
        let nearest = match ruling.verdict {
            Verdict::Ask(_) | Verdict::Deny(_) if to == Audience::People => {
                engine.nearest(request, &admitted, &operators).await?
            }
            _ => None,
        };
        let mut explanation =
            Explanation { verdict: ruling.verdict.as_str(), trace: ruling.trace, nearest, ..nothing };
        if !matches!(ruling.verdict, Verdict::Deny(_)) {
            let settings = engine.settings();
            let hooks =
                settings.hooks.iter().filter(|hook| hook.hears(HookTime::Before, &admitted.tool.name));
            explanation.trace.extend(hooks.map(|hook| {
                let why = format!("hook `{}` would be heard, and can ask or deny", hook.name);
                let place = settings.origins.of(&Setting::Hook(hook.name.clone())).map(str::to_owned);
                Step { place, ..Step::of("hook", "-", why) }
            }));
        }
        // What runs at once has to be within its limits at once; what is asked about counts when it begins.
        if matches!(ruling.verdict, Verdict::Allow(_)) {
            let tool = &admitted.tool.name;
            let (limits, store) = (engine.limits_on_running(tool), &self.inner.store);
            let used_up = store.used_up(&request.agent, tool, None, &limits.allowances, self.now()).await?;
            if let Some(used_up) = used_up {
                explanation.trace.push(limits.step(used_up));
                let reason = Some(limits.reason(used_up));
                return Ok(Explanation { verdict: "deny", reason, ..explanation });
            }
        }
        match ruling.verdict {
            Verdict::Allow(grant) => explanation.authority = Some(grant.authority().clone()),
            Verdict::Ask(question) => explanation.question = Some(question),
            Verdict::Deny(reason) => explanation.reason = Some(reason),
        }
        Ok(explanation)
    }

    /// The line that keeps a tool from an agent, if one does.
    fn origin_of_hiding(&self, request: &Request) -> Option<String> {
        let (settings, catalogue) = (self.settings(), self.catalogue());
        let listed = catalogue.find(&request.tool)?;
        let sight = Sight::of(settings.agents.get(&request.agent)?, &settings);
        let place = sight.origin(&request.agent, &listed.facts).filter(|_| !sight.sees(&listed.facts));
        place.map(str::to_owned)
    }

    /// What would have to be different for an agent to call a tool that is kept from it.
    async fn nearest_to_seeing(&self, request: &Request) -> Result<Option<Nearest>, EngineError> {
        let catalogue = self.catalogue();
        let Some(listed) = catalogue.find(&request.tool) else { return Ok(None) };
        let settings = self.settings();
        // Others are refused for what no setting changes.
        if settings
            .agents
            .get(&request.agent)
            .is_none_or(|agent| Sight::of(agent, &settings).sees(&listed.facts))
        {
            return Ok(None);
        }
        let nobody = CallId::from_random([0; 16]);
        let Ok(call) = understand(listed, &settings, nobody, request, self.now()) else {
            return Ok(None);
        };
        self.nearest(request, &call, &self.inner.store.operators().await?).await
    }

    async fn nearest(
        &self,
        request: &Request,
        call: &Admitted,
        operators: &[OperatorRow],
    ) -> Result<Option<Nearest>, EngineError> {
        let mut facts = self.facts(request, None, operators);
        self.tell_spent(call, &mut facts).await?;
        Ok(policy::nearest(call, &facts, &self.policy()))
    }
}
