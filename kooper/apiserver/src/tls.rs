//! The library that TLS is made with.

use rustls::crypto::CryptoProvider;

// Named, as a program that has both libraries has no default.
#[cfg(feature = "ring")]
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

#[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
compile_error!("kooper-apiserver serves HTTPS: enable its feature `ring` or `aws-lc-rs`");
