//! Any bytes either are a plan, or are refused: no panic, no memory beyond what the bytes are worth.
//! A plan that was read is written and read again as the same plan.
#![no_main]

#[path = "../seeds.rs"]
mod seeds;

use std::path::Path;

use jail::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // Made anew each time, so that they are never older than the format.
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/plan_decode");
        seeds::write_to(&corpus).expect("the first plans can be written");
    },
    |bytes: &[u8]| {
        let Ok(plan) = Plan::decode(bytes) else { return };
        let written = plan.encode().expect("what was read can be written");
        assert_eq!(Plan::decode(&written).as_ref(), Ok(&plan));
    }
);
