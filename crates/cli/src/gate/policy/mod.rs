//! `toolgate policy`: what a policy does, has done and would do.

mod candidate;
mod lint;
mod moment;
mod report;
mod schema;
mod simulate;
mod test;
mod versions;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use contract::show_hidden;

use self::moment::{FORMS, moment};
use super::open::Gate;
use super::{Trouble, run};
use crate::config::{self, LoadError, Loaded};
use crate::talk;

pub(crate) use candidate::{candidate, read_texts};
pub(crate) use versions::said_of;

/// What was asked for is not as it should be.
const CODE_FOUND: i32 = 1;
/// The configuration, or a file of tests, cannot be used.
const CODE_BAD: i32 = 2;

const AFTER_HELP: &str = "\
Without a configuration, the one in force is meant: TOOLGATE_CONFIG, else toolgate.yaml in TOOLGATE_HOME, else what is
built in.

Exit codes: 0 all is well, 1 something was found, or a test failed, 2 a file cannot be used.";

/// Test, try and look back at policies
#[derive(Args)]
#[command(after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    command: PolicyCommand,

    #[command(flatten)]
    gate: Gate,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Find rules that are shadowed, unreachable, never match, or have no examples
    Lint(lint::LintArguments),
    /// Run the examples of rules, and files of tests
    Test(test::TestArguments),
    /// Print the Cedar schema that rules are checked with, for editors
    Schema(schema::SchemaArguments),
    /// Decide recorded calls by another configuration, and list every decision that would be another; runs nothing
    Simulate(Box<simulate::SimulateArguments>),
    /// Where the policy of `policy.shadow` would have said something else
    Shadow {
        /// Only calls asked since then: 2026-11-01, `2026-11-01 09:30:00`, or 7d, 12h, 30m ago
        #[arg(long, value_name = "MOMENT")]
        since: Option<String>,
    },
    /// The policies that were in force and since when, and those that could not be, newest first
    History {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: u32,
    },
}

/// Runs the command; returns the exit code.
pub(crate) fn policy(arguments: PolicyArguments) -> i32 {
    let PolicyArguments { command, gate } = arguments;
    let json = gate.json;
    match command {
        PolicyCommand::Lint(arguments) => lint::lint(&arguments, &gate),
        PolicyCommand::Test(arguments) => test::test(&arguments, &gate),
        PolicyCommand::Schema(arguments) => schema::schema(&arguments, &gate),
        PolicyCommand::Simulate(simulating) => run(json, simulate::simulate(*simulating, gate)),
        PolicyCommand::Shadow { since } => run(json, shadow(since, gate)),
        PolicyCommand::History { last } => run(json, history(last, gate)),
    }
}

async fn shadow(since: Option<String>, gate: Gate) -> Result<i32, Trouble> {
    let opened = gate.open_existing().await?;
    let since = since.map(|text| moment_of(&text, opened.engine.now())).transpose()?;
    let code = versions::shadow(opened.engine.store(), since.unwrap_or(i64::MIN), gate.json).await?;
    if let Some(why) = why_no_shadow(&gate)? {
        talk::warning(&why);
    }
    Ok(code)
}

/// Why nothing is decided beside the policy, if nothing is.
fn why_no_shadow(gate: &Gate) -> Result<Option<String>, Trouble> {
    let loaded = config::load(gate.config.as_deref())?;
    Ok(match loaded.meaning.while_running.shadow {
        None => Some("there is no shadow: `policy.shadow` names none".to_owned()),
        Some(file) => config::load_shadow(&file).err().map(|why| format!("the shadow cannot be used: {why}")),
    })
}

async fn history(last: u32, gate: Gate) -> Result<i32, Trouble> {
    let opened = gate.open_existing().await?;
    versions::history(opened.engine.store(), last, gate.json).await
}

/// A moment as somebody has typed it, in milliseconds since 1970.
fn moment_of(text: &str, now: i64) -> Result<i64, Trouble> {
    let not_one = || Trouble::from(anyhow!("`{}` is no moment", show_hidden(text))).with_hint(FORMS);
    moment(text, now).ok_or_else(not_one)
}

/// The configuration, after saying what is odd about it; or the code to end with, after saying why.
fn usable(loaded: Result<Loaded, LoadError>, json: bool) -> Result<Loaded, i32> {
    let loaded = loaded.map_err(|error| bad(&anyhow::Error::from(error), json))?;
    loaded.warnings.iter().for_each(|warning| talk::warning(warning));
    Ok(loaded)
}

fn bad(error: &anyhow::Error, json: bool) -> i32 {
    if json {
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        talk::failure("bad_config", &causes.join(": "), None);
    } else {
        talk::error(error, None);
    }
    CODE_BAD
}
