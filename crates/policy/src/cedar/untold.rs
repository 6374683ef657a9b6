//! What may be missing of a call since nobody can tell it: where it goes, and which programs it starts.
//!
//! # Invariants
//! - A rule that looks there without `has` fails where it cannot be told, and so denies.

use serde_json::Value;

use super::tree::{asks_for, attribute_of};

/// The names of what may be missing. A rule that does not ask whether it is there fails, and so denies: as it should, and no
/// reason to refuse the rule.
pub(super) const UNTOLD: [&str; 2] = ["hosts", "commands"];

/// What can be done about a rule that failed since this could not be told of a call.
pub(super) fn hint(name: &str) -> String {
    format!(
        "whoever runs this gate can change that: the rule that is named stands under `policy` in toolgate.yaml, or in a file named there; `context.{name}` cannot be told of this call, and what cannot be told is denied: keep `has` out of the rule, or write `if context has {name} then … else true`: with `context has {name} && …` such calls would go by"
    )
}

/// What a rule asks for in such a way that it says nothing about a call of which it cannot be told.
pub(crate) fn lets_by(conditions: &[Value]) -> Option<&'static str> {
    UNTOLD.into_iter().find(|name| {
        let mut asked = Asked::default();
        for condition in conditions {
            let holds = condition.get("kind").is_some_and(|kind| kind == "when");
            condition.get("body").into_iter().for_each(|body| asked.look(body, name, holds));
        }
        // Whoever also asks whether it is missing has thought of that.
        asked.if_there && !asked.if_missing
    })
}

/// In which ways a rule asks with `has`.
#[derive(Default)]
struct Asked {
    /// It says something if it is there.
    if_there: bool,
    /// It says something if it is missing.
    if_missing: bool,
}

impl Asked {
    /// Looks at a condition of which the rule needs that it is true, or that it is not.
    fn look(&mut self, tree: &Value, name: &str, true_is_needed: bool) {
        let Some((operator, value)) = tree.as_object().and_then(|members| members.iter().next()) else {
            return;
        };
        let part = |key: &str| value.get(key).unwrap_or(&Value::Null);
        match operator.as_str() {
            "has" if attribute_of(value) == Some(("context", name)) => match true_is_needed {
                true => self.if_there = true,
                false => self.if_missing = true,
            },
            "!" => self.look(part("arg"), name, !true_is_needed),
            "&&" | "||" => {
                ["left", "right"].map(part).into_iter().for_each(|side| self.look(side, name, true_is_needed))
            }
            // What becomes of it in other operations is not followed.
            _ if asks_for(value, name) => self.if_missing = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cedar::CedarRule;

    #[test]
    fn only_a_rule_that_is_silent_about_what_cannot_be_told_lets_it_by() {
        let lets = |conditions: &str| {
            let text = format!("forbid (principal, action, resource) {conditions};");
            let rules = CedarRule::read(&text, |line| line.to_string()).unwrap();
            lets_by(&rules.first().unwrap().conditions())
        };
        for (conditions, name) in [
            ("when { context has commands && context.commands.contains(\"rm\") }", "commands"),
            ("when { context.hour > 3 || (context has hosts && context.hosts.contains(\"a.b\")) }", "hosts"),
            ("when { context has commands } when { context.commands.contains(\"rm\") }", "commands"),
            ("unless { !(context has hosts) || context.hosts.contains(\"a.b\") }", "hosts"),
        ] {
            assert_eq!(lets(conditions), Some(name), "{conditions}");
        }
        for conditions in [
            "when { context.commands.contains(\"rm\") }",
            "when { !(context has commands) || (context has commands && context.commands.contains(\"rm\")) }",
            "when { if context has commands then context.commands.contains(\"rm\") else true }",
            "unless { context has hosts && context.hosts.contains(\"a.b\") }",
            "when { context.arguments has commands && context.arguments.commands == \"rm\" }",
            "when { context has task && context.task == \"x\" }",
        ] {
            assert_eq!(lets(conditions), None, "{conditions}");
        }
    }
}
