//! What a case against the gate is: control, attack, trace.

use egress::Guard;

use crate::Try;
use crate::bench::{Bench, Need};
use crate::case::Effect;
use crate::gate::stand::Stand;

/// One attack on the gate, and what is promised about it.
pub(crate) struct Case {
    /// A short name. Where the code has a tag `ATTACK(name)`, the same name.
    pub(crate) id: &'static str,
    /// What is promised, as a sentence.
    pub(crate) promise: &'static str,
    /// The same where nothing stands in its way: it has to work.
    pub(crate) control: Attempt,
    /// The attack, through the gate.
    pub(crate) attack: Attempt,
    /// What the ledger must hold of it afterwards.
    pub(crate) trace: Trace,
    /// Whether it takes the binary that is shipped.
    pub(crate) ships: bool,
    /// What it cannot do without.
    pub(crate) need: Option<Need>,
    /// The guard that can be switched off from outside, and the attack without it.
    pub(crate) without: Option<(&'static str, Attempt)>,
    /// The guard of the network that can be switched off.
    pub(crate) guard: Option<Guard>,
    /// The guards of the door that can be switched off.
    pub(crate) door: &'static [server::Guard],
}

/// Makes an attack at a place of its own, and says what was seen at the target.
pub(crate) type Attempt = fn(&Stand<'_>) -> Try<Effect>;

/// What the ledger must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// Every call of the attack, settled as the case says, with a receipt that verifies.
    Calls,
    /// No call: it was refused before it could be one.
    NoCall,
}

impl Case {
    /// A case whose calls the ledger holds.
    pub(crate) fn new(id: &'static str, promise: &'static str, control: Attempt, attack: Attempt) -> Case {
        let (trace, ships) = (Trace::Calls, false);
        Case { id, promise, control, attack, trace, ships, need: None, without: None, guard: None, door: &[] }
    }

    /// The same, with a guard that can be switched off.
    pub(crate) fn without(self, guard: &'static str, attack: Attempt) -> Case {
        Case { without: Some((guard, attack)), ..self }
    }

    /// The same, held by a guard of the network.
    pub(crate) fn held_by(self, guard: Guard) -> Case {
        Case { guard: Some(guard), ..self }
    }

    /// The same, held by guards of the door, each of which is missed.
    pub(crate) fn held_at_the_door(self, guards: &'static [server::Guard]) -> Case {
        Case { door: guards, ..self }
    }

    /// The same for an attack that never becomes a call.
    pub(crate) fn before_any_call(self) -> Case {
        Case { trace: Trace::NoCall, ..self }
    }

    /// The same for an attack on the binary that is shipped.
    pub(crate) fn on_what_is_shipped(self) -> Case {
        Case { ships: true, ..self }
    }

    /// The same where something is needed that not every host or caller has.
    pub(crate) fn needs(self, need: Need) -> Case {
        Case { need: Some(need), ..self }
    }

    /// The name of its test.
    pub(crate) fn name(&self, group: &str) -> String {
        format!("{group}::{}::{}", self.id, self.promise.replace([' ', ','], "_").replace("__", "_"))
    }

    /// The three parts, in order.
    pub(crate) fn prove(&self, bench: &Bench) -> Try<()> {
        let stand = Stand::new(bench)?;
        match (self.control)(&stand).map_err(|error| format!("control: {error}"))? {
            Effect::Through(_) => {}
            Effect::Held(why) => {
                return Err(format!("control: the attack does not work even without its guard: {why}").into());
            }
        }
        let stand = Stand::new(bench)?;
        let effect =
            (self.attack)(&stand).map_err(|error| format!("the attack could not be made: {error}"))?;
        if let Effect::Through(what) = stand.judged(effect)? {
            return Err(format!("attack: got through: {what}").into());
        }
        stand.check_trace(self.trace).map_err(|error| format!("trace: {error}").into())
    }

    /// Without its guard the attack gets through.
    pub(crate) fn prove_switch(
        attack: Attempt,
        bench: &Bench,
        guard: Option<Guard>,
        door: Option<server::Guard>,
    ) -> Try<()> {
        let mut stand = Stand::without(bench, guard)?;
        stand.door_without = door;
        match attack(&stand)? {
            Effect::Through(_) => Ok(()),
            Effect::Held(why) => Err(format!("nothing gets through without it: {why}").into()),
        }
    }
}
