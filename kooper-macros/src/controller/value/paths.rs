//! Values that are types of kinds, and paths of functions and of files.

use proc_macro2::{Group, Ident, TokenStream};
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::{LitStr, Path, Token, Type, parenthesized, token};

use super::Value;
use crate::controller::args::Resource;
use crate::controller::objects::Objects;
use crate::controller::setting::{File, Layer, Map, Setting};
use crate::controller::types::plain;
use crate::support::entries;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::spanned::Spanned;
use crate::support::text::text;

impl Value<'_> {
    pub(crate) fn path(&self) -> syn::Result<Spanned<Path>> {
        let path = self.next_path(self.input)?;
        let place = Place::of(&path);
        Ok(self.spanned(path, place))
    }

    /// The paths of functions, each once.
    pub(crate) fn functions(&self) -> syn::Result<Spanned<Vec<Path>>> {
        self.set(|input| self.next_path(input))
    }

    /// The paths of functions that make layers. A path may be listed several times.
    pub(crate) fn layers(&self) -> syn::Result<Spanned<Vec<Layer>>> {
        self.list(|input| self.next_path(input).map(Layer))
    }

    /// The paths of files, each once.
    pub(crate) fn files(&self) -> syn::Result<Spanned<Vec<File>>> {
        self.set(|input| {
            let path: LitStr = self.next_in(input)?;
            if path.value().is_empty() { Err(self.wrong(path.span())) } else { Ok(File(path)) }
        })
    }

    /// The kinds, and the options that follow them.
    pub(crate) fn resource(&self) -> syn::Result<(Spanned<Resource>, Vec<Setting>)> {
        if !self.input.peek(token::Paren) {
            return Ok((self.retrieved(self.input)?, Vec::new()));
        }
        let content;
        let parentheses = parenthesized!(content in self.input);
        let resource = self.retrieved(&content)?;
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
                return Err(syn::Error::new(word.span(), message!("`{option}` is there twice: remove one of them")));
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

    fn retrieved(&self, input: ParseStream<'_>) -> syn::Result<Spanned<Resource>> {
        if input.peek(token::Bracket) {
            return Ok(self.list_in(input, |input| self.next_kind(input))?.map(Resource::Each));
        }
        let kind = self.next_kind(input)?;
        let place = Place::of(&kind);
        Ok(self.spanned(Resource::One(Box::new(kind)), place))
    }

    /// A type.
    pub(crate) fn ty(&self) -> syn::Result<Spanned<Type>> {
        let ty = self.next_kind(self.input)?;
        let place = Place::of(&ty);
        Ok(self.spanned(ty, place))
    }

    /// Kinds of children, each once, or several times with different selections.
    pub(crate) fn children(&self) -> syn::Result<Spanned<Vec<Objects>>> {
        let children = self.set(|input| self.objects(input))?;
        for some in children.value.iter().filter(|objects| !objects.is_all()) {
            let kind = text(&some.kind);
            if children.value.iter().any(|objects| objects.is_all() && text(&objects.kind) == kind) {
                let advice =
                    message!("`{kind}` without settings is in the list, which has all of them: remove one of the two");
                self.note(Place::of(&some.kind), advice);
            }
        }
        Ok(children)
    }

    /// The selections of readers, one for each kind.
    pub(crate) fn readers(&self) -> syn::Result<Spanned<Vec<Objects>>> {
        let readers = self.set(|input| self.objects(input))?;
        let mut known: Vec<String> = Vec::new();
        for objects in &readers.value {
            let (place, parameter) = (Place::of(&objects.kind), objects.read().parameter());
            if !objects.selects() {
                let advice = message!(
                    "a `Reader<{parameter}>` reads all objects anyway: select some, such as `(Secret, labels = \"app=shop\")`"
                );
                self.note(place, advice);
            } else if known.contains(&parameter) {
                let advice = message!(
                    "there are two selections for `Reader<{parameter}>`: write one of them as a type that implements \
                     `Subset`, and name it, as in `Reader<{parameter}, OfShop>`"
                );
                self.note(place, advice);
            }
            known.push(parameter);
        }
        Ok(readers)
    }

    /// A kind, or a kind with settings in parentheses that select some of its objects.
    fn objects(&self, input: ParseStream<'_>) -> syn::Result<Objects> {
        if !input.peek(token::Paren) {
            return Ok(Objects::all(self.next_kind(input)?));
        }
        let written: Group = input.fork().parse()?;
        let content;
        let parentheses = parenthesized!(content in input);
        let wrong = |place: Place| {
            // Tokens that are left would cause another error.
            let _: syn::Result<TokenStream> = content.parse();
            place.error(message!("a kind with settings begins with the kind: write `(Secret, labels = \"app=shop\")`"))
        };
        if content.is_empty() || content.peek2(Token![=]) {
            return Err(wrong(parentheses.span.join().into()));
        }
        let kind = self.next_kind(&content)?;
        if !content.is_empty() {
            let place = content.span().into();
            let _: Token![,] = content.parse().map_err(|_| wrong(place))?;
        }
        Objects::some(kind, &content, written.into_token_stream())
    }

    pub(crate) fn maps(&self) -> syn::Result<Spanned<Vec<Map>>> {
        self.set(|input| {
            let objects = self.objects(input)?;
            let arrow: syn::Result<Token![=>]> = input.parse();
            if arrow.is_err() {
                let written = text(&objects);
                return Err(Place::of(&objects).error(message!(
                    "a kind needs a function that maps its objects to keys: write `{written} => path`"
                )));
            }
            Ok(Map { objects, function: self.next_path(input)? })
        })
    }

    fn next_path(&self, input: ParseStream<'_>) -> syn::Result<Path> {
        let path: Path = self.next_in(input)?;
        if entries::ended(input) { Ok(path) } else { Err(self.wrong(Place::of(&path))) }
    }

    fn next_kind(&self, input: ParseStream<'_>) -> syn::Result<Type> {
        let kind: Type = self.next_in(input)?;
        match plain(&kind) {
            Type::Path(_) => Ok(kind),
            _ => Err(self.wrong(Place::of(&kind))),
        }
    }
}
