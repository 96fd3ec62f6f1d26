//! The encoding in which objects arrive: a handler sees the same objects.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Namespace, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
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
use serde_json::{Value, json};
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
            *seen.lock().unwrap() = media.unwrap_or_default().to_owned();
            response
        });
        let config = connection(cluster.kubeconfig(), None).await;
        Self { client: ClientBuilder::try_from(config).unwrap().with_layer(&layer).build(), media }
    }

    /// All objects of a scope, sorted by key: as listed in pages of two, and as watched. `None` if they changed in
    /// between.
    async fn objects<K: Resource<DynamicType = ()> + 'static>(&self, scope: Scope, media: &str) -> Option<Vec<Object>> {
        let retriever = ApiRetriever::<K>::new(self.client.clone(), scope);
        let mut listed = Vec::new();
        let mut request = ListRequest::default();
        request.limit = 2;
        loop {
            let page = Retriever::<K>::list(&retriever, request.clone()).await.unwrap();
            assert_eq!(*self.media.lock().unwrap(), media);
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
        assert_eq!(*self.media.lock().unwrap(), expected);
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
    async fn both<K: Resource<DynamicType = ()> + 'static>(&self, scope: &Scope) -> [Vec<Object>; 2] {
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

fn objects() -> Vec<Value> {
    let template = json!({
        "metadata": {"labels": {"app": "a"}, "annotations": {"note": "ü \u{1F980} <&>"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": "i", "args": ["--a", ""],
                "ports": [{"containerPort": 80, "name": "web"}],
                "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "web"}},
                "readinessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 3},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true}],
            }],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "2Mi"}}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        },
    });
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = json!("Never");
    let selector = json!({"matchLabels": {"app": "a"}});
    let object = |api_version: &str, kind: &str, content: Value| {
        let mut object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": NAMESPACE}});
        object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        object
    };
    vec![
        object("v1", "ServiceAccount", json!({})),
        object(
            "v1",
            "ConfigMap",
            json!({"data": {"a": "", "b": "x\ny"}, "binaryData": {"c": "AP8="}, "immutable": false}),
        ),
        object("v1", "Secret", json!({"stringData": {"a": "b", "empty": ""}, "type": "example.com/opaque"})),
        object("v1", "Pod", json!({"spec": template["spec"]})),
        object(
            "v1",
            "Service",
            json!({"spec": {"selector": {"app": "a"}, "ports": [{"name": "m", "port": 80, "targetPort": "web"}, {"name": "n", "port": 81, "targetPort": 8081}]}}),
        ),
        object(
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 0, "selector": selector, "template": template, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}}),
        ),
        object(
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"serviceName": "a", "selector": selector, "template": template, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5Gi"}}}}]}}),
        ),
        object("batch/v1", "Job", json!({"spec": {"backoffLimit": 0, "template": job}})),
        object(
            "batch/v1",
            "CronJob",
            json!({"spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": {"template": job}}}}),
        ),
        object(
            "coordination.k8s.io/v1",
            "Lease",
            json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.678900Z"}}),
        ),
        object(
            "networking.k8s.io/v1",
            "Ingress",
            json!({"spec": {"rules": [{"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]}}),
        ),
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}, "ingress": [{}], "egress": [{"ports": [{"port": 53, "protocol": "UDP"}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}}),
        ),
        object("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": "50%", "selector": selector}})),
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}}),
        ),
        object(
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}]}),
        ),
        object(
            "v1",
            "Event",
            json!({"involvedObject": {"kind": "Pod", "name": "a", "namespace": NAMESPACE}, "reason": "R", "message": "M", "type": "Normal", "count": 2, "firstTimestamp": "2026-01-02T03:04:05Z"}),
        ),
    ]
}

fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Runtime::new().unwrap().block_on(test)
}

#[test]
fn objects_are_the_same_in_json_and_in_protobuf() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let labels = json!({"wire": ""});
    let rules = json!([{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]);
    cluster.apply([
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAMESPACE, "labels": labels}, "rules": rules}),
    ]);
    cluster.apply(objects());
    run(async {
        let wire = Wire::new(cluster).await;
        let namespaced = Scope { namespace: Some(NAMESPACE.into()), ..Scope::default() };
        let labelled = Scope { labels: Some("wire".into()), ..Scope::default() };
        wire.compare::<ConfigMap>(&namespaced).await;
        wire.compare::<Secret>(&namespaced).await;
        wire.compare::<Pod>(&namespaced).await;
        wire.compare::<Service>(&namespaced).await;
        wire.compare::<Namespace>(&labelled).await;
        wire.compare::<CoreEvent>(&namespaced).await;
        wire.compare::<Deployment>(&namespaced).await;
        wire.compare::<StatefulSet>(&namespaced).await;
        wire.compare::<Job>(&namespaced).await;
        wire.compare::<CronJob>(&namespaced).await;
        wire.compare::<Ingress>(&namespaced).await;
        wire.compare::<NetworkPolicy>(&namespaced).await;
        wire.compare::<PodDisruptionBudget>(&namespaced).await;
        wire.compare::<HorizontalPodAutoscaler>(&namespaced).await;
        wire.compare::<Role>(&namespaced).await;
        wire.compare::<ClusterRole>(&labelled).await;
        wire.compare::<Lease>(&namespaced).await;
    });
}

#[test]
fn metadata_comes_in_protobuf_and_types_that_may_know_more_come_in_json() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let namespace = "wire-metadata";
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply([crate::live::configmap(namespace, "a", "1")]);
    run(async {
        let wire = Wire::new(cluster).await;
        let scope = Scope { namespace: Some(namespace.into()), metadata_only: true, ..Scope::default() };
        let [json, protobuf] = wire.both::<ConfigMap>(&scope).await;
        assert_eq!(protobuf.iter().map(plain).collect::<Vec<_>>(), json.iter().map(plain).collect::<Vec<_>>());
        let scope = Scope { metadata_only: false, ..scope };
        wire.objects::<PartialObjectMeta<ConfigMap>>(scope.clone(), PROTOBUF).await;
        wire.objects::<OwnConfigMap>(scope, JSON).await;
    });
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
        assert_eq!(*wire.media.lock().unwrap(), PROTOBUF);
        assert!(
            matches!(&error, RetrieveError::Status { code: 400, message } if message.starts_with("found '=', expected")),
            "{error:?}"
        );
    });
}
