//! Slots, the entries of `children`: `[config, password(once), web(config, after = password)]`.

mod check;

use kooper_grammar::suggest::nearest;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Path, Token, parenthesized, token};

use crate::controller::key::{Entry, Key, KeySyntax, Table};
use crate::controller::setting::{Setting, call, parentheses};
use crate::controller::value::{Value, paths, words};
use crate::support::crate_path::CratePath;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// A child function with its inputs and flags.
pub(crate) struct Slot {
    path: Path,
    /// The last word of the path.
    name: Ident,
    /// The names of the slots whose children the function takes.
    inputs: Vec<Ident>,
    /// The names of the slots that are ready before a child is created.
    after: Vec<Ident>,
    /// The flags.
    settings: Vec<Setting>,
}

pub(crate) const FLAGS: Table<Slot> = Table {
    noun: "flag of a slot",
    example: "once",
    keys: KEYS,
    others: &[
        ("after", "depends_on needs"),
        ("once", "create_only"),
        ("keep", "retain"),
        ("prune", "delete"),
        ("recreate", "replace"),
        ("adopt", "takeover"),
        ("external", "read_only"),
        ("optional", "if_served"),
    ],
};

const KEYS: &[Key<Slot>] = &[
    Key {
        name: "after",
        form: "the name of another slot, or a list of names",
        example: "after = web",
        default: "none",
        doc: "A child is created only when the children of these slots are ready. Updates do not wait.",
        read: |slot, value| {
            slot.after = names(value)?;
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "once",
        example: "once",
        default: "off",
        doc: "The child is created, and nothing but its labels and the version in its owner reference is changed afterwards. The function is called only while there is no child. One that returns a list, or a child in another namespace than the owner, is called each time: what is missing is created, and nothing is pruned. With `adopt`, an object that exists gets the owner reference and the labels.",
        read: call!(once, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "keep",
        example: "keep",
        default: "off",
        doc: "Children are never pruned, are kept when the owner is deleted, and have the label `kooper.rs/kept`. Requires `deletion = ordered`.",
        read: call!(keep, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "prune",
        example: "prune",
        default: "off",
        doc: "Also prune the objects that are kept by default: adopted objects, PersistentVolumeClaims, Namespaces and CRDs.",
        read: call!(prune, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "recreate",
        syntaxes: &[KeySyntax::Flag, KeySyntax::Parentheses],
        form: "no value, or `(orphan)`",
        example: "recreate",
        default: "off",
        doc: "If an immutable field of a child has to change, the child is deleted and created again, once the new one may be created. Its dependents are deleted before it is gone; with `recreate(orphan)`, they are kept, such as the pods of a StatefulSet.",
        read: |slot, value| {
            slot.settings.push(recreate(value)?);
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "adopt",
        example: "adopt",
        default: "off",
        doc: "Take over an object that has no controlling owner. It gets the label `kooper.rs/adopted`, and is not pruned unless `prune` is set. Children that the slot creates are pruned.",
        read: call!(adopt, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "optional",
        example: "optional",
        default: "off",
        doc: "The slot is skipped while the kind of its children is not installed. Once it is, the handler is called for all owners.",
        read: call!(optional, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "external",
        example: "external",
        default: "off",
        doc: "The object is created by another controller or by a user: Kooper waits for it, and never writes it. The handler is called when it changes. The function returns `External<T>`.",
        read: call!(external, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "not_ready",
        example: "not_ready",
        default: "off",
        doc: "The children are not counted for the condition `Ready` of the owner.",
        read: call!(not_ready, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "ready",
        form: "the path of a function, or a closure",
        example: "ready = is_open",
        default: "the rules of the kind",
        doc: "A `fn(&T) -> bool` or `fn(&T) -> Readiness` that decides whether a child is ready, instead of the rules for its kind.",
        read: call!(ready, paths::function),
        ..Key::EQUALS
    },
];

/// The slots of a controller. Mistakes within a slot are noted, so that the slots are still compared with each other. The list
/// may be empty if there are previous children.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Spanned<Vec<Slot>>> {
    if let Some(brackets) = value.empty_list()? {
        return Ok(value.spanned(Vec::new(), brackets));
    }
    let slots = value.list_in(value.input, |input| Slot::parse(value, input))?;
    check::slots(value, &slots.value);
    Ok(slots)
}

/// `recreate`, or `recreate(orphan)`.
fn recreate(value: &Value<'_>) -> syn::Result<Setting> {
    let flag = words::flag(value)?;
    if !value.input.peek(token::Paren) {
        return Ok(Setting::new("recreate", flag));
    }
    let content;
    let parentheses = parenthesized!(content in value.input);
    match content.parse::<Ident>() {
        Ok(word) if word == "orphan" && content.is_empty() => Ok(Setting::new("recreate_orphan", flag)),
        _ => Err(value.wrong(parentheses.span.join())),
    }
}

/// The name of a slot, or a list of names.
fn names(value: &Value<'_>) -> syn::Result<Vec<Ident>> {
    if value.input.peek(token::Bracket) {
        return Ok(value.set(|input| name(value, input))?.value);
    }
    Ok(vec![name(value, value.input)?])
}

fn name(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Ident> {
    let span = input.span();
    let name = input.call(Ident::parse_any).map_err(|_| value.wrong(span))?;
    if entries::ended(input) { Ok(name) } else { Err(value.wrong(span)) }
}

impl Slot {
    fn parse(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Self> {
        let span = input.span();
        let path = input.call(Path::parse_mod_style).map_err(|_| value.wrong(span))?;
        let Some(last) = path.segments.last() else { return Err(value.wrong(span)) };
        let name = last.ident.clone();
        let mut slot = Self { path, name, inputs: Vec::new(), after: Vec::new(), settings: Vec::new() };
        if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            slot.read(value, &content);
        }
        Ok(slot)
    }

    /// Parses what is in the parentheses of a slot.
    fn read(&mut self, value: &Value<'_>, content: ParseStream<'_>) {
        let mut errors = Errors::new();
        let mut before = Vec::new();
        let wrong = |place: Place| {
            place.error(message!("expected the name of another slot, or a flag: write `web(config, once)`"))
        };
        let unfinished = |span| wrong(Place::from(span));
        entries::read(content, &mut errors, unfinished, |input| {
            let fork = input.fork();
            let Ok(word) = fork.call(Ident::parse_any) else { return Err(wrong(input.span().into())) };
            if fork.peek(Token![::]) {
                let path = input.call(Path::parse_mod_style)?;
                return Err(wrong(Place::of(&path)));
            }
            let text = word.to_string();
            let is_flag = FLAGS.find(&text).is_some() || fork.peek(Token![=]);
            if !is_flag && !fork.peek(token::Paren) {
                self.inputs.push(input.call(Ident::parse_any)?);
                return Ok(());
            }
            if !is_flag && nearest(&text, FLAGS.keys.iter().map(|key| key.name)).is_none() {
                return Err(wrong(word.span().into()));
            }
            let mut entry = Entry::default();
            let read = FLAGS.entry(input, self, &before, &mut entry);
            before.push(entry);
            read
        });
        if let Err(error) = errors.check() {
            value.note_error(error);
        }
    }

    /// The names of the slots that it waits for.
    fn waits_for(&self) -> impl Iterator<Item = &Ident> {
        self.inputs.iter().chain(&self.after)
    }

    /// The flag of this name, as written.
    pub(crate) fn flag(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|flag| flag.method.trim_end_matches("_orphan") == name)
    }

    /// The path of the function.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The place of the function's path.
    pub(crate) fn place(&self) -> Place {
        Place::of(&self.path)
    }

    /// The inputs, as a tuple of their paths.
    pub(crate) fn inputs(&self, slots: &[Self]) -> TokenStream {
        let paths = self.inputs.iter().map(|name| path(name, slots));
        let place = self.inputs.first().map_or_else(|| self.name.span(), Ident::span);
        parentheses(quote!(#(#paths,)*), place).into_token_stream()
    }

    /// The calls that follow: what it waits for, and its flags.
    pub(crate) fn calls(&self, slots: &[Self], runtime: &CratePath) -> TokenStream {
        let after = self.after.iter().map(|name| {
            let path = path(name, slots);
            quote_spanned!(name.span()=> .after(#path))
        });
        let flags = self.settings.iter().map(|Setting { method, key, place, value, .. }| {
            let method = Ident::new(method, *key);
            let arguments = parentheses(value.arguments(runtime), place.end);
            quote_spanned!(*key=> .#method #arguments)
        });
        quote!(#(#after)* #(#flags)*)
    }
}

/// The path of the slot of this name, which ends at the place of the name.
fn path(name: &Ident, slots: &[Slot]) -> Path {
    let mut path =
        slots.iter().find(|slot| slot.name == *name).map_or_else(|| name.clone().into(), |slot| slot.path.clone());
    if let Some(last) = path.segments.last_mut() {
        last.ident = name.clone();
    }
    path
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    #[test]
    fn every_example_is_read() {
        let name = Ident::new("web", Span::call_site());
        FLAGS.check(|| Slot {
            path: name.clone().into(),
            name: name.clone(),
            inputs: Vec::new(),
            after: Vec::new(),
            settings: Vec::new(),
        });
    }
}
