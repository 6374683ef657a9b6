//! What a gate that runs needs to know of its configuration: what to do when it goes bad, what is decided beside it, and
//! which other files it is read from.

use std::path::PathBuf;

use engine::OnBadReload;

use super::Reader;
use crate::config::file::File;

/// What a gate that runs needs to know of its configuration. None of it decides anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhileRunning {
    /// What becomes of calls when a new policy cannot be had.
    pub(crate) on_bad_reload: OnBadReload,
    /// A configuration that only records.
    pub(crate) shadow: Option<PathBuf>,
    /// The files of rules that it names.
    pub(crate) files: Vec<PathBuf>,
}

impl Reader {
    pub(super) fn while_running(&mut self, tree: &File) -> WhileRunning {
        let Some(policy) = tree.policy.get() else { return WhileRunning::default() };
        let told = self.problems.len();
        let files = policy.files.get().into_iter().flatten().filter_map(|file| self.path(file)).collect();
        // What is wrong with these is told where they are read.
        self.problems.truncate(told);
        WhileRunning {
            on_bad_reload: policy.on_bad_reload.get().map(|word| word.0).unwrap_or_default(),
            shadow: policy.shadow.at().and_then(|file| self.path(file)),
            files,
        }
    }
}
