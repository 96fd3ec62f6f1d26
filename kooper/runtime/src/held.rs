//! The time for which locks are held. It is measured with the feature `measure`,
//! which the benchmark enables; without the feature there is no overhead.

use std::ops::{Deref, DerefMut};

/// The guard of a lock.
#[derive(Debug)]
pub struct LockGuard<G> {
    guard: G,
    #[cfg(feature = "measure")]
    _since: measure::Since,
}

impl<G> LockGuard<G> {
    /// The guard of a lock that is held from now on.
    pub fn new(guard: G) -> Self {
        Self {
            guard,
            #[cfg(feature = "measure")]
            _since: measure::Since::now(),
        }
    }
}

impl<G: Deref> Deref for LockGuard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for LockGuard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Drops a value on another thread if there is a runtime: freeing a million
/// entries takes a long time.
pub fn drop_aside<T: Send + 'static>(value: T) {
    drop_boxed(Box::new(value));
}

fn drop_boxed(value: Box<dyn Send>) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(value))),
        Err(_) => drop(value),
    }
}

/// Measures the CPU time of the thread, so that neither the scheduler nor other
/// programs are included.
#[cfg(feature = "measure")]
pub(crate) mod measure {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    static LONGEST: AtomicU64 = AtomicU64::new(0);

    #[derive(Debug)]
    pub(super) struct Since(u64);

    impl Since {
        pub(super) fn now() -> Self {
            Self(thread_nanos())
        }
    }

    impl Drop for Since {
        fn drop(&mut self) {
            LONGEST.fetch_max(thread_nanos().saturating_sub(self.0), Ordering::Relaxed);
        }
    }

    /// The longest time since the last call.
    pub fn longest_held() -> Duration {
        Duration::from_nanos(LONGEST.swap(0, Ordering::Relaxed))
    }

    fn thread_nanos() -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32).as_nanos() as u64
    }
}
