//! Conditions in the status of an object.

use serde_json::{Value, json};

use crate::time;

/// Sets a condition by its type. The time of the transition changes with the status only.
pub(crate) fn set(object: &mut Value, mut condition: Value) {
    let list = &mut object["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Value::Array(list) = list else { return };
    let old = list.iter_mut().find(|old| old["type"] == condition["type"]);
    condition["lastTransitionTime"] = match &old {
        Some(old) if old["status"] == condition["status"] => old["lastTransitionTime"].clone(),
        _ => json!(time::now()),
    };
    match old {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}

/// Sets a condition of a pod; these have the time of a probe, too.
pub(crate) fn set_of_pod(pod: &mut Value, mut condition: Value) {
    condition["lastProbeTime"] = Value::Null;
    set(pod, condition);
}

/// Returns whether an object has a condition with this status.
pub(crate) fn has(object: &Value, kind: &str, status: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{has, set};

    #[test]
    fn the_time_of_a_transition_is_kept_while_the_status_is_the_same() {
        let old = json!({"type": "A", "status": "True", "lastTransitionTime": "then"});
        let mut object = json!({"status": {"conditions": [old]}});
        set(&mut object, json!({"type": "A", "status": "True", "reason": "R"}));
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "then");
        set(&mut object, json!({"type": "A", "status": "False"}));
        assert_ne!(object["status"]["conditions"][0]["lastTransitionTime"], "then");
        set(&mut object, json!({"type": "B", "status": "True"}));
        assert_eq!((has(&object, "A", "True"), has(&object, "B", "True")), (false, true));
    }
}
