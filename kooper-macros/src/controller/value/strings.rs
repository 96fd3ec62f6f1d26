//! Values that are strings of the shared grammars: names, selectors and rules.

use std::fmt::Display;

use kooper_grammar::access::Rule;
use kooper_grammar::cron::Schedule;
use kooper_grammar::name;
use kooper_grammar::selector::{FieldSelector, Selector};
use syn::{LitStr, parenthesized};

use super::{Value, checked, constants};
use crate::controller::setting::LiteralOrConstant;
use crate::support::spanned::Spanned;

pub(crate) fn label(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    one(value, name::label)
}

pub(crate) fn label_or_constant(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    one_or_constant(value, |text| checked(text, name::label).map(drop))
}

pub(crate) fn subdomain(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    one(value, name::subdomain)
}

pub(crate) fn finalizer(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    one_or_constant(value, |text| checked(text, name::finalizer).map(drop))
}

pub(crate) fn qualified(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    one_or_constant(value, |text| checked(text, name::qualified).map(drop))
}

pub(crate) fn schedule(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    one_or_constant(value, |text| checked(text, Schedule::parse).map(drop))
}

pub(crate) fn labels(value: &Value<'_>) -> syn::Result<Spanned<Vec<LitStr>>> {
    several(value, name::label)
}

pub(crate) fn object_names(value: &Value<'_>) -> syn::Result<Spanned<Vec<LitStr>>> {
    several(value, name::object)
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

/// A string that `check` accepts, or a constant.
fn one_or_constant(
    value: &Value<'_>,
    check: impl FnOnce(&LitStr) -> syn::Result<()>,
) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    let (text, place) = constants::given(value, value.input, "Text", |input| {
        let text: LitStr = value.next_in(input)?;
        check(&text)?;
        let span = text.span();
        Ok((text, span))
    })?;
    Ok(value.spanned(text, place))
}

pub(crate) fn label_selector(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    let text: LitStr = value.next()?;
    check_labels(value, &text)?;
    let span = text.span();
    Ok(value.spanned(text, span))
}

pub(crate) fn labels_or_constant(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    one_or_constant(value, |text| check_labels(value, text))
}

pub(crate) fn fields_or_constant(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<LitStr>>> {
    one_or_constant(value, |text| {
        let is_empty = checked(text, |text| FieldSelector::parse(text).map(|selector| selector.is_empty()))?;
        if is_empty { Err(value.wrong(text.span())) } else { Ok(()) }
    })
}

fn check_labels(value: &Value<'_>, text: &LitStr) -> syn::Result<()> {
    let is_empty = checked(text, |text| Selector::parse(text).map(|selector| selector.is_empty()))?;
    if is_empty { Err(value.wrong(text.span())) } else { Ok(()) }
}

pub(crate) fn rules(value: &Value<'_>) -> syn::Result<Spanned<Vec<Rule>>> {
    let content;
    let parentheses = parenthesized!(content in value.input);
    let rules = value.elements(&content, |input| checked(&value.next_in(input)?, Rule::parse))?;
    Ok(value.spanned(rules, parentheses.span.join()))
}
