//! The gate's way out, between a sandbox's network and an outside, both of which are namespaces of the test's own.
//!
//! The binary runs itself again in a network where every address is local: that is the outside, with hosts at public
//! addresses and a resolver. Each test has another such network, the sandbox's, whose sockets a small process makes there.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; it plays sandbox and outside, and says what it skips"
)]

mod direct;
mod doors;
mod hosts;
mod nameserver;
mod namespaces;
mod secrets;
mod signer;
mod web;
mod world;

use libtest_mimic::{Arguments, Trial};

/// A test: it panics if it fails.
type Test = (&'static str, fn());

fn main() {
    namespaces::make_sockets_if_asked();
    let outside = namespaces::is_outside();
    if !outside && let Some(lacking) = namespaces::go_outside() {
        eprintln!("skipped: all of it: {lacking}");
        let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "native"), "TOOLGATE_REQUIRE names `native`");
        return;
    }
    let arguments = Arguments::from_iter(namespaces::arguments());
    let tests = [direct::TESTS, web::TESTS, doors::TESTS, secrets::TESTS, signer::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
