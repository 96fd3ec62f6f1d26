//! The attribute as written: each key with its value, parsed but not yet compared.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{LitStr, Path, Type};

use crate::controller::key::Entry;
use crate::controller::setting::Setting;
use crate::support::spanned::Spanned;

/// The values of all keys that could be parsed.
#[derive(Default)]
pub(crate) struct Args {
    /// The settings that become calls of the builder unchanged.
    pub(crate) settings: Vec<Setting>,

    // The keys that are compared with others, or are not calls.
    pub(crate) resource: Option<Spanned<Type>>,
    pub(crate) name: Option<Spanned<LitStr>>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) type_name: Option<Spanned<Ident>>,
    pub(crate) krate: Option<Spanned<Path>>,

    /// All entries of the attribute, valid or not.
    pub(crate) entries: Vec<Entry>,
}

impl Args {
    /// The place of a key in the attribute, with any value.
    pub(crate) fn key(&self, name: &str) -> Option<Span> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.key == Some(name)).and_then(|entry| entry.word.as_ref()).map(Ident::span)
    }

    /// Returns `true` if the user tried to write a key, even under another name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.meant == Some(name))
    }

    /// The operation, if the attribute names it.
    pub(crate) fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.word == name)
    }
}

/// An operation.
#[derive(Clone)]
pub(crate) struct Operation {
    /// The word of the attribute.
    pub(crate) word: Ident,
    /// The name in the runtime.
    pub(crate) variant: &'static str,
}

impl ToTokens for Operation {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.word.to_tokens(tokens);
    }
}
