//! `#[kooper::explore]`: an async function becomes a scenario that is explored.

mod args;

use proc_macro2::TokenStream;
use quote::quote;

use self::args::Args;
use crate::support::crate_path::CratePath;
use crate::support::errors::Errors;
use crate::test::body::Body;
use crate::test::{definitions, rejected, test_fn};

/// Expands the attribute and the item below it.
pub(crate) fn expand(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = Args::parse(attribute, &mut errors);
    let body = Body::parse("explore", item, &mut errors);
    match (errors.check(), body) {
        (Ok(()), Some(body)) => emit(&args, &body),
        (result, body) => rejected(result.err().into_iter().flatten(), body.as_ref(), item),
    }
}

/// A test that explores the function.
fn emit(args: &Args, body: &Body) -> TokenStream {
    let runtime = CratePath::new(args.krate.as_ref());
    let given = &body.signature.ident;
    let name = format!("::{given}");
    let controllers = definitions(&runtime, args.settings.as_ref(), &args.controllers);
    let (states, ignored) = (&args.states, &args.ignored);
    let (limit, seed) = (args.limit.iter(), args.seed.iter());
    let run = quote! {
        #runtime::explore(
            ::core::concat!(::core::module_path!(), #name),
            #controllers,
            // The method exists where tokio has its feature `test-util`.
            |runtime| { runtime.start_paused(true); },
            |__exploration| __exploration
                #(.state(#states))* #(.ignore(#ignored))* #(.limit(#limit))* #(.seed(#seed))*,
            #given,
        )
    };
    test_fn(body, &runtime, &run)
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
    fn a_state_may_have_the_name_of_anything() {
        let item = quote! { async fn a_shop_opens(cluster: Cluster) {} };
        let code = expanded(quote!(shops, states = [exploration()]), &item);
        assert!(code.contains(".state(exploration())") && !code.contains("|exploration|"), "{code}");
    }

    #[test]
    fn an_exploration_with_every_key() {
        let item = quote! {
            /// What it shows.
            async fn a_shop_opens(cluster: Cluster) -> Result<()> {
                Ok(())
            }
        };
        let attribute = quote!(
            shops,
            orders::orders,
            states = [small(), large()],
            ignore = ["status.opened"],
            limit = 100,
            seed = 1,
            settings = ShopSettings { greeting: "hi".into() },
            crate = platform::kooper
        );
        insta::assert_snapshot!(expanded(attribute, &item));
    }
}
