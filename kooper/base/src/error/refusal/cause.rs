//! The causes of refusals, and the advice for each.

use std::time::Duration;

use kube::core::Status;

use super::Needs;

/// The pause if the server does not name one; the same as in `kubectl drain`.
const PAUSE: Duration = Duration::from_secs(5);

/// The API server asks for less. A longer pause is that of a proxy, and costs each key that long.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why a request was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The credentials are not accepted.
    Credentials,
    /// No RBAC rule grants the request.
    MissingRule,
    /// An owner reference that blocks the owner's deletion needs a separate rule.
    MissingOwnerRule,
    /// A change of an object's owner references needs the rule to delete it.
    MissingDeleteRule,
    /// An admission plugin has not discovered a new kind yet.
    UndiscoveredKind,
    /// A role would grant permissions that the caller does not have.
    Escalation,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// A ResourceQuota.
    Quota,
    /// A LimitRange.
    Limits,
    /// The Pod Security Standard of the namespace.
    PodSecurity,
    /// An admission webhook or a ValidatingAdmissionPolicy rejected the object.
    Rejected(String),
    /// An admission webhook did not answer.
    WebhookFailed(String),
    /// The namespace does not exist.
    NoNamespace,
    /// The cluster does not serve the resource.
    NotServed,
    /// The object does not exist.
    Gone,
    /// The object with the given uid does not exist; another may have its name.
    AnotherObject,
    /// Other field managers own the fields: each with the field.
    FieldManagers(Vec<(String, String)>),
    /// The object has changed since it was read, or exists already.
    Conflict,
    /// These fields cannot be changed.
    Immutable(Vec<String>),
    /// The server or a PodDisruptionBudget requests a pause.
    Busy(Duration),
    /// Anything else: the server's message is enough.
    Other,
}

impl Cause {
    pub(super) fn of(status: &Status) -> Self {
        let details = status.details.as_ref();
        let causes = || details.into_iter().flat_map(|details| &details.causes);
        let caused = |reason: &str| causes().any(|cause| cause.reason == reason);
        let message = status.message.as_str();
        // The text of an admission webhook must not be interpreted as the server's.
        if let Some(rejected) = rejected(message) {
            return rejected;
        }
        match status.code {
            401 => Self::Credentials,
            403 if caused("NamespaceTerminating") => Self::NamespaceTerminating,
            403 => forbidden(message),
            404 if details.is_none_or(|details| details.name.is_empty()) => Self::NotServed,
            404 if details.is_some_and(|details| details.kind == "namespaces") => Self::NoNamespace,
            404 => Self::Gone,
            409 if caused("FieldManagerConflict") => Self::FieldManagers(
                causes()
                    .filter(|cause| cause.reason == "FieldManagerConflict")
                    .map(|cause| {
                        (quoted(&cause.message, '"').unwrap_or("another program").to_owned(), cause.field.clone())
                    })
                    .collect(),
            ),
            409 if is_another(message) => Self::AnotherObject,
            409 => Self::Conflict,
            422 if causes().any(|cause| cause.field == "metadata.uid") => Self::AnotherObject,
            422 => {
                let fields = causes().filter(|cause| is_immutable(&cause.message)).map(|cause| cause.field.clone());
                let fields: Vec<_> = fields.collect();
                if fields.is_empty() { Self::Other } else { Self::Immutable(fields) }
            }
            code @ (429 | 503) => match details.map_or(0, |details| details.retry_after_seconds) {
                0 if code == 503 => Self::Other,
                0 => Self::Busy(PAUSE),
                seconds => Self::Busy(Duration::from_secs(seconds.into()).min(LONGEST_PAUSE)),
            },
            _ => Self::Other,
        }
    }

    /// The advice; empty where the server's message is enough.
    pub(super) fn advice(&self, needs: &Needs<'_>) -> String {
        let resource = &needs.rule.resource;
        let place = needs.namespace.map_or_else(|| "the namespace".to_owned(), |name| format!("namespace `{name}`"));
        match self {
            Self::Credentials => "renew the token or client certificate of this program".to_owned(),
            Self::MissingRule => needs.to_string(),
            Self::MissingOwnerRule => format!("{needs}: owner references need it"),
            Self::MissingDeleteRule => format!("{needs}: a change of owner references needs it"),
            Self::UndiscoveredKind => {
                "the API server discovers a new kind within half a minute: no rule is missing".to_owned()
            }
            Self::Escalation => format!(
                "a program can only grant permissions that it has: add the rules of the role to its own, or the verb \
                 `escalate` (`bind` for a binding) on `{resource}`"
            ),
            Self::NamespaceTerminating => {
                format!("{place} is being deleted and nothing can be created in it: no rule is missing")
            }
            Self::Quota => format!("raise the ResourceQuota of {place} or request less: no rule is missing"),
            Self::Limits => {
                format!("set requests and limits that the LimitRange of {place} allows: no rule is missing")
            }
            Self::PodSecurity => format!(
                "meet the Pod Security Standard of {place}, or change its label \
                 `pod-security.kubernetes.io/enforce`: no rule is missing"
            ),
            Self::Rejected(who) => format!("change the object or the configuration of {who}: no rule is missing"),
            Self::WebhookFailed(who) => format!("check the Service and the pods of {who}, or its failurePolicy"),
            Self::NoNamespace => "create the namespace first".to_owned(),
            Self::NotServed => {
                let group = &needs.rule.group;
                // As `kubectl get` takes it: resources of several groups have one name.
                let dot = if group.is_empty() { "" } else { "." };
                format!("the cluster does not serve `{resource}{dot}{group}`: apply its CRD, or check the API version")
            }
            Self::AnotherObject => "it was deleted, and another object may have its name".to_owned(),
            Self::FieldManagers(_) => {
                "another field manager applies these fields: let only one of the two set them".to_owned()
            }
            Self::Immutable(fields) => format!(
                "{} cannot be changed: keep the value, or delete the object and let the next reconciliation create it \
                 again",
                fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
            ),
            Self::Busy(pause) => format!("the API server requests a pause of {pause:?}"),
            Self::Gone | Self::Conflict | Self::Other => String::new(),
        }
    }
}

/// The part of the API server that answered 403. The text after the first
/// `forbidden: ` is its message.
fn forbidden(message: &str) -> Cause {
    let Some((_, words)) = message.split_once("forbidden: ") else { return Cause::Other };
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| words.starts_with(beginning));
    if begins(&["User \""]) && words.contains(" cannot ") {
        Cause::MissingRule
    } else if begins(&["cannot set blockOwnerDeletion"]) {
        // The plugin looks up kinds in a list that is renewed now and then.
        if words.contains("RESTMapping") { Cause::UndiscoveredKind } else { Cause::MissingOwnerRule }
    } else if begins(&["cannot set an ownerRef on a resource you can't delete"]) {
        Cause::MissingDeleteRule
    } else if words.contains(" is attempting to grant RBAC permissions not currently held") {
        Cause::Escalation
    } else if begins(&["exceeded quota: ", "failed quota: ", "insufficient quota ", "status unknown for quota: "]) {
        Cause::Quota
    } else if begins(&["violates PodSecurity "]) {
        Cause::PodSecurity
    } else if ["minimum ", "maximum "].iter().any(|bound| words.trim_start_matches('[').starts_with(bound))
        || words.contains(" max limit to request ratio per ")
    {
        Cause::Limits
    } else {
        Cause::Other
    }
}

/// A rejection by an admission webhook or policy, whatever its code.
fn rejected(message: &str) -> Option<Cause> {
    let webhook = |text| quoted(text, '"').map(|name| format!("the admission webhook `{name}`"));
    if message.starts_with("admission webhook \"") {
        return Some(Cause::Rejected(webhook(message)?));
    }
    if let Some(rest) = message.strip_prefix("Internal error occurred: failed calling webhook ") {
        return Some(Cause::WebhookFailed(webhook(rest)?));
    }
    let (_, rest) = message.split_once("forbidden: ").or_else(|| message.split_once("invalid: "))?;
    let policy = rest
        .strip_prefix("ValidatingAdmissionPolicy ")
        .or_else(|| rest.strip_prefix(": ")?.strip_prefix("ValidatingAdmissionPolicy "))?;
    Some(Cause::Rejected(format!("the ValidatingAdmissionPolicy `{}`", quoted(policy, '\'')?)))
}

/// Returns `true` if a precondition on the UID failed. The messages are those of the
/// storage layer, of a deletion with a grace period, and of an apply that would create
/// the object. A name cannot match them, because it has no spaces.
fn is_another(message: &str) -> bool {
    [
        "Precondition failed: UID in precondition: ",
        ": the UID in the precondition (",
        ": uid mismatch: the provided object specified uid ",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// Returns `true` if the server's message says that a field is immutable.
fn is_immutable(message: &str) -> bool {
    let words = [
        "immutable",
        "may not change",
        "may not be changed",
        "cannot change",
        "cannot be changed",
        "once set",
        "updates to ",
        "pod updates ",
    ];
    words.iter().any(|words| message.contains(words))
}

/// The text in the first pair of quotation marks.
fn quoted(text: &str, mark: char) -> Option<&str> {
    text.split(mark).nth(1)
}
