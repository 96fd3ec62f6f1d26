//! The text of the user's tokens.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// The text of a path or a type, as it is usually formatted.
pub(crate) fn text(tokens: &impl ToTokens) -> String {
    let mut text = String::new();
    write(tokens.to_token_stream(), &mut text);
    text
}

fn write(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                write(group.stream(), text);
                text.push_str(close);
            }
            TokenTree::Punct(punct) if punct.as_char() == '>' && text.ends_with('=') => {
                text.pop();
                text.push_str(" => ");
            }
            TokenTree::Punct(punct) => {
                text.push(punct.as_char());
                if punct.spacing() == Spacing::Alone && matches!(punct.as_char(), ',' | ';') {
                    text.push(' ');
                }
            }
            word => {
                if text.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
                    text.push(' ');
                }
                text.push_str(&word.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn types_are_formatted_as_usual() {
        for written in
            ["Pod", "k8s_openapi::api::core::v1::Pod", "Arc<v1::Pod>", "HashMap<String, [u8; 4]>", "&'a mut dyn Send"]
        {
            let ty: syn::Type = syn::parse_str(written).expect(written);
            assert_eq!(text(&ty), written);
        }
    }

    #[test]
    fn an_arrow_is_between_spaces() {
        assert_eq!(text(&quote::quote!(v1::Service => all)), "v1::Service => all");
    }
}
