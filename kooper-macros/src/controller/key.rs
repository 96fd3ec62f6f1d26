//! A key and what it becomes, and tables of keys.
//!
//! A key is declared once. The parser, the check for duplicates, the messages, the builder's calls,
//! what an editor completes and the reference page all read its row.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Token, token};

use crate::controller::value::Value;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::suggest;

/// A key, whose value goes into a `T`.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    /// How it is written, each way one.
    pub(crate) shapes: &'static [Shape],
    /// What it takes, as it completes "`key` takes …".
    pub(crate) form: &'static str,
    /// One that is right, for errors and the reference page.
    pub(crate) example: &'static str,
    /// What holds without it.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page, which a test compares"))]
    pub(crate) default: &'static str,
    /// What it means, in a line.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page, which a test compares"))]
    pub(crate) doc: &'static str,
    /// What its value names.
    pub(crate) mentions: Mentions,
    /// Reads the value, and keeps it as the call of the builder that it becomes, or for the checks
    /// that compare it with others.
    pub(crate) read: fn(&mut T, &Value<'_>) -> syn::Result<()>,
}

/// A way to write a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `key`
    Flag,
    /// `key = value`
    Equals,
    /// `key(…)`
    Parentheses,
}

pub(crate) const FLAG: &[Shape] = &[Shape::Flag];
pub(crate) const PARENTHESES: &[Shape] = &[Shape::Parentheses];

/// Which items a value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mentions {
    pub(crate) kinds: bool,
    pub(crate) functions: bool,
}

impl Mentions {
    pub(crate) const NOTHING: Self = Self { kinds: false, functions: false };
    pub(crate) const KINDS: Self = Self { kinds: true, functions: false };
    pub(crate) const FUNCTIONS: Self = Self { kinds: false, functions: true };
    pub(crate) const BOTH: Self = Self { kinds: true, functions: true };
}

impl<T> Key<T> {
    /// What most keys have in common.
    pub(crate) const EQUALS: Self = Self {
        name: "",
        shapes: &[Shape::Equals],
        form: "",
        example: "",
        default: "",
        doc: "",
        mentions: Mentions::NOTHING,
        read: |_, _| Ok(()),
    };
}

/// Reads a value that becomes a call of the builder.
macro_rules! call {
    ($method:ident, $read:ident) => {
        call!($method, $read, $crate::controller::setting::Stage::Rest)
    };
    ($method:ident, $read:ident, $stage:expr) => {
        |keys, value| {
            let setting = $crate::controller::setting::Setting::new(stringify!($method), value.$read()?);
            keys.settings.push(setting.stage($stage));
            Ok(())
        }
    };
}
pub(crate) use call;

/// Reads a list that becomes a call of the builder for each element.
macro_rules! calls {
    ($method:ident, $read:ident) => {
        |keys, value| {
            keys.settings.extend($crate::controller::setting::Setting::each(stringify!($method), value.$read()?));
            Ok(())
        }
    };
}
pub(crate) use calls;

/// Reads a value that is kept, for the checks and the model.
macro_rules! keep {
    ($field:ident, $read:ident) => {
        |keys, value| {
            keys.$field = Some(value.$read()?);
            Ok(())
        }
    };
}
pub(crate) use keep;

/// The keys that may stand in one place.
pub(crate) struct Table<T: 'static> {
    /// What one of them is called.
    pub(crate) noun: &'static str,
    /// One with its value.
    pub(crate) example: &'static str,
    pub(crate) keys: &'static [Key<T>],
    /// Words that other tools use for them.
    pub(crate) others: &'static [(&'static str, &'static str)],
}

/// An entry as it was written.
#[derive(Default)]
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

impl<T> Table<T> {
    /// The declaration of a key.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key<T>> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Reads all entries. What cannot be read is noted and passed over.
    ///
    /// `stray` may refuse what stands where a key belongs, with the key that was meant.
    pub(crate) fn read(
        &self,
        input: ParseStream<'_>,
        target: &mut T,
        errors: &mut Errors,
        stray: impl Fn(ParseStream<'_>) -> Option<(&'static str, syn::Error)>,
    ) -> Vec<Entry> {
        let mut before = Vec::new();
        let unfinished =
            |span| syn::Error::new(span, message!("expected a comma before this: write `key = value, key = value`"));
        entries::read(input, errors, unfinished, |input| {
            let tokens = entries::skip(&input.fork());
            let mut entry = Entry { tokens, ..Entry::default() };
            let read = match stray(input) {
                Some((meant, error)) => {
                    entry.meant = Some(meant);
                    Err(error)
                }
                None => self.entry(input, target, &before, &mut entry),
            };
            before.push(entry);
            read
        });
        before
    }

    fn entry(&self, input: ParseStream<'_>, target: &mut T, before: &[Entry], entry: &mut Entry) -> syn::Result<()> {
        let Self { noun, example, .. } = self;
        let Ok(ident) = input.call(Ident::parse_any) else {
            return Err(input.error(message!("expected a {noun}, such as `{example}`")));
        };
        entry.word = Some(ident.clone());
        let name = ident.to_string();
        let Some(key) = self.find(&name) else {
            let known: Vec<_> = self.keys.iter().map(|key| key.name).collect();
            entry.meant = suggest::meant(&name, &known, self.others);
            return Err(syn::Error::new(ident.span(), suggest::unknown(noun, &name, entry.meant, &known)));
        };
        (entry.key, entry.meant) = (Some(key.name), Some(key.name));
        if before.iter().any(|entry| entry.key == Some(key.name)) {
            return Err(syn::Error::new(ident.span(), message!("`{name}` is given twice: write it once")));
        }
        let value = Value::new(key, &ident, input);
        let shape = if input.peek(Token![=]) {
            Shape::Equals
        } else if input.peek(token::Paren) {
            Shape::Parentheses
        } else {
            Shape::Flag
        };
        if !key.shapes.contains(&shape) {
            return Err(value.wrong(ident.span()));
        }
        if shape == Shape::Equals {
            let equals: Token![=] = input.parse()?;
            if entries::ended(input) {
                return Err(value.wrong(equals.span));
            }
        }
        (key.read)(target, &value)?;
        value.check()
    }
}
