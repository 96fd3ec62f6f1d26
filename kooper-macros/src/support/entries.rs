//! Lists with commas.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use syn::Token;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;

use crate::support::errors::{Errors, message};

/// Parses the entries of a list. One that cannot be parsed is noted and skipped up to its comma, so
/// that all errors are reported together.
///
/// `unfinished` is the error for tokens between an entry and the next comma.
pub(crate) fn read<T>(
    input: ParseStream<'_>,
    errors: &mut Errors,
    unfinished: impl Fn(Span) -> syn::Error,
    mut entry: impl FnMut(ParseStream<'_>) -> syn::Result<T>,
) -> Vec<T> {
    let mut entries = Vec::new();
    while !input.is_empty() {
        // On a fork: `syn` would report what a rejected entry leaves in its parentheses as another error.
        let ahead = input.fork();
        match entry(&ahead) {
            Ok(entry) => {
                input.advance_to(&ahead);
                if ended(input) { entries.push(entry) } else { errors.push(unfinished(input.span())) }
            }
            Err(error) => errors.push(error),
        }
        skip(input);
        let _comma: syn::Result<Token![,]> = input.parse();
    }
    entries
}

/// The key of an entry with a value: `key = …`.
pub(crate) fn key(input: ParseStream<'_>) -> Option<Ident> {
    let ahead = input.fork();
    let key = ahead.call(Ident::parse_any).ok()?;
    ahead.peek(Token![=]).then_some(key)
}

/// Returns an error if an entry before this one has the same key.
pub(crate) fn once(input: ParseStream<'_>, keys: &mut Vec<String>) -> syn::Result<()> {
    let Some(key) = key(input) else { return Ok(()) };
    if keys.contains(&key.to_string()) {
        return Err(syn::Error::new(key.span(), message!("`{key}` is given twice: write it once")));
    }
    keys.push(key.to_string());
    Ok(())
}

/// Returns `true` at the end of an entry.
pub(crate) fn ended(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

/// Skips to the comma after an entry, not to one inside `<…>` or between the parameters of a closure.
pub(crate) fn skip(input: ParseStream<'_>) -> TokenStream {
    let (mut depth, mut parameters, mut closure) = (0_usize, false, false);
    // `returns`: this is the return type of the closure. `operand`: an operand may end here, so that a `<` compares.
    let (mut returns, mut operand, mut minus) = (false, false, false);
    let mut skipped = TokenStream::new();
    while !(input.is_empty() || depth == 0 && !parameters && input.peek(Token![,])) {
        let Ok(token) = input.parse::<TokenTree>() else { break };
        let compares = closure && !returns && depth == 0 && operand;
        let arrow = std::mem::take(&mut minus);
        operand = !matches!(token, TokenTree::Punct(_));
        match &token {
            TokenTree::Punct(punct) => match punct.as_char() {
                // The second `<` of `<<` opens nothing, either.
                '<' if compares => operand = true,
                '<' => depth += 1,
                '>' if arrow => returns = true,
                '>' => depth = depth.saturating_sub(1),
                // Only the first pair holds parameters: others are operators.
                '|' if !closure => (parameters, closure, returns) = (!parameters, parameters, false),
                '-' => minus = true,
                '?' => operand = true,
                _ => {}
            },
            TokenTree::Group(body) if depth == 0 && body.delimiter() == Delimiter::Brace => returns = false,
            _ => {}
        }
        skipped.extend([token]);
    }
    skipped
}

#[cfg(test)]
mod tests {
    use syn::parse::{ParseStream, Parser};
    use syn::{Ident, Type};

    use super::*;

    fn words(tokens: &str) -> (Vec<String>, Vec<String>) {
        let mut errors = Errors::new();
        let read = |input: ParseStream<'_>| {
            let word = |input: ParseStream<'_>| Ok(input.parse::<Ident>()?.to_string());
            Ok(read(input, &mut errors, |span| syn::Error::new(span, "unfinished"), word))
        };
        let words = read.parse_str(tokens).expect("a list");
        let errors = errors.check().err().into_iter().flatten().map(|error| error.to_string());
        (words, errors.collect())
    }

    #[test]
    fn a_comma_may_end_the_list() {
        for list in ["a, b", "a, b,"] {
            assert_eq!(words(list), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        }
        assert_eq!(words(""), (vec![], vec![]));
    }

    #[test]
    fn all_errors_are_noted_and_the_other_entries_are_parsed() {
        let (read, errors) = words("a b, c, 1, |x, y| x, d");
        assert_eq!(read, ["c", "d"]);
        assert_eq!(errors, ["unfinished", "expected identifier", "expected identifier"]);
    }

    #[test]
    fn an_operator_in_a_closure_hides_no_entry() {
        for closure in [
            "|x| x < 3",
            "|x| x << 3",
            "|x| x? < 3",
            "|x| x | y",
            "|| x || y",
            "move |x, y| x > y",
            "|x| f::<A, B>(x)",
            "|x| f::<Vec<A>, B>(x) < 3",
            "|x| <Map<A, B>>::of(x)",
            "|m: &Map<K, V>| m.len()",
            "|x| -> Map<A, B> { x } < 3",
            "|f: fn(A) -> B, x| x < 3",
        ] {
            let (read, errors) = words(&format!("{closure}, d"));
            assert_eq!((read, errors.len()), (vec!["d".to_owned()], 1), "{closure}");
        }
    }

    #[test]
    fn a_comma_between_angle_brackets_does_not_end_an_entry() {
        let skipped = |input: ParseStream<'_>| {
            let skipped = skip(input);
            input.parse::<Token![,]>()?;
            input.parse::<Type>()?;
            syn::parse2::<Type>(skipped)
        };
        assert!(skipped.parse_str("Map<A, B>, C").is_ok());
    }
}
