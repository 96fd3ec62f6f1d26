//! Retrievers: where the objects of a kind come from.
//!
//! A controller retrieves its objects from the API server by default. To
//! retrieve them from elsewhere, pass a [`Retriever`] of your own to
//! `Builder::retriever`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::{Stream, stream};
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::object::older;
use kooper_runtime::object::{MalformedObject, Object};
#[doc(inline)]
pub use kooper_runtime::retriever::*;
use serde::Serialize;
use tokio::sync::mpsc;

/// Sends events to the watch of a [`channel`]. When all senders are dropped, the
/// watch stays open without further events.
#[derive(Debug, Clone)]
pub struct Sender {
    events: mpsc::UnboundedSender<Result<Event, RetrieveError>>,
}

impl Sender {
    /// Adds an object.
    ///
    /// # Errors
    /// If it has no name or cannot be serialized as JSON.
    pub fn add<K: Serialize>(&self, object: &K) -> Result<(), MalformedObject> {
        Object::from_typed(object).map(|object| self.send(Ok(Event::Added(object))))
    }

    /// Changes an object.
    ///
    /// # Errors
    /// If it has no name or cannot be serialized as JSON.
    pub fn modify<K: Serialize>(&self, object: &K) -> Result<(), MalformedObject> {
        Object::from_typed(object).map(|object| self.send(Ok(Event::Modified(object))))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If it has no name or cannot be serialized as JSON.
    pub fn delete<K: Serialize>(&self, object: &K) -> Result<(), MalformedObject> {
        Object::from_typed(object).map(|object| self.send(Ok(Event::Deleted(object))))
    }

    /// Sends any event or error.
    pub fn send(&self, event: Result<Event, RetrieveError>) {
        // It fails if the controller has ended, and then has no effect.
        let _ = self.events.send(event);
    }
}

type Receiver = mpsc::UnboundedReceiver<Result<Event, RetrieveError>>;

struct Channel<K> {
    present: Arc<Mutex<KnownObjects>>,
    /// Each watch takes the receiver and returns it at its end, so that a resumed
    /// watch continues where the last one stopped.
    receiver: Arc<Mutex<Option<Receiver>>>,
    kind: PhantomData<fn() -> K>,
}

/// The objects according to the events that the watch has yielded.
struct KnownObjects {
    objects: BTreeMap<ObjectKey, Arc<[u8]>>,
    version: String,
}

impl KnownObjects {
    fn put(&mut self, object: &Object) {
        self.objects.insert(object.key().clone(), object.json().as_ref().into());
        self.reached(object.version());
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Added(object) | Event::Modified(object) => self.put(object),
            Event::Deleted(object) => {
                self.objects.remove(object.key());
                self.reached(object.version());
            }
            Event::Bookmark { version, .. } => self.reached(version),
            _ => {}
        }
    }

    fn reached(&mut self, version: &str) {
        if older(&self.version, version) {
            version.clone_into(&mut self.version);
        }
    }

    /// The token of a page is the key of the last object before it.
    fn page(&self, request: &ListRequest) -> Page {
        let token = request.continue_token.as_deref().map(|token| {
            token
                .split_once('/')
                .map_or_else(|| ObjectKey::cluster_scoped(token), |(space, name)| ObjectKey::namespaced(space, name))
        });
        let after = token.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.objects.range((after, Bound::Unbounded));
        let page: Vec<_> = rest.by_ref().take(request.limit as usize).collect();
        let last = page.last().map(|(key, _)| key.to_string());
        Page {
            objects: page.into_iter().map(|(_, json)| Object::parse(json)).collect(),
            version: self.version.clone(),
            continue_token: last.filter(|_| rest.next().is_some()),
        }
    }
}

/// A retriever of a list of objects, and the sender of its watch's events. A
/// later list, such as after [`RetrieveError::Expired`], contains the objects as
/// the events have changed them.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::retriever::channel;
///
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("settings".into());
/// let (retriever, events) = channel([config.clone()])?;
/// events.delete(&config)?;
/// # let _ = retriever;
/// # Ok::<_, kooper::BoxError>(())
/// ```
///
/// # Errors
/// If an object has no name or cannot be serialized as JSON.
pub fn channel<K: Serialize + 'static>(
    objects: impl IntoIterator<Item = K>,
) -> Result<(impl Retriever<K>, Sender), MalformedObject> {
    let mut present = KnownObjects { objects: BTreeMap::new(), version: "1".to_owned() };
    for object in objects {
        present.put(&Object::from_typed(&object)?);
    }
    let (events, receiver) = mpsc::unbounded_channel();
    Ok((
        Channel {
            present: Arc::new(Mutex::new(present)),
            receiver: Arc::new(Mutex::new(Some(receiver))),
            kind: PhantomData::<fn() -> K>,
        },
        Sender { events },
    ))
}

/// A retriever of a list of objects that do not change.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::retriever::fixed;
///
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("settings".into());
/// let retriever = fixed([config])?;
/// # let _ = retriever;
/// # Ok::<_, kooper::BoxError>(())
/// ```
///
/// # Errors
/// If an object has no name or cannot be serialized as JSON.
pub fn fixed<K: Serialize + 'static>(
    objects: impl IntoIterator<Item = K>,
) -> Result<impl Retriever<K>, MalformedObject> {
    channel(objects).map(|(retriever, _)| retriever)
}

impl<K: 'static> Retriever<K> for Channel<K> {
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send {
        std::future::ready(Ok(self.present.lock().page(&request)))
    }

    fn watch(
        &self,
        _: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send
    {
        let present = self.present.clone();
        let borrowed = Borrowed { receiver: self.receiver.lock().take(), home: self.receiver.clone() };
        std::future::ready(Ok(stream::unfold((borrowed, present), |(mut borrowed, present)| async move {
            let event = match &mut borrowed.receiver {
                Some(receiver) => receiver.recv().await,
                None => None,
            };
            match event {
                Some(event) => {
                    if let Ok(event) = &event {
                        present.lock().apply(event);
                    }
                    Some((event, (borrowed, present)))
                }
                None => std::future::pending().await,
            }
        })))
    }
}

struct Borrowed {
    receiver: Option<Receiver>,
    home: Arc<Mutex<Option<Receiver>>>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // A watch that was opened beside another one has none.
        if let Some(receiver) = self.receiver.take() {
            *self.home.lock() = Some(receiver);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt, StreamExt};
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version}})
    }

    /// The names and versions of all objects, and the number of pages that they are listed in.
    async fn listed(retriever: &impl Retriever<Value>) -> (Vec<(String, String)>, usize) {
        let (mut request, mut objects, mut pages) = (ListRequest::default(), Vec::new(), 0);
        loop {
            let page = retriever.list(request.clone()).await.unwrap();
            let found = page.objects.into_iter().map(Result::unwrap);
            objects.extend(found.map(|object| (object.key().name().to_owned(), object.version().to_owned())));
            pages += 1;
            if page.continue_token.is_none() {
                return (objects, pages);
            }
            request.continue_token = page.continue_token;
        }
    }

    #[tokio::test]
    async fn a_later_list_has_the_objects_as_the_events_have_changed_them() {
        let (retriever, events) = channel([object("kept", "1"), object("deleted", "2")]).unwrap();
        events.add(&object("added", "3")).unwrap();
        events.delete(&object("deleted", "4")).unwrap();
        events.send(Err(RetrieveError::Expired("too old".to_owned())));
        {
            let mut watch = pin!(retriever.watch(WatchRequest::default()).await.unwrap());
            assert!(matches!(watch.next().await, Some(Ok(Event::Added(_)))));
            assert!(matches!(watch.next().await, Some(Ok(Event::Deleted(_)))));
            assert!(matches!(watch.next().await, Some(Err(RetrieveError::Expired(_)))));
        }
        let version = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert_eq!(listed(&retriever).await, (vec![version("added", "3"), version("kept", "1")], 1));
        assert_eq!(retriever.list(ListRequest::default()).await.unwrap().version, "4");
        // Another watch continues where the first one stopped.
        events.modify(&object("kept", "5")).unwrap();
        let mut watch = pin!(retriever.watch(WatchRequest::default()).await.unwrap());
        assert!(matches!(watch.next().await, Some(Ok(Event::Modified(_)))));
        assert_eq!(listed(&retriever).await.0[1], version("kept", "5"));
    }

    #[tokio::test]
    async fn a_watch_that_was_opened_beside_another_one_and_ends_after_it_loses_no_events() {
        let (retriever, events) = channel([object("kept", "1")]).unwrap();
        let first = retriever.watch(WatchRequest::default()).await.unwrap();
        let second = retriever.watch(WatchRequest::default()).await.unwrap();
        drop(first);
        drop(second);
        events.modify(&object("kept", "2")).unwrap();
        let mut watch = pin!(retriever.watch(WatchRequest::default()).await.unwrap());
        assert!(matches!(watch.next().now_or_never(), Some(Some(Ok(Event::Modified(_))))));
    }

    #[tokio::test]
    async fn many_objects_are_listed_in_pages() {
        let (retriever, _events) = channel((0..1234).map(|name| object(&format!("{name:04}"), "1"))).unwrap();
        let (objects, pages) = listed(&retriever).await;
        assert_eq!((objects.len(), pages), (1234, 3));
        assert!(objects.iter().enumerate().all(|(number, (name, _))| *name == format!("{number:04}")));
    }
}
