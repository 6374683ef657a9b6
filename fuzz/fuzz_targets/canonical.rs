//! Any text has the canonical form that a slow reference finds, or none where the reference finds none; and the form of
//! that form is itself.
#![no_main]

#[path = "../reference.rs"]
mod reference;

use std::path::Path;

use contract::Canonical;
use libfuzzer_sys::fuzz_target;

/// Numbers at their limits, letters beyond the first plane, keys that sort otherwise in UTF-8: where the fuzzer begins.
const BEGINNINGS: [&str; 9] = [
    r#"{"b":[1,-0,1e21,1E-7,5e-324,0.1,9007199254740991],"a":null}"#,
    r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude02":5,"\u0080":6,"\u00f6":7}"#,
    r#"["\u0000\b\t\n\f\r\"\\\/\u001f\u007f","é😀"]"#,
    r#"{"a":1,"a":2}"#,
    r#"[[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]"#,
    r#"[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]"#,
    "9007199254740993",
    r#""\ud800""#,
    " true ",
];

fn begin(corpus: &Path) {
    std::fs::create_dir_all(corpus).expect("a folder can be made");
    for (number, text) in BEGINNINGS.iter().enumerate() {
        std::fs::write(corpus.join(format!("beginning-{number}")), text).expect("a seed");
    }
}

fuzz_target!(init: begin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/canonical")), |text: &str| check(text));

fn check(text: &str) {
    let ours = Canonical::parse(text).ok();
    assert_eq!(ours.as_ref().map(Canonical::text), reference::canonical(text).as_deref());
    let Some(ours) = ours else { return };
    let again = Canonical::parse(ours.text()).expect("what is canonical is JSON");
    assert_eq!((again.text(), again.digest(), again.value()), (ours.text(), ours.digest(), ours.value()));
    assert_eq!(Canonical::of(ours.value().clone()).as_ref().map(Canonical::text), Ok(ours.text()));
}
