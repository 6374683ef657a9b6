//! For whom workers are kept, and for how long.
//!
//! Knows no worker: it says whose one would be, and when waiting for that owner ends.

use std::time::Duration;

use crate::surroundings::Owner;

/// How long workers for files live, and whom one serves.
///
/// Commands are no concern of this: each call of those has a sandbox of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// Whom one worker serves.
    pub strategy: KeptFor,
    /// How long a worker that was kept for a task waits for the task's next call. No task says that it is over; one
    /// that has called nothing for so long is taken to be.
    pub grace: Duration,
    /// How long a worker that was kept for an agent waits for the agent's next call.
    pub idle: Duration,
    /// How long a worker that waits is believed to be well. Then it is asked, and ended if it does not answer.
    pub health: Duration,
    /// How many workers there are before those that wait longest are ended. Those at work are never ended for it.
    pub most: usize,
}

/// Whom one worker serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptFor {
    /// One call. Nothing is kept.
    Call,
    /// Calls of one agent for one task. A call that names no task is served as with [`KeptFor::Call`].
    Task,
    /// Calls of one agent, whatever they are for.
    Agent,
    /// Calls of one agent for one task, or those of one agent that name none.
    #[default]
    TaskOrAgent,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        Lifecycle {
            strategy: KeptFor::default(),
            grace: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            health: Duration::from_secs(10),
            most: 64,
        }
    }
}

impl Lifecycle {
    /// How long a worker lives, however busy. Whatever it was started with is looked at again then.
    pub const LIFE: Duration = Duration::from_secs(600);

    /// Whose a worker for a call of this owner is; nobody's if it serves that call alone.
    pub(crate) fn owner_of(&self, caller: &Owner) -> Option<Owner> {
        match (self.strategy, &caller.task) {
            (KeptFor::Call, _) | (KeptFor::Task, None) => None,
            (KeptFor::Task, Some(_)) | (KeptFor::TaskOrAgent, _) => Some(caller.clone()),
            (KeptFor::Agent, _) => Some(Owner { agent: caller.agent.clone(), task: None }),
        }
    }

    /// How long a worker waits for the next call of whoever it is kept for.
    pub(crate) fn patience(&self, owner: &Owner) -> Duration {
        if owner.task.is_some() { self.grace } else { self.idle }
    }
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, TaskName};

    use super::*;

    #[test]
    fn a_worker_is_kept_for_whom_the_strategy_says_or_for_the_call_alone() {
        let agent = AgentName::parse("a").unwrap();
        let with = Owner { agent: agent.clone(), task: Some(TaskName::parse("t").unwrap()) };
        let without = Owner { agent, task: None };
        let of = |strategy| {
            let lifecycle = Lifecycle { strategy, ..Lifecycle::default() };
            (lifecycle.owner_of(&with), lifecycle.owner_of(&without))
        };
        assert_eq!(of(KeptFor::Call), (None, None));
        assert_eq!(of(KeptFor::Task), (Some(with.clone()), None));
        assert_eq!(of(KeptFor::Agent), (Some(without.clone()), Some(without.clone())));
        assert_eq!(of(KeptFor::TaskOrAgent), (Some(with.clone()), Some(without.clone())));
        let lifecycle = Lifecycle::default();
        assert_eq!(
            (lifecycle.patience(&with), lifecycle.patience(&without)),
            (lifecycle.grace, lifecycle.idle)
        );
    }
}
