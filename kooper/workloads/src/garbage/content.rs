//! The content of a namespace: the metadata of its objects and of those that are in none.

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{ApiGroup, Scope, verbs};
use kube::{Client, Discovery, ResourceExt as _};

use super::graph::Node;
use kooper_runtime::Result;

/// Lists that are requested at the same time.
const CONCURRENCY: usize = 8;

/// The objects, and the resources that the server has.
pub(super) struct Content {
    client: Client,
    /// The resources of the nodes, and whether they are namespaced.
    resources: Vec<(ApiResource, bool)>,
    pub(super) nodes: Vec<Node>,
}

impl Content {
    /// Lists the objects in the namespace and the cluster-scoped ones.
    pub(super) async fn of(client: &Client, namespace: &str) -> Result<Self> {
        let discovered = Discovery::new(client.clone()).run_aggregated().await?;
        let kinds = discovered.groups().flat_map(ApiGroup::recommended_resources);
        let collected = kinds.filter(|(resource, capabilities)| {
            let verbs = [verbs::LIST, verbs::DELETE, verbs::PATCH, verbs::WATCH];
            resource.kind != "Event" && verbs.iter().all(|verb| capabilities.supports_operation(verb))
        });
        let resources: Vec<_> =
            collected.map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced)).collect();
        let requests = resources
            .iter()
            .enumerate()
            .map(|(index, (resource, namespaced))| list(api(client, resource, namespaced.then_some(namespace)), index));
        let lists = futures_util::stream::iter(requests.collect::<Vec<_>>()).buffered(CONCURRENCY);
        let nodes: Vec<Vec<Node>> = lists.try_collect().await?;
        Ok(Self { client: client.clone(), nodes: nodes.into_iter().flatten().collect(), resources })
    }

    /// Returns `true` if the owner of an object would have been listed: its kind was listed, and it
    /// is cluster-scoped or in the namespace of the object.
    pub(super) fn would_list(&self, owner: &OwnerReference, node: &Node) -> bool {
        self.resource_of(owner).is_some_and(|(_, namespaced)| !namespaced || node.namespace.is_some())
    }

    /// Returns `true` if the owner of an object in this namespace exists, or if its kind is
    /// unknown.
    pub(super) async fn exists(&self, owner: &OwnerReference, namespace: Option<&str>) -> Result<bool> {
        let Some((resource, namespaced)) = self.resource_of(owner) else { return Ok(true) };
        let found =
            api(&self.client, resource, namespace.filter(|_| *namespaced)).get_metadata_opt(&owner.name).await?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_ref() == Some(&owner.uid)))
    }

    pub(super) fn api(&self, node: &Node) -> Api<DynamicObject> {
        let (resource, _) = &self.resources[node.resource];
        api(&self.client, resource, node.namespace.as_deref())
    }

    /// The resource of an owner, in whichever version.
    fn resource_of(&self, owner: &OwnerReference) -> Option<&(ApiResource, bool)> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.resources.iter().find(|(resource, _)| resource.kind == owner.kind && resource.group == group)
    }
}

fn api(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// The objects of one resource.
async fn list(api: Api<DynamicObject>, index: usize) -> Result<Vec<Node>> {
    let list = match api.list_metadata(&ListParams::default()).await {
        // A definition was deleted since, or does not serve yet.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 503) => return Ok(Vec::new()),
        list => list?,
    };
    let node = |object: kube::core::PartialObjectMeta<DynamicObject>| Node {
        resource: index,
        namespace: object.namespace(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        version: object.resource_version().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        owners: object.metadata.owner_references.unwrap_or_default(),
        finalizers: object.metadata.finalizers.unwrap_or_default(),
    };
    Ok(list.items.into_iter().map(node).collect())
}
