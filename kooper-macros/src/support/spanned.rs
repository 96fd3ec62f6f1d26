//! A value and its place in the user's code.

use proc_macro2::Span;

use crate::support::place::Place;

/// A value with the places of its key and of itself in the attribute.
#[derive(Clone, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    /// The place of the key.
    pub(crate) key: Span,
    /// The place of the value; that of the key if it has no value.
    pub(crate) place: Place,
}

impl<T> Spanned<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: change(self.value), key: self.key, place: self.place }
    }
}
