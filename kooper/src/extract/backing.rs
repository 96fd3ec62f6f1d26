//! What stands behind the arguments of one controller.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;

use super::former::Former;
use crate::events::EventSink;
use crate::kind::KindInfo;
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
    /// Where the controller looks; empty for everywhere.
    pub(crate) namespaces: Vec<String>,
    /// The connection; it refuses to send while another replica leads.
    pub(crate) client: Option<Client>,
    /// The caches of the controller's kind, of its readers, `owns` and
    /// `watches`.
    pub(crate) caches: HashMap<CacheId, Cache>,
    /// The kinds in `owns`.
    pub(crate) owned: Vec<CacheId>,
    /// What the calls wrote, until the caches have seen it.
    pub(crate) writes: Arc<Writes>,
    /// What was applied under former names.
    pub(crate) former: Former,
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
