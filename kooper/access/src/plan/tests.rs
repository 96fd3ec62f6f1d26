//! Selections of kinds that have the same name.

use k8s_openapi::api::core::v1::{ConfigMap, Service};

use crate::{Controller, KindExt, Reader};

mod serving {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "serving.knative.dev", version = "v1", kind = "Service", namespaced, schema = "disabled")]
    pub(super) struct ServiceSpec {}
}

mod v1 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, schema = "disabled")]
    pub(super) struct ShopSpec {}
}

mod v2 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "example.com", version = "v2", kind = "Shop", namespaced, schema = "disabled")]
    pub(super) struct ShopSpec {}
}

/// The needs of readers: each group and resource, with its names.
fn read(controller: &Controller) -> Vec<String> {
    let needs = controller.plan().needs().iter().filter(|need| need.because.starts_with("Reader<"));
    needs.map(|need| format!("{}/{} {:?}", need.rule.group, need.rule.resource, need.names)).collect()
}

#[test]
fn a_selection_is_of_one_of_two_kinds_with_the_same_name() {
    async fn core_first(_: Reader<Service>, _: Reader<serving::Service>) {}
    async fn core_last(_: Reader<serving::Service>, _: Reader<Service>) {}
    let of = || Controller::builder::<ConfigMap>("one").reads(serving::Service::all().names(["shop"]));
    let (core, serving) = ("/services []", "serving.knative.dev/services [\"shop\"]");
    let first = of().handler(core_first).build().expect("a controller");
    assert_eq!(read(&first), [core, serving]);
    let last = of().handler(core_last).build().expect("a controller");
    assert_eq!(read(&last), [serving, core]);
    for controller in [first, last] {
        assert!(controller.plan().keeps_all("Reader<Service>"), "the services of the core group are not selected");
    }
}

#[test]
fn a_selection_is_of_one_of_two_versions() {
    async fn handler(_: Reader<v1::Shop>, _: Reader<v2::Shop>) {}
    let of = || Controller::builder::<ConfigMap>("one").handler(handler);
    let (all, a, b) = ("example.com/shops []", "example.com/shops [\"a\"]", "example.com/shops [\"b\"]");
    let one = of().reads(v2::Shop::all().names(["b"])).build().expect("a controller");
    assert_eq!(read(&one), [b, all]);
    assert!(one.plan().keeps_all("Reader<Shop>"));
    let both = of().reads(v1::Shop::all().names(["a"])).reads(v2::Shop::all().names(["b"]));
    let both = both.build().expect("a controller");
    assert_eq!(read(&both), [a, b]);
    assert!(!both.plan().keeps_all("Reader<Shop>"));
    // A role cannot be limited to labels.
    let labelled = of().reads(v1::Shop::all().labels("app=x")).reads(v2::Shop::all().names(["b"]));
    assert_eq!(read(&labelled.build().expect("a controller")), [b, all]);
}
