//! Keys, and tables of keys.
//!
//! A key is declared once. The parser, the check for duplicates, the messages, the builder's calls,
//! the completion in editors and the reference page all use its row.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Token, token};

use crate::controller::value::Value;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::suggest;

/// A key, whose value is stored in a `T`.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    /// The ways to write it.
    pub(crate) syntaxes: &'static [KeySyntax],
    /// The form of its value, which completes "`key` takes …".
    pub(crate) form: &'static str,
    /// An example, for errors and the reference page.
    pub(crate) example: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page, which a test compares"))]
    pub(crate) default: &'static str,
    /// Its description, in one line.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page, which a test compares"))]
    pub(crate) doc: &'static str,
    /// The items that its value names.
    pub(crate) mentions: Mentions,
    /// Parses the value, and stores it as a call of the builder, or for the checks that compare it
    /// with others.
    pub(crate) read: fn(&mut T, &Value<'_>) -> syn::Result<()>,
}

/// A way to write a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySyntax {
    /// `key`
    Flag,
    /// `key = value`
    Equals,
    /// `key(…)`
    Parentheses,
}

pub(crate) const PARENTHESES: &[KeySyntax] = &[KeySyntax::Parentheses];

/// The items that a value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mentions {
    Nothing,
    Kinds,
    /// And kinds, each before its function.
    Functions,
    Constants,
}

impl<T> Key<T> {
    /// The defaults of most keys.
    pub(crate) const EQUALS: Self = Self {
        name: "",
        syntaxes: &[KeySyntax::Equals],
        form: "",
        example: "",
        default: "",
        doc: "",
        mentions: Mentions::Nothing,
        read: |_, _| Ok(()),
    };

    /// The defaults of a key without a value.
    pub(crate) const FLAG: Self = Self { syntaxes: &[KeySyntax::Flag], form: "no value", ..Self::EQUALS };

    /// The key of this name in another table.
    pub(crate) const fn of(mut keys: &'static [Self], name: &str) -> Self {
        while let [key, rest @ ..] = keys {
            if is_same(key.name.as_bytes(), name.as_bytes()) {
                return Self { ..*key };
            }
            keys = rest;
        }
        panic!("the table has no such key")
    }
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    loop {
        match (one, other) {
            ([], []) => return true,
            ([a, one_rest @ ..], [b, other_rest @ ..]) if *a == *b => (one, other) = (one_rest, other_rest),
            _ => return false,
        }
    }
}

/// The keys that are allowed in one place.
pub(crate) struct Table<T: 'static> {
    /// The noun for a key in messages.
    pub(crate) noun: &'static str,
    /// An example of a key with its value.
    pub(crate) example: &'static str,
    pub(crate) keys: &'static [Key<T>],
    /// Keys, each with the words that other tools use for it.
    pub(crate) others: &'static [(&'static str, &'static str)],
}

/// An entry as written.
#[derive(Default)]
pub(crate) struct Entry {
    /// The word in the place of the key, if there is one.
    pub(crate) word: Option<Ident>,
    /// The key, if the word is one.
    pub(crate) key: Option<&'static str>,
    /// The key, or the one that was meant.
    pub(crate) meant: Option<&'static str>,
    pub(crate) tokens: TokenStream,
}

impl<T: Default> Table<T> {
    /// Parses the settings in the parentheses of a value; all errors are reported together.
    pub(crate) fn parse(&self, input: ParseStream<'_>) -> syn::Result<T> {
        let (mut target, mut errors) = (T::default(), Errors::new());
        self.read(input, &mut target, &mut errors, |_| None);
        errors.check()?;
        Ok(target)
    }
}

impl<T> Table<T> {
    /// Each key has a description, one name and an example that is read, and each other word means a key.
    #[cfg(test)]
    pub(crate) fn check(&self, target: impl Fn() -> T) {
        use syn::parse::Parser as _;

        for (i, key) in self.keys.iter().enumerate() {
            assert!([key.form, key.default, key.doc].iter().all(|text| !text.is_empty()), "{}", key.name);
            assert!(self.keys.iter().skip(i + 1).all(|other| other.name != key.name), "{}", key.name);
            let mut others = self.others.iter().flat_map(|(_, theirs)| theirs.split(' '));
            assert!(others.all(|other| other != key.name), "{}", key.name);
            let read = |input: ParseStream<'_>| {
                let mut errors = Errors::new();
                let entries = self.read(input, &mut target(), &mut errors, |_| None);
                errors.check()?;
                Ok(entries)
            };
            let entries = read.parse_str(key.example).expect(key.example);
            assert!(entries.iter().map(|entry| entry.key).eq([Some(key.name)]), "{}", key.example);
        }
        assert!(self.others.iter().all(|(ours, _)| self.find(ours).is_some()));
    }

    /// The declaration of a key.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key<T>> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Parses all entries. Those that cannot be parsed are noted and skipped.
    ///
    /// `stray` may return an error for a token in the place of a key, with the key that was meant.
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

    /// Parses one entry. `before` are the entries before it.
    pub(crate) fn entry(
        &self,
        input: ParseStream<'_>,
        target: &mut T,
        before: &[Entry],
        entry: &mut Entry,
    ) -> syn::Result<()> {
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
        let value = Value::new([key.name, key.form, key.example], &ident, input);
        let syntax = if input.peek(Token![=]) {
            KeySyntax::Equals
        } else if input.peek(token::Paren) {
            KeySyntax::Parentheses
        } else {
            KeySyntax::Flag
        };
        if !key.syntaxes.contains(&syntax) {
            return Err(value.wrong(ident.span()));
        }
        if syntax == KeySyntax::Equals {
            let equals: Token![=] = input.parse()?;
            if entries::ended(input) {
                return Err(value.wrong(equals.span));
            }
        }
        (key.read)(target, &value)?;
        // The next key would be a word: this belongs to the value, unless it is a semicolon instead of a comma.
        if !entries::ended(input) && !input.peek(Ident::peek_any) && !input.peek(Token![;]) {
            value.note_error(value.wrong(input.span()));
        }
        value.check()
    }
}
