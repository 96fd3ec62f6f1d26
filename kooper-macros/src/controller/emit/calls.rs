//! Calls of a builder, each a statement with the place of what it is about.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::controller::setting::{Setting, parentheses};
use crate::support::crate_path::CratePath;
use crate::support::place::Place;

/// Generates each call with the place of its key or value, so that a bound that is not met is
/// reported there.
pub(crate) struct Calls<'a> {
    pub(crate) runtime: &'a CratePath,
    /// The module of the functions in the runtime.
    pub(crate) module: Option<&'static str>,
    /// The name of the annotated function.
    pub(crate) ident: &'a Ident,
}

impl Calls<'_> {
    /// One call for each setting; those that change the builder's type first.
    pub(crate) fn settings<'s>(&self, settings: impl Iterator<Item = &'s Setting>) -> TokenStream {
        let mut settings: Vec<_> = settings.collect();
        settings.sort_by_key(|setting| setting.stage);
        settings.into_iter().map(|setting| self.setting(setting)).collect()
    }

    /// The call of a setter. Its name has the place of the key, so that an editor shows the
    /// documentation there, and everything else the place of the value.
    fn setting(&self, setting: &Setting) -> TokenStream {
        let Setting { method, key, place, value, .. } = setting;
        self.call(*key, *place, method, &value.types(), value.arguments(self.runtime))
    }

    fn call(&self, key: Span, place: Place, method: &str, types: &TokenStream, arguments: TokenStream) -> TokenStream {
        // In the order of the tokens, as the compiler's message may be about any part.
        let key = self.at(key);
        let (builder, method) = (self.variable(key), Ident::new(method, key));
        let arguments = parentheses(arguments, self.at(place.end));
        quote_spanned!(key=> let #builder = #builder.#method #types #arguments;)
    }

    /// The beginning of a builder: a function of the runtime, which takes the kind and the name. It has the place from
    /// the kind's first word to its last, because the compiler's message is about all of it.
    pub(crate) fn begin(&self, function: &str, kind: &TokenStream, name: &TokenStream) -> TokenStream {
        let Place { start, end } = Place::of(kind);
        let place = self.at(start);
        let (builder, runtime, here) = (self.variable(place), self.runtime.at(place), self.here(place));
        let function = Ident::new(function, place);
        let kind = quote_spanned!(place=> #runtime::kind::<#kind>);
        let ends = parentheses(TokenStream::new(), self.at(end));
        quote_spanned!(place=> let #builder = #here::#function(#kind #ends, #name);)
    }

    /// A call of a function of the runtime, with the place from the first to the last word of its
    /// subject. The types of arguments are inferred: an unknown type would otherwise be reported
    /// twice.
    pub(crate) fn spread(&self, place: Place, function: &str) -> TokenStream {
        self.spread_with(place, function, &TokenStream::new())
    }

    pub(crate) fn spread_with(&self, place: Place, function: &str, more: &TokenStream) -> TokenStream {
        let (start, end) = (self.at(place.start), self.at(place.end));
        let (builder, here) = (self.variable(start), self.here(start));
        let function = Ident::new(function, end);
        let arguments = parentheses(quote!(#builder #more), end);
        quote_spanned!(start=> let #builder = #here::#function #arguments;)
    }

    /// The call of the annotated function with this many extracted arguments.
    ///
    /// The function is also passed as a value: lints then know that its author cannot choose its
    /// signature.
    pub(crate) fn function(&self, turbofish: Option<&TokenStream>, arguments: usize) -> TokenStream {
        let (ident, place) = (self.ident, self.ident.span());
        let names: Vec<Ident> = (0..arguments).map(|i| Ident::new(&format!("__a{i}"), place)).collect();
        let nested = names.iter().fold(quote!(()), |before, name| quote!((#before, #name)));
        let call = quote_spanned!(place=> #ident #turbofish, |__handler, #nested| __handler(#(#names),*));
        self.call(place, place.into(), "call", &TokenStream::new(), call)
    }

    /// The module of the functions, as if its path were written at this place.
    fn here(&self, place: Span) -> TokenStream {
        let (runtime, module) = (self.runtime.at(place), self.module.map(|module| Ident::new(module, place)));
        let module = module.map(|module| quote_spanned!(place=> ::#module));
        quote!(#runtime #module)
    }

    /// The variable that holds the builder.
    pub(crate) fn variable(&self, place: Span) -> Ident {
        self.local("__builder", place)
    }

    pub(crate) fn local(&self, name: &str, place: Span) -> Ident {
        Ident::new(name, self.at(place))
    }

    /// The place with the hygiene of the function's name: the tokens of an attribute that a
    /// `macro_rules!` generated have several, and the variable needs a single one.
    pub(crate) fn at(&self, place: Span) -> Span {
        place.resolved_at(self.ident.span())
    }
}
