//! Objects that have a finalizer of a controller.

use futures_util::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::definitions::Definitions;
use crate::cli::args::UninstallSettings;
use crate::cli::objects::{NAMED, PAGE, resource};
use kooper_access::Controller;
use kooper_runtime::internal::call::finalizer::Finalizers;
use kooper_runtime::internal::error::refusal::{is_conflict, is_not_found};
use kooper_runtime::internal::object::kind::KindInfo;

/// Maximum number of concurrent requests.
const AT_A_TIME: usize = 8;

type Metadata = PartialObjectMeta<DynamicObject>;

/// The treatment of objects with a finalizer of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
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
pub(super) struct Held {
    pub(super) controller: String,
    pub(super) fate: Fate,
    /// Where they are; empty for all namespaces.
    pub(super) namespaces: Vec<String>,
    kind: KindInfo,
    finalizers: Finalizers,
}

/// Objects that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The first ones, as `namespace/name`.
    pub(super) named: Vec<String>,
    pub(super) count: usize,
}

impl Held {
    /// The objects of a controller; `None` if it sets no finalizer.
    pub(super) fn of(controller: &Controller, definitions: &Definitions, chosen: &UninstallSettings) -> Option<Self> {
        let (finalizers, kind) = (controller.finalizers()?, controller.kind_info().clone());
        let removed = definitions.ours.contains_key(&kind.resource());
        let fate = match (chosen.orphan, chosen.keep_crds, removed) {
            (true, ..) => Fate::Release,
            (false, true, _) => Fate::ReleaseLive,
            (false, false, true) => Fate::Delete,
            (false, false, false) => Fate::CleanUp,
        };
        // A CRD is only removed when its objects in all namespaces are.
        let namespaces = if removed || !kind.namespaced { Vec::new() } else { controller.namespaces().to_vec() };
        Some(Self { controller: controller.name().to_owned(), fate, namespaces, kind, finalizers })
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
    pub(super) async fn find(&self, client: &Client) -> Result<Found, kube::Error> {
        let mut found = Found::default();
        for scope in self.scopes(client) {
            let mut pages = Pages::new(scope);
            while let Some(page) = pages.next(&self.finalizers).await? {
                found.count += page.len();
                let room = NAMED.saturating_sub(found.named.len());
                found.named.extend(page.iter().take(room).map(|object| match object.namespace() {
                    Some(namespace) => format!("{namespace}/{}", object.name_any()),
                    None => object.name_any(),
                }));
            }
        }
        Ok(found)
    }

    /// Removes the finalizers of objects that need no cleanup, and deletes those
    /// that are deleted with their CRD.
    pub(super) async fn prepare(&self, client: &Client) -> Result<(), kube::Error> {
        for scope in self.scopes(client) {
            let mut pages = Pages::new(scope);
            loop {
                let page = match pages.next(&self.finalizers).await {
                    // The list has expired meanwhile: the next round continues.
                    Err(kube::Error::Api(status)) if status.code == 410 => break,
                    page => page?,
                };
                let Some(page) = page else { break };
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
        let done = match (self.fate, object.metadata.deletion_timestamp.is_some()) {
            (Fate::Release, _) | (Fate::ReleaseLive, false) => {
                let finalizers = self.finalizers.removed(object.finalizers());
                let patch = json!({"metadata": {
                    "uid": uid, "resourceVersion": object.resource_version(), "finalizers": finalizers,
                }});
                api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            (Fate::Delete, false) => {
                let same = Preconditions { uid, resource_version: None };
                api.delete(&name, &DeleteParams::background().preconditions(same)).await.map(drop)
            }
            (Fate::ReleaseLive | Fate::Delete | Fate::CleanUp, _) => Ok(()),
        };
        match done {
            // It has changed, or was removed: the next round finds out.
            Err(kube::Error::Api(status)) if is_not_found(&status) || is_conflict(&status) => Ok(()),
            done => done,
        }
    }

    /// Where the objects are listed.
    fn scopes(&self, client: &Client) -> Vec<Api<DynamicObject>> {
        let resource = resource(&self.kind);
        match &self.namespaces[..] {
            [] => vec![Api::all_with(client.clone(), &resource)],
            some => some.iter().map(|one| Api::namespaced_with(client.clone(), one, &resource)).collect(),
        }
    }
}

/// A list of objects, page by page.
struct Pages {
    api: Api<DynamicObject>,
    params: ListParams,
    ended: bool,
}

impl Pages {
    fn new(api: Api<DynamicObject>) -> Self {
        Self { api, params: ListParams::default().limit(PAGE), ended: false }
    }

    /// The objects of the next page that have one of the finalizers. A kind that the
    /// cluster does not serve has no pages.
    async fn next(&mut self, finalizers: &Finalizers) -> kube::Result<Option<Vec<Metadata>>> {
        if self.ended {
            return Ok(None);
        }
        let page = match self.api.list_metadata(&self.params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            page => page?,
        };
        self.params.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
        self.ended = self.params.continue_token.is_none();
        Ok(Some(page.items.into_iter().filter(|object| finalizers.are_among(object.finalizers())).collect()))
    }
}
