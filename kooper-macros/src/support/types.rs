//! Properties of a type that its tokens show.

use syn::{GenericArgument, PathArguments, PathSegment, Type};

use crate::support::text::text;

/// The objects that a `Reader` reads, according to its tokens.
#[derive(Clone)]
pub(crate) struct ReaderTarget {
    pub(crate) kind: Type,
    pub(crate) metadata_only: bool,
}

impl ReaderTarget {
    /// The parameter of the `Reader`.
    pub(crate) fn parameter(&self) -> String {
        let kind = text(&self.kind);
        if self.metadata_only { format!("PartialObjectMeta<{kind}>") } else { kind }
    }
}

/// The `resource` setting for the object that a handler takes in its `Arc`.
pub(crate) fn resource_of(kind: &Type) -> String {
    let inner = match plain(kind) {
        Type::Path(path) => path.path.segments.last().filter(|last| last.ident == "PartialObjectMeta").and_then(inside),
        _ => None,
    };
    match inner {
        Some(kind) => format!("resource = {}, metadata_only", text(kind)),
        None => format!("resource = {}", text(kind)),
    }
}

/// The first type between the `<…>` of a path's segment.
fn inside(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

/// The objects of an argument that is a `Reader<…>` without a subset; `None` for others.
pub(crate) fn reader(argument: &Type) -> Option<ReaderTarget> {
    let of = |segment: &PathSegment, name: &str| match &segment.arguments {
        PathArguments::AngleBracketed(list) if segment.ident == name && list.args.len() == 1 => {
            inside(segment).cloned()
        }
        _ => None,
    };
    let kind = of(last_segment(argument)?, "Reader")?;
    let metadata = last_segment(&kind).and_then(|segment| of(segment, "PartialObjectMeta"));
    let metadata_only = metadata.is_some();
    Some(ReaderTarget { kind: metadata.unwrap_or(kind), metadata_only })
}

/// The type in `Settings<…>`.
pub(crate) fn settings(argument: &Type) -> Option<&Type> {
    last_segment(argument).filter(|last| last.ident == "Settings").and_then(inside)
}

/// Returns `true` for `Children<…>`, and not for a type of the user's with that name alone.
pub(crate) fn is_children(argument: &Type) -> bool {
    last_segment(argument).is_some_and(|last| last.ident == "Children" && inside(last).is_some())
}

/// A type without the invisible groups that a `macro_rules!` puts around it.
pub(crate) fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        ty => ty,
    }
}

/// The type in `Arc<…>`, or after `&`, if it has a name.
pub(crate) fn shared(argument: &Type) -> Option<&Type> {
    let shared = match plain(argument) {
        Type::Reference(reference) => Some(shared(&reference.elem).unwrap_or(&reference.elem)),
        Type::Path(path) => path.path.segments.last().filter(|last| last.ident == "Arc").and_then(inside),
        _ => None,
    };
    shared.filter(|kind| !matches!(plain(kind), Type::ImplTrait(_)))
}

/// The type in `Option<…>`.
pub(crate) fn optional(argument: &Type) -> Option<&Type> {
    last_segment(argument).filter(|last| last.ident == "Option").and_then(inside)
}

/// The last word of a type's path.
pub(crate) fn last_word(kind: &Type) -> String {
    last_segment(kind).map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn last_segment(kind: &Type) -> Option<&PathSegment> {
    match plain(kind) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}
