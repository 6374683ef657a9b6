//! The built-in tools as a gate runs them: decided, granted, and done by a worker behind real walls.
//!
//! The test's own binary is the launcher of every sandbox and the worker inside.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; it plays the host, and says what it skips"
)]

mod bench;
mod commands;
mod escapes;
mod files;
mod git;
mod guide;
mod leases;
mod races;
mod tools_of_one_command;
mod workers;

use libtest_mimic::{Arguments, Trial};
// As the guide's tool sees them from within `tools`.
use tools::{CommandLine, CommandOutput, CommandTool, Tool};

/// A test: it panics if it fails.
type Test = (&'static str, fn());

fn main() {
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    workers::be_a_gate_if_asked();
    let arguments = Arguments::from_args();
    let tests = [
        files::TESTS,
        escapes::TESTS,
        races::TESTS,
        commands::TESTS,
        git::TESTS,
        workers::TESTS,
        tools_of_one_command::TESTS,
        guide::walls::TESTS,
    ]
    .concat();
    let lacking = if arguments.list { None } else { bench::missing_walls() };
    let trials = tests.into_iter().map(|(name, test)| {
        let lacking = lacking.clone();
        Trial::test(name, move || match lacking {
            Some(why) => Err(why.into()),
            None => {
                test();
                Ok(())
            }
        })
    });
    let trials: Vec<Trial> = trials.collect();
    match lacking {
        Some(why) if !bench::is_required("native") => eprintln!("skipped: all of it: {why}"),
        _ => {
            let conclusion = libtest_mimic::run(&arguments, trials);
            bench::clean_up(std::process::id());
            conclusion.exit();
        }
    }
}
