//! The small grammars that kooper's macros and its runtime share.
//!
//! The macros check at compile time what the runtime reads again from flags and
//! environment variables; both ask these modules, so both say the same thing.
//! Nothing here depends on anything but the standard library.
//!
//! Each module has one error type. Its text names the input and says what to
//! write instead.

pub mod access;
pub mod duration;
mod fields;
pub mod lease;
pub mod name;
mod requirement;
pub mod selector;
pub mod suggest;
