//! How often an agent may call: which limits a call counts against, and what is said when one is used up.
//!
//! Who counts, and what time it is, is not known here.
//!
//! # Invariants
//! - A limit is for one agent: what others do never uses it up.
//! - A limit on several tools is for all of them together: another tool of the group is no way around it.
//! - Every call counts against the limit on the agent as a whole, whatever else is configured.

use contract::{Rate, Reason, ToolName};
use serde::Serialize;

use crate::settings::ToolGlob;

/// A month: no window is longer.
pub const LONGEST_WINDOW_MS: u64 = 31 * 24 * 60 * 60 * 1000;

/// How often agents may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RateSettings {
    /// Each for the tools that it names, together.
    pub tools: Vec<ToolRate>,
    /// For all calls of an agent that run, together.
    pub each_agent: Rate,
    /// For all calls of an agent that are refused, together: those over it are answered, and only counted.
    pub refused: Rate,
}

impl Default for RateSettings {
    fn default() -> RateSettings {
        RateSettings {
            tools: Vec::new(),
            // A hundred each second for a minute is a loop, not work.
            each_agent: Rate { max_calls: 6000, window_ms: 60_000 },
            refused: Rate { max_calls: 1000, window_ms: 60_000 },
        }
    }
}

/// How often one agent may call some tools, together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolRate {
    /// Which tools.
    pub tools: ToolGlob,
    /// How often.
    pub rate: Rate,
    /// Where it stands: file and line.
    pub place: String,
}

/// A limit that a call counts against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How often.
    pub rate: Rate,
    /// Calls of which tools are counted; nothing means of all.
    pub tools: Option<Vec<ToolName>>,
    /// Where it stands, if that is known here.
    pub place: Option<String>,
    what: String,
}

impl RateSettings {
    /// The limits that a call which runs counts against; `all` are the tools there are.
    pub fn counted<'a>(
        &self,
        tool: &ToolName,
        all: impl Iterator<Item = &'a ToolName> + Clone,
    ) -> Vec<Counted> {
        let named = self.tools.iter().filter(|limit| limit.tools.matches(tool)).map(|limit| Counted {
            rate: limit.rate,
            tools: Some(all.clone().filter(|name| limit.tools.matches(name)).cloned().collect()),
            place: Some(limit.place.clone()),
            what: format!("`{}` ({})", limit.tools.as_str(), limit.place),
        });
        let whole = Counted {
            rate: self.each_agent,
            tools: None,
            place: None,
            what: "all tools together".to_owned(),
        };
        named.chain([whole]).collect()
    }

    /// The limit that a question about tools counts against: as many as calls that run.
    pub fn counted_asked(&self) -> Counted {
        Counted { rate: self.each_agent, tools: None, place: None, what: "questions about tools".to_owned() }
    }

    /// The limit that a refused call counts against.
    pub fn counted_refused(&self) -> Counted {
        Counted { rate: self.refused, tools: None, place: None, what: "refused calls".to_owned() }
    }
}

impl Counted {
    /// What is said when it is used up for so long.
    pub fn used_up(&self, wait_ms: u64) -> Reason {
        let Rate { max_calls, window_ms } = self.rate;
        let why = format!("this agent has {max_calls} calls in {} for {}", duration(window_ms), self.what);
        Reason::rate_limited(why)
            .with_hint(format!("try again in {}", duration(wait_ms)))
            .retry_after(wait_ms)
    }
}

/// A time as people say it: whole seconds, rounded up, from one second on.
fn duration(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        format!("{milliseconds} ms")
    } else {
        format!("{} s", milliseconds.div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> ToolName {
        ToolName::parse(name).unwrap()
    }

    fn settings() -> RateSettings {
        let rate = Rate { max_calls: 2, window_ms: 60_000 };
        let limit = |glob: &str| ToolRate {
            tools: ToolGlob::parse(glob).unwrap(),
            rate,
            place: "toolgate.yaml:3".to_owned(),
        };
        RateSettings {
            tools: vec![limit("fs.*"), limit("fs.read"), limit("shell")],
            ..RateSettings::default()
        }
    }

    #[test]
    fn a_call_counts_against_every_limit_that_names_its_tool_and_the_agents_own() {
        let all = [tool("fs.read"), tool("fs.list"), tool("shell")];
        let counted = settings().counted(&tool("fs.read"), all.iter());
        let tools: Vec<Option<Vec<ToolName>>> = counted.iter().map(|limit| limit.tools.clone()).collect();
        let expected = [Some(vec![tool("fs.read"), tool("fs.list")]), Some(vec![tool("fs.read")]), None];
        assert_eq!(tools, expected);
        assert_eq!(counted.last().unwrap().rate, RateSettings::default().each_agent);
    }

    #[test]
    fn a_refusal_says_which_limit_and_when_to_come_again() {
        let all = [tool("shell")];
        let reason = settings().counted(&tool("shell"), all.iter()).first().unwrap().used_up(1500);
        assert_eq!(reason.message, "this agent has 2 calls in 60 s for `shell` (toolgate.yaml:3)");
        assert_eq!(reason.hint.as_deref(), Some("try again in 2 s"));
        assert_eq!(reason.retry_after_ms, Some(1500));
    }
}
