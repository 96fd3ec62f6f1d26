//! The hook of the chart that removes finalizers before the program is removed.

use serde_json::{Value, json};

use super::{include, pod_labels};
use crate::manifests::Workload;
use crate::manifests::template::{expression, render};
use kooper_runtime::BoxError;

/// Maximum duration of the hook, which is less than Helm waits for it.
const TIMEOUT: &str = "4m";

/// When Helm deletes what belongs to the hook.
const POLICY: &str = "before-hook-creation,hook-succeeded";

/// A Job that runs `uninstall --keep-crds`, under an account of its own.
pub(super) fn template(name: &str, workload: &Workload, has_webhooks: bool) -> Result<String, BoxError> {
    let account = format!("printf \"%s-uninstall\" ({})", include(name, "account"));
    // Permissions of `uninstall` besides those of the program and the deletion of its Leases. A
    // permission to list pods cannot be limited to names.
    let rule = |group: &str, resources: &[&str], names: &[&str], verb: &str| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": [verb]});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    let mut own = vec![
        rule("apps", &["deployments"], &["DEPLOYMENT"], "get"),
        rule("apps", &["deployments/scale"], &["DEPLOYMENT"], "patch"),
        rule("", &["pods"], &[], "list"),
    ];
    let mut cluster = Vec::new();
    if has_webhooks {
        own.push(rule("", &["secrets"], &["SECRET"], "delete"));
        let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        cluster.push(rule("admissionregistration.k8s.io", &configurations, &["CONFIGURATION"], "delete"));
    }
    // The instance, after a dot.
    let suffix = format!("trimPrefix \"{name}\" ({})", include(name, "account"));
    let names = [
        ("DEPLOYMENT", include(name, "name")),
        ("SECRET", format!("printf \"{name}--webhook-ca%s\" ({suffix})")),
        ("CONFIGURATION", format!("printf \"{name}--webhooks.%s%s\" .Release.Namespace ({suffix})")),
    ];
    let named = |rules: Vec<Value>| {
        let text = format!("`{}`", Value::from(rules));
        let used = names.iter().filter(|(name, _)| text.contains(name));
        used.fold(text.clone(), |text, (name, expression)| format!("(replace \"{name}\" ({expression}) {text})"))
    };
    // After a failure, only the Job stays, for its log: without its account it can do nothing.
    let roles = format!(
        "{{{{- include \"{name}.roles\" (dict \"root\" . \"account\" ({account}) \"annotations\" ({}) \"deletesLeases\" true \
         \"own\" (fromJsonArray {}) \"cluster\" (fromJsonArray {})) }}}}\n",
        dict(&hook("-5", &format!("{POLICY},hook-failed"))),
        named(own),
        named(cluster)
    );
    Ok(format!("{roles}---\n{}", render(&job(name, workload, &account))?))
}

fn job(name: &str, workload: &Workload, account: &str) -> Value {
    let labels = expression(&include(name, "labels"));
    let mut container = workload.container();
    for unused in ["ports", "readinessProbe", "livenessProbe"] {
        container.as_object_mut().and_then(|fields| fields.remove(unused));
    }
    container["args"] = expression(&format!(
        "concat (list \"uninstall\" \"--keep-crds\" \"--timeout\" \"{TIMEOUT}\") (rest (fromJsonArray ({}))) | toJson",
        include(name, "args")
    ));
    container["env"] = expression(&format!(
        "append (fromJsonArray ({})) (dict \"name\" \"KOOPER_INSTALL_NAMESPACE\" \"value\" .Release.Namespace) | toJson",
        include(name, "variables")
    ));
    let mut pod = workload.pod_spec(&container);
    pod["serviceAccountName"] = expression(&format!("{account} | quote"));
    pod["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            // It becomes a label of the pod, of at most 63 characters.
            "name": expression(&format!(
                "printf \"%s-uninstall\" ({} | trunc 53 | trimSuffix \"-\") | quote",
                include(name, "name")
            )),
            "namespace": workload.namespace, "labels": labels, "annotations": hook("0", POLICY),
        },
        "spec": {
            "backoffLimit": 3,
            "template": {
                "metadata": {"labels": pod_labels(name, "labels"), "annotations": workload.pod_annotations},
                "spec": pod,
            },
        },
    })
}

fn hook(weight: &str, policy: &str) -> Value {
    json!({
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": weight,
        "helm.sh/hook-delete-policy": policy,
    })
}

/// Strings as arguments of the template function `dict`.
fn dict(fields: &Value) -> String {
    let pairs = fields.as_object().into_iter().flatten().map(|(name, value)| format!(" \"{name}\" {value}"));
    format!("dict{}", pairs.collect::<String>())
}
