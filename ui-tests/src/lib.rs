//! Programs that the attribute rejects, in `fail`, and those that it accepts, in `pass`.
//!
//! `TRYBUILD=overwrite cargo test -p kooper-ui-tests --test fail` writes the current messages
//! of the compiler; read each change before you keep it, because users read it.
