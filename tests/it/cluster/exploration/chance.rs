//! Controllers whose objects differ from run to run: what is by chance in them hides no mistake.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kooper::testing::{Cluster, Exploration, Oracle};
use serde_json::{Value, from_value, json};

use super::mutants::Mutant;
use super::runtime;
use super::shop::{Scenario, Shop, ShopStatus, shops};

macro_rules! logs {
    ($($of:literal $form:ident),*) => {
        vec![$(Mutant {
            mistake: concat!("a line is doubled ", $of),
            oracle: Oracle::EndState,
            scenario: Scenario::Opens,
            make: |fixed| {
                let shops = shops();
                let shops = if fixed { shops.handler(log::<true, $form>) } else { shops.handler(log::<false, $form>) };
                shops.build().expect("it is a controller")
            },
        }),*]
    };
}

pub(crate) fn all() -> Vec<Mutant> {
    let mut all = logs!(
        "that has the uid" UID, "that has the time" TIME, "that has the time in seconds" SECONDS,
        "that has a random number" NUMBER, "that is random" RANDOM, "that has the uid, in a JSON document" JSON,
        "in a field that has the uid as its name" KEY, "in an object whose name has a part of the uid" NAME,
        "that has the uid, in a Secret" SECRET
    );
    all.push(Mutant {
        mistake: "a name is doubled in a list that has a random order",
        oracle: Oracle::EndState,
        scenario: Scenario::Opens,
        make: |fixed| {
            let shops = if fixed { shops().handler(shuffled::<true>) } else { shops().handler(shuffled::<false>) };
            shops.build().expect("it is a controller")
        },
    });
    all
}

const UID: u8 = 0;
const TIME: u8 = 1;
const SECONDS: u8 = 2;
const NUMBER: u8 = 3;
const RANDOM: u8 = 4;
const JSON: u8 = 5;
const KEY: u8 = 6;
const NAME: u8 = 7;
const SECRET: u8 = 8;

/// Logs once that the shop is opened. A mistake is to begin with what is logged already.
async fn log<const FIXED: bool, const FORM: u8>(
    shop: Arc<Shop>,
    getter: Getter<ConfigMap>,
    secrets: Getter<Secret>,
    applier: Applier<ConfigMap>,
    secret: Applier<Secret>,
    statuses: StatusWriter<Shop>,
) -> Result<()> {
    if shop.is_open() {
        return Ok(());
    }
    let (uid, now) = (shop.uid().unwrap_or_default(), k8s_openapi::jiff::Timestamp::now());
    let line = match FORM {
        TIME => format!("opened at {now} by the owner\n"),
        SECONDS => format!("{} opened\n", now.as_second()),
        NUMBER => format!("opened on port {}\n", fastrand::u16(..)),
        RANDOM => (0..fastrand::usize(1..40)).map(|_| fastrand::alphanumeric()).collect::<String>() + "\n",
        KEY | NAME => "opened\n".to_owned(),
        _ => format!("opened {uid}\n"),
    };
    let field = if FORM == KEY { format!("log-{uid}") } else { "log".to_owned() };
    let name = if FORM == NAME { format!("corner-{}", &uid[..8]) } else { "corner-log".to_owned() };
    let key = ObjectKey::namespaced("default", &name);
    let before = match FORM {
        SECRET => {
            let data = secrets.fetch(&key).await?.and_then(|secret| secret.data?.remove(&field));
            data.map(|bytes| String::from_utf8(bytes.0)).transpose()?
        }
        _ => getter.fetch(&key).await?.and_then(|note| note.data?.remove(&field)),
    };
    let before = before.filter(|_| !FIXED).unwrap_or_default();
    let text = match FORM {
        JSON => {
            let mut lines: Vec<Value> = serde_json::from_str(&before).unwrap_or_default();
            lines.push(json!({"line": line}));
            Value::from(lines).to_string()
        }
        _ => before + &line,
    };
    if FORM == SECRET {
        let log = json!({"metadata": {"name": name, "namespace": "default"}, "stringData": {field: text}});
        secret.apply(&from_value(log)?).await?;
    } else {
        applier.apply(&Shop::note(&name, &json!({field: text}))).await?;
    }
    statuses.apply_status(&shop, &Shop::opened()).await?;
    Ok(())
}

async fn shuffled<const FIXED: bool>(
    shop: Arc<Shop>,
    shops: Getter<Shop>,
    secrets: OwnedApplier<Secret>,
    statuses: StatusWriter<Shop>,
) -> Result<()> {
    let own = ObjectKey::namespaced("default", &shop.name_any());
    let Some(shop) = shops.fetch(&own).await?.map(Arc::new).filter(|shop| !shop.is_open()) else { return Ok(()) };
    let mut names = if FIXED { Vec::new() } else { shop.seen().names };
    let mut more = ["a", "b", "c"].map(str::to_owned);
    fastrand::shuffle(&mut more);
    names.extend(more);
    statuses.apply_status(&shop, &ShopStatus { names: names.clone(), ..ShopStatus::default() }).await?;
    secrets.apply_owned(&shop, &shop.secret("key")).await?;
    statuses.apply_status(&shop, &ShopStatus { names, ..Shop::opened() }).await?;
    Ok(())
}

/// Explores a controller that writes this into a ConfigMap, once.
fn explored(data: impl Fn() -> Value + Copy + Send + Sync + 'static) -> Exploration {
    let handler = move |notes: Getter<ConfigMap>, creator: Creator<ConfigMap>| async move {
        if notes.fetch(&ObjectKey::namespaced("default", "corner-note")).await?.is_none() {
            creator.create(&Shop::note("corner-note", &data())).await?;
        }
        Ok::<_, kooper::BoxError>(())
    };
    Exploration::of(move || Ok(vec![shops().handler(handler).build()?])).seed(1).limit(4)
}

#[test]
fn what_is_not_compared_whole_is_listed_with_what_is_compared_of_it() {
    let exploration = explored(|| {
        let word: String = (0..8).map(|_| fastrand::lowercase()).collect();
        json!({"token": word, "kept": "as it is"})
    });
    let explored = exploration.run(runtime, |cluster: Cluster| Scenario::Opens.pass(cluster)).unwrap();
    let listed = "`data.token` of `ConfigMap default/corner-note`, except for about 8 characters, 1 line";
    assert_eq!(explored.partly_compared(), [listed]);
    assert!(
        explored
            .to_string()
            .ends_with(&format!("\nnot compared, because it differs between runs without faults:\n  {listed}"))
    );
}

#[test]
fn an_object_of_which_nothing_is_compared_is_a_finding_unless_it_is_ignored() {
    // As many lines in two histories would be something that is compared.
    static LINES: AtomicUsize = AtomicUsize::new(0);
    let exploration = || {
        explored(|| {
            let lines = 0..LINES.fetch_add(1, Ordering::Relaxed);
            json!({"noise": lines.map(|_| format!("{}\n", fastrand::u64(..))).collect::<String>()})
        })
    };
    let pass = |cluster: Cluster| Scenario::Opens.pass(cluster);
    let found = exploration().run(runtime, pass).unwrap_err();
    assert_eq!(found.oracle(), Oracle::Comparison, "{found}");
    assert_eq!(
        found.summary(),
        "Without faults, `ConfigMap default/corner-note` cannot be compared, because it differs in each history: \
         `data.noise`; if that is intended, pass it to `ignore`"
    );
    let explored = exploration().ignore("data.noise").run(runtime, pass).unwrap();
    assert_eq!(explored.partly_compared(), Vec::<String>::new());
}
