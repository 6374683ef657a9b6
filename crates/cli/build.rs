//! Links the shipped binary to a fixed address, so that a start does not begin with 40,000 relocations.
//! DECISION(0005) has what that saves and what it costs.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "cargo tells a build script by its environment")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| {
        std::env::var(name).is_ok_and(|value| value.split(',').any(|one| one == wanted))
    };
    if is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        // The last word counts: rustc has asked for `-static-pie` before.
        println!("cargo::rustc-link-arg-bin=toolgate=-static");
        println!("cargo::rustc-link-arg-bin=toolgate=-no-pie");
    }
}
