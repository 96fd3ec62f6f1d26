//! The code of a controller. It holds no logic: a chain of the builder's public setters.

mod reliable;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::controller::model::{Kinds, Model};
use crate::support::crate_path::CratePath;
use crate::support::duration;
use crate::support::errors::say;
use crate::support::place::Place;

/// The fn as it was written, the type that stands for its controller, and a `main`.
pub(crate) fn controller(item: &TokenStream, model: &Model<'_>) -> TokenStream {
    let Model { runtime, type_name, conditions, .. } = model;
    let one = matches!(model.kinds, Kinds::One { .. });
    let ty = generated_type(runtime, conditions, model.vis, type_name, one);
    let define = match &model.kinds {
        Kinds::One { kind, name } => builder(model, &kind.to_token_stream(), &quote!(#name)),
        Kinds::Each { parameter, generics, kinds } => {
            let each = for_each(model, parameter, generics);
            let crd = known_crd(model);
            let calls = kinds.iter().map(|(kind, name)| quote!(__each::<#kind>(__program, #name, #crd);));
            quote!(#each #(#calls)*)
        }
    };
    let main = model.main.then(|| main(model));
    quote! {
        #item
        #ty
        #conditions
        const _: () = {
            #[automatically_derived]
            impl #runtime::Definition for #type_name {
                fn define(__program: &mut #runtime::Program) {
                    #define
                }
            }
        };
        #main
    }
}

/// The type that shares the fn's name, with its controllers. With braces it leaves the fn's own namespace alone.
pub(crate) fn generated_type(
    runtime: &CratePath,
    conditions: &TokenStream,
    vis: &syn::Visibility,
    name: &Ident,
    one: bool,
) -> TokenStream {
    let controllers = if one {
        quote! {
            /// The controller of the fn.
            ///
            /// # Errors
            /// A mistake in it.
            #[allow(dead_code)]
            #vis fn controller() -> #runtime::Result<#runtime::Controller, #runtime::ConfigError> {
                #runtime::Program::only::<Self>()
            }
        }
    } else {
        quote! {
            /// The controllers of the fn, one for each kind.
            ///
            /// # Errors
            /// The first mistake in one.
            #[allow(dead_code)]
            #vis fn controllers() -> #runtime::Result<#runtime::Vec<#runtime::Controller>, #runtime::ConfigError> {
                #runtime::Program::all::<Self>()
            }
        }
    };
    quote! {
        #conditions
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis struct #name {}
        #conditions
        #[automatically_derived]
        impl #name {
            #controllers
        }
    }
}

/// A local fn that is generic as the handler is, called once for each kind.
fn for_each(model: &Model<'_>, parameter: &Ident, generics: &syn::Generics) -> TokenStream {
    let runtime = &model.runtime;
    let builder = builder(model, &parameter.to_token_stream(), &quote!(__name));
    let namespaced = model.namespaces.as_ref().map(|_| quote!(+ #runtime::Namespaced));
    let custom = model.args.install_crd.as_ref().map(|_| quote!(+ #runtime::CustomKind));
    let bounds = generics.type_params().flat_map(|parameter| &parameter.bounds);
    let user = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    quote! {
        fn __each<#parameter>(
            __program: &mut #runtime::Program,
            __name: &#runtime::str,
            __crd: fn(#runtime::PhantomData<#parameter>) -> #runtime::Crd,
        )
        where
            #parameter: #runtime::Kind #namespaced #custom #(+ #bounds)*,
            #(#user,)*
        {
            #builder
        }
    }
}

/// What asks a kind for its CRD. It has to stand where the kind is known, not in a generic fn.
fn known_crd(model: &Model<'_>) -> TokenStream {
    let runtime = &model.runtime;
    quote!(|__kind| #runtime::crd(__kind).known_crd())
}

/// The statements from the kind to the finished builder.
fn builder(model: &Model<'_>, kind: &TokenStream, name: &TokenStream) -> TokenStream {
    let runtime = &model.runtime;
    let steps = Steps { model };
    let setters = steps.setters();
    let reliable = steps.reliable_setters();
    let crd = match &model.kinds {
        Kinds::One { .. } => known_crd(model),
        Kinds::Each { .. } => quote!(__crd),
    };
    let arguments = model.arguments.iter().map(|ty| steps.spread(Place::of(ty), "argument"));
    let call = steps.call(kind);
    let outcome = model.output.map_or_else(|| model.handler.span().into(), Place::of);
    let outcome = steps.spread(outcome, "outcome");
    let Place { start, end } = Place::of(kind);
    let place = steps.at(start);
    let builder = steps.variable(place);
    let here = runtime.at(place);
    // From the kind's first word to its last, as that is what the compiler's message is about.
    let kind = quote_spanned!(place=> #here::kind::<#kind>);
    let ends = parentheses(TokenStream::new(), steps.at(end));
    let start = quote_spanned!(place=> let #builder = #here::controller(#kind #ends, #name););
    quote! {
        #start
        #setters
        #reliable
        let #builder = #builder.maybe_crd(#crd);
        let #builder = #builder.arguments();
        #(#arguments)*
        #call
        #outcome
        #runtime::Program::add(__program, #builder);
    }
}

/// The calls of the builder, each a statement where the user wrote what it stands for, so
/// that a bound that does not hold is told there.
struct Steps<'a> {
    model: &'a Model<'a>,
}

impl Steps<'_> {
    /// One call of a setter: its name stands where the key does, so that an editor shows what the
    /// key means, and all else where the value does.
    fn step(&self, key: Span, place: Place, method: &str, value: &TokenStream) -> TokenStream {
        self.step_with(key, place, method, &TokenStream::new(), value)
    }

    /// One call with types that are written out.
    fn step_with(
        &self,
        key: Span,
        place: Place,
        method: &str,
        types: &TokenStream,
        value: &TokenStream,
    ) -> TokenStream {
        // In the order in which they are written, as the compiler's message may be about any part.
        let key = self.at(key);
        let (builder, method) = (self.variable(key), Ident::new(method, key));
        let arguments = parentheses(value.clone(), self.at(place.end));
        quote_spanned!(key=> let #builder = #builder.#method #types #arguments;)
    }

    /// One call of a fn of the runtime that stands from the first word to the last of what it is
    /// for. The types of arguments are left to inference: written here again, one that is unknown
    /// would be told twice.
    fn spread(&self, place: Place, function: &str) -> TokenStream {
        let (start, end) = (self.at(place.start), self.at(place.end));
        let (builder, here) = (self.variable(start), self.model.runtime.at(start));
        let function = Ident::new(function, end);
        let arguments = parentheses(builder.to_token_stream(), end);
        quote_spanned!(start=> let #builder = #here::#function #arguments;)
    }

    /// The variable that holds the builder.
    fn variable(&self, place: Span) -> Ident {
        Ident::new("__builder", self.at(place))
    }

    /// The place with the hygiene of the fn's name: the tokens of an attribute that a
    /// `macro_rules!` wrote have several, and the variable has to be one.
    fn at(&self, place: Span) -> Span {
        place.resolved_at(self.model.handler.span())
    }

    /// The fn, called with what the arguments' types took.
    ///
    /// It is handed over as a value, too: lints know such a fn as one whose signature is not for its
    /// author to choose.
    fn call(&self, kind: &TokenStream) -> TokenStream {
        let Model { handler, arguments, kinds, .. } = self.model;
        let place = handler.span();
        let names: Vec<Ident> = (0..arguments.len()).map(|i| Ident::new(&format!("__a{i}"), place)).collect();
        let nested = names.iter().fold(quote!(()), |before, name| quote!((#before, #name)));
        let turbofish = match kinds {
            Kinds::One { .. } => None,
            Kinds::Each { .. } => Some(quote!(::<#kind>)),
        };
        let call = quote_spanned!(place=> #handler #turbofish, |__handler, #nested| __handler(#(#names),*));
        self.step(place, place.into(), "call", &call)
    }

    /// One call for each key that was given; those that change the builder's type first.
    fn setters(&self) -> TokenStream {
        let Model { runtime, args, namespaces, .. } = self.model;
        let mut setters = TokenStream::new();
        let mut set = |key: Span, place: Place, method: &str, value: TokenStream| {
            setters.extend(self.step(key, place, method, &value));
        };
        if let Some(key) = &args.metadata_only {
            set(key.key, key.place, "metadata_only", TokenStream::new());
        }
        if let Some(path) = &args.init {
            set(path.key, path.place, "init", path.value.to_token_stream());
        }
        if let Some(resync) = &args.resync {
            set(resync.key, resync.place, "resync", duration::optional(runtime, resync.value));
        }
        if let Some(workers) = &args.workers {
            set(workers.key, workers.place, "workers", number(workers.value));
        }
        if let Some(retries) = &args.retries {
            set(retries.key, retries.place, "retries", optional_number(runtime, retries.value));
        }
        if let Some(backoff) = &args.backoff {
            let (first, longest) = backoff.value;
            let (first, longest) = (duration::tokens(runtime, first), duration::tokens(runtime, longest));
            set(backoff.key, backoff.place, "backoff", quote!(#first, #longest));
        }
        if let Some(rate) = &args.retry_rate {
            let (second, burst) = (number(rate.value.0), number(rate.value.1));
            set(rate.key, rate.place, "retry_rate", quote!(#second, #burst));
        }
        if let Some(timeout) = &args.timeout {
            set(timeout.key, timeout.place, "timeout", duration::optional(runtime, timeout.value));
        }
        if let Some((names, key)) = namespaces {
            set(*key, (*key).into(), "namespaces", quote!([#(#names),*]));
        }
        if let Some(labels) = &args.labels {
            set(labels.key, labels.place, "labels", labels.value.to_token_stream());
        }
        if let Some(fields) = &args.fields {
            set(fields.key, fields.place, "fields", fields.value.to_token_stream());
        }
        if let Some(changed) = &args.changed {
            let variants = changed.value.iter().map(|change| Ident::new(change.variant, change.span));
            set(changed.key, changed.place, "changed", quote!([#(#runtime::Changed::#variants),*]));
        }
        if let Some(when) = &args.when {
            set(when.key, when.place, "when_fn", when.value.to_token_stream());
        }
        if let Some(retriever) = &args.retriever {
            // All of it where the value stands, which is what the message about its type is for.
            set(retriever.place.start, retriever.place, "retriever_from", retriever.value.to_token_stream());
        }
        if let Some(layers) = &args.layers {
            for path in &layers.value {
                let place = Place::of(path);
                let call = parentheses(TokenStream::new(), self.at(place.end));
                set(layers.key, place, "layer", quote!(#path #call));
            }
        }
        if let Some(access) = &args.access {
            let rules = access.value.iter().map(ToString::to_string);
            // An empty list still has elements of a type.
            let rules = if access.value.is_empty() { quote!([""; 0]) } else { quote!([#(#rules),*]) };
            set(access.key, access.key.into(), "access", rules);
        }
        setters
    }
}

fn number(number: u32) -> TokenStream {
    proc_macro2::Literal::u32_unsuffixed(number).to_token_stream()
}

fn optional_number(runtime: &CratePath, value: Option<u32>) -> TokenStream {
    match value {
        Some(value) => {
            let value = number(value);
            quote!(#runtime::Option::Some(#value))
        }
        None => quote!(#runtime::Option::None),
    }
}

/// Arguments whose parentheses stand at a place.
fn parentheses(arguments: TokenStream, place: Span) -> Group {
    let mut group = Group::new(Delimiter::Parenthesis, arguments);
    group.set_span(place);
    group
}

/// A `main` that runs this controller, and what makes a second one explain itself.
fn main(model: &Model<'_>) -> TokenStream {
    let Model { runtime, handler, type_name, conditions, .. } = model;
    let advice = Ident::new(ADVICE, handler.span());
    let text = say!(
        "the `main` of `{handler}` is not at the crate's root, where a program begins: \
         write `main = false` in its attribute and `kooper::main!(path::to::{type_name});` at the root"
    );
    quote! {
        #conditions
        #[doc(hidden)]
        mod #advice {}
        #conditions
        const _: () = #runtime::assert!(#runtime::at_crate_root(#runtime::module_path!()), #text);
        #conditions
        #runtime::main!(#type_name);
    }
}

/// The name that rustc shows when two controllers of a crate bring a `main` each.
pub(crate) const ADVICE: &str = "write_main_false_in_each_attribute_and_one_kooper_main_with_all_of_them";
