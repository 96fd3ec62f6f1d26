//! One cluster: its objects, its kinds, and what is known beside them.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::faults;
use crate::identity::Tokens;
use crate::kinds::{Kind, Kinds};
use crate::roles::Roles;
use crate::store::Store;
use crate::work::Work;

/// State shared by all requests of a server.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    kinds: RwLock<Arc<Kinds>>,
    pub(crate) tokens: Tokens,
    /// Pending follow-up work of writes.
    pub(crate) work: Work,
    pub(crate) faults: Arc<faults::State>,
    /// The roles as they were when they were last asked for.
    pub(crate) roles: RwLock<Arc<Roles>>,
    /// The document of OpenAPI v2 in protobuf, with the kinds that it was made of when it was last requested.
    pub(crate) openapi: Mutex<Option<(Arc<Kinds>, Bytes)>>,
    /// `true` if namespaces get service accounts and pods run as them.
    pub(crate) accounts: bool,
    /// The certificate authority, in PEM.
    pub(crate) authority: String,
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// Where the Services of webhooks are, by namespace and name: this cluster has no network.
    pub(crate) webhooks: RwLock<HashMap<(String, String), SocketAddr>>,
}

impl Cluster {
    /// A cluster with the built-in kinds and no object; `admin` is the token of its administrator, `authority` what
    /// clients at its address verify it by, and with `accounts` each namespace has a service account.
    pub(crate) fn new(admin: &str, authority: String, address: SocketAddr, accounts: bool) -> Self {
        let store = Store::new();
        let kinds = Kinds::builtin(&store);
        Self {
            store,
            kinds: RwLock::new(Arc::new(kinds)),
            tokens: Tokens::new(admin),
            work: Work::default(),
            faults: Arc::default(),
            roles: RwLock::default(),
            openapi: Mutex::default(),
            accounts,
            authority,
            address,
            webhooks: RwLock::default(),
        }
    }

    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds.read())
    }

    /// Serves another set of kinds from now on.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        let mut kinds = self.kinds.write();
        change(Arc::make_mut(&mut kinds));
    }

    pub(crate) fn kind(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        self.kinds().get(group, version, resource).cloned()
    }

    /// All objects of a kind.
    pub(crate) fn objects(&self, group: &str, resource: &str) -> Vec<Value> {
        let Some(kind) = self.kind(group, "v1", resource) else { return Vec::new() };
        kind.table.snapshot().tree.range("").map(|(_, object)| object.value()).collect()
    }
}
