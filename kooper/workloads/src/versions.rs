//! Fields that are required in some versions of Kubernetes, and optional in others.

use k8s_openapi::api::apps::v1::{DaemonSetSpec, DeploymentSpec, ReplicaSetSpec, StatefulSetSpec};
use k8s_openapi::api::batch::v1::CronJobSpec;
use k8s_openapi::api::discovery::v1::Endpoint;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

/// A field that may be optional.
pub(super) trait Field<T> {
    /// Its value, if it has one.
    fn field(&self) -> Option<&T>;
}

impl<T> Field<T> for Option<T> {
    fn field(&self) -> Option<&T> {
        self.as_ref()
    }
}

macro_rules! required {
    ($($kind:ty),* $(,)?) => {
        $(impl Field<$kind> for $kind {
            fn field(&self) -> Option<&$kind> {
                Some(self)
            }
        })*
    };
}

required!(
    CronJobSpec,
    DaemonSetSpec,
    DeploymentSpec,
    RawExtension,
    ReplicaSetSpec,
    StatefulSetSpec,
    String,
    Vec<Endpoint>,
    i64,
);

/// The value of a field that may be optional.
pub(super) fn given<T, F: From<T>>(value: T) -> F {
    value.into()
}
