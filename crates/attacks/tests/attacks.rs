//! Runs the attack suite. The same binary is the launcher of every sandbox and what attacks from inside.

use libtest_mimic::Arguments;

fn main() {
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    attacks::serve_if_asked();
    let arguments = Arguments::from_args();
    let suite = attacks::Suite::prepare(arguments.list);
    let conclusion = libtest_mimic::run(&arguments, suite.trials());
    drop(suite);
    conclusion.exit();
}
