//! The attribute as it was written: each key with its value, read but not yet compared.

use std::time::Duration;

use kooper_grammar::access::Rule;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Token, Type, TypePath, token};

use crate::controller::election::Election;
use crate::controller::keys::{self, Key, Shape};
use crate::controller::value::{Value, resource_of};
use crate::support::errors::{Errors, say};
use crate::support::place::Place;
use crate::support::spanned::Spanned;
use crate::support::suggest;

/// The values of all keys that were given and could be read.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) resource: Option<Spanned<Resource>>,
    /// Whether the kind may be missing.
    pub(crate) optional: Option<Span>,
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) resync: Option<Spanned<Option<Duration>>>,
    pub(crate) workers: Option<Spanned<u32>>,
    pub(crate) retries: Option<Spanned<Option<u32>>>,
    pub(crate) backoff: Option<Spanned<(Duration, Duration)>>,
    pub(crate) retry_rate: Option<Spanned<(u32, u32)>>,
    pub(crate) timeout: Option<Spanned<Option<Duration>>>,
    pub(crate) namespace: Option<Spanned<String>>,
    pub(crate) namespaces: Option<Spanned<Vec<LitStr>>>,
    pub(crate) labels: Option<Spanned<String>>,
    pub(crate) fields: Option<Spanned<String>>,
    pub(crate) metadata_only: Option<Spanned<()>>,
    pub(crate) changed: Option<Spanned<Vec<Change>>>,
    pub(crate) when: Option<Spanned<Path>>,
    pub(crate) owns: Option<Spanned<Vec<Type>>>,
    pub(crate) watches: Option<Spanned<Vec<(Type, Path)>>>,
    pub(crate) sources: Option<Spanned<Vec<Path>>>,
    pub(crate) cleanup: Option<Spanned<Path>>,
    pub(crate) finalizer: Option<Spanned<String>>,
    pub(crate) on_leave: Option<Spanned<()>>,
    pub(crate) former_names: Option<Spanned<Vec<LitStr>>>,
    pub(crate) former_finalizers: Option<Spanned<Vec<LitStr>>>,
    pub(crate) former_program: Option<Spanned<String>>,
    pub(crate) deleted: Option<Spanned<Path>>,
    pub(crate) leader_election: Option<Spanned<Election>>,
    pub(crate) install_crd: Option<Spanned<()>>,
    pub(crate) init: Option<Spanned<Path>>,
    pub(crate) retriever: Option<Spanned<Path>>,
    pub(crate) layers: Option<Spanned<Vec<Path>>>,
    pub(crate) access: Option<Spanned<Vec<Rule>>>,
    pub(crate) main: Option<Spanned<()>>,
    pub(crate) type_name: Option<Spanned<Ident>>,
    pub(crate) krate: Option<Spanned<Path>>,
    /// What stands in the attribute, read or not.
    pub(crate) entries: Vec<Entry>,
}

/// An entry of the attribute as it was written.
pub(crate) struct Entry {
    /// The word where the key belongs, if there is one.
    pub(crate) word: Option<Ident>,
    /// The key that it is.
    pub(crate) key: Option<&'static str>,
    /// The key that it is, or that was meant.
    pub(crate) meant: Option<&'static str>,
    /// All of its tokens.
    pub(crate) tokens: TokenStream,
}

/// What a controller retrieves.
#[derive(Clone)]
pub(crate) enum Resource {
    /// One kind, for a handler of that kind.
    One(Box<Type>),
    /// A list, for a generic handler.
    Each(Vec<Type>),
}

/// A part of an object whose change wakes the handler.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// As the user writes it.
    pub(crate) word: &'static str,
    /// As the runtime names it.
    pub(crate) variant: &'static str,
    pub(crate) span: Span,
}

impl Args {
    /// Reads the attribute's tokens. What can't be read is noted and passed over.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                let tokens = skip_entry(&input.fork());
                let mut entry = Entry { word: None, key: None, meant: None, tokens };
                let read = args.entry(input, &mut entry);
                args.entries.push(entry);
                if let Err(error) = read {
                    errors.push(error);
                    skip_entry(input);
                }
                let _: Option<Token![,]> = input.parse()?;
            }
            Ok(())
        };
        if let Err(error) = all.parse2(tokens) {
            errors.push(error);
        }
        args
    }

    /// Whether a key stands in the attribute, with whatever value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == Some(name))
    }

    /// Whether the user tried to write a key, under whatever name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.meant == Some(name))
    }

    fn entry(&mut self, input: ParseStream<'_>, entry: &mut Entry) -> syn::Result<()> {
        if let Some(kind) = lone_kind(input) {
            entry.meant = Some("resource");
            let setting = resource_of(&kind);
            return Err(Place::of(&kind).error(say!("a kind needs its key: write `{setting}`")));
        }
        let Ok(ident) = input.call(Ident::parse_any) else {
            return Err(input.error(say!("a key belongs here: write it such as `resource = Pod`")));
        };
        entry.word = Some(ident.clone());
        let name = ident.to_string();
        let Some(key) = keys::find(&name) else {
            let known: Vec<_> = keys::KEYS.iter().map(|key| key.name).collect();
            entry.meant = suggest::meant(&name, &known, keys::others::OTHERS);
            return Err(syn::Error::new(ident.span(), suggest::unknown("key", &name, entry.meant, &known)));
        };
        (entry.key, entry.meant) = (Some(key.name), Some(key.name));
        if self.has(key.name) {
            return Err(syn::Error::new(ident.span(), say!("`{name}` is given twice: write it once")));
        }
        self.value(key, &ident, input)
    }

    fn value(&mut self, key: &'static Key, ident: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let shape = if input.peek(Token![=]) {
            Shape::Equals
        } else if input.peek(token::Paren) {
            Shape::Parentheses
        } else {
            Shape::Flag
        };
        let value = Value::new(key, ident, input);
        if !key.shapes.contains(&shape) {
            return Err(value.wrong(ident.span()));
        }
        if shape == Shape::Equals {
            let equals: Token![=] = input.parse()?;
            if input.is_empty() || input.peek(Token![,]) {
                return Err(value.wrong(equals.span));
            }
        }
        (key.read)(self, &value)?;
        if input.is_empty() || input.peek(Token![,]) {
            Ok(())
        } else {
            Err(input.error(say!("a comma belongs before this: write `key = value, key = value`")))
        }
    }
}

/// A kind that stands where a key belongs, and nothing with it.
fn lone_kind(input: ParseStream<'_>) -> Option<Type> {
    let ahead = input.fork();
    let kind: TypePath = ahead.parse().ok()?;
    let alone = ahead.is_empty() || ahead.peek(Token![,]);
    let last = kind.path.segments.last()?.ident.to_string();
    (alone && last.starts_with(char::is_uppercase)).then_some(Type::Path(kind))
}

/// Skips to the comma after an entry, not to one inside `<…>` or between the parameters of a closure.
pub(crate) fn skip_entry(input: ParseStream<'_>) -> TokenStream {
    let (mut depth, mut parameters) = (0_usize, false);
    let mut skipped = TokenStream::new();
    while !(input.is_empty() || depth == 0 && !parameters && input.peek(Token![,])) {
        let Ok(token) = input.parse::<TokenTree>() else { break };
        if let TokenTree::Punct(punct) = &token {
            match punct.as_char() {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                '|' => parameters = !parameters,
                _ => {}
            }
        }
        skipped.extend([token]);
    }
    skipped
}
