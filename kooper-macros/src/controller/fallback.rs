//! The expansion after an error. It prevents further messages.

use proc_macro2::TokenStream;
use quote::quote;

use crate::controller::args::Args;
use crate::controller::check::type_name;
use crate::controller::emit::generated_type;
use crate::controller::keys::{CONTROLLER, TASK};
use crate::controller::mentioned;
use crate::controller::signature::{Handler, Role};
use crate::support::crate_path::CratePath;

/// The errors, the item as written, a type without controllers and an empty `main`.
pub(crate) fn controller(
    role: Role,
    item: &TokenStream,
    args: &Args,
    handler: Option<&Handler>,
    error: Option<syn::Error>,
) -> TokenStream {
    let conditions = handler.map(|handler| &handler.conditions);
    let errors = error.into_iter().flatten().map(|error| error.to_compile_error());
    let errors = quote!(#(#conditions #errors)*);
    if handler.is_some_and(|handler| handler.method) {
        // No other item is allowed beside a method.
        return quote!(#errors #item);
    }
    let runtime = CratePath::new(args.krate.as_ref().map(|path| &path.value));
    let ty = handler.map(|handler| empty(role, &runtime, args, handler));
    let table = if role == Role::Task { &TASK } else { &CONTROLLER };
    let mentioned = mentioned::imports(table, handler, &args.entries);
    let keys = completions(&runtime, args);
    let main = args.main.is_none().then(|| {
        quote!(
            #conditions
            fn main() {}
        )
    });
    // A handler named `main` would be an async `main`, which the compiler would report, too.
    let item = match handler {
        Some(handler) if handler.ident == "main" => quote!(const _: () = { #item };),
        _ => quote!(#item),
    };
    quote!(#errors #item #ty #mentioned #keys #main)
}

/// An import of each unknown key from a module of all keys, so that editors can complete it. The
/// runtime expands it in editors only.
fn completions(runtime: &CratePath, args: &Args) -> TokenStream {
    let unknown = args.entries.iter().filter(|entry| entry.key.is_none()).filter_map(|entry| entry.word.as_ref());
    quote!(#(#runtime::complete!(#unknown);)*)
}

fn empty(role: Role, runtime: &CratePath, args: &Args, handler: &Handler) -> TokenStream {
    let conditions = &handler.conditions;
    let name = type_name(args, handler);
    let method = match role {
        Role::Task => "task",
        _ if args.lists_kinds() => "controllers",
        _ => "controller",
    };
    let ty = generated_type(runtime, conditions, &handler.vis, &name, method);
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
