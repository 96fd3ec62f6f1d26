//! `#[kooper::test]`: an async function becomes a test with a cluster of its own.

mod args;
pub(crate) mod body;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, Path};

use self::args::Args;
use self::body::Body;
use crate::support::crate_path::CratePath;
use crate::support::errors::Errors;

/// Expands the attribute and the item below it.
pub(crate) fn expand(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = Args::parse(attribute, &mut errors);
    let body = Body::parse("test", item, &mut errors);
    match (errors.check(), body) {
        (Ok(()), Some(body)) => emit(&args, &body),
        (result, body) => rejected(result.err().into_iter().flatten(), body.as_ref(), item),
    }
}

/// The item as it was written, below the errors.
pub(crate) fn rejected(
    errors: impl Iterator<Item = syn::Error>,
    body: Option<&Body>,
    item: &TokenStream,
) -> TokenStream {
    let errors = errors.map(|error| error.to_compile_error());
    // Where it is a function, nothing calls it; beside a method nothing else may be.
    let unused = body.filter(|body| !body.method).map(|_| quote!(#[allow(dead_code)]));
    quote!(#(#errors)* #unused #item)
}

/// The definitions of a test's program: its settings and its controllers.
pub(crate) fn definitions(runtime: &CratePath, settings: Option<&Expr>, controllers: &[Path]) -> TokenStream {
    let settings = settings.iter().map(|settings| quote!(|__program| #runtime::Program::give(__program, #settings)));
    quote!(&[#(#settings,)* #(<#controllers as #runtime::Definition>::define),*])
}

/// A test that calls the function.
fn emit(args: &Args, body: &Body) -> TokenStream {
    let runtime = CratePath::new(args.krate.as_ref());
    let given = &body.signature.ident;
    let controllers = definitions(&runtime, args.settings.as_ref(), &args.controllers);
    let run = match &args.start_paused {
        // The method exists where tokio has its feature `test-util`: its absence is reported at the key.
        Some(key) => quote!(#runtime::paused_test(#controllers, |runtime| { runtime.#key(true); }, #given)),
        None => quote!(#runtime::test(#controllers, #given)),
    };
    test_fn(body, &runtime, &run)
}

/// A test of the function's name, which holds the function and what runs it.
pub(crate) fn test_fn(body: &Body, runtime: &CratePath, run: &TokenStream) -> TokenStream {
    let Body { attributes, vis, signature, block, .. } = body;
    let ident = &signature.ident;
    quote! {
        #(#attributes)*
        #[::core::prelude::v1::test]
        #vis fn #ident() -> #runtime::ExitCode {
            #runtime::require_apiserver!();
            #signature #block
            #run
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::expand;

    fn expanded(attribute: proc_macro2::TokenStream, item: &proc_macro2::TokenStream) -> String {
        let tokens = expand(attribute, item).to_string();
        prettyplease::unparse(&syn2::parse_file(&tokens).expect("an expansion is a file of Rust"))
    }

    #[test]
    fn a_test_with_controllers() {
        let item = quote! {
            /// What it shows.
            #[ignore]
            async fn a_shop_opens(cluster: Cluster) -> Result<()> {
                Ok(())
            }
        };
        insta::assert_snapshot!(expanded(quote!(shops, orders::orders), &item));
    }

    #[test]
    fn a_test_with_every_key() {
        let item = quote! {
            async fn a_shop_opens(cluster: Cluster) {}
        };
        let attribute = quote!(
            shops,
            start_paused = true,
            settings = ShopSettings { greeting: "hi".into() },
            crate = platform::kooper
        );
        insta::assert_snapshot!(expanded(attribute, &item));
    }
}
