//! A retriever over a fixed list and a channel of events: a controller's test
//! needs no server.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, stream};
use serde::Serialize;
use tokio::sync::mpsc;

use super::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest};
use crate::object::{MalformedObject, Object};

/// Sends what a watch is to yield; cloneable. When all are dropped the watch
/// stays open and silent, as one at which nothing happens.
#[derive(Debug, Clone)]
pub struct Sender {
    events: mpsc::UnboundedSender<Result<Event, RetrieveError>>,
}

impl Sender {
    /// An object appears.
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

    /// An object vanishes.
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

type Channel = mpsc::UnboundedReceiver<Result<Event, RetrieveError>>;

struct Source<K> {
    objects: Vec<Arc<[u8]>>,
    /// Each watch takes the channel and gives it back at its end, so that a
    /// resumed one goes on where the last one stopped.
    channel: Arc<Mutex<Option<Channel>>>,
    kind: PhantomData<fn() -> K>,
}

/// A retriever of a fixed list whose watch yields what is sent.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::retriever::source;
///
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("settings".into());
/// let (retriever, events) = source([config.clone()])?;
/// events.delete(&config)?;
/// # let _ = retriever;
/// # Ok::<_, kooper::BoxError>(())
/// ```
///
/// # Errors
/// When an object has no name or cannot be written as JSON.
pub fn source<K: Serialize + 'static>(
    objects: impl IntoIterator<Item = K>,
) -> Result<(impl Retriever<K>, Sender), MalformedObject> {
    let objects = objects
        .into_iter()
        .map(|object| Object::from_typed(&object).map(|object| object.json().as_ref().into()))
        .collect::<Result<_, _>>()?;
    let (events, channel) = mpsc::unbounded_channel();
    Ok((
        Source { objects, channel: Arc::new(Mutex::new(Some(channel))), kind: PhantomData::<fn() -> K> },
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
    source(objects).map(|(retriever, _)| retriever)
}

impl<K: 'static> Retriever<K> for Source<K> {
    fn list(&self, _: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send {
        let objects = self.objects.iter().map(|json| Object::parse(json)).collect();
        std::future::ready(Ok(Page { objects, version: "1".to_owned(), continue_token: None }))
    }

    fn watch(
        &self,
        _: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send
    {
        let lease = Lease { channel: lock(&self.channel).take(), home: self.channel.clone() };
        std::future::ready(Ok(stream::unfold(lease, |mut lease| async move {
            let event = match &mut lease.channel {
                Some(channel) => channel.recv().await,
                None => None,
            };
            match event {
                Some(event) => Some((event, lease)),
                None => std::future::pending().await,
            }
        })))
    }
}

struct Lease {
    channel: Option<Channel>,
    home: Arc<Mutex<Option<Channel>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        *lock(&self.home) = self.channel.take();
    }
}

fn lock(channel: &Mutex<Option<Channel>>) -> std::sync::MutexGuard<'_, Option<Channel>> {
    channel.lock().unwrap_or_else(PoisonError::into_inner)
}
