//! Values that are types, functions, and paths of files.

use quote::ToTokens;
use syn::parse::ParseStream;
use syn::{ExprClosure, LitStr, Pat, Path, PathArguments, Token, Type};

use super::Value;
use crate::controller::setting::{File, Function, Layer, Setting};
use crate::support::entries;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::spanned::Spanned;
use crate::support::text::text;
use crate::support::types::plain;

pub(crate) fn path(value: &Value<'_>) -> syn::Result<Spanned<Path>> {
    let path = next_path(value, value.input)?;
    let place = Place::of(&path);
    Ok(value.spanned(path, place))
}

/// A function: its path, or a closure.
pub(crate) fn function(value: &Value<'_>) -> syn::Result<Spanned<Function>> {
    let function = next_function(value, value.input)?;
    let place = Place::of(&function);
    Ok(value.spanned(function, place))
}

/// A call with a function of the object. The argument of a closure is inferred from the bound of `inferred`; one of a
/// named function is known.
pub(crate) fn called_with_object(
    value: &Value<'_>,
    inferred: &'static str,
    named: &'static str,
) -> syn::Result<Setting> {
    let function = function(value)?;
    Ok(Setting::new(if matches!(function.value, Function::Path(_)) { named } else { inferred }, function))
}

/// Functions, each once.
pub(crate) fn functions(value: &Value<'_>) -> syn::Result<Spanned<Vec<Function>>> {
    value.set(|input| next_function(value, input))
}

/// The paths of functions that make layers. A path may be listed several times.
pub(crate) fn layers(value: &Value<'_>) -> syn::Result<Spanned<Vec<Layer>>> {
    value.list(|input| next_path(value, input).map(Layer))
}

/// The paths of files, each once.
pub(crate) fn files(value: &Value<'_>) -> syn::Result<Spanned<Vec<File>>> {
    value.set(|input| {
        let path: LitStr = value.next_in(input)?;
        if path.value().is_empty() { Err(value.wrong(path.span())) } else { Ok(File(path)) }
    })
}

pub(crate) fn ty(value: &Value<'_>) -> syn::Result<Spanned<Type>> {
    let ty = next_kind(value, value.input)?;
    let place = Place::of(&ty);
    Ok(value.spanned(ty, place))
}

/// Types of kinds, each once.
pub(crate) fn kinds(value: &Value<'_>) -> syn::Result<Spanned<Vec<Type>>> {
    value.set(|input| next_kind(value, input))
}

/// The path of a function.
pub(crate) fn next_path(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Path> {
    let path: Path = value.next_in(input)?;
    if !entries::ended(input) {
        return Err(value.wrong(Place::of(&path)));
    }
    // In an expression, as which it is emitted, a lone `<` compares.
    let mut called = path.clone();
    let mut is_type = false;
    for segment in &mut called.segments {
        if let PathArguments::AngleBracketed(list) = &mut segment.arguments {
            is_type |= list.colon2_token.is_none();
            list.colon2_token.get_or_insert_default();
        }
    }
    if is_type {
        let called = text(&called);
        return Err(Place::of(&path).error(message!("type parameters follow a `::` here: write `{called}`")));
    }
    Ok(path)
}

/// The path of a function, or a closure.
pub(crate) fn next_function(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Function> {
    let is_closure = [input.peek(Token![|]), input.peek(Token![||]), input.peek(Token![move])].contains(&true);
    if !is_closure {
        return Ok(Function::Path(next_path(value, input)?));
    }
    let closure: ExprClosure = input.parse()?;
    let is_typed = closure.inputs.iter().all(|input| matches!(input, Pat::Type(_)));
    Ok(Function::Closure { tokens: closure.into_token_stream(), is_typed })
}

pub(crate) fn next_kind(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Type> {
    let kind: Type = value.next_in(input)?;
    match plain(&kind) {
        Type::Path(_) => Ok(kind),
        _ => Err(value.wrong(Place::of(&kind))),
    }
}
