//! Differences as text.

use serde_json::Value;
use similar::TextDiff;

use crate::cli::document::LAST_APPLIED;
use crate::cli::print::yaml;
use crate::dry_run::Difference;
use kooper_runtime::BoxError;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// A unified diff of the object before and after, as YAML. The values of Secrets are
/// hidden.
pub(super) fn shown(difference: &Difference, colored: bool) -> Result<String, BoxError> {
    let id = &difference.id;
    let (mut before, mut after) = (difference.before.clone(), difference.after.clone());
    if (id.group.as_str(), id.plural.as_str()) == ("", "secrets") {
        hide(before.as_mut(), after.as_mut());
    }
    let text = |state: &Option<Value>| match state {
        Some(state) => yaml([state]),
        None => Ok(String::new()),
    };
    let namespace = id.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}."));
    // As for the time of a file, a tab separates it from the name.
    let slot = difference.slot().map_or(String::new(), |slot| format!("\tslot {slot}"));
    let file = format!("{}.{namespace}{}{slot}", id.resource(), id.name);
    let header = |state: &Option<Value>, folder: &str| match state {
        Some(_) => format!("{folder}/{file}"),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (text(&before)?, text(&after)?);
    let headers = (header(&before, "before"), header(&after, "after"));
    let unified = TextDiff::from_lines(&old, &new).unified_diff().header(&headers.0, &headers.1).to_string();
    if unified.is_empty() {
        // Its state before is unknown.
        return Ok(format!("--- {}\n+++ {}\n", headers.0, headers.1));
    }
    Ok(if colored { unified.split_inclusive('\n').map(painted).collect() } else { unified })
}

fn painted(line: &str) -> String {
    let text = line.trim_end_matches('\n');
    let color = match text.as_bytes() {
        [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] => BOLD,
        [b'@', b'@', ..] => CYAN,
        [b'-', ..] => RED,
        [b'+', ..] => GREEN,
        _ => return line.to_owned(),
    };
    format!("{color}{text}{PLAIN}\n")
}

/// Replaces the values of a Secret, such that a difference is still visible.
fn hide(mut before: Option<&mut Value>, mut after: Option<&mut Value>) {
    for field in ["data", "stringData"] {
        let values = |state: &Option<&mut Value>| {
            state.as_ref().and_then(|state| state[field].as_object().cloned()).unwrap_or_default()
        };
        let (old, new) = (values(&before), values(&after));
        let replace = |state: &mut Option<&mut Value>, other: &serde_json::Map<String, Value>, changed: &str| {
            let state = state.as_mut().and_then(|state| state.get_mut(field));
            let Some(fields) = state.and_then(Value::as_object_mut) else { return };
            for (key, value) in fields {
                let same = other.get(key).is_none_or(|other| other == value);
                *value = if same { "***".into() } else { format!("*** ({changed})").into() };
            }
        };
        replace(&mut before, &new, "before");
        replace(&mut after, &old, "after");
    }
    for state in [before, after].into_iter().flatten() {
        if let Some(applied) = state.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(LAST_APPLIED)) {
            *applied = "***".into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dry_run::Id;

    fn difference(plural: &str, before: Option<Value>, after: Option<Value>) -> Difference {
        let id = Id {
            group: String::new(),
            plural: plural.to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        Difference { id, before, after, blind: false }
    }

    #[test]
    fn a_difference_is_a_unified_diff() {
        let before = json!({"kind": "ConfigMap", "data": {"a": "1", "b": "1"}});
        let after = json!({"kind": "ConfigMap", "data": {"a": "2", "b": "1"}});
        let changed = shown(&difference("configmaps", Some(before.clone()), Some(after)), false).unwrap();
        let lines: Vec<_> = changed.lines().collect();
        assert_eq!(lines[..2], ["--- before/configmaps.shop.web", "+++ after/configmaps.shop.web"]);
        assert!(
            changed.contains("-  a: \"1\"\n+  a: \"2\"\n") || changed.contains("-  a: '1'\n+  a: '2'\n"),
            "{changed}"
        );
        let created = shown(&difference("configmaps", None, Some(before.clone())), false).unwrap();
        assert!(created.starts_with("--- /dev/null\n+++ after/configmaps.shop.web\n@@ -0,0 +1,"), "{created}");
        let deleted = shown(&difference("configmaps", Some(before), None), true).unwrap();
        assert!(deleted.starts_with("\x1b[1m--- before/configmaps.shop.web\x1b[0m\n"), "{deleted:?}");
        assert!(deleted.contains("\x1b[31m-kind: ConfigMap\x1b[0m\n"), "{deleted:?}");
    }

    #[test]
    fn the_slot_of_a_declared_child_is_in_the_header() {
        let child = |data: &str| json!({"metadata": {"labels": {"kooper.rs/slot": "config"}}, "data": data});
        let changed = shown(&difference("configmaps", Some(child("a")), Some(child("b"))), false).unwrap();
        let lines: Vec<_> = changed.lines().collect();
        assert_eq!(
            lines[..2],
            ["--- before/configmaps.shop.web\tslot config", "+++ after/configmaps.shop.web\tslot config"]
        );
        let deleted = shown(&difference("configmaps", Some(child("a")), None), false).unwrap();
        assert!(deleted.contains("\n+++ /dev/null\n"), "{deleted:?}");
    }

    #[test]
    fn values_of_secrets_are_hidden_and_their_differences_are_not() {
        let before = json!({"data": {"same": "c2FtZQ==", "changed": "b25l", "gone": "Z29uZQ=="}});
        let after = json!({"data": {"same": "c2FtZQ==", "changed": "dHdv", "new": "bmV3"}});
        let text = shown(&difference("secrets", Some(before), Some(after)), false).unwrap();
        for value in ["c2FtZQ", "b25l", "dHdv", "Z29uZQ", "bmV3"] {
            assert!(!text.contains(value), "{text}");
        }
        assert!(!text.contains("stringData"), "{text}");
        assert!(text.contains("*** (before)") && text.contains("*** (after)") && text.contains("new:"), "{text}");
    }
}
