//! Any tool name and any arguments come to a verdict without a panic, and no verdict but a refusal is given to what does
//! not fit the contract, leaves the workspace, touches a secret, or reaches out.
#![no_main]

#[path = "../gate.rs"]
mod gate;

use std::path::{Component, Path};

use contract::Canonical;
use gate::{AGENTS, agent_name, gate, request};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(
    init: {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/admission");
        std::fs::create_dir_all(&corpus).expect("a folder can be made");
        for contract in gate().engine.tools_for(&agent_name(AGENTS[0])) {
            for (number, example) in contract.definition().examples.iter().enumerate() {
                let text = format!("{}\n{}", contract.name(), example.arguments);
                std::fs::write(corpus.join(format!("{}-{number}", contract.name())), text).expect("a seed");
            }
        }
    },
    |text: &str| {
        let Some((tool, arguments)) = text.split_once('\n') else { return };
        let Ok(arguments) = Canonical::parse(arguments) else { return };
        let gate = gate();
        for agent in AGENTS {
            let request = request(agent, tool, arguments.clone());
            let explained = gate.runtime.block_on(gate.engine.explain(&request)).expect("the store answers");
            if explained.verdict == "deny" {
                assert!(explained.reason.is_some(), "a refusal says why");
                continue;
            }
            let contracts = gate.engine.tools_for(&agent_name(agent));
            let contract = contracts.iter().find(|contract| contract.name().as_str() == tool);
            let contract = contract.expect("only what there is can be called");
            assert_eq!(contract.input().problems(arguments.value()), Vec::<String>::new());
            for key in ["path", "from", "to", "cwd"] {
                let Some(path) = arguments.value().get(key).and_then(Value::as_str) else { continue };
                let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
                assert!(Path::new(path).components().all(inside), "{path:?} leaves the workspace");
                assert!(!path.contains('\0') && !path.split('/').any(|name| name == ".env"), "{path:?} is guarded");
            }
            assert_ne!(arguments.value().get("profile").and_then(Value::as_str), Some("networked"));
            if let Some(authority) = explained.authority {
                assert_eq!((authority.arguments, authority.contract), (arguments.digest(), contract.hash()));
                assert_eq!(authority.hosts, Vec::<String>::new());
                assert!(authority.limits.timeout <= contract.timeout());
            }
        }
    }
);
