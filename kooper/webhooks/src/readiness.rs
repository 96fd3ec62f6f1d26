//! The readiness of a replica: that of the controller whose only object is retrieved then.

use futures_util::Stream;
use k8s_openapi::api::core::v1::Secret;
use kooper_runtime::Retriever;
use kooper_runtime::object::Object;
use kooper_runtime::retriever::{Event, ListRequest, Page, RetrieveError, WatchRequest};
use tokio::sync::watch;

/// Lists one object as soon as the replica can be called. A controller that is not synced is not
/// ready, in a standby, too.
pub(crate) struct ReadinessRetriever {
    pub(crate) object: Secret,
    pub(crate) is_ready: watch::Receiver<bool>,
}

impl Retriever<Secret> for ReadinessRetriever {
    async fn list(&self, _: ListRequest) -> Result<Page, RetrieveError> {
        // An error is the end of the server.
        drop(self.is_ready.clone().wait_for(|is_ready| *is_ready).await);
        Ok(Page { objects: vec![Object::from_typed(&self.object)], ..Page::default() })
    }

    async fn watch(
        &self,
        _: WatchRequest,
    ) -> Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        Ok(futures_util::stream::pending())
    }
}
