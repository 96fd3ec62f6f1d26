//! The calls of the builder, each a statement.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::controller::model::{Cleanup, Kinds, Model};
use crate::controller::setting::{Setting, parentheses};
use crate::support::place::Place;

/// Generates each call with the place of its key or value, so that a bound that is not met is
/// reported there.
pub(super) struct Steps<'a> {
    pub(super) model: &'a Model<'a>,
}

impl Steps<'_> {
    /// One call for each setting; those that change the builder's type first.
    pub(super) fn settings(&self) -> TokenStream {
        let Model { settings, cleanup, .. } = self.model;
        let cleanup: Vec<_> = cleanup.iter().flat_map(Cleanup::settings).collect();
        let mut settings: Vec<_> = settings.iter().chain(&cleanup).collect();
        settings.sort_by_key(|setting| setting.stage);
        settings.into_iter().map(|setting| self.setting(setting)).collect()
    }

    /// The call of a setter. Its name has the place of the key, so that an editor shows the
    /// documentation there, and everything else the place of the value.
    fn setting(&self, setting: &Setting) -> TokenStream {
        let Setting { method, key, place, value, .. } = setting;
        self.call(*key, *place, method, &value.types(), value.arguments(&self.model.runtime))
    }

    fn call(&self, key: Span, place: Place, method: &str, types: &TokenStream, arguments: TokenStream) -> TokenStream {
        // In the order of the tokens, as the compiler's message may be about any part.
        let key = self.at(key);
        let (builder, method) = (self.variable(key), Ident::new(method, key));
        let arguments = parentheses(arguments, self.at(place.end));
        quote_spanned!(key=> let #builder = #builder.#method #types #arguments;)
    }

    /// A call of a function of the runtime, with the place from the first to the last word of its
    /// subject. The types of arguments are inferred: an unknown type would otherwise be reported
    /// twice.
    pub(super) fn spread(&self, place: Place, function: &str) -> TokenStream {
        let (start, end) = (self.at(place.start), self.at(place.end));
        let (builder, here) = (self.variable(start), self.model.runtime.at(start));
        let function = Ident::new(function, end);
        let arguments = parentheses(builder.to_token_stream(), end);
        quote_spanned!(start=> let #builder = #here::#function #arguments;)
    }

    /// The variable that holds the builder.
    pub(super) fn variable(&self, place: Span) -> Ident {
        Ident::new("__builder", self.at(place))
    }

    /// The place with the hygiene of the function's name: the tokens of an attribute that a
    /// `macro_rules!` generated have several, and the variable needs a single one.
    pub(super) fn at(&self, place: Span) -> Span {
        place.resolved_at(self.model.handler.ident.span())
    }

    /// The call of the function with the extracted arguments.
    ///
    /// The function is also passed as a value: lints then know that its author cannot choose its
    /// signature.
    pub(super) fn handler(&self, kind: &TokenStream) -> TokenStream {
        let Model { handler, kinds, .. } = self.model;
        let (ident, place) = (&handler.ident, handler.ident.span());
        let names: Vec<Ident> = (0..handler.arguments.len()).map(|i| Ident::new(&format!("__a{i}"), place)).collect();
        let nested = names.iter().fold(quote!(()), |before, name| quote!((#before, #name)));
        let turbofish = match kinds {
            Kinds::One { .. } => None,
            Kinds::Each { .. } => Some(quote!(::<#kind>)),
        };
        let call = quote_spanned!(place=> #ident #turbofish, |__handler, #nested| __handler(#(#names),*));
        self.call(place, place.into(), "call", &TokenStream::new(), call)
    }
}
