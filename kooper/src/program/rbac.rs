//! What a program's controllers have to be allowed, and nothing more.

mod roles;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kooper_grammar::access::Rule;

use crate::call::plan::{Need, Reach};
use crate::controller::Controller;
use crate::controller::installation::Installation;

pub(crate) use roles::documents;

/// Where a program is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) installation: Installation,
    /// The namespace of its service account.
    pub(crate) namespace: String,
    /// The namespace of its leases, where a controller names none.
    pub(crate) lease_namespace: String,
}

/// One thing that has to be allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grant {
    /// The namespace that it has to hold in; `None` for the whole cluster.
    pub(crate) namespace: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    /// The object that it is for; `None` for all.
    pub(crate) name: Option<String>,
    pub(crate) verb: String,
}

/// What has to be allowed, each with what it is for.
pub(crate) type Grants = BTreeMap<Grant, BTreeSet<String>>;

/// A controller whose requests are not covered by rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the controller `{controller}` takes {what}, which can do anything: say what it does with \
     `access(\"apps/deployments: get, patch\")`, or with `access()` that it does nothing"
)]
pub(crate) struct Unruled {
    controller: String,
    what: String,
}

/// What the controllers of a program have to be allowed.
pub(crate) fn grants(controllers: &[Controller], place: &Place) -> Result<Grants, Unruled> {
    let mut grants = Grants::new();
    for controller in controllers {
        let plan = controller.plan();
        let unruled = plan.unruled_clients();
        if !unruled.is_empty() && plan.access().is_none() {
            return Err(Unruled { controller: controller.name().to_owned(), what: unruled.join(" and ") });
        }
        let leases = controller.leases(&place.installation, &place.lease_namespace);
        let lease_namespace = leases.as_ref().map_or(&place.lease_namespace, |leases| &leases.namespace);
        let mut add = |rule: &Rule, names: &[String], reach: &Reach, because: &str| {
            let watched = || controller.namespaces().iter().cloned().map(Some).collect::<Vec<_>>();
            let namespaces = match reach {
                Reach::Watched if !controller.namespaces().is_empty() => watched(),
                Reach::Watched | Reach::Cluster => vec![None],
                Reach::Namespace(namespace) => vec![Some(namespace.clone())],
                Reach::Lease => vec![Some(lease_namespace.clone())],
            };
            let names: Vec<_> = if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() };
            for (namespace, name, verb) in product(&namespaces, &names, &rule.verbs) {
                let (group, resource, subresource) =
                    (rule.group.clone(), rule.resource.clone(), rule.subresource.clone());
                let grant = Grant { namespace, group, resource, subresource, name, verb };
                let because = format!("{because} of the controller `{}`", controller.name());
                grants.entry(grant).or_default().insert(because);
            }
        };
        for need in plan.needs() {
            add(&need.rule, &need.names, &need.reach, &need.because);
        }
        for rule in plan.access().unwrap_or_default() {
            let reach = if rule.cluster { Reach::Cluster } else { Reach::Watched };
            add(rule, &[], &reach, "access");
        }
        if let Some(leases) = &leases {
            let lease = |verbs: &[&str]| Rule::new("coordination.k8s.io", "leases", None, verbs);
            let own = std::slice::from_ref(&leases.name);
            add(&lease(&["create", "get", "update", "watch"]), own, &Reach::Lease, "leader_election");
            for former in &leases.former {
                add(&lease(&["get"]), std::slice::from_ref(&former.name), &Reach::Lease, former.whose.key());
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
    Ok(grants)
}

/// What is more than it seems: a line for each argument or setting by which a
/// controller keeps every Secret in memory.
pub(crate) fn warnings(controllers: &[Controller]) -> Vec<String> {
    let mut warnings = Vec::new();
    for controller in controllers {
        let place = match controller.namespaces() {
            [] => "the cluster".to_owned(),
            some => format!("the namespaces {}", some.join(", ")),
        };
        for Need { rule, because, .. } in controller.plan().needs() {
            let cached = rule.verbs.iter().any(|verb| verb == "list");
            if !cached || (&*rule.group, &*rule.resource, &rule.subresource) != ("", "secrets", &None) {
                continue;
            }
            let advice = match because {
                _ if because.starts_with("Reader<") => "take `Getter<Secret>` where single ones are enough",
                _ if !because.starts_with("resource") => {
                    "set `namespaces`, or leave it out and take `Getter<Secret>` where single ones are enough"
                }
                _ if controller.is_metadata_only() => continue,
                _ => "set `metadata_only` where metadata is enough",
            };
            warnings.push(format!(
                "`{because}` of the controller `{}` holds every Secret of {place} in memory, and is granted list on \
                 them: {advice}",
                controller.name()
            ));
        }
    }
    warnings
}

fn product<'a>(
    namespaces: &'a [Option<String>],
    names: &'a [Option<String>],
    verbs: &'a [String],
) -> impl Iterator<Item = (Option<String>, Option<String>, String)> + 'a {
    namespaces.iter().flat_map(move |namespace| {
        let of = move |name: &'a Option<String>| verbs.iter().map(move |verb| (namespace, name, verb));
        names.iter().flat_map(of).map(|(namespace, name, verb)| (namespace.clone(), name.clone(), verb.clone()))
    })
}

impl Place {
    /// The name of the service account.
    pub(crate) fn account(&self) -> String {
        self.installation.to_string()
    }

    /// The name of the role for a namespace, or for the cluster, and of its
    /// binding. Outside of its own namespace the program may be installed
    /// twice: the name says from where.
    pub(crate) fn role(&self, namespace: Option<&str>) -> String {
        let Self { namespace: own, .. } = self;
        let account = self.account();
        if namespace == Some(own) { account } else { format!("{own}:{account}") }
    }
}

impl Grant {
    /// Whether who is granted this needs no `other`.
    fn covers(&self, other: &Self) -> bool {
        let wide = |ours: &Option<String>, theirs: &Option<String>| ours.is_none() || ours == theirs;
        (&self.group, &self.resource, &self.subresource) == (&other.group, &other.resource, &other.subresource)
            && wide(&self.namespace, &other.namespace)
            && wide(&self.name, &other.name)
            && (self.verb == "*" || self.verb == other.verb)
    }

    /// `resource`, or `resource/subresource`: as rules name it.
    pub(crate) fn path(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// In the syntax of `access`: `apps/deployments: get`.
    pub(crate) fn rule(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!("{}/", self.group) };
        format!("{group}{}: {}", self.path(), self.verb)
    }

    /// The name that it is for, if it is for one alone.
    pub(crate) fn pinned(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" (resourceNames: {name})"))
    }

    /// Where it has to hold, behind a rule.
    pub(crate) fn place(&self) -> String {
        self.namespace.as_ref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"))
    }

    /// The role that it belongs to, as it is printed.
    pub(crate) fn role(&self, place: &Place) -> String {
        let role = place.role(self.namespace.as_deref());
        match &self.namespace {
            Some(namespace) => format!("the Role `{role}` in namespace `{namespace}`"),
            None => format!("the ClusterRole `{role}`"),
        }
    }
}

/// In the syntax of `access`, with the name it is for: `apps/deployments: get`.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rule(), self.pinned())
    }
}
