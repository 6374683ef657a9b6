//! A run that is seen through to its end, whoever stops waiting for it.
//!
//! It runs where it is waited for, because each change of thread costs as much as a small tool takes. What is no longer
//! waited for goes on in a task of its own.
//!
//! # Invariants
//! - What was begun is polled until it has ended, as long as there is a runtime: dropping [`SeenThrough`] ends nothing.
//! - A panic inside is an answer, [`Fell`], and goes no further.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Whatever it gives, it is on its way.
type Running<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that is waited for, and goes on where nobody does.
pub(crate) struct SeenThrough<T: Send + 'static> {
    /// Nothing once it has ended.
    running: Option<Running<'static, T>>,
    runtime: Handle,
}

impl<T: Send + 'static> SeenThrough<T> {
    /// Begins when it is first waited for, or let go of, in the runtime of whoever calls this.
    pub(crate) fn new(running: impl Future<Output = T> + Send + 'static) -> SeenThrough<T> {
        SeenThrough { running: Some(Box::pin(running)), runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for SeenThrough<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Who waits again for what has ended waits for ever. Out of its place meanwhile: what panics is not polled again.
        let Some(mut running) = self.running.take() else { return Poll::Pending };
        let polled = running.as_mut().poll(context);
        if polled.is_pending() {
            self.running = Some(running);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for SeenThrough<T> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Whoever closes the engine waits for it by what it holds itself.
            drop(self.runtime.spawn(running));
        }
    }
}

/// Code has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fell;

/// Something whose panic is an answer.
pub(crate) struct Caught<'a, T>(Option<Running<'a, T>>);

impl<'a, T> Caught<'a, T> {
    pub(crate) fn new(running: impl Future<Output = T> + Send + 'a) -> Caught<'a, T> {
        Caught(Some(Box::pin(running)))
    }
}

impl<T> Future for Caught<'_, T> {
    type Output = Result<T, Fell>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Fell>> {
        let Some(running) = &mut self.0 else { return Poll::Ready(Err(Fell)) };
        // What it leaves half done is thrown away, here, so that a panic on that way is caught as well.
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(_) => {
                let half_done = self.0.take();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(half_done)));
                Poll::Ready(Err(Fell))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;
    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_goes_on_to_its_end() {
        let (tell, told) = oneshot::channel::<()>();
        let (ended, has_ended) = oneshot::channel::<()>();
        let tasks = TaskTracker::new();
        let token = tasks.token();
        let mut seen = SeenThrough::new(async move {
            let _token = token;
            let _ = told.await;
            let _ = ended.send(());
        });
        // It has begun, and whoever waited for it goes.
        assert!(
            std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut seen).poll(context))).await.is_pending()
        );
        drop(seen);
        assert_eq!(tasks.len(), 1);
        tell.send(()).unwrap();
        has_ended.await.unwrap();
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn what_is_waited_for_runs_in_the_task_that_waits() {
        let own = tokio::spawn(async {
            let own = tokio::task::id();
            (own, SeenThrough::new(async { tokio::task::id() }).await)
        });
        let (own, of_run) = own.await.unwrap();
        assert_eq!(own, of_run);
    }

    /// Panics when it is polled, and again when it is thrown away.
    struct Falls(Arc<AtomicBool>);

    impl Future for Falls {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            panic!("once");
        }
    }

    impl Drop for Falls {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
            panic!("again");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_even_where_another_follows() {
        assert_eq!(Caught::new(async { 7 }).await, Ok(7));
        let is_thrown_away = Arc::new(AtomicBool::new(false));
        assert_eq!(Caught::new(Falls(Arc::clone(&is_thrown_away))).await, Err(Fell));
        assert!(is_thrown_away.load(Ordering::SeqCst));
    }
}
