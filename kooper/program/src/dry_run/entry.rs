//! One object in a dry run: its state in the cluster, what was written, and its state
//! after that.

use serde_json::{Value, json};

use super::Difference;
use super::request::Id;
use kooper_access::internal::three_way_merge::{apply_given_values, merge, three_way_merge, without_volatile_fields};

/// The resource version of objects that only exist in the dry run.
pub(super) const UNSTORED: &str = "0";

/// One object.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The version of the API that the states are of.
    version: String,
    /// The state in the cluster.
    base: Option<Value>,
    /// The state that differences are shown against.
    begin: Option<Value>,
    /// `true` if the object of the cluster was deleted. `now` is then another object, or `None`.
    replaced: bool,
    layers: Vec<Layer>,
    now: Option<Value>,
    /// `true` if the state in the cluster is unknown.
    blind: bool,
}

/// The changes of one client.
#[derive(Debug, Clone)]
struct Layer {
    /// The field manager of an apply, and whether it applies the status. Its next apply replaces
    /// this layer.
    author: Option<Author>,
    from: Value,
    to: Value,
    /// The fields of an apply, which override values that other clients have set.
    stated: Option<Value>,
}

/// A field manager, and whether it is about the status.
pub(super) type Author = (String, bool);

impl Entry {
    pub(super) fn new(version: &str, base: Option<Value>) -> Self {
        Self {
            version: version.to_owned(),
            begin: base.clone(),
            now: base.clone(),
            base,
            replaced: false,
            layers: Vec::new(),
            blind: false,
        }
    }

    /// Marks that the state in the cluster cannot be read.
    pub(super) fn blind(mut self) -> Self {
        self.blind = true;
        self
    }

    pub(super) fn is_blind(&self) -> bool {
        self.blind
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn base(&self) -> Option<&Value> {
        self.base.as_ref()
    }

    pub(super) fn now(&self) -> Option<&Value> {
        self.now.as_ref()
    }

    /// The name of the object of the cluster.
    pub(super) fn name(&self) -> Option<String> {
        self.base.as_ref()?["metadata"]["name"].as_str().map(str::to_owned)
    }

    /// Returns `true` if the object is the same in the cluster.
    pub(super) fn is_as_stored(&self) -> bool {
        self.layers.is_empty() && !self.replaced
    }

    /// Returns `true` if the object is in the cluster, and not one that only the dry run has.
    pub(super) fn is_stored(&self) -> bool {
        self.base.is_some() && !self.replaced
    }

    /// The same object, whose differences are counted from here.
    pub(super) fn begin(&self) -> Self {
        Self { begin: self.now.clone(), ..self.clone() }
    }

    /// Sets what the server has, for an entry without writes.
    pub(super) fn rebase(&mut self, base: Option<Value>) {
        *self = Self::new(&self.version, base);
    }

    /// Returns the fields that other field managers have applied to the object, or to its status.
    pub(super) fn stated_by_others(&self, author: Option<&Author>) -> Option<Value> {
        let others = self.layers.iter().filter(|layer| {
            let (one, other) = (layer.author.as_ref(), author);
            one.zip(other).is_some_and(|(one, other)| one.0 != other.0 && one.1 == other.1)
        });
        others.filter_map(|layer| layer.stated.clone()).reduce(|mut all, stated| {
            merge(&mut all, &stated, true);
            all
        })
    }

    /// Adds the difference between two states.
    pub(super) fn add(&mut self, author: Option<Author>, from: Value, to: Value) {
        self.add_layer(Layer { author, from, to, stated: None });
    }

    /// Adds the changes of an apply, and the fields that it states.
    pub(super) fn add_applied(&mut self, author: Option<Author>, from: Value, to: Value, stated: Value) {
        self.add_layer(Layer { author, from, to, stated: Some(stated) });
    }

    fn add_layer(&mut self, added: Layer) {
        self.layers.retain(|layer| added.author.is_none() || layer.author != added.author);
        self.layers.push(added);
        let ground = self.base.clone().filter(|_| !self.replaced);
        let identity = self.now.as_ref().filter(|_| !self.is_stored()).map(|now| now["metadata"].clone());
        let mut now = ground.unwrap_or_else(|| json!({}));
        for layer in &self.layers {
            three_way_merge(&layer.from, &layer.to, &mut now);
            if let Some(stated) = &layer.stated {
                apply_given_values(stated, &layer.to, &mut now);
            }
        }
        if !self.is_stored() {
            let metadata = &mut now["metadata"];
            for field in ["uid", "creationTimestamp"] {
                if let Some(known) = identity.as_ref().and_then(|identity| identity.get(field)) {
                    metadata[field] = known.clone();
                }
            }
            metadata["resourceVersion"] = UNSTORED.into();
        }
        self.now = Some(now);
        self.remove_if_released();
    }

    /// Deletes it: it is only marked if something still holds it.
    pub(super) fn delete(&mut self, marked_at: &str, grace: u64) {
        let Some(now) = &self.now else { return };
        let mut marked = now.clone();
        let metadata = &mut marked["metadata"];
        if metadata["deletionTimestamp"].is_null() {
            metadata["deletionTimestamp"] = marked_at.into();
            metadata["deletionGracePeriodSeconds"] = grace.into();
        }
        let now = now.clone();
        self.add(None, now, marked);
    }

    /// An object that is marked for deletion is removed with its last finalizer.
    fn remove_if_released(&mut self) {
        let Some(now) = &self.now else { return };
        let metadata = &now["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty())
            || metadata["deletionGracePeriodSeconds"].as_u64().is_some_and(|grace| grace > 0);
        if !metadata["deletionTimestamp"].is_null() && !held {
            self.remove();
        }
    }

    pub(super) fn remove(&mut self) {
        self.layers.clear();
        self.now = None;
        self.replaced = true;
    }

    /// Returns `true` if reads or the summary need the entry.
    pub(super) fn is_needed(&self) -> bool {
        let without_volatile_fields = |state: &Option<Value>| state.as_ref().map(without_volatile_fields);
        let now = without_volatile_fields(&self.now);
        self.blind
            || self.is_another()
            || self.is_shared()
            || now != without_volatile_fields(&self.base)
            || now != without_volatile_fields(&self.begin)
    }

    /// Returns `true` if one field manager has applied the object here and another one in the
    /// cluster. A later apply may give up fields of both.
    fn is_shared(&self) -> bool {
        let authors: Vec<_> = self.layers.iter().filter_map(|layer| layer.author.as_ref()).collect();
        let managed = self.base.as_ref().and_then(|base| base["metadata"]["managedFields"].as_array());
        let is_other = |entry: &Value| {
            entry["operation"] == "Apply" && authors.iter().all(|(manager, _)| entry["manager"] != **manager)
        };
        !authors.is_empty() && managed.is_some_and(|managed| managed.iter().any(is_other))
    }

    /// Returns `true` if the object of the cluster was deleted, and another one of its name
    /// created.
    fn is_another(&self) -> bool {
        self.replaced && self.base.is_some() && self.now.is_some()
    }

    /// The uid of an object that the dry run has created.
    pub(super) fn made_uid(&self) -> Option<String> {
        let now = self.now.as_ref().filter(|_| !self.is_stored())?;
        now["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()).map(str::to_owned)
    }

    /// Returns the change since the beginning of the pass, or `None` if there is none.
    pub(super) fn difference(&self, id: Id) -> Option<Difference> {
        let without_volatile_fields = |state: &Option<Value>| state.as_ref().map(without_volatile_fields);
        let (mut before, mut after) = (without_volatile_fields(&self.begin), without_volatile_fields(&self.now));
        let uid = |state: &Option<Value>| state.as_ref().map(|object| object["metadata"]["uid"].clone());
        if let (Some(before), Some(after)) = (&mut before, &mut after)
            && uid(&self.begin) != uid(&self.now)
        {
            before["metadata"]["uid"] = uid(&self.begin).unwrap_or_default();
            after["metadata"]["uid"] = "(another object)".into();
        }
        let differs = before != after || (self.blind && !self.is_as_stored());
        differs.then_some(Difference { id, before, after, blind: self.blind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Value {
        json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "5"}, "data": {"a": "1"}})
    }

    fn with(mut object: Value, change: impl FnOnce(&mut Value)) -> Value {
        change(&mut object);
        object
    }

    fn author(name: &str) -> Option<Author> {
        Some((name.to_owned(), false))
    }

    #[test]
    fn an_apply_replaces_what_the_same_manager_applied_before() {
        let mut entry = Entry::new("v1", Some(stored()));
        let data = |key: &str| with(stored(), |object| object["data"][key] = "2".into());
        entry.add(author("shop"), stored(), data("b"));
        entry.add(author("other"), stored(), data("c"));
        assert_eq!(entry.now().unwrap()["data"], json!({"a": "1", "b": "2", "c": "2"}));
        entry.add(author("shop"), stored(), data("d"));
        assert_eq!(entry.now().unwrap()["data"], json!({"a": "1", "c": "2", "d": "2"}));
        entry.add(author("shop"), stored(), stored());
        entry.add(author("other"), stored(), stored());
        assert!(!entry.is_needed(), "it is as in the cluster again");
    }

    #[test]
    fn an_apply_prevails_over_another_one_although_the_cluster_has_its_value() {
        let mut entry = Entry::new("v1", Some(stored()));
        let other = with(stored(), |object| object["data"]["a"] = "2".into());
        entry.add_applied(author("kubectl"), stored(), other, json!({"data": {"a": "2"}}));
        let mut entry = entry.begin();
        entry.add_applied(author("shop"), stored(), stored(), json!({"data": {"a": "1", "writeOnly": "b"}}));
        assert_eq!(entry.now().unwrap()["data"], json!({"a": "1"}));
        assert!(entry.is_needed(), "it differs from the beginning");
    }

    #[test]
    fn an_equal_object_that_replaces_another_one_is_a_difference() {
        let mut entry = Entry::new("v1", Some(stored()));
        entry.delete("now", 0);
        let again = with(stored(), |object| object["metadata"]["uid"] = "dry-run-1".into());
        entry.add(None, json!({}), again);
        assert!(entry.is_needed());
        let id = Id { group: String::new(), plural: "configmaps".to_owned(), namespace: None, name: "a".to_owned() };
        let difference = entry.difference(id).unwrap();
        assert_eq!(difference.before.unwrap()["metadata"]["uid"], "u");
        assert_eq!(difference.after.unwrap()["metadata"]["uid"], "(another object)");
    }

    #[test]
    fn an_object_that_only_exists_here_keeps_its_identity() {
        let mut entry = Entry::new("v1", None);
        let answer = |uid: &str, data: &str| json!({"metadata": {"name": "a", "uid": uid, "creationTimestamp": uid}, "data": {data: "1"}});
        entry.add(author("shop"), json!({}), answer("1", "a"));
        entry.add(author("shop"), json!({}), answer("2", "b"));
        let now = entry.now().unwrap();
        assert_eq!((&now["metadata"]["uid"], &now["data"]), (&json!("1"), &json!({"b": "1"})));
        assert_eq!(now["metadata"]["resourceVersion"], UNSTORED);
        assert!(entry.is_needed() && !entry.is_stored());
        entry.delete("now", 0);
        assert!(entry.now().is_none());
        assert!(!entry.is_needed(), "it never was in the cluster");
    }

    #[test]
    fn a_deletion_waits_for_finalizers() {
        let held = with(stored(), |object| object["metadata"]["finalizers"] = json!(["shop/a"]));
        let mut entry = Entry::new("v1", Some(held));
        entry.delete("2026-01-01T00:00:00Z", 0);
        let marked = entry.now().unwrap().clone();
        assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
        let released = with(marked.clone(), |object| object["metadata"]["finalizers"] = json!([]));
        entry.add(None, marked, released);
        assert!(entry.now().is_none() && entry.is_needed());
        let id = Id { group: String::new(), plural: "pods".to_owned(), namespace: None, name: "a".to_owned() };
        let difference = entry.difference(id).unwrap();
        assert!(difference.before.is_some() && difference.after.is_none());
        // Its successor is another object.
        entry.add(author("shop"), json!({}), stored());
        assert!(!entry.is_stored() && entry.now().is_some());
    }

    #[test]
    fn a_pod_ends_before_it_is_removed() {
        let mut entry = Entry::new("v1", Some(stored()));
        entry.delete("now", 30);
        assert!(entry.now().is_some());
        let mut entry = Entry::new("v1", Some(stored()));
        entry.delete("now", 0);
        assert!(entry.now().is_none());
    }
}
