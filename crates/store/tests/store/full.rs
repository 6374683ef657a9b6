//! A disk that is full, and then is not.

use contract::{CallId, Digest};
use store::{NewCall, RecordError, Store, StoreError};

use crate::gate::running;

/// A call whose arguments do not get smaller by being packed.
fn large(number: u64) -> NewCall {
    let mut seed = Digest::of(&number.to_be_bytes());
    let text: String = (0..1500)
        .map(|_| {
            seed = Digest::of(seed.to_string().as_bytes());
            seed.to_string()
        })
        .collect();
    let text = format!("\"{text}\"");
    let id = CallId::from_random(u128::from(number).to_be_bytes());
    NewCall { id, arguments: Digest::of(text.as_bytes()), arguments_json: text, ..running(1) }
}

/// Records until the disk is full, makes room, and goes on.
pub(crate) async fn fill_and_go_on(store: &Store, make_room: impl FnOnce()) {
    let mut recorded = 0;
    let error = loop {
        match store.record_call(large(recorded)).await {
            Ok(_) => recorded += 1,
            Err(error) => break error,
        }
        assert!(recorded < 1000, "it never fills");
    };
    assert!(matches!(error, RecordError::Store(StoreError::Full(_))), "{error:?}");
    let told = store.record_call(large(recorded)).await;
    assert!(matches!(told, Err(RecordError::Store(StoreError::Full(_)))), "{told:?}");
    // Nothing is lost, and nothing is there of which its caller was told that it is not.
    let recorded_calls = store.calls(2000, None).await.unwrap().len();
    assert_eq!(u64::try_from(recorded_calls).unwrap(), recorded);
    store.verify(None).await.unwrap();
    make_room();
    for number in recorded..recorded + 20 {
        store.record_call(large(number)).await.unwrap();
    }
    store.verify(None).await.unwrap();
}
