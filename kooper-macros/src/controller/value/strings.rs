//! Values that are strings of the shared grammars: names, selectors and rules.

use std::fmt::Display;

use kooper_grammar::access::Rule;
use kooper_grammar::name;
use kooper_grammar::selector::{FieldSelector, Selector};
use syn::{LitStr, parenthesized};

use super::{Value, checked};
use crate::support::spanned::Spanned;

pub(crate) fn label(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    one(value, name::label)
}

pub(crate) fn subdomain(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    one(value, name::subdomain)
}

pub(crate) fn finalizer(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    one(value, name::finalizer)
}

pub(crate) fn qualified(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    one(value, name::qualified)
}

pub(crate) fn labels(value: &Value<'_>) -> syn::Result<Spanned<Vec<LitStr>>> {
    several(value, name::label)
}

pub(crate) fn subdomains(value: &Value<'_>) -> syn::Result<Spanned<Vec<LitStr>>> {
    several(value, name::subdomain)
}

pub(crate) fn finalizers(value: &Value<'_>) -> syn::Result<Spanned<Vec<LitStr>>> {
    several(value, name::finalizer)
}

fn one<T, E: Display>(value: &Value<'_>, read: fn(&str) -> Result<T, E>) -> syn::Result<Spanned<LitStr>> {
    let text: LitStr = value.next()?;
    checked(&text, read)?;
    let span = text.span();
    Ok(value.spanned(text, span))
}

fn several<T, E: Display>(value: &Value<'_>, read: fn(&str) -> Result<T, E>) -> syn::Result<Spanned<Vec<LitStr>>> {
    value.set(|input| {
        let text: LitStr = value.next_in(input)?;
        checked(&text, read)?;
        Ok(text)
    })
}

pub(crate) fn label_selector(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    selector(value, |text| Selector::parse(text).map(|selector| selector.is_empty()))
}

pub(crate) fn field_selector(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    selector(value, |text| FieldSelector::parse(text).map(|selector| selector.is_empty()))
}

/// A selector that is not empty; `read` returns whether it is.
fn selector<E: Display>(value: &Value<'_>, read: impl Fn(&str) -> Result<bool, E>) -> syn::Result<Spanned<LitStr>> {
    let text: LitStr = value.next()?;
    let span = text.span();
    if checked(&text, read)? { Err(value.wrong(span)) } else { Ok(value.spanned(text, span)) }
}

pub(crate) fn rules(value: &Value<'_>) -> syn::Result<Spanned<Vec<Rule>>> {
    let content;
    let parentheses = parenthesized!(content in value.input);
    let rules = value.elements(&content, |input| checked(&value.next_in(input)?, Rule::parse))?;
    Ok(value.spanned(rules, parentheses.span.join()))
}
