//! The attribute as it was written: each key with its value, read but not yet compared.

use proc_macro2::{Ident, Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Type, TypePath};

use crate::controller::key::Entry;
use crate::controller::keys::CONTROLLER;
use crate::controller::setting::Setting;
use crate::controller::types::resource_of;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The values of all keys that were given and could be read.
#[derive(Default)]
pub(crate) struct Args {
    /// Those that become calls of the builder as they are.
    pub(crate) settings: Vec<Setting>,

    // Those that are compared with others, or are not calls.
    pub(crate) resource: Option<Spanned<Resource>>,
    pub(crate) name: Option<Spanned<LitStr>>,
    /// Where `changed` has the status.
    pub(crate) status: Option<Span>,
    pub(crate) cleanup: Option<Spanned<Path>>,
    pub(crate) finalizer: Option<Spanned<LitStr>>,
    pub(crate) on_leave: Option<Spanned<()>>,
    pub(crate) former_names: Vec<LitStr>,
    pub(crate) former_finalizers: Option<Spanned<Vec<LitStr>>>,
    /// Where `leader_election` has the name of its Lease.
    pub(crate) lease: Option<Span>,
    pub(crate) main: Option<Spanned<()>>,
    pub(crate) type_name: Option<Spanned<Ident>>,
    pub(crate) krate: Option<Spanned<Path>>,

    /// What stands in the attribute, read or not.
    pub(crate) entries: Vec<Entry>,
}

/// What a controller retrieves.
#[derive(Clone)]
pub(crate) enum Resource {
    /// One kind, for a handler of that kind.
    One(Box<Type>),
    /// A list, for a generic handler.
    Each(Vec<Type>),
}

impl Args {
    /// Reads the attribute's tokens. What can't be read is noted and passed over.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let read = |input: ParseStream<'_>| {
            args.entries = CONTROLLER.read(input, &mut args, errors, lone_kind);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        }
        args
    }

    /// Whether a key stands in the attribute, with whatever value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.key(name).is_some()
    }

    /// Where a key stands in the attribute, with whatever value.
    pub(crate) fn key(&self, name: &str) -> Option<Span> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.key == Some(name)).and_then(|entry| entry.word.as_ref()).map(Ident::span)
    }

    /// Whether the user tried to write a key, under whatever name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.meant == Some(name))
    }

    /// Whether there is a list of kinds.
    pub(crate) fn lists_kinds(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| matches!(resource.value, Resource::Each(_)))
    }
}

/// The error for a kind that stands where a key belongs, and nothing with it.
fn lone_kind(input: ParseStream<'_>) -> Option<(&'static str, syn::Error)> {
    let ahead = input.fork();
    let kind: TypePath = ahead.parse().ok()?;
    let last = kind.path.segments.last()?.ident.to_string();
    if !(entries::ended(&ahead) && last.starts_with(char::is_uppercase)) {
        return None;
    }
    let kind = Type::Path(kind);
    let setting = resource_of(&kind);
    Some(("resource", Place::of(&kind).error(message!("a kind needs a key: write `{setting}`"))))
}
