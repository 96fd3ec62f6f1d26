//! The attribute as written: each key with its value, parsed but not yet compared.

use proc_macro2::{Ident, Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Type, TypePath};

use crate::controller::key::Entry;
use crate::controller::keys::CONTROLLER;
use crate::controller::objects::Read;
use crate::controller::setting::Setting;
use crate::controller::types::resource_of;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The values of all keys that could be parsed.
#[derive(Default)]
pub(crate) struct Args {
    /// The settings that become calls of the builder unchanged.
    pub(crate) settings: Vec<Setting>,

    // The keys that are compared with others, or are not calls.
    pub(crate) resource: Option<Spanned<Resource>>,
    pub(crate) name: Option<Spanned<LitStr>>,
    /// The place of the status in `changed`.
    pub(crate) status: Option<Span>,
    /// What `reads` has selections for.
    pub(crate) reads: Vec<Read>,
    pub(crate) cleanup: Option<Spanned<Path>>,
    pub(crate) finalizer: Option<Spanned<LitStr>>,
    pub(crate) on_leave: Option<Spanned<()>>,
    pub(crate) former_names: Vec<LitStr>,
    pub(crate) former_finalizers: Option<Spanned<Vec<LitStr>>>,
    /// The place of the Lease's name in `leader_election`.
    pub(crate) lease: Option<Span>,
    /// The type of the program's own settings.
    pub(crate) own: Option<Spanned<Type>>,
    pub(crate) main: Option<Spanned<()>>,
    pub(crate) type_name: Option<Spanned<Ident>>,
    pub(crate) krate: Option<Spanned<Path>>,

    /// All entries of the attribute, valid or not.
    pub(crate) entries: Vec<Entry>,
}

/// The kinds that a controller retrieves.
#[derive(Clone)]
pub(crate) enum Resource {
    /// One kind, for a handler of that kind.
    One(Box<Type>),
    /// A list, for a generic handler.
    Each(Vec<Type>),
}

impl Args {
    /// Parses the attribute's tokens. Entries that cannot be parsed are noted and skipped.
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

    /// Whether the attribute has a key, with any value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.key(name).is_some()
    }

    /// The place of a key in the attribute, with any value.
    pub(crate) fn key(&self, name: &str) -> Option<Span> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.key == Some(name)).and_then(|entry| entry.word.as_ref()).map(Ident::span)
    }

    /// Whether the user tried to write a key, even under another name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.meant == Some(name))
    }

    /// Whether there is a list of kinds.
    pub(crate) fn lists_kinds(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| matches!(resource.value, Resource::Each(_)))
    }
}

/// The error for a kind in the place of a key.
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
