//! Instances that one test after the other has to itself.

use std::fs;
use std::ops::Deref;
use std::thread;

use parking_lot::Mutex;

use super::ControlPlane;

/// Those that no test has.
static FREE: Mutex<Vec<ControlPlane>> = Mutex::new(Vec::new());

/// An instance that a test has to itself. Dropping it lets the next test have it, unless this one has failed.
#[derive(Debug)]
#[must_use = "dropping it lets another test have it"]
pub struct Pooled(Option<ControlPlane>);

impl ControlPlane {
    /// An instance with the default settings and without the objects of other tests, for tests that need CRDs or all
    /// namespaces to themselves. It is started if no test has returned one. A test that leaves objects with finalizers
    /// costs the next one half a minute.
    pub fn pooled() -> Option<Pooled> {
        let used = FREE.lock().pop();
        used.filter(Self::is_emptied).or_else(Self::start).map(|plane| Pooled(Some(plane)))
    }

    /// Deletes what tests may have made: CRDs with their objects, webhooks, policies, namespaces and roles. Of the
    /// namespace `default`, it deletes what programs read. Returns `false` if something remains.
    fn is_emptied(&self) -> bool {
        let kinds = "customresourcedefinitions,mutatingwebhookconfigurations,validatingwebhookconfigurations,\
                     mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings,namespaces,deployments,leases,clusterroles,clusterrolebindings";
        // Objects without these labels are selected.
        let added = "--selector=kubernetes.io/metadata.name notin (default,kube-node-lease,kube-public,kube-system),\
                     kubernetes.io/bootstrapping!=rbac-defaults";
        let emptied = self.kubectl(&["delete", kinds, added, "--namespace=default", "--timeout=30s"]).success;
        // kubectl would look for objects in the kinds of CRDs that are gone.
        drop(fs::remove_dir_all(self.kubectl_cache()));
        emptied
    }
}

impl Deref for Pooled {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        // A test that failed may have left anything.
        if let Some(plane) = self.0.take()
            && !thread::panicking()
        {
            FREE.lock().push(plane);
        }
    }
}
