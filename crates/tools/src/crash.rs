//! Where a test can have the gate killed while a worker is at work. Nothing of it is in what is shipped.

#[cfg(feature = "crash")]
mod armed {
    use std::sync::OnceLock;

    static WATCH: OnceLock<fn(&str)> = OnceLock::new();

    /// From now on this is called at every point.
    pub fn watch_points(watch: fn(&str)) {
        let _ = WATCH.set(watch);
    }

    pub(crate) fn reach(point: &str) {
        if let Some(watch) = WATCH.get() {
            watch(point);
        }
    }
}

#[cfg(feature = "crash")]
pub(crate) use armed::reach;
#[cfg(feature = "crash")]
pub use armed::watch_points;

/// There is no such point in what is shipped.
#[cfg(not(feature = "crash"))]
#[inline]
pub(crate) fn reach(_point: &str) {}
