//! RBAC rules in one line: `apps/deployments: get, patch`.

use std::error::Error;
use std::fmt;

use crate::{name, suggest};

/// The verbs of nearly every rule.
const USUAL: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Verbs with a special meaning; they are not misspellings of a usual one.
const SPECIAL: [&str; 8] = ["bind", "escalate", "impersonate", "use", "approve", "sign", "attest", "proxy"];

/// The API groups of Kubernetes whose names have no dot.
const PLAIN_GROUPS: [&str; 5] = ["apps", "autoscaling", "batch", "extensions", "policy"];

/// The resources of the core group.
const CORE: [&str; 17] = [
    "bindings",
    "componentstatuses",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "serviceaccounts",
    "services",
];

/// The cluster-scoped resources of Kubernetes.
const CLUSTER_SCOPED: &[(&str, &[&str])] = &[
    ("", &["componentstatuses", "namespaces", "nodes", "persistentvolumes"]),
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apiregistration.k8s.io", &["apiservices"]),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"]),
    ("certificates.k8s.io", &["certificatesigningrequests", "clustertrustbundles", "signers"]),
    ("flowcontrol.apiserver.k8s.io", &["flowschemas", "prioritylevelconfigurations"]),
    ("internal.apiserver.k8s.io", &["storageversions"]),
    ("metrics.k8s.io", &["nodes"]),
    ("networking.k8s.io", &["ingressclasses", "ipaddresses", "servicecidrs"]),
    ("node.k8s.io", &["runtimeclasses"]),
    ("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles"]),
    ("resource.k8s.io", &["deviceclasses", "devicetaintrules", "resourceslices"]),
    ("scheduling.k8s.io", &["priorityclasses"]),
    ("storage.k8s.io", &["csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"]),
    ("storagemigration.k8s.io", &["storageversionmigrations"]),
];

/// Marks a cluster-scoped resource of another group.
const MARK: &str = "(cluster)";

/// An RBAC rule for one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// The API group; the core group is empty.
    pub group: String,
    /// The resource, in plural and lower case.
    pub resource: String,
    /// The subresource, such as `status`, `log` or `scale`.
    pub subresource: Option<String>,
    /// The verbs, as written.
    pub verbs: Vec<String>,
    /// `true` if the resource is cluster-scoped: a built-in one, or one that is marked as such.
    pub cluster: bool,
}

impl Rule {
    /// The rule for a resource of a group, or for a subresource.
    ///
    /// ```
    /// use kooper_grammar::access::Rule;
    ///
    /// assert_eq!(Rule::new("apps", "deployments", Some("scale"), &["get"]).to_string(), "apps/deployments/scale: get");
    /// ```
    pub fn new(group: &str, resource: &str, subresource: Option<&str>, verbs: &[&str]) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            cluster: is_cluster_scoped(group, resource),
        }
    }

    /// Parses `[group/]resource[/subresource] [(cluster)]: verb[, verb]…`.
    ///
    /// `(cluster)` marks a cluster-scoped resource. Those of Kubernetes are known.
    ///
    /// The first of two segments is a group if it contains a dot or is `apps`,
    /// `autoscaling`, `batch`, `extensions` or `policy`. Otherwise the two are a resource
    /// of the core group and its subresource.
    ///
    /// ```
    /// let rule = kooper_grammar::access::Rule::parse("pods/log: get")?;
    /// assert_eq!((rule.group.as_str(), rule.resource.as_str()), ("", "pods"));
    /// assert_eq!(rule.subresource.as_deref(), Some("log"));
    /// assert!(kooper_grammar::access::Rule::parse("example.com/issuers (cluster): get")?.cluster);
    /// # Ok::<(), kooper_grammar::access::RuleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the string is not a rule.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let input = || text.to_owned();
        let (place, verbs) = text.split_once(':').ok_or_else(|| RuleError::NoVerbs(input()))?;
        let (place, marked) = match place.trim().strip_suffix(MARK) {
            Some(place) => (place.trim_end(), true),
            None => (place.trim(), false),
        };
        let segments: Vec<&str> = place.split('/').collect();
        let (group, resource, subresource) = match *segments.as_slice() {
            [resource] => ("", resource, None),
            ["core" | "v1", resource, ..] => {
                return Err(RuleError::CoreGroup { input: input(), resource: resource.to_owned() });
            }
            [group, resource] if group.contains('.') || PLAIN_GROUPS.contains(&group) => (group, resource, None),
            [resource, subresource] if resource == "*" || CORE.contains(&resource) => ("", resource, Some(subresource)),
            [group, _] if group.bytes().any(|byte| byte.is_ascii_uppercase()) => ("", group, None),
            [group, _] => return Err(RuleError::Group { input: input(), group: group.to_owned() }),
            [group, resource, subresource] => (group, resource, Some(subresource)),
            _ => return Err(RuleError::Place(input())),
        };
        // Kubernetes has `*/scale`, but no `pods/*`.
        if !group.is_empty() && name::subdomain(group).is_err() || subresource == Some("*") {
            return Err(RuleError::Place(input()));
        }
        for part in [Some(resource), subresource].into_iter().flatten() {
            if part.chars().any(|c| c.is_ascii_uppercase()) {
                return Err(RuleError::UpperCase { input: input(), part: part.to_owned() });
            }
            if part != "*" && part.split('.').any(|label| name::label(label).is_err()) {
                return Err(RuleError::Place(input()));
            }
        }
        Ok(Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            verbs: parse_verbs(text, verbs)?,
            cluster: marked || is_cluster_scoped(group, resource),
        })
    }
}

fn is_cluster_scoped(group: &str, resource: &str) -> bool {
    CLUSTER_SCOPED.iter().any(|(known, resources)| *known == group && resources.contains(&resource))
}

fn parse_verbs(text: &str, verbs: &str) -> Result<Vec<String>, RuleError> {
    let mut found: Vec<String> = Vec::new();
    if verbs.trim().is_empty() {
        return Err(RuleError::NoVerbs(text.to_owned()));
    }
    for verb in verbs.split(',').map(str::trim) {
        let known = verb == "*" || USUAL.contains(&verb) || SPECIAL.contains(&verb);
        let nearest = if known { None } else { suggest::nearest(verb, USUAL) };
        let a_word = !verb.is_empty() && verb.bytes().all(|b| b.is_ascii_lowercase());
        if nearest.is_some() || !(known || a_word) {
            let (input, verb) = (text.to_owned(), verb.to_owned());
            return Err(RuleError::Verb { input, verb, nearest: nearest.map(str::to_owned) });
        }
        if found.iter().any(|earlier| earlier == verb) {
            return Err(RuleError::Twice { input: text.to_owned(), verb: verb.to_owned() });
        }
        found.push(verb.to_owned());
    }
    Ok(found)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        if self.cluster && !is_cluster_scoped(&self.group, &self.resource) {
            write!(f, " {MARK}")?;
        }
        write!(f, ": {}", self.verbs.join(", "))
    }
}

/// Why a string is not a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// The part before the colon is not a resource.
    Place(String),
    /// The core group is written out, but has no name.
    CoreGroup {
        /// The whole string.
        input: String,
        /// The resource after the group.
        resource: String,
    },
    /// Before the slash is neither a resource of the core group nor the whole name of a group.
    Group {
        /// The whole string.
        input: String,
        /// The part before the slash.
        group: String,
    },
    /// A resource has capital letters, like a kind.
    UpperCase {
        /// The whole string.
        input: String,
        /// The resource or subresource.
        part: String,
    },
    /// There is no verb.
    NoVerbs(String),
    /// A verb is invalid.
    Verb {
        /// The whole string.
        input: String,
        /// The verb.
        verb: String,
        /// The verb that was probably meant.
        nearest: Option<String>,
    },
    /// A verb is repeated.
    Twice {
        /// The whole string.
        input: String,
        /// The verb.
        verb: String,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(input) => write!(
                f,
                "the rule \"{input}\" has no resource: write \"pods: get\", \"pods/log: get\" \
                 or \"apps/deployments: get, patch\""
            ),
            Self::CoreGroup { input, resource } => {
                write!(
                    f,
                    "the rule \"{input}\" has a name for the core group, which has none: write `{resource}` alone"
                )
            }
            Self::Group { input, group } => write!(
                f,
                "the rule \"{input}\" has `{group}`, which is no resource of the core group: write its plural, or the \
                 whole name of the API group, such as `networking.k8s.io`"
            ),
            Self::UpperCase { input, part } => {
                let lower = part.to_lowercase();
                let ending = if lower.ends_with('s') { "" } else { "s" };
                write!(
                    f,
                    "the rule \"{input}\" has `{part}`, with a capital: \
                     write the resource as the API does, plural and in lower case, such as `{lower}{ending}`"
                )
            }
            Self::NoVerbs(input) => {
                write!(f, "the rule \"{input}\" has no verb: write them after a colon, such as \"pods: get, list\"")
            }
            Self::Verb { input, verb, nearest: Some(nearest) } => {
                write!(f, "the rule \"{input}\" has the unknown verb `{verb}`: write `{nearest}`")
            }
            Self::Verb { input, verb, nearest: None } => {
                write!(f, "the rule \"{input}\" has `{verb}`, which is not a verb: write {} or *", USUAL.join(", "))
            }
            Self::Twice { input, verb } => {
                write!(f, "the rule \"{input}\" has the verb `{verb}` twice: write it once")
            }
        }
    }
}

impl Error for RuleError {}
