//! The Common Expression Language, as Kubernetes offers it to the rules of custom resources.
//!
//! Expressions are parsed, given types and evaluated as cel-go does; `library.txt` declares the functions. What this
//! cannot evaluate as kube-apiserver does is an error that begins with [`LIMIT`], never another answer.

mod address;
mod check;
mod constant;
mod cost;
mod depth;
mod eval;
mod extent;
mod format;
mod functions;
mod lex;
mod library;
mod parse;
mod regex;
mod semver;
mod syntax;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod url;
mod value;

use std::collections::HashMap;

pub(crate) use self::address::Cidr;
use self::eval::Scope;
pub(crate) use self::extent::Extent;
pub(crate) use self::format::{Format, bytes};
pub(crate) use self::parse::is_keyword;
pub(crate) use self::regex::{mistake as pattern_mistake, pattern};
use self::syntax::{Expr, Issue, report};
pub(crate) use self::time::{Time, duration};
pub(crate) use self::types::{Struct, Type};
pub(crate) use self::value::{Key, List, ListKind, Value};

/// The error of an evaluation that costs too much.
pub(crate) const CANCELLED: &str = "operation cancelled: actual cost limit exceeded";
const NO_OVERLOAD: &str = "no such overload";

/// The beginning of errors that kube-apiserver would not report.
const LIMIT: &str = "the embedded API server cannot evaluate this as kube-apiserver does";

/// Trees of expressions are as deep as cel-go admits; a debug build needs some megabytes for that, and threads of tokio
/// and of tests have two in all.
const STACK: usize = 16 << 20;

/// An expression that has been parsed and checked.
#[derive(Debug)]
pub(crate) struct Program {
    expr: Expr,
    of: Type,
    uses_old_self: bool,
    zeros: HashMap<usize, Value>,
    cost: u64,
}

impl Program {
    /// Compiles an expression with these variables, of which `self` and `oldSelf` have this extent. The error is that of kube-apiserver, with a line for each mistake.
    pub(crate) fn compile(source: &str, variables: &[(&str, Type)], extent: &Extent) -> Result<Self, String> {
        if depth::of(source) > depth::LIMIT {
            return Err(format!("compilation failed: expression recursion limit exceeded: {}", depth::LIMIT));
        }
        let compile = || {
            let expr = parse::parse(source).map_err(|issue| vec![issue])?;
            let checked = check::check(&expr, variables)?;
            Ok::<_, Vec<Issue>>((expr, checked))
        };
        let compiled = stacker::grow(STACK, compile);
        let (expr, checked) = compiled.map_err(|issues| format!("compilation failed: {}", report(source, issues)))?;
        stacker::grow(STACK, || constant::check(&expr))
            .map_err(|why| format!("program instantiation failed: {why}"))?;
        let cost = stacker::grow(STACK, || cost::cost(&expr, &checked, extent));
        Ok(Self { expr, of: checked.of, uses_old_self: checked.uses_old_self, zeros: checked.zeros, cost })
    }

    /// The type of its value.
    pub(crate) fn of(&self) -> &Type {
        &self.of
    }

    /// A rule that reads `oldSelf` is one of transitions, which objects without a former state need not obey.
    pub(crate) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// The most that an evaluation may cost.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Evaluates the expression with these values of its variables, and tells what that has cost.
    pub(crate) fn evaluate(&self, variables: Vec<(String, Value)>) -> (Result<Value, String>, u64) {
        let scope = Scope::new(variables, &self.zeros);
        stacker::grow(STACK, || scope.run(&self.expr))
    }
}
