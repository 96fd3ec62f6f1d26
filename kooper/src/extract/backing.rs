//! What stands behind the arguments of one controller.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;

use super::contested::Contested;
use super::former::Former;
use crate::events::EventSink;
use crate::kind::KindInfo;
use crate::object::Object;
use crate::plan::CacheId;
use crate::store::Cache;
use crate::writes::Writes;

/// What the arguments of a controller's fns work with: one for each
/// controller, shared by all its calls.
pub struct Backing {
    /// The program, as it is named in the field manager and the lease.
    pub(crate) program: Arc<str>,
    pub(crate) controller: Arc<str>,
    /// The kind that the controller is of.
    pub(crate) kind: KindInfo,
    /// The cache of that kind.
    pub(crate) primary: CacheId,
    /// The connection; it refuses to send while another replica leads.
    pub(crate) client: Option<Client>,
    /// The caches of the controller's kind, of its readers, `owns` and
    /// `watches`.
    pub(crate) caches: HashMap<CacheId, Cache>,
    /// What the calls wrote, until the caches have seen it.
    pub(crate) writes: Arc<Writes>,
    /// What was applied under former names.
    pub(crate) former: Former,
    /// Who waits for a child that is somebody else's.
    pub(crate) contested: Contested,
    /// Where Kubernetes Events go.
    pub(crate) events: EventSink,
}

impl Backing {
    /// `<program>/<controller>`: who writes, for server-side apply.
    pub(crate) fn field_manager(&self) -> String {
        format!("{}/{}", self.program, self.controller)
    }

    /// The connection. A controller that needs one is not started without.
    pub(crate) fn client(&self) -> Client {
        #[expect(clippy::expect_used, reason = "a controller that takes a client is not started without one")]
        self.client.clone().expect("a controller that takes a client is started with one")
    }

    /// An object of the controller's kind, as Events name it.
    pub(crate) fn reference(&self, object: &Object) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.kind.api_version()),
            kind: Some(self.kind.kind.clone()),
            name: Some(object.key().name().to_owned()),
            namespace: object.key().namespace().map(str::to_owned),
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.version().to_owned()),
            ..ObjectReference::default()
        }
    }

    /// What stands behind a fn that is called without a running controller:
    /// caches, and no connection.
    pub(crate) fn detached(kind: KindInfo, primary: CacheId, caches: HashMap<CacheId, Cache>) -> Self {
        Self {
            program: "detached".into(),
            controller: "detached".into(),
            kind,
            primary,
            client: None,
            caches,
            former: Former::new(Vec::new()),
            contested: Contested::default(),
            writes: Arc::new(Writes::new(primary)),
            events: EventSink::default(),
        }
    }

    /// The cache that the plan asked for; an empty one where it did not.
    pub(crate) fn cache(&self, id: CacheId) -> Cache {
        self.caches.get(&id).cloned().unwrap_or_default()
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing").field("controller", &self.controller).finish_non_exhaustive()
    }
}
