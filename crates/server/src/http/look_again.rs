//! A task that is woken while it works looks again by itself.
//!
//! A connection wakes itself several times for each request: whoever wants a body tells whoever reads it, and both are one
//! task. The runtime would take each of that for news, call another thread, and hand the task over; on a small machine that
//! takes as long as a small call.
//!
//! # Invariants
//! - No wake is lost: one that comes while nobody looks goes on to the task.
//! - After [`MOST`] looks in a row others have their turn.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// As many looks as are taken in a row.
const MOST: usize = 8;

const AT_REST: u8 = 0;
const LOOKS: u8 = 1;
const CALLED: u8 = 2;

/// A future that looks again where it was woken while it was polled.
pub(super) struct LookAgain<F> {
    inner: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

struct Bell {
    state: AtomicU8,
    /// Whom to wake when nobody looks.
    task: Mutex<Waker>,
}

impl<F: Future> LookAgain<F> {
    pub(super) fn new(inner: F) -> LookAgain<F> {
        let bell = Arc::new(Bell { state: AtomicU8::new(AT_REST), task: Mutex::new(Waker::noop().clone()) });
        LookAgain { inner: Box::pin(inner), waker: Waker::from(Arc::clone(&bell)), bell }
    }
}

impl<F: Future> Future for LookAgain<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let LookAgain { inner, bell, waker } = &mut *self;
        bell.answer_to(context.waker());
        for _ in 0..MOST {
            bell.state.store(LOOKS, Ordering::SeqCst);
            if let Poll::Ready(output) = inner.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            // Whoever calls from here on finds nobody who looks, and wakes the task.
            if bell.state.swap(AT_REST, Ordering::SeqCst) == LOOKS {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Bell {
    fn answer_to(&self, task: &Waker) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(task);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let called = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| (state != AT_REST).then_some(CALLED));
        if called.is_err() {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn woken(count: &Count) -> usize {
        count.0.load(Ordering::SeqCst)
    }

    #[test]
    fn what_wakes_itself_looks_again_and_calls_nobody() {
        let count = Arc::new(Count::default());
        let mut left = 3;
        let mut looks = LookAgain::new(std::future::poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        let waker = Waker::from(Arc::clone(&count));
        assert_eq!(Pin::new(&mut looks).poll(&mut Context::from_waker(&waker)), Poll::Ready(()));
        assert_eq!(woken(&count), 0);
    }

    #[test]
    fn what_never_rests_leaves_others_their_turn() {
        let count = Arc::new(Count::default());
        let polled = Arc::new(AtomicUsize::new(0));
        let mut looks = LookAgain::new(std::future::poll_fn({
            let polled = Arc::clone(&polled);
            move |context| -> Poll<()> {
                polled.fetch_add(1, Ordering::SeqCst);
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }));
        let waker = Waker::from(Arc::clone(&count));
        assert_eq!(Pin::new(&mut looks).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        assert_eq!((polled.load(Ordering::SeqCst), woken(&count)), (MOST, 1));
    }

    #[test]
    fn who_calls_while_nobody_looks_wakes_the_task_of_the_latest_poll() {
        let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
        let mut looks = LookAgain::new(std::future::poll_fn({
            let kept = Arc::clone(&kept);
            move |context| -> Poll<()> {
                *kept.lock().unwrap() = Some(context.waker().clone());
                Poll::Pending
            }
        }));
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        for task in [&first, &second] {
            let waker = Waker::from(Arc::clone(task));
            assert_eq!(Pin::new(&mut looks).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        kept.lock().unwrap().take().unwrap().wake();
        assert_eq!((woken(&first), woken(&second)), (0, 1));
    }
}
