//! Validates the attribute: the rules that involve several values, and the function.

use proc_macro2::Span;
use syn::Type;

use crate::controller::args::Args;
use crate::controller::check::name_of;
use crate::controller::setting::Setting;
use crate::controller::signature::{Handler, Role};
use crate::support::crate_path::CratePath;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::text::text;
use crate::support::types::{last_word, optional, shared};

/// A validated webhook, from which code is generated.
pub(crate) struct Model<'a> {
    pub(crate) runtime: CratePath,
    pub(crate) role: Role,
    pub(crate) function: &'a Handler,
    pub(crate) kind: &'a Type,
    pub(crate) name: String,
    /// The object, the first argument.
    pub(crate) object: &'a Type,
    /// The arguments after it.
    pub(crate) others: &'a [Type],
    /// The settings that become calls of the builder unchanged.
    pub(crate) settings: &'a [Setting],
    /// `true` if the kind decides what happens while the webhook is away.
    pub(crate) is_own_kind: bool,
}

/// The arguments of handlers that write.
const WRITERS: [&str; 8] =
    ["Creator", "Applier", "OwnedApplier", "Patcher", "Deleter", "StatusWriter", "Evictor", "Recorder"];

/// Compares the values with each other and with the function, and notes all errors.
pub(crate) fn model<'a>(role: Role, args: &'a Args, function: &'a Handler, errors: &mut Errors) -> Option<Model<'a>> {
    if let Some(key) = args.key("overwrite").filter(|_| role == Role::Validate) {
        errors.add(key, message!("a validating webhook cannot change the object: remove `overwrite`"));
    }
    if let Some(key) = args.key("subresources").filter(|_| role == Role::Mutate) {
        let text = message!("a function that mutates is called only for the object itself: remove `subresources`");
        errors.add(key, text);
    }
    check_arguments(args, function, errors);
    check_deletion(role, args, function, errors);
    if role == Role::Mutate && function.output.is_none() {
        let kind = kind_text(role, args, function);
        errors.add(function.ident.span(), message!("a mutating webhook must return the object: write `-> {kind}`"));
    }
    let object = object(role, args, function, errors);
    let kind = kind(role, args, function, errors);
    let name = name_of("webhook", args, function, None, errors);
    let (object, others) = object?;
    Some(Model {
        runtime: CratePath::new(args.krate.as_ref().map(|path| &path.value)),
        role,
        function,
        kind: kind?,
        name: name?,
        object,
        others,
        settings: &args.settings,
        is_own_kind: args.key("failure").is_none(),
    })
}

/// The kind of the attribute, or else of the first argument.
fn kind_text(role: Role, args: &Args, function: &Handler) -> String {
    let of = |argument: &Type| match role {
        Role::Mutate => text(argument),
        _ => shared(optional(argument).unwrap_or(argument)).map_or_else(|| "Shop".to_owned(), text),
    };
    args.kind().map(text).or_else(|| function.arguments.first().map(of)).unwrap_or_else(|| "Shop".to_owned())
}

fn kind<'a>(role: Role, args: &'a Args, function: &Handler, errors: &mut Errors) -> Option<&'a Type> {
    if args.resource.is_none() && !args.tries("resource") {
        let (attribute, kind) = (role.attribute(), kind_text(role, args, function));
        let text = message!("`resource` is missing: write `#[{attribute}(resource = {kind})]` with your kind");
        errors.add(Span::call_site(), text);
    }
    args.kind()
}

/// The first argument, and the others.
fn object<'a>(role: Role, args: &Args, function: &'a Handler, errors: &mut Errors) -> Option<(&'a Type, &'a [Type])> {
    let found = function.arguments.split_first();
    if found.is_none() && !function.method {
        let (name, kind) = (&function.ident, kind_text(role, args, function));
        let signature = match role {
            Role::Mutate => format!("async fn {name}(mut object: {kind}) -> {kind}"),
            _ => format!("async fn {name}(new: Arc<{kind}>) -> Result<(), Denied>"),
        };
        errors
            .add(function.ident.span(), message!("the first argument of a webhook is the object: write `{signature}`"));
    }
    found
}

/// The arguments after the object.
fn check_arguments(args: &Args, function: &Handler, errors: &mut Errors) {
    let creates_only = matches!(&args.operations[..], [only] if only == "create");
    // Without a list of operations, those of the default.
    let creates = args.operations.is_empty() || args.operation("create").is_some();
    let kind = args.kind().map(last_word);
    for argument in function.arguments.iter().skip(1) {
        let name = last_word(argument);
        let old = optional(argument).and_then(shared);
        if creates_only && old.is_some() {
            let text = message!("a creation has no old object: remove the argument, or add `update` to `operations`");
            errors.add(Place::of(argument), text);
        } else if let Some(object) = shared(argument).filter(|object| kind.as_ref() == Some(&last_word(object)))
            && name == "Arc"
        {
            let object = text(object);
            let text = if creates {
                message!("a creation has no old object: write `Option<Arc<{object}>>`")
            } else {
                message!("the old object is optional, whatever the operations are: write `Option<Arc<{object}>>`")
            };
            errors.add(Place::of(argument), text);
        } else if WRITERS.contains(&name.as_str()) {
            let text = message!("a webhook has no `{name}`: write objects in a controller");
            errors.add(Place::of(argument), text);
        } else if name == "Call" {
            errors.add(Place::of(argument), message!("`Call` is an argument of handlers: take `Admission` instead"));
        }
    }
}

/// There is no new object in a deletion.
fn check_deletion(role: Role, args: &Args, function: &Handler, errors: &mut Errors) {
    let Some(delete) = args.operation("delete") else { return };
    if role == Role::Mutate {
        errors.add(delete.span(), message!("an object that is being deleted cannot be changed: remove `delete`"));
    } else if let Some(first) = function.arguments.first().filter(|first| last_word(first) == "Arc") {
        let ty = text(first);
        let text = message!(
            "a deletion has no new object: write `Option<{ty}>`, and take the deleted object as another `Option<{ty}>`"
        );
        errors.add(Place::of(first), text);
    }
}
