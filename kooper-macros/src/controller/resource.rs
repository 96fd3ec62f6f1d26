//! The kinds that a controller retrieves: `Pod`, `[Pod, Node]` or `(Pod, optional)`.

use proc_macro2::Ident;
use syn::parse::ParseStream;
use syn::{Token, Type, parenthesized, token};

use crate::controller::setting::Setting;
use crate::controller::value::Value;
use crate::controller::value::paths::next_kind;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The kinds that a controller retrieves.
#[derive(Clone)]
pub(crate) enum Resource {
    /// One kind, for a handler of that kind.
    One(Box<Type>),
    /// A list, for a generic handler.
    Each(Vec<Type>),
}

/// The kinds, and the options that follow them.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<(Spanned<Resource>, Vec<Setting>)> {
    if !value.input.peek(token::Paren) {
        return Ok((retrieved(value, value.input)?, Vec::new()));
    }
    let content;
    let parentheses = parenthesized!(content in value.input);
    let resource = retrieved(value, &content)?;
    let wrong = |span| {
        let text = message!(
            "expected `optional` or `secret` after the kind: write `resource(Pod, optional)`, or `resource = Pod`"
        );
        syn::Error::new(span, text)
    };
    let _: Token![,] = content.parse().map_err(|_| wrong(parentheses.span.join()))?;
    let mut options: Vec<Setting> = Vec::new();
    while options.is_empty() || !content.is_empty() {
        let span = content.span();
        let word: Ident = content.parse().map_err(|_| wrong(span))?;
        let Some(option) = ["optional", "secret"].into_iter().find(|option| word == option) else {
            return Err(wrong(word.span()));
        };
        if options.iter().any(|known| known.method == option) {
            return Err(syn::Error::new(word.span(), message!("`{option}` is given twice: write it once")));
        }
        let place = word.span().into();
        options.push(Setting::new(option, Spanned { value: (), key: word.span(), place }));
        let comma = content.span();
        if !content.is_empty() {
            let _: Token![,] = content.parse().map_err(|_| wrong(comma))?;
        }
    }
    Ok((resource, options))
}

fn retrieved(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Spanned<Resource>> {
    if input.peek(token::Bracket) {
        return Ok(value.list_in(input, |input| next_kind(value, input))?.map(Resource::Each));
    }
    let kind = next_kind(value, input)?;
    let place = Place::of(&kind);
    Ok(value.spanned(Resource::One(Box::new(kind)), place))
}
