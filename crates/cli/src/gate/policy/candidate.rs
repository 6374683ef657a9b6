//! A configuration that is not in force, made ready to decide past calls.

use std::path::Path;
use std::sync::Arc;
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
    let (candidate, warnings) = candidate_of(meaning, engine.workspace())?;
    warnings.iter().for_each(|warning| talk::warning(warning));
    Ok(candidate)
}

/// Lets a gate read configurations that come in by its doors, as texts. No file is read for them.
pub(crate) fn read_texts(engine: &Engine) {
    let workspace = engine.workspace().to_owned();
    engine.read_candidates_by(Arc::new(move |text| {
        let loaded = config::understand_text(text).map_err(|error| error.to_string())?;
        let read = candidate_of(loaded.meaning, &workspace);
        read.map(|(candidate, _)| candidate).map_err(|error| format!("{error:#}"))
    }));
}

/// What a meaning decides at this gate, and what a person should know.
fn candidate_of(meaning: Meaning, workspace: &Path) -> anyhow::Result<(Candidate, Vec<String>)> {
    let (settings, warnings) = meaning.settings_in(workspace);
    let timeouts = meaning.timeouts.into_iter().map(|(of, ms)| (of, Duration::from_millis(ms)));
    let candidate = Candidate {
        tools: tools::built_in(&settings).context("a built-in tool is not valid")?,
        settings,
        workspaces: meaning.workspaces,
        timeouts: timeouts.collect(),
    };
    Ok((candidate, warnings))
}
