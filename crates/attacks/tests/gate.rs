//! Attacks the gate. The same binary is the launcher of every sandbox, the worker inside, and a gate of its own.

use libtest_mimic::Arguments;

fn main() {
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(attacks::LIAR);
    sandbox::serve_if_asked();
    attacks::serve_if_asked();
    attacks::serve_visitor_if_asked();
    attacks::serve_storm_if_asked();
    let arguments = Arguments::from_args();
    let suite = attacks::GateSuite::prepare(arguments.list, attacks::Cases::Gate);
    let conclusion = libtest_mimic::run(&arguments, suite.trials());
    drop(suite);
    conclusion.exit();
}
