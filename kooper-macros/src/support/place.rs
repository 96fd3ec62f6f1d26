//! The place of several tokens.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;

/// The places of the first and of the last token. Stable Rust cannot join them into one span, but
/// the compiler does so for an expression that begins at the one and ends at the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) start: Span,
    pub(crate) end: Span,
}

impl Place {
    /// The place of all of these tokens.
    pub(crate) fn of(tokens: &impl ToTokens) -> Self {
        let mut all = tokens.to_token_stream().into_iter().map(|token| token.span());
        let start = all.next().unwrap_or_else(Span::call_site);
        Self { start, end: all.last().unwrap_or(start) }
    }

    /// An error at this place.
    pub(crate) fn error(self, text: String) -> syn::Error {
        let mut ends = Ident::new("start", self.start).into_token_stream();
        ends.extend(Ident::new("end", self.end).into_token_stream());
        syn::Error::new_spanned(ends, text)
    }
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Self { start: span, end: span }
    }
}

/// The place of an item's first word, which follows its attributes and its documentation.
pub(crate) fn first_word(item: &TokenStream) -> Span {
    let is_of_attribute = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == '#',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Bracket,
        _ => false,
    };
    let word = item.clone().into_iter().find(|token| !is_of_attribute(token));
    word.map_or_else(Span::call_site, |token| token.span())
}
