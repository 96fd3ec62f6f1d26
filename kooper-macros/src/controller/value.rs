//! The values of keys: one parser for each form.

pub(crate) mod constants;
pub(crate) mod numbers;
pub(crate) mod paths;
pub(crate) mod strings;
pub(crate) mod words;

use std::cell::RefCell;
use std::fmt::Display;

use proc_macro2::{Delimiter, Group, Ident, Span};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{LitStr, bracketed, parenthesized, token};

use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::spanned::Spanned;
use crate::support::text::text;

/// The value of a key, not parsed yet.
pub(crate) struct Value<'a> {
    name: &'static str,
    form: &'static str,
    example: &'static str,
    ident: &'a Ident,
    pub(crate) input: ParseStream<'a>,
    /// Errors in a value that could be parsed.
    notes: RefCell<Vec<syn::Error>>,
}

impl<'a> Value<'a> {
    /// The value of the key with this name, form and example.
    pub(crate) fn new([name, form, example]: [&'static str; 3], ident: &'a Ident, input: ParseStream<'a>) -> Self {
        Self { name, form, example, ident, input, notes: RefCell::default() }
    }

    /// The error for a value that does not have the key's form.
    pub(crate) fn wrong(&self, place: impl Into<Place>) -> syn::Error {
        self.instead(place, self.example)
    }

    /// As [`wrong`](Self::wrong), with another example.
    fn instead(&self, place: impl Into<Place>, example: &str) -> syn::Error {
        let Self { name, form, .. } = self;
        place.into().error(message!("`{name}` takes {form}: write `{example}`"))
    }

    /// Notes an error in a value that could be parsed, so that it is still compared with others.
    pub(crate) fn note(&self, place: impl Into<Place>, text: String) {
        self.note_error(place.into().error(text));
    }

    /// As [`note`](Self::note), with an error of the parser.
    pub(crate) fn note_error(&self, error: syn::Error) {
        self.notes.borrow_mut().push(error);
    }

    /// The noted errors.
    pub(crate) fn check(self) -> syn::Result<()> {
        let mut errors = Errors::new();
        self.notes.into_inner().into_iter().for_each(|note| errors.push(note));
        errors.check()
    }

    pub(crate) fn spanned<T>(&self, value: T, place: impl Into<Place>) -> Spanned<T> {
        Spanned { value, key: self.ident.span(), place: place.into() }
    }

    fn next<T: Parse>(&self) -> syn::Result<T> {
        self.next_in(self.input)
    }

    fn next_in<T: Parse>(&self, input: ParseStream<'_>) -> syn::Result<T> {
        let span = input.span();
        input.parse().map_err(|_| self.wrong(span))
    }

    /// A keyword. One in quotes is an error with the advice to remove them.
    fn word(&self, word: &str) -> syn::Result<Option<Span>> {
        if let Ok(text) = self.input.fork().parse::<LitStr>()
            && text.value() == word
        {
            return Err(syn::Error::new(
                text.span(),
                message!("`{word}` is a keyword, not a string: write `{word}` without quotes"),
            ));
        }
        match self.input.fork().parse::<Ident>() {
            Ok(ident) if ident == word => {
                let ident: Ident = self.input.parse()?;
                Ok(Some(ident.span()))
            }
            _ => Ok(None),
        }
    }

    /// `[a, b]`, each once.
    pub(crate) fn set<T: ToTokens>(
        &self,
        element: impl Fn(ParseStream<'_>) -> syn::Result<T>,
    ) -> syn::Result<Spanned<Vec<T>>> {
        let list = self.list(element)?;
        let mut seen: Vec<String> = Vec::new();
        for element in &list.value {
            let written = text(element);
            if seen.contains(&written) {
                let shown = if written.starts_with('"') { written.clone() } else { format!("`{written}`") };
                self.note(Place::of(element), message!("{shown} is listed twice: write it once"));
            }
            seen.push(written);
        }
        Ok(list)
    }

    /// `[a, b]`
    fn list<T>(&self, element: impl Fn(ParseStream<'_>) -> syn::Result<T>) -> syn::Result<Spanned<Vec<T>>> {
        self.list_in(self.input, element)
    }

    /// The brackets of `[]`.
    pub(crate) fn empty_list(&self) -> syn::Result<Option<Span>> {
        match self.input.fork().parse::<Group>() {
            Ok(list) if list.delimiter() == Delimiter::Bracket && list.stream().is_empty() => {
                let list: Group = self.input.parse()?;
                Ok(Some(list.span()))
            }
            _ => Ok(None),
        }
    }

    /// `[a, b]`, with at least one element.
    pub(crate) fn list_in<T>(
        &self,
        input: ParseStream<'_>,
        element: impl Fn(ParseStream<'_>) -> syn::Result<T>,
    ) -> syn::Result<Spanned<Vec<T>>> {
        if !input.peek(token::Bracket) {
            return Err(self.wrong(input.span()));
        }
        let content;
        let brackets = bracketed!(content in input);
        let span = brackets.span.join();
        if content.is_empty() {
            return Err(self.wrong(span));
        }
        Ok(self.spanned(self.elements(&content, element)?, span))
    }

    /// `(a, b)`
    fn pair<T>(&self, element: impl Fn(ParseStream<'_>) -> syn::Result<T>) -> syn::Result<((T, T), Span)> {
        if !self.input.peek(token::Paren) {
            return Err(self.wrong(self.input.span()));
        }
        let content;
        let parentheses = parenthesized!(content in self.input);
        let span = parentheses.span.join();
        let mut elements = self.elements(&content, element)?.into_iter();
        match (elements.next(), elements.next(), elements.next()) {
            (Some(first), Some(second), None) => Ok(((first, second), span)),
            _ => Err(self.wrong(span)),
        }
    }

    /// The elements between commas; all errors are reported together.
    fn elements<T>(
        &self,
        content: ParseStream<'_>,
        element: impl Fn(ParseStream<'_>) -> syn::Result<T>,
    ) -> syn::Result<Vec<T>> {
        let mut errors = Errors::new();
        let elements = entries::read(content, &mut errors, |span| self.wrong(span), element);
        errors.check()?;
        Ok(elements)
    }
}

/// Parses a string with one of the shared grammars, whose errors include what to write.
fn checked<T, E: Display>(text: &LitStr, read: impl Fn(&str) -> Result<T, E>) -> syn::Result<T> {
    read(&text.value()).map_err(|error| syn::Error::new(text.span(), error))
}
