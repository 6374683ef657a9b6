//! Any text has the canonical form that a slow reference finds, or none where the reference finds none; and the form of
//! that form is itself.
#![no_main]

#[path = "../reference.rs"]
mod reference;

use contract::Canonical;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let ours = Canonical::parse(text).ok();
    assert_eq!(ours.as_ref().map(Canonical::text), reference::canonical(text).as_deref());
    let Some(ours) = ours else { return };
    let again = Canonical::parse(ours.text()).expect("what is canonical is JSON");
    assert_eq!((again.text(), again.digest(), again.value()), (ours.text(), ours.digest(), ours.value()));
    assert_eq!(Canonical::of(ours.value().clone()).as_ref().map(Canonical::text), Ok(ours.text()));
});
