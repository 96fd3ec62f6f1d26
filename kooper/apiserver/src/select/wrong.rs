//! Errors in label selectors, with the real server's messages.

use std::collections::BTreeSet;

use kooper_grammar::name as grammar;
use serde_json::json;

use crate::cause::{Cause, aggregate};
use crate::{form, meta};

/// The first error of a label selector; `None` if there is none.
pub(super) fn error(text: &str) -> Option<String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    parser.selector().err()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self, Self::Symbol(found) if *found == symbol)
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let symbol =
            ["==", "!=", "=", "!", "(", ")", ",", ">", "<"].into_iter().find(|symbol| rest.starts_with(symbol));
        let length = match symbol {
            Some(symbol) => {
                tokens.push(Token::Symbol(symbol));
                symbol.len()
            }
            None => {
                let end = rest.find(|char: char| char.is_ascii_whitespace() || "=!(),><".contains(char));
                let word = &rest[..end.unwrap_or(rest.len())];
                tokens.push(Token::Word(word.to_owned()));
                word.len()
            }
        };
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<(), String> {
        loop {
            match self.peek() {
                Token::End => return Ok(()),
                token if matches!(token, Token::Word(_)) || token.is("!") => {
                    self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                }
                token => {
                    return Err(format!("found '{}', expected: !, identifier, or 'end of string'", token.text()));
                }
            }
            match self.take() {
                Token::End => return Ok(()),
                token if token.is(",") => {
                    let next = self.peek();
                    if !matches!(next, Token::Word(_)) && !next.is("!") {
                        return Err(format!("found '{}', expected: identifier after ','", next.text()));
                    }
                }
                token => return Err(format!("found '{}', expected: ',' or 'end of string'", token.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<(), String> {
        let absent = self.peek().is("!");
        if absent {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let wrong = form::qualified(&key);
        if !wrong.is_empty() {
            let why = wrong.join("; ").replace("a qualified name", "a valid label key");
            return Err(Cause::invalid("<nil>", &json!(key), why).text());
        }
        if absent || self.peek() == Token::End || self.peek().is(",") {
            return Ok(());
        }
        let operator = self.take();
        let values = match operator.text() {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => BTreeSet::from([self.value()?]),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        if let ">" | "<" = operator.text() {
            let wrong = values.iter().enumerate().find(|(_, value)| value.parse::<i64>().is_err());
            if let Some((index, value)) = wrong {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Err(Cause::invalid(format!("values[{index}]"), &json!(value), why).text());
            }
        }
        if values.is_empty() {
            let why = "for 'in', 'notin' operators, values set can't be empty";
            return Err(Cause::invalid("values", &json!([]), why).text());
        }
        let wrong: Vec<_> = values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.len() > 63 || grammar::label_value(value).is_err())
            .filter_map(|(index, value)| {
                let field = format!("values[{index}][{key}]");
                meta::validate_labels(&json!({"a": value}), &field).first().map(Cause::text)
            })
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(aggregate(&wrong)) }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End => Ok(String::new()),
            token if token.is(",") => Ok(String::new()),
            Token::Word(word) => {
                self.take();
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.take();
        if !open.is("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            token if token.is(")") => {
                self.take();
                return Ok(values);
            }
            token if matches!(token, Token::Word(_)) || token.is(",") => {}
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        loop {
            match self.take() {
                Token::Word(word) => {
                    values.insert(word);
                    let next = self.peek();
                    if next.is(")") {
                        break;
                    }
                    if !next.is(",") {
                        return Err(format!("found '{}', expected: ',' or ')'", next.text()));
                    }
                }
                token if token.is(",") => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    if self.peek().is(")") {
                        values.insert(String::new());
                        break;
                    }
                    if self.peek().is(",") {
                        self.take();
                        values.insert(String::new());
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
        // The parenthesis that was seen.
        self.take();
        Ok(values)
    }
}
