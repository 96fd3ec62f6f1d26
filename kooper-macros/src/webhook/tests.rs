//! Expansions as a whole.

use proc_macro2::TokenStream;
use quote::quote;

use super::expand;
use crate::controller::signature::Role;

/// An expansion as a formatted file.
fn expanded(role: Role, attribute: TokenStream, item: &TokenStream) -> String {
    let tokens = expand(role, attribute, item).to_string();
    prettyplease::unparse(&syn2::parse_file(&tokens).expect("an expansion is a file of Rust"))
}

fn check() -> TokenStream {
    quote! {
        /// Checks a shop.
        #[cfg(feature = "shops")]
        pub(crate) async fn check(new: Arc<v1::Shop>, old: Option<Arc<v1::Shop>>, request: Admission) -> Result<(), Denied> {
            Ok(())
        }
    }
}

fn with_every_key() -> (TokenStream, TokenStream) {
    let attribute = quote! {
        resource = ConfigMap, name = "fill-motto", operations = [create], failure = ignore, timeout = "2s", overwrite,
        match_conditions = [("named", "has(object.metadata.name)")], namespace_selector = "tier=gold",
        init = connect, rbac("pods/log: get"), type_name = Fill,
    };
    let item = quote! {
        async fn fill(mut object: ConfigMap, db: State<Db>, client: Client) -> ConfigMap {
            object
        }
    };
    (attribute, item)
}

#[test]
fn a_webhook_that_validates() {
    insta::assert_snapshot!(expanded(Role::Validate, quote!(resource = v1::Shop), &check()));
}

#[test]
fn a_webhook_that_mutates_with_every_key() {
    let (attribute, item) = with_every_key();
    insta::assert_snapshot!(expanded(Role::Mutate, attribute, &item));
}

#[test]
fn the_fallback_after_an_error() {
    insta::assert_snapshot!(expanded(Role::Validate, quote!(resource = v1::Shop, overwrite, banana), &check()));
}

#[test]
fn a_custom_path_is_the_only_path_to_kooper() {
    let (attribute, item) = with_every_key();
    for tokens in [
        expand(Role::Mutate, quote!(crate = my::platform, #attribute), &item),
        expand(Role::Validate, quote!(crate = my::platform, resource = Shop), &check()),
        expand(Role::Validate, quote!(crate = my::platform, banana), &check()),
    ] {
        let tokens = tokens.to_string();
        assert!(!tokens.contains(":: kooper"), "{tokens}");
        assert!(tokens.contains("my :: platform :: __private :: v1"), "{tokens}");
    }
}

#[test]
fn the_fn_is_emitted_as_written() {
    let item = check().to_string();
    for attribute in [quote!(resource = Shop), quote!(), quote!(resource = [Shop], timeout = 1)] {
        assert!(expand(Role::Validate, attribute, &check()).to_string().contains(&item));
    }
}
