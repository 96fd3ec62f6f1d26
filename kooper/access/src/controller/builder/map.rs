//! Maps objects of another kind to keys of the controller's own.

use kooper_runtime::ObjectKey;

use super::by_reference::{ByReference, FromObject};
use crate::capability::Reader;

/// Maps an object to the keys to enqueue: `fn(&T) -> …` or
/// `fn(&T, &Reader<K>) -> …`, where `…` iterates over [`ObjectKey`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not map a `{T}` to keys of `{K}`",
    label = "not a function for `watches`",
    note = "write `fn name(object: &{T}) -> impl IntoIterator<Item = ObjectKey>`; a second argument `&Reader<{K}>` reads the cache"
)]
pub trait MapFn<T, K, Args>: Send + Sync + 'static {
    /// The keys.
    fn keys(&self, object: &T, reader: &Reader<K>) -> Vec<ObjectKey>;

    /// `true` if the function reads the cache.
    const READS: bool;
}

/// A function of one reference whose result may borrow from it.
pub trait MapOne<'a, T: 'a> {
    /// Its return type.
    type Keys: IntoIterator<Item = ObjectKey>;

    /// Calls it.
    fn keys_of(&self, object: &'a T) -> Self::Keys;
}

/// A function of two references whose result may borrow from them.
pub trait MapTwo<'a, T: 'a, K: 'a> {
    /// Its return type.
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

// Recommended, so that the message names the argument that is wrong.
impl<T: 'static, K: 'static, F, Args> MapFn<T, K, Args> for F
where
    F: MapSignature<Args> + Send + Sync + 'static,
    Args: MapArguments<T, K>,
{
    const READS: bool = Args::READS;

    fn keys(&self, object: &T, reader: &Reader<K>) -> Vec<ObjectKey> {
        self.call_with(Args::arguments(object, reader))
    }
}

/// A function that returns keys, with any arguments.
pub trait MapSignature<Args: ByReference> {
    /// Calls it.
    fn call_with(&self, arguments: Args::References<'_>) -> Vec<ObjectKey>;
}

#[diagnostic::do_not_recommend]
impl<F, A: 'static> MapSignature<(A,)> for F
where
    F: for<'a> MapOne<'a, A>,
{
    fn call_with(&self, (object,): (&A,)) -> Vec<ObjectKey> {
        self.keys_of(object).into_iter().collect()
    }
}

#[diagnostic::do_not_recommend]
impl<F, A: 'static, B: 'static> MapSignature<(A, B)> for F
where
    F: for<'a> MapTwo<'a, A, B>,
{
    fn call_with(&self, (object, reader): (&A, &Reader<B>)) -> Vec<ObjectKey> {
        self.keys_of(object, reader).into_iter().collect()
    }
}

impl<A, B> ByReference for (A, B) {
    type References<'a>
        = (&'a A, &'a Reader<B>)
    where
        Self: 'a;
}

/// The arguments that a function from `T` to keys of `K` is called with.
pub trait MapArguments<T, K>: ByReference {
    /// `true` if the cache is one of the arguments.
    const READS: bool;

    /// The arguments.
    fn arguments<'a>(object: &'a T, reader: &'a Reader<K>) -> Self::References<'a>;
}

impl<T, K, A: FromObject<T>> MapArguments<T, K> for (A,) {
    const READS: bool = false;

    fn arguments<'a>(object: &'a T, _: &'a Reader<K>) -> (&'a A,) {
        (A::from_object(object),)
    }
}

impl<T, K, A: FromObject<T>, B: CachedKind<K>> MapArguments<T, K> for (A, B) {
    const READS: bool = true;

    fn arguments<'a>(object: &'a T, reader: &'a Reader<K>) -> (&'a A, &'a Reader<B>) {
        (A::from_object(object), B::reader(reader))
    }
}

/// The kind whose cache a map function reads: the controller's own.
#[diagnostic::on_unimplemented(
    message = "this function takes `&Reader<{Self}>`, but is called with `&Reader<{K}>`",
    label = "takes `&Reader<{Self}>`",
    note = "write `&Reader<{K}>` as the second argument, or remove it"
)]
pub trait CachedKind<K>: Sized {
    /// The reader.
    fn reader(reader: &Reader<K>) -> &Reader<Self>;
}

impl<K> CachedKind<K> for K {
    fn reader(reader: &Reader<K>) -> &Reader<K> {
        reader
    }
}
