//! Whom workers are kept for, and how long.

use std::time::Duration;

use tools::{KeptFor, Lifecycle};

use super::Reader;
use crate::config::at::Given;
use crate::config::file::{File, NativeLifecycle};
use crate::config::word::LifecycleWord;

/// More leases than one gate can hold on a large machine.
const MOST: u64 = 10_000;

impl Reader {
    pub(super) fn lifecycle(&mut self, tree: &File) -> Lifecycle {
        let mut read = Lifecycle::default();
        let native = tree.sandboxing.get().and_then(|sandboxing| sandboxing.native.get());
        let Some(given) = native.and_then(|native| native.lifecycle.get()) else { return read };
        if let Some(word) = given.strategy.get() {
            read.strategy = word.0;
        }
        self.refuse_what_has_no_effect(read.strategy, given);
        let longest = Lifecycle::LIFE.as_secs();
        let times = [
            ("grace_seconds", &given.grace_seconds, &mut read.grace),
            ("idle_seconds", &given.idle_seconds, &mut read.idle),
            ("health_seconds", &given.health_seconds, &mut read.health),
        ];
        for (name, given, time) in times {
            if let Some(seconds) = self.amount(name, given, longest) {
                *time = Duration::from_secs(seconds);
            }
        }
        if let Some(most) = self.amount("most", &given.most, MOST) {
            read.most = usize::try_from(most).unwrap_or(read.most);
        }
        read
    }

    /// A key that says something about workers that there will never be was meant for something else.
    fn refuse_what_has_no_effect(&mut self, strategy: KeptFor, given: &NativeLifecycle) {
        let NativeLifecycle { strategy: _, grace_seconds, idle_seconds, health_seconds, most } = given;
        let word = LifecycleWord(strategy).as_str();
        let (idle_keys, why): (&[(&str, &Given<u64>)], &str) = match strategy {
            KeptFor::TaskOrAgent => return,
            KeptFor::Call => (
                &[
                    ("grace_seconds", grace_seconds),
                    ("idle_seconds", idle_seconds),
                    ("health_seconds", health_seconds),
                    ("most", most),
                ],
                "it keeps nothing; leave it out, or write `strategy: per-task`",
            ),
            KeptFor::Task => (&[("idle_seconds", idle_seconds)], "write `grace_seconds`"),
            KeptFor::Agent => (&[("grace_seconds", grace_seconds)], "write `idle_seconds`"),
        };
        for (name, key) in idle_keys {
            if let Some(at) = key.at() {
                self.refuse(at.place, format!("`{name}` has no effect with `strategy: {word}`: {why}"));
            }
        }
    }
}
