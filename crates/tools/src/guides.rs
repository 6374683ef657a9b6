//! Guides: how the built-in tools are used well. They are read on demand, and say nothing that decides.

use std::borrow::Cow;

use contract::ToolName;

/// A text about a tool, for models and people, in Markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guide {
    /// By which it is asked for.
    pub name: Cow<'static, str>,
    /// The text.
    pub text: Cow<'static, str>,
}

macro_rules! guides {
    ($($name:literal),* $(,)?) => {
        /// The names of the built-in tools.
        pub const NAMES: &[&str] = &[$($name),*];

        const GUIDES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../guides/", $name, ".md")))),*];
    };
}

guides![
    "fs.append",
    "fs.delete",
    "fs.edit",
    "fs.list",
    "fs.mkdir",
    "fs.move",
    "fs.read",
    "fs.search",
    "fs.stat",
    "fs.write",
    "git.branch",
    "git.checkout",
    "git.clone",
    "git.commit",
    "git.diff",
    "git.fetch",
    "git.log",
    "git.pr",
    "git.push",
    "git.show",
    "git.status",
    "http.request",
    "shell",
];

/// The guide of a built-in tool.
pub(crate) fn guide_of(tool: &ToolName) -> Option<Guide> {
    let (_, text) = GUIDES.iter().find(|(name, _)| *name == tool.as_str())?;
    Some(Guide { name: Cow::Borrowed("guide"), text: Cow::Borrowed(text) })
}

#[cfg(test)]
mod tests {
    use policy::Settings;

    use super::*;

    /// The calls that a guide shows: blocks marked with the name of a tool.
    fn calls(text: &str) -> Vec<(&str, &str)> {
        let blocks = text.split("```json ").skip(1);
        blocks.map(|block| block.split_once("```").unwrap().0.split_once('\n').unwrap()).collect()
    }

    #[test]
    fn every_built_in_tool_has_a_guide_and_every_call_in_it_is_one_that_the_tool_takes() {
        let settings = Settings::default();
        let tools = crate::built_in(&settings).unwrap();
        assert_eq!(tools.len(), GUIDES.len());
        for tool in &tools {
            let name = tool.contract().name();
            let guide = guide_of(name).unwrap_or_else(|| panic!("`{name}` has no guide"));
            let calls = calls(&guide.text);
            assert!(!calls.is_empty(), "{name} shows no call");
            for (called, arguments) in calls {
                assert_eq!(called, name.as_str());
                let arguments = serde_json::from_str(arguments).unwrap();
                assert_eq!(
                    tool.contract().input().problems(&arguments),
                    Vec::<String>::new(),
                    "{name}: {arguments}"
                );
                tool.facets(&arguments, &settings).unwrap_or_else(|reason| panic!("{name}: {reason:?}"));
            }
            let names = guide
                .text
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|word| word.starts_with("fs.") || word.starts_with("git."));
            for named in names.filter(|word| !word.contains(['*', ' '])) {
                assert!(
                    tools.iter().any(|tool| tool.contract().name().as_str() == named),
                    "{name} speaks of `{named}`"
                );
            }
            assert!(guide.text.len() < 4096, "{name}: a guide is short");
        }
    }
}
