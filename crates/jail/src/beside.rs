//! Has another thread go on beside this one, or in its place.
//!
//! Whoever is sent something is put on the processor of whoever has sent it, or on another; the kernel guesses. Where the sender
//! has something else to do first, one would come after the other, on a machine whose other processors have nothing to do.
//! Where it has not, a processor that rests would be woken, and one that is awake sent to rest. Here the sender says which it
//! is. It knows neither what is sent nor what is done with it; nothing hangs on it but time.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::launch::allowed_processors;

/// Wakes a thread, which is kept off this processor for as long as that takes: it is put in its place once, and then free to
/// be moved.
pub(crate) fn beside_us<T>(thread: Pid, wake: impl FnOnce() -> T) -> T {
    put_once(thread, wake, |usual, ours| {
        let mut others = *usual;
        others.unset(ours);
        (others.count() > 0).then_some(others)
    })
}

/// Wakes a thread for which this one waits next: it goes on in this one's place, once, and is then free to be moved. A processor
/// that rests takes longer to be woken than one takes to change from one thread to another.
pub(crate) fn in_our_place<T>(thread: Pid, wake: impl FnOnce() -> T) -> T {
    put_once(thread, wake, |usual, ours| usual.is_set(ours).then(|| only(ours)))
}

/// Has this thread be wherever its process may be. Two who put it somewhere at once may each have taken the other's place for the
/// usual one.
pub(crate) fn anywhere() {
    if let Ok(usual) = allowed_processors() {
        let _ = sched_setaffinity(None, &usual);
    }
}

/// Wakes a thread while it may only be where `place` says, by where it may be otherwise and our own processor; wherever it may be
/// otherwise, if that says nothing.
fn put_once<T>(
    thread: Pid,
    wake: impl FnOnce() -> T,
    place: impl FnOnce(&CpuSet, usize) -> Option<CpuSet>,
) -> T {
    let usual = sched_getaffinity(Some(thread)).ok();
    let there = usual.as_ref().and_then(|usual| place(usual, sched_getcpu()));
    let is_put = there.is_some_and(|there| sched_setaffinity(Some(thread), &there).is_ok());
    let woken = wake();
    if let Some(usual) = usual.filter(|_| is_put) {
        let _ = sched_setaffinity(Some(thread), &usual);
    }
    woken
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use rustix::thread::gettid;

    use super::*;

    /// Where a thread may be while it is woken, and whether it may be wherever it might be before, afterwards.
    fn while_woken(wake_it: fn(Pid, &dyn Fn() -> CpuSet) -> CpuSet) -> (CpuSet, CpuSet) {
        let (tell, told) = channel();
        let (wake, woken) = channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            woken.recv().unwrap();
        });
        let thread = told.recv().unwrap();
        let usual = sched_getaffinity(Some(thread)).unwrap();
        let meanwhile = wake_it(thread, &|| sched_getaffinity(Some(thread)).unwrap());
        assert_eq!(sched_getaffinity(Some(thread)).unwrap(), usual);
        wake.send(()).unwrap();
        sleeper.join().unwrap();
        (usual, meanwhile)
    }

    #[test]
    fn a_thread_that_was_woken_beside_us_may_be_wherever_it_might_be_before() {
        let (usual, meanwhile) = while_woken(|thread, look| beside_us(thread, look));
        assert_eq!(meanwhile.count(), if usual.count() > 1 { usual.count() - 1 } else { 1 });
    }

    #[test]
    fn so_may_one_that_was_woken_in_our_place() {
        let (_, meanwhile) = while_woken(|thread, look| in_our_place(thread, look));
        assert_eq!(meanwhile.count(), 1);
    }
}
