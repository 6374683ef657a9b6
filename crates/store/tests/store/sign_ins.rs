//! What the gate has to show servers: sealed, for one server, and told of.

use serde_json::json;

use crate::gate::{Gate, NOW};

#[tokio::test]
async fn a_sign_in_reads_back_and_is_nowhere_in_the_open() {
    let gate = Gate::open().await;
    assert_eq!(gate.store.sign_in("docs").await.unwrap(), None);
    let told = Some(("server.signed_in", json!({ "server": "docs" })));
    gate.store.keep_sign_in("docs", b"t0ken", told, NOW).await.unwrap();
    assert_eq!(
        gate.store.sign_in("docs").await.unwrap().as_deref().map(Vec::as_slice),
        Some(b"t0ken".as_slice())
    );
    gate.store.keep_sign_in("docs", b"an0ther", None, NOW).await.unwrap();
    assert_eq!(
        gate.store.sign_in("docs").await.unwrap().as_deref().map(Vec::as_slice),
        Some(b"an0ther".as_slice())
    );
    let sealed = gate.raw().await.bytes("SELECT sealed FROM sign_ins").await;
    assert!(!sealed.windows(7).any(|part| part == b"an0ther"));
    let mut ledger = Vec::new();
    gate.store.export(&mut ledger).await.unwrap();
    let ledger = String::from_utf8(ledger).unwrap();
    assert!(ledger.contains("server.signed_in") && !ledger.contains("t0ken"), "{ledger}");
}

#[tokio::test]
async fn what_is_sealed_for_one_server_opens_for_no_other() {
    let gate = Gate::open().await;
    gate.store.keep_sign_in("docs", b"t0ken", None, NOW).await.unwrap();
    gate.raw().await.run("UPDATE sign_ins SET server = 'evil'").await.unwrap();
    assert!(gate.store.sign_in("evil").await.is_err());
}
