//! What is emitted when something is wrong, so that nothing else is reported.

use proc_macro2::TokenStream;
use quote::quote;

use crate::controller::args::Args;
use crate::controller::check::type_name;
use crate::controller::emit::generated_type;
use crate::controller::mentioned;
use crate::controller::signature::Handler;
use crate::support::crate_path::CratePath;

/// The errors, the item as it was written, a type that defines nothing and an empty `main`.
pub(crate) fn controller(
    item: &TokenStream,
    args: &Args,
    handler: Option<&Handler>,
    error: Option<syn::Error>,
) -> TokenStream {
    let conditions = handler.map(|handler| &handler.conditions);
    let errors = error.into_iter().flatten().map(|error| error.to_compile_error());
    let errors = quote!(#(#conditions #errors)*);
    if handler.is_some_and(|handler| handler.method) {
        // Beside a method nothing else may stand.
        return quote!(#errors #item);
    }
    let runtime = CratePath::new(args.krate.as_ref().map(|path| &path.value));
    let ty = handler.map(|handler| empty(&runtime, args, handler));
    let mentioned = mentioned::imports(conditions, args);
    let keys = completions(&runtime, args);
    let main = args.main.is_none().then(|| {
        quote!(
            #conditions
            fn main() {}
        )
    });
    // A handler of this name is no program, and the compiler would add that it is async.
    let item = match handler {
        Some(handler) if handler.ident == "main" => quote!(const _: () = { #item };),
        _ => quote!(#item),
    };
    quote!(#errors #item #ty #mentioned #keys #main)
}

/// What lets an editor complete a key: where one is not known, the runtime imports it from a module
/// of all keys, but only in an editor.
fn completions(runtime: &CratePath, args: &Args) -> TokenStream {
    let unknown = args.entries.iter().filter(|entry| entry.key.is_none()).filter_map(|entry| entry.word.as_ref());
    quote!(#(#runtime::complete!(#unknown);)*)
}

fn empty(runtime: &CratePath, args: &Args, handler: &Handler) -> TokenStream {
    let conditions = &handler.conditions;
    let name = type_name(args, handler);
    let ty = generated_type(runtime, conditions, &handler.vis, &name, !args.lists_kinds());
    quote! {
        #ty
        #conditions
        const _: () = {
            #[automatically_derived]
            impl #runtime::Definition for #name {
                fn define(_: &mut #runtime::Program) {}
            }
        };
    }
}
