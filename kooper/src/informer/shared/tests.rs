use std::sync::Weak;

use super::*;
use crate::object::Object;
use crate::store::Listed;

#[derive(Default)]
struct Told {
    keys: Mutex<Vec<String>>,
    /// Subscribed at the first change.
    late: Mutex<Option<(Weak<Watched>, Arc<Told>)>>,
}

impl Told {
    fn keys(&self) -> Vec<String> {
        let mut keys = lock(&self.keys).clone();
        keys.sort();
        keys.dedup();
        keys
    }
}

impl Sink for Told {
    fn changed(&self, change: &Change, _: Seen) {
        lock(&self.keys).extend(change.key().map(ToString::to_string));
        let late = lock(&self.late).take();
        if let Some((watched, late)) = late
            && let Some(watched) = watched.upgrade()
        {
            watched.subscribe(&(late as Arc<dyn Sink>));
        }
    }
}

fn watched() -> Arc<Watched> {
    Arc::new(Watched::new(WatchStatus::new("test", "things", None, false, true)))
}

/// A first list, as an informer tells of it.
fn list(watched: &Watched, names: &[&str]) {
    let mut listed = Listed::default();
    for name in names {
        let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        listed.add(Object::parse(json.as_bytes()).unwrap(), &watched.store);
    }
    for change in watched.store.replace(listed) {
        watched.fan.changed(&change, Seen::First);
    }
    watched.status.synced(names.len());
}

#[test]
fn who_comes_while_the_others_are_told_of_the_first_list_hears_of_all_of_it() {
    let watched = watched();
    let (first, late) = (Arc::<Told>::default(), Arc::<Told>::default());
    *lock(&first.late) = Some((Arc::downgrade(&watched), late.clone()));
    watched.subscribe(&(first.clone() as Arc<dyn Sink>));
    list(&watched, &["a", "b", "c"]);
    assert_eq!(first.keys(), ["a", "b", "c"]);
    assert_eq!(late.keys(), ["a", "b", "c"]);
}

#[test]
fn who_comes_after_the_first_list_hears_of_what_is_known() {
    let watched = watched();
    list(&watched, &["a", "b"]);
    let late = Arc::<Told>::default();
    watched.subscribe(&(late.clone() as Arc<dyn Sink>));
    assert_eq!(late.keys(), ["a", "b"]);
}
