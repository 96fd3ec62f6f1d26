use super::*;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

const KEY: &str = "a";

fn key() -> ObjectKey {
    ObjectKey::cluster(KEY)
}

fn object(name: &str, uid: &str, version: u32) -> Arc<Object> {
    let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
    Arc::new(Object::parse(json.as_bytes()).unwrap())
}

fn child(uid: &str, version: Option<u32>) -> Write {
    let version = version.map(|version| version.to_string());
    Write { cache: CacheId::of::<ConfigMap>(), object: ObjectKey::cluster("child"), uid: uid.to_owned(), version }
}

fn writes() -> Writes {
    Writes::new(CacheId::of::<Pod>())
}

fn hears(writes: &Writes, event: &Write) -> Echo {
    writes.hear(&key(), || event.clone(), |echo| echo)
}

#[tokio::test(start_paused = true)]
async fn an_echo_is_known_whether_it_comes_before_the_answer_or_after_it() {
    let writes = writes();
    writes.begin(&key(), || false);
    assert_eq!(hears(&writes, &child("u", Some(5))), Echo::Foreign, "nobody knows yet");
    writes.wrote(&key(), child("u", Some(5)));
    assert_eq!(writes.end(&key(), |echo| echo), Echo::Own);

    writes.begin(&key(), || false);
    writes.wrote(&key(), child("u", Some(6)));
    assert_eq!(writes.end(&key(), |echo| echo), Echo::Foreign, "nothing was heard: whatever it was, it is news");
    assert_eq!(hears(&writes, &child("u", Some(6))), Echo::Own);
    assert_eq!(hears(&writes, &child("u", Some(7))), Echo::Foreign);
}

#[tokio::test(start_paused = true)]
async fn one_event_of_somebody_else_makes_the_whole_call_news() {
    let writes = writes();
    writes.begin(&key(), || false);
    writes.wrote_quietly(&key(), child("u", Some(5)));
    assert_eq!(hears(&writes, &child("u", Some(5))), Echo::Silent);
    assert_eq!(hears(&writes, &child("u", Some(6))), Echo::Foreign);
    assert_eq!(writes.end(&key(), |echo| echo), Echo::Foreign);
}

#[tokio::test(start_paused = true)]
async fn that_an_object_is_gone_is_never_taken_for_an_earlier_write_of_it() {
    let writes = writes();
    writes.wrote_quietly(&key(), child("u", Some(5)));
    // A list that follows a gap tells the last version that was known.
    let gone = Write::event(CacheId::of::<ConfigMap>(), &object("child", "u", 5), true);
    assert_eq!(hears(&writes, &gone), Echo::Foreign);
    writes.wrote_quietly(&key(), child("u", None));
    assert_eq!(hears(&writes, &gone), Echo::Own);
    // What took its name is another object.
    assert_eq!(hears(&writes, &child("v", Some(9))), Echo::Foreign);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_cache_and_not_for_ever() {
    let writes = writes();
    writes.wrote(&key(), child("u", Some(5)));
    let before = Instant::now();
    writes.settled(&key(), |_| Some(object("child", "u", 5))).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    writes.wrote(&key(), child("u", Some(6)));
    writes.settled(&key(), |_| Some(object("child", "u", 5))).await;
    assert_eq!(before.elapsed(), PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_what_was_deleted_after_its_write() {
    let gone = Write::event(CacheId::of::<ConfigMap>(), &object("child", "u", 7), true);
    let before = Instant::now();
    // After the call, and while it runs, before the answer to its write.
    let writes = writes();
    writes.wrote(&key(), child("u", Some(5)));
    assert_eq!(hears(&writes, &gone), Echo::Foreign);
    writes.settled(&key(), |_| None).await;
    writes.begin(&key(), || false);
    hears(&writes, &gone);
    writes.wrote(&key(), child("u", Some(6)));
    writes.end(&key(), drop);
    writes.settled(&key(), |_| None).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(writes.known(), 0);
    // What the call deletes itself stays its own, whatever it writes next.
    writes.begin(&key(), || false);
    writes.wrote(&key(), child("u", None));
    assert_eq!(hears(&writes, &gone), Echo::Own);
    writes.wrote(&key(), child("w", Some(8)));
    assert_eq!(hears(&writes, &child("w", Some(8))), Echo::Own);
    assert_eq!(writes.end(&key(), |echo| echo), Echo::Own);
    writes.settled(&key(), |_| Some(object("child", "w", 8))).await;
    // Another one of its name is waited for.
    writes.wrote(&key(), child("v", Some(9)));
    hears(&writes, &gone);
    writes.settled(&key(), |_| None).await;
    assert_eq!(before.elapsed(), PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_cache_ends_the_wait() {
    let writes = Arc::new(writes());
    writes.wrote(&key(), child("u", Some(6)));
    let version = Arc::new(std::sync::atomic::AtomicU32::new(5));
    let (waiting, cached) = (writes.clone(), version.clone());
    let wait = tokio::spawn(async move {
        let find = |_: &Write| Some(object("child", "u", cached.load(std::sync::atomic::Ordering::SeqCst)));
        waiting.settled(&key(), find).await;
    });
    tokio::task::yield_now().await;
    version.store(6, std::sync::atomic::Ordering::SeqCst);
    let before = Instant::now();
    writes.progress();
    wait.await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_of_a_key_whose_writes_were_seen_and_heard() {
    let writes = writes();
    for version in 1..100 {
        writes.begin(&key(), || false);
        writes.wrote(&key(), child("u", Some(version)));
        hears(&writes, &child("u", Some(version)));
        writes.settled(&key(), |_| Some(object("child", "u", version))).await;
        writes.end(&key(), |_| ());
    }
    assert_eq!(writes.known(), 0);
}
