//! A program that uses everything that requires a rule, for the tests of its least role.
//!
//! Each of its controllers logs when it has used all of its permissions. What it writes differs in each process, so
//! that no write is skipped.

mod ends;
mod gadgets;
mod narrow;
mod others;
mod slots;

use kooper::__private::v1::{Definition, Program};

struct Everything;

impl Definition for Everything {
    fn define(program: &mut Program) {
        gadgets::define(program);
        narrow::define(program);
        ends::define(program);
        others::define(program);
        slots::define(program);
    }
}

/// Another word in each process.
fn fresh() -> String {
    std::process::id().to_string()
}

kooper::main!(Everything);
