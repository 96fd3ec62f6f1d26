//! The code of a controller. It holds no logic: a chain of the builder's public setters.

mod reliable;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::controller::model::{Kinds, Model};
use crate::support::crate_path::CratePath;
use crate::support::duration;
use crate::support::errors::say;

/// The fn as it was written, the type that stands for its controller, and a `main`.
pub(crate) fn controller(item: &TokenStream, model: &Model<'_>) -> TokenStream {
    let Model { runtime, type_name, .. } = model;
    let ty = generated_type(runtime, model.vis, type_name, matches!(model.kinds, Kinds::One { .. }));
    let define = match &model.kinds {
        Kinds::One { kind, name } => builder(model, &kind.to_token_stream(), &quote!(#name)),
        Kinds::Each { parameter, generics, kinds } => {
            let each = for_each(model, parameter, generics);
            let crd = known_crd(model);
            let calls = kinds.iter().map(|(kind, name)| quote!(__each::<#kind>(__program, #name, #crd);));
            quote!(#each #(#calls)*)
        }
    };
    let main = model.main.then(|| main(runtime, model.handler, type_name));
    quote! {
        #item
        #ty
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
pub(crate) fn generated_type(runtime: &CratePath, vis: &syn::Visibility, name: &Ident, one: bool) -> TokenStream {
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
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis struct #name {}
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
    let arguments = model.arguments.iter().map(|ty| steps.step(ty.span(), "argument", &TokenStream::new()));
    let call = steps.call(kind);
    let outcome = model.output.map_or_else(|| model.handler.span(), Spanned::span);
    let outcome = steps.step(outcome, "outcome", &TokenStream::new());
    let place = steps.at(kind.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span()));
    let builder = steps.variable(place);
    let here = runtime.at(place);
    let start = quote_spanned!(place=> let #builder = #here::controller(#here::kind::<#kind>(), #name););
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
    /// One call. The types of arguments are left to inference: written here again, one that
    /// is unknown would be told twice.
    fn step(&self, place: Span, method: &str, arguments: &TokenStream) -> TokenStream {
        self.step_with(place, method, &TokenStream::new(), arguments)
    }

    /// One call with types that are written out.
    fn step_with(&self, place: Span, method: &str, types: &TokenStream, arguments: &TokenStream) -> TokenStream {
        let place = self.at(place);
        let (builder, method) = (self.variable(place), Ident::new(method, place));
        let mut group = Group::new(Delimiter::Parenthesis, arguments.clone());
        group.set_span(place);
        quote_spanned!(place=> let #builder = #builder.#method #types #group;)
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
    fn call(&self, kind: &TokenStream) -> TokenStream {
        let Model { handler, arguments, kinds, .. } = self.model;
        let place = handler.span();
        let names: Vec<Ident> = (0..arguments.len()).map(|i| Ident::new(&format!("__a{i}"), place)).collect();
        let nested = names.iter().fold(quote!(()), |before, name| quote!((#before, #name)));
        let turbofish = match kinds {
            Kinds::One { .. } => None,
            Kinds::Each { .. } => Some(quote!(::<#kind>)),
        };
        self.step(place, "call", &quote_spanned!(place=> |#nested| #handler #turbofish (#(#names),*)))
    }

    /// One call for each key that was given; those that change the builder's type first.
    fn setters(&self) -> TokenStream {
        let Model { runtime, args, namespaces, .. } = self.model;
        let mut setters = TokenStream::new();
        let mut set = |place: Span, method: &str, value: TokenStream| {
            setters.extend(self.step(place, method, &value));
        };
        if let Some(key) = &args.metadata_only {
            set(key.key, "metadata_only", TokenStream::new());
        }
        if let Some(path) = &args.init {
            set(path.span, "init", path.value.to_token_stream());
        }
        if let Some(resync) = &args.resync {
            set(resync.span, "resync", duration::optional(runtime, resync.value));
        }
        if let Some(workers) = &args.workers {
            set(workers.span, "workers", number(workers.value));
        }
        if let Some(retries) = &args.retries {
            set(retries.span, "retries", optional_number(runtime, retries.value));
        }
        if let Some(backoff) = &args.backoff {
            let (first, longest) = backoff.value;
            let (first, longest) = (duration::tokens(runtime, first), duration::tokens(runtime, longest));
            set(backoff.span, "backoff", quote!(#first, #longest));
        }
        if let Some(rate) = &args.retry_rate {
            let (second, burst) = (number(rate.value.0), number(rate.value.1));
            set(rate.span, "retry_rate", quote!(#second, #burst));
        }
        if let Some(timeout) = &args.timeout {
            set(timeout.span, "timeout", duration::optional(runtime, timeout.value));
        }
        if let Some((names, key)) = namespaces {
            set(*key, "namespaces", quote!([#(#names),*]));
        }
        if let Some(labels) = &args.labels {
            set(labels.span, "labels", labels.value.to_token_stream());
        }
        if let Some(fields) = &args.fields {
            set(fields.span, "fields", fields.value.to_token_stream());
        }
        if let Some(changed) = &args.changed {
            let variants = changed.value.iter().map(|change| Ident::new(change.variant, change.span));
            set(changed.span, "changed", quote!([#(#runtime::Changed::#variants),*]));
        }
        if let Some(when) = &args.when {
            set(when.span, "when", when.value.to_token_stream());
        }
        if let Some(retriever) = &args.retriever {
            set(retriever.span, "retriever_from", retriever.value.to_token_stream());
        }
        for path in args.layers.iter().flat_map(|layers| &layers.value) {
            set(path.span(), "layer", quote_spanned!(path.span()=> #path()));
        }
        if let Some(access) = &args.access {
            let rules = access.value.iter().map(ToString::to_string);
            // An empty list still has elements of a type.
            let rules = if access.value.is_empty() { quote!([""; 0]) } else { quote!([#(#rules),*]) };
            set(access.key, "access", rules);
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

/// A `main` that runs this controller, and what makes a second one explain itself.
fn main(runtime: &CratePath, handler: &Ident, type_name: &Ident) -> TokenStream {
    let place = handler.span();
    let (main, advice) = (Ident::new("main", place), Ident::new(ADVICE, place));
    let text = say!(
        "the `main` of `{handler}` is not at the crate's root, where a program begins: \
         write `main = false` in its attribute and `kooper::main!(path::to::{handler});` at the root"
    );
    quote! {
        #[doc(hidden)]
        mod #advice {}
        const _: () = #runtime::assert!(#runtime::at_crate_root(#runtime::module_path!()), #text);
        fn #main() -> #runtime::ExitCode {
            #runtime::main(
                match #runtime::option_env!("CARGO_BIN_NAME") {
                    #runtime::Option::Some(__name) => __name,
                    #runtime::Option::None => #runtime::env!("CARGO_PKG_NAME"),
                },
                #runtime::env!("CARGO_PKG_VERSION"),
                &[<#type_name as #runtime::Definition>::define],
            )
        }
    }
}

/// The name that rustc shows when two controllers of a crate bring a `main` each.
pub(crate) const ADVICE: &str = "write_main_false_in_each_attribute_and_one_kooper_main_with_all_of_them";
