//! Past calls: read in pages, in the ledger's order, and told from what somebody has put in their place.

use contract::{AgentName, CallId, CallStatus, Digest};
use serde_json::json;
use store::{NewCall, Opened, Span, danger};

use crate::gate::{Gate, NOW, operator, refused, running, settlement};

fn at(number: u8) -> NewCall {
    let arguments = json!({ "number": number }).to_string();
    NewCall {
        arguments: Digest::of(arguments.as_bytes()),
        arguments_json: arguments,
        asked_at: NOW + i64::from(number),
        trace: json!([{ "layer": "action", "says": "allow", "why": "free" }]),
        ..running(number)
    }
}

/// Every call of a span, read two at a time.
async fn all(gate: &Gate, span: &Span) -> Vec<Opened> {
    let Some(through) = gate.store.last_planned().await.unwrap() else { return Vec::new() };
    let (mut opened, mut after) = (Vec::new(), Some(-1));
    while let Some(place) = after {
        let page = gate.store.past(span, place, through, 2).await.unwrap();
        assert!(page.len() <= 2);
        opened.extend(page.opened(gate.store.keys(), |_| true));
        after = page.next;
    }
    opened
}

fn ids(opened: &[Opened]) -> Vec<CallId> {
    let whole = opened.iter().filter_map(|call| match call {
        Opened::Whole(row) => Some(row.id.clone()),
        _ => None,
    });
    whole.collect()
}

#[tokio::test]
async fn past_calls_are_read_in_the_order_of_the_ledger_whatever_the_pages() {
    let gate = Gate::open().await;
    assert_eq!(all(&gate, &Span::default()).await, []);
    let calls = [at(9), at(3), at(7), at(1), at(5)];
    for call in &calls {
        gate.record(call.clone()).await;
    }
    let opened = all(&gate, &Span::default()).await;
    assert_eq!(ids(&opened), calls.clone().map(|call| call.id));
    let Opened::Whole(first) = &opened[0] else { panic!("{opened:?}") };
    assert_eq!(first.arguments.text(), calls[0].arguments_json);
    assert_eq!(first.said, [("action".to_owned(), "allow".to_owned())]);
    let span = Span { since: Some(NOW + 3), until: Some(NOW + 7), agent: None };
    assert_eq!(ids(&all(&gate, &span).await), [&calls[1], &calls[2], &calls[4]].map(|call| call.id.clone()));
    let last = gate.store.last_planned().await.unwrap().unwrap();
    assert_eq!(gate.store.count_past(&span, last).await.unwrap(), 3);
    let nobody = Span { agent: Some(AgentName::parse("nobody").unwrap()), ..Span::default() };
    assert_eq!(all(&gate, &nobody).await, []);
    let somebody = Span { agent: Some(calls[0].agent.clone()), ..Span::default() };
    assert_eq!(all(&gate, &somebody).await.len(), 5);
}

#[tokio::test]
async fn what_cannot_be_decided_again_is_told_and_why() {
    let gate = Gate::open().await;
    let (kept, erased, empty) = (at(1), at(2), NewCall { arguments_json: String::new(), ..refused(3) });
    for call in [&kept, &erased, &empty] {
        gate.record(call.clone()).await;
    }
    gate.store.settle(&settlement(&erased, CallStatus::Completed)).await.unwrap();
    gate.store.erase(&erased.id, &operator("me"), None, NOW).await.unwrap();
    let opened = all(&gate, &Span::default()).await;
    assert_eq!(ids(&opened), std::slice::from_ref(&kept.id));
    assert_eq!(opened[1..], [Opened::Erased { id: erased.id }, Opened::NotKept { id: empty.id }]);

    let altered = Opened::Altered { id: kept.id.to_string() };
    let set = |what: &str| format!("UPDATE calls SET {what} WHERE id = '{}'", kept.id);
    let changes = [
        ("agent = 'somebody'", format!("agent = '{}'", kept.agent)),
        ("tool = 'fs.delete'", format!("tool = '{}'", kept.tool)),
        ("asked_at = 5", format!("asked_at = {}", kept.asked_at)),
    ];
    for (change, undo) in changes {
        danger::meddle(&gate.url, &[set(change)]).await.unwrap();
        assert_eq!(all(&gate, &Span::default()).await[0], altered, "{change}");
        danger::meddle(&gate.url, &[set(&undo)]).await.unwrap();
    }
    assert_eq!(ids(&all(&gate, &Span::default()).await), std::slice::from_ref(&kept.id));
    // The row and its entry together: one call is proved by what was signed.
    let body = format!(
        "UPDATE ledger SET body = replace(body, '{}', 'somebody') WHERE kind = 'call.planned'",
        kept.agent
    );
    danger::meddle(&gate.url, &[set("agent = 'somebody'"), body]).await.unwrap();
    let (proved, _) = gate.store.past_call(&kept.id).await.unwrap().unwrap();
    assert_eq!(proved, altered);
}

#[tokio::test]
async fn many_calls_at_once_are_what_each_by_itself_would_be() {
    let gate = Gate::open().await;
    let calls: Vec<NewCall> = (1..=5).map(at).collect();
    let ended = calls.iter().map(|call| (call.clone(), settlement(call, CallStatus::Completed))).collect();
    danger::record_many(&gate.store, ended).await.unwrap();
    assert_eq!(ids(&all(&gate, &Span::default()).await).len(), 5);
    for call in &calls {
        let row = gate.store.call(&call.id).await.unwrap().unwrap();
        assert_eq!(row.status, CallStatus::Completed);
        assert!(gate.store.receipt(&call.id).await.unwrap().is_some());
    }
    gate.store.verify(None).await.unwrap();
}
