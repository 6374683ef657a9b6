//! Has another thread go on beside this one, and not after it.
//!
//! Whoever is sent something is often put on the processor of whoever has sent it, since that is expected to wait for the answer.
//! Where the sender has something else to do first, one would come after the other, on a machine whose other processors have
//! nothing to do. It knows neither what is sent nor what is done with it; nothing hangs on it but time.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Wakes a thread, which is kept off this processor for as long as that takes: it is put in its place once, and then free to
/// be moved.
pub(crate) fn beside_us<T>(thread: Pid, wake: impl FnOnce() -> T) -> T {
    let usual = keep_off_ours(thread);
    let woken = wake();
    if let Some(usual) = usual {
        let _ = sched_setaffinity(Some(thread), &usual);
    }
    woken
}

/// Where it may be otherwise; nothing if it stays there.
fn keep_off_ours(thread: Pid) -> Option<CpuSet> {
    let usual = sched_getaffinity(Some(thread)).ok()?;
    let mut others = usual;
    others.unset(sched_getcpu());
    if others.count() == 0 {
        return None;
    }
    sched_setaffinity(Some(thread), &others).ok()?;
    Some(usual)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn a_thread_that_was_woken_beside_us_may_be_wherever_it_might_be_before() {
        let (tell, told) = channel();
        let (wake, woken) = channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            woken.recv().unwrap();
        });
        let thread = told.recv().unwrap();
        let usual = sched_getaffinity(Some(thread)).unwrap();
        let meanwhile = beside_us(thread, || sched_getaffinity(Some(thread)).unwrap());
        assert_eq!(meanwhile.count(), if usual.count() > 1 { usual.count() - 1 } else { 1 });
        assert_eq!(sched_getaffinity(Some(thread)).unwrap(), usual);
        wake.send(()).unwrap();
        sleeper.join().unwrap();
    }
}
