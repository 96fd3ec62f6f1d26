//! Runs a future on the thread that waits for it.

use futures_util::future::LocalBoxFuture;
use tokio::runtime::Runtime;

/// Runs a future to its end. `Runtime::block_on` is compiled for each type of future, with most of a scheduler: here, for
/// one.
pub(crate) fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let mut result = None;
    let running: LocalBoxFuture<'_, ()> = Box::pin(async { result = Some(future.await) });
    runtime.block_on(running);
    #[expect(clippy::expect_used, reason = "`block_on` returns when the future has ended")]
    result.expect("a future that has ended has a result")
}
