//! Budgets, as people write, spend and look at them.

use std::fs;

use serde_json::{Value, json};

use crate::place::{CLEAN, Place, text};

const READ: &str = r#"{"path":"README.md"}"#;

fn configure(place: &Place, text: &str) {
    fs::write(place.home().join("toolgate.yaml"), text).expect("a configuration can be written");
}

fn budgets(place: &Place) -> Vec<Value> {
    let (code, shown) = place.json(&["budgets"]);
    assert_eq!(code, Some(0), "{shown}");
    serde_json::from_value(shown).expect("a list")
}

fn told(budget: &Value) -> [String; 4] {
    ["/limit", "/spent", "/reserved", "/left"].map(|pointer| text(budget, pointer))
}

#[test]
fn what_is_spent_is_on_the_receipt_and_gone_from_the_budget_until_it_begins_anew() {
    let Some(place) = Place::new() else { return };
    configure(
        &place,
        "prices: { currency: USD, tools: { fs.read: { call: 0.01 } } }\n\
         budgets:\n  - { tools: fs.read, limit: 0.025, period: daily }\n",
    );
    for _ in 0..2 {
        let (code, result) = place.call("fs.read", READ);
        assert_eq!(code, Some(0), "{result}");
        let (_, receipt) = place.json(&["receipt", "show", &text(&result, "/receipt")]);
        let cost = json!({ "currency": "USD", "quoted": "0.01", "measured": "0.01" });
        assert_eq!(receipt.get("cost"), Some(&cost), "{receipt}");
    }
    let (code, refused) = place.call("fs.read", READ);
    assert_eq!((code, text(&refused, "/reason/code").as_str()), (Some(3), "over_budget"), "{refused}");
    let wait = refused.pointer("/reason/retry_after_ms").and_then(Value::as_u64).expect("when to come again");
    assert!(wait <= 24 * 3_600_000, "{wait}");
    let shown = budgets(&place);
    assert_eq!(told(&shown[0]), ["0.025", "0.02", "0", "0.005"], "{shown:?}");
    let explained = place.toolgate(&["explain", "fs.read", READ]);
    assert!(explained.stdout.contains("toolgate.yaml:3: `fs.read`, 0.025 USD daily"), "{explained:?}");

    // Another configuration knows what was spent under this one.
    configure(&place, "budgets:\n  - { tools: 'fs.*', calls: 3, period: monthly }\n");
    assert_eq!(told(&budgets(&place)[0]), ["3", "2", "0", "1"]);
    assert_eq!(place.call("fs.read", READ).0, Some(0));
    assert_eq!(place.call("fs.read", READ).0, Some(3));
}

#[test]
fn a_rule_with_a_budget_frees_calls_until_it_is_spent_and_asks_then() {
    let Some(place) = Place::new() else { return };
    configure(
        &place,
        "approval:\n  rules:\n    - { tool: shell, action: budget, budget_limit: 1, budget_period: weekly }\n",
    );
    let (code, result) = place.call("shell", CLEAN);
    assert_eq!(code, Some(0), "{result}");
    let (code, waiting) = place.call("shell", CLEAN);
    assert_eq!(code, Some(4), "{waiting}");
    let why = text(&waiting, "/approval/why");
    assert!(
        why.starts_with("`budget:exceed`: toolgate.yaml:3: `shell`, 1 call weekly: 1 call spent"),
        "{why}"
    );
    assert_eq!(told(&budgets(&place)[0]), ["1", "1", "0", "0"]);
    // What waits has taken nothing; what people allow counts.
    let approved = place.toolgate(&["approve", &text(&waiting, "/approval/id")]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    place.call("shell", CLEAN);
    assert_eq!(told(&budgets(&place)[0]), ["1", "2", "0", "0"]);
}
