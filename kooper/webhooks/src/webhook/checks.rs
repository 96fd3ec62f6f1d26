//! Checks of a webhook that is built.

use std::time::Duration;

use kooper_runtime::internal::object::kind::KindInfo;

use super::FailurePolicy;
use crate::admission::Operation;

/// The time that the API server waits for an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that the API server waits for an answer.
const LONGEST: Duration = Duration::from_secs(30);

/// The longest name. It is a label of a domain name, which has at most 63 characters.
const LONGEST_NAME: usize = 63;

/// A function's name, as it is part of a path and of a domain name.
pub(super) fn name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if name.len() <= LONGEST_NAME && name.chars().all(plain) && ends(name.chars().next()) && ends(name.chars().last()) {
        return Ok(());
    }
    Err(format!(
        "the name must consist of at most {LONGEST_NAME} lower-case letters, digits, `_` and `-`, such as `check`"
    ))
}

/// The kinds of this group exist for admission, and could make a cluster reject their own correction.
pub(super) fn kind(kind: &KindInfo) -> Result<(), String> {
    if kind.group != "admissionregistration.k8s.io" {
        return Ok(());
    }
    Err(format!("an API server calls no webhook for objects of the kind `{}`: watch them with a controller", kind.kind))
}

pub(super) fn operations(operations: &[Operation], mutates: bool) -> Result<(), String> {
    if operations.is_empty() {
        return Err("it has no operations: set one, such as `Operation::Create`".to_owned());
    }
    if mutates && operations.contains(&Operation::Delete) {
        return Err("an object that is being deleted cannot be changed: remove `Operation::Delete`".to_owned());
    }
    Ok(())
}

pub(super) fn timeout(timeout: Duration) -> Result<(), String> {
    // The API server counts whole seconds.
    let is_whole = timeout.subsec_nanos() == 0 && !timeout.is_zero();
    if is_whole && timeout <= LONGEST {
        return Ok(());
    }
    Err(format!("the timeout must be a whole number of seconds, from 1 to {}", LONGEST.as_secs()))
}

/// The failure policy. For kinds of Kubernetes there is no default: a cluster that cannot
/// create pods while a webhook is away may not be able to start the webhook.
pub(super) fn failure(failure: Option<FailurePolicy>, kind: &KindInfo) -> Result<FailurePolicy, String> {
    match failure {
        Some(failure) => Ok(failure),
        None if !is_of_kubernetes(kind) => Ok(FailurePolicy::Fail),
        None => Err(format!(
            "`{}` is one of Kubernetes' own kinds: set `failure` for when the webhook is unavailable",
            kind.kind
        )),
    }
}

/// Returns whether a kind is one of Kubernetes.
pub(crate) fn is_of_kubernetes(kind: &KindInfo) -> bool {
    !kind.group.contains('.') || kind.group.ends_with(".k8s.io")
}

/// Returns whether an API server selects the objects of a kind by the labels of namespaces: a Namespace by its own.
pub(crate) fn is_selected_by_namespace(kind: &KindInfo) -> bool {
    kind.namespaced || kind.group.is_empty() && kind.kind == "Namespace"
}
