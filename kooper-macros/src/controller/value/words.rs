//! Values that are words: flags, names of parts, and keywords.

use kooper_grammar::field_path;
use kooper_grammar::suggest::nearest;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{LitBool, LitStr, Token};

use super::{Value, checked};
use crate::controller::setting::{Change, Variant};
use crate::support::entries;
use crate::support::errors::message;
use crate::support::spanned::Spanned;
use crate::support::suggest;

/// The parts of an object for `changed`, with their names in the runtime.
const CHANGES: [(&str, &str); 6] = [
    ("generation", "Generation"),
    ("labels", "Labels"),
    ("annotations", "Annotations"),
    ("finalizers", "Finalizers"),
    ("status", "Status"),
    ("any", "Any"),
];

pub(crate) fn flag(value: &Value<'_>) -> syn::Result<Spanned<()>> {
    Ok(value.spanned((), value.ident.span()))
}

pub(crate) fn only_false(value: &Value<'_>) -> syn::Result<Spanned<()>> {
    let LitBool { value: given, span } = value.next()?;
    if given { Err(value.wrong(span)) } else { Ok(value.spanned((), span)) }
}

pub(crate) fn ident(value: &Value<'_>) -> syn::Result<Spanned<Ident>> {
    let ident: Ident = value.next()?;
    let span = ident.span();
    Ok(value.spanned(ident, span))
}

/// The detail of Events about failed calls.
pub(crate) fn failure_events(value: &Value<'_>) -> syn::Result<Spanned<Variant>> {
    one_of(value, quote!(FailureEvents), [("off", "Off"), ("brief", "Brief"), ("full", "Full")])
}

/// One of these words, as a variant of this type of the runtime.
pub(crate) fn one_of<const N: usize>(
    value: &Value<'_>,
    of: TokenStream,
    words: [(&'static str, &'static str); N],
) -> syn::Result<Spanned<Variant>> {
    for (word, variant) in words {
        if let Some(span) = value.word(word)? {
            return Ok(value.spanned(Variant { of, name: Ident::new(variant, span) }, span));
        }
    }
    // Kubernetes' own words have a capital.
    let written = value.input.fork().parse::<Ident>().ok().map(|word| word.to_string());
    let meant = written.and_then(|word| nearest(&word, words.map(|(known, _)| known)));
    let example = meant.map(|meant| format!("{} = {meant}", value.name));
    Err(value.instead(value.input.span(), example.as_deref().unwrap_or(value.example)))
}

/// Returns `true` for `namespace`.
pub(crate) fn uid_or_namespace(value: &Value<'_>) -> syn::Result<bool> {
    let wrong = value.wrong(value.input.span());
    if value.word("uid")?.is_some() {
        return Ok(false);
    }
    value.word("namespace")?.map(|_| true).ok_or(wrong)
}

/// The word `own`. In quotes, it is the name of a namespace.
pub(crate) fn own(value: &Value<'_>) -> Option<Spanned<()>> {
    let fork = value.input.fork();
    fork.parse::<Ident>().ok().filter(|word| word == "own" && entries::ended(&fork))?;
    let own: Ident = value.input.parse().ok()?;
    Some(value.spanned((), own.span()))
}

pub(crate) fn only(value: &Value<'_>, word: &str) -> syn::Result<Spanned<()>> {
    let span = value.input.span();
    match value.word(word)? {
        Some(span) => Ok(value.spanned((), span)),
        None => Err(value.wrong(span)),
    }
}

pub(crate) fn changes(value: &Value<'_>) -> syn::Result<Spanned<Vec<Change>>> {
    let changes = value.set(|input| {
        if input.peek(LitStr) {
            let path: LitStr = input.parse()?;
            let text = path.value();
            if CHANGES.iter().any(|(known, _)| *known == text) {
                let text = message!("`{text}` is a keyword, not a path: write `{text}` without quotes");
                return Err(syn::Error::new(path.span(), text));
            }
            checked(&path, field_path::check)?;
            return Ok(Change::Field(path));
        }
        let word = input.call(Ident::parse_any).map_err(|error| value.wrong(error.span()))?;
        let text = word.to_string();
        if input.peek(Token![.]) {
            let text = message!("the path of a field is a string: write it in quotes, such as \"spec.replicas\"");
            return Err(syn::Error::new(word.span(), text));
        }
        match CHANGES.iter().find(|(known, _)| *known == text) {
            Some(&(_, variant)) => Ok(Change::Section(word, variant)),
            None => {
                let known = CHANGES.map(|(known, _)| known);
                let meant = suggest::meant(&text, &known, &[("generation", "spec")]);
                let text = suggest::unknown("part of an object", &text, meant, &known);
                Err(syn::Error::new(word.span(), text))
            }
        }
    })?;
    let mut words = changes.value.iter().filter_map(|change| match change {
        Change::Section(word, _) => Some(word),
        Change::Field(_) => None,
    });
    if let Some(any) = words.find(|word| *word == "any").filter(|_| changes.value.len() > 1) {
        let text = message!("`any` includes all other parts: write `changed = [any]`, or remove `any`");
        value.note(any.span(), text);
    }
    Ok(changes)
}
