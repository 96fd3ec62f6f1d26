//! A controller that holds: what the checks leave for emitting.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Generics, Type, Visibility};

use crate::controller::args::Args;
use crate::support::crate_path::CratePath;

/// Everything that emitting needs.
pub(crate) struct Model<'a> {
    pub(crate) runtime: CratePath,
    /// The fn and the visibility that its type shares.
    pub(crate) handler: &'a Ident,
    pub(crate) vis: &'a Visibility,
    /// The `#[cfg]`s below the attribute: without the fn, nothing that is generated is there.
    pub(crate) conditions: &'a TokenStream,
    pub(crate) type_name: Ident,
    pub(crate) kinds: Kinds<'a>,
    pub(crate) arguments: &'a [Type],
    pub(crate) output: Option<&'a Type>,
    /// The keys that become one setter each.
    pub(crate) args: &'a Args,
    /// The namespaces of either key, with the key's place.
    pub(crate) namespaces: Option<(Vec<String>, Span)>,
    pub(crate) main: bool,
}

/// The kinds of a controller, each with the name of its own.
pub(crate) enum Kinds<'a> {
    /// One kind and a handler of that kind.
    One { kind: &'a Type, name: String },
    /// Several kinds and a handler that is generic over them.
    Each { parameter: &'a Ident, generics: &'a Generics, kinds: Vec<(&'a Type, String)> },
}

impl Kinds<'_> {
    /// The names of the controllers.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::One { name, .. } => vec![name],
            Self::Each { kinds, .. } => kinds.iter().map(|(_, name)| name.as_str()).collect(),
        }
    }
}
