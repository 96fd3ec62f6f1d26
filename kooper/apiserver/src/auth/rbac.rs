//! Role-based access control: the rules of the roles that are bound to a user.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::identity::User;
use crate::kinds::Kind;
use crate::meta;
use crate::roles::{Binding, Roles};
use crate::route::Target;
use crate::status::{StatusError, details};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Attributes of a request that is authorized.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Attributes {
    pub(crate) fn of(verb: &str, target: &Target) -> Self {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        // A namespace is in itself, as far as roles are concerned.
        let namespace = if target.resource == "namespaces" && target.group.is_empty() {
            text(&target.name)
        } else {
            text(&target.namespace)
        };
        Self {
            verb: verb.to_owned(),
            group: target.group.clone(),
            resource: target.resource.clone(),
            subresource: text(&target.subresource),
            namespace,
            name: text(&target.name),
        }
    }

    fn whole_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The sentence that says what the user may not do.
    pub(crate) fn denied(&self, user: &User) -> String {
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!(
            "User {:?} cannot {} resource {:?} in API group {:?} {place}",
            user.name(),
            self.verb,
            self.whole_resource(),
            self.group
        )
    }
}

/// Returns whether the user's roles allow the request.
pub(crate) fn allows(cluster: &Arc<Cluster>, user: &User, asked: &Attributes) -> bool {
    decide(cluster, user, asked).is_some()
}

/// Why the roles that are bound to a user allow this, as reviews say it; `None` when they do not.
pub(crate) fn decide(cluster: &Arc<Cluster>, user: &User, asked: &Attributes) -> Option<String> {
    reason(cluster, user, &asked.namespace, |rule| covers(rule, asked))
}

/// Why a user may ask for a path that is not a resource.
pub(crate) fn decide_path(cluster: &Arc<Cluster>, user: &User, verb: &str, path: &str) -> Option<String> {
    reason(cluster, user, "", |rule| {
        has(&rule["verbs"], verb)
            && texts(&rule["nonResourceURLs"]).any(|allowed| {
                allowed == "*"
                    || allowed == path
                    || allowed.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
            })
    })
}

fn reason(cluster: &Arc<Cluster>, user: &User, namespace: &str, covers: impl Fn(&Value) -> bool) -> Option<String> {
    // Those who may do everything need no role.
    if user.is_master() {
        return Some(String::new());
    }
    let roles = roles(cluster);
    let bound = bound(&roles, user, namespace).find(|(binding, _)| binding.rules.iter().any(&covers));
    bound.map(|(binding, subject)| format!("RBAC: allowed by {}", source(binding, subject)))
}

/// The rules that a user has in a namespace, or cluster-wide where it is empty.
pub(crate) fn rules(cluster: &Arc<Cluster>, user: &User, namespace: &str) -> Vec<Value> {
    let roles = roles(cluster);
    bound(&roles, user, namespace).flat_map(|(binding, _)| binding.rules.clone()).collect()
}

/// The bindings and roles, read again when one of them has changed.
fn roles(cluster: &Cluster) -> Arc<Roles> {
    // Read the versions before the objects, so that a concurrent write makes the result outdated.
    let read_at = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
        .map(|resource| cluster.kind(GROUP, "v1", resource).map_or(0, |kind| kind.table.changed_at()));
    let known = Arc::clone(&cluster.roles.read());
    if known.read_at == read_at {
        return known;
    }
    let mut roles = Roles { read_at, ..Roles::default() };
    let decode = |object: Value, namespace: &str| {
        let rules = role_rules(cluster, &object["roleRef"], namespace);
        Binding { rules, namespace: namespace.to_owned(), object }
    };
    let bindings = cluster.objects(GROUP, "clusterrolebindings").into_iter();
    roles.cluster = bindings.map(|binding| decode(binding, "")).collect();
    for binding in cluster.objects(GROUP, "rolebindings") {
        let namespace = meta::text(&binding, "namespace").to_owned();
        let binding = decode(binding, &namespace);
        roles.namespaces.entry(namespace).or_default().push(binding);
    }
    let roles = Arc::new(roles);
    *cluster.roles.write() = Arc::clone(&roles);
    roles
}

/// The bindings that have a user among their subjects, each with that subject.
fn bound<'a>(
    roles: &'a Roles,
    user: &'a User,
    namespace: &str,
) -> impl Iterator<Item = (&'a Binding, &'a Value)> + use<'a> {
    let own = roles.namespaces.get(namespace).into_iter().flatten();
    roles.cluster.iter().chain(own).filter_map(|binding| {
        let subject = subject_of(&binding.object, user, &binding.namespace)?;
        Some((binding, subject))
    })
}

/// A binding and its subject as the real server describes them.
fn source(Binding { object, namespace, .. }: &Binding, subject: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&subject["kind"]), text(&subject["name"]));
    let subject = match subject["namespace"].as_str().unwrap_or(namespace) {
        of if kind == "ServiceAccount" => format!("{kind} \"{name}/{of}\""),
        _ => format!("{kind} {name:?}"),
    };
    let name = text(&object["metadata"]["name"]);
    let (kind, name) = if namespace.is_empty() {
        ("ClusterRoleBinding", name)
    } else {
        ("RoleBinding", format!("{name}/{namespace}"))
    };
    let role = &object["roleRef"];
    format!("{kind} {name:?} of {} {:?} to {subject}", text(&role["kind"]), text(&role["name"]))
}

fn role_rules(cluster: &Cluster, role: &Value, namespace: &str) -> Vec<Value> {
    let name = role["name"].as_str().unwrap_or_default();
    let (resource, key) = match role["kind"].as_str() {
        Some("ClusterRole") => ("clusterroles", name.to_owned()),
        Some("Role") => ("roles", crate::route::key(namespace, name)),
        _ => return Vec::new(),
    };
    let object = cluster.kind(GROUP, "v1", resource).and_then(|kind| kind.table.get(&key));
    object.and_then(|object| object.value()["rules"].as_array().cloned()).unwrap_or_default()
}

/// The subject of a binding that the user is.
fn subject_of<'a>(binding: &'a Value, user: &User, namespace: &str) -> Option<&'a Value> {
    binding["subjects"].as_array().into_iter().flatten().find(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => user.name() == name,
            Some("Group") => user.groups().iter().any(|group| group == name),
            Some("ServiceAccount") => {
                let of = subject["namespace"].as_str().unwrap_or(namespace);
                user.name() == format!("system:serviceaccount:{of}:{name}")
            }
            _ => false,
        }
    })
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn has(list: &Value, wanted: &str) -> bool {
    texts(list).any(|text| text == "*" || text == wanted)
}

fn covers(rule: &Value, asked: &Attributes) -> bool {
    let resource = asked.whole_resource();
    let resources = texts(&rule["resources"]).any(|allowed| {
        allowed == "*"
            || allowed == resource
            || (!asked.subresource.is_empty() && allowed == format!("*/{}", asked.subresource))
    });
    let mut names = texts(&rule["resourceNames"]).peekable();
    has(&rule["verbs"], &asked.verb)
        && has(&rule["apiGroups"], &asked.group)
        && resources
        && (names.peek().is_none() || names.any(|name| name == asked.name))
}

/// Refuses a role or binding that would give rights that its author does not have.
pub(crate) fn check_escalation(
    cluster: &Arc<Cluster>,
    user: &User,
    kind: &Kind,
    namespace: &str,
    name: &str,
    object: &Value,
    present: Option<&Value>,
) -> Result<(), StatusError> {
    if kind.group != GROUP || user.is_master() {
        return Ok(());
    }
    // An update that only lets the object be deleted gives no rights.
    let rest = |object: &Value| {
        let mut object = object.clone();
        meta::of(&mut object)
            .retain(|key, _| !matches!(key.as_str(), "finalizers" | "managedFields" | "ownerReferences"));
        object
    };
    if present.is_some_and(|present| rest(present) == rest(object)) {
        return Ok(());
    }
    let binding = kind.kind.ends_with("Binding");
    let allowed = if binding { "bind" } else { "escalate" };
    let asked = |resource: &str, name: &str| Attributes {
        verb: allowed.to_owned(),
        group: GROUP.to_owned(),
        resource: resource.to_owned(),
        subresource: String::new(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let (exempt, wanted) = if binding {
        let role = &object["roleRef"];
        let resource = if role["kind"] == "ClusterRole" { "clusterroles" } else { "roles" };
        (asked(resource, role["name"].as_str().unwrap_or_default()), role_rules(cluster, role, namespace))
    } else {
        (asked(&kind.resource, name), object["rules"].as_array().cloned().unwrap_or_default())
    };
    if allows(cluster, user, &exempt) {
        return Ok(());
    }
    let own = rules(cluster, user, namespace);
    let missing: Vec<Value> = wanted.into_iter().filter(|rule| !is_covered(rule, &own)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = missing.iter().map(shown_rule).collect();
    let groups: Vec<_> = user.groups().iter().map(|group| format!("{group:?}")).collect();
    let message = format!(
        "{}.{GROUP} {name:?} is forbidden: user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently \
         held:\n{}",
        kind.resource,
        user.name(),
        groups.join(" "),
        shown.join("\n")
    );
    Err(StatusError::forbidden(message, details(name, GROUP, &kind.resource)))
}

/// Returns whether a user's rules (`own`) grant every permission of a rule.
fn is_covered(rule: &Value, own: &[Value]) -> bool {
    let all = |key: &str| -> Vec<String> { texts(&rule[key]).map(ToOwned::to_owned).collect() };
    let names = all("resourceNames");
    let names = if names.is_empty() { vec![String::new()] } else { names };
    for path in all("nonResourceURLs") {
        for verb in all("verbs") {
            if !own.iter().any(|rule| has(&rule["verbs"], &verb) && has(&rule["nonResourceURLs"], &path)) {
                return false;
            }
        }
    }
    for group in all("apiGroups") {
        for whole in all("resources") {
            let (resource, subresource) = whole.split_once('/').unwrap_or((whole.as_str(), ""));
            for verb in all("verbs") {
                for name in &names {
                    let asked = Attributes {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.to_owned(),
                        subresource: subresource.to_owned(),
                        namespace: String::new(),
                        name: name.clone(),
                    };
                    if !own.iter().any(|rule| covers(rule, &asked)) {
                        return false;
                    }
                }
            }
        }
    }
    true
}

fn shown_rule(rule: &Value) -> String {
    let mut parts = Vec::new();
    for (key, name) in [
        ("apiGroups", "APIGroups"),
        ("resources", "Resources"),
        ("resourceNames", "ResourceNames"),
        ("nonResourceURLs", "NonResourceURLs"),
        ("verbs", "Verbs"),
    ] {
        let values: Vec<_> = texts(&rule[key]).map(|text| format!("{text:?}")).collect();
        if !values.is_empty() {
            parts.push(format!("{name}:[{}]", values.join(" ")));
        }
    }
    format!("{{{}}}", parts.join(", "))
}
