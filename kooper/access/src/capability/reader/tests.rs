use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::capability::by::{self, Index};

fn config(namespace: &str, name: &str, edit: impl FnOnce(&mut ConfigMap)) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.namespace = Some(namespace.to_owned());
    config.metadata.name = Some(name.to_owned());
    config.metadata.uid = Some(format!("uid-{name}"));
    edit(&mut config);
    config
}

fn labels(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn raw(objects: impl IntoIterator<Item = Value>) -> Reader<ConfigMap> {
    let store = Store::default();
    for object in objects {
        store.put(Object::parse(object.to_string().as_bytes()).unwrap());
    }
    Reader::over(Cache::new([(None, Arc::new(store))]))
}

fn names(found: impl Iterator<Item = Result<Arc<ConfigMap>, DecodeError>>) -> Vec<String> {
    let name = |config: Arc<ConfigMap>| config.metadata.name.clone().unwrap();
    found.map(|config| config.map(name).unwrap_or_else(|error| format!("not {}", error.key.name()))).collect()
}

/// ConfigMaps by the value of `mode`.
struct Mode;

impl Index for Mode {
    type Object = ConfigMap;

    fn values(config: &ConfigMap) -> impl IntoIterator<Item = String> {
        config.data.as_ref().and_then(|data| data.get("mode")).cloned()
    }
}

fn some() -> Reader<ConfigMap> {
    let web = |config: &mut ConfigMap| config.metadata.labels = labels(&[("app", "web"), ("tier", "front")]);
    let edge = |config: &mut ConfigMap| {
        config.metadata.labels = labels(&[("app", "web"), ("tier", "edge")]);
        config.data = labels(&[("mode", "fast")]);
    };
    let owned = |config: &mut ConfigMap| {
        let owner = OwnerReference { uid: "uid-web".to_owned(), ..OwnerReference::default() };
        config.metadata.owner_references = Some(vec![owner]);
        config.data = labels(&[("mode", "slow")]);
    };
    let reader = Reader::fixed([
        config("shop", "web", web),
        config("shop", "owned", owned),
        config("back", "edge", edge),
        config("back", "bare", |_| ()),
    ]);
    reader.unwrap()
}

#[test]
fn an_object_is_read_by_its_key() {
    let reader = some();
    let web = reader.get(&ObjectKey::namespaced("shop", "web")).unwrap().unwrap();
    assert_eq!(web.metadata.uid.as_deref(), Some("uid-web"));
    assert!(reader.get(&ObjectKey::namespaced("back", "web")).unwrap().is_none());
}

#[test]
fn a_list_is_ordered_by_key_and_has_the_metadata_of_each_object() {
    let entries: Vec<_> = some().list().collect();
    let keys: Vec<_> = entries.iter().map(|entry| entry.key().as_str()).collect();
    assert_eq!(keys, ["back/bare", "back/edge", "shop/owned", "shop/web"]);
    let [bare, edge, owned, _] = &*entries else { panic!("four") };
    assert_eq!((bare.namespace(), bare.name(), bare.uid(), bare.version()), (Some("back"), "bare", "uid-bare", ""));
    assert_eq!(edge.labels().unwrap()["tier"], "edge");
    assert_eq!(owned.owners().unwrap()[0].uid, "uid-web");
    assert_eq!(owned.generation().unwrap(), None);
    assert_eq!(owned.decode().unwrap().data, labels(&[("mode", "slow")]));
}

#[test]
fn a_selection_contains_the_objects_that_meet_all_conditions() {
    let reader = some();
    let web = reader.get(&ObjectKey::namespaced("shop", "web")).unwrap().unwrap();
    let select = |selection| names(reader.select(selection));
    assert_eq!(select(by::namespace("shop")), ["owned", "web"]);
    assert_eq!(select(by::label("app", "web")), ["edge", "web"]);
    assert_eq!(select(by::label("app", "web").namespace("back")), ["edge"]);
    assert_eq!(select(by::label("app", "web").label("tier", "front")), ["web"]);
    assert_eq!(select(by::labels("app=web, tier in (edge, none)").unwrap()), ["edge"]);
    assert_eq!(select(by::labels("!app").unwrap()), ["bare", "owned"]);
    assert_eq!(select(by::owner(&*web)), ["owned"]);
    assert_eq!(select(by::owner_uid("uid-web").namespace("back")), [""; 0]);
    assert_eq!(select(by::index(Mode, "fast")), ["edge"]);
    assert_eq!(select(by::index(Mode, "fast").label("tier", "front")), [""; 0]);
    assert_eq!(select(by::owner(&config("shop", "new", |config| config.metadata.uid = None))), [""; 0]);
    assert!(by::labels::<ConfigMap>("a in b").is_err());
}

#[test]
fn an_owner_in_a_namespace_owns_no_object_of_another_one_and_a_cluster_scoped_one_does() {
    let of_web = |config: &mut ConfigMap| {
        let owner = OwnerReference { uid: "uid-web".to_owned(), ..OwnerReference::default() };
        config.metadata.owner_references = Some(vec![owner]);
    };
    let reader = Reader::fixed([config("back", "foreign", of_web), config("shop", "owned", of_web)]).unwrap();
    assert_eq!(names(reader.select(by::owner(&config("shop", "web", |_| ())))), ["owned"]);
    assert_eq!(names(reader.select(by::owner(&config("shop", "web", |_| ())).namespace("back"))), [""; 0]);
    let mut web = Node::default();
    web.metadata.uid = Some("uid-web".to_owned());
    assert_eq!(names(reader.select(by::owner(&web))), ["foreign", "owned"]);
}

#[test]
fn an_object_that_does_not_decode_is_an_error_and_has_metadata() {
    let broken = json!({
        "metadata": {"name": "broken", "namespace": "shop", "generation": 4, "labels": {"app": "web"}}, "data": [1]
    });
    let whole =
        json!({"metadata": {"name": "whole", "namespace": "shop", "labels": {"app": "web"}}, "data": {"mode": "fast"}});
    let reader = raw([broken, whole]);
    assert!(reader.get(&ObjectKey::namespaced("shop", "broken")).is_err());
    let [broken, _] = &*reader.list().collect::<Vec<_>>() else { panic!("two") };
    assert_eq!((broken.generation().unwrap(), &*broken.labels().unwrap()["app"]), (Some(4), "web"));
    assert!(broken.decode().is_err());
    let select = |selection| names(reader.select(selection));
    assert_eq!(select(by::label("app", "web")), ["not broken", "whole"]);
    assert_eq!(select(by::index(Mode, "fast")), ["not broken", "whole"]);
    assert_eq!(select(by::index(Mode, "slow")), ["not broken"], "it may be slow");
    assert_eq!(select(by::index(Mode, "slow").label("app", "db")), [""; 0], "its labels do not match");
    assert_eq!(select(by::index(Mode, "slow").namespace("back")), [""; 0]);
}

#[test]
fn metadata_that_does_not_decode_is_an_error_where_it_is_needed() {
    let reader = raw([json!({"metadata": {"name": "odd", "labels": 7}})]);
    let [odd] = &*reader.list().collect::<Vec<_>>() else { panic!("one") };
    assert!(odd.metadata().is_err() && odd.labels().is_err());
    assert_eq!(names(reader.select(by::label("app", "web"))), ["not odd"]);
    assert_eq!(names(reader.select(by::labels("!app").unwrap())), ["not odd"]);
    assert_eq!(names(reader.select(by::owner_uid("u"))), [""; 0], "it has no owner");
    let reader = raw([json!({"metadata": {"name": "odd", "ownerReferences": [{"uid": 7}]}})]);
    assert_eq!(names(reader.select(by::owner_uid("u"))), ["not odd"]);
}

#[test]
fn a_unit_test_can_call_a_function_that_takes_a_reader() {
    fn users(config: &ConfigMap, pods: &Reader<Pod>) -> Vec<ObjectKey> {
        let namespace = config.metadata.namespace.clone().unwrap_or_default();
        pods.select(by::namespace(namespace))
            .filter_map(Result::ok)
            .map(|pod| ObjectKey::new(pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref().unwrap()))
            .collect()
    }
    let mut pod = Pod::default();
    pod.metadata.namespace = Some("shop".to_owned());
    pod.metadata.name = Some("web-0".to_owned());
    let pods = Reader::fixed([pod]).unwrap();
    assert_eq!(users(&config("shop", "web", |_| ()), &pods), [ObjectKey::namespaced("shop", "web-0")]);
    assert_eq!(users(&config("back", "web", |_| ()), &pods), []);
}

proptest! {
    #[test]
    fn a_label_selector_selects_what_it_matches(
        objects in prop::collection::vec((prop::option::of(0..3), prop::option::of(0..3)), 0..12),
        text in prop::sample::select(vec![
            "a=1", "a in (0,2)", "a!=1", "a", "!a", "a=1,b=2", "!a,b=0", "a notin (0,1),b in (0,1)", "", "a>0", "b=1,!a",
        ]),
    ) {
        let configs: Vec<_> = objects.iter().enumerate().map(|(number, (a, b))| {
            let pairs = [("a", a), ("b", b)];
            let pairs = pairs.iter().filter_map(|(key, value)| value.map(|value: i32| ((*key).to_owned(), value.to_string())));
            config("x", &format!("{number:02}"), |config| config.metadata.labels = Some(pairs.collect()))
        }).collect();
        let selector = kooper_grammar::selector::Selector::parse(text).unwrap();
        let scan: Vec<_> = configs.iter().filter(|config| {
            let labels = config.metadata.labels.as_ref().unwrap();
            selector.matches(|key| labels.get(key).map(String::as_str))
        }).map(|config| config.metadata.name.clone().unwrap()).collect();
        let reader = Reader::fixed(configs).unwrap();
        prop_assert_eq!(names(reader.select(by::labels(text).unwrap())), scan);
    }
}

#[test]
fn an_index_returns_the_keys_of_the_objects_that_name_another_one() {
    let config = |namespace: &str, name: &str, mode: &Value| {
        let metadata = json!({"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mode": mode}})
    };
    let reader = raw([
        config("shop", "beside", &json!("fast")),
        config("shop", "of-another", &json!("slow")),
        config("shop", "elsewhere", &json!("depot/fast")),
        config("shop", "broken", &json!(1)),
        config("depot", "same-name", &json!("fast")),
        config("depot", "across", &json!("shop/fast")),
    ]);
    let users = |keys: Vec<ObjectKey>| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut pod = Pod::default();
    pod.metadata.name = Some("fast".to_owned());
    pod.metadata.namespace = Some("shop".to_owned());
    assert_eq!(users(Mode::users_of(&pod, &reader)), ["depot/across", "shop/beside"]);
    let mut node = Node::default();
    node.metadata.name = Some("fast".to_owned());
    assert_eq!(users(Mode::users_of(&node, &reader)), ["depot/same-name", "shop/beside"]);
}
