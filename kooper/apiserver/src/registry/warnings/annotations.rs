//! Annotations that fields have replaced.

use serde_json::{Value, json};

use super::text;

const CRITICAL: &str = "scheduler.alpha.kubernetes.io/critical-pod";
const SYSCTLS: [&str; 2] = ["security.alpha.kubernetes.io/sysctls", "security.alpha.kubernetes.io/unsafe-sysctls"];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

const SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;

/// The annotations of pods, and where they are.
pub(super) struct Annotations<'a> {
    pub(super) path: &'static str,
    pub(super) of: &'a Value,
}

impl Annotations<'_> {
    fn warn(&self, key: &str, why: &str, to: &mut Vec<String>) {
        if self.of.get(key).is_some() {
            let path = if self.path.is_empty() { String::new() } else { format!("{}.", self.path) };
            to.push(format!("{path}metadata.annotations[{key}]: {why}"));
        }
    }

    /// Those without any effect.
    pub(super) fn ignored(&self, to: &mut Vec<String>) {
        self.warn(CRITICAL, r#"non-functional in v1.16+; use the "priorityClassName" field instead"#, to);
        for key in SYSCTLS {
            self.warn(key, r#"non-functional in v1.11+; use the "sysctls" field instead"#, to);
        }
    }

    /// The pod's profile of system calls.
    pub(super) fn pod(&self, spec: &Value, to: &mut Vec<String>) {
        if spec["securityContext"]["seccompProfile"].is_null() {
            self.warn(SECCOMP_POD, SECCOMP, to);
        }
    }

    /// The profiles of a container.
    pub(super) fn container(&self, spec: &Value, container: &Value, to: &mut Vec<String>) {
        let name = text(container, "name");
        let context = &container["securityContext"];
        if context["seccompProfile"].is_null() {
            self.warn(&format!("{SECCOMP_CONTAINER}{name}"), SECCOMP, to);
        }
        // In a pod by itself, the field follows the annotation.
        if !self.path.is_empty() && context["appArmorProfile"].is_null() {
            let key = format!("{APPARMOR}{name}");
            let pods = &spec["securityContext"]["appArmorProfile"];
            if pods.is_null() || *pods != profile(text(self.of, &key)) {
                self.warn(&key, r#"deprecated since v1.30; use the "appArmorProfile" field instead"#, to);
            }
        }
    }
}

/// The field that the value of an AppArmor annotation stands for.
fn profile(annotation: &str) -> Value {
    match annotation.strip_prefix("localhost/") {
        Some(name) if !name.is_empty() => json!({"type": "Localhost", "localhostProfile": name}),
        None if annotation == "unconfined" => json!({"type": "Unconfined"}),
        None if annotation == "runtime/default" => json!({"type": "RuntimeDefault"}),
        _ => Value::Null,
    }
}
