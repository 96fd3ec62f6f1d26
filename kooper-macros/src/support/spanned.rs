//! A value and where the user wrote it.

use proc_macro2::Span;

use crate::support::place::Place;

/// A value with the places of its key and of itself in the attribute.
#[derive(Clone, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    /// Where the key stands.
    pub(crate) key: Span,
    /// Where the value stands; the key's place when it has none.
    pub(crate) place: Place,
}

impl<T> Spanned<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: change(self.value), key: self.key, place: self.place }
    }
}
