//! Where panics happen.
//!
//! The message of a panic may quote what must not be shown. Its place is known to the
//! panic hook alone, which runs on the thread that panics.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use futures_util::FutureExt;

use crate::error;

thread_local! {
    /// The place of the thread's last panic.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// A panic that was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    /// Its message.
    pub message: String,
    /// File and line, if they are known.
    pub place: Option<String>,
}

impl fmt::Display for Panic {
    /// Formats the place, as the message may quote what must not be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it panicked")?;
        self.place.iter().try_for_each(|place| write!(f, " at {place}"))
    }
}

impl Error for Panic {}

impl Panic {
    /// A panic that happened elsewhere.
    pub fn elsewhere(panic: &(dyn Any + Send)) -> Self {
        Self { message: error::panic_text(panic), place: None }
    }

    /// Panics again, so that [`caught`] returns the same panic.
    pub fn resume(self) -> ! {
        panic::resume_unwind(Box::new(self))
    }
}

/// Runs a future until it ends or panics.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    note_places();
    AssertUnwindSafe(future).catch_unwind().await.map_err(here)
}

/// Calls a function that may panic.
pub fn caught_call<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    note_places();
    panic::catch_unwind(AssertUnwindSafe(call)).map_err(here)
}

/// A panic of this thread.
fn here(panic: Box<dyn Any + Send>) -> Panic {
    match panic.downcast::<Panic>() {
        Ok(panic) => *panic,
        Err(panic) => Panic { place: PLACE.take(), ..Panic::elsewhere(&*panic) },
    }
}

/// Notes the place of each panic before the hook that is there is called, once for the
/// process. A hook that replaces it later costs the place.
fn note_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(|place| format!("{}:{}", place.file(), place.line())));
            before(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_has_its_message_and_its_place() {
        let line = line!() + 1;
        let panic = caught(async { panic!("{} is shut", "shop") }).await.expect_err("it panics");
        assert_eq!(panic.message, "shop is shut");
        let place = panic.place.expect("the hook is set");
        assert!(place.ends_with(&format!("panicking.rs:{line}")), "{place}");
        assert_eq!(caught(async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_that_was_caught_and_goes_on_keeps_its_message_and_its_place() {
        let first = caught(async { panic!("the shop is shut") }).await.expect_err("it panics");
        // Its place is not the last one of the thread.
        drop(panic::catch_unwind(|| panic!("another")));
        let again = caught(async { first.clone().resume() }).await;
        assert_eq!(again, Err::<(), _>(first));
    }
}
