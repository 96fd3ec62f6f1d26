//! Values that are words: flags, names of parts, and keywords.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::{LitBool, LitStr};

use super::Value;
use crate::controller::setting::{Change, FailureEvents};
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

impl Value<'_> {
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

    /// How much Events say about failed calls.
    pub(crate) fn failure_events(&self) -> syn::Result<Spanned<FailureEvents>> {
        let wrong = self.wrong(self.input.span());
        for (word, variant) in [("off", "Off"), ("brief", "Brief"), ("full", "Full")] {
            if let Some(span) = self.word(word)? {
                return Ok(self.spanned(FailureEvents(Ident::new(variant, span)), span));
            }
        }
        Err(wrong)
    }

    pub(crate) fn only_cleanup(&self) -> syn::Result<Spanned<()>> {
        let span = self.input.span();
        match self.word("cleanup")? {
            Some(span) => Ok(self.spanned((), span)),
            None => Err(self.wrong(span)),
        }
    }

    pub(crate) fn changes(&self) -> syn::Result<Spanned<Vec<Change>>> {
        let changes = self.set(|input| {
            let word = input.call(Ident::parse_any).map_err(|error| self.wrong(error.span()))?;
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
            self.note(any.word.span(), text);
        }
        Ok(changes)
    }

    /// A keyword. One in quotes is an error with the advice to remove them.
    pub(super) fn word(&self, word: &str) -> syn::Result<Option<Span>> {
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
}
