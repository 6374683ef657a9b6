//! A policy that only records: what it would have said of a call, beside what was decided.
//!
//! It is handed copies, and hands back words for the trace. No verdict, no grant and no error of it leaves this file, it is
//! asked nothing by people, and it counts against no limit.
//!
//! # Invariants
//! - What a call becomes is decided before a word of the shadow is read, and by nothing in here.
//! - A shadow that panics, or takes too long, is noted in the trace, and the call goes on.

use std::sync::Arc;
use std::time::Duration;

use contract::{CallId, Code, Digest, Reason};
use policy::{Answer, Facts, Ruling, Word, decide};
use serde::Serialize;
use serde_json::{Value, json};
use store::OperatorRow;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::batch::caught;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::in_force::Snapshot;
use crate::request::Request;

/// How long a call waits for its shadow.
const LONGEST: Duration = Duration::from_millis(100);

/// How many shadows are thought about at once, also those that nobody waits for any more.
static PLACES: Semaphore = Semaphore::const_new(4);

type Place = SemaphorePermit<'static>;

/// A step of the trace that tells where the shadow differs, or why nobody knows.
#[derive(Serialize)]
struct Told {
    layer: &'static str,
    says: &'static str,
    why: String,
    /// What was decided instead.
    from: &'static str,
    /// The shadow.
    policy: Digest,
    /// Which layer spoke: of the shadow, or where that allows, of the policy in force.
    by: &'static str,
    /// The line of the configuration that is behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
}

impl Engine {
    /// What the shadow makes of a call that the policy in force has decided. Nothing if it says the same.
    pub(crate) async fn shadow_of_ruled(
        &self,
        request: &Request,
        ruling: &Ruling,
        operators: &[OperatorRow],
    ) -> Option<Value> {
        self.snapshot().shadow.as_ref()?;
        self.shadow_beside(request, Answer::of(ruling), operators).await
    }

    /// The trace of a call that was not admitted, with what the shadow makes of it.
    pub(crate) async fn shadow_of_refused(
        &self,
        request: &Request,
        reason: &Reason,
    ) -> Result<Value, EngineError> {
        if self.snapshot().shadow.is_none() || reason.code == Code::PolicyUnreadable {
            return Ok(json!([]));
        }
        let operators = self.inner.store.operators().await?;
        Ok(with_shadow(
            json!([]),
            self.shadow_beside(request, Answer::not_admitted(reason), &operators).await,
        ))
    }

    async fn shadow_beside(
        &self,
        request: &Request,
        decided: Answer,
        operators: &[OperatorRow],
    ) -> Option<Value> {
        let policy = Arc::clone(self.snapshot().shadow.as_ref()?);
        let hash = policy.hash();
        let engine = self.seeing(Arc::new(Snapshot::beside(policy)));
        let (facts, request) = (engine.facts(request, None, operators), request.clone());
        let unknown = |why: &str| Told {
            layer: "shadow",
            says: "-",
            why: format!("it is not known what it would have said: {why}"),
            from: decided.says.word.as_str(),
            policy: hash,
            by: "-",
            place: None,
            code: None,
        };
        // ATTACK(shadow-that-is-slow): it gets no more of the gate than these places, and the call waits no longer.
        let told = match PLACES.try_acquire() {
            Err(_) => unknown("too many are thought about already"),
            Ok(place) => {
                let thinking = engine.think(request, facts, Arc::new(place));
                match tokio::time::timeout(LONGEST, thinking).await {
                    Ok(Some(answer)) if answer.says.word == decided.says.word => return None,
                    Ok(Some(answer)) => differs(&answer, &decided, hash),
                    Ok(None) => unknown("its evaluation failed"),
                    Err(_) => unknown("it took too long"),
                }
            }
        };
        serde_json::to_value(told).ok()
    }

    /// What the policy that this handle sees says of a request; nothing if that failed. Touches nothing.
    async fn think(&self, request: Request, mut facts: Facts, place: Arc<Place>) -> Option<Answer> {
        let (engine, kept) = (self.clone(), Arc::clone(&place));
        let admitted = aside(kept, move || engine.admit(CallId::from_random([0; 16]), &request)).await?;
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(reason) => return Some(Answer::not_admitted(&reason)),
        };
        self.tell_spent(&admitted, &mut facts).await.ok()?;
        let policy = self.policy();
        aside(place, move || Answer::of(&decide(&admitted, &facts, &policy))).await
    }
}

/// Does something on a thread that may be blocked, and keeps the place until it has ended, whoever waits for it. Nothing if it
/// panicked.
async fn aside<T: Send + 'static>(place: Arc<Place>, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let working = tokio::task::spawn_blocking(move || {
        let _place = place;
        caught(work)
    });
    working.await.ok()?.ok()
}

/// Who spoke is whoever is against the call; where the shadow allows, that is the policy in force.
fn differs(shadow: &Answer, decided: &Answer, policy: Digest) -> Told {
    let spoke = if shadow.says.word == Word::Allow { decided } else { shadow };
    Told {
        layer: "shadow",
        says: shadow.says.word.as_str(),
        why: spoke.why.clone(),
        from: decided.says.word.as_str(),
        policy,
        by: spoke.layer,
        place: spoke.place.clone(),
        code: spoke.code,
    }
}

/// A trace with what the shadow has to say in the end.
pub(crate) fn with_shadow(mut trace: Value, shadow: Option<Value>) -> Value {
    if let (Value::Array(steps), Some(shadow)) = (&mut trace, shadow) {
        steps.push(shadow);
    }
    trace
}
