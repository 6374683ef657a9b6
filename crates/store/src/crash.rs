//! Named points at which a test can have this process killed, and mistakes it can have it make.
//!
//! Only built with the feature `crash`, which nothing that is shipped has: without it there is no such point, and no
//! name of one in the binary.

#[cfg(feature = "crash")]
mod armed {
    use std::sync::OnceLock;

    use rustix::process::{Signal, getpid, kill_process};

    static POINT: OnceLock<String> = OnceLock::new();
    static MISTAKE: OnceLock<String> = OnceLock::new();

    /// From now on the process is killed when it comes to this point.
    pub fn arm(point: &str) {
        let _ = POINT.set(point.to_owned());
    }

    /// From now on the process makes this mistake.
    pub fn seed(mistake: &str) {
        let _ = MISTAKE.set(mistake.to_owned());
    }

    /// The process is at this point.
    pub fn reach(point: &str) {
        if POINT.get().is_some_and(|armed| armed == point) {
            let _ = kill_process(getpid(), Signal::KILL);
            // The kernel takes every thread with it; this one does nothing in the meantime.
            loop {
                std::thread::park();
            }
        }
    }

    /// Whether this mistake is to be made.
    pub fn is_seeded(mistake: &str) -> bool {
        MISTAKE.get().is_some_and(|seeded| seeded == mistake)
    }

    /// What a transaction is about: its points are named after the kind of its first entry in the ledger.
    pub(crate) struct About(Option<String>);

    impl About {
        pub(crate) fn new() -> About {
            About(None)
        }

        pub(crate) fn note(&mut self, kind: &str) {
            self.0.get_or_insert_with(|| kind.to_owned());
        }

        pub(crate) fn reach(&self, moment: &str) {
            if let Some(kind) = &self.0 {
                reach(&format!("{kind}/{moment}"));
            }
        }
    }
}

#[cfg(not(feature = "crash"))]
mod absent {
    /// In what is shipped a transaction has no points.
    pub(crate) struct About;

    impl About {
        #[inline]
        pub(crate) fn new() -> About {
            About
        }

        #[inline]
        pub(crate) fn note(&mut self, _kind: &str) {}

        #[inline]
        pub(crate) fn reach(&self, _moment: &str) {}
    }
}

#[cfg(not(feature = "crash"))]
pub(crate) use absent::About;
#[cfg(feature = "crash")]
pub(crate) use armed::About;
#[cfg(feature = "crash")]
pub use armed::{arm, is_seeded, reach, seed};
