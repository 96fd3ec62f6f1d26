//! From the wire into the store: lists, watches, caches.

pub(crate) mod cache_id;
pub(crate) mod informer;
pub mod retriever;
mod silence;
pub(crate) mod store;
