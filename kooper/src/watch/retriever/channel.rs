//! A retriever over a fixed list and a channel of events: a controller's test
//! needs no server.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{Stream, stream};
use serde::Serialize;
use tokio::sync::mpsc;

use super::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest};
use crate::object::key::ObjectKey;
use crate::object::{MalformedObject, Object, older};

/// Sends what a watch is to yield; cloneable. When all are dropped the watch
/// stays open and silent, as one at which nothing happens.
#[derive(Debug, Clone)]
pub struct Sender {
    events: mpsc::UnboundedSender<Result<Event, RetrieveError>>,
}

impl Sender {
    /// An object is added.
    ///
    /// # Errors
    /// When it has no name or cannot be written as JSON.
    pub fn add<K: Serialize>(&self, object: &K) -> Result<(), MalformedObject> {
        Object::from_typed(object).map(|object| self.send(Ok(Event::Added(object))))
    }

    /// An object changes.
    ///
    /// # Errors
    /// When it has no name or cannot be written as JSON.
    pub fn modify<K: Serialize>(&self, object: &K) -> Result<(), MalformedObject> {
        Object::from_typed(object).map(|object| self.send(Ok(Event::Modified(object))))
    }

    /// An object is deleted.
    ///
    /// # Errors
    /// When it has no name or cannot be written as JSON.
    pub fn delete<K: Serialize>(&self, object: &K) -> Result<(), MalformedObject> {
        Object::from_typed(object).map(|object| self.send(Ok(Event::Deleted(object))))
    }

    /// Any event or error.
    pub fn send(&self, event: Result<Event, RetrieveError>) {
        // The controller may have ended: then nobody wants it.
        let _ = self.events.send(event);
    }
}

type Receiver = mpsc::UnboundedReceiver<Result<Event, RetrieveError>>;

struct Channel<K> {
    present: Arc<Mutex<Present>>,
    /// Each watch takes the channel and gives it back at its end, so that a
    /// resumed one continues where the last one stopped.
    receiver: Arc<Mutex<Option<Receiver>>>,
    kind: PhantomData<fn() -> K>,
}

/// The objects as the watch has yielded them: what a later list has.
struct Present {
    objects: BTreeMap<ObjectKey, Arc<[u8]>>,
    version: String,
}

impl Present {
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
            Event::Malformed(_) => {}
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

/// A retriever of a fixed list whose watch yields what is sent. A later list,
/// as after [`RetrieveError::Expired`], has the objects as the watch has left
/// them.
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
/// When an object has no name or cannot be written as JSON.
pub fn channel<K: Serialize + 'static>(
    objects: impl IntoIterator<Item = K>,
) -> Result<(impl Retriever<K>, Sender), MalformedObject> {
    let mut present = Present { objects: BTreeMap::new(), version: "1".to_owned() };
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

/// A retriever of a fixed list at which nothing happens afterwards.
///
/// # Errors
/// When an object has no name or cannot be written as JSON.
pub fn fixed<K: Serialize + 'static>(
    objects: impl IntoIterator<Item = K>,
) -> Result<impl Retriever<K>, MalformedObject> {
    channel(objects).map(|(retriever, _)| retriever)
}

impl<K: 'static> Retriever<K> for Channel<K> {
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send {
        std::future::ready(Ok(lock(&self.present).page(&request)))
    }

    fn watch(
        &self,
        _: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send
    {
        let present = self.present.clone();
        let borrowed = Borrowed { receiver: lock(&self.receiver).take(), home: self.receiver.clone() };
        std::future::ready(Ok(stream::unfold((borrowed, present), |(mut borrowed, present)| async move {
            let event = match &mut borrowed.receiver {
                Some(receiver) => receiver.recv().await,
                None => None,
            };
            match event {
                Some(event) => {
                    if let Ok(event) = &event {
                        lock(&present).apply(event);
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
        *lock(&self.home) = self.receiver.take();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
