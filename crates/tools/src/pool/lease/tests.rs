//! Workers that lie, stumble and die, each played by this test at the other end of the line.

use std::future::Future;
use std::io::Write;
use std::os::unix::net::UnixStream as Blocking;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::wire::read_frame;

/// A lease, and the other end of its line.
fn lease() -> (Arc<Lease>, Blocking) {
    let (ours, theirs) = Blocking::pair().unwrap();
    let lease = Lease::new();
    lease.worker.set(Worker::over(ours).unwrap()).unwrap();
    (Arc::new(lease), theirs)
}

type Waiting = tokio::task::JoinHandle<Result<Vec<u8>, Silence>>;

/// Asks so many questions in order, each with its place as its text; they are all under way when this returns.
async fn ask(lease: &Arc<Lease>, count: u8) -> Vec<Waiting> {
    let mut asked = Vec::new();
    for place in 0..count {
        let lease = Arc::clone(lease);
        let before = lease.lock().under_way.len();
        let asking = Arc::clone(&lease);
        asked
            .push(tokio::spawn(async move { asking.ask(&[place]).await.map(|heard| heard.said().to_vec()) }));
        while lease.lock().under_way.len() == before && lease.is_open() {
            tokio::task::yield_now().await;
        }
    }
    asked
}

async fn heard(waiting: Vec<Waiting>) -> Vec<Result<Vec<u8>, Silence>> {
    let mut all = Vec::new();
    for one in waiting {
        all.push(one.await.unwrap());
    }
    all
}

fn numbers_of(mut theirs: &Blocking, count: usize) -> Vec<(u64, Vec<u8>)> {
    let read = |_| {
        let frame = read_frame(&mut theirs).unwrap().unwrap();
        let (number, said) = frame.split_first_chunk().unwrap();
        (u64::from_le_bytes(*number), said.to_vec())
    };
    (0..count).map(read).collect()
}

fn say(mut theirs: &Blocking, number: u64, said: &[u8]) {
    theirs.write_all(&numbered_frame(number, said)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_questions_are_under_way_at_once_and_each_gets_its_own_answer() {
    let (lease, theirs) = lease();
    let asked = ask(&lease, 4).await;
    let questions = numbers_of(&theirs, 4);
    assert_eq!(questions, (0..4).map(|place| (u64::from(place) + 1, vec![place])).collect::<Vec<_>>());
    for (number, said) in &questions {
        say(&theirs, *number, &[said[0] + 10]);
    }
    assert_eq!(heard(asked).await, (10..14).map(|answer| Ok(vec![answer])).collect::<Vec<_>>());
    assert!(lease.is_open());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_with_the_number_of_another_is_given_to_nobody() {
    let (lease, theirs) = lease();
    let asked = ask(&lease, 3).await;
    let questions = numbers_of(&theirs, 3);
    say(&theirs, questions[1].0, b"for another");
    let expected = [Err(Silence::Garbled), Err(Silence::NotBegun), Err(Silence::NotBegun)];
    assert_eq!(heard(asked).await, expected);
    assert!(!lease.is_open());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_twice_ends_the_worker() {
    let (lease, theirs) = lease();
    let asked = ask(&lease, 2).await;
    let questions = numbers_of(&theirs, 2);
    say(&theirs, questions[0].0, b"first");
    say(&theirs, questions[0].0, b"again");
    assert_eq!(heard(asked).await, [Ok(b"first".to_vec()), Err(Silence::Garbled)]);
    assert!(!lease.is_open());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_when_nobody_asked_is_no_answer_to_the_next_question() {
    let (lease, theirs) = lease();
    let asked = ask(&lease, 1).await;
    let questions = numbers_of(&theirs, 1);
    say(&theirs, questions[0].0, b"first");
    assert_eq!(heard(asked).await, [Ok(b"first".to_vec())]);
    // It knows which number comes next.
    say(&theirs, questions[0].0 + 1, b"too early");
    assert_eq!(heard(ask(&lease, 1).await).await, [Err(Silence::NotBegun)]);
    assert!(!lease.is_open());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_fails_the_first_and_the_others_have_not_begun() {
    let (lease, theirs) = lease();
    let asked = ask(&lease, 3).await;
    let questions = numbers_of(&theirs, 3);
    say(&theirs, questions[0].0, b"first");
    drop(theirs);
    assert_eq!(heard(asked).await, [Ok(b"first".to_vec()), Err(Silence::Died), Err(Silence::NotBegun)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_is_too_long_or_has_no_number_is_no_answer() {
    for nonsense in [&[0xff_u8; 8][..], &[3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]] {
        let (lease, mut theirs) = lease();
        let asked = ask(&lease, 1).await;
        theirs.write_all(nonsense).unwrap();
        assert_eq!(heard(asked).await, [Err(Silence::Garbled)]);
        assert!(!lease.is_open());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_given_up_ends_the_worker_and_those_behind_have_not_begun() {
    let (lease, theirs) = lease();
    let mut asked = ask(&lease, 3).await;
    assert_eq!(numbers_of(&theirs, 3).len(), 3);
    let hung = asked.remove(0);
    hung.abort();
    assert!(hung.await.unwrap_err().is_cancelled());
    assert_eq!(heard(asked).await, [Err(Silence::NotBegun), Err(Silence::NotBegun)]);
    assert_eq!(read_frame(&theirs).unwrap(), None, "its line is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_worker_is_not_asked() {
    let (lease, theirs) = lease();
    drop(theirs);
    assert_eq!(lease.ask(b"x").await.map(drop), Err(Silence::NotBegun));
    assert!(!lease.is_open());
}

#[tokio::test]
async fn who_waits_for_the_line_only_ends_nothing_by_going() {
    let (lease, _theirs) = lease();
    let writing = lease.worker.get().unwrap().writing.lock().await;
    {
        let mut waiting = pin!(lease.ask(b"x"));
        assert!(matches!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    drop(writing);
    assert!(lease.is_open());
}
