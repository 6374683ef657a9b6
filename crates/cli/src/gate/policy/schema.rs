//! `toolgate policy schema`: what rules in Cedar are checked with.

use clap::Args;
use contract::nearest;

use super::{CODE_BAD, bad, usable};
use crate::config::{self, KnownTools};
use crate::gate::open::Gate;
use crate::talk;

#[derive(Args)]
pub(crate) struct SchemaArguments {
    /// For rules about this tool; else for all tools together
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
}

pub(super) fn schema(arguments: &SchemaArguments, gate: &Gate) -> i32 {
    let (SchemaArguments { tool }, Gate { config, json, .. }) = (arguments, gate);
    let loaded = match usable(config::load(config.as_deref()), *json) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let known = KnownTools::of(&loaded.meaning.settings, &loaded.meaning.custom_actions);
    let Some((tree, text)) = known.schema.for_editors(tool.as_deref()) else {
        let name = tool.as_deref().unwrap_or_default();
        let names = known.tools.iter().map(|tool| tool.contract().name().as_str());
        let near = nearest(name, names).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        return bad(&anyhow::anyhow!("there is no tool `{}`{near}", name.escape_debug()), *json);
    };
    if *json {
        talk::json(&tree);
        return 0;
    }
    match text {
        Ok(text) => {
            talk::data(text.trim_end());
            0
        }
        Err(why) => {
            talk::error(&anyhow::anyhow!(why), Some("use `--json`"));
            CODE_BAD
        }
    }
}
