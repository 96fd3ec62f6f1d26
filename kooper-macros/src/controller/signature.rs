//! The annotated fn, as far as it concerns its controller.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned as _;
use syn::{Attribute, FnArg, GenericParam, Generics, ReturnType, Safety, Signature, Type, TypeParam, Visibility};

use crate::controller::value::plain;
use crate::support::errors::{Errors, say};

/// A fn that may be a handler. Its body is never looked at.
pub(crate) struct Handler {
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
    /// The types of its arguments.
    pub(crate) arguments: Vec<Type>,
    /// What it returns, when that is written.
    pub(crate) output: Option<Type>,
    /// Whether it takes `self`, so that nothing can stand beside it.
    pub(crate) method: bool,
}

impl Handler {
    /// Reads the fn and notes what no handler may have. `None`: it is no fn at all.
    pub(crate) fn parse(item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        let span = item.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span());
        let head = |input: ParseStream<'_>| {
            input.call(Attribute::parse_outer)?;
            let vis: Visibility = input.parse()?;
            let signature: Signature = input.parse()?;
            let _body: TokenStream = input.parse()?;
            Ok((vis, signature))
        };
        let Ok((vis, signature)) = head.parse2(item.clone()) else {
            errors.add(span, say!("a handler is an async fn: write `#[controller(…)]` above one"));
            return None;
        };
        check_head(&signature, errors);
        let method = signature.receiver().is_some();
        let arguments = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(argument) => Some((*argument.ty).clone()),
            FnArg::Receiver(_) => None,
        });
        let arguments: Vec<Type> = arguments.collect();
        for argument in &arguments {
            check_argument(argument, errors);
        }
        let output = match signature.output {
            ReturnType::Type(_, output) => Some(*output),
            ReturnType::Default => None,
        };
        if let Some(word) = output.as_ref().and_then(|output| find_impl(output.to_token_stream())) {
            errors.add(word, say!("a handler's return type is written out: write it such as `Result<()>`"));
        }
        Some(Self { vis, ident: signature.ident, generics: signature.generics, arguments, output, method })
    }

    /// The type parameter of a generic handler.
    pub(crate) fn type_parameter(&self) -> Option<&TypeParam> {
        self.generics.type_params().next()
    }
}

fn check_head(signature: &Signature, errors: &mut Errors) {
    let name = &signature.ident;
    if let Some(receiver) = signature.receiver() {
        errors.add(
            receiver.self_token.span,
            say!("a handler has no `self`: write a free fn, and `State<S>` for what it shares"),
        );
    }
    if signature.asyncness.is_none() {
        errors.add(signature.fn_token.span, say!("a handler is async: write `async fn {name}`"));
    }
    let words = [
        signature.constness.map(|word| word.span),
        match signature.safety {
            Safety::Safe(word) => Some(word.span),
            Safety::Unsafe(word) => Some(word.span),
            Safety::Default => None,
        },
        signature.abi.as_ref().map(|abi| abi.extern_token.span),
        signature.variadic.as_ref().map(|variadic| variadic.dots.span()),
    ];
    for word in words.into_iter().flatten() {
        errors.add(word, say!("a handler is an ordinary async fn: write `async fn {name}` without this"));
    }
    let mut type_parameters = 0_usize;
    for parameter in &signature.generics.params {
        type_parameters += usize::from(matches!(parameter, GenericParam::Type(_)));
        if type_parameters > 1 || !matches!(parameter, GenericParam::Type(_)) {
            errors.add(
                parameter.span(),
                say!("a generic handler has one parameter, the kind: write `async fn {name}<K: Kind>(…)`"),
            );
        }
    }
}

fn check_argument(argument: &Type, errors: &mut Errors) {
    if let Type::Reference(reference) = plain(argument) {
        let lent = reference.elem.to_token_stream();
        errors.add(
            reference.and_token.span,
            say!("a handler owns its arguments: write `Arc<{lent}>` for an object, or an argument without `&`"),
        );
    } else if let Some(word) = find_impl(argument.to_token_stream()) {
        errors.add(word, say!("a handler's arguments are chosen by their types: write the type in place of `impl …`"));
    }
}

/// Where `impl` stands in a type.
fn find_impl(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "impl" => Some(ident.span()),
        TokenTree::Group(group) => find_impl(group.stream()),
        _ => None,
    })
}
