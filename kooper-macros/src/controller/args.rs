//! The attribute as it was written: each key with its value, read but not yet compared.

use std::time::Duration;

use kooper_grammar::access::Rule;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Token, Type, token};

use crate::controller::election::Election;
use crate::controller::keys::{self, Key, Shape};
use crate::controller::value::Value;
use crate::support::errors::{Errors, say};
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
    pub(crate) formerly: Option<Spanned<Vec<LitStr>>>,
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
    /// The keys that stand there, also those whose value could not be read.
    seen: Vec<&'static str>,
    /// The keys that were meant by what stands there and is none.
    meant: Vec<&'static str>,
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
                if let Err(error) = args.entry(input) {
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
        self.seen.contains(&name)
    }

    /// Whether the user tried to write a key, under whatever name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.has(name) || self.meant.contains(&name)
    }

    fn entry(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let Ok(ident) = input.call(Ident::parse_any) else {
            return Err(input.error(say!("a key belongs here: write it such as `resource = Pod`")));
        };
        let name = ident.to_string();
        let Some(key) = keys::find(&name) else {
            return Err(self.unknown(&ident, &name, input));
        };
        if self.has(key.name) {
            return Err(syn::Error::new(ident.span(), say!("`{name}` is given twice: write it once")));
        }
        self.seen.push(key.name);
        self.value(key, &ident, input)
    }

    fn unknown(&mut self, ident: &Ident, name: &str, input: ParseStream<'_>) -> syn::Error {
        let alone = input.is_empty() || input.peek(Token![,]);
        if alone && name.starts_with(char::is_uppercase) {
            self.meant.push("resource");
            return syn::Error::new(ident.span(), say!("a kind needs its key: write `resource = {name}`"));
        }
        let known: Vec<_> = keys::KEYS.iter().map(|key| key.name).collect();
        let meant = suggest::meant(name, &known, keys::others::OTHERS);
        self.meant.extend(meant);
        syn::Error::new(ident.span(), suggest::unknown("key", name, meant, &known))
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

/// Goes on to the comma after an entry that could not be read, not to one inside `<…>`.
pub(crate) fn skip_entry(input: ParseStream<'_>) {
    let mut depth = 0_usize;
    while !(input.is_empty() || depth == 0 && input.peek(Token![,])) {
        match input.parse::<TokenTree>() {
            Ok(TokenTree::Punct(punct)) if punct.as_char() == '<' => depth += 1,
            Ok(TokenTree::Punct(punct)) if punct.as_char() == '>' => depth = depth.saturating_sub(1),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
