//! The command `shards`: which replica owns which shard, and changes that a person requests.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use prometheus::Registry;
use tokio::runtime::Builder;

use super::invocation::{Invocation, lease_namespace};
use super::objects::counted;
use super::preflight::connected;
use super::stdout::print;
use super::step::printable;
use crate::block_on::block_on;
use crate::metrics::Prometheus;
use kooper_access::Controller;
use kooper_access::controller::ShardLeases;
use kooper_runtime::BoxError;
use kooper_runtime::internal::error::refusal::{is_conflict, is_denied};
use kooper_sharding::{Change, ChangeError, MemberRow, OverviewError, ShardOverview, ShardRow, ShardState};

/// A change is requested again if the map has changed meanwhile, at most this often.
const ATTEMPTS: usize = 10;

/// Why the command fails.
#[derive(Debug, thiserror::Error)]
enum ShardsError {
    #[error("no controller of this program has shards: write `shards = 32` in its attribute, or `.shards(…)`")]
    None,
    #[error("the program has no controller `{0}` with shards: those with shards are {1}")]
    Unknown(String, String),
    #[error("several controllers have shards, {0}: write `--controller NAME` to move one of them")]
    Several(String),
    #[error("controller {0}: {1}")]
    Overview(String, OverviewError),
    #[error("controller {0}: {1}")]
    Change(String, ChangeError),
    #[error("the Lease {place} cannot be changed: {message}; your user needs the verb `patch` on it")]
    Forbidden { place: String, message: String },
    #[error("the Lease {0} was changed by the replicas at each of {ATTEMPTS} attempts: try again")]
    Busy(String),
    #[error("the API server responded to the change of the Lease {0} with an error")]
    Patch(String, #[source] kube::Error),
}

/// Prints a table of the shards of each controller, after the changes.
pub(crate) fn shards(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let (program, settings) = (invocation.app.name, &invocation.settings);
    let controllers = invocation.controllers_quietly()?;
    // An undone change no longer conflicts with others, and a shard is not moved to a replica that is drained.
    let mut changes = settings.shards.changes.clone();
    changes.sort_by_key(|change| match change {
        Change::UndoMove(_) | Change::UndoDrain(_) => 0,
        Change::Drain(_) => 1,
        Change::Move(..) => 2,
    });
    let chosen = chosen(&controllers, settings.shards.controller.as_deref(), &changes)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let metrics = Prometheus::new(&Registry::new())?;
    let (text, failed) = block_on(&runtime, async {
        let connection = connected(invocation, &metrics).await?;
        let namespace = lease_namespace(program, &controllers, settings, &connection);
        let installation = settings.installation(program);
        let with_leases = chosen
            .into_iter()
            .filter_map(|controller| Some((controller.name(), controller.shard_leases(&installation, &namespace)?)));
        let chosen: Vec<_> = with_leases.collect();
        let client = &connection.client;
        for (name, leases, changes) in concerned(client, &chosen, &changes).await? {
            change(client, name, leases, &changes).await?;
        }
        let (mut tables, mut failed) = (Vec::new(), None);
        for (name, leases) in &chosen {
            match overview(client, name, leases).await {
                Ok(overview) => tables.push(table(name, leases, &overview)),
                // Those of the others are of use.
                Err(error) if chosen.len() > 1 => {
                    tables.push(printable(&error.to_string()) + "\n");
                    failed = Some(ExitCode::FAILURE);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok::<_, BoxError>((tables.join("\n"), failed))
    })?;
    let printed = print(&text)?;
    Ok(failed.unwrap_or(printed))
}

/// The controllers that are meant. Shards of two controllers have the same numbers.
fn chosen<'a>(
    controllers: &'a [Controller],
    only: Option<&str>,
    changes: &[Change],
) -> Result<Vec<&'a Controller>, ShardsError> {
    let sharded: Vec<&Controller> = controllers.iter().filter(|controller| controller.has_shards()).collect();
    let names = || sharded.iter().map(|controller| format!("`{}`", controller.name())).collect::<Vec<_>>().join(", ");
    let is_of_one = |change: &Change| matches!(change, Change::Move(..) | Change::UndoMove(_));
    match only {
        _ if sharded.is_empty() => Err(ShardsError::None),
        Some(name) => match sharded.iter().find(|controller| controller.name() == name) {
            Some(controller) => Ok(vec![controller]),
            None => Err(ShardsError::Unknown(name.to_owned(), names())),
        },
        None if sharded.len() > 1 && changes.iter().any(is_of_one) => Err(ShardsError::Several(names())),
        None => Ok(sharded),
    }
}

/// The controllers to change, each with its changes. All of them are checked before one is changed. A replica may have a session
/// in one of several controllers alone, or be drained in one alone: each controller gets the changes that concern it.
async fn concerned<'a, 'b>(
    client: &Client,
    chosen: &'a [(&'b str, ShardLeases<'b>)],
    changes: &[Change],
) -> Result<Vec<(&'b str, &'a ShardLeases<'b>, Vec<Change>)>, ShardsError> {
    let (mut concerned, mut undone, mut without_map) = (Vec::new(), BTreeMap::new(), None);
    for (name, leases) in chosen.iter().filter(|_| !changes.is_empty()) {
        let refused = |error| ShardsError::Change((*name).to_owned(), error);
        let overview = match overview(client, name, leases).await {
            Ok(overview) => overview,
            Err(
                error @ ShardsError::Overview(
                    _,
                    OverviewError::NoMap(_)
                    | OverviewError::NotCreated(..)
                    | OverviewError::Leader(..)
                    | OverviewError::Foreign(..),
                ),
            ) if chosen.len() > 1 => {
                without_map.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut own = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            match overview.patch(slice::from_ref(change)) {
                Err(error @ (ChangeError::NotDrained(_) | ChangeError::NoReplica(..))) => {
                    undone.entry(at).or_insert(Some(refused(error)));
                }
                _ => {
                    undone.insert(at, None);
                    own.push(change.clone());
                }
            }
        }
        overview.patch(&own).map_err(refused)?;
        if !own.is_empty() {
            concerned.push((*name, leases, own));
        }
    }
    let error = undone.into_values().flatten().next();
    error.or(without_map.filter(|_| concerned.is_empty())).map_or(Ok(concerned), Err)
}

/// Reads the Leases of a controller.
async fn overview(client: &Client, name: &str, leases: &ShardLeases<'_>) -> Result<ShardOverview, ShardsError> {
    let wall = Timestamp::now().as_microsecond();
    let read = ShardOverview::read(client, &leases.namespace, &leases.names, &leases.mark, wall).await;
    read.map_err(|error| ShardsError::Overview(name.to_owned(), error))
}

/// Requests changes by one compare-and-swap of the map. The replicas carry them out.
async fn change(client: &Client, name: &str, leases: &ShardLeases<'_>, changes: &[Change]) -> Result<(), ShardsError> {
    let api: Api<Lease> = Api::namespaced(client.clone(), &leases.namespace);
    let lease = leases.names.first().cloned().unwrap_or_default();
    let place = || format!("{}/{lease}", leases.namespace);
    for _ in 0..ATTEMPTS {
        let patch = overview(client, name, leases).await?.patch(changes);
        let patch = patch.map_err(|error| ShardsError::Change(name.to_owned(), error))?;
        match api.patch(&lease, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if is_conflict(&status) => {}
            Err(kube::Error::Api(status)) if status.code == 403 && !is_denied(&status) => {
                return Err(ShardsError::Forbidden { place: place(), message: status.message });
            }
            Err(error) => return Err(ShardsError::Patch(place(), error)),
        }
    }
    Err(ShardsError::Busy(place()))
}

/// The replicas and the shards of a controller.
fn table(name: &str, leases: &ShardLeases<'_>, overview: &ShardOverview) -> String {
    let (count, field) = (overview.count(), overview.field());
    let lease = leases.names.first().map_or("", String::as_str);
    let shards = counted(count, "shard");
    let mut head = format!("{name}: {shards} by {field}, in the Lease {}/{lease}\n", leases.namespace);
    overview.rejected().for_each(|entry| head += &(printable(&entry) + "\n"));
    let mut members = vec![["REPLICA", "SHARDS", "RENEWED", "STATE"].map(str::to_owned).to_vec()];
    members.extend(overview.members(leases.shards).map(member));
    let mut shards = vec![["SHARD", "BUCKETS", "OWNER", "TERM", "STATE"].map(str::to_owned).to_vec()];
    shards.extend(overview.shards().map(shard));
    [head, columns(&members), columns(&shards)].join("\n")
}

fn member(row: MemberRow) -> Vec<String> {
    let state = match (row.has_expired, row.is_leaving, row.is_drained) {
        (true, ..) => "expired",
        (_, true, _) => "stops",
        (_, _, true) => "drained",
        _ => "works",
    };
    let other = row.other.map_or_else(String::new, |other| format!(", started with {other}"));
    vec![row.replica, row.shards.to_string(), age(row.renewed), format!("{state}{other}")]
}

fn shard(row: ShardRow) -> Vec<String> {
    let (first, last) = row.buckets;
    let moved = if row.moved.is_some() { ", moved by --move" } else { "" };
    let state = match row.state {
        ShardState::Owned => "owned".to_owned(),
        ShardState::Moving(to) => format!("to be handed over to {to}"),
        ShardState::Orphaned => "the session of its owner has ended".to_owned(),
        ShardState::Free => "free".to_owned(),
    };
    let owner = row.owner.unwrap_or_else(|| "-".to_owned());
    let buckets = if first == last { format!("{first:02x}") } else { format!("{first:02x}-{last:02x}") };
    vec![row.index.to_string(), buckets, owner, row.term.to_string(), format!("{state}{moved}")]
}

/// A duration in whole seconds. Clocks of two machines differ by about that.
fn age(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..=119 => format!("{seconds}s ago"),
        seconds => format!("{}m ago", seconds / 60),
    }
}

/// Lines with aligned columns.
fn columns(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kooper_access::KindExt;
    use kooper_runtime::internal::error::chain;
    use kooper_sharding::Shards;
    use kooper_tests::responses;
    use serde_json::json;

    use super::*;

    fn controllers(shards: &[&str]) -> Vec<Controller> {
        let plain = Secret::controller("plain").handler(async || {}).build().unwrap();
        let with_shards = shards
            .iter()
            .map(|name| ConfigMap::controller(*name).shards(Shards::new(32)).handler(async || {}).build().unwrap());
        std::iter::once(plain).chain(with_shards).collect()
    }

    fn names(shards: &[&str], only: Option<&str>, changes: &[Change]) -> Result<Vec<String>, String> {
        let controllers = controllers(shards);
        let chosen = chosen(&controllers, only, changes).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|controller| controller.name().to_owned()).collect())
    }

    #[test]
    fn the_controllers_with_shards_are_shown_and_a_shard_of_several_needs_a_controller() {
        let (drain, moved) = ([Change::Drain("pod".to_owned())], [Change::UndoMove(3)]);
        assert_eq!(names(&["a", "b"], None, &drain).unwrap(), ["a", "b"]);
        assert_eq!(names(&["a", "b"], Some("b"), &moved).unwrap(), ["b"]);
        assert_eq!(names(&["a"], None, &moved).unwrap(), ["a"]);
        assert_eq!(
            names(&["a", "b"], None, &moved).unwrap_err(),
            "several controllers have shards, `a`, `b`: write `--controller NAME` to move one of them"
        );
        assert_eq!(
            names(&["a", "b"], Some("plain"), &[]).unwrap_err(),
            "the program has no controller `plain` with shards: those with shards are `a`, `b`"
        );
        assert!(names(&[], None, &[]).unwrap_err().starts_with("no controller of this program has shards"));
    }

    /// A client of a server with a map without a mark, with a wrong entry in its overrides, and with a webhook that rejects
    /// its changes with this code.
    fn client(rejected: u16) -> Client {
        responses::client("default", move |request| {
            let map = r#"{"by":"uid","count":1,"sessions":[],"shards":[[null,7]]}"#;
            let annotations = json!({"kooper.rs/shards": map, "kooper.rs/shards-overrides": r#"{"drained":[null]}"#});
            let metadata = json!({"name": "shop", "resourceVersion": "7", "annotations": annotations});
            let lease = json!({"metadata": metadata, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            let message = "admission webhook \"a.io\" denied the request: frozen";
            if request.method() == Method::PATCH {
                responses::rejection(rejected, message)
            } else if request.uri().path().ends_with("/leases/shop") {
                (200, lease)
            } else {
                (404, json!({"code": 404, "details": {"name": "shop--0"}}))
            }
        })
    }

    /// The replicas work by it.
    #[tokio::test]
    async fn a_map_whose_mark_was_removed_is_shown() {
        let names = ["shop", "shop--0"].map(str::to_owned);
        let overview = ShardOverview::read(&client(403), "default", &names, "shop/shops", 0).await.expect("a map");
        assert_eq!(overview.shards().map(|row| row.term).collect::<Vec<_>>(), [7]);
    }

    #[tokio::test]
    async fn a_change_that_a_webhook_rejects_neither_lacks_a_permission_nor_conflicts_with_the_replicas() {
        let (shards, namespace, mark) = (&Shards::new(1), "default".to_owned(), "shop/shops".to_owned());
        let leases = ShardLeases { shards, namespace, names: ["shop", "shop--0"].map(str::to_owned).to_vec(), mark };
        for code in [403, 404, 409] {
            let error = change(&client(code), "shops", &leases, &[]).await.expect_err("it is rejected");
            assert!(matches!(error, ShardsError::Patch(..)), "{error}");
            assert!(chain(&error).contains("denied the request: frozen"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn an_entry_of_the_overrides_without_effect_is_shown_above_the_tables() {
        let (shards, namespace, mark) = (&Shards::new(1), "default".to_owned(), "shop/shops".to_owned());
        let leases = ShardLeases { shards, namespace, names: ["shop", "shop--0"].map(str::to_owned).to_vec(), mark };
        let overview = overview(&client(403), "shops", &leases).await.expect("a map");
        let table = table("shops", &leases, &overview);
        let expected = "shops: 1 shard by uid, in the Lease default/shop\n\
                        an entry of the annotation kooper.rs/shards-overrides of the Lease default/shop has no effect: `null` in \
                        `drained` must be a replica, such as \"shop-7d4b9_0a1b\"\n\nREPLICA";
        assert!(table.starts_with(expected), "{table}");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["A".to_owned(), "STATE".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(columns(&rows), "A     STATE\nlong\n");
        let deceptive = [vec!["REPLICA".to_owned()], vec!["pod\u{1b}[2J\n0".to_owned()]];
        assert_eq!(columns(&deceptive), "REPLICA\npod\\u{1b}[2J\\n0\n");
        assert_eq!([5, 150].map(|seconds| age(Duration::from_secs(seconds))), ["5s ago", "2m ago"]);
    }

    #[test]
    fn shards_and_replicas_are_rows() {
        let row = ShardRow {
            index: 3,
            buckets: (0xc0, 0xff),
            owner: Some("pod-a".to_owned()),
            term: 7,
            state: ShardState::Moving("pod-b".to_owned()),
            moved: Some("pod-b".to_owned()),
        };
        assert_eq!(shard(row), ["3", "c0-ff", "pod-a", "7", "to be handed over to pod-b, moved by --move"]);
        let row = MemberRow {
            replica: "pod-a".to_owned(),
            lease: "shop--0".to_owned(),
            shards: 2,
            renewed: Duration::from_secs(1),
            has_expired: false,
            is_leaving: false,
            is_drained: true,
            other: Some("8 shards by uid".to_owned()),
        };
        assert_eq!(member(row), ["pod-a", "2", "1s ago", "drained, started with 8 shards by uid"]);
    }
}
