//! The code of a webhook. It holds no logic: calls of the builder, each a statement.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::controller::args::Args;
use crate::controller::emit::calls::Calls;
use crate::controller::emit::generated_type;
use crate::controller::fallback::rejected;
use crate::controller::mentioned;
use crate::controller::signature::{Handler, Role};
use crate::support::crate_path::CratePath;
use crate::support::place::Place;
use crate::webhook::check::Model;
use crate::webhook::keys::WEBHOOK;

/// The function as written, and the type of its webhook.
pub(crate) fn webhook(item: &TokenStream, model: &Model<'_>) -> TokenStream {
    let ty = definition(&model.runtime, model.function, &builder(model));
    quote! {
        // Each argument gives something: there are as many as the function needs.
        #[allow(clippy::too_many_arguments)]
        #item
        #ty
    }
}

/// The errors, the item as written, and a type without a webhook.
pub(crate) fn fallback(
    item: &TokenStream,
    args: &Args,
    function: Option<&Handler>,
    error: Option<syn::Error>,
) -> TokenStream {
    let runtime = CratePath::new(args.krate.as_ref().map(|path| &path.value));
    let ty = function.filter(|function| !function.repeated);
    let ty = ty.map(|function| definition(&runtime, function, &quote!(let _ = __program;)));
    let mentioned = mentioned::imports(&WEBHOOK, function, &args.entries);
    rejected(item, function, error, &quote!(#ty #mentioned))
}

/// The type with the function's name, and its webhook.
fn definition(runtime: &CratePath, function: &Handler, define: &TokenStream) -> TokenStream {
    let vis = &function.vis;
    let webhook = quote! {
        /// The webhook of the function.
        ///
        /// # Errors
        /// An error in its settings.
        #[allow(dead_code)]
        #vis fn webhook() -> #runtime::Result<#runtime::webhooks::Webhook, #runtime::webhooks::ConfigError> {
            #runtime::Program::webhook::<Self>()
        }
    };
    let define = quote! {
        fn define(__program: &mut #runtime::Program) {
            #define
        }
    };
    generated_type(runtime, function, &webhook, &define)
}

/// The statements from the kind to the finished builder.
fn builder(model: &Model<'_>) -> TokenStream {
    let Model { runtime, role, function, kind, name, object, others, settings, is_own_kind, .. } = model;
    let calls = Calls { runtime, module: Some("webhooks"), ident: &function.ident };
    let (begin, first, outcome) = match role {
        Role::Mutate => ("mutate", "mutated_object", "mutated"),
        _ => ("validate", "new_object", "validated"),
    };
    let begin = calls.begin(begin, &kind.to_token_stream(), &quote!(#name));
    let own_kind = is_own_kind.then(|| calls.spread(Place::of(kind), "own_kind"));
    let settings = calls.settings(settings.iter());
    let first = calls.spread(Place::of(object), first);
    let others = others.iter().map(|ty| calls.spread(Place::of(ty), "argument"));
    let call = calls.function(None, function.arguments.len());
    let place = function.output.as_ref().map_or_else(|| function.ident.span().into(), Place::of);
    let outcome = calls.spread(place, outcome);
    let builder = calls.variable(Place::of(kind).start);
    quote! {
        #begin
        #settings
        let #builder = #builder.arguments();
        #own_kind
        #first
        #(#others)*
        #call
        #outcome
        #runtime::Program::add_webhook(__program, #builder);
    }
}
