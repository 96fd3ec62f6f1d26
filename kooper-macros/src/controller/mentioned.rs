//! The items that an attribute with an error names, so that their imports still count as used.

use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};

use crate::controller::key::{Entry, Mentions, Table};
use crate::controller::signature::Handler;
use crate::controller::value::constants;
use crate::support::place::Place;

/// An import of each path, which no lint reports.
pub(crate) fn imports<T>(table: &Table<T>, function: Option<&Handler>, entries: &[Entry]) -> TokenStream {
    let conditions = function.map(|function| &function.conditions);
    // The parameters of the function's types are names only within it.
    let parameters = function.into_iter().flat_map(|function| function.generics.type_params());
    let parameters: Vec<_> = parameters.map(|parameter| parameter.ident.to_string()).collect();
    let mut seen: Vec<String> = Vec::new();
    let mut paths = entries.iter().flat_map(|entry| paths(table, entry)).collect::<Vec<_>>();
    paths.retain(|path| {
        if path.clone().into_iter().next().is_some_and(|first| parameters.contains(&first.to_string())) {
            return false;
        }
        let text = path.to_string();
        let new = !seen.contains(&text);
        seen.push(text);
        new
    });
    let imports = paths.iter().map(|path| {
        // An import that fails is reported at the path.
        let import = quote_spanned!(Place::of(path).start=> use #path as _;);
        quote! {
            #conditions
            const _: () = {
                #[allow(unused_imports)]
                #import
            };
        }
    });
    imports.collect()
}

/// The paths in an entry that can only be kinds and functions.
fn paths<T>(table: &Table<T>, entry: &Entry) -> Vec<TokenStream> {
    let Some(key) = entry.meant.and_then(|key| table.find(key)) else { return Vec::new() };
    let mut found = FoundMentions { mentions: key.mentions, paths: Vec::new() };
    if key.mentions != Mentions::Nothing {
        // The key itself is not a path.
        let value = entry.tokens.clone().into_iter().skip(usize::from(entry.word.is_some()));
        found.scan(value.collect());
    }
    found.paths
}

fn first_of_two_colons(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint)
}

/// Returns `true` for the path of a constant that can be imported, which one of a number, such as `u32::MAX`, cannot.
fn is_constant(path: &[Ident]) -> bool {
    let is_of_number = |first: &Ident| ["u8", "u16", "u32", "usize"].iter().any(|number| first == number);
    path.last().is_some_and(constants::is_name) && !path.first().is_some_and(is_of_number)
}

struct FoundMentions {
    mentions: Mentions,
    paths: Vec<TokenStream>,
}

impl FoundMentions {
    fn scan(&mut self, tokens: Vec<TokenTree>) {
        let mut tokens = tokens.into_iter().peekable();
        // `begins`: a value begins here. `closure`: this is the inside of a closure.
        let (mut begins, mut closure) = (true, false);
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => {
                    // In parentheses are the settings of a kind.
                    let mentions = match self.mentions {
                        Mentions::Functions if group.delimiter() == Delimiter::Parenthesis => Mentions::Kinds,
                        mentions => mentions,
                    };
                    let mut inner = Self { mentions, paths: Vec::new() };
                    inner.scan(group.stream().into_iter().collect());
                    self.paths.append(&mut inner.paths);
                    begins = false;
                }
                TokenTree::Punct(punct) => {
                    closure |= punct.as_char() == '|';
                    begins = matches!(punct.as_char(), ',' | '=' | '>' | ':') && !closure;
                }
                TokenTree::Ident(first) => {
                    let mut path = vec![first];
                    while tokens.next_if(first_of_two_colons).is_some() {
                        tokens.next();
                        if let Some(TokenTree::Ident(next)) =
                            tokens.next_if(|token| matches!(token, TokenTree::Ident(_)))
                        {
                            path.push(next);
                        }
                    }
                    self.add(path, begins);
                    begins = false;
                }
                TokenTree::Literal(_) => begins = false,
            }
        }
    }

    /// A kind or the type of a constant, as far as its own name, or a function where a value begins.
    fn add(&mut self, mut path: Vec<Ident>, begins: bool) {
        // Other capitalized words are not constants.
        if self.mentions == Mentions::Constants && !is_constant(&path) {
            return;
        }
        let kind = path.iter().position(|word| word.to_string().starts_with(char::is_uppercase));
        match kind {
            Some(at) => path.truncate(at + 1),
            None if !(self.mentions == Mentions::Functions && begins) => return,
            None => {}
        }
        let reserved = path.iter().any(|word| syn::parse2::<Ident>(word.to_token_stream()).is_err());
        let only = path.len() == 1;
        if !(only && reserved) {
            self.paths.push(quote!(#(#path)::*));
        }
    }
}
