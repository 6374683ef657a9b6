//! What people and agents come in with: passwords, passkeys and tokens, whose they are, and how often somebody may try.

use contract::{AgentName, Digest};
use serde_json::json;
use store::{
    Account, By, DoorEvent, MOST_TRIES, MOST_TRIES_OF_ALL, Passkey, PresenceError, Replace, StopError,
    TRIES_COUNT_FOR, TokenError, TryError,
};

use crate::gate::{Gate, NOW, call_id, operator, running};

const VERIFIER: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$one";
const ANOTHER: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$two";

fn passkey(id: &str, of: &str) -> Passkey {
    Passkey {
        id: id.to_owned(),
        operator: operator(of),
        algorithm: -7,
        public_key: format!("key of {id}"),
        label: "mine".to_owned(),
        added_at: NOW,
    }
}

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

async fn again_in(gate: &Gate, account: &str, now: i64) -> Option<i64> {
    match gate.store.try_to_sign_in(Account::Known(account), now).await {
        Ok(()) => None,
        Err(TryError::TooMany { again_in }) => Some(again_in),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_password_is_its_owners_until_another_is_set_or_they_are_removed() {
    let gate = Gate::open().await;
    let (you, me) = (operator("you"), operator("me"));
    assert_eq!(gate.store.password_of(&you).await.unwrap(), None);
    gate.store.set_password(&you, VERIFIER, NOW).await.unwrap();
    let elsewhere = gate.again().await;
    assert_eq!(elsewhere.password_of(&you).await.unwrap().as_deref(), Some(VERIFIER));
    assert_eq!(gate.store.password_of(&me).await.unwrap(), None);
    gate.store.set_password(&you, ANOTHER, NOW + 1).await.unwrap();
    assert_eq!(elsewhere.password_of(&you).await.unwrap().as_deref(), Some(ANOTHER));
    gate.store.remove_operator(&you, By::Operator(&me), NOW + 2).await.unwrap();
    assert_eq!(gate.store.password_of(&you).await.unwrap(), None);
    for nobody in [&you, &operator("nobody")] {
        let error = gate.store.set_password(nobody, VERIFIER, NOW + 3).await.unwrap_err();
        assert!(matches!(error, PresenceError::Unknown { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_a_password_is_compared_with_is_not_in_the_ledger_and_a_row_of_another_hand_is_nobodys() {
    let gate = Gate::open().await;
    let you = operator("you");
    gate.store.set_password(&you, VERIFIER, NOW).await.unwrap();
    let told = gate.store.latest_event(-1).await.unwrap().pop().unwrap();
    assert_eq!(told.kind, "operator.password");
    assert_eq!((&told.body["operator"], &told.body["verifier"]), (&json!("you"), &json!(digest(VERIFIER))));
    assert!(!told.body.to_string().contains("argon2id"));
    // Swapped, and then put back as it was before the last one.
    let mut raw = gate.raw().await;
    let swap = |to: &str| format!("UPDATE operator_passwords SET verifier = '{to}'");
    raw.run(&swap(ANOTHER)).await.unwrap();
    assert_eq!(gate.store.password_of(&you).await.unwrap(), None);
    raw.run(&swap(VERIFIER)).await.unwrap();
    assert_eq!(gate.store.password_of(&you).await.unwrap().as_deref(), Some(VERIFIER));
    gate.store.set_password(&you, ANOTHER, NOW).await.unwrap();
    raw.run(&swap(VERIFIER)).await.unwrap();
    assert_eq!(gate.store.password_of(&you).await.unwrap(), None);
    // One that nobody set.
    let row = format!("INSERT INTO operator_passwords VALUES ('guest', '{VERIFIER}', 1)");
    raw.run(&row).await.unwrap();
    assert_eq!(gate.store.password_of(&operator("guest")).await.unwrap(), None);
    assert!(raw.run("UPDATE operator_passwords SET verifier = 'in the clear'").await.is_err());
}

#[tokio::test]
async fn a_passkey_is_one_operators_while_they_are_one_and_until_it_is_taken_away() {
    let gate = Gate::open().await;
    let (you, me) = (operator("you"), operator("me"));
    let own = passkey("k1", "you");
    gate.store.add_passkey(&own, 3).await.unwrap();
    let elsewhere = gate.again().await;
    assert_eq!(elsewhere.passkey("k1").await.unwrap(), Some(own.clone()));
    assert_eq!(elsewhere.passkeys_of(&you).await.unwrap(), std::slice::from_ref(&own));
    assert_eq!(elsewhere.passkeys_of(&me).await.unwrap(), []);
    let taken = gate.store.add_passkey(&passkey("k1", "me"), 0).await.unwrap_err();
    assert!(matches!(taken, PresenceError::Taken), "{taken}");
    let unknown = gate.store.add_passkey(&passkey("k2", "nobody"), 0).await.unwrap_err();
    assert!(matches!(unknown, PresenceError::Unknown { .. }), "{unknown}");
    let of_another = gate.store.remove_passkey("k1", &me, NOW).await.unwrap_err();
    assert!(matches!(of_another, PresenceError::NoPasskey), "{of_another}");
    gate.store.remove_passkey("k1", &you, NOW).await.unwrap();
    assert_eq!(elsewhere.passkey("k1").await.unwrap(), None);
    let again = gate.store.remove_passkey("k1", &you, NOW).await.unwrap_err();
    assert!(matches!(again, PresenceError::NoPasskey), "{again}");
    // One that is free again can be somebody else's; and it goes with its owner.
    gate.store.add_passkey(&own, 0).await.unwrap();
    gate.store.remove_operator(&you, By::Operator(&me), NOW + 1).await.unwrap();
    assert_eq!(gate.store.passkey("k1").await.unwrap(), None);
    let kinds: Vec<String> =
        gate.store.latest_event(3).await.unwrap().into_iter().map(|entry| entry.kind).collect();
    let passkeys = ["operator.passkey", "operator.passkey_removed", "operator.passkey", "operator.removed"];
    assert_eq!(kinds, passkeys);
}

#[tokio::test]
async fn somebody_has_twenty_passkeys_and_no_more() {
    let gate = Gate::open().await;
    for number in 0..20 {
        gate.store.add_passkey(&passkey(&format!("k{number}"), "you"), 0).await.unwrap();
    }
    let error = gate.store.add_passkey(&passkey("one more", "you"), 0).await.unwrap_err();
    assert!(matches!(error, PresenceError::TooMany), "{error}");
    gate.store.add_passkey(&passkey("one more", "me"), 0).await.unwrap();
}

#[tokio::test]
async fn an_authenticator_that_was_used_less_often_than_before_is_a_copy() {
    let gate = Gate::open().await;
    gate.store.add_passkey(&passkey("counts", "you"), 5).await.unwrap();
    gate.store.add_passkey(&passkey("does not", "you"), 0).await.unwrap();
    let mut seen = Vec::new();
    for (id, uses) in
        [("counts", 6), ("counts", 6), ("counts", 5), ("counts", 0), ("counts", 9), ("counts", 8)]
    {
        seen.push(gate.store.use_passkey(id, uses).await.unwrap());
    }
    assert_eq!(seen, [true, false, false, false, true, false]);
    // Some never count; one that begins to does not stop again.
    let mut seen = Vec::new();
    for uses in [0, 0, 4, 0] {
        seen.push(gate.store.use_passkey("does not", uses).await.unwrap());
    }
    assert_eq!(seen, [true, true, true, false]);
    assert!(!gate.store.use_passkey("unknown", 1).await.unwrap());
}

#[tokio::test]
async fn tries_for_one_name_and_for_all_are_counted_until_they_are_old() {
    let gate = Gate::open().await;
    for number in 0..MOST_TRIES {
        assert_eq!(again_in(&gate, "you", NOW + number).await, None);
    }
    // Another process counts the same, and another name is not kept out.
    let elsewhere = gate.again().await;
    assert!(matches!(
        elsewhere.try_to_sign_in(Account::Known("you"), NOW + 10).await,
        Err(TryError::TooMany { .. })
    ));
    assert_eq!(again_in(&gate, "you", NOW + 10).await, Some(TRIES_COUNT_FOR - 10));
    assert_eq!(again_in(&gate, "me", NOW + 10).await, None);
    // The first is old: one more is free, and then not.
    assert_eq!(again_in(&gate, "you", NOW + TRIES_COUNT_FOR).await, None);
    assert!(again_in(&gate, "you", NOW + TRIES_COUNT_FOR).await.is_some());
    // Whoever has succeeded starts anew; nobody else does.
    gate.store.has_signed_in("you").await.unwrap();
    assert_eq!(again_in(&gate, "you", NOW + TRIES_COUNT_FOR).await, None);
}

#[tokio::test]
async fn many_names_do_not_get_more_tries_than_all_have() {
    let gate = Gate::open().await;
    for number in 0..MOST_TRIES_OF_ALL {
        assert_eq!(again_in(&gate, &format!("name {number}"), NOW).await, None);
    }
    assert_eq!(again_in(&gate, "another", NOW + 5).await, Some(TRIES_COUNT_FOR - 5));
    gate.store.has_signed_in("name 7").await.unwrap();
    assert_eq!(again_in(&gate, "another", NOW + 5).await, None);
}

#[tokio::test]
async fn names_that_are_nobodys_use_up_nobodys_tries() {
    let gate = Gate::open().await;
    let made_up = async |name: &str| gate.store.try_to_sign_in(Account::Unknown(name), NOW).await;
    for _ in 0..MOST_TRIES {
        made_up("nobody").await.unwrap();
    }
    // One of them is counted as anybody's is, and all of them as all are.
    assert!(matches!(made_up("nobody").await, Err(TryError::TooMany { .. })));
    for number in MOST_TRIES..MOST_TRIES_OF_ALL {
        made_up(&format!("nobody {number}")).await.unwrap();
    }
    assert!(matches!(made_up("one more").await, Err(TryError::TooManyUnknown)));
    assert_eq!(again_in(&gate, "you", NOW).await, None);
    assert_eq!(again_in(&gate, "nobody", NOW).await, None);
}

#[tokio::test]
async fn tries_that_are_made_at_once_are_as_many_as_one_after_the_other() {
    let gate = Gate::open().await;
    let tries = (0..24).map(|_| {
        let store = gate.store.clone();
        tokio::spawn(async move { store.try_to_sign_in(Account::Known("you"), NOW).await.is_ok() })
    });
    let mut made = 0;
    for one in tries.collect::<Vec<_>>() {
        made += i64::from(one.await.unwrap());
    }
    assert_eq!(made, MOST_TRIES);
}

#[tokio::test]
async fn a_token_is_one_agents_until_another_is_issued_or_it_is_revoked() {
    let gate = Gate::open().await;
    let (builder, me) = (agent("builder"), operator("me"));
    let elsewhere = gate.again().await;
    gate.store.issue_token(&builder, digest("t1"), Replace::No, By::Owner, NOW).await.unwrap();
    assert_eq!(elsewhere.agent_of_token(&digest("t1")).await.unwrap(), Some(builder.clone()));
    let kept = elsewhere.token_of(&builder).await.unwrap().unwrap();
    assert_eq!((kept.agent, kept.digest, kept.issued_at), (builder.clone(), digest("t1"), NOW));
    let again = gate.store.issue_token(&builder, digest("t2"), Replace::No, By::Owner, NOW).await;
    assert!(matches!(again, Err(TokenError::Taken { .. })));
    gate.store.issue_token(&builder, digest("t2"), Replace::Yes, By::Operator(&me), NOW + 1).await.unwrap();
    assert_eq!(elsewhere.agent_of_token(&digest("t1")).await.unwrap(), None);
    assert_eq!(elsewhere.agent_of_token(&digest("t2")).await.unwrap(), Some(builder.clone()));
    gate.store.revoke_token(&builder, By::Operator(&me), NOW + 2).await.unwrap();
    assert_eq!(elsewhere.agent_of_token(&digest("t2")).await.unwrap(), None);
    assert_eq!(elsewhere.token_of(&builder).await.unwrap(), None);
    let none = gate.store.revoke_token(&builder, By::Owner, NOW + 3).await;
    assert!(matches!(none, Err(TokenError::None { .. })));
    let told: Vec<_> = gate.store.latest_event(3).await.unwrap();
    let told: Vec<_> = told.iter().map(|entry| (entry.kind.as_str(), &entry.body["by"])).collect();
    assert_eq!(
        told,
        [("agent.token", &json!(null)), ("agent.token", &json!("me")), ("agent.token_revoked", &json!("me"))]
    );
}

#[tokio::test]
async fn only_an_admin_issues_and_revokes_tokens_and_no_token_is_anybodys_twice() {
    let gate = Gate::open().await;
    let (builder, other) = (agent("builder"), agent("other"));
    gate.store.issue_token(&builder, digest("t1"), Replace::No, By::Owner, NOW).await.unwrap();
    for name in ["you", "guest", "nobody"] {
        let by = operator(name);
        let issued =
            gate.store.issue_token(&builder, digest("x"), Replace::Yes, By::Operator(&by), NOW).await;
        assert!(matches!(issued, Err(TokenError::NotAdmin { .. })), "{name}");
        let revoked = gate.store.revoke_token(&builder, By::Operator(&by), NOW).await;
        assert!(matches!(revoked, Err(TokenError::NotAdmin { .. })), "{name}");
    }
    // Of another agent, and of an operator.
    for taken in ["t1", "me"] {
        let issued = gate.store.issue_token(&other, digest(taken), Replace::Yes, By::Owner, NOW).await;
        assert!(matches!(issued, Err(TokenError::Known)), "{taken}");
    }
    assert_eq!(gate.store.agent_of_token(&digest("t1")).await.unwrap(), Some(builder));
    assert_eq!(gate.store.agent_of_token(&digest("me")).await.unwrap(), None);
}

#[tokio::test]
async fn tokens_passkeys_and_passwords_are_there_when_the_store_is_opened_again() {
    let gate = Gate::open().await;
    let you = operator("you");
    gate.store.set_password(&you, VERIFIER, NOW).await.unwrap();
    gate.store.add_passkey(&passkey("k1", "you"), 1).await.unwrap();
    gate.store.issue_token(&agent("builder"), digest("t1"), Replace::No, By::Owner, NOW).await.unwrap();
    let later = gate.again().await;
    assert_eq!(later.password_of(&you).await.unwrap().as_deref(), Some(VERIFIER));
    assert_eq!(later.passkey("k1").await.unwrap(), Some(passkey("k1", "you")));
    assert_eq!(later.agent_of_token(&digest("t1")).await.unwrap(), Some(agent("builder")));
    later.verify(None).await.unwrap();
}

#[tokio::test]
async fn who_came_and_went_is_told() {
    let gate = Gate::open().await;
    for event in [DoorEvent::LinkMade, DoorEvent::SignedIn, DoorEvent::SignedOut, DoorEvent::Refused] {
        gate.store.record_at_the_door(event, json!({ "operator": "you" }), NOW).await.unwrap();
    }
    let told = gate.store.latest_event(3).await.unwrap();
    let kinds: Vec<&str> = told.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["operator.link_made", "operator.signed_in", "operator.signed_out", "operator.sign_in_refused"]
    );
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn who_ends_a_call_is_told_and_a_viewer_ends_none() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    for nobody in ["guest", "nobody"] {
        let refused = gate.store.record_stop(&call_id(1), &operator(nobody), "http", NOW).await;
        assert!(matches!(refused, Err(StopError::NotAllowed { .. })), "{nobody}");
    }
    gate.store.record_stop(&call_id(1), &operator("you"), "http", NOW).await.unwrap();
    let told = gate.store.latest_event(-1).await.unwrap().pop().unwrap();
    assert_eq!((told.kind.as_str(), &told.body["by"]), ("call.stopped", &json!("you")));
    assert_eq!((&told.body["call"], &told.body["via"]), (&json!(call_id(1)), &json!("http")));
    gate.store.verify(None).await.unwrap();
}
