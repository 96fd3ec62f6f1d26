//! What is emitted when something is wrong, so that nothing else is reported.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Type;

use crate::controller::args::{Args, Resource};
use crate::controller::check::type_name;
use crate::controller::emit::generated_type;
use crate::controller::signature::Handler;
use crate::support::crate_path::CratePath;

/// The errors, the item as it was written, a type that defines nothing and an empty `main`.
pub(crate) fn controller(
    item: &TokenStream,
    args: &Args,
    handler: Option<&Handler>,
    error: Option<&syn::Error>,
) -> TokenStream {
    let errors = error.map(syn::Error::to_compile_error);
    if handler.is_some_and(|handler| handler.method) {
        // Beside a method nothing else may stand.
        return quote!(#errors #item);
    }
    let ty = handler.map(|handler| empty(args, handler));
    let kinds = kinds(args);
    let main = args.main.is_none().then(|| {
        quote!(
            fn main() {}
        )
    });
    quote!(#errors #item #ty #kinds #main)
}

/// The kinds, named once, so that their imports count as used.
fn kinds(args: &Args) -> TokenStream {
    let kinds: &[Type] = match args.resource.as_ref().map(|resource| &resource.value) {
        Some(Resource::One(kind)) => std::slice::from_ref(kind),
        Some(Resource::Each(kinds)) => kinds,
        None => &[],
    };
    let owned = args.owns.iter().flat_map(|owns| &owns.value);
    let watched = args.watches.iter().flat_map(|watches| &watches.value).map(|(kind, _)| kind);
    let kinds = kinds.iter().chain(owned).chain(watched).map(|kind| {
        quote! {
            const _: () = {
                #[allow(dead_code)]
                type __Kind = #kind;
            };
        }
    });
    kinds.collect()
}

fn empty(args: &Args, handler: &Handler) -> TokenStream {
    let runtime = CratePath::new(args.krate.as_ref().map(|path| &path.value));
    let name = type_name(args, handler);
    let resource = args.resource.as_ref().map(|resource| &resource.value);
    let ty = generated_type(&runtime, &handler.vis, &name, !matches!(resource, Some(Resource::Each(_))));
    quote! {
        #ty
        const _: () = {
            #[automatically_derived]
            impl #runtime::Definition for #name {
                fn define(_: &mut #runtime::Program) {}
            }
        };
    }
}
