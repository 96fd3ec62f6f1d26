//! Kinds are data: what a server serves, built in or defined by a custom resource definition.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use crate::convert::{self, Conversion};
use crate::schema::{Definition, Typed};
use crate::store::{Object, Store, Table};

/// The built-in kinds and subresources, from the discovery of a real server.
const BUILTIN: &str = include_str!("kinds/builtin.txt");
/// Strategies of the built-in kinds.
const STRATEGIES: &str = include_str!("kinds/strategies.txt");

/// One version of one resource, and where its objects are.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) info: Arc<ResourceInfo>,
    pub(crate) table: Arc<Table>,
    /// The version's part of a custom resource definition.
    pub(crate) custom: Option<Arc<Definition>>,
    /// The version that objects are stored in, where that is another one with other fields.
    pub(crate) stored: Option<(Arc<ResourceInfo>, &'static Conversion)>,
}

/// Properties of one version of a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceInfo {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) storage_hash: Option<String>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) flags: Flags,
    /// The paths that field selectors may name, beside name and namespace.
    pub(crate) fields: Vec<String>,
    /// The schema, once it was needed.
    pub(crate) typed: OnceLock<Typed>,
}

/// Strategy of a kind for creates, updates and deletions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// `metadata.generation` counts the changes.
    pub(crate) generation: bool,
    /// An update must carry the resource version.
    pub(crate) strict: bool,
    /// An update creates an absent object.
    pub(crate) upsert: bool,
    /// A delete answers the object.
    pub(crate) returned: bool,
    /// A delete without a propagation policy leaves the dependents alone.
    pub(crate) orphans: bool,
    /// Only the status subresource writes the status.
    pub(crate) status: bool,
    /// A write of the status brings no metadata.
    pub(crate) bare_status: bool,
}

/// A part of a resource with a path of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// Group and version, where they are not the resource's.
    pub(crate) group_version: Option<(String, String)>,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

impl std::ops::Deref for Kind {
    type Target = ResourceInfo;

    fn deref(&self) -> &ResourceInfo {
        &self.info
    }
}

impl Kind {
    /// Returns the kind's schema.
    pub(crate) fn typed(&self) -> &Typed {
        match &self.custom {
            Some(definition) => definition.typed(),
            None => self.info.typed(),
        }
    }

    /// The bytes of an object of a custom kind in this version, as its definition is now.
    pub(crate) fn read_custom(&self, object: &Object) -> Option<Bytes> {
        let definition = self.custom.as_ref()?;
        let head = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", self.kind, self.api_version());
        let own = object.bytes().starts_with(head.as_bytes());
        if definition.adapts(object.version, own) {
            // The schema has fields and defaults that are younger than the object, or lacks some that the object has.
            let mut value = object.value();
            let stored = value["apiVersion"].as_str().map(|stored| split_group_version(stored).1).unwrap_or_default();
            value["apiVersion"] = self.api_version().into();
            value["kind"] = self.kind.as_str().into();
            definition.adapt(&mut value, &stored);
            return Some(value.to_string().into());
        }
        if own {
            return Some(object.bytes().clone());
        }
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&object.without_kind());
        Some(bytes.into())
    }

    /// Returns whether this is the built-in kind `Namespace`.
    pub(crate) fn is_namespace(&self) -> bool {
        self.kind == "Namespace" && self.custom.is_none()
    }
}

impl ResourceInfo {
    pub(crate) fn typed(&self) -> &Typed {
        self.typed.get_or_init(|| Typed::builtin(&self.group, &self.version, &self.kind))
    }

    /// `apps/v1`, or `v1` in the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|other| other == verb)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// The group of the type that the real server has for all versions: Events have one, that of the core group.
    pub(crate) fn internal_group(&self) -> &str {
        if self.kind == "Event" && self.group == "events.k8s.io" { "" } else { &self.group }
    }
}

/// The kinds that a server serves at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    by_path: HashMap<String, Arc<Kind>>,
    /// In the order of discovery.
    order: Vec<Arc<Kind>>,
    /// One version of each resource, in this order: each table once.
    stored: Vec<Arc<Kind>>,
}

impl Kinds {
    /// The built-in kinds, with tables in this store.
    pub(crate) fn builtin(store: &Store) -> Self {
        let mut kinds = Self::default();
        for info in TABLE.iter() {
            let stored = convert::of(&info.api_version(), &info.kind).and_then(|conversion| {
                let other = kinds.of(conversion.stored, &info.kind)?;
                Some((Arc::clone(&other.table), (Arc::clone(&other.info), conversion)))
            });
            let (table, stored) = stored.map_or_else(|| (store.table(), None), |(table, stored)| (table, Some(stored)));
            kinds.add(Kind { info: Arc::clone(info), table, custom: None, stored });
        }
        kinds
    }

    pub(crate) fn get(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Kind>> {
        self.by_path.get(&path(group, version, resource))
    }

    /// The kind of an object, by its `apiVersion` and `kind`.
    pub(crate) fn of(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.order.iter().find(|other| other.kind == kind && other.api_version() == api_version)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.order.iter()
    }

    /// One version of each resource: each table once.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.stored.iter()
    }

    pub(crate) fn serves_group_version(&self, group: &str, version: &str) -> bool {
        self.order.iter().any(|kind| kind.group == group && kind.version == version)
    }

    pub(crate) fn serves_group(&self, group: &str) -> bool {
        self.order.iter().any(|kind| kind.group == group)
    }

    pub(crate) fn add(&mut self, kind: Kind) {
        let kind = Arc::new(kind);
        self.by_path.insert(path(&kind.group, &kind.version, &kind.resource), Arc::clone(&kind));
        if !self.stored.iter().any(|other| Arc::ptr_eq(&other.table, &kind.table)) {
            self.stored.push(Arc::clone(&kind));
        }
        self.order.push(kind);
    }

    /// Drops all versions of a resource.
    pub(crate) fn remove(&mut self, group: &str, resource: &str) {
        self.by_path.retain(|_, kind| kind.group != group || kind.resource != resource);
        self.order.retain(|kind| kind.group != group || kind.resource != resource);
        self.stored.retain(|kind| kind.group != group || kind.resource != resource);
    }
}

fn path(group: &str, version: &str, resource: &str) -> String {
    format!("{group}/{version}/{resource}")
}

/// The built-in kinds, parsed once: all servers of a process share them.
static TABLE: LazyLock<Vec<Arc<ResourceInfo>>> =
    LazyLock::new(|| parse(BUILTIN, STRATEGIES).into_iter().map(Arc::new).collect());

fn parse(table: &str, strategies: &str) -> Vec<ResourceInfo> {
    let strategies: HashMap<&str, &str> = strategies
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(char::is_whitespace))
        .collect();
    let mut kinds: Vec<ResourceInfo> = Vec::new();
    let (mut group, mut version) = (String::new(), String::new());
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (line.len() - line.trim_start().len(), words.as_slice()) {
            (0, [group_version]) => (group, version) = split_group_version(group_version),
            (2, [resource, singular, kind, scope, verbs, short_names, categories, hash]) => {
                let (flags, mut fields) = strategies.get(kind).map(|words| parse_flags(words)).unwrap_or_default();
                let group_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
                if let Some(conversion) = convert::of(&group_version, kind) {
                    fields = fields.iter().map(|field| conversion.field(field)).collect();
                }
                kinds.push(ResourceInfo {
                    group: group.clone(),
                    version: version.clone(),
                    resource: (*resource).to_owned(),
                    singular: (*singular).to_owned(),
                    kind: (*kind).to_owned(),
                    list_kind: format!("{kind}List"),
                    namespaced: *scope == "N",
                    verbs: words_of(verbs),
                    short_names: words_of(short_names),
                    categories: words_of(categories),
                    storage_hash: (*hash != "-").then(|| (*hash).to_owned()),
                    subresources: Vec::new(),
                    flags,
                    fields,
                    typed: OnceLock::new(),
                });
            }
            (4, [name, kind, verbs]) => {
                let (group_version, kind) = match kind.rsplit_once('/') {
                    Some((group_version, kind)) => (Some(split_group_version(group_version)), kind),
                    None => (None, *kind),
                };
                let (name, kind, verbs) = ((*name).to_owned(), kind.to_owned(), words_of(verbs));
                if let Some(parent) = kinds.last_mut() {
                    parent.subresources.push(Subresource { name, group_version, kind, verbs });
                }
            }
            _ => {}
        }
    }
    kinds
}

fn parse_flags(words: &str) -> (Flags, Vec<String>) {
    let mut words = words.split_whitespace();
    let flags: Vec<&str> = words.next().unwrap_or_default().split(',').collect();
    let is = |flag: &str| flags.contains(&flag);
    let flags = Flags {
        generation: is("generation"),
        strict: is("strict"),
        upsert: is("upsert"),
        returned: is("returned"),
        orphans: is("orphans"),
        status: is("status"),
        bare_status: is("bare"),
    };
    (flags, words.map(ToOwned::to_owned).collect())
}

fn words_of(list: &str) -> Vec<String> {
    list.split(',').filter(|word| *word != "-").map(ToOwned::to_owned).collect()
}

/// Group and version of `apps/v1` or `v1`.
pub(crate) fn split_group_version(group_version: &str) -> (String, String) {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    (group.to_owned(), version.to_owned())
}

/// The member at a path, as a field selector compares it.
pub(crate) fn member(object: &Value, path: &str) -> String {
    match path.split('.').try_fold(object, |value, key| value.get(key)) {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{BUILTIN, STRATEGIES, parse};

    #[test]
    fn the_tables_are_read_whole() {
        let kinds = parse(BUILTIN, STRATEGIES);
        let resources = BUILTIN.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).count();
        assert_eq!(kinds.len(), resources);
        let subresources = BUILTIN.lines().filter(|line| line.starts_with("    ")).count();
        assert_eq!(kinds.iter().map(|kind| kind.subresources.len()).sum::<usize>(), subresources);
        for line in STRATEGIES.lines().filter(|line| !line.starts_with('#')) {
            let kind = line.split_whitespace().next();
            assert!(kinds.iter().any(|info| Some(info.kind.as_str()) == kind), "{line}");
        }
    }

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for info in parse(BUILTIN, STRATEGIES) {
            assert!(info.typed().definition.is_object(), "{} {}", info.api_version(), info.kind);
        }
    }
}
