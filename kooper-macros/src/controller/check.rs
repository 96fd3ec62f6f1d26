//! From what was written to what holds: the rules that take more than one value.

mod reliable;

use kooper_grammar::{duration, name};
use proc_macro2::{Ident, Span};
use syn::{LitStr, PathSegment, Type};

use crate::controller::args::{Args, Resource};
use crate::controller::model::{Kinds, Model};
use crate::controller::signature::Handler;
use crate::controller::value::{inside, plain, resource_of};
use crate::support::crate_path::CratePath;
use crate::support::errors::{Errors, say};
use crate::support::place::Place;
use crate::support::text::text;

/// Compares the values with each other and with the fn, and notes all that does not fit.
pub(crate) fn model<'a>(args: &'a Args, handler: &'a Handler, errors: &mut Errors) -> Option<Model<'a>> {
    check_changes(args, errors);
    check_backoff(args, errors);
    check_retriever(args, errors);
    reliable::check(args, handler, errors);
    let namespaces = namespaces(args, errors);
    let kinds = kinds(args, handler, errors);
    reliable::check_former(args, &kinds.as_ref().map_or_else(Vec::new, Kinds::names), errors);
    let kinds = kinds?;
    Some(Model {
        runtime: CratePath::new(args.krate.as_ref().map(|path| &path.value)),
        handler: &handler.ident,
        vis: &handler.vis,
        conditions: &handler.conditions,
        type_name: type_name(args, handler),
        kinds,
        arguments: &handler.arguments,
        output: handler.output.as_ref(),
        args,
        namespaces,
        main: !args.has("main"),
    })
}

/// The name of the generated type.
pub(crate) fn type_name(args: &Args, handler: &Handler) -> Ident {
    args.type_name.as_ref().map_or_else(|| handler.ident.clone(), |name| name.value.clone())
}

fn check_changes(args: &Args, errors: &mut Errors) {
    let Some(changed) = &args.changed else { return };
    for (i, change) in changed.value.iter().enumerate() {
        let word = change.word;
        if changed.value.iter().take(i).any(|earlier| earlier.word == word) {
            errors.add(change.span, say!("`{word}` is listed twice: write it once"));
        } else if word == "any" && changed.value.len() > 1 {
            errors.add(change.span, say!("`any` means all the others too: write `changed = [any]`, or leave it out"));
        } else if word == "status" && args.metadata_only.is_some() {
            errors.add(
                change.span,
                say!("`metadata_only` retrieves no status: leave `status` out, or leave `metadata_only` out"),
            );
        }
    }
}

fn check_backoff(args: &Args, errors: &mut Errors) {
    let Some(backoff) = &args.backoff else { return };
    let (first, longest) = backoff.value;
    if first > longest {
        let (first, longest) = (duration::format(first), duration::format(longest));
        errors.add(
            backoff.place,
            say!(
                "the first delay, {first}, is longer than the longest, {longest}: write `(\"{longest}\", \"{first}\")`"
            ),
        );
    }
}

fn check_retriever(args: &Args, errors: &mut Errors) {
    if !args.has("retriever") {
        return;
    }
    let narrowing = [
        ("namespace", args.namespace.as_ref().map(|value| value.key)),
        ("namespaces", args.namespaces.as_ref().map(|value| value.key)),
        ("labels", args.labels.as_ref().map(|value| value.key)),
        ("fields", args.fields.as_ref().map(|value| value.key)),
    ];
    for (name, key) in narrowing {
        if let Some(key) = key {
            errors.add(key, say!("a retriever of your own decides what it retrieves: leave `{name}` out"));
        }
    }
}

fn namespaces(args: &Args, errors: &mut Errors) -> Option<(Vec<String>, Span)> {
    match (&args.namespace, &args.namespaces) {
        (Some(one), Some(_)) => {
            errors.add(
                one.key,
                say!("`namespace` and `namespaces` say the same thing: write all of them in `namespaces`"),
            );
            None
        }
        (Some(one), None) => Some((vec![one.value.clone()], one.key)),
        (None, Some(several)) => {
            for (i, name) in several.value.iter().enumerate() {
                if several.value.iter().take(i).any(|earlier| earlier.value() == name.value()) {
                    let text = name.value();
                    errors.add(name.span(), say!("the namespace \"{text}\" is listed twice: write it once"));
                }
            }
            Some((several.value.iter().map(LitStr::value).collect(), several.key))
        }
        (None, None) => None,
    }
}

fn kinds<'a>(args: &'a Args, handler: &'a Handler, errors: &mut Errors) -> Option<Kinds<'a>> {
    let Some(resource) = &args.resource else {
        if !args.tries("resource") {
            let kind = handler.arguments.iter().find_map(shared).map(resource_of);
            let setting = kind.unwrap_or_else(|| "resource = Pod".to_owned());
            errors.add(Span::call_site(), say!("no kind to handle: write `#[controller({setting})]` with your kind"));
        }
        return None;
    };
    let fn_name = &handler.ident;
    match (&resource.value, handler.type_parameter()) {
        (Resource::One(kind), None) => {
            let name = controller_name(args, handler, None, errors)?;
            Some(Kinds::One { kind, name })
        }
        (Resource::Each(kinds), Some(parameter)) => {
            let mut named: Vec<(&Type, String)> = Vec::with_capacity(kinds.len());
            for kind in kinds {
                let suffix = last_word(kind).to_lowercase();
                let name = controller_name(args, handler, Some((kind, &suffix)), errors)?;
                if named.iter().any(|(_, earlier)| *earlier == name) {
                    errors.add(
                        Place::of(kind),
                        say!("two controllers would be named \"{name}\": write a handler with a name of its own for this kind"),
                    );
                }
                named.push((kind, name));
            }
            Some(Kinds::Each { parameter: &parameter.ident, generics: &handler.generics, kinds: named })
        }
        (Resource::One(kind), Some(parameter)) => {
            let kind = text(kind);
            errors.add(
                Place::of(parameter),
                say!("a generic handler needs a list of kinds: write `resource = [{kind}]`, or the kind in place of the parameter"),
            );
            None
        }
        (Resource::Each(_), None) => {
            let object = if args.metadata_only.is_some() { "PartialObjectMeta<K>" } else { "K" };
            errors.add(
                resource.place,
                say!(
                    "a list of kinds needs a generic handler: write `async fn {fn_name}<K: Kind>(object: Arc<{object}>)`"
                ),
            );
            None
        }
    }
}

/// The controller's name, of a list the one for this kind.
fn controller_name(args: &Args, handler: &Handler, kind: Option<(&Type, &str)>, errors: &mut Errors) -> Option<String> {
    let given = match (&args.name, args.has("name")) {
        (Some(name), _) => Some(name),
        (None, true) => return None,
        (None, false) => None,
    };
    let base = given.map_or_else(|| name::kebab(&handler.ident.to_string()), |name| name.value.clone());
    let full = kind.map_or_else(|| base.clone(), |(_, suffix)| format!("{base}-{suffix}"));
    if let Err(error) = name::label(&full) {
        let place = given.map_or_else(|| handler.ident.span().into(), |name| name.place);
        errors.add(place, say!("the controller's name does not hold: {error}; write another with `name = \"…\"`"));
        return None;
    }
    Some(full)
}

/// What stands in `Arc<…>`, or behind `&`.
pub(crate) fn shared(argument: &Type) -> Option<&Type> {
    match plain(argument) {
        Type::Reference(reference) => Some(shared(&reference.elem).unwrap_or(&reference.elem)),
        Type::Path(path) => path.path.segments.last().filter(|last| last.ident == "Arc").and_then(inside),
        _ => None,
    }
}

/// The last word of a type's path.
pub(crate) fn last_word(kind: &Type) -> String {
    last_segment(kind).map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn last_segment(kind: &Type) -> Option<&PathSegment> {
    match plain(kind) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}
