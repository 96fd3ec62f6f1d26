//! The strategies of the kinds, as in Kubernetes' own registry: what each kind does to its objects, and how it shows
//! them. A kind has one file, or a function in `printers`; the code that serves requests asks for its strategy, and
//! compares no names.

mod certificate_signing_request;
mod config_map;
mod cron_job;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod event;
mod horizontal_pod_autoscaler;
mod ingress;
mod job;
mod lease;
mod namespace;
mod network_policy;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_template;
mod printers;
mod priority_class;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod role;
mod role_binding;
mod row;
mod secret;
mod service;
mod service_account;
mod stateful_set;
mod strategy;
mod warnings;
mod webhook_configuration;

use serde_json::Value;

use self::printers::Printed;
pub(crate) use self::row::{Row, selector_text};
pub(crate) use self::service::first_address;
use self::strategy::Plain;
pub(crate) use self::strategy::{Allocation, Reset, Strategy, Update, keep};
use crate::cause::Cause;
use crate::kinds::{Kind, ResourceInfo, member};
use crate::store::Traits;
use crate::validate::Write;
use crate::validate::field_value::{Causes, FieldValue};
use crate::{crd, meta};

/// The strategy of a kind. Custom kinds have what their definition says instead.
pub(crate) fn of(kind: &Kind) -> &'static dyn Strategy {
    if kind.custom.is_some() { &Plain } else { builtin(kind) }
}

fn builtin(kind: &ResourceInfo) -> &'static dyn Strategy {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ReplicationController") => &replication_controller::ReplicationController,
        ("", "PodTemplate") => &pod_template::PodTemplate,
        ("", "Endpoints") => &endpoints::Endpoints,
        ("", "Service") => &service::Service,
        ("", "ServiceAccount") => &service_account::ServiceAccount,
        ("", "PersistentVolume") => &persistent_volume::PersistentVolume,
        ("", "PersistentVolumeClaim") => &persistent_volume_claim::PersistentVolumeClaim,
        ("", "Node") => &node::Node,
        ("", "Event") => &event::Event { core: true },
        ("", "ResourceQuota") => &resource_quota::ResourceQuota,
        ("", "ConfigMap") => &config_map::ConfigMap,
        ("", "Secret") => &secret::Secret,
        ("", "Namespace") => &namespace::Namespace,
        ("", "Pod") => &pod::Pod,
        ("apps", "Deployment") => &deployment::Deployment,
        ("apps", "ReplicaSet") => &replica_set::ReplicaSet,
        ("apps", "DaemonSet") => &daemon_set::DaemonSet,
        ("apps", "StatefulSet") => &stateful_set::StatefulSet,
        ("apps", "ControllerRevision") => &Printed(printers::controller_revision),
        ("batch", "Job") => &job::Job,
        ("batch", "CronJob") => &cron_job::CronJob,
        ("autoscaling", "HorizontalPodAutoscaler") => &horizontal_pod_autoscaler::HorizontalPodAutoscaler,
        ("policy", "PodDisruptionBudget") => &pod_disruption_budget::PodDisruptionBudget,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            &Printed(printers::validating_admission_policy)
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &Printed(printers::mutating_admission_policy),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding") => {
            &Printed(printers::admission_policy_binding)
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            &webhook_configuration::WebhookConfiguration
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => &certificate_signing_request::CertificateSigningRequest,
        ("coordination.k8s.io", "Lease") => &lease::Lease,
        ("discovery.k8s.io", "EndpointSlice") => &endpoint_slice::EndpointSlice,
        ("events.k8s.io", "Event") => &event::Event { core: false },
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &Printed(printers::flow_schema),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            &Printed(printers::priority_level_configuration)
        }
        ("networking.k8s.io", "Ingress") => &ingress::Ingress,
        ("networking.k8s.io", "IngressClass") => &Printed(printers::ingress_class),
        ("networking.k8s.io", "NetworkPolicy") => &network_policy::NetworkPolicy,
        ("networking.k8s.io", "ServiceCIDR") => &Printed(printers::service_cidr),
        ("networking.k8s.io", "IPAddress") => &Printed(printers::ip_address),
        ("node.k8s.io", "RuntimeClass") => &Printed(printers::runtime_class),
        ("rbac.authorization.k8s.io", "Role") => &role::Role { namespaced: true },
        ("rbac.authorization.k8s.io", "ClusterRole") => &role::Role { namespaced: false },
        ("rbac.authorization.k8s.io", "RoleBinding") => &role_binding::RoleBinding { namespaced: true },
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &role_binding::RoleBinding { namespaced: false },
        ("resource.k8s.io", "ResourceClaim") => &Printed(printers::resource_claim),
        ("resource.k8s.io", "ResourceSlice") => &Printed(printers::resource_slice),
        ("scheduling.k8s.io", "PriorityClass") => &priority_class::PriorityClass,
        ("storage.k8s.io", "StorageClass") => &Printed(printers::storage_class),
        ("storage.k8s.io", "VolumeAttributesClass") => &Printed(printers::volume_attributes_class),
        ("storage.k8s.io", "VolumeAttachment") => &Printed(printers::volume_attachment),
        ("storage.k8s.io", "CSIDriver") => &Printed(printers::csi_driver),
        ("storage.k8s.io", "CSINode") => &Printed(printers::csi_node),
        ("storage.k8s.io", "CSIStorageCapacity") => &Printed(printers::csi_storage_capacity),
        (crd::GROUP, _) => &custom_resource_definition::CustomResourceDefinition,
        _ => &Plain,
    }
}

/// Returns the traits of an object, which selectors are matched against.
pub(crate) fn traits(kind: &Kind, object: &Value) -> Traits {
    traits_by(of(kind), kind, object)
}

/// Returns the traits of an object of a built-in kind.
pub(crate) fn builtin_traits(kind: &ResourceInfo, object: &Value) -> Traits {
    traits_by(builtin(kind), kind, object)
}

fn traits_by(strategy: &dyn Strategy, kind: &ResourceInfo, object: &Value) -> Traits {
    let metadata = &object["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let field = |path: &String| strategy.field(object, path).unwrap_or_else(|| member(object, path)).into();
    Traits {
        uid: metadata["uid"].as_str().unwrap_or_default().into(),
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into())).collect(),
        fields: kind.fields.iter().map(field).collect(),
        hidden: strategy.hidden(object).map(Into::into),
    }
}

/// The rules that an object violates. Of a custom one, rules that are violated as before are worth a warning.
pub(crate) fn validate(kind: &Kind, object: &Value, write: Write<'_>, warnings: &mut Vec<String>) -> Vec<Cause> {
    let mut causes = meta::validate(kind, object, of(kind).name_form());
    if let Some(definition) = &kind.custom {
        let status = matches!(write, Write::Status(_));
        causes.extend(definition.validate(object, write.present(), status, warnings));
        return causes;
    }
    let found = Causes::default();
    let at = FieldValue::root(object, &found);
    match write {
        Write::Status(present) => of(kind).validate_status(&at, present),
        write => of(kind).validate(&at, write),
    }
    causes.extend(found.into_inner());
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::traits;
    use crate::kinds::Kinds;
    use crate::store::Store;

    #[test]
    fn field_values_have_their_defaults() {
        let kinds = Kinds::builtin(&Store::new());
        let pod = kinds.of("v1", "Pod").expect("it is listed");
        let object = json!({"metadata": {"uid": "u", "labels": {"a": "b"}}, "spec": {"nodeName": "n"}});
        let traits = traits(pod, &object);
        assert_eq!(traits.fields[0].as_ref(), "n");
        assert_eq!(traits.fields[4].as_ref(), "false");
        assert_eq!(traits.labels[0], ("a".into(), "b".into()));
    }
}
