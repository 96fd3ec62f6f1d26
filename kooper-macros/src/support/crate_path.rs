//! The path from the user's crate to the runtime.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// The only module of the runtime that generated code names.
///
/// It is versioned, and the macros are pinned to the runtime with `=`, so generated code always
/// matches the module.
#[derive(Clone, Debug)]
pub(crate) struct CratePath {
    runtime: TokenStream,
    /// `true` if the user wrote the path: its hygiene must be kept.
    given: bool,
}

impl CratePath {
    /// The module below the path of the `crate` key, or below `::kooper`.
    pub(crate) fn new(given: Option<&syn::Path>) -> Self {
        let root = given.map_or_else(|| quote!(::kooper), ToTokens::to_token_stream);
        let version = Ident::new("v1", Span::call_site());
        Self { runtime: quote!(#root::__private::#version), given: given.is_some() }
    }

    /// The same path, as if it were written at this place.
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
