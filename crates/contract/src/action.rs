//! Action types: what a call does, as `category:action`.
//!
//! No language model has a say in it: a tool declares its action, and an unknown one is refused where it is read.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nearest::nearest;

/// The actions everybody has.
const BUILT_IN: [&str; 36] = [
    "arch:decide",
    "budget:exceed",
    "budget:spend",
    "code:create",
    "code:delete",
    "code:read",
    "code:refactor",
    "code:write",
    "comms:external",
    "comms:internal",
    "db:admin",
    "db:mutate",
    "db:query",
    "deploy:production",
    "deploy:staging",
    "docs:write",
    "exec:build",
    "exec:code",
    "exec:inspect",
    "exec:mutate",
    "exec:networked",
    "mcp:call",
    "memory:read",
    "memory:write",
    "org:fire",
    "org:hire",
    "org:promote",
    "other:privileged",
    "test:run",
    "test:write",
    "vcs:branch",
    "vcs:commit",
    "vcs:push",
    "vcs:read",
    "web:read",
    "web:write",
];

/// What a call does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Action(String);

/// Why a text is not an action.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ActionError {
    /// Nobody has registered it.
    #[error("there is no action `{text}`{}", nearest.as_ref().map(|near| format!(", did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// What was given.
        text: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A new one that is not in the right form.
    #[error("`{text}` is not an action of the form `category:action`, in lower case letters and `_`")]
    Form {
        /// What was given.
        text: String,
    },
}

impl Action {
    /// The action as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the colon.
    pub fn category(&self) -> &str {
        self.0.split_once(':').map_or(self.0.as_str(), |(category, _)| category)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The actions there are: ours, and those that a configuration has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actions(BTreeSet<String>);

impl Default for Actions {
    fn default() -> Actions {
        Actions(BUILT_IN.into_iter().map(str::to_owned).collect())
    }
}

impl Actions {
    /// Ours alone, made once: every call asks for one of them.
    pub fn built_in() -> &'static Actions {
        static OURS: LazyLock<Actions> = LazyLock::new(Actions::default);
        &OURS
    }

    /// Adds one more.
    pub fn register(&mut self, text: &str) -> Result<(), ActionError> {
        let is_word =
            |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        match text.split_once(':') {
            Some((category, action)) if is_word(category) && is_word(action) => {
                self.0.insert(text.to_owned());
                Ok(())
            }
            _ => Err(ActionError::Form { text: text.to_owned() }),
        }
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Action> {
        self.0.iter().cloned().map(Action)
    }

    /// The one action that a text names.
    pub fn parse(&self, text: &str) -> Result<Action, ActionError> {
        if self.0.contains(text) {
            return Ok(Action(text.to_owned()));
        }
        let near = nearest(text, self.0.iter().map(String::as_str)).map(str::to_owned);
        Err(ActionError::Unknown { text: text.to_owned(), nearest: near })
    }

    /// All actions that a text names: one, or those of a whole category.
    pub fn expand(&self, text: &str) -> Result<Vec<Action>, ActionError> {
        // The word of other systems for what changes a database.
        if text == "database_write" {
            return Ok(vec![self.parse("db:mutate")?, self.parse("db:admin")?]);
        }
        if text.contains(':') {
            return Ok(vec![self.parse(text)?]);
        }
        let category = match text {
            "deployment" => "deploy",
            other => other,
        };
        let of_category = |action: &&String| action.split_once(':').is_some_and(|(name, _)| name == category);
        let found: Vec<Action> = self.0.iter().filter(of_category).cloned().map(Action).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let categories = self.0.iter().filter_map(|action| action.split_once(':')).map(|(name, _)| name);
        let near = nearest(text, categories).map(str::to_owned);
        Err(ActionError::Unknown { text: text.to_owned(), nearest: near })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_action_is_refused_with_the_nearest_name() {
        let error = Actions::default().parse("code:raed").unwrap_err();
        assert_eq!(error.to_string(), "there is no action `code:raed`, did you mean `code:read`?");
    }

    #[test]
    fn a_category_means_all_its_actions() {
        let names: Vec<String> =
            Actions::default().expand("test").unwrap().iter().map(Action::to_string).collect();
        assert_eq!(names, ["test:run", "test:write"]);
        assert!(Actions::default().expand("tset").is_err());
    }

    #[test]
    fn a_custom_action_exists_once_it_is_registered() {
        let mut actions = Actions::default();
        assert!(actions.parse("payments:refund").is_err());
        actions.register("payments:refund").unwrap();
        assert!(actions.parse("payments:refund").is_ok());
        assert!(actions.register("Payments refund").is_err());
    }
}
