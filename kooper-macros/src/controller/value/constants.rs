//! Values that are written out or are constants.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Ident, Token};

use super::{Value, paths};
use crate::controller::setting::{Constant, LiteralOrConstant};
use crate::support::place::Place;

/// The path of a constant of this type of the runtime, or a literal that `read` parses.
///
/// The name of a constant is in upper case, because a word in lower case is more likely to be a keyword of another key.
pub(super) fn given<T>(
    value: &Value<'_>,
    input: ParseStream<'_>,
    ty: &'static str,
    read: impl FnOnce(ParseStream<'_>) -> syn::Result<(T, Span)>,
) -> syn::Result<(LiteralOrConstant<T>, Place)> {
    if !input.peek(Ident::peek_any) && !input.peek(Token![::]) {
        let (literal, span) = read(input)?;
        return Ok((LiteralOrConstant::Literal(literal), span.into()));
    }
    let path = paths::next_path(value, input)?;
    let place = Place::of(&path);
    if path.segments.last().is_some_and(|last| is_name(&last.ident)) {
        Ok((LiteralOrConstant::Constant(Constant { path, ty }), place))
    } else {
        Err(value.wrong(place))
    }
}

/// Returns `true` for the name of a constant.
pub(crate) fn is_name(word: &Ident) -> bool {
    let name = word.to_string();
    name.contains(char::is_uppercase) && !name.contains(char::is_lowercase)
}
