//! A grant cannot be made, copied or read back anywhere but where calls are decided.

#[test]
fn a_grant_cannot_be_forged() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/cannot/*.rs");
}
