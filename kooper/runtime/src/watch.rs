//! From the wire into the store: lists, watches, caches.

pub(crate) mod blocking;
pub(crate) mod cache_id;
pub(crate) mod informer;
pub(crate) mod namespaces;
pub mod retriever;
pub(crate) mod selected;
pub(crate) mod selection;
mod silence;
pub(crate) mod store;
