use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

#[derive(kooper::Partial)]
#[partial(of = Pod)]
pub struct Placed {
    pub metadata: ObjectMeta,
    pub spec: Spec,
}

#[derive(kooper::Partial)]
#[partial(of = PodSpec)]
pub struct Spec {}

fn main() {}
