//! The calls of the builder, each a statement.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::controller::model::{Cleanup, Deletion, Kinds, Model};
use crate::controller::setting::{Setting, parentheses};
use crate::controller::slots::Slot;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The type whose name the compiler shows if the status lacks a field.
const STATUS_ADVICE: &str = "add_conditions_and_observed_generation_to_the_status_or_write_status_none";

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

    /// The declaration of the children, each with the place of its function.
    pub(super) fn children(&self, slots: &Spanned<Vec<Slot>>) -> TokenStream {
        let runtime = &self.model.runtime;
        let place = self.at(slots.key);
        let (builder, children, here) = (self.variable(place), self.local("__children", place), runtime.at(place));
        let slot_statements = slots.value.iter().map(|slot| {
            let place = self.at(slot.place().start);
            let (children, here, end) = (self.local("__children", place), runtime.at(place), self.at(slot.place().end));
            let variable = self.local("__slot", place);
            let (path, inputs, calls) = (slot.path(), slot.inputs(&slots.value), slot.calls(&slots.value, runtime));
            let arguments = parentheses(quote!(&#children, #path, #inputs), end);
            let child = parentheses(variable.to_token_stream(), end);
            quote_spanned! {place=>
                let #variable = #here::slot #arguments #calls;
                let #children = #children.child #child;
            }
        });
        let slot_statements: TokenStream = slot_statements.collect();
        let status = self.model.reports.then(|| self.status(place));
        quote_spanned! {place=>
            let #children = #here::children(&#builder);
            #slot_statements
            #status
            let (#builder, #children) = #here::declared(#builder, #children);
        }
    }

    /// The fields of the status that summarize the children.
    fn status(&self, place: Span) -> TokenStream {
        let (children, here) = (self.local("__children", place), self.model.runtime.at(place));
        let (status, fields) = (self.local("__status", place), self.local("__fields", place));
        let advice = Ident::new(STATUS_ADVICE, place);
        quote_spanned! {place=>
            let #children = #children.status(|#status, #fields| {
                let mut #status = #here::#advice(#status);
                #fields.conditions(&mut #status.conditions);
                #fields.observed_generation(&mut #status.observed_generation);
            });
        }
    }

    /// The ordered deletion of the children, before the user's own cleanup.
    pub(super) fn deletion(&self) -> Option<TokenStream> {
        let Cleanup { deletion: Deletion::Ordered { ordered, cleanup }, finalizer, .. } =
            self.model.cleanup.as_ref()?
        else {
            return None;
        };
        let place = cleanup.map_or(ordered.place, |cleanup| cleanup.place);
        let place = Place { start: self.at(place.start), end: self.at(place.end) };
        // Not at the function: clippy would take it for what is called, and report an async function
        // that awaits nothing.
        let here = self.model.runtime.at(self.at(ordered.place.start));
        let function = cleanup.map_or_else(|| quote!(#here::no_cleanup), |cleanup| cleanup.value.to_token_stream());
        let (builder, children) = (self.variable(place.start), self.local("__children", place.start));
        let arguments = parentheses(quote!(#builder, &#children, #finalizer, #function), place.end);
        let callee = Ident::new("cleanup_after_children", self.at(ordered.place.start));
        Some(quote_spanned!(place.start=> let #builder = #here::#callee #arguments;))
    }

    /// The call that completes the handler with its return type.
    pub(super) fn outcome(&self, place: Place) -> TokenStream {
        match self.model.children {
            Some(_) => {
                let children = self.local("__children", place.start);
                self.spread_with(place, "outcome_with_children", &quote!(, &#children))
            }
            None => self.spread(place, "outcome"),
        }
    }

    /// A call of a function of the runtime, with the place from the first to the last word of its
    /// subject. The types of arguments are inferred: an unknown type would otherwise be reported
    /// twice.
    pub(super) fn spread(&self, place: Place, function: &str) -> TokenStream {
        self.spread_with(place, function, &TokenStream::new())
    }

    fn spread_with(&self, place: Place, function: &str, more: &TokenStream) -> TokenStream {
        let (start, end) = (self.at(place.start), self.at(place.end));
        let (builder, here) = (self.variable(start), self.model.runtime.at(start));
        let function = Ident::new(function, end);
        let arguments = parentheses(quote!(#builder #more), end);
        quote_spanned!(start=> let #builder = #here::#function #arguments;)
    }

    /// The variable that holds the builder.
    pub(super) fn variable(&self, place: Span) -> Ident {
        self.local("__builder", place)
    }

    fn local(&self, name: &str, place: Span) -> Ident {
        Ident::new(name, self.at(place))
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
