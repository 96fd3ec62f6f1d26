//! The least permissions that a program's controllers need.

mod dangers;
mod roles;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kooper_grammar::access::Rule;
use serde_json::{Value, json};

use kooper_access::Controller;
use kooper_access::internal::Installation;
use kooper_access::plan::{Need, Reach};
use kooper_children::graph::Graph;

pub use roles::{documents, metrics_reader, rules};

/// Where a program is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub installation: Installation,
    /// The namespace of its service account.
    pub namespace: String,
    /// The namespace of its Leases, unless a controller sets one.
    pub lease_namespace: String,
    /// `true` if the program reviews the tokens of clients.
    pub reviews_tokens: bool,
}

/// Resources that the program creates in the cluster to review the tokens of clients.
pub(crate) const REVIEWS: [(&str, &str); 2] =
    [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")];

/// One permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The namespace of the permission; `None` for the whole cluster.
    pub(crate) namespace: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    /// The only object; `None` for all.
    pub(crate) name: Option<String>,
    pub(crate) verb: String,
}

/// The permissions, each with the arguments and settings that need it.
pub(crate) type Grants = BTreeMap<Grant, BTreeSet<String>>;

/// A controller whose requests are not covered by rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the controller `{controller}` takes {what}, whose permissions are unknown: list them with \
     `rbac(\"apps/deployments: get, patch\")`, or write `rbac()` if it needs none"
)]
pub struct UnknownPermissions {
    controller: String,
    what: String,
}

/// The permissions that the controllers of a program need.
pub fn grants<'a>(
    controllers: impl IntoIterator<Item = &'a Controller, IntoIter: Clone>,
    place: &Place,
) -> Result<Grants, UnknownPermissions> {
    let controllers = controllers.into_iter();
    ensure_known(controllers.clone())?;
    Ok(known(controllers, place))
}

/// Returns an error if the permissions of a controller are not known.
pub(crate) fn ensure_known<'a>(
    controllers: impl IntoIterator<Item = &'a Controller>,
) -> Result<(), UnknownPermissions> {
    for controller in controllers {
        let plan = controller.plan();
        let clients = plan.unruled_clients();
        if !clients.is_empty() && plan.rbac().is_none() {
            return Err(UnknownPermissions { controller: controller.name().to_owned(), what: clients.join(" and ") });
        }
    }
    Ok(())
}

/// The known permissions. Requests that handlers send with a `Client` are not known.
pub(crate) fn known<'a>(controllers: impl IntoIterator<Item = &'a Controller>, place: &Place) -> Grants {
    known_of(&controllers.into_iter().collect::<Vec<_>>(), place)
}

fn known_of(controllers: &[&Controller], place: &Place) -> Grants {
    let mut grants = Grants::new();
    for (group, resource) in REVIEWS.into_iter().filter(|_| place.reviews_tokens) {
        let (group, resource, verb) = (group.to_owned(), resource.to_owned(), "create".to_owned());
        let grant = Grant { namespace: None, group, resource, subresource: None, name: None, verb };
        grants.entry(grant).or_default().insert("`--metrics-auth token`".to_owned());
    }
    for controller in controllers {
        let plan = controller.plan();
        let leases = controller.leases(&place.installation, &place.lease_namespace);
        let shards = controller.shard_leases(&place.installation, &place.lease_namespace);
        let of_leases = leases.as_ref().map(|leases| &leases.namespace);
        let of_shards = shards.as_ref().map(|leases| &leases.namespace);
        let lease_namespace = of_leases.or(of_shards).unwrap_or(&place.lease_namespace);
        let mut add = |rule: &Rule, names: &[String], reach: &Reach, because: &str| {
            let namespaces = reach.namespaces(controller.namespaces(), lease_namespace);
            let names: Vec<_> = if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() };
            let because = format!("{because} of the controller `{}`", controller.name());
            for namespace in &namespaces {
                for name in &names {
                    for verb in &rule.verbs {
                        let Rule { group, resource, subresource, .. } = rule.clone();
                        let (namespace, name, verb) = (namespace.clone(), name.clone(), verb.clone());
                        let grant = Grant { namespace, group, resource, subresource, name, verb };
                        grants.entry(grant).or_default().insert(because.clone());
                    }
                }
            }
        };
        let graph = controller.extensions().get::<Graph>();
        for need in plan.needs() {
            add(&need.rule, &need.names, &need.reach, &slots::needed_by(&graph, &need.because));
        }
        for rule in plan.rbac().unwrap_or_default() {
            let reach = if rule.cluster { Reach::Cluster } else { Reach::Watched };
            add(rule, &[], &reach, "rbac");
        }
        let lease = |verbs: &[&str]| Rule::new("coordination.k8s.io", "leases", None, verbs);
        if let Some(leases) = &shards {
            add(&lease(&["create", "get", "update", "watch"]), &leases.names, &Reach::Lease, "shards");
        }
        if let Some(leases) = &leases {
            let own = std::slice::from_ref(&leases.name);
            add(&lease(&["create", "get", "update", "watch"]), own, &Reach::Lease, "leader_election");
            for previous in &leases.previous {
                add(&lease(&["get"]), std::slice::from_ref(&previous.name), &Reach::Lease, previous.owner.key());
            }
            add(
                &Rule::new("events.k8s.io", "events", None, &["create", "patch"]),
                &[],
                &Reach::Lease,
                "leader_election",
            );
        }
    }
    let all = grants.clone();
    grants.retain(|grant, _| !all.keys().any(|wider| wider != grant && wider.covers(grant)));
    grants
}

/// A warning for each argument or setting because of which a controller keeps every
/// Secret in memory, and for what is dangerous in `rbac`.
pub(crate) fn warnings(controllers: &[Controller]) -> Vec<String> {
    let mut warnings = Vec::new();
    for controller in controllers {
        warnings.extend(dangers::of(controller));
        let place = match controller.namespaces() {
            [] => "the cluster".to_owned(),
            some => format!("the namespaces {}", some.join(", ")),
        };
        for Need { rule, because, .. } in controller.plan().needs() {
            let cached = rule.verbs.iter().any(|verb| verb == "list");
            if !cached || (&*rule.group, &*rule.resource, &rule.subresource) != ("", "secrets", &None) {
                continue;
            }
            let own = because.starts_with("resource = ");
            let narrow = if own {
                controller.is_metadata_only() || controller.is_selected()
            } else {
                !controller.plan().keeps_all(because)
            };
            if narrow {
                continue;
            }
            let advice = match because {
                _ if own => "set `metadata_only` if metadata is enough, or select some with `labels`",
                _ if because.starts_with("Reader<") => {
                    "take `Getter<Secret>` if single Secrets are enough, `Reader<PartialObjectMeta<Secret>>` if metadata is \
                     enough, or select some with `reads = [(Secret, labels = \"…\")]`"
                }
                _ if because.starts_with("watches") => {
                    "write `(Secret, metadata_only) => …` if metadata is enough, or select some with \
                     `(Secret, labels = \"…\") => …` or `(Secret, names = [\"…\"]) => …`"
                }
                _ => {
                    "write `owns = [(Secret, metadata_only)]`, or, if all children have a label, \
                     `owns = [(Secret, labels = \"…\", metadata_only)]`"
                }
            };
            warnings.push(format!(
                "`{because}` of the controller `{}` keeps every Secret of {place} in memory and needs permission to list \
                 them: {advice}",
                controller.name()
            ));
        }
    }
    warnings
}

impl Place {
    /// An installation of the program `shop`, with its Leases in the same namespace.
    #[cfg(test)]
    pub(crate) fn shop(instance: Option<&str>, namespace: &str) -> Self {
        Self {
            installation: Installation::new("shop", instance.map(str::to_owned)),
            namespace: namespace.to_owned(),
            lease_namespace: namespace.to_owned(),
            reviews_tokens: false,
        }
    }

    /// The name of the service account.
    #[must_use]
    pub fn account(&self) -> String {
        self.installation.to_string()
    }

    /// The name of the role for a namespace, or for the cluster, and of its
    /// binding. Several namespaces may contain an installation of the program, so
    /// roles outside of its own namespace include that namespace's name.
    pub(crate) fn role(&self, namespace: Option<&str>) -> String {
        let (own, account) = (&self.namespace, self.account());
        if namespace == Some(own) { account } else { format!("{own}:{account}") }
    }

    /// The metadata of an object of the installation.
    pub(crate) fn metadata(&self, namespace: Option<&str>, name: &str) -> Value {
        let Installation { program, instance } = &self.installation;
        let mut metadata = json!({"name": name, "labels": {"app.kubernetes.io/name": program}});
        if let Some(instance) = instance {
            metadata["labels"]["app.kubernetes.io/instance"] = instance.as_str().into();
        }
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        metadata
    }
}

impl Grant {
    /// Returns `true` if this permission includes the other one.
    fn covers(&self, other: &Self) -> bool {
        let wide = |ours: &Option<String>, theirs: &Option<String>| ours.is_none() || ours == theirs;
        (&self.group, &self.resource, &self.subresource) == (&other.group, &other.resource, &other.subresource)
            && wide(&self.namespace, &other.namespace)
            && wide(&self.name, &other.name)
            && (self.verb == "*" || self.verb == other.verb)
    }

    /// `resource`, or `resource/subresource`, as in rules.
    pub(crate) fn path(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// In the syntax of `rbac`: `apps/deployments: get`.
    pub(crate) fn rule(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!("{}/", self.group) };
        format!("{group}{}: {}", self.path(), self.verb)
    }

    /// The name of its only object, for messages; empty for all.
    pub(crate) fn pinned(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" (resourceNames: {name})"))
    }

    /// The namespace, for messages after a rule.
    pub(crate) fn place(&self) -> String {
        self.namespace.as_ref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"))
    }

    /// The role that contains it, for messages.
    pub(crate) fn role(&self, place: &Place) -> String {
        let role = place.role(self.namespace.as_deref());
        match &self.namespace {
            Some(namespace) => format!("the Role `{role}` in namespace `{namespace}`"),
            None => format!("the ClusterRole `{role}`"),
        }
    }
}

/// In the syntax of `rbac`, with the name of its only object: `apps/deployments: get`.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rule(), self.pinned())
    }
}
