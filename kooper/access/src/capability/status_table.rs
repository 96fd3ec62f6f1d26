//! Which built-in kinds have a status, in each version of Kubernetes.

use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, certificates, core, flowcontrol, networking, policy, resource,
    storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;

use super::has_status::{BuiltIn, HasStatus};

macro_rules! statuses {
    ($($kind:ty => $status:ty,)*) => {
        $(
            #[diagnostic::do_not_recommend]
            impl HasStatus<BuiltIn> for $kind {
                type Status = $status;

                const OMITS_EMPTY_LISTS: bool = true;

                fn status(&self) -> Option<&$status> {
                    self.status.as_ref()
                }
            }
        )*
    };
}

statuses! {
    admissionregistration::v1::ValidatingAdmissionPolicy => admissionregistration::v1::ValidatingAdmissionPolicyStatus,
    apiextensions::v1::CustomResourceDefinition => apiextensions::v1::CustomResourceDefinitionStatus,
    apiregistration::v1::APIService => apiregistration::v1::APIServiceStatus,
    apps::v1::DaemonSet => apps::v1::DaemonSetStatus,
    apps::v1::Deployment => apps::v1::DeploymentStatus,
    apps::v1::ReplicaSet => apps::v1::ReplicaSetStatus,
    apps::v1::StatefulSet => apps::v1::StatefulSetStatus,
    autoscaling::v1::HorizontalPodAutoscaler => autoscaling::v1::HorizontalPodAutoscalerStatus,
    autoscaling::v2::HorizontalPodAutoscaler => autoscaling::v2::HorizontalPodAutoscalerStatus,
    batch::v1::CronJob => batch::v1::CronJobStatus,
    batch::v1::Job => batch::v1::JobStatus,
    certificates::v1::CertificateSigningRequest => certificates::v1::CertificateSigningRequestStatus,
    core::v1::Namespace => core::v1::NamespaceStatus,
    core::v1::Node => core::v1::NodeStatus,
    core::v1::PersistentVolume => core::v1::PersistentVolumeStatus,
    core::v1::PersistentVolumeClaim => core::v1::PersistentVolumeClaimStatus,
    core::v1::Pod => core::v1::PodStatus,
    core::v1::ReplicationController => core::v1::ReplicationControllerStatus,
    core::v1::ResourceQuota => core::v1::ResourceQuotaStatus,
    core::v1::Service => core::v1::ServiceStatus,
    flowcontrol::v1::FlowSchema => flowcontrol::v1::FlowSchemaStatus,
    flowcontrol::v1::PriorityLevelConfiguration => flowcontrol::v1::PriorityLevelConfigurationStatus,
    networking::v1::Ingress => networking::v1::IngressStatus,
    networking::v1::ServiceCIDR => networking::v1::ServiceCIDRStatus,
    policy::v1::PodDisruptionBudget => policy::v1::PodDisruptionBudgetStatus,
    resource::v1beta1::ResourceClaim => resource::v1beta1::ResourceClaimStatus,
    resource::v1beta2::ResourceClaim => resource::v1beta2::ResourceClaimStatus,
    storage::v1::VolumeAttachment => storage::v1::VolumeAttachmentStatus,
}

k8s_openapi::k8s_if_ge_1_34! {
    statuses! {
        resource::v1::ResourceClaim => resource::v1::ResourceClaimStatus,
    }
}

k8s_openapi::k8s_if_ge_1_35! {
    statuses! {
        certificates::v1beta1::PodCertificateRequest => certificates::v1beta1::PodCertificateRequestStatus,
        k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration =>
            k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigrationStatus,
    }
}
