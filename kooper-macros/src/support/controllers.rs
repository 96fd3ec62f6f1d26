//! The controllers that an attribute of a test names.

use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{Lit, Path};

use super::text::text;

/// Returns `true` if a controller is among these. Paths are compared as text.
pub(crate) fn is_listed(controllers: &[Path], controller: &Path) -> bool {
    let name = text(controller);
    controllers.iter().any(|other| text(other) == name)
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
