//! Impersonation: a user acts as another one, where a role allows it for the request at hand, or for any request.

use std::sync::Arc;

use super::{check_path, check_resource};
use crate::cluster::Cluster;
use crate::http::Request;
use crate::identity::{MASTERS, User, account_name};
use crate::route::{self, Route, Target};
use crate::status::StatusError;

const GROUP: &str = "authentication.k8s.io";

/// The user that a request asks to act as.
struct ImpersonatedUser<'a> {
    name: &'a str,
    groups: Vec<&'a str>,
    uid: &'a str,
}

/// The user that the request asks to act as, if its own user may do so.
pub(crate) fn impersonated(
    cluster: &Arc<Cluster>,
    user: &User,
    request: &Request,
    route: &Route,
) -> Result<User, StatusError> {
    let Some(name) = request.header("impersonate-user") else {
        if request.headers.contains_key("impersonate-group") || request.headers.contains_key("impersonate-uid") {
            return Err(StatusError::bad_request(nameless(request)));
        }
        return Ok(user.clone());
    };
    let groups = request.headers.get_all("impersonate-group").iter().filter_map(|value| value.to_str().ok());
    let uid = request.header("impersonate-uid").unwrap_or_default();
    let wanted = ImpersonatedUser { name, groups: groups.collect(), uid };
    let mut constrained = None;
    if let Some(mode) = wanted.mode() {
        match check_constrained(cluster, user, request, route, &wanted, mode) {
            Ok(()) => return Ok(wanted.constrained()),
            Err(refusal) => constrained = Some(refusal),
        }
    }
    match wanted.check(cluster, user, "impersonate", "") {
        Ok(()) => Ok(wanted.user()),
        // Of several refusals the first is reported.
        Err(refusal) => Err(constrained.unwrap_or(refusal)),
    }
}

/// Checks that the user may make this request in a mode of constrained impersonation, and may
/// impersonate the wanted user in that mode.
fn check_constrained(
    cluster: &Arc<Cluster>,
    user: &User,
    request: &Request,
    route: &Route,
    wanted: &ImpersonatedUser<'_>,
    mode: &str,
) -> Result<(), StatusError> {
    let on = format!("impersonate-on:{mode}");
    match route {
        Route::Resource(target) => {
            let verb = route::verb(request, target);
            check_resource(cluster, user, &format!("{on}:{verb}"), target)?;
        }
        _ => {
            let verb = request.method.as_str().to_lowercase();
            check_path(cluster, user, &format!("{on}:{verb}"), &request.path)?;
        }
    }
    wanted.check(cluster, user, &format!("impersonate:{mode}"), GROUP)
}

fn node_name(name: &str) -> Option<&str> {
    name.strip_prefix("system:node:").filter(|node| !node.is_empty())
}

impl ImpersonatedUser<'_> {
    /// The way in which such a user can be impersonated for some requests only.
    fn mode(&self) -> Option<&'static str> {
        let only_named = self.groups.is_empty() && self.uid.is_empty();
        let mode = match (node_name(self.name), account_name(self.name)) {
            (Some(_), _) => "arbitrary-node",
            (_, Some(_)) => "serviceaccount",
            _ => return Some("user-info"),
        };
        only_named.then_some(mode)
    }

    fn user(&self) -> User {
        User::new(self.name, &self.groups).impersonated().with_uid(self.uid)
    }

    /// The same where the server knows the groups of a node.
    fn constrained(&self) -> User {
        match node_name(self.name) {
            Some(_) => User::new(self.name, &["system:nodes"]).impersonated(),
            None => self.user(),
        }
    }

    /// Checks that the user may impersonate this name, uid and groups. `group` is the API group to
    /// which the resources `users` and `groups` belong.
    fn check(&self, cluster: &Arc<Cluster>, user: &User, verb: &str, group: &str) -> Result<(), StatusError> {
        let target = |group: &str, resource: &str, name: &str| Target {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            name: Some(name.to_owned()),
            ..Target::default()
        };
        let constrained = !group.is_empty();
        let who = match (account_name(self.name), node_name(self.name).filter(|_| constrained)) {
            (Some((namespace, account)), _) => {
                Target { namespace: Some(namespace.to_owned()), ..target(group, "serviceaccounts", account) }
            }
            (_, Some(node)) => target(group, "nodes", node),
            _ => target(group, "users", self.name),
        };
        check_resource(cluster, user, verb, &who)?;
        if !self.uid.is_empty() {
            check_resource(cluster, user, verb, &target(GROUP, "uids", self.uid))?;
        }
        if constrained && self.groups.contains(&MASTERS) {
            let why = "impersonating the system:masters group is not allowed";
            return Err(super::denied(user, verb, &target(group, "groups", MASTERS), why));
        }
        for name in &self.groups {
            check_resource(cluster, user, verb, &target(group, "groups", name))?;
        }
        Ok(())
    }
}

/// The message about groups or a uid that are impersonated without a name, as Go prints them.
fn nameless(request: &Request) -> String {
    let groups: Vec<_> = request.headers.get_all("impersonate-group").iter().collect();
    let groups: Vec<_> = groups.iter().map(|group| format!("{:?}", group.to_str().unwrap_or_default())).collect();
    let groups = if groups.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", groups.join(", ")) };
    let uid = request.header("impersonate-uid").unwrap_or_default();
    format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:[]string{groups}, Extra:map[string][]string(nil)}} \
         without impersonating a user name"
    )
}
