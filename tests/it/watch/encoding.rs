//! The encoding in which objects arrive: a handler sees the same objects.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::{v1::HorizontalPodAutoscaler as Autoscaler, v2::HorizontalPodAutoscaler};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
    Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass, NetworkPolicy};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttributesClass};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper::Retriever;
use kooper::kube::client::ClientBuilder;
use kooper::kube::core::PartialObjectMeta;
use kooper::kube::{Client, Resource};
use kooper::object::Object;
use kooper::retriever::{ApiRetriever, Event, ListRequest, RetrieveError, Scope, WatchRequest};
use kooper_tests::control_plane::ControlPlane;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::util::MapResponseLayer;

use crate::live::connection;

const NAMESPACE: &str = "wire";

/// A client, and the media type of the last response to it.
#[derive(Clone)]
struct Wire {
    client: Client,
    media: Arc<Mutex<String>>,
}

impl Wire {
    async fn new(cluster: &ControlPlane) -> Self {
        let media = Arc::<Mutex<String>>::default();
        let seen = media.clone();
        let layer = MapResponseLayer::new(move |response: http::Response<_>| {
            let media = response.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
            *seen.lock() = media.unwrap_or_default().to_owned();
            response
        });
        let config = connection(cluster.kubeconfig(), None).await;
        Self { client: ClientBuilder::try_from(config).unwrap().with_layer(&layer).build(), media }
    }

    /// All objects of a scope, sorted by key: as listed in pages of two, and as watched. `None` if they changed in
    /// between.
    async fn objects<K: Resource<DynamicType = ()> + DeserializeOwned + 'static>(
        &self,
        scope: Scope,
        media: &str,
    ) -> Option<Vec<Object>> {
        let retriever = ApiRetriever::<K>::new(self.client.clone(), scope);
        let mut listed = Vec::new();
        let mut request = ListRequest::default();
        request.limit = 2;
        loop {
            let page = Retriever::<K>::list(&retriever, request.clone()).await.unwrap();
            assert_eq!(*self.media.lock(), media);
            listed.extend(page.objects.into_iter().map(|object| object.unwrap()));
            request.continue_token = page.continue_token;
            if request.continue_token.is_none() {
                break;
            }
        }
        let mut request = WatchRequest::default();
        request.initial_events = true;
        let events = Retriever::<K>::watch(&retriever, request).await.unwrap();
        let expected = if media == JSON { JSON.to_owned() } else { format!("{media};stream=watch") };
        assert_eq!(*self.media.lock(), expected);
        let mut events = Box::pin(events);
        let mut watched = Vec::new();
        loop {
            match events.next().await.unwrap().unwrap() {
                Event::Added(object) => watched.push(object),
                Event::Bookmark { initial_events_end: true, .. } => break,
                Event::Modified(_) | Event::Deleted(_) => return None,
                other => panic!("{other:?}"),
            }
        }
        for objects in [&mut listed, &mut watched] {
            objects.sort_by(|a, b| a.key().cmp(b.key()));
            assert!(!objects.is_empty(), "there are {}", K::kind(&()));
        }
        (versions(&listed) == versions(&watched)).then_some(watched)
    }

    /// The objects of a scope in JSON and in protobuf, of the same versions. Other clients may change them.
    async fn both<K: Resource<DynamicType = ()> + DeserializeOwned + 'static>(
        &self,
        scope: &Scope,
    ) -> [Vec<Object>; 2] {
        for _ in 0..100 {
            let json = self.objects::<K>(Scope { json_only: true, ..scope.clone() }, JSON).await;
            let protobuf = self.objects::<K>(scope.clone(), PROTOBUF).await;
            if let (Some(json), Some(protobuf)) = (json, protobuf)
                && versions(&json) == versions(&protobuf)
            {
                return [json, protobuf];
            }
        }
        panic!("{} change all the time", K::kind(&()));
    }

    /// The objects of a kind are the same in both encodings.
    async fn compare<K>(&self, scope: &Scope)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Debug + PartialEq + 'static,
    {
        let [json, protobuf] = self.both::<K>(scope).await;
        for (protobuf, json) in protobuf.iter().zip(&json) {
            assert_eq!(protobuf.decode::<K>().unwrap(), json.decode::<K>().unwrap());
            // Not only what the types have.
            assert_eq!(plain(protobuf), plain(json));
        }
    }
}

/// The identities of objects, which other clients may create, change and delete.
fn versions(objects: &[Object]) -> Vec<(String, String, String)> {
    let identity = |object: &Object| (object.key().to_string(), object.uid().to_owned(), object.version().to_owned());
    objects.iter().map(identity).collect()
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// All of an object. In protobuf the claims of a StatefulSet have no kind of their own.
fn plain(object: &Object) -> Value {
    let mut plain: Value = serde_json::from_slice(&object.json()).unwrap();
    let claims = plain.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
        claim.remove("kind");
        claim.remove("apiVersion");
    }
    plain
}

fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Runtime::new().unwrap().block_on(test)
}

#[test]
fn objects_are_the_same_in_json_and_in_protobuf() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/it/watch/encoding");
    // The namespace comes first.
    let files = ["cluster", "settings", "workloads"].map(|name| format!("--filename={folder}/{name}.yaml"));
    cluster.must(&[&["apply"][..], &files.each_ref().map(String::as_str)].concat());
    run(async {
        let wire = Wire::new(cluster).await;
        let namespaced = Scope { namespace: Some(NAMESPACE.into()), ..Scope::default() };
        macro_rules! compare {
            ($scope:expr, $($kind:ty),* $(,)?) => { $(wire.compare::<$kind>($scope).await;)* };
        }
        compare!(
            &namespaced,
            Autoscaler,
            ConfigMap,
            ControllerRevision,
            CoreEvent,
            CronJob,
            CSIStorageCapacity,
            DaemonSet,
            Deployment,
            Endpoints,
            EndpointSlice,
            HorizontalPodAutoscaler,
            Ingress,
            Job,
            Lease,
            LimitRange,
            NetworkPolicy,
            NewEvent,
            PersistentVolumeClaim,
            Pod,
            PodDisruptionBudget,
            PodTemplate,
            ReplicaSet,
            ReplicationController,
            ResourceClaim,
            ResourceClaimTemplate,
            ResourceQuota,
            Role,
            RoleBinding,
            Secret,
            Service,
            ServiceAccount,
            StatefulSet,
        );
        let labelled = Scope { labels: Some("wire".into()), ..Scope::default() };
        compare!(
            &labelled,
            CertificateSigningRequest,
            ClusterRole,
            ClusterRoleBinding,
            CSIDriver,
            CSINode,
            CustomResourceDefinition,
            DeviceClass,
            FlowSchema,
            IngressClass,
            MutatingWebhookConfiguration,
            Namespace,
            Node,
            PersistentVolume,
            PriorityClass,
            PriorityLevelConfiguration,
            ResourceSlice,
            RuntimeClass,
            StorageClass,
            ValidatingAdmissionPolicy,
            ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
            VolumeAttributesClass,
        );
    });
}

#[test]
fn metadata_comes_in_protobuf_and_types_that_may_know_more_come_in_json() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let namespace = "wire-metadata";
    cluster.create_namespace(namespace, [crate::live::configmap(namespace, "a", "1")]);
    run(async {
        let wire = Wire::new(cluster).await;
        let scope = Scope { namespace: Some(namespace.into()), metadata_only: true, ..Scope::default() };
        let [json, protobuf] = wire.both::<ConfigMap>(&scope).await;
        assert_eq!(protobuf.iter().map(plain).collect::<Vec<_>>(), json.iter().map(plain).collect::<Vec<_>>());
        let scope = Scope { metadata_only: false, ..scope };
        wire.objects::<PartialObjectMeta<ConfigMap>>(scope.clone(), PROTOBUF).await;
        wire.objects::<OwnConfigMap>(scope.clone(), JSON).await;
        let [json, protobuf] = wire.both::<PartialConfigMap>(&scope).await;
        for (protobuf, json) in protobuf.iter().zip(&json) {
            assert_eq!(protobuf.decode::<PartialConfigMap>().unwrap(), json.decode().unwrap());
            assert_eq!(json.decode::<PartialConfigMap>().unwrap().data, json.decode::<ConfigMap>().unwrap().data);
        }
    });
}

/// All fields of it are in the table of protobuf, as those of the full type are.
#[derive(Debug, PartialEq, kooper::Partial)]
#[partial(of = ConfigMap)]
struct PartialConfigMap {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
}

/// A type of a user's own. Unlike the table of protobuf, it may have any field of the API.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
struct OwnConfigMap {
    metadata: ObjectMeta,
}

#[test]
fn an_error_is_read_in_protobuf() {
    let Some(cluster) = ControlPlane::shared() else { return };
    run(async {
        let wire = Wire::new(cluster).await;
        let scope = Scope { labels: Some("a=b=c".into()), ..Scope::default() };
        let retriever = ApiRetriever::<Pod>::new(wire.client.clone(), scope);
        let error = Retriever::<Pod>::list(&retriever, ListRequest::default()).await.unwrap_err();
        assert_eq!(*wire.media.lock(), PROTOBUF);
        assert!(
            matches!(&error, RetrieveError::Status { code: 400, message } if message.starts_with("found '=', expected")),
            "{error:?}"
        );
    });
}
