//! Hooks that are programs: one JSON object in, one JSON object out, behind walls.
//!
//! Which programs there are, and when each is heard, the settings say. What a program complains is for operators; an
//! agent hears the reasons that it gives, and nothing else of it.
//!
//! # Invariants
//! - Whatever is not an answer is no answer: another exit code than 0, no object, another key, a word too many.
//! - A program that says nothing against a call has said so: `{}`.

use std::sync::Arc;
use std::time::Duration;

use contract::{Output, ToolName, chain};
use policy::{HookSettings, HookTime, Settings};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tools::{OwnProgram, ProgramError, Spoken, Surroundings};

use crate::hooks::{Finished, Hearing, Hook, HookError, Objection, Proposed, Remark};

/// As much of what a program complains as operators are told.
const MOST_COMPLAINED: usize = 2000;

/// The programs that settings name, in their order.
pub(crate) fn command_hooks(settings: &Settings, at: &Surroundings) -> Vec<Arc<dyn Hook>> {
    let hook = |settings: &HookSettings| -> Arc<dyn Hook> {
        let program = OwnProgram::new(
            settings.command.clone(),
            settings.arguments.clone(),
            settings.digest,
            Duration::from_millis(settings.timeout),
        );
        Arc::new(CommandHook { settings: settings.clone(), program: Arc::new(program), at: at.clone() })
    };
    settings.hooks.iter().map(hook).collect()
}

struct CommandHook {
    settings: HookSettings,
    program: Arc<OwnProgram>,
    at: Surroundings,
}

impl Hook for CommandHook {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn hears(&self, time: HookTime, tool: &ToolName) -> bool {
        self.settings.hears(time, tool)
    }

    fn before<'a>(&'a self, call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async move {
            let question = json!({
                "when": "before",
                "call": call.call,
                "agent": call.agent,
                "task": call.task,
                "tool": call.tool,
                "action": call.action.to_string(),
                "arguments": call.arguments.value(),
            });
            Ok(match self.ask(&question).await? {
                None => Objection::None,
                Some(SaidBefore::Ask(why)) => Objection::Ask(why),
                Some(SaidBefore::Deny(why)) => Objection::Deny(why),
            })
        })
    }

    fn after<'a>(&'a self, call: &'a Finished, output: &'a Output) -> Hearing<'a, Remark> {
        Box::pin(async move {
            let question = json!({
                "when": "after",
                "call": call.call,
                "agent": call.agent,
                "task": call.task,
                "tool": call.tool,
                "output": shown(output),
            });
            Ok(match self.ask(&question).await? {
                None => Remark::None,
                Some(SaidAfter::Found(found)) => Remark::Found(found),
                Some(SaidAfter::Withhold(why)) => Remark::Withhold(why),
            })
        })
    }
}

/// What a program says before a call, if it says anything.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SaidBefore {
    Ask(String),
    Deny(String),
}

/// What a program says after a call, if it says anything.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SaidAfter {
    Found(Vec<String>),
    Withhold(String),
}

impl CommandHook {
    async fn ask<T: DeserializeOwned>(&self, question: &Value) -> Result<Option<T>, HookError> {
        let spoken = self.program.ask(&self.at, format!("{question}\n").into_bytes()).await;
        match &spoken {
            Ok(Spoken { stderr, .. }) | Err(ProgramError::Ended { stderr, .. }) if !stderr.is_empty() => {
                // What it complains may be what an agent said, or what a tool gave: only for those who ask for it, and
                // escaped, so that it begins no line of its own.
                let stderr: String = stderr.trim_end().chars().take(MOST_COMPLAINED).collect();
                tracing::debug!(hook = self.settings.name, ?stderr, "a hook complains");
            }
            _ => {}
        }
        let spoken = spoken.map_err(|error| HookError { why: chain(&error) })?;
        // ATTACK(hook-says-nonsense): what is not understood is not taken for consent.
        understood(&spoken.stdout).map_err(|error| HookError { why: format!("its answer is none: {error}") })
    }
}

/// An object without anything in it, or with the one thing that is said.
fn understood<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, serde_json::Error> {
    let nothing = serde_json::from_slice::<Map<String, Value>>(bytes).is_ok_and(|object| object.is_empty());
    if nothing { Ok(None) } else { serde_json::from_slice(bytes).map(Some) }
}

/// Artifacts are shown as text, with what is none replaced.
fn shown(output: &Output) -> Value {
    let artifact = |(name, bytes): &(String, Vec<u8>)| json!({ "name": name, "bytes": bytes.len(), "text": String::from_utf8_lossy(bytes) });
    json!({
        "content": output.content,
        "is_error": output.is_error,
        "structured": output.structured,
        "artifacts": output.artifacts.iter().map(artifact).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_with_one_thing_said_is_an_answer() {
        let before = |text: &str| understood::<SaidBefore>(text.as_bytes()).unwrap();
        assert_eq!(before("{}"), None);
        assert_eq!(before(" {\n}\n"), None);
        assert_eq!(before(r#"{"ask":"why"}"#), Some(SaidBefore::Ask("why".to_owned())));
        assert_eq!(before(r#"{"deny":""}"#), Some(SaidBefore::Deny(String::new())));
        let after = |text: &str| understood::<SaidAfter>(text.as_bytes()).unwrap();
        assert_eq!(after(r#"{"found":["a","b"]}"#), Some(SaidAfter::Found(vec!["a".into(), "b".into()])));
        assert_eq!(after(r#"{"withhold":"why"}"#), Some(SaidAfter::Withhold("why".to_owned())));
    }

    #[test]
    fn whatever_else_is_said_is_no_answer() {
        for text in [
            "",
            "ok",
            "[]",
            "null",
            "true",
            "\"deny\"",
            "{",
            "{}{}",
            "{} {\"deny\":\"x\"}",
            r#"{"allow":true}"#,
            r#"{"deny":null}"#,
            r#"{"deny":["x"]}"#,
            r#"{"Deny":"x"}"#,
            r#"{"ask":"x","deny":"y"}"#,
            r#"{"deny":"x","note":1}"#,
            r#"{"withhold":"x"}"#,
            "\u{feff}{}",
        ] {
            assert!(understood::<SaidBefore>(text.as_bytes()).is_err(), "{text}");
        }
        assert!(understood::<SaidBefore>(b"{\"deny\":\"\xff\"}").is_err());
        assert!(understood::<SaidAfter>(br#"{"found":"x"}"#).is_err());
        assert!(understood::<SaidAfter>(br#"{"deny":"x"}"#).is_err());
    }
}
