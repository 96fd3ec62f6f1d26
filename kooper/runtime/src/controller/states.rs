//! The states that `init` functions build, each once.

use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex as AsyncMutex;

use crate::call::context::ControllerContext;
use crate::error::BoxError;

/// The context in which the functions of a controller are built.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct InitContext {
    /// The controller.
    pub controller: Arc<ControllerContext>,
    /// The states that this controller shares with others.
    pub states: Arc<States>,
}

/// The states that `init` functions built, each once.
#[derive(Default)]
pub struct States {
    slots: Mutex<HashMap<(TypeId, u64), Slot>>,
}

/// The state of one `init` function. It is locked while it is built, so that one
/// that hangs delays only the controllers that need this state.
type Slot = Arc<AsyncMutex<Option<Arc<dyn Any + Send + Sync>>>>;

impl States {
    /// The state of an `init` function, built if it does not exist yet. After a
    /// failure it is built again.
    pub async fn get_or_build<S, Fut>(&self, id: (TypeId, u64), build: impl FnOnce() -> Fut) -> Result<Arc<S>, BoxError>
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

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}
