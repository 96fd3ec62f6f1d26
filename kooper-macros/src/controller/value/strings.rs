//! Values that are strings of the shared grammars: names, selectors and rules.

use std::fmt::Display;

use kooper_grammar::access::Rule;
use kooper_grammar::name;
use kooper_grammar::selector::{FieldSelector, Selector};
use syn::{LitStr, parenthesized};

use super::{Value, checked};
use crate::support::spanned::Spanned;

impl Value<'_> {
    pub(crate) fn label(&self) -> syn::Result<Spanned<LitStr>> {
        self.one(name::label)
    }

    pub(crate) fn subdomain(&self) -> syn::Result<Spanned<LitStr>> {
        self.one(name::subdomain)
    }

    pub(crate) fn finalizer(&self) -> syn::Result<Spanned<LitStr>> {
        self.one(name::finalizer)
    }

    pub(crate) fn labels(&self) -> syn::Result<Spanned<Vec<LitStr>>> {
        self.several(name::label)
    }

    pub(crate) fn subdomains(&self) -> syn::Result<Spanned<Vec<LitStr>>> {
        self.several(name::subdomain)
    }

    pub(crate) fn finalizers(&self) -> syn::Result<Spanned<Vec<LitStr>>> {
        self.several(name::finalizer)
    }

    fn one<T, E: Display>(&self, read: fn(&str) -> Result<T, E>) -> syn::Result<Spanned<LitStr>> {
        let text: LitStr = self.next()?;
        checked(&text, read)?;
        let span = text.span();
        Ok(self.spanned(text, span))
    }

    fn several<T, E: Display>(&self, read: fn(&str) -> Result<T, E>) -> syn::Result<Spanned<Vec<LitStr>>> {
        self.set(|input| {
            let text: LitStr = self.next_in(input)?;
            checked(&text, read)?;
            Ok(text)
        })
    }

    pub(crate) fn label_selector(&self) -> syn::Result<Spanned<LitStr>> {
        self.selector(|text| Selector::parse(text).map(|selector| selector.is_empty()))
    }

    pub(crate) fn field_selector(&self) -> syn::Result<Spanned<LitStr>> {
        self.selector(|text| FieldSelector::parse(text).map(|selector| selector.is_empty()))
    }

    /// A selector that is not empty; `read` returns whether it is.
    fn selector<E: Display>(&self, read: impl Fn(&str) -> Result<bool, E>) -> syn::Result<Spanned<LitStr>> {
        let text: LitStr = self.next()?;
        let span = text.span();
        if checked(&text, read)? { Err(self.wrong(span)) } else { Ok(self.spanned(text, span)) }
    }

    pub(crate) fn rules(&self) -> syn::Result<Spanned<Vec<Rule>>> {
        let content;
        let parentheses = parenthesized!(content in self.input);
        let rules = self.elements(&content, |input| checked(&self.next_in(input)?, Rule::parse))?;
        Ok(self.spanned(rules, parentheses.span.join()))
    }
}
