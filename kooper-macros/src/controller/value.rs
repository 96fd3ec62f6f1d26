//! The values of keys, each form in one way.

use std::fmt::Display;
use std::time::Duration;

use kooper_grammar::access::Rule;
use kooper_grammar::selector::{FieldSelector, Selector};
use kooper_grammar::{duration, name};
use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{
    GenericArgument, LitBool, LitInt, LitStr, Path, PathArguments, PathSegment, Token, Type, bracketed, parenthesized,
    token,
};

use crate::controller::args::{Change, Resource, skip_entry};
use crate::controller::election::Election;
use crate::controller::keys::Key;
use crate::support::errors::say;
use crate::support::place::Place;
use crate::support::spanned::Spanned;
use crate::support::suggest;
use crate::support::text::text;

/// The parts of an object that `changed` knows, with their names in the runtime.
const CHANGES: [(&str, &str); 6] = [
    ("generation", "Generation"),
    ("labels", "Labels"),
    ("annotations", "Annotations"),
    ("finalizers", "Finalizers"),
    ("status", "Status"),
    ("any", "Any"),
];

/// The value of a key, still to be read.
pub(crate) struct Value<'a> {
    key: &'static Key,
    ident: &'a Ident,
    input: ParseStream<'a>,
}

impl<'a> Value<'a> {
    pub(crate) fn new(key: &'static Key, ident: &'a Ident, input: ParseStream<'a>) -> Self {
        Self { key, ident, input }
    }

    /// The error for a value of another form than the key takes.
    pub(crate) fn wrong(&self, place: impl Into<Place>) -> syn::Error {
        let Key { name, form, example, .. } = self.key;
        place.into().error(say!("`{name}` takes {form}: write `{example}`"))
    }

    pub(crate) fn flag(&self) -> syn::Result<Spanned<()>> {
        Ok(self.spanned((), self.ident.span()))
    }

    pub(crate) fn only_false(&self) -> syn::Result<Spanned<()>> {
        let value: LitBool = self.next()?;
        if value.value { Err(self.wrong(value.span)) } else { Ok(self.spanned((), value.span)) }
    }

    pub(crate) fn ident(&self) -> syn::Result<Spanned<Ident>> {
        let ident: Ident = self.next()?;
        let span = ident.span();
        Ok(self.spanned(ident, span))
    }

    pub(crate) fn path(&self) -> syn::Result<Spanned<Path>> {
        let path = self.next_path(self.input)?;
        let place = Place::of(&path);
        Ok(self.spanned(path, place))
    }

    pub(crate) fn paths(&self) -> syn::Result<Spanned<Vec<Path>>> {
        self.list(|input| self.next_path(input))
    }

    /// The kinds, and where `optional` stands behind them.
    pub(crate) fn resource(&self) -> syn::Result<(Spanned<Resource>, Option<Span>)> {
        if !self.input.peek(token::Paren) {
            return Ok((self.kinds()?, None));
        }
        let content;
        let parentheses = parenthesized!(content in self.input);
        let resource = Value::new(self.key, self.ident, &content).kinds()?;
        let wrong = |span| {
            let text = say!("`optional` belongs behind the kind: write `resource(Pod, optional)`, or `resource = Pod`");
            syn::Error::new(span, text)
        };
        let _: Token![,] = content.parse().map_err(|_| wrong(parentheses.span.join()))?;
        let span = content.span();
        let word: Ident = content.parse().map_err(|_| wrong(span))?;
        let _: Option<Token![,]> = content.parse()?;
        if word != "optional" {
            return Err(wrong(word.span()));
        }
        if content.is_empty() { Ok((resource, Some(word.span()))) } else { Err(wrong(content.span())) }
    }

    fn kinds(&self) -> syn::Result<Spanned<Resource>> {
        if self.input.peek(token::Bracket) {
            return Ok(self.types()?.map(Resource::Each));
        }
        let kind = self.next_kind(self.input)?;
        let place = Place::of(&kind);
        Ok(self.spanned(Resource::One(Box::new(kind)), place))
    }

    pub(crate) fn types(&self) -> syn::Result<Spanned<Vec<Type>>> {
        self.list(|input| self.next_kind(input))
    }

    pub(crate) fn maps(&self) -> syn::Result<Spanned<Vec<(Type, Path)>>> {
        self.list(|input| {
            let kind = self.next_kind(input)?;
            let arrow: syn::Result<Token![=>]> = input.parse();
            if arrow.is_err() {
                let written = text(&kind);
                return Err(Place::of(&kind).error(say!("a fn maps these objects to ours: write `{written} => path`")));
            }
            Ok((kind, self.next_path(input)?))
        })
    }

    pub(crate) fn election(&self) -> syn::Result<Spanned<Election>> {
        if !self.input.peek(token::Paren) {
            return Ok(self.spanned(Election::default(), self.ident.span()));
        }
        let content;
        let parentheses = parenthesized!(content in self.input);
        let span = parentheses.span.join();
        if content.is_empty() {
            return Err(self.wrong(span));
        }
        Ok(self.spanned(Election::parse(&content)?, span))
    }

    pub(crate) fn number_from_one(&self) -> syn::Result<Spanned<u32>> {
        let (number, span) = self.next_number(self.input)?;
        if number == 0 { Err(self.wrong(span)) } else { Ok(self.spanned(number, span)) }
    }

    pub(crate) fn number_or_unlimited(&self) -> syn::Result<Spanned<Option<u32>>> {
        if let Some(span) = self.word("unlimited")? {
            return Ok(self.spanned(None, span));
        }
        let (number, span) = self.next_number(self.input)?;
        Ok(self.spanned(Some(number), span))
    }

    pub(crate) fn rate(&self) -> syn::Result<Spanned<(u32, u32)>> {
        let (rate, span) = if self.input.peek(token::Paren) {
            self.pair(|input| self.next_number(input))?
        } else {
            let (rate, span) = self.next_number(self.input)?;
            (((rate, span), (rate, span)), span)
        };
        let ((rate, rate_span), (burst, burst_span)) = rate;
        match (rate, burst) {
            (0, _) => Err(self.wrong(rate_span)),
            (_, 0) => Err(self.wrong(burst_span)),
            both => Ok(self.spanned(both, span)),
        }
    }

    pub(crate) fn duration_or_off(&self) -> syn::Result<Spanned<Option<Duration>>> {
        if let Some(span) = self.word("off")? {
            return Ok(self.spanned(None, span));
        }
        let text: LitStr = self.next()?;
        let duration = checked(&text, duration::parse)?;
        Ok(self.spanned(Some(duration), text.span()))
    }

    pub(crate) fn two_durations(&self) -> syn::Result<Spanned<(Duration, Duration)>> {
        let (both, span) = self.pair(|input| checked(&self.next_in(input)?, duration::parse))?;
        Ok(self.spanned(both, span))
    }

    pub(crate) fn label(&self) -> syn::Result<Spanned<String>> {
        let text: LitStr = self.next()?;
        checked(&text, name::label)?;
        Ok(self.spanned(text.value(), text.span()))
    }

    pub(crate) fn labels(&self) -> syn::Result<Spanned<Vec<LitStr>>> {
        self.list(|input| {
            let text: LitStr = self.next_in(input)?;
            checked(&text, name::label)?;
            Ok(text)
        })
    }

    pub(crate) fn finalizer(&self) -> syn::Result<Spanned<String>> {
        let text: LitStr = self.next()?;
        checked(&text, name::finalizer)?;
        Ok(self.spanned(text.value(), text.span()))
    }

    pub(crate) fn finalizers(&self) -> syn::Result<Spanned<Vec<LitStr>>> {
        self.list(|input| {
            let text: LitStr = self.next_in(input)?;
            checked(&text, name::finalizer)?;
            Ok(text)
        })
    }

    pub(crate) fn only_cleanup(&self) -> syn::Result<Spanned<()>> {
        let span = self.input.span();
        match self.word("cleanup")? {
            Some(span) => Ok(self.spanned((), span)),
            None => Err(self.wrong(span)),
        }
    }

    pub(crate) fn label_selector(&self) -> syn::Result<Spanned<String>> {
        let text: LitStr = self.next()?;
        let everything = checked(&text, Selector::parse)?.is_empty();
        self.selector(&text, everything)
    }

    pub(crate) fn field_selector(&self) -> syn::Result<Spanned<String>> {
        let text: LitStr = self.next()?;
        let everything = checked(&text, FieldSelector::parse)?.is_empty();
        self.selector(&text, everything)
    }

    fn selector(&self, text: &LitStr, everything: bool) -> syn::Result<Spanned<String>> {
        if everything { Err(self.wrong(text.span())) } else { Ok(self.spanned(text.value(), text.span())) }
    }

    pub(crate) fn changes(&self) -> syn::Result<Spanned<Vec<Change>>> {
        self.list(|input| {
            let word = input.call(Ident::parse_any).map_err(|error| self.wrong(error.span()))?;
            let text = word.to_string();
            match CHANGES.iter().find(|(known, _)| *known == text) {
                Some(&(word_, variant)) => Ok(Change { word: word_, variant, span: word.span() }),
                None => {
                    let known = CHANGES.map(|(known, _)| known);
                    let meant = suggest::meant(&text, &known, &[("spec", "generation")]);
                    let text = suggest::unknown("part of an object", &text, meant, &known);
                    Err(syn::Error::new(word.span(), text))
                }
            }
        })
    }

    pub(crate) fn rules(&self) -> syn::Result<Spanned<Vec<Rule>>> {
        let content;
        let parentheses = parenthesized!(content in self.input);
        let rules = self.elements(&content, |input| checked(&self.next_in(input)?, Rule::parse))?;
        Ok(self.spanned(rules, parentheses.span.join()))
    }

    /// A word of ours, also where the user put it in quotes: then with the advice not to.
    fn word(&self, word: &str) -> syn::Result<Option<Span>> {
        if let Ok(text) = self.input.fork().parse::<LitStr>()
            && text.value() == word
        {
            return Err(syn::Error::new(
                text.span(),
                say!("`{word}` is a word, not a text: write `{word}` without quotes"),
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

    fn spanned<T>(&self, value: T, place: impl Into<Place>) -> Spanned<T> {
        Spanned { value, key: self.ident.span(), place: place.into() }
    }

    fn next<T: Parse>(&self) -> syn::Result<T> {
        self.next_in(self.input)
    }

    fn next_in<T: Parse>(&self, input: ParseStream<'_>) -> syn::Result<T> {
        let span = input.span();
        input.parse().map_err(|_| self.wrong(span))
    }

    fn next_number(&self, input: ParseStream<'_>) -> syn::Result<(u32, Span)> {
        let number: LitInt = self.next_in(input)?;
        let value = number.base10_parse().map_err(|_| self.wrong(number.span()))?;
        Ok((value, number.span()))
    }

    fn next_path(&self, input: ParseStream<'_>) -> syn::Result<Path> {
        let path: Path = self.next_in(input)?;
        if input.is_empty() || input.peek(Token![,]) { Ok(path) } else { Err(self.wrong(Place::of(&path))) }
    }

    fn next_kind(&self, input: ParseStream<'_>) -> syn::Result<Type> {
        let kind: Type = self.next_in(input)?;
        match plain(&kind) {
            Type::Path(_) => Ok(kind),
            _ => Err(self.wrong(Place::of(&kind))),
        }
    }

    /// `[a, b]`, with at least one element.
    fn list<T>(&self, element: impl Fn(ParseStream<'_>) -> syn::Result<T>) -> syn::Result<Spanned<Vec<T>>> {
        if !self.input.peek(token::Bracket) {
            return Err(self.wrong(self.input.span()));
        }
        let content;
        let brackets = bracketed!(content in self.input);
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

    /// The elements between commas; all that are wrong are said together.
    fn elements<T>(
        &self,
        content: ParseStream<'_>,
        element: impl Fn(ParseStream<'_>) -> syn::Result<T>,
    ) -> syn::Result<Vec<T>> {
        let mut elements = Vec::new();
        let mut wrong: Option<syn::Error> = None;
        while !content.is_empty() {
            let error = match element(content) {
                Ok(element) if content.is_empty() || content.peek(Token![,]) => {
                    elements.push(element);
                    None
                }
                Ok(_) => Some(self.wrong(content.span())),
                Err(error) => Some(error),
            };
            if let Some(error) = error {
                skip_entry(content);
                match &mut wrong {
                    Some(wrong) => wrong.combine(error),
                    None => wrong = Some(error),
                }
            }
            let _: Option<Token![,]> = content.parse()?;
        }
        wrong.map_or(Ok(elements), Err)
    }
}

/// The setting that retrieves what a handler takes in its `Arc`.
pub(crate) fn resource_of(kind: &Type) -> String {
    let inner = match plain(kind) {
        Type::Path(path) => path.path.segments.last().filter(|last| last.ident == "PartialObjectMeta").and_then(inside),
        _ => None,
    };
    match inner {
        Some(kind) => format!("resource = {}, metadata_only", text(kind)),
        None => format!("resource = {}", text(kind)),
    }
}

/// The first type between the `<…>` of a path's segment.
pub(crate) fn inside(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

/// A type without the invisible groups that a `macro_rules!` puts around it.
pub(crate) fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        ty => ty,
    }
}

/// Reads a text by one of the shared grammars, whose error says what to write.
pub(crate) fn checked<T, E: Display>(text: &LitStr, read: impl Fn(&str) -> Result<T, E>) -> syn::Result<T> {
    read(&text.value()).map_err(|error| syn::Error::new(text.span(), error))
}
