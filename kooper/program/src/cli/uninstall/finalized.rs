//! Objects that have a finalizer of a controller.

use futures_util::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::definitions::Definitions;
use crate::cli::args::UninstallSettings;
use crate::cli::objects::{FoundObjects, Metadata, Pages, resource, scopes};
use kooper_access::Controller;
use kooper_runtime::internal::call::finalizer::Finalizers;
use kooper_runtime::internal::error::refusal::{is_conflict, is_not_found};
use kooper_runtime::internal::object::kind::KindInfo;

/// Maximum number of concurrent requests.
const AT_A_TIME: usize = 8;

/// The treatment of objects with a finalizer of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalizerAction {
    /// They only lose the finalizer.
    Release,
    /// They only lose the finalizer, unless they are being deleted: then they are
    /// cleaned up.
    ReleaseLive,
    /// They are deleted with their CRD, and cleaned up.
    Delete,
    /// They are cleaned up and kept: their kind is not the program's.
    CleanUp,
}

/// The objects of one controller.
pub(super) struct FinalizedObjects {
    pub(super) controller: String,
    pub(super) action: FinalizerAction,
    /// Where they are; empty for all namespaces.
    pub(super) namespaces: Vec<String>,
    kind: KindInfo,
    finalizers: Finalizers,
}

impl FinalizedObjects {
    /// The objects of a controller; `None` if it sets no finalizer.
    pub(super) fn of(controller: &Controller, definitions: &Definitions, chosen: &UninstallSettings) -> Option<Self> {
        let (finalizers, kind) = (controller.finalizers()?, controller.kind_info().clone());
        let removed = definitions.ours.contains_key(&kind.resource());
        let action = match (chosen.orphan, chosen.keep_crds, removed) {
            (true, ..) => FinalizerAction::Release,
            (false, true, _) => FinalizerAction::ReleaseLive,
            (false, false, true) => FinalizerAction::Delete,
            (false, false, false) => FinalizerAction::CleanUp,
        };
        // A CRD is only removed when its objects in all namespaces are.
        let namespaces = if removed || !kind.namespaced { Vec::new() } else { controller.namespaces().to_vec() };
        Some(Self { controller: controller.name().to_owned(), action, namespaces, kind, finalizers })
    }

    pub(super) fn resource(&self) -> String {
        self.kind.resource()
    }

    pub(super) fn version(&self) -> &str {
        &self.kind.version
    }

    /// The versions of a custom resource that the cluster serves, if that of the program is not one of them: its objects
    /// cannot be listed then.
    pub(super) async fn other_versions(&self, client: &Client) -> kube::Result<Vec<String>> {
        let groups = if self.kind.group.is_empty() { Vec::new() } else { client.list_api_groups().await?.groups };
        let mut others = Vec::new();
        for version in groups.into_iter().filter(|group| group.name == self.kind.group).flat_map(|group| group.versions)
        {
            let served = match client.list_api_group_resources(&version.group_version).await {
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                served => served?,
            };
            if !served.resources.iter().any(|resource| resource.name == self.kind.plural) {
                continue;
            }
            if version.version == self.kind.version {
                return Ok(Vec::new());
            }
            others.push(version.version);
        }
        Ok(others)
    }

    /// Finds the objects.
    pub(super) async fn find(&self, client: &Client) -> Result<FoundObjects, kube::Error> {
        let mut found = FoundObjects::default();
        for scope in scopes(client, &self.kind, &self.namespaces) {
            let mut pages = Pages::new(scope);
            while let Some(page) = pages.next().await? {
                page.iter().filter(|object| self.includes(object)).for_each(|object| found.add(object));
            }
        }
        Ok(found)
    }

    /// Removes the finalizers of objects that need no cleanup, and deletes those
    /// that are deleted with their CRD.
    pub(super) async fn prepare(&self, client: &Client) -> Result<(), kube::Error> {
        for scope in scopes(client, &self.kind, &self.namespaces) {
            let mut pages = Pages::new(scope);
            loop {
                let page = match pages.next().await {
                    // The list has expired meanwhile: the next round continues.
                    Err(kube::Error::Api(status)) if status.code == 410 => break,
                    page => page?,
                };
                let Some(mut page) = page else { break };
                page.retain(|object| self.includes(object));
                let settling = page.into_iter().map(|object| self.settle(client, object));
                stream::iter(settling).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
            }
        }
        Ok(())
    }

    async fn settle(&self, client: &Client, object: Metadata) -> kube::Result<()> {
        let resource = resource(&self.kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let (name, uid) = (object.name_any(), object.uid());
        let done = match (self.action, object.metadata.deletion_timestamp.is_some()) {
            (FinalizerAction::Release, _) | (FinalizerAction::ReleaseLive, false) => {
                let finalizers = self.finalizers.removed(object.finalizers());
                let patch = json!({"metadata": {
                    "uid": uid, "resourceVersion": object.resource_version(), "finalizers": finalizers,
                }});
                api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            (FinalizerAction::Delete, false) => {
                let same = Preconditions { uid, resource_version: None };
                api.delete(&name, &DeleteParams::background().preconditions(same)).await.map(drop)
            }
            (FinalizerAction::ReleaseLive | FinalizerAction::Delete | FinalizerAction::CleanUp, _) => Ok(()),
        };
        match done {
            // It has changed, or was removed: the next round finds out.
            Err(kube::Error::Api(status)) if is_not_found(&status) || is_conflict(&status) => Ok(()),
            done => done,
        }
    }

    fn includes(&self, object: &Metadata) -> bool {
        self.finalizers.are_among(object.finalizers())
    }
}
