//! The function that becomes a test.

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, FnArg, Signature, Type, Visibility};

use crate::controller::signature::check_words;
use crate::support::errors::{Errors, message};
use crate::support::place::{Place, first_word};
use crate::support::text::text;
use crate::support::types::plain;

/// The function that becomes a test. What is between its braces is not read.
pub(crate) struct Body {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) signature: Signature,
    pub(crate) block: TokenStream,
    /// `true` if it has a `self` parameter.
    pub(crate) method: bool,
}

impl Body {
    /// Reads the function below an attribute of this name, and notes what no test may have. `None`: it is not a
    /// function.
    pub(crate) fn parse(attribute: &str, item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        let read = |input: ParseStream<'_>| {
            let attributes = input.call(Attribute::parse_outer)?;
            Ok((attributes, input.parse::<Visibility>()?, input.parse::<Signature>()?, input.parse::<TokenStream>()?))
        };
        let Ok((attributes, vis, signature, block)) = read.parse2(item.clone()) else {
            errors.add(
                first_word(item),
                message!("expected an async function: write `#[kooper::{attribute}]` above an `async fn`"),
            );
            return None;
        };
        for other in &attributes {
            if other.path().segments.last().is_some_and(|last| last.ident == "test" || last.ident == "explore") {
                errors.add(
                    Place::of(other),
                    message!("`#[kooper::{attribute}]` already makes the function a test: remove this attribute"),
                );
            }
            if other.path().is_ident("should_panic") {
                errors.add(
                    Place::of(other),
                    message!("a test returns an exit code and cannot have `#[should_panic]`: expect an error instead"),
                );
            }
        }
        let name = &signature.ident;
        if signature.asyncness.is_none() {
            errors.add(signature.fn_token.span, message!("a test must be async: write `async fn {name}`"));
        }
        check_words("test", &signature, errors);
        if !signature.generics.params.is_empty() {
            errors.add(
                Place::of(&signature.generics.params),
                message!("a test cannot have generic parameters: remove them"),
            );
        }
        let method = signature.receiver().is_some();
        if let Some(receiver) = signature.receiver() {
            errors.add(receiver.self_token.span, message!("a test cannot be a method: move it out of the `impl`"));
        }
        check_argument(&signature, errors);
        Some(Self { attributes, vis, signature, block, method })
    }
}

/// Notes what is wrong with the only argument.
fn check_argument(signature: &Signature, errors: &mut Errors) {
    let name = &signature.ident;
    let mut arguments = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(argument) => Some(argument),
        FnArg::Receiver(_) => None,
    });
    let Some(first) = arguments.next() else {
        if signature.receiver().is_none() {
            errors.add(name.span(), message!("a test takes its cluster: write `async fn {name}(cluster: Cluster)`"));
        }
        return;
    };
    for other in arguments {
        errors.add(Place::of(other), message!("a test takes its cluster and nothing else: remove this argument"));
    }
    if let Type::Reference(reference) = plain(&first.ty) {
        let owned = text(&reference.elem);
        errors.add(Place::of(&first.ty), message!("a test takes its cluster by value: write `{owned}`"));
    }
}
