//! The way from the user's crate to the runtime.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// The module of the runtime that generated code names, and the only one.
///
/// It is versioned, and the macros are pinned to the runtime with `=`, so code that was
/// generated never meets a module of another shape.
#[derive(Clone, Debug)]
pub(crate) struct CratePath {
    runtime: TokenStream,
    /// Whether the path is the user's own, with a hygiene that has to stay.
    given: bool,
}

impl CratePath {
    /// The module below the path that the `crate` key gives, or below `::kooper`.
    pub(crate) fn new(given: Option<&syn::Path>) -> Self {
        let root = given.map_or_else(|| quote!(::kooper), ToTokens::to_token_stream);
        let version = Ident::new("v1", Span::call_site());
        Self { runtime: quote!(#root::__private::#version), given: given.is_some() }
    }

    /// The same path, as if it were written at a place of the user's.
    pub(crate) fn at(&self, place: Span) -> TokenStream {
        if self.given {
            return self.runtime.clone();
        }
        let respan = |mut token: TokenTree| {
            token.set_span(place);
            token
        };
        self.runtime.clone().into_iter().map(respan).collect()
    }
}

impl ToTokens for CratePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.runtime.to_tokens(tokens);
    }
}
