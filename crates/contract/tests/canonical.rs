//! Canonical JSON agrees with a slow reference, on texts that are nearly or really JSON.
//!
//! The seed is fixed: a run is the same everywhere. The fuzzer of the same name goes on where this ends.

#[path = "../../../fuzz/reference.rs"]
#[expect(clippy::expect_used, reason = "what a reference cannot compute fails the test")]
mod reference;

use contract::Canonical;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_048,
        rng_seed: RngSeed::Fixed(8785),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Numbers that are hard to read or to write.
fn number() -> impl Strategy<Value = String> {
    let real = any::<f64>().prop_map(|number| format!("{number:e}"));
    let written = ("-?", "0|[1-9][0-9]{0,20}", "(\\.[0-9]{1,24})?", "([eE][+-]?[0-9]{1,3})?")
        .prop_map(|(sign, whole, part, exponent)| format!("{sign}{whole}{part}{exponent}"));
    prop_oneof![real, written]
}

fn text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<char>().prop_map(|c| c.to_string()),
        "[ -~]".prop_map(|c| c),
        "\\\\(u[0-9a-fA-F]{4}|[\"\\\\/bfnrtux])",
    ];
    proptest::collection::vec(pieces, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![number(), text(), "null|true|false|nul|[{}\\[\\],:]"];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let space = "[ \t\n\r]{0,1}";
        let list =
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(",")));
        // Few keys, so that some stand twice.
        let key = prop_oneof![
            "\"[a-c]\"",
            text(),
            Just("\"\u{fb33}\"".to_owned()),
            Just("\"\u{1f600}\"".to_owned())
        ];
        let member =
            (key, space, inner).prop_map(|(key, space, value)| format!("{key}{space}:{space}{value}"));
        let object = proptest::collection::vec(member, 0..4)
            .prop_map(|members| format!("{{{}}}", members.join(" , ")));
        prop_oneof![list, object]
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_text_has_the_form_that_the_reference_finds_or_none(text in json()) {
        let ours = Canonical::parse(&text).ok();
        prop_assert_eq!(ours.as_ref().map(|form| form.text().to_owned()), reference::canonical(&text));
        if let Some(ours) = ours {
            let again = Canonical::parse(ours.text());
            prop_assert_eq!(again.as_ref(), Ok(&ours), "the form of a form is itself");
        }
    }
}
