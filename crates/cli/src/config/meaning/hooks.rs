//! Programs that are heard about calls. Each is looked at while it is read: what it is belongs to what it means.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use contract::show_hidden;
use policy::{HookSettings, HookTime, ToolGlob};
use tools::UnfitProgram;

use super::Reader;
use crate::config::at::At;
use crate::config::file::{File, HookFile};
use crate::config::problem::{Problem, shown};

/// More would make every call wait.
const MOST_HOOKS: usize = 16;
/// The gate itself waits no longer.
const MOST_MILLISECONDS: u64 = 5000;
const USUAL_MILLISECONDS: u64 = 2000;
const LONGEST_NAME: usize = 64;

impl Reader {
    pub(super) fn hooks(&mut self, tree: &File) -> Vec<HookSettings> {
        let Some(list) = tree.hooks.at() else { return Vec::new() };
        if list.value.len() > MOST_HOOKS {
            self.refuse(list.place, format!("{} hooks are more than {MOST_HOOKS}", list.value.len()));
        }
        let mut names = BTreeSet::new();
        let mut hooks = Vec::new();
        for hook in &list.value {
            if let Some(name) = hook.value.name.at()
                && !names.insert(&name.value)
            {
                self.refuse(name.place, format!("there is a hook `{}` already", shown(&name.value)));
            }
            hooks.extend(self.hook(hook));
        }
        hooks
    }

    fn hook(&mut self, hook: &At<HookFile>) -> Option<HookSettings> {
        let HookFile { name, command, args, when, tools, timeout_ms } = &hook.value;
        let (Some(name), Some(command)) = (name.at(), command.at()) else {
            let missing = if name.at().is_none() { "name" } else { "command" };
            self.refuse(hook.place, format!("`{missing}` is missing in this hook"));
            return None;
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let named =
            !name.value.is_empty() && name.value.len() <= LONGEST_NAME && name.value.chars().all(plain);
        if !named {
            let why = format!(
                "`{}` is not a name of at most {LONGEST_NAME} letters, digits, `-` and `_`",
                shown(&name.value)
            );
            self.refuse(name.place, why);
        }
        let arguments: Vec<String> =
            args.get().into_iter().flatten().map(|text| text.value.clone()).collect();
        if let Some(at) = args.get().into_iter().flatten().find(|text| text.value.contains('\0')) {
            self.refuse(at.place, "an argument holds a NUL character");
        }
        let tools = match tools.at() {
            None => match ToolGlob::parse("*") {
                Ok(all) => vec![all],
                Err(error) => {
                    self.refuse(hook.place, error.to_string());
                    return None;
                }
            },
            Some(at) if at.value.is_empty() => {
                self.refuse(at.place, "a hook for no tool is never heard: name some, or leave `tools` out");
                return None;
            }
            Some(_) => self.patterns(tools),
        };
        let timeout = self.amount("timeout_ms", timeout_ms, MOST_MILLISECONDS).unwrap_or(USUAL_MILLISECONDS);
        let path = Path::new(&command.value);
        match tools::examine_program(path) {
            Ok(digest) if named => Some(HookSettings {
                name: name.value.clone(),
                command: path.to_owned(),
                arguments,
                digest,
                when: when.get().map_or(HookTime::Before, |word| word.0),
                tools,
                timeout,
            }),
            Ok(_) => None,
            Err(unfit) => {
                self.problems.push(problem_of(&unfit, command));
                None
            }
        }
    }
}

fn problem_of(unfit: &UnfitProgram, command: &At<String>) -> Problem {
    let mut message = unfit.to_string();
    if let Some(cause) = unfit.source() {
        message = format!("{message}: {cause}");
    }
    let nearest = match unfit {
        UnfitProgram::Link { real, .. } => Some(show_hidden(&real.to_string_lossy())),
        _ => None,
    };
    Problem { nearest, ..Problem::new(command.place, format!("the program {}", show_hidden(&message))) }
}
