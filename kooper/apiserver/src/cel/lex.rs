//! The tokens of an expression.

use super::syntax::Issue;
use crate::escape::control;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Int(String),
    Uint(String),
    Double(String),
    String(String),
    Bytes(Vec<u8>),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// The longest first.
const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%",
    "<", ">", "=", "|",
];

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

/// The tokens with the characters that they begin at; the last one is the end.
pub(super) fn tokens(source: &str) -> Result<Vec<(usize, Token)>, Issue> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0 };
    let mut all = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let token = lexer.token()?;
        let ends = token == Token::End;
        all.push((at, token));
        if ends {
            return Ok(all);
        }
    }
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(char) = self.peek(0) {
            if char == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|char| char != '\n') {
                    self.at += 1;
                }
            } else if matches!(char, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn take(&mut self, is: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&is) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn token(&mut self) -> Result<Token, Issue> {
        let Some(char) = self.peek(0) else { return Ok(Token::End) };
        if let Some((length, raw, bytes)) = self.quote() {
            self.at += length;
            return self.text(raw, bytes);
        }
        if char.is_ascii_alphabetic() || char == '_' {
            return Ok(Token::Ident(self.take(is_word)));
        }
        if char.is_ascii_digit() || (char == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit())) {
            return Ok(self.number());
        }
        let is = |sign: &&&str| sign.chars().enumerate().all(|(index, char)| self.peek(index) == Some(char));
        match SIGNS.iter().find(is) {
            Some(sign) if !matches!(*sign, "=" | "|") => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            _ => Err(Issue::new(self.at, format!("Syntax error: token recognition error at: '{char}'"))),
        }
    }

    fn number(&mut self) -> Token {
        let unsigned = |lexer: &mut Self| {
            let marked = matches!(lexer.peek(0), Some('u' | 'U'));
            lexer.at += usize::from(marked);
            marked
        };
        if self.peek(0) == Some('0') && self.peek(1) == Some('x') && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            let digits = format!("0x{}", self.take(|char| char.is_ascii_hexdigit()));
            return if unsigned(self) { Token::Uint(digits) } else { Token::Int(digits) };
        }
        let digit = |char: char| char.is_ascii_digit();
        let mut text = self.take(digit);
        let mut double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(digit) {
            self.at += 1;
            text = format!("{text}.{}", self.take(digit));
            double = true;
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(digit) {
            let exponent: String = self.chars[self.at..=self.at + sign].iter().collect();
            self.at += 1 + sign;
            text = format!("{text}{exponent}{}", self.take(digit));
            double = true;
        }
        match double {
            true => Token::Double(text),
            false if unsigned(self) => Token::Uint(text),
            false => Token::Int(text),
        }
    }

    /// The length of the prefix before a quotation mark; then, if it means a raw text, and if it means bytes.
    fn quote(&self) -> Option<(usize, bool, bool)> {
        let is_mark = |ahead| matches!(self.peek(ahead), Some('"' | '\''));
        let letter = |ahead| self.peek(ahead).map(|char| char.to_ascii_lowercase());
        match (letter(0), letter(1)) {
            _ if is_mark(0) => Some((0, false, false)),
            (Some('r'), _) if is_mark(1) => Some((1, true, false)),
            (Some('b'), _) if is_mark(1) => Some((1, false, true)),
            (Some('b'), Some('r')) | (Some('r'), Some('b')) if is_mark(2) => Some((2, true, true)),
            _ => None,
        }
    }

    /// A text from its quotation mark on.
    fn text(&mut self, raw: bool, bytes: bool) -> Result<Token, Issue> {
        let start = self.at;
        let mark = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(mark) && self.peek(2) == Some(mark);
        let length = if triple { 3 } else { 1 };
        self.at += length;
        let (mut text, mut data) = (String::new(), Vec::new());
        loop {
            if (0..length).all(|ahead| self.peek(ahead) == Some(mark)) {
                self.at += length;
                return Ok(if bytes { Token::Bytes(data) } else { Token::String(text) });
            }
            let open = || Issue::new(start, "Syntax error: token recognition error: the text has no end");
            let char = self.peek(0).filter(|char| triple || !matches!(char, '\n' | '\r')).ok_or_else(open)?;
            self.at += 1;
            let mut plain = |char: char| {
                text.push(char);
                data.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            };
            if char != '\\' || raw {
                plain(char);
                continue;
            }
            match self.escape(bytes).ok_or_else(|| Issue::new(start, "Syntax error: invalid escape sequence"))? {
                Escaped::Char(char) => plain(char),
                Escaped::Byte(byte) => data.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: bool) -> Option<Escaped> {
        let char = self.peek(0)?;
        self.at += 1;
        let mut digits = |count: usize, radix: u32| {
            let text: String = self.chars.get(self.at..self.at + count)?.iter().collect();
            self.at += count;
            text.chars().all(|char| char.is_digit(radix)).then(|| u32::from_str_radix(&text, radix).ok())?
        };
        let plain = match char {
            '\\' | '\'' | '"' | '`' | '?' => char,
            'x' | 'X' | '0'..='3' => {
                let number = match char {
                    'x' | 'X' => digits(2, 16)?,
                    _ => char.to_digit(8)? * 64 + digits(2, 8)?,
                };
                return Some(match bytes {
                    true => Escaped::Byte(u8::try_from(number).ok()?),
                    false => Escaped::Char(char::from_u32(number)?),
                });
            }
            'u' if !bytes => char::from_u32(digits(4, 16)?)?,
            'U' if !bytes => char::from_u32(digits(8, 16)?)?,
            other => control(other)?,
        };
        Some(Escaped::Char(plain))
    }
}

enum Escaped {
    Char(char),
    Byte(u8),
}
