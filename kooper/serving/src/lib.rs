//! The sockets of the programs that are written with [Kooper](https://github.com/kooper-rs/kooper).
//! Depend on the crate `kooper`.
//!
//! [`accept`] accepts connections within limits for each [`Source`]; a [`FileCertificate`]
//! follows its files.

mod accept;
mod bind;
#[cfg(all(feature = "tls", any(feature = "ring", feature = "aws-lc-rs")))]
mod files;
mod limits;
mod source;
#[cfg(all(feature = "tls", any(feature = "ring", feature = "aws-lc-rs")))]
mod tls;

pub use accept::accept;
pub use bind::bind;
#[cfg(all(feature = "tls", any(feature = "ring", feature = "aws-lc-rs")))]
pub use files::{CertificateError, FileCertificate};
pub use limits::{Limits, Running};
pub use source::Source;
#[cfg(all(feature = "tls", any(feature = "ring", feature = "aws-lc-rs")))]
pub use tls::{acceptor, handshake, provider};
