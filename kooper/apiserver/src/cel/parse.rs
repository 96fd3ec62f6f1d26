//! From tokens to the tree of an expression, in which macros are expanded.

use super::lex::{Token, tokens};
use super::syntax::{Entry, Expr, Fold, FoldKind, Issue, Item, Node, Select};
use super::value::Value;

/// Words that cannot name a variable or function.
pub(super) const RESERVED: [&str; 19] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "true",
    "false",
];

/// Binary operators, the weakest first; all of them bind to the left.
const OPERATORS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[("==", "_==_"), ("!=", "_!=_"), ("<=", "_<=_"), (">=", "_>=_"), ("<", "_<_"), (">", "_>_"), ("in", "@in")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// Returns whether the word must be escaped in the name of a field.
pub(crate) fn is_keyword(word: &str) -> bool {
    matches!(word, "in" | "null") || RESERVED.contains(&word)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
}

/// The tree of an expression.
pub(super) fn parse(source: &str) -> Result<Expr, Issue> {
    let mut parser = Parser { tokens: tokens(source)?, next: 0 };
    let expr = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

fn call(at: usize, name: &str, args: Vec<Expr>) -> Expr {
    Expr { at, node: Node::Call { target: None, name: name.to_owned(), args } }
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |(at, _)| *at)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn is(&self, sign: &str) -> bool {
        match self.peek() {
            Token::Sign(found) => *found == sign,
            Token::Ident(word) => word == sign,
            _ => false,
        }
    }

    /// Takes the sign, if it comes next, and tells where it was.
    fn took(&mut self, sign: &str) -> Option<usize> {
        let at = self.is(sign).then(|| self.at())?;
        self.next += 1;
        Some(at)
    }

    fn expect(&mut self, sign: &str) -> Result<usize, Issue> {
        self.took(sign).ok_or_else(|| self.unexpected())
    }

    fn unexpected(&self) -> Issue {
        let shown = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Ident(text) | Token::Int(text) | Token::Double(text) => text.clone(),
            Token::Uint(text) => format!("{text}u"),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::String(text) => format!("{text:?}"),
            Token::Bytes(_) => "b\"…\"".to_owned(),
        };
        Issue::new(self.at(), format!("Syntax error: unexpected '{shown}'"))
    }

    fn expr(&mut self) -> Result<Expr, Issue> {
        let condition = self.binary(0)?;
        let Some(at) = self.took("?") else { return Ok(condition) };
        let yes = self.binary(0)?;
        self.expect(":")?;
        let no = self.expr()?;
        Ok(call(at, "_?_:_", vec![condition, yes, no]))
    }

    fn binary(&mut self, level: usize) -> Result<Expr, Issue> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        if level < 2 {
            return self.balanced(level, left);
        }
        while let Some((sign, name)) = operators.iter().find(|(sign, _)| self.is(sign)) {
            let at = self.expect(sign)?;
            let right = self.binary(level + 1)?;
            left = call(at, name, vec![left, right]);
        }
        Ok(left)
    }

    /// Terms between `||` or `&&`, of which there may be many, as a tree that is not deep.
    fn balanced(&mut self, level: usize, first: Expr) -> Result<Expr, Issue> {
        let (sign, name) = OPERATORS[level][0];
        let (mut terms, mut signs) = (vec![first], Vec::new());
        while let Some(at) = self.took(sign) {
            signs.push(at);
            terms.push(self.binary(level + 1)?);
        }
        while terms.len() > 1 {
            let (mut next, mut between) = (Vec::new(), Vec::new());
            let mut rest = terms.into_iter();
            let mut at = signs.into_iter();
            while let Some(left) = rest.next() {
                match (rest.next(), at.next()) {
                    (Some(right), Some(sign)) => next.push(call(sign, name, vec![left, right])),
                    _ => next.push(left),
                }
                between.extend(at.next());
            }
            (terms, signs) = (next, between);
        }
        terms.pop().ok_or_else(|| self.unexpected())
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let Some(at) = self.took(sign) else { continue };
            // A sign before a number is part of it.
            if sign == "-" && matches!(self.peek(), Token::Int(_) | Token::Double(_)) {
                let number = self.number(at, "-")?;
                return self.members(number);
            }
            let mut signs = 1;
            while self.took(sign).is_some() {
                signs += 1;
            }
            let operand = self.primary()?;
            let operand = self.members(operand)?;
            return Ok(if signs % 2 == 0 { operand } else { call(at, name, vec![operand]) });
        }
        let primary = self.primary()?;
        self.members(primary)
    }

    fn number(&mut self, at: usize, sign: &str) -> Result<Expr, Issue> {
        let radix = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => (format!("{sign}{hex}"), 16),
            None => (format!("{sign}{text}"), 10),
        };
        let value = match self.advance() {
            Token::Int(text) => {
                let (text, radix) = radix(&text);
                let number = i64::from_str_radix(&text, radix);
                Value::Int(number.map_err(|_| Issue::new(at, "Syntax error: invalid int literal"))?)
            }
            Token::Uint(text) => {
                let (text, radix) = radix(&text);
                let number = u64::from_str_radix(&text, radix);
                Value::Uint(number.map_err(|_| Issue::new(at, "Syntax error: invalid uint literal"))?)
            }
            Token::Double(text) => {
                let number = format!("{sign}{text}").parse();
                Value::Double(number.map_err(|_| Issue::new(at, "Syntax error: invalid double literal"))?)
            }
            _ => return Err(Issue::new(at, "Syntax error: a number is missing")),
        };
        Ok(Expr { at, node: Node::Literal(value) })
    }

    /// The fields, methods and indexes behind a value.
    fn members(&mut self, mut operand: Expr) -> Result<Expr, Issue> {
        loop {
            if let Some(at) = self.took(".") {
                let optional = self.took("?").is_some();
                let Token::Ident(field) = self.peek().clone() else { return Err(self.unexpected()) };
                if matches!(field.as_str(), "in" | "true" | "false" | "null") {
                    return Err(self.unexpected());
                }
                self.next += 1;
                let opening = self.at();
                if !optional && self.took("(").is_some() {
                    let args = self.arguments(")")?;
                    operand = member_call(opening, operand, field, args)?;
                    continue;
                }
                let how = if optional { Select::Optional } else { Select::Field };
                operand = Expr { at, node: Node::Select { operand: Box::new(operand), field, how } };
            } else if let Some(at) = self.took("[") {
                let name = if self.took("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expr()?;
                self.expect("]")?;
                operand = call(at, name, vec![operand, index]);
            } else if self.is("{") {
                let Some(name) = qualified(&operand) else { return Err(self.unexpected()) };
                let at = self.expect("{")?;
                while self.took("}").is_none() {
                    if *self.peek() == Token::End {
                        return Err(self.unexpected());
                    }
                    self.next += 1;
                }
                operand = Expr { at, node: Node::Struct(name) };
            } else {
                return Ok(operand);
            }
        }
    }

    /// Expressions up to a bracket, which is taken.
    fn arguments(&mut self, closing: &str) -> Result<Vec<Expr>, Issue> {
        let mut all = Vec::new();
        if self.took(closing).is_some() {
            return Ok(all);
        }
        loop {
            all.push(self.expr()?);
            if self.took(closing).is_some() {
                return Ok(all);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Result<Expr, Issue> {
        let at = self.at();
        let literal = |value| Ok(Expr { at, node: Node::Literal(value) });
        match self.peek().clone() {
            Token::Int(_) | Token::Uint(_) | Token::Double(_) => self.number(at, ""),
            Token::String(text) => {
                self.next += 1;
                literal(Value::from(text))
            }
            Token::Bytes(data) => {
                self.next += 1;
                literal(Value::Bytes(data.into()))
            }
            Token::Ident(word) => {
                self.next += 1;
                match word.as_str() {
                    "true" | "false" => literal(Value::Bool(word == "true")),
                    "null" => literal(Value::Null),
                    "in" => {
                        self.next -= 1;
                        Err(self.unexpected())
                    }
                    _ => self.word(at, word),
                }
            }
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.next += 1;
                self.list(at)
            }
            Token::Sign("{") => {
                self.next += 1;
                self.map(at)
            }
            // A name from the outermost scope.
            Token::Sign(".") => {
                self.next += 1;
                let Token::Ident(word) = self.advance() else {
                    self.next -= 1;
                    return Err(self.unexpected());
                };
                self.word(at, word)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self, at: usize, word: String) -> Result<Expr, Issue> {
        if RESERVED.contains(&word.as_str()) {
            return Err(Issue::new(at, format!("reserved identifier: {word}")));
        }
        let opening = self.at();
        if self.took("(").is_none() {
            return Ok(Expr { at, node: Node::Ident(word) });
        }
        let args = self.arguments(")")?;
        if word != "has" || args.len() != 1 {
            return Ok(call(opening, &word, args));
        }
        let tested = args.into_iter().next().map(|arg| (arg.at, arg.node));
        match tested {
            Some((_, Node::Select { operand, field, how: Select::Field })) => {
                Ok(Expr { at: opening, node: Node::Select { operand, field, how: Select::Test } })
            }
            other => Err(Issue::new(other.map_or(opening, |(at, _)| at), "invalid argument to has() macro")),
        }
    }

    fn list(&mut self, at: usize) -> Result<Expr, Issue> {
        let mut items = Vec::new();
        while self.took("]").is_none() {
            let optional = self.took("?").is_some();
            items.push(Item { value: self.expr()?, optional });
            if !self.is("]") {
                self.expect(",")?;
            }
        }
        Ok(Expr { at, node: Node::List(items) })
    }

    fn map(&mut self, at: usize) -> Result<Expr, Issue> {
        let mut entries = Vec::new();
        while self.took("}").is_none() {
            let optional = self.took("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.expr()?, optional });
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        Ok(Expr { at, node: Node::Map(entries) })
    }
}

/// The name that a chain of fields spells.
pub(super) fn qualified(expr: &Expr) -> Option<String> {
    match &expr.node {
        Node::Ident(name) => Some(name.clone()),
        Node::Select { operand, field, how: Select::Field } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}

/// A method, or what the macro of this name stands for.
fn member_call(at: usize, target: Expr, name: String, mut args: Vec<Expr>) -> Result<Expr, Issue> {
    let (kind, variables) = match (name.as_str(), args.len()) {
        ("all", 2) => (FoldKind::All, 1),
        ("exists", 2) => (FoldKind::Exists, 1),
        ("exists_one", 2) => (FoldKind::ExistsOne, 1),
        ("filter", 2) => (FoldKind::Filter, 1),
        ("map", 2 | 3) => (FoldKind::List, 1),
        ("all", 3) => (FoldKind::All, 2),
        ("exists", 3) => (FoldKind::Exists, 2),
        ("exists_one" | "existsOne", 3) => (FoldKind::ExistsOne, 2),
        ("transformList", 3 | 4) => (FoldKind::List, 2),
        ("transformMap", 3 | 4) => (FoldKind::Map, 2),
        ("transformMapEntry", 3 | 4) => (FoldKind::MapEntry, 2),
        ("sortBy", 2) => (FoldKind::SortBy, 1),
        ("optMap", 2) => (FoldKind::OptMap, 1),
        ("optFlatMap", 2) => (FoldKind::OptFlatMap, 1),
        _ => return Ok(Expr { at, node: Node::Call { target: Some(Box::new(target)), name, args } }),
    };
    if kind == FoldKind::SortBy && matches!(target.node, Node::Literal(_) | Node::Map(_) | Node::Struct(_)) {
        let why = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(Issue::new(target.at, why));
    }
    let variable = |arg: &Expr| match &arg.node {
        Node::Ident(name) => Ok(name.clone()),
        _ if matches!(kind, FoldKind::OptMap | FoldKind::OptFlatMap) => {
            Err(Issue::new(arg.at, format!("{name}() variable name must be a simple identifier")))
        }
        _ if matches!(name.as_str(), "map" | "filter") => Err(Issue::new(arg.at, "argument is not an identifier")),
        _ => Err(Issue::new(arg.at, "argument must be a simple name")),
    };
    let names = args[..variables].iter().map(variable).collect::<Result<Vec<_>, _>>()?;
    let (var, var2) = (names[0].clone(), names.get(1).cloned());
    if var2.as_ref() == Some(&var) {
        return Err(Issue::new(args[1].at, format!("duplicate variable name: {var}")));
    }
    for (name, arg) in names.iter().zip(&args) {
        if name == "__result__" {
            return Err(Issue::new(arg.at, "iteration variable overwrites accumulator variable"));
        }
    }
    let mut rest = args.split_off(variables);
    let Some(body) = rest.pop() else { return Err(Issue::new(at, "Syntax error: an argument is missing")) };
    let fold = Fold { kind, range: target, var, var2, filter: rest.pop(), body };
    Ok(Expr { at, node: Node::Fold(Box::new(fold)) })
}
