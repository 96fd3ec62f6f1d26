//! The status page of a running operator.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::children::{SlotExt, declare, wait};
use kooper::http::{Listener, Server};
use kooper::prelude::*;
use kooper::retriever::channel;
use kooper::testing::Cluster;
use kooper::{CancellationToken, Health, Operator};
use kooper_tests::wait::until;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::fixture::{Start, run_with, with_name};

fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.namespace = Some("shop".into());
    config.metadata.name = Some(name.into());
    config.data = Some([("secret".to_owned(), "content-of-the-object".to_owned())].into());
    config
}

/// An object that is being deleted.
fn ending(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.deletion_timestamp = serde_json::from_str("\"2030-01-01T00:00:00Z\"").unwrap();
    config.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    config
}

/// The status page of a program.
pub(crate) struct Page(Server);

impl Page {
    pub(crate) fn serve(health: &Health) -> Result<Self> {
        let listener = Listener::bind("127.0.0.1:0".parse()?)?.status_page("shop");
        Ok(Self(listener.serve(prometheus::Registry::new(), health.clone(), Handle::current())?))
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// The response with its head.
    pub(crate) fn get(&self, query: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        write!(stream, "GET /status{query} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    /// Waits until the page has all of these parts.
    pub(crate) fn has(&self, query: &str, parts: &[&str]) {
        let holds = || parts.iter().all(|part| self.get(query).contains(part)).then_some(());
        block_in_place(|| until(&format!("the page of `{query}` has {parts:?}"), holds, || self.get(query)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_page_shows_calls_errors_and_what_each_key_waits_for() -> Result<()> {
    async fn handle(config: Arc<ConfigMap>, call: Call) -> Result<()> {
        match config.name_any().as_str() {
            "fails" => Err("the <shop> is\n\"closed\"".into()),
            "hangs" => {
                call.cancelled().await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
    let (retriever, events) = channel(["fails", "hangs", "works"].map(config).into_iter().chain([ending("ends")]))?;
    let controller = ConfigMap::controller("shops").retriever(retriever).handler(handle).build()?;
    let (again, _events) = channel([config("other"), ending("gone")])?;
    let other = ConfigMap::controller("others").retriever(again).resync(None).handler(|_: Arc<ConfigMap>| async {});
    let health = Health::default();
    let operator = Operator::builder().program("shop").health(health.clone());
    let page = Page::serve(&health)?;
    assert!(page.get("").contains("There is no controller yet."));
    let operator = operator.controller(controller).controller(other.build()?).build()?;
    for name in ["shops", "others"] {
        page.has("", &[&format!("<h2>{name} "), "it is starting"]);
    }

    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.run(stop.clone()));
    page.has(
        "",
        &[
            "the &lt;shop&gt; is\n&quot;closed&quot;",
            "failed calls",
            "it is retried in",
            "<td>shop/hangs</td><td>1</td>",
        ],
    );
    page.has("?q=works", &["<td>shop/works</td><td>it waits for a change, or for its resync in"]);
    page.has(
        "?q=hangs",
        &["<td>shop/hangs</td><td>it is running; so far for ", "running calls that match the search</dt><dd>1"],
    );
    let found = page.get("?q=shop%2Fworks");
    assert!(!found.contains("shop/fails</td>") && !found.contains("shop/hangs</td>"), "{found}");
    page.has(
        "?q=shop/other",
        &["shop/other waits for a change: nothing else is planned for it", "shop/other is not in the cache"],
    );
    page.has("?q=shop/ends", &["it is being deleted: the handler is not called for it, as there is neither"]);
    page.has("?q=shop/gone", &["it is being deleted: the handler is not called for it, as there is neither"]);
    page.has("?q=nothing", &["No key in the queue contains the search."]);
    assert!(!page.get("").contains("content-of-the-object"));

    // A key that runs, and has changed since.
    let mut changed = config("hangs");
    changed.metadata.labels = Some([("mood".to_owned(), "good".to_owned())].into());
    events.modify(&changed)?;
    page.has("?q=hangs", &["it is running, and runs once more afterwards", "<td>modified</td>"]);

    stop.cancel();
    running.await??;
    page.has("", &["shops <small>configmaps · <span class=\"bad\">has ended</span>", "others <small>configmaps · "]);
    assert!(!page.get("").contains("<table>"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_whose_init_fails_is_shown_with_the_reason() -> Result<()> {
    static OPEN: AtomicBool = AtomicBool::new(false);
    async fn init() -> Result<()> {
        if OPEN.load(Ordering::Relaxed) { Ok(()) } else { Err("the <till> is missing".into()) }
    }
    async fn handle(_: Arc<ConfigMap>, _: State<()>) -> Result<()> {
        Ok(())
    }
    let (retriever, _events) = channel(["a", "b"].map(config))?;
    let running = ConfigMap::controller("shops").retriever(retriever).init(init).handler(handle).start();
    let page = Page::serve(&running.health)?;
    page.has("", &["not ready", "<p class=\"bad\">`init` failed: the &lt;till&gt; is missing</p>"]);
    page.has("?q=a", &["<td>shop/a</td><td>it waits until the controller starts: `init` failed"]);
    OPEN.store(true, Ordering::Relaxed);
    page.has("", &["<b class=\"good\">ready", "<td>shop/a</td><td>it waits for a change, or for its resync"]);
    Ok(running.stop().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_waits_is_shown_with_what_holds_it_up() -> Result<()> {
    async fn hang(_: Arc<ConfigMap>, call: Call) -> Result<()> {
        call.cancelled().await;
        Ok(())
    }
    let (retriever, events) = channel([config("hangs")])?;
    let one = ConfigMap::controller("one").retriever(retriever).workers(1).handler(hang);
    let (retriever, more) = channel([config("stays")])?;
    let two = ConfigMap::controller("two").retriever(retriever).workers(2).handler(hang);
    // No server listens there.
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse()?))?;
    let (retriever, _events) = channel([config("reads")])?;
    let reads = ConfigMap::controller("reads").retriever(retriever).handler(async |_: Reader<Secret>| {});
    let running = run_with(Some(client), [one.build()?, two.build()?, reads.build()?]);
    let page = Page::serve(&running.health)?;
    page.has("?q=hangs", &["<td>shop/hangs</td><td>it is running; so far for "]);
    events.add(&config("waits"))?;
    page.has("?q=waits", &["for a worker, in the lane of events: the only worker has been running shop/hangs for "]);
    page.has("?q=stays", &["<td>shop/stays</td><td>it is running; so far for "]);
    more.add(&config("second"))?;
    page.has("?q=second", &["<td>shop/second</td><td>it is running; so far for "]);
    more.add(&config("third"))?;
    page.has(
        "?q=third",
        &["in the lane of events: all 2 workers are busy; the longest call, for shop/stays, has been running for "],
    );
    page.has("?q=reads", &["it waits until the controller starts: the first list of secrets is not complete: "]);
    Ok(running.stop().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_keys_a_thousand_are_shown_and_the_others_counted() -> Result<()> {
    let objects: Vec<_> = (0..3_000).map(|number| config(&format!("c{number}"))).collect();
    async fn handle(_: Arc<ConfigMap>, call: Call) -> Result<()> {
        call.cancelled().await;
        Ok(())
    }
    let (retriever, _events) = channel(objects)?;
    let running = ConfigMap::controller("shops").retriever(retriever).workers(2).handler(handle).start();
    let page = Page::serve(&running.health)?;
    // A watch, two calls, and the keys.
    let more = "<p>and 2\u{a0}003 more: search for a part of their key</p>";
    page.has("", &[more, "2\u{a0}998 resyncs and first lists", "<dd>3\u{a0}000</dd>"]);
    assert_eq!(page.get("").matches("<tr><td>").count(), 1_000);
    page.has("?q=c29", &["<td>shop/c2999</td><td>it has waited "]);
    assert!(!page.get("?q=c29").contains("shop/c1</td>"));
    Ok(running.stop().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slots_of_an_object_that_is_searched_for_are_drawn_with_their_states() -> Result<()> {
    fn config(owner: &ConfigMap) -> Result<Secret> {
        let text = owner.data.as_ref().and_then(|data| data.get("text")).ok_or_else(|| wait("there is no text yet"))?;
        let mut secret = Secret { string_data: Some([("text".to_owned(), text.clone())].into()), ..Secret::default() };
        secret.metadata.name = Some("copied".to_owned());
        Ok(secret)
    }
    fn marker(_: &ConfigMap, config: &Secret) -> Result<Secret> {
        Ok(with_name(&format!("{}-is-there", config.name_any())))
    }
    let cluster = Cluster::start().await?;
    let children = declare().child(config).child(marker.with((config,))).build()?;
    let controller = ConfigMap::controller("copies").labels("copied=yes").pause("example.com/pause");
    let controller = controller.handler(children.handler(async || {}));
    let running = run_with(Some(cluster.client()), [controller.build()?]);
    let page = Page::serve(&running.health)?;
    let mut owner: ConfigMap = with_name("text");
    owner.metadata.labels = Some([("copied".to_owned(), "yes".to_owned())].into());
    let owner = cluster.create(&owner).await?;
    let waits = "<title>config: Secret: held: there is no text yet</title>";
    page.has("?q=default/text", &["<h3>Slots of default/text</h3>", waits, "<title>marker: Secret: held: "]);
    assert!(!page.get("").contains("<h3>Slots of"));
    cluster.patch(&owner, serde_json::json!({"data": {"text": "hello"}})).await?;
    page.has("?q=default/text", &["<title>config: Secret: ready</title>", "<title>marker: Secret: ready</title>"]);
    assert!(!page.get("?q=default/text").contains("hello"));
    page.has("", &["calls <b>"]);
    let pause = serde_json::json!({"metadata": {"annotations": {"example.com/pause": "true"}}});
    cluster.patch(&owner, pause).await?;
    page.has("?q=default/text", &["<td>default/text</td><td>it is paused by the annotation `example.com/pause`</td>"]);
    Ok(running.stop().await?)
}
