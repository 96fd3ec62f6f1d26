use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{FutureExt, StreamExt, stream};

use super::*;
use crate::watch::retriever::{erase, from_fns};

/// Narrows the scope to the objects whose hash has the highest byte of that of the uid `a`.
#[derive(Default)]
struct OnlyA {
    /// Selects the object, but does not narrow the scope.
    whole: AtomicBool,
    /// Also selects the bytes before and after it.
    more: AtomicBool,
    states: Mutex<Vec<SelectorState>>,
    changes: watch::Sender<u64>,
}

impl CacheSelection for OnlyA {
    fn selects(&self, object: &Object) -> bool {
        object.uid() == "a"
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn narrow(&self, scope: &Scope, _: u64) -> Scope {
        let (first, last) = if self.more.load(Ordering::Relaxed) { (0xae, 0xb0) } else { (0xaf, 0xaf) };
        let selector = ShardSelector { ranges: vec![(first << 56, (last << 56) | (u64::MAX >> 8))] };
        let is_whole = self.whole.load(Ordering::Relaxed);
        Scope { shard_selector: (!is_whole).then_some(selector), ..scope.clone() }
    }

    fn shard_selector(&self, state: SelectorState) {
        self.states.lock().push(state);
    }
}

/// The response of a server to the selector.
#[derive(Clone, Copy, PartialEq)]
enum Response {
    Applies,
    Ignores,
    Rejects,
    /// It rejects the selector, and does not answer without it.
    Hangs,
    /// Another reason than the selector.
    Fails(u16),
}

/// A server with the objects `a` and `foobar`, and whether each request had the selector.
struct Server {
    response: Mutex<Response>,
    requests: Mutex<Vec<bool>>,
}

impl Server {
    fn answer(&self, has_selector: bool) -> Result<Vec<Object>, RetrieveError> {
        self.requests.lock().push(has_selector);
        let status = |code| RetrieveError::Status { code, message: String::new() };
        let uids: &[&str] = match *self.response.lock() {
            Response::Fails(503) => return Err(RetrieveError::Busy { after: Duration::ZERO, message: String::new() }),
            Response::Fails(code) => return Err(status(code)),
            Response::Rejects | Response::Hangs if has_selector => return Err(status(500)),
            Response::Applies if has_selector => &["a"],
            _ => &["a", "foobar"],
        };
        let object = |uid: &&str| {
            let text = format!(r#"{{"metadata":{{"name":"{uid}","uid":"{uid}","resourceVersion":"1"}}}}"#);
            Object::parse(text.as_bytes()).unwrap()
        };
        Ok(uids.iter().map(object).collect())
    }

    async fn delayed_answer(&self, has_selector: bool) -> Result<Vec<Object>, RetrieveError> {
        let answer = self.answer(has_selector);
        let hangs = *self.response.lock() == Response::Hangs && !has_selector;
        if hangs { std::future::pending().await } else { answer }
    }

    fn requests(&self) -> Vec<bool> {
        std::mem::take(&mut *self.requests.lock())
    }
}

struct Fixture {
    server: Arc<Server>,
    selection: Arc<OnlyA>,
    retriever: Box<dyn ErasedRetriever>,
}

impl Fixture {
    fn new(response: Response) -> Self {
        let server = Arc::new(Server { response: Mutex::new(response), requests: Mutex::default() });
        let selection = Arc::new(OnlyA::default());
        let shared = Arc::clone(&server);
        let open = move |scope: Scope| {
            let has_selector = scope.shard_selector.is_some();
            let (lists, watches) = (Arc::clone(&shared), Arc::clone(&shared));
            erase::<(), _>(from_fns(
                move |request: ListRequest| {
                    let lists = Arc::clone(&lists);
                    async move {
                        let mut objects = lists.delayed_answer(has_selector).await?;
                        if request.continue_token.is_some() {
                            // The last page has only `a`.
                            objects.truncate(1);
                        }
                        Ok(Page { objects: objects.into_iter().map(Ok).collect(), ..Page::default() })
                    }
                },
                move |_| {
                    let answer = watches.answer(has_selector);
                    async move {
                        let events = answer?.into_iter().map(|object| Ok(Event::Added(object))).collect::<Vec<_>>();
                        let end = Event::Bookmark { version: "1".to_owned(), initial_events_end: true };
                        Ok(stream::iter(events).chain(stream::iter([Ok(end)])))
                    }
                },
            ))
        };
        let retriever = Box::new(NarrowedRetriever::new(selection.clone(), Scope::default(), open));
        Self { server, selection, retriever }
    }

    async fn list(&self) -> Result<usize, RetrieveError> {
        self.retriever.list(ListRequest::default()).await.map(|page| page.objects.len())
    }

    async fn watch(&self, initial_events: bool) -> Result<usize, RetrieveError> {
        let request = WatchRequest { version: String::new(), initial_events };
        Ok(self.retriever.watch(request).await?.count().await)
    }

    fn states(&self) -> Vec<SelectorState> {
        std::mem::take(&mut *self.selection.states.lock())
    }
}

#[tokio::test]
async fn a_server_that_sends_only_selected_objects_applies_the_selector() {
    let fixture = Fixture::new(Response::Applies);
    assert_eq!(fixture.list().await.unwrap(), 1);
    assert_eq!(fixture.states(), [SelectorState::Applied]);
    assert_eq!(fixture.watch(true).await.unwrap(), 2);
    assert_eq!(fixture.states(), [SelectorState::Applied]);
    assert_eq!(fixture.server.requests(), [true, true]);
}

#[tokio::test]
async fn a_server_that_sends_another_object_ignores_the_selector_and_its_response_is_used_whole() {
    let fixture = Fixture::new(Response::Ignores);
    assert_eq!(fixture.list().await.unwrap(), 2);
    assert_eq!(fixture.states(), [SelectorState::Ignored]);
    assert_eq!(fixture.watch(false).await.unwrap(), 3);
    assert_eq!(fixture.states(), [SelectorState::Ignored]);
    assert_eq!(fixture.server.requests(), [true, true]);
}

#[tokio::test]
async fn a_rejected_selector_is_left_out_at_once_until_the_next_list() {
    let fixture = Fixture::new(Response::Rejects);
    assert_eq!(fixture.list().await.unwrap(), 2);
    assert_eq!(fixture.watch(false).await.unwrap(), 3);
    assert_eq!(fixture.server.requests(), [true, false, false]);
    assert_eq!(fixture.states(), [SelectorState::Rejected]);
    *fixture.server.response.lock() = Response::Applies;
    assert_eq!(fixture.watch(false).await.unwrap(), 3);
    assert_eq!(fixture.watch(true).await.unwrap(), 2);
    assert_eq!(fixture.server.requests(), [false, true]);
    assert_eq!(fixture.states(), [SelectorState::Applied]);
}

#[tokio::test]
async fn an_error_that_also_occurs_without_the_selector_is_not_a_rejection_of_it() {
    let fixture = Fixture::new(Response::Fails(500));
    assert!(fixture.list().await.is_err());
    assert_eq!(fixture.server.requests(), [true, false]);
    *fixture.server.response.lock() = Response::Applies;
    assert_eq!(fixture.watch(false).await.unwrap(), 2);
    assert_eq!(fixture.server.requests(), [true]);
    assert_eq!(fixture.states(), [SelectorState::Applied]);
}

#[tokio::test]
async fn an_error_of_a_server_that_is_away_is_not_a_rejection_of_the_selector() {
    for code in [502, 504] {
        let fixture = Fixture::new(Response::Fails(code));
        assert!(fixture.list().await.is_err());
        assert!(fixture.watch(true).await.is_err());
        assert_eq!(fixture.server.requests(), [true, true]);
        assert_eq!(fixture.states(), []);
    }
}

#[tokio::test]
async fn a_server_that_accepts_the_selector_does_not_reject_it_until_the_next_list() {
    for response in [Response::Applies, Response::Ignores] {
        let fixture = Fixture::new(response);
        fixture.list().await.unwrap();
        *fixture.server.response.lock() = Response::Rejects;
        assert!(fixture.watch(false).await.is_err());
        assert_eq!(fixture.server.requests(), [true, true]);
        assert_eq!(fixture.list().await.unwrap(), 2);
        assert_eq!(fixture.server.requests(), [true, false]);
        assert_eq!(fixture.states().last(), Some(&SelectorState::Rejected));
    }
}

#[tokio::test]
async fn another_selector_than_the_one_that_was_accepted_may_be_rejected() {
    let fixture = Fixture::new(Response::Applies);
    fixture.list().await.unwrap();
    fixture.selection.more.store(true, Ordering::Relaxed);
    *fixture.server.response.lock() = Response::Rejects;
    assert_eq!(fixture.watch(false).await.unwrap(), 3);
    assert_eq!(fixture.server.requests(), [true, true, false]);
}

#[tokio::test]
async fn a_rejection_is_not_noted_if_the_request_without_the_selector_is_cancelled() {
    let fixture = Fixture::new(Response::Hangs);
    assert!(fixture.list().now_or_never().is_none());
    assert_eq!(fixture.server.requests(), [true, false]);
    *fixture.server.response.lock() = Response::Applies;
    assert_eq!(fixture.watch(false).await.unwrap(), 2);
    assert_eq!(fixture.server.requests(), [true]);
    assert_eq!(fixture.states(), [SelectorState::Applied]);
}

#[tokio::test]
async fn a_page_without_other_objects_does_not_show_that_the_selector_is_applied_if_another_page_has_some() {
    let fixture = Fixture::new(Response::Ignores);
    fixture.list().await.unwrap();
    let last = ListRequest { continue_token: Some("next".to_owned()), ..ListRequest::default() };
    assert_eq!(fixture.retriever.list(last).await.unwrap().objects.len(), 1);
    assert_eq!(fixture.states(), [SelectorState::Ignored]);
}

#[tokio::test]
async fn a_request_that_an_overloaded_server_rejects_is_not_sent_twice() {
    let fixture = Fixture::new(Response::Fails(503));
    assert!(matches!(fixture.list().await, Err(RetrieveError::Busy { .. })));
    assert!(matches!(fixture.watch(true).await, Err(RetrieveError::Busy { .. })));
    assert_eq!(fixture.server.requests(), [true, true]);
    assert_eq!(fixture.states(), []);
}

#[tokio::test]
async fn a_watch_is_outdated_if_a_new_one_would_send_fewer_objects() {
    for (response, is_outdated) in [(Response::Applies, true), (Response::Ignores, false)] {
        let fixture = Fixture::new(response);
        fixture.list().await.unwrap();
        assert!(!fixture.retriever.is_outdated());
        fixture.selection.whole.store(true, Ordering::Relaxed);
        assert_eq!(fixture.retriever.is_outdated(), is_outdated);
    }
    // Nothing is known of a server before it has received a selector.
    let fixture = Fixture::new(Response::Ignores);
    fixture.selection.whole.store(true, Ordering::Relaxed);
    fixture.list().await.unwrap();
    fixture.selection.whole.store(false, Ordering::Relaxed);
    assert!(fixture.retriever.is_outdated());
}

#[tokio::test]
async fn a_request_for_the_version_does_not_count_as_a_list() {
    let fixture = Fixture::new(Response::Ignores);
    fixture.list().await.unwrap();
    *fixture.server.response.lock() = Response::Applies;
    fixture.retriever.list(ListRequest { limit: 1, ..ListRequest::default() }).await.unwrap();
    assert_eq!(fixture.states(), [SelectorState::Ignored]);
}
