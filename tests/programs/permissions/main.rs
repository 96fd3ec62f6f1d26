//! A program that uses everything that brings a rule, for the tests of its least role.
//!
//! Each of its controllers says when it has used all that it is granted. What is written is new in each process, so
//! that nothing is left out because it is there already.

mod ends;
mod gadgets;
mod others;

use kooper::__private::v1::{Definition, Program};

struct Everything;

impl Definition for Everything {
    fn define(program: &mut Program) {
        gadgets::define(program);
        ends::define(program);
        others::define(program);
    }
}

/// Another word in each process.
fn fresh() -> String {
    std::process::id().to_string()
}

kooper::main!(Everything);
