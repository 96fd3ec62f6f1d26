//! What else wakes a controller: children, related objects, keys from outside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use serde::de::DeserializeOwned;

use super::Builder;
use crate::capability::Reader;
use crate::error;
use crate::extract::Backing;
use crate::key::ObjectKey;
use crate::kind::{Kind, KindInfo};
use crate::object::{DecodeError, Object};
use crate::plan::CacheId;

/// Keys from outside, until the controller takes them.
pub(crate) type KeyStream = Mutex<Option<BoxStream<'static, ObjectKey>>>;

/// The keys that an object stands for.
pub(crate) type MapKeys = Arc<dyn Fn(&Object) -> Result<Vec<ObjectKey>, DecodeError> + Send + Sync>;

/// Objects of another kind that wake the controller.
pub(crate) struct Relation {
    pub(crate) cache: CacheId,
    pub(crate) kind: KindInfo,
    /// By the owner reference where there is no map fn.
    pub(crate) map: Option<MakeMap>,
}

/// Makes a map fn for one controller.
type MakeMap = Box<dyn Fn(&Arc<Backing>) -> MapKeys + Send + Sync>;

/// From an object to the keys that it wakes: `fn(&T) -> …` or
/// `fn(&T, &Reader<K>) -> …`, where `…` iterates over [`ObjectKey`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not map a `{T}` to keys of `{K}`",
    label = "not a fn for `watches`",
    note = "write `fn name(object: &{T}) -> impl IntoIterator<Item = ObjectKey>`; a second argument `&Reader<{K}>` looks into the cache"
)]
pub trait MapFn<T, K, Args>: Send + Sync + 'static {
    /// The keys.
    fn keys(&self, object: &T, reader: &Reader<K>) -> Vec<ObjectKey>;

    /// Whether it looks into the cache.
    const READS: bool;
}

/// A fn of one reference whose result may borrow from it.
pub trait MapOne<'a, T: 'a> {
    /// What it returns.
    type Keys: IntoIterator<Item = ObjectKey>;

    /// Calls it.
    fn keys_of(&self, object: &'a T) -> Self::Keys;
}

/// A fn of two references whose result may borrow from them.
pub trait MapTwo<'a, T: 'a, K: 'a> {
    /// What it returns.
    type Keys: IntoIterator<Item = ObjectKey>;

    /// Calls it.
    fn keys_of(&self, object: &'a T, reader: &'a Reader<K>) -> Self::Keys;
}

impl<'a, T: 'a, I: IntoIterator<Item = ObjectKey>, F: Fn(&'a T) -> I> MapOne<'a, T> for F {
    type Keys = I;

    fn keys_of(&self, object: &'a T) -> I {
        self(object)
    }
}

impl<'a, T: 'a, K: 'a, I: IntoIterator<Item = ObjectKey>, F: Fn(&'a T, &'a Reader<K>) -> I> MapTwo<'a, T, K> for F {
    type Keys = I;

    fn keys_of(&self, object: &'a T, reader: &'a Reader<K>) -> I {
        self(object, reader)
    }
}

#[diagnostic::do_not_recommend]
impl<T: 'static, K: 'static, F> MapFn<T, K, (T,)> for F
where
    F: for<'a> MapOne<'a, T> + Send + Sync + 'static,
{
    const READS: bool = false;

    fn keys(&self, object: &T, _: &Reader<K>) -> Vec<ObjectKey> {
        self.keys_of(object).into_iter().collect()
    }
}

#[diagnostic::do_not_recommend]
impl<T: 'static, K: 'static, F> MapFn<T, K, (T, K)> for F
where
    F: for<'a> MapTwo<'a, T, K> + Send + Sync + 'static,
{
    const READS: bool = true;

    fn keys(&self, object: &T, reader: &Reader<K>) -> Vec<ObjectKey> {
        self.keys_of(object, reader).into_iter().collect()
    }
}

/// Keys from outside: any stream of [`ObjectKey`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no stream of keys",
    label = "not a stream of `ObjectKey`",
    note = "return `impl Stream<Item = ObjectKey> + Send + 'static`"
)]
pub trait Source: Send + 'static {
    /// The keys.
    fn keys(self) -> BoxStream<'static, ObjectKey>;
}

#[diagnostic::do_not_recommend]
impl<St: Stream<Item = ObjectKey> + Send + 'static> Source for St {
    fn keys(self) -> BoxStream<'static, ObjectKey> {
        self.boxed()
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Objects of the kind `T` whose controller owner is one of ours wake
    /// their owner.
    pub fn owns<T: Kind>(mut self) -> Self {
        self.common.plan.owns::<T>(format!("owns = [{}]", T::kind(&())));
        self
    }

    /// Objects of the kind `T` wake the keys that `map` names for them, their
    /// old version and their new one.
    pub fn watches<T, F, Args>(mut self, map: F) -> Self
    where
        T: Kind,
        F: MapFn<T, K, Args>,
    {
        let kind = KindInfo::of::<T>();
        self.common.plan.cache::<T>(format!("watches = [{}]", kind.kind));
        if F::READS {
            self.common.plan.cache::<K>(format!("watches = [{} => …]", kind.kind));
        }
        let map = Arc::new(map);
        let make = move |backing: &Arc<Backing>| -> MapKeys {
            let (map, reader) = (map.clone(), Reader::<K>::of(backing));
            Arc::new(move |object: &Object| {
                let decoded = object.decode::<T>()?;
                Ok(catch_unwind(AssertUnwindSafe(|| map.keys(&decoded, &reader))).unwrap_or_else(|panic| {
                    let text = error::panic_text(&*panic);
                    tracing::error!(object = %object.key(), "the map fn of `watches` panicked: {text}; no key is woken by this object");
                    Vec::new()
                }))
            })
        };
        self.common.relations.push(Relation { cache: CacheId::of::<T>(), kind, map: Some(Box::new(make)) });
        self
    }

    /// Keys from outside: each wakes the handler with the reason
    /// [`External`](crate::reason::Reason::External), if its object exists.
    pub fn source<St: Source>(mut self, keys: St) -> Self {
        self.common.sources.push(Mutex::new(Some(keys.keys())));
        self
    }

    /// Keys from outside, of a stream that is made when the controller runs,
    /// so that it may begin with what needs a runtime.
    pub fn source_from<F, St>(self, make: F) -> Self
    where
        F: FnOnce() -> St + Send + 'static,
        St: Source,
    {
        self.source(stream::once(async move { make().keys() }).flatten())
    }
}
