//! Values that a handler reads from an object.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::{SENT, Widget, WidgetSpec};

/// An object that the programs handle.
pub trait Subject: ResourceExt {
    /// The length of the image in the spec.
    fn image_length(&self) -> usize;

    /// When the driver wrote the object; see [`SENT`].
    fn sent(&self) -> u64 {
        sent(self)
    }
}

/// When the driver wrote an object; see [`SENT`].
pub fn sent(object: &(impl ResourceExt + ?Sized)) -> u64 {
    let text = object.annotations().get(SENT);
    text.and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
}

impl Subject for Pod {
    fn image_length(&self) -> usize {
        let first = self.spec.as_ref().and_then(|spec| spec.containers.first());
        first.and_then(|container| container.image.as_ref()).map_or(0, String::len)
    }
}

impl Subject for Widget {
    fn image_length(&self) -> usize {
        self.spec.image.len()
    }
}

/// The part of a pod that the handlers read.
#[derive(Debug, kooper::Partial)]
#[partial(of = Pod)]
pub struct PodImage {
    metadata: ObjectMeta,
    spec: Option<PodContainers>,
}

#[derive(Debug, kooper::Partial)]
#[partial(of = PodSpec)]
struct PodContainers {
    containers: Vec<ContainerImage>,
}

#[derive(Debug, kooper::Partial)]
#[partial(of = Container)]
struct ContainerImage {
    image: Option<String>,
}

impl Subject for PodImage {
    fn image_length(&self) -> usize {
        let first = self.spec.as_ref().and_then(|spec| spec.containers.first());
        first.and_then(|container| container.image.as_ref()).map_or(0, String::len)
    }
}

/// The part of a widget that the handlers read.
#[derive(Debug, kooper::Partial)]
#[partial(of = Widget)]
pub struct WidgetImage {
    metadata: ObjectMeta,
    spec: ImageOfWidget,
}

#[derive(Debug, Default, kooper::Partial)]
#[partial(of = WidgetSpec)]
struct ImageOfWidget {
    image: String,
}

impl Subject for WidgetImage {
    fn image_length(&self) -> usize {
        self.spec.image.len()
    }
}
