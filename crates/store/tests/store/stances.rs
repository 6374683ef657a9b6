use contract::{
    Contract, Definition, Digest, EgressClass, OperatorName, SafetyClass, SourceName, ToolName, ToolStatus,
    TrustLabel,
};
use serde_json::json;
use store::{MOST_NAMES, MOST_VERSIONS, Pin, Role, StanceError, ToolRow, label_of};

use crate::gate::{Gate, NOW};

fn row(description: &str) -> ToolRow {
    let definition: Definition = serde_json::from_value(json!({
        "name": "mcp_a_b", "title": "b", "description": description, "category": "mcp", "action": "mcp:call",
        "safety": "network", "egress": "write", "idempotency": "none", "cost": "free",
        "input": { "type": "object" }, "output": { "type": "object" },
        "examples": [], "failure_modes": [], "timeout_seconds": 30,
    }))
    .unwrap();
    ToolRow::of(&Contract::with_trust(definition, TrustLabel::Untrusted).unwrap())
}

fn source() -> SourceName {
    SourceName::parse("mcp:a").unwrap()
}

fn tool() -> ToolName {
    ToolName::parse("mcp_a_b").unwrap()
}

async fn person(gate: &Gate, name: &str, role: Role) -> OperatorName {
    let operator = OperatorName::parse(name).unwrap();
    gate.store.add_operator(&operator, role, Digest::of(name.as_bytes()), NOW).await.unwrap();
    operator
}

fn pin(hash: Digest, by: &OperatorName) -> Pin {
    Pin { hash, safety: SafetyClass::Read, egress: EgressClass::None, by: by.clone(), at: NOW }
}

async fn offer(gate: &Gate, description: &str) -> Digest {
    let offered = row(description);
    let registered = gate.store.register_from(&source(), std::slice::from_ref(&offered), NOW).await.unwrap();
    assert!(registered.refused.is_empty(), "{:?}", registered.refused);
    offered.hash
}

#[tokio::test]
async fn a_pin_is_for_one_definition_and_any_other_suspends_the_tool_until_it_is_pinned_again() {
    let gate = Gate::open().await;
    let admin = person(&gate, "admin", Role::Admin).await;
    let first = offer(&gate, "Adds.").await;
    gate.store.pin_tool(&tool(), &pin(first, &admin)).await.unwrap();
    let stance = gate.store.stances().await.unwrap().of(&tool());
    assert_eq!((stance.pin.clone(), stance.is_suspended), (Some(pin(first, &admin)), false));
    assert_eq!(label_of(&stance, &first, TrustLabel::Imported), TrustLabel::Pinned);
    let second = offer(&gate, "Adds, and mails.").await;
    let stance = gate.store.stances().await.unwrap().of(&tool());
    assert!(stance.is_suspended);
    assert_eq!(label_of(&stance, &first, TrustLabel::Imported), TrustLabel::Imported);
    let row = gate.store.tool(&tool()).await.unwrap().unwrap();
    assert_eq!((row.hash, row.status), (second, ToolStatus::Suspended), "what somebody has to look at");
    offer(&gate, "Adds.").await;
    assert!(gate.store.stances().await.unwrap().of(&tool()).is_suspended, "also if it changes back");
    gate.store.pin_tool(&tool(), &pin(second, &admin)).await.unwrap();
    let stance = gate.store.stances().await.unwrap().of(&tool());
    assert_eq!((stance.pin.map(|pin| pin.hash), stance.is_suspended), (Some(second), false));
}

#[tokio::test]
async fn a_row_that_says_so_pins_nothing_and_one_that_does_not_unpins_nothing() {
    let gate = Gate::open().await;
    let admin = person(&gate, "admin", Role::Admin).await;
    let first = offer(&gate, "Adds.").await;
    let mut raw = gate.raw().await;
    raw.run("UPDATE tools SET trust = 'pinned', safety = 'read', egress = 'none'").await.unwrap();
    assert_eq!(gate.store.stances().await.unwrap().of(&tool()).pin, None);
    gate.store.pin_tool(&tool(), &pin(first, &admin)).await.unwrap();
    raw.run("UPDATE tools SET trust = 'imported'").await.unwrap();
    offer(&gate, "Adds, and mails.").await;
    assert!(gate.store.stances().await.unwrap().of(&tool()).is_suspended, "the ledger tells of the pin");
}

#[tokio::test]
async fn only_an_admin_pins_and_only_what_was_registered() {
    let gate = Gate::open().await;
    let (admin, approver) =
        (person(&gate, "admin", Role::Admin).await, person(&gate, "other", Role::Approver).await);
    let first = offer(&gate, "Adds.").await;
    let refused = gate.store.pin_tool(&tool(), &pin(first, &approver)).await;
    assert!(matches!(refused, Err(StanceError::NotAdmin { .. })), "{refused:?}");
    let unseen = gate.store.pin_tool(&tool(), &pin(Digest::of(b"x"), &admin)).await;
    assert!(matches!(unseen, Err(StanceError::Unknown { .. })), "{unseen:?}");
    let off = gate.store.switch_tool(&tool(), ToolStatus::Disabled, &approver, NOW).await;
    assert!(matches!(off, Err(StanceError::NotAdmin { .. })), "{off:?}");
}

#[tokio::test]
async fn what_is_switched_off_is_off_until_it_is_switched_on_and_what_writes_outside_asks_whoever_pins_it() {
    let gate = Gate::open().await;
    let admin = person(&gate, "admin", Role::Admin).await;
    let first = offer(&gate, "Adds.").await;
    for (status, is_disabled) in [(ToolStatus::Disabled, true), (ToolStatus::Active, false)] {
        gate.store.switch_tool(&tool(), status, &admin, NOW).await.unwrap();
        assert_eq!(gate.store.stances().await.unwrap().of(&tool()).is_disabled, is_disabled);
        assert_eq!(gate.store.tool(&tool()).await.unwrap().unwrap().status, status);
    }
    let writes = Pin { egress: EgressClass::Write, ..pin(first, &admin) };
    gate.store.pin_tool(&tool(), &writes).await.unwrap();
    gate.raw().await.run("UPDATE tools SET requires_approval = 0").await.unwrap();
    assert!(gate.store.tool(&tool()).await.unwrap().unwrap().requires_approval);
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn of_a_strangers_tool_the_newest_versions_are_kept_and_the_pinned_one() {
    let gate = Gate::open().await;
    let admin = person(&gate, "admin", Role::Admin).await;
    let first = offer(&gate, "Adds 0.").await;
    gate.store.pin_tool(&tool(), &pin(first, &admin)).await.unwrap();
    let mut offered = Vec::new();
    for number in 1..60 {
        let row = row(&format!("Adds {number}."));
        let at = NOW + number;
        gate.store.register_from(&source(), std::slice::from_ref(&row), at).await.unwrap();
        offered.push(row.hash);
    }
    let newest = offered.split_off(offered.len() - MOST_VERSIONS);
    let kept = gate.store.tool_versions(&tool()).await.unwrap();
    let kept: Vec<Digest> = kept.into_iter().map(|(hash, ..)| hash).collect();
    assert_eq!(kept, [vec![first], newest.clone()].concat());
    gate.store.pin_tool(&tool(), &pin(first, &admin)).await.unwrap();
    // The database keeps to it, too.
    let mut raw = gate.raw().await;
    assert!(raw.run("DELETE FROM tool_versions").await.is_err());
    for hash in newest {
        assert!(raw.run(&format!("DELETE FROM tool_versions WHERE hash = '{hash}'")).await.is_err());
    }
}

#[tokio::test]
async fn a_source_that_has_brought_so_many_names_brings_no_other() {
    let gate = Gate::open().await;
    let named = |number: usize| {
        let name = ToolName::parse(&format!("mcp_s_t{number}")).unwrap();
        ToolRow { name, ..row("Adds.") }
    };
    let rows: Vec<ToolRow> = (0..MOST_NAMES).map(named).collect();
    assert_eq!(gate.store.register_from(&source(), &rows, NOW).await.unwrap().refused.len(), 0);
    let new = [named(0), named(MOST_NAMES), named(MOST_NAMES + 1)];
    let registered = gate.store.register_from(&source(), &new, NOW + 1).await.unwrap();
    let refused: Vec<&str> = registered.refused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(refused, [new[1].name.as_str(), new[2].name.as_str()]);
    assert_eq!(registered.states.len(), MOST_NAMES);
    let changed = ToolRow { name: new[0].name.clone(), ..row("Adds more.") };
    gate.store.register_from(&source(), std::slice::from_ref(&changed), NOW + 2).await.unwrap();
    let listed = gate.store.tools_from(&source(), 5).await.unwrap();
    assert_eq!((listed.len(), &listed[0].name), (5, &changed.name), "what has changed comes first");
}
