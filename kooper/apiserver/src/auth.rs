//! Who asks, and whether they may.

mod impersonation;
pub(crate) mod rbac;

use std::sync::Arc;

use serde_json::json;

pub(crate) use self::impersonation::impersonated;
use self::rbac::Attributes;
use crate::cluster::Cluster;
use crate::http::Request;
use crate::identity::{AUDIENCE, Granted, User};
use crate::route::Target;
use crate::status::StatusError;

/// The user whose token the request carries.
pub(crate) fn user(cluster: &Cluster, request: &Request) -> Result<User, StatusError> {
    let mut words = request.header(http::header::AUTHORIZATION).unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(scheme), Some(token)) if scheme.eq_ignore_ascii_case("bearer") => {
            let known = user_of_token(cluster, token, &[AUDIENCE.to_owned()]);
            known.map(|(user, _)| user).map_err(|_| StatusError::unauthorized())
        }
        // Another scheme identifies no one.
        _ => Ok(User::anonymous()),
    }
}

/// The user that a token stands for, and for which of these audiences it is meant.
pub(crate) fn user_of_token(
    cluster: &Cluster,
    token: &str,
    audiences: &[String],
) -> Result<(User, Vec<String>), String> {
    if let Some(user) = cluster.tokens.user(token) {
        let own: Vec<_> = audiences.iter().filter(|audience| *audience == AUDIENCE).cloned().collect();
        let known = (!own.is_empty()).then_some((user, own));
        return known.ok_or_else(|| "invalid bearer token".to_owned());
    }
    let Some(granted) = cluster.tokens.granted(token) else { return Err("invalid bearer token".to_owned()) };
    let meant = granted.audiences(audiences);
    if meant.is_empty() {
        let shown = |list: &[String]| {
            let list: Vec<_> = list.iter().map(|audience| format!("{audience:?}")).collect();
            format!("[{}]", list.join(" "))
        };
        return Err(format!(
            "[invalid bearer token, token audiences {} is invalid for the target audiences {}]",
            shown(granted.all_audiences()),
            shown(audiences)
        ));
    }
    let user = account(&granted, cluster).map_err(|why| format!("[invalid bearer token, {why}]"))?;
    Ok((user.authenticated(), meant))
}

/// The service account as a user, if the token still stands for it.
fn account(granted: &Granted, cluster: &Cluster) -> Result<User, String> {
    let grant = &granted.grant;
    if granted.is_expired() {
        return Err("service account token has expired".to_owned());
    }
    let uid = |resource: &str, key: &str| {
        let object = cluster.kind("", "v1", resource)?.table.get(key)?;
        Some(object.traits().uid.to_string())
    };
    match uid("serviceaccounts", &crate::route::key(&grant.namespace, &grant.account)) {
        Some(found) if found == grant.uid => {}
        Some(found) => {
            return Err(format!("service account UID ({found}) does not match claim ({})", grant.uid));
        }
        None => return Err(format!("serviceaccounts {:?} not found", grant.account)),
    }
    let mut user = User::service_account(&grant.namespace, &grant.account).with_uid(&grant.uid);
    user.add_extra("credential-id", &format!("JTI={}", granted.id));
    if let Some(bound) = &grant.bound {
        if uid(bound.resource, &bound.key).as_deref() != Some(&bound.uid) {
            return Err("service account token has been invalidated".to_owned());
        }
        let (name, node) = match bound.resource {
            "pods" => (Some(("pod", &bound.name, Some(&bound.uid))), bound.node.as_ref()),
            "nodes" => (Some(("node", &bound.name, Some(&bound.uid))), None),
            _ => (None, None),
        };
        let node = node.map(|(name, uid)| ("node", name, uid.as_ref()));
        for (what, name, uid) in name.into_iter().chain(node) {
            user.add_extra(&format!("{what}-name"), name);
            if let Some(uid) = uid {
                user.add_extra(&format!("{what}-uid"), uid);
            }
        }
    }
    Ok(user)
}

/// Refuses what the user may not do with a resource.
pub(crate) fn check_resource(
    cluster: &Arc<Cluster>,
    user: &User,
    verb: &str,
    target: &Target,
) -> Result<(), StatusError> {
    if rbac::allows(cluster, user, &Attributes::of(verb, target)) {
        Ok(())
    } else {
        Err(denied(user, verb, target, ""))
    }
}

/// The refusal of what a user may not do with a resource, with a reason where there is one.
fn denied(user: &User, verb: &str, target: &Target, why: &str) -> StatusError {
    let name = target.name.as_deref().unwrap_or_default();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let why = Attributes::of(verb, target).denied(user) + &why;
    StatusError::forbidden_named(&target.group, &target.resource, name, why)
}

/// Refuses a path that is not a resource.
pub(crate) fn check_path(cluster: &Arc<Cluster>, user: &User, verb: &str, path: &str) -> Result<(), StatusError> {
    if rbac::decide_path(cluster, user, verb, path).is_some() {
        return Ok(());
    }
    let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name());
    Err(StatusError::forbidden(message, json!({})))
}
