//! `toolgate policy`: what can be asked about rules without any call.

mod lint;
mod schema;
mod test;

use clap::{Args, Subcommand};

use crate::config::{LoadError, Loaded};
use crate::talk;

/// What was asked for is not as it should be.
const CODE_FOUND: i32 = 1;
/// The configuration, or a file of tests, cannot be used.
const CODE_BAD: i32 = 2;

const AFTER_HELP: &str = "\
Without a configuration, the one in force is meant: TOOLGATE_CONFIG, else toolgate.yaml in TOOLGATE_HOME, else what is
built in.

Exit codes: 0 all is well, 1 something was found, or a test failed, 2 a file cannot be used.";

/// Look at the rules: find those that do nothing, run their tests, print their schema
#[derive(Args)]
#[command(after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find rules that are shadowed, unreachable, never match, or have no examples
    Lint(lint::LintArguments),
    /// Run the examples of rules, and files of tests
    Test(test::TestArguments),
    /// Print the Cedar schema that rules are checked with, for editors
    Schema(schema::SchemaArguments),
}

/// Runs the command; returns the exit code.
pub(crate) fn policy(arguments: &PolicyArguments) -> i32 {
    match &arguments.command {
        Command::Lint(arguments) => lint::lint(arguments),
        Command::Test(arguments) => test::test(arguments),
        Command::Schema(arguments) => schema::schema(arguments),
    }
}

/// The configuration, or the code to end with, after saying why.
fn usable(loaded: Result<Loaded, LoadError>, json: bool) -> Result<Loaded, i32> {
    loaded.map_err(|error| bad(&anyhow::Error::from(error), json))
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

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
