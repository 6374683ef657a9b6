//! Attacks the network of calls. The same binary is the launcher of every sandbox, the worker inside, and a gate of its own.

use std::io::Write;

use libtest_mimic::Arguments;

fn main() {
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(attacks::LIAR);
    sandbox::serve_if_asked();
    attacks::serve_if_asked();
    attacks::serve_visitor_if_asked();
    attacks::serve_storm_if_asked();
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Err(error) = attacks::enter_world()
    {
        let _ = writeln!(std::io::stderr(), "error: the attacks cannot have a network of their own: {error}");
        std::process::exit(1);
    }
    let suite = attacks::GateSuite::prepare(arguments.list, attacks::Cases::Egress);
    let conclusion = libtest_mimic::run(&arguments, suite.trials());
    drop(suite);
    conclusion.exit();
}
