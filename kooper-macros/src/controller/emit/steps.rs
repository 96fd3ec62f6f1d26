//! The calls of the builder, each a statement.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::controller::model::{Cleanup, Kinds, Model};
use crate::controller::setting::{Setting, parentheses};
use crate::support::place::Place;

/// Writes each call where the user wrote what it stands for, so that a bound that does not hold is
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

    /// The call of a setter: its name stands where the key does, so that an editor shows what the
    /// key means, and all else where the value does.
    fn setting(&self, setting: &Setting) -> TokenStream {
        let Setting { method, key, place, value, .. } = setting;
        self.call(*key, *place, method, &value.types(), value.arguments(&self.model.runtime))
    }

    fn call(&self, key: Span, place: Place, method: &str, types: &TokenStream, arguments: TokenStream) -> TokenStream {
        // In the order in which they are written, as the compiler's message may be about any part.
        let key = self.at(key);
        let (builder, method) = (self.variable(key), Ident::new(method, key));
        let arguments = parentheses(arguments, self.at(place.end));
        quote_spanned!(key=> let #builder = #builder.#method #types #arguments;)
    }

    /// One call of a fn of the runtime that stands from the first word to the last of what it is
    /// for. The types of arguments are left to inference: written here again, one that is unknown
    /// would be reported twice.
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

    /// The place with the hygiene of the fn's name: the tokens of an attribute that a
    /// `macro_rules!` wrote have several, and the variable has to be one.
    pub(super) fn at(&self, place: Span) -> Span {
        place.resolved_at(self.model.handler.ident.span())
    }

    /// The fn, called with what the arguments' types took.
    ///
    /// It is handed over as a value, too: lints know such a fn as one whose signature is not for its
    /// author to choose.
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
