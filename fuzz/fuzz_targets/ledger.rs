//! Whatever is offered as an exported ledger, a receipt, a checkpoint or a proof: nothing but what this gate has signed is
//! taken for it, and nothing makes a panic.
#![no_main]

#[path = "../gate.rs"]
mod gate;

use std::path::Path;
use std::sync::OnceLock;

use contract::{Canonical, ReceiptBody};
use gate::{AGENTS, gate, request};
use libfuzzer_sys::fuzz_target;
use store::{Checkpoint, ConsistencyProof, InclusionProof, PublicKey, verify_export, verify_receipt};
use tokio_util::sync::CancellationToken;

/// What the gate has signed.
struct Signed {
    key: PublicKey,
    export: Vec<u8>,
    receipt: String,
    body: ReceiptBody,
    notes: [String; 2],
    proof: InclusionProof,
    consistency: ConsistencyProof,
}

fn signed() -> &'static Signed {
    static SIGNED: OnceLock<Signed> = OnceLock::new();
    SIGNED.get_or_init(|| gate().runtime.block_on(sign()))
}

async fn sign() -> Signed {
    let (engine, store) = (&gate().engine, gate().engine.store());
    let refused =
        || request(AGENTS[0], "fs.read", Canonical::parse(r#"{"path":"../x"}"#).expect("it is JSON"));
    let call = || engine.call(refused(), std::time::Duration::ZERO, CancellationToken::new());
    let before = call().await;
    let first = store.checkpoint(engine.now()).await.expect("a checkpoint");
    call().await;
    let key = store.keys().public().clone();
    let receipt = store.receipt(&before.call_id).await.expect("the store answers").expect("it is settled");
    let proof = store.prove(3).await.expect("a proof");
    let mut export = Vec::new();
    store.export(&mut export).await.expect("an export");
    let second = store.checkpoint(engine.now()).await.expect("a checkpoint");
    let size = |note: &str| Checkpoint::open(note, &key).expect("it is ours").size;
    let consistency = store.consistency(size(&first), size(&second)).await.expect("a proof");
    let body = verify_receipt(&receipt, &key).expect("it is ours");
    verify_export(export.as_slice(), &key, Some(&first)).expect("it is ours");
    Signed { key, export, receipt, body, notes: [first, second], proof, consistency }
}

fuzz_target!(
    init: {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/ledger");
        std::fs::create_dir_all(&corpus).expect("a folder can be made");
        let signed = signed();
        let seeds = [
            ("export", 0, signed.export.clone()),
            ("receipt", 1, signed.receipt.clone().into_bytes()),
            ("checkpoint", 2, signed.notes[0].clone().into_bytes()),
            ("proof", 3, serde_json::to_vec(&signed.proof).expect("it is JSON")),
            ("consistency", 4, serde_json::to_vec(&signed.consistency).expect("it is JSON")),
            ("key", 5, signed.key.to_string().into_bytes()),
        ];
        for (name, kind, bytes) in seeds {
            std::fs::write(corpus.join(name), [vec![kind], bytes].concat()).expect("a seed");
        }
    },
    |bytes: &[u8]| {
        let Some((kind, bytes)) = bytes.split_first() else { return };
        let (signed, text) = (signed(), String::from_utf8_lossy(bytes));
        match kind % 6 {
            0 => {
                if verify_export(bytes, &signed.key, None).is_ok() {
                    assert!(bytes == signed.export, "another ledger is taken for ours");
                }
            }
            1 => {
                if let Ok(body) = verify_receipt(&text, &signed.key) {
                    assert_eq!(body, signed.body);
                }
            }
            2 => {
                if let Ok(checkpoint) = Checkpoint::open(&text, &signed.key) {
                    let ours = signed.notes.iter().filter_map(|note| Checkpoint::open(note, &signed.key).ok());
                    assert!(ours.into_iter().any(|own| own == checkpoint), "{checkpoint:?}");
                }
            }
            3 => {
                let Ok(proof) = serde_json::from_slice::<InclusionProof>(bytes) else { return };
                if proof.verify(&signed.key).is_ok() {
                    assert_eq!((&proof.entry, proof.index), (&signed.proof.entry, signed.proof.index));
                }
            }
            4 => {
                let Ok(proof) = serde_json::from_slice::<ConsistencyProof>(bytes) else { return };
                let open = |note: &String| Checkpoint::open(note, &signed.key).expect("it is ours");
                let (old, new) = (open(&signed.notes[0]), open(&signed.notes[1]));
                if proof.verify(&old, &new).is_ok() {
                    assert_eq!((proof.old_size, proof.new_size), (old.size, new.size));
                }
                assert!(proof.verify(&new, &old).is_err(), "a ledger does not shrink");
            }
            _ => {
                if let Ok(key) = PublicKey::parse(&text) {
                    assert_eq!(PublicKey::parse(&key.to_string()).map(|key| key.to_string()), Ok(key.to_string()));
                }
            }
        }
    }
);
