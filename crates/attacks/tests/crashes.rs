//! Kills gates. The same binary is the gate that is killed, and the launcher and worker of its sandboxes.

use libtest_mimic::Arguments;

fn main() {
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    attacks::serve_if_asked();
    attacks::serve_storm_if_asked();
    let mut arguments = Arguments::from_args();
    // A round waits more than it works.
    arguments.test_threads.get_or_insert(4);
    let suite = attacks::StormSuite::prepare(arguments.list);
    let conclusion = libtest_mimic::run(&arguments, suite.trials());
    drop(suite);
    conclusion.exit();
}
