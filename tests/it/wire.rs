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
use kooper::Retriever;
use kooper::kube::client::ClientBuilder;
use kooper::kube::core::PartialObjectMeta;
use kooper::kube::{Client, Resource};
use kooper::object::Object;
use kooper::retriever::{ApiRetriever, Event, ListRequest, RetrieveError, Scope, WatchRequest};
use kooper_tests::control_plane::ControlPlane;
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

    /// All objects of a scope, sorted by key: as listed in pages of two, and as watched.
    async fn objects<K: Resource<DynamicType = ()> + 'static>(&self, scope: Scope, media: &str) -> Vec<Object> {
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
                other => panic!("{other:?}"),
            }
        }
        for objects in [&mut listed, &mut watched] {
            objects.sort_by(|a, b| a.key().cmp(b.key()));
            assert!(!objects.is_empty(), "there are {}", K::kind(&()));
        }
        for (listed, watched) in listed.iter().zip(&watched) {
            assert_eq!((listed.key(), listed.version()), (watched.key(), watched.version()));
        }
        assert_eq!(listed.len(), watched.len());
        watched
    }

    /// The objects of a kind are the same in both encodings.
    async fn compare<K>(&self)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Debug + PartialEq + 'static,
    {
        let json = self.objects::<K>(Scope { json_only: true, ..Scope::default() }, JSON).await;
        let protobuf = self.objects::<K>(Scope::default(), PROTOBUF).await;
        assert_eq!(protobuf.len(), json.len());
        for (protobuf, json) in protobuf.iter().zip(&json) {
            assert_eq!((protobuf.key(), protobuf.uid(), protobuf.version()), (json.key(), json.uid(), json.version()));
            assert_eq!(protobuf.decode::<K>().unwrap(), json.decode::<K>().unwrap());
            // Not only what the types have.
            assert_eq!(plain(protobuf), plain(json));
        }
    }
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
    cluster.must(&["create", "namespace", NAMESPACE]);
    cluster.apply(objects());
    run(async {
        let wire = Wire::new(cluster).await;
        wire.compare::<ConfigMap>().await;
        wire.compare::<Secret>().await;
        wire.compare::<Pod>().await;
        wire.compare::<Service>().await;
        wire.compare::<Namespace>().await;
        wire.compare::<CoreEvent>().await;
        wire.compare::<Deployment>().await;
        wire.compare::<StatefulSet>().await;
        wire.compare::<Job>().await;
        wire.compare::<CronJob>().await;
        wire.compare::<Ingress>().await;
        wire.compare::<NetworkPolicy>().await;
        wire.compare::<PodDisruptionBudget>().await;
        wire.compare::<HorizontalPodAutoscaler>().await;
        wire.compare::<Role>().await;
        wire.compare::<ClusterRole>().await;
        wire.compare::<Lease>().await;
    });
}

#[test]
fn metadata_comes_in_protobuf_and_types_that_may_know_more_come_in_json() {
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.apply([crate::live::configmap("default", "wire-metadata", "1")]);
    run(async {
        let wire = Wire::new(cluster).await;
        let scope = Scope { namespace: Some("default".into()), metadata_only: true, ..Scope::default() };
        let protobuf = wire.objects::<ConfigMap>(scope.clone(), PROTOBUF).await;
        let json = wire.objects::<ConfigMap>(Scope { json_only: true, ..scope }, JSON).await;
        assert_eq!(protobuf.iter().map(plain).collect::<Vec<_>>(), json.iter().map(plain).collect::<Vec<_>>());
        wire.objects::<PartialObjectMeta<ConfigMap>>(Scope::default(), JSON).await;
    });
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
