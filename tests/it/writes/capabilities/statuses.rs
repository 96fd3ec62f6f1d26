//! Statuses that are written, and those that are not.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus};
use kooper::Controller;
use kooper::prelude::*;
use kooper_tests::control_plane::ControlPlane;

use super::get;
use crate::fixture::Start;
use crate::live::HandledStates;

#[test]
fn an_unchanged_status_is_not_written() {
    let namespace = "statuses";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    cluster.must(&["-n", namespace, "create", "service", "clusterip", "web", "--tcp=80"]);
    let seen = HandledStates::default();
    let handler =
        async |service: Arc<Service>, call: Call, statuses: StatusWriter<Service>, seen: State<HandledStates>| {
            let status = service.status.clone().unwrap_or_default();
            let mut conditions = Conditions::of(&service, status.conditions.as_deref().unwrap_or_default());
            conditions.set("HandledStates", true, "Handled", "it was handled").ready("Done", "all is done");
            let status = ServiceStatus { conditions: Some(conditions.into_vec()), ..status };
            let written = statuses.apply_status(&service, &status).await?;
            if written {
                seen.note("written", service.metadata.uid.as_deref().unwrap_or_default());
            } else {
                seen.note(if call.reasons().to_string().contains("resync") { "resync" } else { "event" }, "suppressed");
            }
            Ok::<_, kooper::BoxError>(())
        };
    let controller =
        Controller::builder::<Service>("statuses").namespaces([namespace]).resync(Some(Duration::from_secs(1)));
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    // Its own write causes one call, which writes nothing.
    seen.wait_for(&[("event", "suppressed")]);
    let before = get(cluster, namespace, "service", "web");
    let ready = before["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
    assert_eq!(ready["status"], "True", "{before}");
    seen.wait_for(&[("resync", "suppressed")]);
    let after = get(cluster, namespace, "service", "web");
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    let managers = cluster.must(&["-n", namespace, "get", "service", "web", "--show-managed-fields", "-o", "json"]);
    assert!(managers.contains("/statuses\""), "the field manager is the controller: {managers}");
    live.stop();
}

#[test]
fn a_second_status_in_one_call_is_compared_with_the_first() {
    let namespace = "statuses-twice";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    cluster.must(&["-n", namespace, "create", "service", "loadbalancer", "web", "--tcp=80"]);
    let seen = HandledStates::default();
    let handler = async |service: Arc<Service>, statuses: StatusWriter<Service>, seen: State<HandledStates>| {
        let status = |address: &str| {
            let ingress = LoadBalancerIngress { ip: Some(address.to_owned()), ..LoadBalancerIngress::default() };
            let balancer = LoadBalancerStatus { ingress: Some(vec![ingress]) };
            ServiceStatus { load_balancer: Some(balancer), ..ServiceStatus::default() }
        };
        if service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref()).is_none() {
            statuses.apply_status(&service, &status("192.0.2.1")).await?;
            seen.note("first", "done");
            return Ok(());
        }
        // Changed and changed back: the object that the call received has the last status.
        let there = statuses.apply_status(&service, &status("192.0.2.2")).await?;
        let back = statuses.apply_status(&service, &status("192.0.2.1")).await?;
        let same = statuses.apply_status(&service, &status("192.0.2.1")).await?;
        seen.note("second", format!("{there} {back} {same}"));
        Ok::<_, kooper::BoxError>(())
    };
    let controller = Controller::builder::<Service>("twice").namespaces([namespace]).workers(1);
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    seen.wait_for(&[("first", "done"), ("second", "true true false")]);
    live.stop();
    let service = get(cluster, namespace, "service", "web");
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1", "{service}");
}
