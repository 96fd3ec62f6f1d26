//! JSON as YAML, in the style of the real server: sorted keys, lists as deep as their keys, long strings in lines.

mod key;
mod scalar;

use serde_json::Value;

use self::scalar::Style;

/// By how much what is inside of a map is indented.
const INDENT: usize = 2;
/// Behind this column a string goes on in the next line, at the next space.
const WIDTH: usize = 80;
/// Longer keys stand alone in their line.
const LONGEST_KEY: usize = 128;

/// An object in YAML.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut writer = Writer { out: String::new(), column: 0, spaced: true, indented: true };
    writer.node(value, None, false);
    writer.out.push('\n');
    writer.out
}

/// What was written so far, and where the next character comes.
struct Writer {
    out: String,
    column: usize,
    /// Nothing has to be between what was written and what comes next.
    spaced: bool,
    /// Only indentation and indicators are in this line.
    indented: bool,
}

impl Writer {
    /// `indent` is that of the map or list around the value, and `in_map` which of both it is.
    fn node(&mut self, value: &Value, indent: Option<usize>, in_map: bool) {
        match value {
            Value::Null => self.word("null"),
            Value::Bool(value) => self.word(if *value { "true" } else { "false" }),
            Value::Number(number) => self.word(&scalar::number(number)),
            Value::String(text) => self.string(text, indent, false),
            Value::Array(items) if items.is_empty() => self.word("[]"),
            Value::Object(entries) if entries.is_empty() => self.word("{}"),
            Value::Array(items) => {
                let indent = match indent {
                    // The items of a key are as deep as the key.
                    Some(indent) if in_map && !self.indented => indent,
                    indent => deeper(indent),
                };
                for item in items {
                    self.line(indent);
                    self.indicator("-", true);
                    self.node(item, Some(indent), false);
                }
            }
            Value::Object(entries) => {
                let indent = deeper(indent);
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by(|(one, _), (other, _)| key::compare(one, other));
                for (key, value) in entries {
                    self.line(indent);
                    if key.len() > LONGEST_KEY || scalar::has_break(key) {
                        self.indicator("?", true);
                        self.string(key, Some(indent), false);
                        self.line(indent);
                        self.indicator(":", true);
                    } else {
                        self.string(key, Some(indent), true);
                        self.put(':');
                        (self.spaced, self.indented) = (false, false);
                    }
                    self.node(value, Some(indent), true);
                }
            }
        }
    }

    fn put(&mut self, character: char) {
        self.out.push(character);
        self.column = if character == '\n' { 0 } else { self.column + 1 };
    }

    /// Goes to this column, in the next line unless the line has indentation only.
    fn line(&mut self, indent: usize) {
        if !self.indented || self.column > indent || self.column == indent && !self.spaced {
            self.put('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        (self.spaced, self.indented) = (true, true);
    }

    fn space(&mut self) {
        if !self.spaced {
            self.put(' ');
        }
    }

    /// Writes a sign, behind which a value may begin in the same line.
    fn indicator(&mut self, sign: &str, indented: bool) {
        self.space();
        sign.chars().for_each(|character| self.put(character));
        self.spaced = false;
        self.indented &= indented;
    }

    fn word(&mut self, word: &str) {
        self.indicator(word, false);
    }

    fn string(&mut self, text: &str, indent: Option<usize>, is_key: bool) {
        let indent = indent.map_or(INDENT, |indent| indent + INDENT);
        match Style::of(text, is_key) {
            Style::Plain => {
                self.space();
                self.folded(text, indent, is_key, Self::put);
            }
            Style::Single => {
                self.indicator("'", false);
                self.folded(text, indent, is_key, |writer, character| {
                    if character == '\'' {
                        writer.put('\'');
                    }
                    writer.put(character);
                });
                self.put('\'');
            }
            Style::Double => {
                self.indicator("\"", false);
                self.folded(text, indent, is_key, |writer, character| match scalar::escape(character) {
                    Some(escape) => escape.chars().for_each(|character| writer.put(character)),
                    None => writer.put(character),
                });
                self.put('"');
            }
            Style::Literal => self.literal(text, indent),
        }
        (self.spaced, self.indented) = (false, false);
    }

    /// Writes a string, and breaks long lines between two words.
    fn folded(&mut self, text: &str, indent: usize, is_key: bool, write: impl Fn(&mut Self, char)) {
        let mut after_space = false;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let inside = at > 0 && characters.peek().is_some();
            let before_space = characters.peek().is_some_and(|(_, next)| *next == ' ');
            if character == ' ' && !is_key && !after_space && inside && !before_space && self.column > WIDTH {
                self.indented = false;
                self.line(indent);
            } else {
                write(self, character);
            }
            after_space = character == ' ';
        }
    }

    /// Writes a string of several lines as they are.
    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", false);
        if text.starts_with([' ', '\n']) {
            self.put('2');
        }
        if !text.ends_with('\n') {
            self.put('-');
        } else if text.len() == 1 || text.ends_with("\n\n") {
            self.put('+');
        }
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            // What is behind the last break is a line only if it has something.
            if lines.peek().is_none() && line.is_empty() {
                break;
            }
            self.put('\n');
            if !line.is_empty() {
                (0..indent).for_each(|_| self.put(' '));
                line.chars().for_each(|character| self.put(character));
            }
        }
    }
}

fn deeper(indent: Option<usize>) -> usize {
    indent.map_or(0, |indent| indent + INDENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::to_yaml;

    #[test]
    fn lists_are_as_deep_as_their_keys() {
        let value =
            json!({"kind": "List", "items": [{"a": [1, [2, 3]], "b": {}}, [], "x"], "nested": {"list": [null]}});
        let expected =
            "items:\n- a:\n  - 1\n  - - 2\n    - 3\n  b: {}\n- []\n- x\nkind: List\nnested:\n  list:\n  - null\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn strings_that_mean_something_else_are_quoted() {
        let value = json!({
            "bool": "yes", "empty": "", "null": "null", "number": "1_000", "octal": "0777", "hex": "0x1F", "float": "1e3",
            "time": "2026-01-01T00:00:00Z", "day": "2026-1-1", "sexagesimal": "12:30:45", "plain": "a: b", "dash": "- a",
            "colon": "a:b", "hash": "a #b", "star": "*", "quote": "it's: so", "tab": "a\tb", "emoji": "🙂", "umlaut": "ä",
            "space": " a", "version": "1.2.3", "y": 1
        });
        let expected = "bool: \"yes\"\ncolon: a:b\ndash: '- a'\nday: \"2026-1-1\"\nemoji: \"\\U0001F642\"\nempty: \"\"\n\
                        float: \"1e3\"\nhash: 'a #b'\nhex: \"0x1F\"\n\"null\": \"null\"\nnumber: \"1_000\"\noctal: \"0777\"\n\
                        plain: 'a: b'\nquote: 'it''s: so'\nsexagesimal: \"12:30:45\"\nspace: ' a'\nstar: '*'\ntab: \"a\\tb\"\n\
                        time: \"2026-01-01T00:00:00Z\"\numlaut: ä\nversion: 1.2.3\n\"y\": 1\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn strings_of_several_lines_are_literal() {
        let value =
            json!({"a": "one\ntwo\n", "b": "one\n\n  two", "c": " one\ntwo\n\n", "d": ["x\ny"], "e": "bad \nspace"});
        let expected = "a: |\n  one\n  two\nb: |-\n  one\n\n    two\nc: |2+\n   one\n  two\n\nd:\n- |-\n  x\n  y\n\
                        e: \"bad \\nspace\"\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn long_strings_go_on_in_the_next_line() {
        let words = "word ".repeat(30);
        let expected = format!("text: {}\n  {}\n", "word ".repeat(16).trim_end(), "word ".repeat(14).trim_end());
        assert_eq!(to_yaml(&json!({"text": words.trim_end()})), expected);
    }

    #[test]
    fn numbers_are_those_of_go() {
        let value = json!([1, -5, 18446744073709551615_u64, 0.5, 1234567.5, 0.00001, 2.0]);
        assert_eq!(to_yaml(&value), "- 1\n- -5\n- 18446744073709551615\n- 0.5\n- 1.2345675e+06\n- 1e-05\n- 2\n");
    }

    #[test]
    fn a_long_key_stands_alone() {
        let key = "k".repeat(129);
        assert_eq!(to_yaml(&json!({&*key: {"a": 1}})), format!("? {key}\n: a: 1\n"));
    }
}
