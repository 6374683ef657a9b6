//! Budgets, as people write, spend and look at them.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, text};

const READ: &str = r#"{"path":"README.md"}"#;
const TOUCH: &str = r#"{"command":"touch","args":["mark"],"profile":"mutate"}"#;

fn configure(place: &Place, text: &str) {
    fs::write(place.home().join("toolgate.yaml"), text).expect("a configuration can be written");
}

/// The one budget there is.
fn only(place: &Place) -> Value {
    let (code, shown) = place.json(&["budgets"]);
    assert_eq!((code, shown.as_array().map(Vec::len)), (Some(0), Some(1)), "{shown}");
    shown.pointer("/0").expect("it is a list of one").clone()
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
        let cost = json!({ "currency": "USD", "quoted": "0.01", "measured": "0.01" });
        assert_eq!(result.get("cost"), Some(&cost), "{result}");
        let receipt = place.toolgate(&["receipt", "show", &text(&result, "/receipt")]);
        assert!(receipt.stdout.contains("cost       0.01 USD (at most 0.01)\n"), "{receipt:?}");
    }
    let (code, refused) = place.call("fs.read", READ);
    assert_eq!((code, text(&refused, "/reason/code").as_str()), (Some(3), "over_budget"), "{refused}");
    let wait = refused.pointer("/reason/retry_after_ms").and_then(Value::as_u64).expect("when to come again");
    assert!(wait <= 24 * 3_600_000, "{wait}");
    assert_eq!(told(&only(&place)), ["0.025", "0.02", "0", "0.005"]);
    let explained = place.toolgate(&["explain", "fs.read", READ]);
    assert!(explained.stdout.contains("toolgate.yaml:3: `fs.read`, 0.025 USD daily"), "{explained:?}");

    // Another configuration knows what was spent under this one.
    configure(&place, "budgets:\n  - { tools: 'fs.*', calls: 3, period: monthly }\n");
    assert_eq!(told(&only(&place)), ["3", "2", "0", "1"]);
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
    let (code, result) = place.call("shell", TOUCH);
    assert_eq!(code, Some(0), "{result}");
    let (code, waiting) = place.call("shell", TOUCH);
    assert_eq!(code, Some(4), "{waiting}");
    let why = text(&waiting, "/approval/why");
    assert!(why.contains("`budget:exceed`: toolgate.yaml:3: `shell`, 1 call weekly: 1 call spent"), "{why}");
    assert_eq!(told(&only(&place)), ["1", "1", "0", "0"]);
    // What waits has taken nothing; what people allow counts.
    let approved = place.toolgate(&["approve", &text(&waiting, "/approval/id")]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    place.call("shell", TOUCH);
    assert_eq!(told(&only(&place)), ["1", "2", "0", "0"]);
}

#[test]
fn a_rule_in_cedar_sees_what_was_spent_and_its_examples_say_it() {
    let Some(place) = Place::new() else { return };
    let rule = r#"prices: { currency: USD, tools: { fs.read: { call: 0.01 } } }
policy:
  rules:
    - id: enough-for-today
      cedar: |
        forbid (principal, action, resource)
        when { context.cost.greaterThan(decimal("0.0")) && context.spend.day.greaterThanOrEqual(decimal("0.02")) };
      examples:
        - { tool: fs.read, arguments: { path: a }, spent: SPENT, expect: forbid }
        - { tool: fs.read, arguments: { path: a }, expect: nothing }
        - { tool: fs.list, arguments: { path: a }, spent: 1, expect: nothing }
"#;
    configure(&place, &rule.replace("SPENT", "0.01"));
    let wrong = place.toolgate(&["config", "check"]);
    assert!(wrong.stderr.contains("expects `forbid`, and the rule says `nothing`"), "{wrong:?}");
    configure(&place, &rule.replace("SPENT", "0.02"));
    assert_eq!([(); 3].map(|()| place.call("fs.read", READ).0), [Some(0), Some(0), Some(3)]);
    let explained = place.toolgate(&["explain", "fs.read", READ]);
    assert!(explained.stdout.contains("`enough-for-today`"), "{explained:?}");
    assert_eq!(place.call("fs.list", r#"{"path":"."}"#).0, Some(0));

    let tests = place.home().join("tests.yaml");
    let read = "tool: fs.read, arguments: { path: a }";
    fs::write(&tests, format!("- {{ {read}, spent: 0.02, expect: deny }}\n- {{ {read}, expect: allow }}\n"))
        .expect("tests can be written");
    let tested = place.toolgate(&["policy", "test", tests.to_str().expect("a path is text")]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
}

#[test]
fn a_budget_is_told_in_what_it_counts() {
    let Some(place) = Place::new() else { return };
    configure(
        &place,
        "budgets:\n  - { tools: 'fs.*', calls: 1, period: daily }\n  - { tools: shell, calls: 2, period: daily }\napproval:\n  rules:\n    - { tool: 'fs.*', action: budget, budget_limit: 250, budget_period: monthly, amount: { argument: amount } }\n",
    );
    let told = place.toolgate(&["budgets"]).stdout;
    let expected = [": 1 call daily\n", ": 2 calls daily\n", ": 250 of `amount` monthly\n"];
    assert!(expected.iter().all(|line| told.contains(line)), "{told}");
}
