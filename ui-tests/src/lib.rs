//! Programs that the attribute refuses, in `fail`, and those that it accepts, in `pass`.
//!
//! `TRYBUILD=overwrite cargo test -p kooper-ui-tests --test fail` writes what the compiler
//! says now; read each change before you keep it: it is what a user reads.
