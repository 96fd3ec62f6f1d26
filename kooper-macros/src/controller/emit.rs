//! The code of a controller. It holds no logic: calls of the builder, each a statement.

pub(crate) mod calls;
mod steps;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Type;

use self::steps::Steps;
use crate::controller::model::{Kinds, Model};
use crate::controller::setting::Change;
use crate::controller::signature::Handler;
use crate::support::crate_path::CratePath;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::text::text;
use crate::support::types;

/// The function as written, the type of its controller, and a `main`.
pub(crate) fn controller(item: &TokenStream, model: &Model<'_>) -> TokenStream {
    let Model { runtime, handler, .. } = model;
    let method = match model.kinds {
        Kinds::One { .. } => "controller",
        Kinds::Task { .. } => "task",
        Kinds::Each { .. } => "controllers",
    };
    let controllers = controllers_fn(runtime, handler, method);
    let define = match &model.kinds {
        Kinds::One { kind, name } => builder(model, &kind.to_token_stream(), &quote!(#name)),
        Kinds::Task { name, .. } => builder(model, &TokenStream::new(), &quote!(#name)),
        Kinds::Each { parameter, generics, kinds } => {
            let each = for_each(model, parameter, generics);
            let crd = known_crd(model);
            let calls = kinds.iter().map(|(kind, name)| quote!(__each::<#kind>(__program, #name, #crd);));
            quote!(#each #(#calls)*)
        }
    };
    let declare = declare(model);
    let define = quote! {
        fn define(__program: &mut #runtime::Program) {
            #define
        }
        #declare
    };
    let ty = generated_type(runtime, handler, &controllers, &define);
    let fields = fields(model);
    let main = model.main.then(|| main(model));
    quote! {
        // Each argument grants something: there are as many as the handler needs.
        #[allow(clippy::too_many_arguments)]
        #item
        #ty
        #fields
        #main
    }
}

/// The checks that the kinds have the fields of `changed`. They are outside of generic functions, where no kind is known.
fn fields(model: &Model<'_>) -> TokenStream {
    let (runtime, Handler { conditions, lints, .. }) = (&model.runtime, model.handler);
    let kinds: Vec<&Type> = match &model.kinds {
        Kinds::One { kind, .. } => vec![kind],
        Kinds::Task { .. } => Vec::new(),
        Kinds::Each { kinds, .. } => kinds.iter().map(|(kind, _)| *kind).collect(),
    };
    let paths = model.changed.iter().filter_map(|change| match change {
        Change::Field(path) => Some(path),
        Change::Section(..) => None,
    });
    let checks = paths.flat_map(|path| {
        kinds.iter().map(move |kind| {
            let here = runtime.at(path.span());
            let escaped = |text: String| text.replace('{', "{{").replace('}', "}}");
            let (name, field) = (escaped(text(kind)), escaped(path.value()));
            let text = message!("`{name}` has no field `{field}`: write the names of fields as in JSON");
            quote_spanned! {path.span()=>
                #conditions
                #lints
                const _: () = {
                    #[allow(unused_imports)]
                    use #here::OtherKind as _;
                    #here::assert!(#here::may_have_field(#here::KindOf::<#kind>::BUILT_IN, #path), #text);
                };
            }
        })
    });
    checks.collect()
}

/// The function of the type that returns its controllers.
pub(crate) fn controllers_fn(runtime: &CratePath, handler: &Handler, method: &str) -> TokenStream {
    let Handler { vis, type_name, .. } = handler;
    if method != "controllers" {
        let (method, doc) = (Ident::new(method, type_name.span()), format!(" The {method} of the function."));
        quote! {
            #[doc = #doc]
            ///
            /// # Errors
            /// An error in its settings.
            #[allow(dead_code)]
            #vis fn #method() -> #runtime::Result<#runtime::Controller, #runtime::ConfigError> {
                #runtime::Program::only::<Self>()
            }
        }
    } else {
        quote! {
            /// The controllers of the function, one for each kind.
            ///
            /// # Errors
            /// The first error in their settings.
            #[allow(dead_code)]
            #vis fn controllers() -> #runtime::Result<#runtime::Vec<#runtime::Controller>, #runtime::ConfigError> {
                #runtime::Program::all::<Self>()
            }
        }
    }
}

/// The type with the function's name, a function of the type, and its definition. It has braces, so its name is only in
/// the namespace of types, and not in that of values.
pub(crate) fn generated_type(
    runtime: &CratePath,
    handler: &Handler,
    function: &TokenStream,
    define: &TokenStream,
) -> TokenStream {
    let Handler { conditions, lints, vis, type_name, .. } = handler;
    quote! {
        #conditions
        #lints
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis struct #type_name {}
        #conditions
        #[automatically_derived]
        impl #type_name {
            #function
        }
        #conditions
        #lints
        const _: () = {
            #[automatically_derived]
            impl #runtime::Definition for #type_name {
                #define
            }
        };
    }
}

/// A local function that is generic like the handler, called once for each kind.
fn for_each(model: &Model<'_>, parameter: &Ident, generics: &syn::Generics) -> TokenStream {
    let runtime = &model.runtime;
    let builder = builder(model, &parameter.to_token_stream(), &quote!(__name));
    let namespaced = model.namespaced.then(|| quote!(+ #runtime::Namespaced));
    let custom = model.installs_crd.then(|| quote!(+ #runtime::CustomKind));
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

/// The expression for the CRD of a kind. The kind must be known there, so it cannot be in a generic function.
fn known_crd(model: &Model<'_>) -> TokenStream {
    let runtime = &model.runtime;
    quote!(|__kind| #runtime::crd(__kind).known_crd())
}

/// The function that declares the type of the program's own settings.
fn declare(model: &Model<'_>) -> Option<TokenStream> {
    let (runtime, own) = (&model.runtime, model.own?);
    let place = Steps::of(model).calls.at(Place::of(own).start);
    let here = runtime.at(place);
    let declared = Ident::new("__declared", place);
    let call = quote_spanned!(place=> #here::declare::<#own>(#declared));
    Some(quote! {
        fn declare(#declared: &mut #runtime::Declared) {
            #call
        }
    })
}

/// The checks of the settings that the handler takes: they are those of the program.
fn same_settings(model: &Model<'_>) -> TokenStream {
    let Some(own) = model.own else { return TokenStream::new() };
    let checks = model.handler.arguments.iter().filter_map(types::settings).map(|taken| {
        let place = Steps::of(model).calls.at(Place::of(taken).start);
        let here = model.runtime.at(place);
        quote_spanned!(place=> #here::settings_of::<#taken, #own>();)
    });
    checks.collect()
}

/// The statements from the kind to the finished builder.
fn builder(model: &Model<'_>, kind: &TokenStream, name: &TokenStream) -> TokenStream {
    let runtime = &model.runtime;
    let steps = Steps::of(model);
    let settings = steps.settings();
    let crd = match &model.kinds {
        Kinds::One { .. } => Some(known_crd(model)),
        Kinds::Task { .. } => None,
        Kinds::Each { .. } => Some(quote!(__crd)),
    };
    let Handler { ident, arguments, output, .. } = model.handler;
    let arguments = arguments.iter().map(|ty| steps.calls.spread(Place::of(ty), "argument"));
    let call = steps.handler(kind);
    let outcome = output.as_ref().map_or_else(|| ident.span().into(), Place::of);
    let outcome = steps.outcome(outcome);
    let children = model.children.map(|children| steps.children(children));
    let deletion = steps.deletion();
    let daemon = steps.daemon();
    let same_settings = same_settings(model);
    let (builder, start) = match &model.kinds {
        Kinds::Task { times, .. } => (steps.calls.variable(times.place().start), steps.task(times, name)),
        _ => (steps.calls.variable(Place::of(kind).start), steps.calls.begin("controller", kind, name)),
    };
    let crd = crd.map(|crd| quote!(let #builder = #builder.maybe_crd(#crd);));
    quote! {
        #same_settings
        #start
        #settings
        #children
        #deletion
        #daemon
        #crd
        let #builder = #builder.arguments();
        #(#arguments)*
        #call
        #outcome
        #runtime::Program::add(__program, #builder);
    }
}

/// A `main` that runs this controller, and an item whose name explains the error for a second one.
fn main(model: &Model<'_>) -> TokenStream {
    let Model { runtime, handler, .. } = model;
    let Handler { ident, type_name, conditions, doc, .. } = handler;
    let advice = Ident::new(ADVICE, ident.span());
    let text = message!(
        "the generated `main` of `{ident}` is not at the root of the crate: \
         write `main = false` in its attribute and `kooper::main!(path::to::{type_name});` at the root"
    );
    quote! {
        #conditions
        #[doc(hidden)]
        mod #advice {}
        #conditions
        const _: () = #runtime::assert!(#runtime::at_crate_root(#runtime::module_path!()), #text);
        #conditions
        #runtime::main! { #(#doc)* #type_name }
    }
}

/// The name that rustc shows if two controllers of a crate generate a `main`.
pub(crate) const ADVICE: &str = "write_main_false_in_each_attribute_and_one_kooper_main_with_all_of_them";
