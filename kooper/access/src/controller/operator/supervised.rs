//! The end of a controller that panics outside of its handler.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use kooper_runtime::internal::metrics::health::Probe;
use kooper_runtime::{ControllerError, Health, error};

/// Runs a controller and catches its panic, if any. From then on the process is
/// not ready, as only a restart brings the controller back.
pub(super) async fn supervised(
    health: Health,
    name: String,
    running: impl Future<Output = Result<(), ControllerError>>,
) -> Result<(), ControllerError> {
    let message = match AssertUnwindSafe(running).catch_unwind().await {
        Ok(ended) => return ended,
        Err(panic) => error::panic_text(&*panic),
    };
    let panicked = ControllerError::Panicked { message };
    tracing::error!("{name}: {panicked}; the other controllers continue");
    health.add(Arc::new(Panicked { controller: name, panicked: panicked.to_string() }));
    Err(panicked)
}

/// A controller that panicked.
struct Panicked {
    controller: String,
    panicked: String,
}

impl Probe for Panicked {
    fn name(&self) -> String {
        format!("{}: running", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        Err(format!("{}: {}", self.controller, self.panicked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_controller_that_panicked_is_reported_and_one_that_ended_is_not() {
        let health = Health::default();
        let run = |name: &str, running| supervised(health.clone(), name.to_owned(), running);
        assert_eq!(run("ended", std::future::ready(Ok(()))).await, Ok(()));
        assert_eq!(
            run("lost", std::future::ready(Err(ControllerError::LeadershipLost))).await,
            Err(ControllerError::LeadershipLost)
        );
        assert_eq!(health.ready().as_deref(), Ok("ok\n"));
        let ended = supervised(health.clone(), "shop".to_owned(), async { panic!("out of milk") }).await;
        assert_eq!(ended, Err(ControllerError::Panicked { message: "out of milk".to_owned() }));
        let reason = "shop: the controller panicked: out of milk; restart the process to bring it back";
        assert_eq!(health.ready(), Err(format!("{reason}\n")));
        assert!(health.alive().is_ok());
    }
}
