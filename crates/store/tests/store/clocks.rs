//! How time goes on from one process to the next.

use store::Witness;

use crate::gate::{Gate, NOW};

fn at(boot: &str, since_boot: i64, time: i64) -> Witness {
    Witness { boot: boot.to_owned(), since_boot, time }
}

#[tokio::test]
async fn what_time_it_was_is_kept_for_each_start_of_a_host_and_only_goes_forward() {
    let gate = Gate::open().await;
    let store = gate.again().await;
    assert_eq!(gate.store.witness("one").await.unwrap(), None);
    for witness in [at("one", 1000, NOW), at("two", 5, NOW - 7)] {
        gate.store.keep_witness(&witness).await.unwrap();
        assert_eq!(store.witness(&witness.boot).await.unwrap(), Some(witness));
    }
    // A minute later it is a minute later: nothing new. Less than that is a clock that was set back.
    for same_or_back in
        [at("one", 61_000, NOW + 60_000), at("one", 61_000, NOW - 60_000), at("one", 0, NOW - 1000)]
    {
        store.keep_witness(&same_or_back).await.unwrap();
        assert_eq!(store.witness("one").await.unwrap(), Some(at("one", 1000, NOW)), "{same_or_back:?}");
    }
    let ahead = at("one", 2000, NOW + 5000);
    store.keep_witness(&ahead).await.unwrap();
    assert_eq!(gate.store.witness("one").await.unwrap(), Some(ahead));
    let mut raw = gate.raw().await;
    assert_eq!(raw.run("UPDATE clocks SET time = time - 1").await.unwrap_err(), "time does not go back");
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn hosts_that_are_long_gone_are_forgotten() {
    let gate = Gate::open().await;
    gate.store.keep_witness(&at("gone", 1, NOW)).await.unwrap();
    gate.store.keep_witness(&at("here", 1, NOW + 91 * 24 * 3_600_000)).await.unwrap();
    assert_eq!(gate.store.witness("gone").await.unwrap(), None);
    assert!(gate.store.witness("here").await.unwrap().is_some());
}
