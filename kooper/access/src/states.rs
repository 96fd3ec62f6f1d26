//! The states that `init` functions build, each once.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use kooper_runtime::BoxError;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

/// The states that `init` functions built, each once. It is an extension of what controllers share.
#[derive(Default)]
pub(crate) struct States {
    slots: Mutex<HashMap<(TypeId, u64), Slot>>,
}

/// The state of one `init` function. It is locked while it is built, so that one
/// that hangs delays only the controllers that need this state.
type Slot = Arc<AsyncMutex<Option<Arc<dyn Any + Send + Sync>>>>;

impl States {
    /// The state of an `init` function, built if it does not exist yet. After a
    /// failure it is built again.
    pub(crate) async fn get_or_build<S, Fut>(
        &self,
        id: (TypeId, u64),
        build: impl FnOnce() -> Fut,
    ) -> Result<Arc<S>, BoxError>
    where
        S: Send + Sync + 'static,
        Fut: Future<Output = Result<S, BoxError>>,
    {
        let slot = self.slots.lock().entry(id).or_default().clone();
        let mut built = slot.lock().await;
        if let Some(state) = built.clone().and_then(|state| state.downcast::<S>().ok()) {
            return Ok(state);
        }
        let state = Arc::new(build().await?);
        *built = Some(state.clone());
        Ok(state)
    }
}
