//! The controllers that an attribute of a test names.

use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{Lit, Path};

use super::errors::{Errors, message};
use super::place::Place;
use super::text::text;

/// The controllers among the entries of an attribute, each once; paths are compared as text. `how` completes the message
/// about a second one: "listed" or "explored".
pub(crate) fn unique(entries: Vec<Option<Path>>, how: &str, errors: &mut Errors) -> Vec<Path> {
    let mut controllers: Vec<Path> = Vec::new();
    for controller in entries.into_iter().flatten() {
        let name = text(&controller);
        if controllers.iter().any(|other| text(other) == name) {
            errors.add(Place::of(&controller), message!("`{name}` is {how} twice: write it once"));
        } else {
            controllers.push(controller);
        }
    }
    controllers
}

/// A literal where a function is named: its place, and the name to write instead.
pub(crate) fn quoted(input: ParseStream<'_>) -> syn::Result<Option<(Span, String)>> {
    if input.fork().parse::<Lit>().is_err() {
        return Ok(None);
    }
    let literal = input.parse::<Lit>()?;
    let name = match &literal {
        Lit::Str(name) => name.value(),
        _ => "shops".to_owned(),
    };
    Ok(Some((literal.span(), name)))
}
