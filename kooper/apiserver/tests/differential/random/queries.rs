//! Queries of random histories: lists, watches and the options of writes.

use fastrand::Rng;

use super::objects::{NAMES, chance, one};

/// Values from earlier answers that a query may refer to.
pub(crate) struct Earlier {
    /// The version of the newest list or write.
    pub(crate) newest: Option<String>,
    /// The version of some earlier list or write.
    pub(crate) older: Option<String>,
    /// The token of a list that has another page.
    pub(crate) token: Option<String>,
}

fn selectors(rng: &mut Rng, parts: &mut Vec<String>) {
    if chance(rng, 300) {
        let selector = match rng.u32(..9) {
            0..=2 => "tier%3Dfront",
            3 => "tier!%3Dfront",
            4 => "tier+in+(front,back),app",
            5 => "!app",
            6 => "app+notin+(x)",
            7 => "app%3D%3Dx,tier",
            _ => "tier",
        };
        parts.push(format!("labelSelector={selector}"));
    }
    if chance(rng, 120) {
        let name = one(rng, &NAMES);
        parts.push(match rng.u32(..4) {
            0 => format!("fieldSelector=metadata.name!%3D{name}"),
            1 => "fieldSelector=metadata.namespace%3D$ns".to_owned(),
            _ => format!("fieldSelector=metadata.name%3D{name}"),
        });
    }
}

/// The query of a list.
pub(crate) fn list(rng: &mut Rng, earlier: &Earlier) -> String {
    let mut parts = Vec::new();
    let token = earlier.token.as_ref().filter(|_| chance(rng, 300));
    if let Some(token) = token {
        parts.push(format!("continue={token}"));
        parts.push(format!("limit={}", rng.u32(1..4)));
        return query(&parts);
    }
    selectors(rng, &mut parts);
    if chance(rng, 300) {
        parts.push(format!("limit={}", rng.u32(1..4)));
    }
    let version = match rng.u32(..20) {
        0..=2 => earlier.newest.clone(),
        3..=4 => earlier.older.clone(),
        5 => Some("0".to_owned()),
        6 => Some("x".to_owned()).filter(|_| chance(rng, 200)),
        _ => None,
    };
    if let Some(version) = version {
        parts.push(format!("resourceVersion={version}"));
        match rng.u32(..6) {
            0..=1 => parts.push("resourceVersionMatch=Exact".to_owned()),
            2..=3 => parts.push("resourceVersionMatch=NotOlderThan".to_owned()),
            _ => {}
        }
    } else if chance(rng, 10) {
        parts.push("resourceVersionMatch=Exact".to_owned());
    }
    if chance(rng, 15) {
        parts.push(
            one(
                rng,
                &[
                    "limit=x",
                    "fieldSelector=nothing",
                    "fieldSelector=spec.x%3D1",
                    "sendInitialEvents=true",
                    "continue=x",
                ],
            )
            .to_owned(),
        );
    }
    query(&parts)
}

/// The query of a watch.
pub(crate) fn watch(rng: &mut Rng, earlier: &Earlier) -> String {
    let mut parts = vec!["watch=1".to_owned()];
    selectors(rng, &mut parts);
    match rng.u32(..20) {
        0..=2 => {}
        3 => parts.push("resourceVersion=0".to_owned()),
        4 => parts.push("resourceVersion=1".to_owned()),
        5..=7 => {
            parts.push("sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned());
            if chance(rng, 800) {
                parts.push("allowWatchBookmarks=true".to_owned());
            }
            if let Some(version) = earlier.newest.as_ref().filter(|_| chance(rng, 300)) {
                parts.push(format!("resourceVersion={version}"));
            }
        }
        8 if chance(rng, 300) => parts.push("resourceVersion=1&resourceVersionMatch=Exact".to_owned()),
        8..=12 => parts.extend(earlier.older.iter().map(|version| format!("resourceVersion={version}"))),
        _ => parts.extend(earlier.newest.iter().map(|version| format!("resourceVersion={version}"))),
    }
    query(&parts)
}

/// The options of a write.
pub(crate) fn write(rng: &mut Rng, applying: bool) -> String {
    let mut parts = Vec::new();
    if applying && !chance(rng, 15) {
        parts.push(format!("fieldManager={}", one(rng, &["one", "two", "two"])));
        if chance(rng, 400) {
            parts.push("force=true".to_owned());
        }
    } else if chance(rng, 80) {
        parts.push(format!("fieldManager={}", one(rng, &["one", "three"])));
    }
    if chance(rng, 50) {
        parts.push("dryRun=All".to_owned());
    }
    if chance(rng, 60) {
        parts.push(format!("fieldValidation={}", one(rng, &["Strict", "Strict", "Ignore", "Warn"])));
    }
    if chance(rng, 8) {
        parts.push(one(rng, &["dryRun=Some", "fieldValidation=Some", "force=true"]).to_owned());
    }
    query(&parts)
}

/// The options of a deletion, where they are in the query.
pub(crate) fn delete(rng: &mut Rng) -> String {
    let mut parts = Vec::new();
    match rng.u32(..12) {
        0..=1 => parts.push("propagationPolicy=Background".to_owned()),
        2 => parts.push(format!("gracePeriodSeconds={}", one(rng, &[0, 300]))),
        3 if chance(rng, 400) => parts.push("propagationPolicy=Some".to_owned()),
        4 if chance(rng, 400) => parts.push("dryRun=All".to_owned()),
        _ => {}
    }
    query(&parts)
}

/// The query of a deletion of a collection.
pub(crate) fn delete_collection(rng: &mut Rng) -> String {
    let mut parts = Vec::new();
    if chance(rng, 850) {
        parts.push(match rng.u32(..5) {
            0..=1 => "labelSelector=app%3Dx".to_owned(),
            2 => "labelSelector=tier%3Dfront,app".to_owned(),
            _ => format!("fieldSelector=metadata.name%3D{}", one(rng, &NAMES)),
        });
    }
    if chance(rng, 100) {
        parts.push("dryRun=All".to_owned());
    }
    query(&parts)
}

/// The Accept header of a read, if it is not the default.
pub(crate) fn accept(rng: &mut Rng) -> Option<String> {
    let form = match rng.u32(..20) {
        0 => "Table",
        1 => "PartialObjectMetadata",
        _ => return None,
    };
    Some(format!("application/json;as={form};g=meta.k8s.io;v=v1"))
}

fn query(parts: &[String]) -> String {
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}
