//! Controllers with one mistake each, and the same ones without it.
//!
//! Each handler is generic: `FIXED` is the twin that is right.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::capability::{PatchBody, by};
use kooper::prelude::*;
use kooper::testing::Oracle;
use kooper::{Controller, Patcher};
use serde_json::json;
use tokio::time::Instant;

use super::shop::{Scenario, Shop, ShopStatus, shops};

/// A mistake, and who has to find it.
pub(crate) struct Mutant {
    pub(crate) mistake: &'static str,
    pub(crate) oracle: Oracle,
    pub(crate) scenario: Scenario,
    pub(crate) make: fn(fixed: bool) -> Controller,
}

macro_rules! mutant {
    ($scenario:ident, $oracle:ident, $mistake:literal, $handler:ident) => {
        mutant!($scenario, $oracle, $mistake, $handler, |shops| shops)
    };
    ($scenario:ident, $oracle:ident, $mistake:literal, $handler:ident, |$shops:ident| $edited:expr) => {
        mutant!($scenario, $oracle, $mistake, |fixed| {
            let $shops = shops();
            let $shops = $edited;
            if fixed { $shops.handler($handler::<true>) } else { $shops.handler($handler::<false>) }
        })
    };
    ($scenario:ident, $oracle:ident, $mistake:literal, |$fixed:ident| $builder:expr) => {
        Mutant {
            mistake: $mistake,
            oracle: Oracle::$oracle,
            scenario: Scenario::$scenario,
            make: |$fixed| $builder.build().expect("it is a controller"),
        }
    };
}

/// Names that a process remembers.
type Names = Mutex<HashSet<String>>;

type Secrets = OwnedApplier<Secret>;

type Statuses = StatusWriter<Shop>;

pub(crate) fn all() -> Vec<Mutant> {
    vec![
        mutant!(Opens, Orphans, "a child with a generated name is noted after it is created", noted_late),
        mutant!(Opens, EndState, "the status is written before the child", status_first),
        mutant!(Opens, EndState, "the second child is only created with the first", both_or_none),
        mutant!(Closes, Orphans, "the children to delete are remembered in memory", |fixed| {
            let shops = shops().state(Names::default());
            if fixed {
                shops.cleanup("example.com/shop", forget::<true>).handler(remember)
            } else {
                shops.cleanup("example.com/shop", forget::<false>).handler(remember)
            }
        }),
        mutant!(Closes, Orphans, "the finalizer is removed before the child", finalizer_first, |shops| shops
            .while_deleting()),
        mutant!(Opens, EndState, "an object that exists already is a permanent error", exists),
        mutant!(Opens, EndState, "an error is ignored, and the work noted as done", ignored),
        mutant!(Opens, EndState, "a line is appended before that is noted", appended),
        mutant!(Opens, Counts, "a random name is noted after it is used", random_name),
        mutant!(Opens, Rest, "the status has the time of the call", timed, |shops| shops.state(Instant::now())),
        mutant!(Opens, Scenario, "the status counts the calls", counted),
        mutant!(Opens, Rest, "the order of a list is by chance", unordered, |shops| {
            shops.changed([kooper::Changed::Generation]).state(AtomicUsize::new(0))
        }),
        mutant!(Opens, Orphans, "children are counted in a stale cache", stale_count),
        mutant!(OpensTwo, EndState, "an object is deleted because a stale cache lacks its owner", |fixed| {
            let shops = shops().watches::<Secret, _, _>(everywhere);
            if fixed { shops.handler(stale_owner::<true>) } else { shops.handler(stale_owner::<false>) }
        }),
        mutant!(Closes, Orphans, "a child is deleted when the deletion is observed", |fixed| {
            if fixed { shops().handler(with_owned) } else { shops().deleted(observed).handler(with_unowned) }
        }),
        mutant!(Changes, Orphans, "the last size is remembered in memory", last_size, |shops| {
            shops.state(Mutex::new(HashMap::<String, i32>::new()))
        }),
        mutant!(Changes, Orphans, "no child is removed when there are too many", never_shrinks),
        mutant!(Changes, EndState, "a label is never removed", label_kept),
        mutant!(Changes, EndState, "only the first size is applied", first_only),
        mutant!(Changes, EndState, "the status keeps the largest size", high_water),
        mutant!(Opens, EndState, "a call that fails is not retried", |fixed| {
            let shops = shops().resync(None);
            if fixed { shops.handler(with_owned) } else { shops.retries(0).handler(with_owned) }
        }),
        mutant!(Opens, Counts, "each start creates the child again", again_at_start, |shops| {
            shops.state(Names::default())
        }),
        mutant!(Opens, Convergence, "each start begins from zero", from_zero, |shops| {
            shops.state(AtomicBool::new(false))
        }),
        mutant!(Opens, Orphans, "a crash leaves the lock behind", locked),
    ]
}

async fn noted_late<const FIXED: bool>(
    shop: Arc<Shop>,
    creator: Creator<Secret>,
    secrets: Secrets,
    statuses: Statuses,
) -> Result<()> {
    if FIXED {
        secrets.apply_owned(&shop, &shop.secret("key")).await?;
    } else if !shop.is_open() {
        creator.create(&shop.generated()).await?;
    }
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn status_first<const FIXED: bool>(shop: Arc<Shop>, secrets: Secrets, statuses: Statuses) -> Result<()> {
    if !FIXED {
        if shop.is_open() {
            return Ok(());
        }
        statuses.apply_status(&shop, &Shop::opened()).await?;
    }
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn both_or_none<const FIXED: bool>(shop: Arc<Shop>, getter: Getter<Secret>, secrets: Secrets) -> Result<()> {
    if !FIXED && getter.fetch(&shop.key("first")).await?.is_some() {
        return Ok(());
    }
    secrets.apply_owned(&shop, &shop.secret("first")).await?;
    secrets.apply_owned(&shop, &shop.secret("second")).await?;
    Ok(())
}

async fn remember(shop: Arc<Shop>, names: State<Names>, secrets: Applier<Secret>) -> Result<()> {
    secrets.apply(&shop.secret("key")).await?;
    names.lock().insert(shop.name_any());
    Ok(())
}

async fn forget<const FIXED: bool>(shop: Arc<Shop>, names: State<Names>, secrets: Deleter<Secret>) -> Result<()> {
    let known = names.lock().remove(&shop.name_any());
    if FIXED || known {
        secrets.delete(&shop.key("key")).await?;
    }
    Ok(())
}

async fn finalizer_first<const FIXED: bool>(
    shop: Arc<Shop>,
    patcher: Patcher<Shop>,
    secrets: Applier<Secret>,
    deleter: Deleter<Secret>,
) -> Result<()> {
    let set = |finalizers| PatchBody::merge(json!({"metadata": {"finalizers": finalizers}}));
    if !shop.is_closing() {
        if shop.finalizers().is_empty() {
            patcher.patch_object(&shop, set(json!(["example.com/own"]))).await?;
        }
        secrets.apply(&shop.secret("key")).await?;
        return Ok(());
    }
    if FIXED {
        deleter.delete(&shop.key("key")).await?;
    }
    patcher.patch_object(&shop, set(json!(null))).await?;
    if !FIXED {
        deleter.delete(&shop.key("key")).await?;
    }
    Ok(())
}

async fn exists<const FIXED: bool>(shop: Arc<Shop>, creator: Creator<ConfigMap>, statuses: Statuses) -> Result<()> {
    if shop.is_open() {
        return Ok(());
    }
    match creator.create(&Shop::note("corner-note", &json!({}))).await {
        Err(error) if error.code() == Some(409) && FIXED => {}
        Err(error) if error.code() == Some(409) => return Err(HandlerError::permanent(error).into()),
        created => drop(created?),
    }
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn ignored<const FIXED: bool>(shop: Arc<Shop>, secrets: Secrets, statuses: Statuses) -> Result<()> {
    if shop.is_open() {
        return Ok(());
    }
    let applied = secrets.apply_owned(&shop, &shop.secret("key")).await;
    if FIXED {
        applied?;
    }
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn appended<const FIXED: bool>(
    shop: Arc<Shop>,
    notes: Getter<ConfigMap>,
    applier: Applier<ConfigMap>,
    statuses: Statuses,
) -> Result<()> {
    if shop.is_open() {
        return Ok(());
    }
    let there = notes.fetch(&shop.key("log")).await?;
    let before = there.and_then(|note| note.data?.remove("lines")).filter(|_| !FIXED).unwrap_or_default();
    applier.apply(&Shop::note("corner-log", &json!({"lines": before + "opened\n"}))).await?;
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn random_name<const FIXED: bool>(shop: Arc<Shop>, secrets: Secrets, statuses: Statuses) -> Result<()> {
    let mut status = shop.seen();
    let random = || format!("k{}", fastrand::u64(..));
    // A name in the status may be missing in a stale cache: only one that derives from the object is certain.
    let name = if FIXED { "key".to_owned() } else { status.names.first().cloned().unwrap_or_else(random) };
    status.names = vec![name.clone()];
    secrets.apply_owned(&shop, &shop.secret(&name)).await?;
    statuses.apply_status(&shop, &status).await?;
    Ok(())
}

async fn timed<const FIXED: bool>(shop: Arc<Shop>, start: State<Instant>, statuses: Statuses) -> Result<()> {
    let seconds = i32::try_from(start.elapsed().as_secs())?;
    let status = ShopStatus { count: if FIXED { 0 } else { seconds }, ..Shop::opened() };
    statuses.apply_status(&shop, &status).await?;
    Ok(())
}

async fn counted<const FIXED: bool>(shop: Arc<Shop>, statuses: Statuses) -> Result<()> {
    let count = if FIXED { 1 } else { shop.seen().count + 1 };
    statuses.apply_status(&shop, &ShopStatus { count, ..Shop::opened() }).await?;
    Ok(())
}

async fn unordered<const FIXED: bool>(shop: Arc<Shop>, calls: State<AtomicUsize>, statuses: Statuses) -> Result<()> {
    let mut names = vec!["a".to_owned(), "b".to_owned()];
    if !FIXED {
        names.rotate_left(calls.fetch_add(1, Ordering::Relaxed) % 2);
    }
    statuses.apply_status(&shop, &ShopStatus { names, ..Shop::opened() }).await?;
    Ok(())
}

async fn stale_count<const FIXED: bool>(
    shop: Arc<Shop>,
    reader: Reader<Secret>,
    creator: Creator<Secret>,
    secrets: Secrets,
    statuses: Statuses,
) -> Result<()> {
    if FIXED {
        for number in 0..shop.spec.size {
            secrets.apply_owned(&shop, &shop.secret(&number.to_string())).await?;
        }
    } else {
        let there = reader.select(by::label("shop", shop.name_any())).count();
        for _ in there..usize::try_from(shop.spec.size)? {
            creator.create(&shop.generated()).await?;
        }
    }
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

/// Deletes the Secrets of shops that do not exist.
async fn stale_owner<const FIXED: bool>(
    shops: Reader<Shop>,
    getter: Getter<Shop>,
    secrets: Reader<Secret>,
    deleter: Deleter<Secret>,
) -> Result<()> {
    for secret in secrets.list() {
        let Some(name) = secret.labels()?.get("shop").cloned() else { continue };
        let owner = ObjectKey::namespaced("default", &name);
        let exists = shops.get(&owner)?.is_some() || FIXED && getter.fetch(&owner).await?.is_some();
        if !exists {
            deleter.delete(secret.key()).await?;
        }
    }
    Ok(())
}

fn everywhere(_: &Secret, shops: &Reader<Shop>) -> Vec<ObjectKey> {
    shops.list().map(|shop| shop.key().clone()).collect()
}

async fn with_owned(shop: Arc<Shop>, secrets: Secrets) -> Result<()> {
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    Ok(())
}

async fn with_unowned(shop: Arc<Shop>, secrets: Applier<Secret>) -> Result<()> {
    secrets.apply(&shop.secret("key")).await?;
    Ok(())
}

async fn observed(shop: Arc<Shop>, _: Gone, secrets: Deleter<Secret>) -> Result<()> {
    secrets.delete(&shop.key("key")).await?;
    Ok(())
}

async fn last_size<const FIXED: bool>(
    shop: Arc<Shop>,
    sizes: State<Mutex<HashMap<String, i32>>>,
    reader: Reader<Secret>,
    secrets: Applier<Secret>,
    deleter: Deleter<Secret>,
) -> Result<()> {
    let wanted = shop.secret(&shop.spec.size.to_string());
    secrets.apply(&wanted).await?;
    let last = sizes.lock().insert(shop.name_any(), shop.spec.size);
    if FIXED {
        for other in reader.list().filter(|other| other.name().starts_with("corner-")) {
            if Some(other.name()) != wanted.metadata.name.as_deref() {
                deleter.delete(other.key()).await?;
            }
        }
    } else if let Some(last) = last.filter(|last| *last != shop.spec.size) {
        deleter.delete(&shop.key(&last.to_string())).await?;
    }
    Ok(())
}

async fn never_shrinks<const FIXED: bool>(
    shop: Arc<Shop>,
    reader: Reader<Secret>,
    secrets: Secrets,
    deleter: Deleter<Secret>,
) -> Result<()> {
    let mut wanted = HashSet::new();
    for number in 0..shop.spec.size {
        let secret = shop.secret(&number.to_string());
        secrets.apply_owned(&shop, &secret).await?;
        wanted.insert(secret.name_any());
    }
    for other in reader.list().filter(|other| FIXED && other.name().starts_with("corner-")) {
        if !wanted.contains(other.name()) {
            deleter.delete(other.key()).await?;
        }
    }
    Ok(())
}

async fn label_kept<const FIXED: bool>(shop: Arc<Shop>, secrets: Secrets, patcher: Patcher<Secret>) -> Result<()> {
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    let color = shop.spec.color.clone();
    if FIXED || color.is_some() {
        let label = PatchBody::merge(json!({"metadata": {"labels": {"color": color}}}));
        patcher.patch(&shop.key("key"), label).await?;
    }
    Ok(())
}

async fn first_only<const FIXED: bool>(shop: Arc<Shop>, secrets: Secrets, statuses: Statuses) -> Result<()> {
    if !FIXED && shop.is_open() {
        return Ok(());
    }
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn high_water<const FIXED: bool>(shop: Arc<Shop>, statuses: Statuses) -> Result<()> {
    let count = if FIXED { shop.spec.size } else { shop.spec.size.max(shop.seen().count) };
    statuses.apply_status(&shop, &ShopStatus { count, ..Shop::opened() }).await?;
    Ok(())
}

async fn again_at_start<const FIXED: bool>(
    shop: Arc<Shop>,
    names: State<Names>,
    secrets: Secrets,
    deleter: Deleter<Secret>,
    statuses: Statuses,
) -> Result<()> {
    let new = names.lock().insert(shop.name_any());
    if new && !FIXED {
        deleter.delete(&shop.key("key")).await?;
    }
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn from_zero<const FIXED: bool>(shop: Arc<Shop>, begun: State<AtomicBool>, statuses: Statuses) -> Result<()> {
    let begins = !begun.swap(true, Ordering::Relaxed);
    let count = if begins && !FIXED { 0 } else { (shop.seen().count + 1).min(16) };
    statuses.apply_status(&shop, &ShopStatus { count, ..Shop::opened() }).await?;
    Ok(())
}

/// A lock that is taken by its creation. After a crash its holder has it already, and a stale cache must not take it
/// once more.
async fn locked<const FIXED: bool>(
    shop: Arc<Shop>,
    shops: Getter<Shop>,
    creator: Creator<ConfigMap>,
    notes: Getter<ConfigMap>,
    deleter: Deleter<ConfigMap>,
    secrets: Secrets,
    statuses: Statuses,
) -> Result<Action> {
    let lock = ObjectKey::namespaced("default", "lock");
    let own = ObjectKey::namespaced("default", &shop.name_any());
    let is_open = if FIXED { shops.fetch(&own).await?.is_none_or(|shop| shop.is_open()) } else { shop.is_open() };
    if is_open {
        if FIXED {
            deleter.delete(&lock).await?;
        }
        return Ok(Action::done());
    }
    match creator.create(&Shop::note("lock", &json!({"holder": shop.name_any()}))).await {
        Err(error) if error.code() == Some(409) => {
            let holder = notes.fetch(&lock).await?.and_then(|lock| lock.data?.remove("holder"));
            if !FIXED || holder != Some(shop.name_any()) {
                return Ok(Action::requeue_after(Duration::from_secs(10)));
            }
        }
        created => drop(created?),
    }
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    statuses.apply_status(&shop, &Shop::opened()).await?;
    deleter.delete(&lock).await?;
    Ok(Action::done())
}
