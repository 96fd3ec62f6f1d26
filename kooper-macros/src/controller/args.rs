//! The attribute as written: each key with its value, parsed but not yet compared.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use syn::{LitStr, Path, Type};

use crate::controller::key::Entry;
use crate::controller::resource::Resource;
use crate::controller::setting::{Change, LiteralOrConstant, Setting};
use crate::controller::slots::Slot;
use crate::support::spanned::Spanned;
use crate::support::types::ReaderTarget;

/// The values of all keys that could be parsed.
#[derive(Default)]
pub(crate) struct Args {
    /// The settings that become calls of the builder unchanged.
    pub(crate) settings: Vec<Setting>,

    // The keys that are compared with others, or are not calls.
    pub(crate) resource: Option<Spanned<Resource>>,
    /// The interval of a task.
    pub(crate) every: Option<Spanned<LiteralOrConstant<Duration>>>,
    /// The schedule of a task.
    pub(crate) cron: Option<Spanned<LiteralOrConstant<LitStr>>>,
    /// The operations of a webhook.
    pub(crate) operations: Vec<Ident>,
    pub(crate) name: Option<Spanned<LitStr>>,
    /// The names of annotations in `pause` and `reconcile_now`.
    pub(crate) annotations: Vec<String>,
    /// The parts of an object in `changed`.
    pub(crate) changed: Vec<Change>,
    /// The readers to which the selections of `reads` apply.
    pub(crate) reads: Vec<ReaderTarget>,
    pub(crate) children: Option<Spanned<Vec<Slot>>>,
    /// The word `ordered` of `deletion`.
    pub(crate) deletion: Option<Spanned<()>>,
    /// The word `none` of the key `status`.
    pub(crate) no_status: Option<Spanned<()>>,
    pub(crate) cleanup: Option<Spanned<Path>>,
    pub(crate) finalizer: Option<Spanned<LiteralOrConstant<LitStr>>>,
    pub(crate) on_leave: Option<Spanned<()>>,
    pub(crate) previous_names: Vec<LitStr>,
    pub(crate) previous_finalizers: Option<Spanned<Vec<LitStr>>>,
    /// Kinds of children whose slots were removed.
    pub(crate) previous_children: Option<Spanned<Vec<Type>>>,
    /// The place of the Lease's name in `leader_election` or `shards`.
    pub(crate) lease: Option<Span>,
    /// The shards of objects follow from their namespaces.
    pub(crate) by_namespace: bool,
    /// The type of the program's own settings.
    pub(crate) own: Option<Spanned<Type>>,
    pub(crate) main: Option<Spanned<()>>,
    pub(crate) type_name: Option<Spanned<Ident>>,
    pub(crate) krate: Option<Spanned<Path>>,

    /// All entries of the attribute, valid or not.
    pub(crate) entries: Vec<Entry>,
}

impl Args {
    /// Returns `true` if the attribute has a key, with any value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.key(name).is_some()
    }

    /// The place of a key in the attribute, with any value.
    pub(crate) fn key(&self, name: &str) -> Option<Span> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.key == Some(name)).and_then(|entry| entry.word.as_ref()).map(Ident::span)
    }

    /// Returns `true` if a value has become a call of this method.
    pub(crate) fn calls(&self, method: &str) -> bool {
        self.settings.iter().any(|setting| setting.method == method)
    }

    /// Returns `true` if the user tried to write a key, even under another name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.meant == Some(name))
    }

    /// The operation, if the attribute names it.
    pub(crate) fn operation(&self, name: &str) -> Option<&Ident> {
        self.operations.iter().find(|word| *word == name)
    }

    /// The kind, if `resource` names a single one.
    pub(crate) fn kind(&self) -> Option<&Type> {
        match self.resource.as_ref().map(|resource| &resource.value) {
            Some(Resource::One(kind)) => Some(kind),
            _ => None,
        }
    }

    /// Returns `true` if `resource` is a list of kinds.
    pub(crate) fn lists_kinds(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| matches!(resource.value, Resource::Each(_)))
    }
}
