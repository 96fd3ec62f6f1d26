//! The parser of the attribute.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Type, TypePath};

use crate::controller::args::Args;
use crate::controller::key::Table;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::types::resource_of;

/// Returns the error for a token in the place of a key, with the key that was meant.
pub(crate) type Stray = fn(ParseStream<'_>) -> Option<(&'static str, syn::Error)>;

/// Parses the tokens of an attribute with these keys. Entries that cannot be parsed are noted and skipped.
pub(crate) fn parse(keys: &Table<Args>, stray: Stray, tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let read = |input: ParseStream<'_>| {
        args.entries = keys.read(input, &mut args, errors, stray);
        Ok(())
    };
    if let Err(error) = read.parse2(tokens) {
        errors.push(error);
    }
    args
}

/// The error for a kind in the place of a key.
pub(crate) fn lone_kind(input: ParseStream<'_>) -> Option<(&'static str, syn::Error)> {
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

/// The error for a kind in the attribute of a task, with a key or without one.
pub(crate) fn kind_of_task(input: ParseStream<'_>) -> Option<(&'static str, syn::Error)> {
    let word = input.fork().call(Ident::parse_any).ok();
    let names_kind = word.is_some_and(|word| word == "resource") || lone_kind(input).is_some();
    let text = || message!("a task has no kind: remove this, and take a `Reader<T>` to read objects");
    names_kind.then(|| ("", syn::Error::new(input.span(), text())))
}
