//! What the kinds that run pods add to their objects.

use serde_json::{Value, json};

use crate::defaults::TEMPLATE_GENERATION;
use crate::meta;

/// A new job selects its pods by its own uid, unless it has a selector of its own.
pub(super) fn create_job(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (meta::text(job, "name").to_owned(), meta::text(job, "uid").to_owned());
    let template = &mut job["spec"]["template"];
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    let labels = &mut template["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    for (old, new, value) in [
        ("job-name", "batch.kubernetes.io/job-name", &name),
        ("controller-uid", "batch.kubernetes.io/controller-uid", &uid),
    ] {
        // Another job's labels are left for validation to reject.
        let foreign = |key: &str| labels.get(key).is_some_and(|label| label != value.as_str());
        if foreign(old) || foreign(new) {
            return;
        }
        labels[old] = json!(value);
        labels[new] = json!(value);
    }
    let selector = &mut job["spec"]["selector"];
    if !selector.is_object() {
        *selector = json!({});
    }
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = json!({});
    }
    let labels = &mut selector["matchLabels"];
    if labels.get("batch.kubernetes.io/controller-uid").is_none() {
        labels["batch.kubernetes.io/controller-uid"] = json!(uid);
    }
}

/// Counts the templates of a DaemonSet.
pub(super) fn daemon_set(set: &mut Value, present: Option<&Value>) {
    let counted = |set: &Value| {
        set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().and_then(|count| count.parse::<i64>().ok())
    };
    let generation = match present {
        None => counted(set).filter(|count| *count > 0).unwrap_or(1),
        Some(present) => {
            let changed = set["spec"]["template"] != present["spec"]["template"];
            counted(present).unwrap_or(1) + i64::from(changed)
        }
    };
    annotate(set, TEMPLATE_GENERATION, &generation.to_string());
}

/// Removes the annotation that stands for the field.
pub(crate) fn drop_template_generation(set: &mut Value) {
    let metadata = meta::of(set);
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

fn annotate(object: &mut Value, key: &str, value: &str) {
    let annotations = meta::of(object).entry("annotations").or_insert_with(|| json!({}));
    annotations[key] = json!(value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{TEMPLATE_GENERATION, create_job, daemon_set};

    #[test]
    fn a_job_selects_its_own_pods() {
        let mut job = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": {"spec": {}}}});
        create_job(&mut job);
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        assert_eq!((&labels["job-name"], &labels["controller-uid"]), (&json!("a"), &json!("u")));
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
        let mut own = json!({"metadata": {"name": "a"}, "spec": {"manualSelector": true, "template": {}}});
        let before = own.clone();
        create_job(&mut own);
        assert_eq!(own, before);
    }

    #[test]
    fn the_templates_of_a_daemon_set_are_counted() {
        let mut set = json!({"metadata": {}, "spec": {"template": {"spec": 1}}});
        daemon_set(&mut set, None);
        assert_eq!(set["metadata"]["annotations"][TEMPLATE_GENERATION], "1");
        let mut next = json!({"metadata": {}, "spec": {"template": {"spec": 2}}});
        daemon_set(&mut next, Some(&set));
        assert_eq!(next["metadata"]["annotations"][TEMPLATE_GENERATION], "2");
    }
}
