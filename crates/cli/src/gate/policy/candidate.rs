//! A configuration that is not in force, made ready to decide past calls.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use engine::{Candidate, Engine};

use crate::config::{self, Loaded, Meaning};
use crate::gate::Trouble;
use crate::talk;

/// What a file means as a configuration of this gate. What is wrong with it is told as `toolgate config check` tells it.
pub(crate) fn candidate(file: &Path, engine: &Engine) -> Result<Candidate, Trouble> {
    let Loaded { meaning, warnings, .. } = config::load_file(file)?;
    warnings.iter().for_each(|warning| talk::warning(warning));
    let (candidate, warnings) = candidate_of(meaning, engine)?;
    warnings.iter().for_each(|warning| talk::warning(warning));
    Ok(candidate)
}

/// What a meaning decides at this gate, and what a person should know.
pub(crate) fn candidate_of(meaning: Meaning, engine: &Engine) -> anyhow::Result<(Candidate, Vec<String>)> {
    let (settings, warnings) = meaning.settings_in(engine.workspace());
    let timeouts = meaning.timeouts.into_iter().map(|(of, ms)| (of, Duration::from_millis(ms)));
    let candidate = Candidate {
        tools: tools::built_in(&settings).context("a built-in tool is not valid")?,
        settings,
        workspaces: meaning.workspaces,
        timeouts: timeouts.collect(),
    };
    Ok((candidate, warnings))
}
