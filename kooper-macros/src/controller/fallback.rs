//! The expansion after an error. It prevents further messages.

use proc_macro2::TokenStream;
use quote::quote;

use crate::controller::args::Args;
use crate::controller::emit::{controllers_fn, generated_type};
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
    let runtime = CratePath::new(args.krate.as_ref().map(|path| &path.value));
    // The attribute below generates the type and the `main`.
    let repeated = handler.is_some_and(|handler| handler.repeated);
    let ty = handler.filter(|_| !repeated).map(|handler| empty(role, &runtime, args, handler));
    let table = if role == Role::Task { &TASK } else { &CONTROLLER };
    let mentioned = mentioned::imports(table, handler, &args.entries);
    let keys = completions(&runtime, args);
    let main = (args.main.is_none() && !repeated).then(|| {
        quote!(
            #conditions
            fn main() {}
        )
    });
    rejected(item, handler, error, &quote!(#ty #mentioned #keys #main))
}

/// The errors, the item as written, and what is beside it.
pub(crate) fn rejected(
    item: &TokenStream,
    function: Option<&Handler>,
    error: Option<syn::Error>,
    beside: &TokenStream,
) -> TokenStream {
    let conditions = function.map(|function| &function.conditions);
    let errors = error.into_iter().flatten().map(|error| error.to_compile_error());
    let errors = quote!(#(#conditions #errors)*);
    match function {
        // No other item is allowed beside a method.
        Some(function) if function.method => quote!(#errors #item),
        // A function named `main` would be an async `main`, which the compiler would report, too.
        Some(function) if function.ident == "main" => quote!(#errors const _: () = { #item }; #beside),
        _ => quote!(#errors #item #beside),
    }
}

/// An import of each unknown key from a module of all keys, so that editors can complete it. The
/// runtime expands it in editors only.
fn completions(runtime: &CratePath, args: &Args) -> TokenStream {
    let unknown = args.entries.iter().filter(|entry| entry.key.is_none()).filter_map(|entry| entry.word.as_ref());
    quote!(#(#runtime::complete!(#unknown);)*)
}

fn empty(role: Role, runtime: &CratePath, args: &Args, handler: &Handler) -> TokenStream {
    let method = match role {
        Role::Task => "task",
        _ if args.lists_kinds() => "controllers",
        _ => "controller",
    };
    let controllers = controllers_fn(runtime, handler, method);
    let define = quote!(fn define(_: &mut #runtime::Program) {});
    generated_type(runtime, handler, &controllers, &define)
}
