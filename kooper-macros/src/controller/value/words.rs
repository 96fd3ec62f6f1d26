//! Values that are words: flags, names of parts, and keywords.

use proc_macro2::Ident;
use syn::LitBool;
use syn::ext::IdentExt;

use super::Value;
use crate::controller::setting::{Change, FailureEvents};
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
pub(crate) fn failure_events(value: &Value<'_>) -> syn::Result<Spanned<FailureEvents>> {
    Ok(one_of(value, [("off", "Off"), ("brief", "Brief"), ("full", "Full")])?.map(FailureEvents))
}

/// One of these words, as a variant of a type of the runtime.
pub(crate) fn one_of<const N: usize>(
    value: &Value<'_>,
    words: [(&'static str, &'static str); N],
) -> syn::Result<Spanned<Ident>> {
    let wrong = value.wrong(value.input.span());
    for (word, variant) in words {
        if let Some(span) = value.word(word)? {
            return Ok(value.spanned(Ident::new(variant, span), span));
        }
    }
    Err(wrong)
}

/// Returns `true` for `namespace`.
pub(crate) fn uid_or_namespace(value: &Value<'_>) -> syn::Result<bool> {
    let wrong = value.wrong(value.input.span());
    if value.word("uid")?.is_some() {
        return Ok(false);
    }
    value.word("namespace")?.map(|_| true).ok_or(wrong)
}

pub(crate) fn only_cleanup(value: &Value<'_>) -> syn::Result<Spanned<()>> {
    only(value, "cleanup")
}

/// The word `own`. In quotes, it is the name of a namespace.
pub(crate) fn own(value: &Value<'_>) -> Option<Spanned<()>> {
    let fork = value.input.fork();
    fork.parse::<Ident>().ok().filter(|word| word == "own" && entries::ended(&fork))?;
    let own: Ident = value.input.parse().ok()?;
    Some(value.spanned((), own.span()))
}

pub(crate) fn only_ordered(value: &Value<'_>) -> syn::Result<Spanned<()>> {
    only(value, "ordered")
}

pub(crate) fn only_none(value: &Value<'_>) -> syn::Result<Spanned<()>> {
    only(value, "none")
}

fn only(value: &Value<'_>, word: &str) -> syn::Result<Spanned<()>> {
    let span = value.input.span();
    match value.word(word)? {
        Some(span) => Ok(value.spanned((), span)),
        None => Err(value.wrong(span)),
    }
}

pub(crate) fn changes(value: &Value<'_>) -> syn::Result<Spanned<Vec<Change>>> {
    let changes = value.set(|input| {
        let word = input.call(Ident::parse_any).map_err(|error| value.wrong(error.span()))?;
        let text = word.to_string();
        match CHANGES.iter().find(|(known, _)| *known == text) {
            Some(&(_, variant)) => Ok(Change { word, variant }),
            None => {
                let known = CHANGES.map(|(known, _)| known);
                let meant = suggest::meant(&text, &known, &[("spec", "generation")]);
                let text = suggest::unknown("part of an object", &text, meant, &known);
                Err(syn::Error::new(word.span(), text))
            }
        }
    })?;
    if let Some(any) = changes.value.iter().find(|change| change.word == "any")
        && changes.value.iter().any(|change| change.word != "any")
    {
        let text = message!("`any` includes all other parts: write `changed = [any]`, or remove `any`");
        value.note(any.word.span(), text);
    }
    Ok(changes)
}
