//! Declared children.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kooper::External;
use kooper::prelude::*;

use crate::names;

#[kooper::controller(resource = Pod, children = [config, inner::password(once), web(config, password)], status = none, main = false)]
async fn each_form(children: Children<Pod>) -> Result<()> {
    let _: Option<Arc<ConfigMap>> = children.get(config)?;
    let _: Option<Arc<Deployment>> = children.get(web)?;
    Ok(())
}

#[kooper::controller(
    resource = Pod, init = connect, children = [config(after = tls, prune), tls(external), fronts(not_ready, optional, ready = is_open), dns(fronts, recreate(orphan), adopt)],
    status = none, main = false,
)]
async fn each_flag(fronts: Children<Pod>, _: State<String>) {
    let _ = fronts.get(self::fronts);
}

#[kooper::controller(resource = Pod, children = [config(keep)], deletion = ordered, finalizer = "a.b/c", status = none, main = false)]
async fn without_cleanup() {}

#[kooper::controller(resource = Pod, children = [config], deletion = ordered, cleanup = end, finalizer = "a.b/c", status = none, main = false)]
async fn with_cleanup() -> Result<Action> {
    Ok(Action::done())
}

#[kooper::controller(resource = Pod, children = [config], previous_children = [Service, batch::Job], status = none, main = false)]
async fn with_previous_children() {}

#[kooper::controller(resource = Pod, children = [], previous_children = [Service, Namespace], deletion = ordered, finalizer = "a.b/c", status = none, main = false)]
async fn without_slots(_: Children<Pod>) {}

#[kooper::controller(resource = Pod, children = [stalls], reads = [(Secret, labels = "app=shop")], status = none, main = false)]
async fn with_reads_of_a_child_function() {}

fn stalls(_: &Pod, _: &Reader<Secret>) -> Vec<ConfigMap> {
    Vec::new()
}

async fn connect() -> Result<String> {
    Ok(String::new())
}

async fn end(_: Children<Pod>) -> Result<()> {
    Ok(())
}

fn config(_: &Pod) -> Result<ConfigMap> {
    Ok(ConfigMap::default())
}

mod inner {
    pub(super) fn password(_: &super::Pod) -> Option<super::Secret> {
        None
    }
}

fn web(_: &Pod, _: &ConfigMap, _: Option<&Secret>) -> Deployment {
    Deployment::default()
}

fn tls(_: &Pod) -> External<Secret> {
    External::new(ObjectKey::cluster_scoped("tls"))
}

fn fronts(_: &Pod, _: &State<String>, _: &Reader<Secret>) -> Vec<Service> {
    Vec::new()
}

fn is_open(_: &Service) -> bool {
    true
}

fn dns(_: &Pod, _: &[Service]) -> Result<Vec<ConfigMap>> {
    Ok(Vec::new())
}

#[test]
fn each_is_defined() {
    assert_eq!(names::<each_form>(), ["each-form"]);
    assert_eq!(names::<each_flag>(), ["each-flag"]);
    assert_eq!(names::<without_cleanup>(), ["without-cleanup"]);
    assert_eq!(names::<with_cleanup>(), ["with-cleanup"]);
    assert_eq!(names::<with_previous_children>(), ["with-previous-children"]);
    assert_eq!(names::<without_slots>(), ["without-slots"]);
    assert_eq!(names::<with_reads_of_a_child_function>(), ["with-reads-of-a-child-function"]);
}
