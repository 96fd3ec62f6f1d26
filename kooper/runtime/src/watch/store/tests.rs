use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn object(name: &str, version: u32) -> Object {
    Object::parse(
        format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#).as_bytes(),
    )
    .unwrap()
}

fn states(store: &Store, names: &[&str]) -> BTreeMap<String, String> {
    names
        .iter()
        .filter_map(|name| store.get(&ObjectKey::cluster_scoped(name)))
        .map(|object| (object.key().to_string(), object.version().to_owned()))
        .collect()
}

#[test]
fn a_relist_reports_objects_that_were_deleted_in_the_gap() {
    let store = Store::default();
    store.put(object("kept", 1));
    store.put(object("changed", 2));
    store.put(object("gone", 3));
    let mut list = ListSnapshot::default();
    for object in [object("kept", 1), object("changed", 4), object("new", 5)] {
        list.add(object, &store);
    }
    let mut changes: Vec<_> = store
        .replace(list)
        .flatten()
        .map(|change| (change.key().unwrap().to_string(), change.old.is_some(), change.new.is_some()))
        .collect();
    changes.sort();
    assert_eq!(
        changes,
        [("changed".to_owned(), true, true), ("gone".to_owned(), true, false), ("new".to_owned(), false, true)]
    );
}

#[test]
fn a_relist_reuses_known_objects() {
    let store = Store::default();
    store.put(object("kept", 1));
    let before = store.get(&ObjectKey::cluster_scoped("kept")).unwrap();
    let mut list = ListSnapshot::default();
    list.add(object("kept", 1), &store);
    store.replace(list).for_each(drop);
    assert!(Arc::ptr_eq(&before, &store.get(&ObjectKey::cluster_scoped("kept")).unwrap()));
}

#[test]
fn a_cache_of_several_namespaces_looks_up_an_object_in_its_namespace() {
    let stores = ["a", "b"].map(|namespace| (namespace, Arc::<Store>::default()));
    let cache = Cache::new(stores.clone().map(|(namespace, store)| (Some(namespace.to_owned()), store)));
    for (namespace, store) in stores {
        let json = format!(r#"{{"metadata":{{"name":"x","namespace":"{namespace}"}}}}"#);
        store.put(Object::parse(json.as_bytes()).unwrap());
    }
    assert_eq!(cache.get(&ObjectKey::namespaced("b", "x")).unwrap().key().namespace(), Some("b"));
    assert!(cache.get(&ObjectKey::namespaced("c", "x")).is_none());
    assert_eq!(cache.all(None).len(), 2);
}

#[test]
fn objects_of_the_same_owners_are_stored_in_less_memory() {
    /// The size of the pods of ten workloads. Those of one have the same content.
    fn size(owned: bool) -> usize {
        let store = Store::default();
        for n in 0..400u64 {
            let workload = n % 10;
            let owners = if owned { format!(r#","ownerReferences":[{{"uid":"{workload}"}}]"#) } else { String::new() };
            let words = (0..100).map(|word| crate::backoff::fraction(workload * 100 + word).to_string());
            let content = words.collect::<Vec<_>>().join(" ");
            let json = format!(r#"{{"metadata":{{"name":"pod-{n}"{owners}}},"spec":"{content}"}}"#);
            store.put(Object::parse(json.as_bytes()).unwrap());
        }
        store.size().1
    }
    let (siblings, strangers) = (size(true), size(false));
    assert!(siblings * 3 < strangers, "{siblings} and {strangers} bytes");
}

#[derive(Debug, Clone)]
enum Op {
    Put(usize, u32),
    Remove(usize),
    Replace(BTreeMap<usize, u32>),
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        (0..NAMES.len(), 1u32..9).prop_map(|(name, version)| Op::Put(name, version)),
        (0..NAMES.len()).prop_map(Op::Remove),
        prop::collection::btree_map(0..NAMES.len(), 1u32..9, 0..NAMES.len()).prop_map(Op::Replace),
    ];
    prop::collection::vec(op, 0..40)
}

proptest! {
    #[test]
    fn the_reported_changes_add_up_to_the_contents(ops in ops()) {
        let store = Store::default();
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        // The state according to the changes alone.
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for op in ops {
            let changes = match op {
                Op::Put(name, version) => {
                    model.insert(NAMES[name].to_owned(), version.to_string());
                    vec![store.put(object(NAMES[name], version))]
                }
                Op::Remove(name) => {
                    model.remove(NAMES[name]);
                    vec![store.remove(object(NAMES[name], 9))]
                }
                Op::Replace(list) => {
                    model = list.iter().map(|(name, version)| (NAMES[*name].to_owned(), version.to_string())).collect();
                    let mut listed = ListSnapshot::default();
                    for (name, version) in list {
                        listed.add(object(NAMES[name], version), &store);
                    }
                    store.replace(listed).flatten().collect()
                }
            };
            for change in changes {
                let key = change.key().unwrap().to_string();
                match change.new {
                    Some(new) => drop(seen.insert(key, new.version().to_owned())),
                    None => drop(seen.remove(&key)),
                }
            }
            prop_assert_eq!(&states(&store, &NAMES), &model);
            prop_assert_eq!(&seen, &model);
            let bytes: usize = NAMES.iter().filter_map(|name| store.get(&ObjectKey::cluster_scoped(name))).map(|object| object.size()).sum();
            prop_assert_eq!(store.size(), (model.len(), bytes));
        }
    }
}
