//! A validated controller, from which code is generated.

use std::time::Duration;

use proc_macro2::Ident;
use syn::{Generics, LitStr, Path, Type};

use crate::controller::setting::{Change, LiteralOrConstant, Setting};
use crate::controller::signature::Handler;
use crate::controller::slots::Slot;
use crate::support::crate_path::CratePath;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// Everything that the generated code needs.
pub(crate) struct Model<'a> {
    pub(crate) runtime: CratePath,
    pub(crate) handler: &'a Handler,
    pub(crate) kinds: Kinds<'a>,
    /// `true` if it watches some namespaces only, or has shards by namespace, which requires a namespaced kind.
    pub(crate) namespaced: bool,
    /// `true` if it installs CRDs, which requires a kind with a CRD.
    pub(crate) installs_crd: bool,
    pub(crate) children: Option<&'a Spanned<Vec<Slot>>>,
    /// Kinds of children whose slots were removed.
    pub(crate) previous_children: &'a [Type],
    /// `true` if the conditions of the children are written into the status.
    pub(crate) reports: bool,
    pub(crate) cleanup: Option<Cleanup<'a>>,
    /// The type of the program's own settings.
    pub(crate) own: Option<&'a Type>,
    /// The parts of an object whose changes trigger the handler.
    pub(crate) changed: &'a [Change],
    /// The settings that become calls of the builder unchanged.
    pub(crate) settings: &'a [Setting],
    pub(crate) main: bool,
}

/// The kinds of a controller, each with the name of its controller.
pub(crate) enum Kinds<'a> {
    /// One kind and a handler of that kind.
    One { kind: &'a Type, name: String },
    /// The times of a task, which has no kind.
    Task { times: Times<'a>, name: String },
    /// Several kinds and a handler that is generic over them.
    Each { parameter: &'a Ident, generics: &'a Generics, kinds: Vec<(&'a Type, String)> },
}

/// When a task runs.
pub(crate) enum Times<'a> {
    Every(&'a Spanned<LiteralOrConstant<Duration>>),
    Cron(&'a Spanned<LiteralOrConstant<LitStr>>),
}

impl Times<'_> {
    /// The place of the value.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Every(every) => every.place,
            Self::Cron(cron) => cron.place,
        }
    }
}

impl Kinds<'_> {
    /// The names of the controllers.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::One { name, .. } | Self::Task { name, .. } => vec![name],
            Self::Each { kinds, .. } => kinds.iter().map(|(_, name)| name.as_str()).collect(),
        }
    }
}

/// The cleanup before an object is deleted.
pub(crate) struct Cleanup<'a> {
    pub(crate) deletion: Deletion<'a>,
    pub(crate) finalizer: &'a LiteralOrConstant<LitStr>,
    /// Finalizers that it had before.
    pub(crate) previous: Option<&'a Spanned<Vec<LitStr>>>,
    /// Set if an object that no longer matches the selector is cleaned up, too.
    pub(crate) on_leave: Option<&'a Spanned<()>>,
}

/// The work before an object is deleted.
pub(crate) enum Deletion<'a> {
    /// A function is called.
    Cleanup(&'a Spanned<Path>),
    /// The children are deleted in order, and a function is called afterwards.
    Ordered { ordered: &'a Spanned<()>, cleanup: Option<&'a Spanned<Path>> },
}

impl Cleanup<'_> {
    /// Its calls of the builder that do not need the declared children.
    pub(crate) fn settings(&self) -> impl Iterator<Item = Setting> {
        let cleanup = match self.deletion {
            Deletion::Cleanup(path) => Some(path.clone().map(|path| (self.finalizer.clone(), path))),
            Deletion::Ordered { .. } => None,
        };
        let previous = self.previous.map(|previous| Setting::new("previous_finalizers", previous.clone()));
        let on_leave = self.on_leave.map(|on_leave| Setting::new("cleanup_on_leave", on_leave.clone()));
        [cleanup.map(|cleanup| Setting::new("cleanup", cleanup)), previous, on_leave].into_iter().flatten()
    }
}
