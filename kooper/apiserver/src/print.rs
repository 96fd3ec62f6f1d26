//! Tables, as `kubectl get` shows them.
//!
//! The columns of the built-in kinds are dumped from Kubernetes; their cells are made here.

mod columns;

use serde_json::{Value, json};

use self::columns::{COLUMNS, column};
use crate::kinds::Kind;
use crate::registry::{self, Row, Strategy};

/// The part of an object that the row of a table has beside the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    Metadata,
    Object,
    Nothing,
}

/// A table with a row for each object; columns are left out after the first part of a watch.
pub(crate) fn table<'a>(
    kind: &Kind,
    metadata: &Value,
    objects: impl Iterator<Item = &'a Value>,
    columns: bool,
    included: IncludeObject,
) -> Value {
    let strategy = registry::of(kind);
    let rows: Vec<_> = objects
        .map(|object| {
            let stored = internal(kind, strategy, object);
            let shown = stored.as_ref().unwrap_or(object);
            let included = match included {
                IncludeObject::Metadata => {
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": shown["metadata"]})
                }
                IncludeObject::Object => object.clone(),
                IncludeObject::Nothing => Value::Null,
            };
            let mut row = json!({"cells": cells(kind, strategy, shown), "object": included});
            if let Some(conditions) = strategy.conditions(Row(shown)) {
                row["conditions"] = conditions;
            }
            row
        })
        .collect();
    // Kinds without columns of their own have no list of rows rather than an empty one.
    let plain = kind.custom.is_none() && !COLUMNS.contains_key(kind.kind.as_str());
    let rows = if plain && rows.is_empty() { Value::Null } else { json!(rows) };
    let definitions = if columns { json!(definitions(kind)) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows
    })
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
                    may allow a client to request the generation of an appropriate name automatically. Name is primarily \
                    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
                       not guaranteed to be set in happens-before order across separate operations. Clients may not set \
                       this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. \
                       Read-only. Null for lists. More info: \
                       https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the object that a table row shows, if it differs from the given one.
fn internal(kind: &Kind, strategy: &dyn Strategy, object: &Value) -> Option<Value> {
    if let Some((_, conversion)) = &kind.stored {
        let mut stored = object.clone();
        conversion.store(&mut stored);
        return Some(stored);
    }
    strategy.printed(object)
}

fn definitions(kind: &Kind) -> Vec<Value> {
    let name = || column("Name", "string", "name", NAME, 0);
    match &kind.custom {
        Some(definition) if !definition.columns.is_empty() => std::iter::once(name())
            .chain(
                definition
                    .columns
                    .iter()
                    .map(|one| column(&one.name, &one.kind, &one.format, &one.description, one.priority)),
            )
            .collect(),
        Some(_) => vec![name(), column("Age", "date", "", CREATED, 0)],
        None => match COLUMNS.get(kind.kind.as_str()) {
            Some(columns) => columns.clone(),
            None => vec![name(), column("Created At", "date", "", CREATED, 0)],
        },
    }
}

fn cells(kind: &Kind, strategy: &dyn Strategy, object: &Value) -> Vec<Value> {
    let row = Row(object);
    match &kind.custom {
        Some(definition) if !definition.columns.is_empty() => {
            std::iter::once(row.name()).chain(definition.columns.iter().map(|column| column.cell(object))).collect()
        }
        Some(_) => vec![row.name(), row.age()],
        None => strategy.cells(row).unwrap_or_else(|| match COLUMNS.contains_key(kind.kind.as_str()) {
            true => vec![row.name(), row.age()],
            false => vec![row.name(), json!(row.text("/metadata/creationTimestamp"))],
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::cells;
    use super::columns::COLUMNS;
    use crate::kinds::Kinds;
    use crate::registry;
    use crate::store::Store;

    #[test]
    fn every_column_has_a_cell() {
        let object = json!({"metadata": {"name": "a"}});
        for kind in Kinds::builtin(&Store::new()).iter() {
            let Some(columns) = COLUMNS.get(kind.kind.as_str()) else { continue };
            // The real server writes an age that no column shows.
            let more = usize::from(kind.kind == "IPAddress");
            assert_eq!(cells(kind, registry::of(kind), &object).len(), columns.len() + more, "{}", kind.kind);
        }
    }
}
