use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::watch::store::ListSnapshot;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// In the order of their keys, with a namespace on each side of `shop/`.
const KEYS: [&str; 6] = ["a", "b", "shop-2/a", "shop/a", "shop/b", "shop0/a"];
const COLOURS: [&str; 3] = ["red", "green", "blue"];

#[derive(Deserialize)]
struct Lamp {
    colours: Vec<String>,
}

thread_local! {
    static READ: Cell<u32> = const { Cell::new(0) };
    /// A change that the first read of an object makes.
    static CHANGED: RefCell<Option<(Arc<Store>, Object)>> = const { RefCell::new(None) };
}

fn colours() -> Indexer {
    Indexer::new::<Lamp>(|object| {
        READ.set(READ.get() + 1);
        if let Some((store, change)) = CHANGED.take() {
            store.put(change);
        }
        object.decode::<Lamp>().map(|lamp| lamp.colours)
    })
}

/// A lamp with a name, or `namespace/name`; without colours it does not decode.
fn lamp(key: &str, version: u32, colours: Option<&[&str]>) -> Object {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let colours = colours.map_or("7".to_owned(), |colours| serde_json::to_string(colours).unwrap());
    let metadata = format!(r#"{{"namespace":"{namespace}","name":"{name}","resourceVersion":"{version}"}}"#);
    Object::parse(format!(r#"{{"metadata":{metadata},"colours":{colours}}}"#).as_bytes()).unwrap()
}

fn find(store: &Store, value: &str) -> Vec<String> {
    find_in(store, &[value], None)
}

fn find_in(store: &Store, values: &[&str], namespace: Option<&str>) -> Vec<String> {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    let found = store.find(colours(), &values, namespace);
    let mut found: Vec<_> = found.iter().map(|one| one.object.key().to_string()).collect();
    found.sort();
    found
}

#[test]
fn each_version_of_an_object_is_read_once_and_only_for_a_lookup() {
    let store = Store::default();
    for name in NAMES {
        store.put(lamp(name, 1, Some(&["red"])));
    }
    assert_eq!(READ.get(), 0);
    assert_eq!(find(&store, "red"), NAMES);
    assert_eq!(find(&store, "green"), [""; 0]);
    assert_eq!(READ.get(), 6);
    store.put(lamp("a", 2, Some(&["blue"])));
    store.put(lamp("a", 3, Some(&["green"])));
    store.remove(lamp("b", 4, Some(&["green"])));
    assert_eq!(READ.get(), 6, "a change does not wait for a decoder");
    assert_eq!(find(&store, "green"), ["a"]);
    assert_eq!(find(&store, "red"), ["c", "d", "e", "f"]);
    assert_eq!(READ.get(), 7);
}

#[test]
fn an_object_that_keeps_its_value_is_found_by_each_lookup_while_it_changes() {
    let (store, done) = (Store::default(), AtomicBool::new(false));
    store.put(lamp("a", 1, Some(&["red"])));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (2..20_000).for_each(|version| drop(store.put(lamp("a", version, Some(&["red"])))));
            done.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(find(&store, "green"), [""; 0]);
            }
        });
        while !done.load(Ordering::Relaxed) {
            assert_eq!(find(&store, "red"), ["a"]);
        }
    });
}

#[test]
fn an_object_for_which_the_index_panics_is_returned_with_an_error_and_does_not_affect_others() {
    enum Strict {}
    let strict = Indexer::new::<Strict>(|object| {
        READ.set(READ.get() + 1);
        let colours = object.decode::<Lamp>()?.colours;
        assert!(!colours.is_empty(), "a lamp has a colour");
        Ok(colours)
    });
    let store = Store::default();
    store.put(lamp("a", 1, Some(&[])));
    store.put(lamp("b", 1, Some(&["red"])));
    let found = |value: &str| -> BTreeMap<_, _> {
        let found = store.find(strict, &[value.to_owned()], None).into_iter();
        found.map(|one| (one.object.key().to_string(), one.error.map(|error| error.to_string()))).collect()
    };
    let error = "object a is not a valid Strict: the index panicked: a lamp has a colour".to_owned();
    let unreadable = ("a".to_owned(), Some(error));
    assert_eq!(found("red"), [unreadable.clone(), ("b".to_owned(), None)].into());
    assert_eq!(found("green"), [unreadable].into());
    assert_eq!(READ.get(), 2, "it is not read again until it changes");
    store.put(lamp("a", 2, Some(&["green"])));
    assert_eq!(found("green"), [("a".to_owned(), None)].into());
}

#[test]
fn an_index_keeps_no_state_of_deleted_objects() {
    let store = Store::default();
    for version in 1..4 {
        store.put(lamp("a", version, Some(&["red", "green"])));
        store.put(lamp("b", version, None));
        find(&store, "red");
        store.remove(lamp("a", version, None));
        store.remove(lamp("b", version, None));
    }
    store.put(lamp("c", 1, None));
    store.remove(lamp("c", 1, None));
    assert!(store.index(colours()).is_empty());
    for shard in &store.shards {
        let contents = shard.read();
        let index = &contents.indexes[&colours().id];
        assert!(index.values().is_empty() && index.unread().is_empty() && index.unreadable().is_empty());
    }
}

#[test]
fn an_index_gives_the_memory_of_objects_back_that_were_read_and_deleted() {
    for relist in [false, true] {
        let store = Store::default();
        let names: Vec<String> = (0..8000).map(|name| name.to_string()).collect();
        for name in &names {
            store.put(lamp(name, 1, Some(&["red"])));
        }
        assert_eq!(find(&store, "red").len(), names.len());
        let most = |capacity: fn(&IndexShard) -> usize| {
            let of = |shard: &Shard| capacity(&shard.read().indexes[&colours().id]);
            store.shards.iter().map(of).max().unwrap()
        };
        assert!(most(|index| index.values().capacity()) > 32, "a shard has many objects");
        assert!(most(|index| index.unread().capacity()) <= 32);
        if relist {
            store.replace(ListSnapshot::default()).for_each(drop);
        } else {
            names.iter().for_each(|name| drop(store.remove(lamp(name, 2, None))));
        }
        assert!(most(|index| index.values().capacity()) <= 32);
    }
}

#[test]
fn labels_and_owners_are_found_without_decoding() {
    let store = Store::default();
    let json = br#"{"metadata":{"name":"a","labels":{"app":"web"},"ownerReferences":[
        {"apiVersion":"v1","kind":"P","name":"p","uid":"u1"},{"apiVersion":"v1","kind":"Q","name":"q","uid":"u2"}]},
        "spec":"no spec"}"#;
    store.put(Object::parse(json).unwrap());
    let count = |by, value: &str| store.find(by, &[value.to_owned()], None).len();
    assert_eq!((count(Indexer::labels(), "app=web"), count(Indexer::labels(), "app=db")), (1, 0));
    assert_eq!((count(Indexer::owners(), "u2"), count(Indexer::owners(), "p")), (1, 0));
}

#[test]
fn a_lookup_in_a_namespace_looks_at_no_object_of_another_one() {
    let store = Store::default();
    for number in 0..100 {
        store.put(lamp(&format!("shop-{number}/a"), 1, Some(&["red"])));
    }
    assert_eq!(find_in(&store, &["red"], Some("shop-7")), ["shop-7/a"]);
    let (index, red) = (store.index(colours()), ["red".to_owned()]);
    assert_eq!((index.under(&red, Some("shop-7")).len(), index.under(&red, None).len()), (1, 100));
}

#[test]
fn the_objects_of_a_namespace_are_found_without_visiting_the_others() {
    let store = Store::default();
    KEYS.iter().for_each(|key| drop(store.put(lamp(key, 1, None))));
    let names = |namespace| {
        let mut found: Vec<_> = store.of_namespace(namespace).iter().map(|one| one.key().to_string()).collect();
        found.sort();
        found
    };
    assert_eq!(names("shop"), ["shop/a", "shop/b"]);
    store.remove(lamp("shop/a", 2, None));
    store.put(lamp("shop/c", 1, None));
    assert_eq!(names("shop"), ["shop/b", "shop/c"]);
    assert_eq!(names("trade"), [""; 0]);
    let (index, shop) = (store.index(Indexer::namespaces()), ["shop".to_owned()]);
    assert_eq!(index.under(&shop, None).len(), 2);
}

type Namespace = Option<&'static str>;
type Colours = Option<Vec<&'static str>>;

#[derive(Debug, Clone)]
enum Op {
    Put(usize, Colours),
    Remove(usize),
    Replace(BTreeMap<usize, Colours>),
    Find(Vec<&'static str>, Namespace),
    /// A lookup during which an object changes.
    FindAmid(&'static str, Namespace, usize, Colours),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let name = 0..KEYS.len();
    let namespace = || prop::sample::select(vec![None, Some("shop"), Some("none")]);
    let colour = || prop::sample::select(&COLOURS[..]);
    let colours = || prop::option::weighted(0.8, prop::collection::vec(colour(), 0..3));
    let op = prop_oneof![
        3 => (name.clone(), colours()).prop_map(|(name, colours)| Op::Put(name, colours)),
        1 => name.clone().prop_map(Op::Remove),
        1 => prop::collection::btree_map(name.clone(), colours(), 0..KEYS.len()).prop_map(Op::Replace),
        2 => (prop::collection::vec(colour(), 1..3), namespace()).prop_map(|(values, place)| Op::Find(values, place)),
        1 => (colour(), namespace(), name, colours())
            .prop_map(|(colour, place, name, colours)| Op::FindAmid(colour, place, name, colours)),
    ];
    prop::collection::vec(op, 0..60)
}

fn scan(model: &BTreeMap<usize, Colours>, values: &[&str], namespace: Namespace) -> Vec<String> {
    let under = |colours: &Colours| colours.as_ref().is_none_or(|own| own.iter().any(|value| values.contains(value)));
    let is_in = |key: &str| namespace.is_none() || key.split_once('/').map(|(namespace, _)| namespace) == namespace;
    let found = model.iter().filter(|(name, colours)| is_in(KEYS[**name]) && under(colours));
    found.map(|(name, _)| KEYS[*name].to_owned()).collect()
}

proptest! {
    #[test]
    fn an_index_finds_what_a_scan_finds(ops in ops()) {
        let store = Arc::new(Store::default());
        let mut model: BTreeMap<usize, Colours> = BTreeMap::new();
        for (version, op) in (1u32..).zip(ops) {
            let object = |name: usize, colours: &Colours| lamp(KEYS[name], version, colours.as_deref());
            match op {
                Op::Put(name, colours) => {
                    store.put(object(name, &colours));
                    model.insert(name, colours);
                }
                Op::Remove(name) => {
                    store.remove(object(name, &None));
                    model.remove(&name);
                }
                Op::Replace(list) => {
                    let mut listed = ListSnapshot::default();
                    for (name, colours) in &list {
                        listed.add(object(*name, colours), &store);
                    }
                    store.replace(listed).for_each(drop);
                    model = list;
                }
                Op::Find(values, namespace) => {
                    let found = find_in(&store, &values, namespace);
                    prop_assert_eq!(found, scan(&model, &values, namespace));
                }
                Op::FindAmid(value, namespace, name, colours) => {
                    CHANGED.set(Some((store.clone(), object(name, &colours))));
                    let found = find_in(&store, &[value], namespace);
                    // If there was nothing to read, the change was not made.
                    if CHANGED.take().is_none() {
                        model.insert(name, colours);
                    }
                    prop_assert_eq!(found, scan(&model, &[value], namespace));
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_tasks_run_while_an_index_reads_many_objects() {
    enum Waits {}
    static TURN: Mutex<Option<std::sync::mpsc::Receiver<()>>> = Mutex::new(None);
    let waits = Indexer::new::<Waits>(|_| {
        if let Some(turn) = TURN.lock().take() {
            turn.recv_timeout(std::time::Duration::from_secs(60)).expect("the other task never ran");
        }
        Ok(Vec::new())
    });
    let store = Store::default();
    for name in 0..=MANY {
        store.put(lamp(&name.to_string(), 1, Some(&[])));
    }
    let (had_turn, turn) = std::sync::mpsc::channel();
    *TURN.lock() = Some(turn);
    let reading = tokio::spawn(async move {
        // On the same thread, behind this task.
        tokio::spawn(async move { had_turn.send(()) });
        store.find(waits, &["red".to_owned()], None).len()
    });
    assert_eq!(reading.await.unwrap(), 0);
}
