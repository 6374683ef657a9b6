//! How often tools are called, and how much a call may use.

use std::collections::BTreeMap;

use contract::{MAX_JSON_BYTES, Rate};
use policy::{GrantLimits, LONGEST_WINDOW_MS, RateSettings, Resources, Settings, ToolRate, ToolResources};

use super::Reader;
use super::limits::MOST_CALL_MILLISECONDS;
use crate::amount;
use crate::config::at::{At, Given, Place};
use crate::config::file::{File, PolicyFile, RateLimit, ResourceLimit};
use crate::config::problem::shown;

/// Less memory and fewer processes than these do not even start our own worker.
const LEAST_MEMORY: u64 = 16 << 20;
const LEAST_PROCESSES: u32 = 4;
/// Less of a processor than this is none.
const LEAST_CPU_MILLIS: u32 = 10;
const LEAST_DISK: u64 = 64 << 10;

impl Reader {
    pub(super) fn rates(&mut self, tree: &File) -> RateSettings {
        let built_in = RateSettings::default();
        let Some(policy) = tree.policy.get() else { return built_in };
        let mut limits: Vec<ToolRate> = Vec::new();
        for (name, limit) in policy.rate_limits.get().into_iter().flatten() {
            let place = format!("{}:{}", self.file, name.place.line);
            let named = format!("for `{}`", shown(&name.value));
            let (tools, rate) = (self.pattern(name), self.rate(name.place, &named, limit));
            limits.extend(tools.zip(rate).map(|(tools, rate)| ToolRate { tools, rate, place }));
        }
        RateSettings {
            tools: limits,
            each_agent: self.overall("agent_rate_limit", &policy.agent_rate_limit, built_in.each_agent),
            refused: self.overall("refused_rate_limit", &policy.refused_rate_limit, built_in.refused),
        }
    }

    fn overall(&mut self, key: &str, given: &Given<RateLimit>, built_in: Rate) -> Rate {
        let rate = given.at().and_then(|at| self.rate(at.place, &format!("in `{key}`"), &at.value));
        rate.unwrap_or(built_in)
    }

    fn rate(&mut self, place: Place, named: &str, limit: &RateLimit) -> Option<Rate> {
        let keys =
            [("max_calls", &limit.max_calls, u64::MAX), ("window_ms", &limit.window_ms, LONGEST_WINDOW_MS)];
        let [max_calls, window_ms] = keys.map(|(key, given, most)| {
            if given.at().is_none() {
                self.refuse(place, format!("`{key}` is missing {named}"));
            }
            self.amount(key, given, most)
        });
        Some(Rate { max_calls: max_calls?, window_ms: window_ms? })
    }

    pub(super) fn resources(&mut self, tree: &File) -> Vec<ToolResources> {
        let limits = tree.policy.get().and_then(|policy| policy.resource_limits.get());
        let limits: Option<&BTreeMap<At<String>, ResourceLimit>> = limits;
        let mut read = Vec::new();
        for (name, limit) in limits.into_iter().flatten() {
            let (tools, most) = (self.pattern(name), self.most(limit));
            read.extend(tools.map(|tools| ToolResources { tools, most }));
        }
        read
    }

    fn most(&mut self, limit: &ResourceLimit) -> Resources {
        let contract = GrantLimits::default();
        let cpu = self.parsed(&limit.cpu, amount::thousandths);
        Resources {
            duration_ms: self.amount("duration_ms", &limit.duration_ms, MOST_CALL_MILLISECONDS),
            memory: self.size("memory", &limit.memory, LEAST_MEMORY, contract.memory),
            cpu_millis: self.lowering("cpu", cpu, LEAST_CPU_MILLIS, contract.cpu_millis),
            processes: self.lowering(
                "processes",
                limit.processes.at().copied(),
                LEAST_PROCESSES,
                contract.pids,
            ),
            disk: self.size("disk", &limit.disk, LEAST_DISK, contract.disk),
            output: self.size("output", &limit.output, 0, contract.output),
        }
    }

    fn size(&mut self, key: &str, given: &Given<String>, least: u64, contract: u64) -> Option<u64> {
        let bytes = self.parsed(given, amount::bytes);
        self.lowering(key, bytes, least, contract)
    }

    /// A limit that something can run under, and that is one.
    fn lowering<T: Ord + Copy + std::fmt::Display>(
        &mut self,
        key: &str,
        given: Option<At<T>>,
        least: T,
        contract: T,
    ) -> Option<T> {
        let At { value, place } = given?;
        if value < least {
            self.refuse(place, format!("`{key}` is `{value}`; nothing runs with less than {least}"));
            return None;
        }
        if value > contract {
            let message = format!(
                "`{key}` has no effect: limits are only lowered, and no call has more than {contract}"
            );
            self.warn(place, message);
        }
        Some(value)
    }

    pub(super) fn parsed<T>(
        &mut self,
        given: &Given<String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<At<T>> {
        let at = given.at()?;
        match read(&at.value) {
            Ok(value) => Some(At { value, place: at.place }),
            Err(why) => {
                self.refuse(at.place, why);
                None
            }
        }
    }

    pub(super) fn max_arguments(&mut self, tree: &File) -> u64 {
        let built_in = Settings::default().max_arguments;
        let given = tree.policy.get().map(|policy: &PolicyFile| &policy.max_arguments);
        let Some(At { value, place }) = given.and_then(|given| self.parsed(given, amount::bytes)) else {
            return built_in;
        };
        let most = MAX_JSON_BYTES as u64;
        if !(1024..=most).contains(&value) {
            self.refuse(place, format!("`max_arguments` is `{value}`, not from 1024 to {most}"));
            return built_in;
        }
        value
    }
}
