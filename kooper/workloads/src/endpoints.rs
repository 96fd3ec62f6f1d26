//! Services: the addresses of their pods, in EndpointSlices and in Endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ContainerPort, EndpointAddress, EndpointPort as Port, EndpointSubset, Endpoints, ObjectReference, Pod, Service,
    ServicePort,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::children::{controlled, key_of, unless_gone};
use super::pods::{is_ready, is_terminal};
use super::versions::{Field as _, given};
use kooper_access::KindExt as _;
use kooper_access::capability::{Index, PatchBody, by, owned_by};
use kooper_access::{ConfigError, Controller, Creator, Deleter, Patcher, Reader};
use kooper_runtime::internal::clock;
use kooper_runtime::{ObjectKey, Result};

/// The labels of EndpointSlices and Endpoints: the Service, and who writes them.
const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
const ENDPOINTS_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const HEADLESS: &str = "service.kubernetes.io/headless";

pub(super) fn controller() -> Result<Controller, ConfigError> {
    Service::controller("endpoints")
        .resync(None)
        .owns(EndpointSlice::all())
        .watches::<Pod, _, _>(selecting)
        .when(|service| selector(service).is_some())
        .handler(reconcile)
        .deleted(delete_late)
        .build()
}

fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
    spec.selector.as_ref().filter(|selector| !selector.is_empty())
}

/// Services by one label of their selectors: that with the longest value, which the fewest pods have, as a rule.
struct BySelector;

impl Index for BySelector {
    type Object = Service;

    fn values(service: &Service) -> impl IntoIterator<Item = String> {
        let longest = selector(service).and_then(|labels| labels.iter().max_by_key(|(_, value)| value.len()));
        longest.map(|(key, value)| format!("{key}={value}"))
    }
}

fn selecting(pod: &Pod, services: &Reader<Service>) -> Vec<ObjectKey> {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let by_label =
        |(key, value): (&String, &String)| by::index(BySelector, format!("{key}={value}")).namespace(namespace);
    let all = labels.iter().flat_map(|label| services.select(by_label(label))).flatten();
    let selects = |service: &Arc<Service>| {
        selector(service).is_some_and(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)))
    };
    all.filter(selects).map(|service| key_of(&service.metadata)).collect()
}

#[expect(clippy::too_many_arguments, reason = "each grants one verb")]
async fn reconcile(
    service: Arc<Service>,
    pods: Reader<Pod>,
    slices: Reader<EndpointSlice>,
    creator: Creator<EndpointSlice>,
    patcher: Patcher<EndpointSlice>,
    deleter: Deleter<EndpointSlice>,
    endpoints: Reader<Endpoints>,
    endpoints_creator: Creator<Endpoints>,
    endpoints_patcher: Patcher<Endpoints>,
) -> Result<()> {
    let Some(selector) = selector(&service) else { return Ok(()) };
    let expression: Vec<_> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let pods = pods.select(by::labels(&expression.join(","))?.namespace(namespace)).collect::<Result<Vec<_>, _>>()?;
    let pods: Vec<_> = pods.into_iter().filter(|pod| address(pod).is_some() && !is_terminal(pod)).collect();

    let mut known = controlled(&service, &slices)?.into_iter().filter(|slice| slice.address_type == "IPv4");
    let wanted = slice(&service, &pods)?;
    match known.next() {
        None => drop(creator.create(&wanted).await?),
        Some(slice) if same_slice(&slice, &wanted) => {}
        Some(slice) => {
            let patch = json!({
                "metadata": {"labels": wanted.metadata.labels, "annotations": wanted.metadata.annotations},
                "endpoints": wanted.endpoints.field().cloned().unwrap_or_default(), "ports": wanted.ports.unwrap_or_default()
            });
            unless_gone(patcher.patch_object(&slice, PatchBody::merge(patch)).await)?;
        }
    }
    for other in known {
        deleter.delete_object(&other).await?;
    }

    let wanted = endpoints_of(&service, &pods);
    match endpoints.get(&key_of(&service.metadata))? {
        None => match endpoints_creator.create(&wanted).await {
            Err(error) if error.is_conflict() => {}
            created => drop(created?),
        },
        Some(now)
            if json!(now.subsets.clone().unwrap_or_default()) == json!(wanted.subsets.clone().unwrap_or_default()) => {}
        Some(now) => {
            let patch = PatchBody::merge(
                json!({"metadata": {"annotations": wanted.metadata.annotations}, "subsets": wanted.subsets}),
            );
            unless_gone(endpoints_patcher.patch_object(&now, patch).await)?;
        }
    }
    Ok(())
}

/// Deletes Endpoints that were created after the API server had deleted those of the Service.
async fn delete_late(service: Arc<Service>, endpoints: Reader<Endpoints>, deleter: Deleter<Endpoints>) -> Result<()> {
    if let Some(late) = endpoints.get(&key_of(&service.metadata))? {
        deleter.delete_object(&late).await?;
    }
    Ok(())
}

fn same_slice(one: &EndpointSlice, other: &EndpointSlice) -> bool {
    let part = |slice: &EndpointSlice| {
        json!([
            slice.endpoints.field().cloned().unwrap_or_default(),
            slice.ports.clone().unwrap_or_default(),
            slice.metadata.labels
        ])
    };
    part(one) == part(other)
}

fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref().filter(|ip| !ip.is_empty())
}

/// The labels of a Service, and those of what is made for it.
fn labels<const N: usize>(service: &Service, own: [(&str, &str); N]) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// The annotation with the time of the change, which is written with a change only.
fn changed_now() -> BTreeMap<String, String> {
    let now = clock::wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    [("endpoints.kubernetes.io/last-change-trigger-time".to_owned(), now)].into()
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The pod's own name in a headless Service.
fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_own = spec.subdomain == service.metadata.name && pod.metadata.namespace == service.metadata.namespace;
    spec.hostname.clone().filter(|_| is_own)
}

/// Returns `true` if the addresses of a Service are ready, whatever the state of their pods is.
fn publishes_all(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.publish_not_ready_addresses == Some(true))
}

fn slice(service: &Arc<Service>, pods: &[Arc<Pod>]) -> Result<EndpointSlice> {
    let name = service.metadata.name.clone().unwrap_or_default();
    let own = [(SERVICE, name.as_str()), MANAGED_BY];
    let endpoint = |pod: &Arc<Pod>| {
        let terminating = pod.metadata.deletion_timestamp.is_some();
        Endpoint {
            addresses: address(pod).into_iter().map(ToOwned::to_owned).collect(),
            conditions: Some(EndpointConditions {
                ready: Some(publishes_all(service) || (is_ready(pod) && !terminating)),
                serving: Some(is_ready(pod)),
                terminating: Some(terminating),
            }),
            hostname: hostname(pod, service),
            node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            target_ref: Some(target(pod)),
            ..Endpoint::default()
        }
    };
    let slice = EndpointSlice {
        address_type: "IPv4".to_owned(),
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service, own)),
            annotations: Some(changed_now()),
            ..ObjectMeta::default()
        },
        endpoints: given(pods.iter().map(endpoint).collect::<Vec<_>>()),
        ports: Some(
            ports(service, pods)
                .into_iter()
                .map(|(port, number)| EndpointPort {
                    name: Some(port.name.clone().unwrap_or_default()),
                    protocol: port.protocol.clone().or_else(|| Some("TCP".to_owned())),
                    port: Some(number),
                    app_protocol: port.app_protocol.clone(),
                })
                .collect(),
        ),
    };
    Ok(owned_by(service, slice)?)
}

/// The ports of the Service, as the first pod that has them numbers them.
fn ports<'a>(service: &'a Service, pods: &[Arc<Pod>]) -> Vec<(&'a ServicePort, i32)> {
    let all = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    all.filter_map(|port| Some((port, pods.iter().find_map(|pod| number(port, pod))?))).collect()
}

/// The port of a pod that a Service's port leads to.
fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match port.target_port.as_ref() {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let is_it = |one: &&ContainerPort| {
                one.name.as_ref() == Some(name) && one.protocol.as_deref().unwrap_or("TCP") == protocol
            };
            containers.flat_map(|container| container.ports.iter().flatten()).find(is_it).map(|one| one.container_port)
        }
    }
}

fn endpoints_of(service: &Service, pods: &[Arc<Pod>]) -> Endpoints {
    let address = |pod: &&Arc<Pod>| EndpointAddress {
        ip: address(pod).unwrap_or_default().to_owned(),
        hostname: hostname(pod, service),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(target(pod)),
    };
    let all = publishes_all(service);
    let shown = pods.iter().filter(|pod| all || pod.metadata.deletion_timestamp.is_none());
    let (ready, others): (Vec<_>, Vec<_>) = shown.partition(|pod| all || is_ready(pod));
    let list = |pods: &[&Arc<Pod>]| {
        let mut list: Vec<_> = pods.iter().map(address).collect();
        list.sort_by(|one, other| one.ip.cmp(&other.ip));
        Some(list).filter(|list| !list.is_empty())
    };
    let ports: Vec<_> = ports(service, pods)
        .into_iter()
        .map(|(port, number)| Port {
            name: port.name.clone(),
            port: number,
            protocol: port.protocol.clone().or_else(|| Some("TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    let subset = EndpointSubset {
        addresses: list(&ready),
        not_ready_addresses: list(&others),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
    };
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service, [ENDPOINTS_BY])),
            annotations: Some(changed_now()),
            owner_references: None::<Vec<OwnerReference>>,
            ..ObjectMeta::default()
        },
        subsets: (!ready.is_empty() || !others.is_empty()).then(|| vec![subset]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_ends_stays_in_a_service_that_publishes_all() {
        let pod = json!({
            "metadata": {"name": "db-0", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"podIP": "10.244.0.2", "conditions": [{"type": "Ready", "status": "True"}]}
        });
        let pods: [Arc<Pod>; 1] = [Arc::new(serde_json::from_value(pod).unwrap())];
        for all in [true, false] {
            let service = json!({
                "metadata": {"name": "db", "namespace": "default", "uid": "1"},
                "spec": {"publishNotReadyAddresses": all}
            });
            let service: Arc<Service> = Arc::new(serde_json::from_value(service).unwrap());
            let slice = json!(slice(&service, &pods).unwrap());
            let conditions = json!({"ready": all, "serving": true, "terminating": true});
            assert_eq!(slice["endpoints"][0]["conditions"], conditions);
            assert_eq!(endpoints_of(&service, &pods).subsets.is_some(), all);
        }
    }
}
