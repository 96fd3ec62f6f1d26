//! Kinds that are served in two versions with other fields: objects are stored in one of them.

mod autoscaler;

use serde_json::{Map, Value};

/// Conversion between a version of a kind and the version that is stored.
#[derive(Debug)]
pub(crate) struct Conversion {
    group_version: &'static str,
    kind: &'static str,
    /// The version that objects are stored in.
    pub(crate) stored: &'static str,
    to: fn(&mut Map<String, Value>),
    from: fn(&mut Map<String, Value>),
    /// The first parts of fields that have another name in selectors, each with its name in the stored version.
    fields: &'static [(&'static str, &'static str)],
}

static CONVERSIONS: [Conversion; 2] = [
    Conversion {
        group_version: "events.k8s.io/v1",
        kind: "Event",
        stored: "v1",
        to: |event| rename(event, EVENT.iter().copied()),
        from: |event| rename(event, EVENT.iter().map(|(new, old)| (*old, *new))),
        fields: &[
            ("regarding", "involvedObject"),
            ("reportingController", "reportingComponent"),
            // The new version has no selector for it.
            ("", "source"),
        ],
    },
    Conversion {
        group_version: "autoscaling/v1",
        kind: "HorizontalPodAutoscaler",
        stored: "autoscaling/v2",
        to: autoscaler::to_v2,
        from: autoscaler::to_v1,
        fields: &[],
    },
];

/// The members of an Event in `events.k8s.io/v1`, and in `v1`.
const EVENT: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// The conversion of a version that is not stored.
pub(crate) fn of(group_version: &str, kind: &str) -> Option<&'static Conversion> {
    CONVERSIONS.iter().find(|conversion| conversion.group_version == group_version && conversion.kind == kind)
}

impl Conversion {
    /// Makes an object of the stored version out of one of this version.
    pub(crate) fn store(&self, object: &mut Value) {
        if object["apiVersion"] == self.stored {
            return;
        }
        if let Value::Object(entries) = object {
            (self.to)(entries);
            entries.insert("apiVersion".to_owned(), self.stored.into());
        }
    }

    /// Makes an object of this version out of a stored one.
    pub(crate) fn serve(&self, object: &mut Value) {
        if let Value::Object(entries) = object {
            (self.from)(entries);
            entries.insert("apiVersion".to_owned(), self.group_version.into());
        }
    }

    /// Returns the name that selectors of this version use for a field of the stored version.
    pub(crate) fn field(&self, stored: &str) -> String {
        let (first, rest) = stored.split_at(stored.find('.').unwrap_or(stored.len()));
        let renamed = self.fields.iter().find(|(_, name)| *name == first).map_or(first, |(name, _)| *name);
        format!("{renamed}{rest}")
    }
}

fn rename<'a>(entries: &mut Map<String, Value>, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = entries.remove(from) {
            entries.insert(to.to_owned(), value);
        }
    }
}
