//! The signature of the annotated function.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, FnArg, GenericParam, Generics, Meta, PatType, ReturnType, Safety, Signature, Token, Type, TypeParam,
    Visibility,
};

use crate::controller::args::Args;
use crate::support::errors::{Errors, message};
use crate::support::place::{Place, first_word};
use crate::support::text::text;
use crate::support::types::{last_word, plain};

/// The thing that an annotated function becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Controller,
    Task,
    Validate,
    Mutate,
}

impl Role {
    /// The name of the attribute.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Task => "task",
            Self::Validate => "validate",
            Self::Mutate => "mutate",
        }
    }

    /// The name of the function in messages.
    fn noun(self) -> &'static str {
        match self {
            Self::Controller => "handler",
            Self::Task => "task",
            Self::Validate | Self::Mutate => "webhook",
        }
    }
}

/// A function that may be a handler or a webhook. Its body is not inspected.
pub(crate) struct Handler {
    /// Its `#[cfg]` attributes.
    pub(crate) conditions: TokenStream,
    /// The lints that are allowed in it, for the generated code that names the function and its kind.
    pub(crate) lints: TokenStream,
    /// Its doc comment.
    pub(crate) doc: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    /// The name of the generated type: that of the attribute, or else that of the function.
    pub(crate) type_name: Ident,
    pub(crate) generics: Generics,
    /// The types of its arguments.
    pub(crate) arguments: Vec<Type>,
    /// Its return type, if written.
    pub(crate) output: Option<Type>,
    /// `true` if it is in an `impl`, where no other item can be generated beside it.
    pub(crate) method: bool,
    /// `true` if another attribute of this crate is below this one, and both would generate the type with the function's
    /// name.
    pub(crate) repeated: bool,
}

impl Handler {
    /// Parses the function and notes what is not allowed in its role; `None` if it is not a function. `args` are those of
    /// the attribute.
    pub(crate) fn parse(role: Role, item: &TokenStream, args: &Args, errors: &mut Errors) -> Option<Self> {
        let head = |input: ParseStream<'_>| {
            let attributes = input.call(Attribute::parse_outer)?;
            let vis: Visibility = input.parse()?;
            let signature: Signature = input.parse()?;
            let _body: TokenStream = input.parse()?;
            Ok((attributes, vis, signature))
        };
        let Ok((attributes, vis, signature)) = head.parse2(item.clone()) else {
            let attribute = role.attribute();
            errors.add(
                first_word(item),
                message!("expected an async function: write `#[{attribute}(…)]` above an `async fn`"),
            );
            return None;
        };
        let (noun, name) = (role.noun(), role.attribute());
        let names_no_type =
            |other: &&Attribute| !args.tries("type_name") && find_word("type_name", other.to_token_stream()).is_none();
        let other = attributes.iter().filter(|attribute| is_role(attribute)).find(names_no_type);
        if let Some(other) = other {
            errors.add(
                Place::of(other),
                message!("`#[{name}]` already makes the function a {noun}: write another function for this attribute"),
            );
        }
        let repeated = other.is_some();
        check_head(role, &signature, errors);
        let method = check_place(role, &signature, errors);
        let parameter = || signature.generics.type_params().next().map(|kind| kind.ident.to_string());
        let kind = args.kind().map(last_word).or_else(parameter).unwrap_or_default();
        let lacks_parameter = args.lists_kinds() && kind.is_empty();
        for (at, argument) in signature.inputs.iter().enumerate() {
            if let FnArg::Typed(argument) = argument {
                check_argument(role, at, argument, &kind, lacks_parameter, errors);
            }
        }
        let arguments = signature.inputs.into_iter().filter_map(|input| match input {
            FnArg::Typed(argument) => Some(*argument.ty),
            FnArg::Receiver(_) => None,
        });
        let arguments = arguments.collect();
        let output = match signature.output {
            ReturnType::Type(_, output) => Some(*output),
            ReturnType::Default => None,
        };
        // Without `async` only the compiler knows whether it returns a future.
        let written = output.as_ref().filter(|_| signature.asyncness.is_some());
        if let Some(word) = written.and_then(|output| find_word("impl", output.to_token_stream())) {
            errors.add(word, message!("the return type of a {noun} must be named: write one such as `Result<()>`"));
        }
        let conditions = attributes.iter().filter_map(condition).collect();
        let lints = attributes.iter().filter_map(allowed).collect();
        let is_doc =
            |attribute: &Attribute| attribute.path().is_ident("doc") && matches!(attribute.meta, Meta::NameValue(_));
        let doc = attributes.into_iter().filter(is_doc).collect();
        Some(Self {
            conditions,
            lints,
            doc,
            vis,
            type_name: args.type_name.as_ref().map_or_else(|| signature.ident.clone(), |name| name.value.clone()),
            ident: signature.ident,
            generics: signature.generics,
            arguments,
            output,
            method,
            repeated,
        })
    }

    /// The type parameter of a generic handler.
    pub(crate) fn type_parameter(&self) -> Option<&TypeParam> {
        self.generics.type_params().next()
    }
}

fn check_head(role: Role, signature: &Signature, errors: &mut Errors) {
    let (name, noun) = (&signature.ident, role.noun());
    if name == "main" {
        errors.add(name.span(), message!("`main` is the name of the generated program: give the {noun} another name"));
    }
    if signature.asyncness.is_none() && matches!(signature.output, ReturnType::Default) {
        errors.add(signature.fn_token.span, message!("a {noun} must be async: write `async fn {name}`"));
    }
    check_words(noun, signature, errors);
    let mut type_parameters = 0_usize;
    for parameter in &signature.generics.params {
        let is_type = matches!(parameter, GenericParam::Type(_));
        type_parameters += usize::from(is_type);
        let text = match role {
            Role::Controller if !is_type => {
                message!("a handler can be generic only over its kind: remove this parameter")
            }
            Role::Controller if type_parameters > 1 => {
                message!("a generic handler has one type parameter, the kind: write `async fn {name}<K: Kind>(…)`")
            }
            Role::Controller => continue,
            _ if !is_type => message!("a {noun} is not generic: remove this parameter"),
            Role::Task => message!("a task is not generic: write the type instead of a parameter"),
            Role::Validate | Role::Mutate => {
                message!("a webhook is for one kind: write the kind instead of a parameter")
            }
        };
        errors.add(Place::of(parameter), text);
    }
}

/// Notes the words that a plain async function does not have.
pub(crate) fn check_words(noun: &str, signature: &Signature, errors: &mut Errors) {
    let name = &signature.ident;
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
        errors.add(word, message!("a {noun} is a plain async function: write `async fn {name}` without this"));
    }
}

/// Returns `true`, and adds an error, if the signature shows that the function is in an `impl`.
fn check_place(role: Role, signature: &Signature, errors: &mut Errors) -> bool {
    let noun = role.noun();
    if let Some(receiver) = signature.receiver() {
        errors.add(
            receiver.self_token.span,
            message!("a {noun} cannot be a method: move it out of the `impl`, and take `State<S>` for shared values"),
        );
        return true;
    }
    let word = find_word("Self", signature.to_token_stream());
    if let Some(word) = word {
        errors.add(word, message!("a {noun} cannot be an associated function: move it out of the `impl`, and write the type instead of `Self`"));
    }
    word.is_some()
}

/// `lacks_parameter`: the attribute lists kinds, and the error for the list advises a type parameter instead of `impl`.
fn check_argument(role: Role, at: usize, argument: &PatType, kind: &str, lacks_parameter: bool, errors: &mut Errors) {
    let (ty, noun, name) = (&*argument.ty, role.noun(), role.attribute());
    let is_object = lacks_parameter && last_word(ty) == "Arc";
    if let Some(attribute) = argument.attrs.iter().find(|attribute| condition(attribute).is_some()) {
        errors.add(
            Place::of(attribute),
            message!(
                "an argument of a {noun} cannot have `#[cfg]`: write a function for each configuration, with `#[cfg]` below `#[{name}]`"
            ),
        );
    }
    if let Type::Reference(reference) = plain(ty) {
        let owned = owned(role, at, &reference.elem, kind);
        errors.add(Place::of(ty), message!("a {noun} takes its arguments by value: write {owned}"));
    } else if let Some(word) = find_word("impl", ty.to_token_stream()).filter(|_| !is_object) {
        errors.add(word, message!("arguments are extracted by their types: write the type instead of `impl …`"));
    }
}

/// The type to take instead of a reference: an object in an `Arc`, all other types by value.
fn owned(role: Role, at: usize, lent: &Type, kind: &str) -> String {
    let (name, written) = (last_word(lent), text(plain(lent)));
    if ARGUMENTS.contains(&name.as_str()) {
        format!("`{written}`")
    } else if role != Role::Controller {
        match (role, at) {
            (Role::Task, _) => "a type without `&`, such as `Reader<Pod>`".to_owned(),
            (Role::Mutate, 0) => format!("`{written}`"),
            (_, 0) => format!("`Arc<{written}>`"),
            _ if name == kind => format!("`Option<Arc<{written}>>`"),
            _ => "a type without `&`, such as `Admission`".to_owned(),
        }
    } else if name == kind || name == "PartialObjectMeta" || kind.is_empty() {
        format!("`Arc<{written}>`")
    } else {
        format!("a type without `&`, such as `Arc<{kind}>` or `Call`")
    }
}

/// The arguments beside the object, which are not the name of a kind.
pub(super) const ARGUMENTS: [&str; 18] = [
    "Admission",
    "Arc",
    "Call",
    "Children",
    "Client",
    "Clock",
    "State",
    "Settings",
    "Recorder",
    "Reader",
    "Getter",
    "Creator",
    "Applier",
    "OwnedApplier",
    "Patcher",
    "Deleter",
    "StatusWriter",
    "Evictor",
];

/// Returns `true` for an attribute that gives a function a role.
fn is_role(attribute: &Attribute) -> bool {
    let roles = [Role::Controller, Role::Task, Role::Validate, Role::Mutate];
    let path = &attribute.path().segments;
    // Other crates have attributes of these names, too, and others re-export ours.
    let is_ours = path.len() == 1 || path.iter().any(|segment| segment.ident == "kooper");
    is_ours && path.last().is_some_and(|last| roles.iter().any(|role| last.ident == role.attribute()))
}

/// The attribute if it decides whether the item is compiled; only that part of a `cfg_attr`.
fn condition(attribute: &Attribute) -> Option<TokenStream> {
    part(attribute, |meta| meta.path().is_ident("cfg").then(|| meta.to_token_stream()))
}

/// Allows the lints that the attribute allows, or expects: an expected one need not occur in the generated code. That
/// code names the function, also if it is deprecated.
fn allowed(attribute: &Attribute) -> Option<TokenStream> {
    part(attribute, |meta| match meta {
        Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => {
            let lints = &list.tokens;
            Some(quote!(allow(#lints)))
        }
        meta => meta.path().is_ident("deprecated").then(|| quote!(allow(deprecated))),
    })
}

/// The attribute that `of` makes of an attribute, or of those in a `cfg_attr`, with its predicate.
fn part(attribute: &Attribute, of: impl Fn(&Meta) -> Option<TokenStream>) -> Option<TokenStream> {
    if !attribute.path().is_ident("cfg_attr") {
        return of(&attribute.meta).map(|meta| quote!(#[#meta]));
    }
    let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut parts = parts.iter();
    let predicate = parts.next()?;
    let chosen: Vec<_> = parts.filter_map(of).collect();
    (!chosen.is_empty()).then(|| quote!(#[cfg_attr(#predicate, #(#chosen),*)]))
}

/// The place of a word in tokens.
fn find_word(word: &str, tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == word => Some(ident.span()),
        TokenTree::Group(group) => find_word(word, group.stream()),
        _ => None,
    })
}
