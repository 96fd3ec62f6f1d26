//! Credentials: what clients trust, and what the server trusts.

use std::fmt;
use std::str::FromStr;

use pem::Pem;
use rcgen::KeyPair;
use thiserror::Error;

use super::tls;
use crate::random;

const CERTIFICATE: &str = "CERTIFICATE";
const KEY: &str = "PRIVATE KEY";
const TOKEN: &str = "KOOPER ADMIN TOKEN";

/// The certificate authority of a server, and the token of its administrator.
///
/// A server that starts again with the same credentials, on the same address,
/// is the same server to its clients: their kubeconfig keeps working.
///
/// ```
/// use kooper_apiserver::Credentials;
///
/// let credentials = Credentials::generate();
/// // Write it to a file that only its owner can read.
/// let text = credentials.to_pem();
/// let again: Credentials = text.parse()?;
/// assert_eq!(again.to_pem(), text);
/// # Ok::<(), kooper_apiserver::CredentialsError>(())
/// ```
#[derive(Clone)]
pub struct Credentials {
    /// The authority's certificate and its key (PKCS #8), both in DER.
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) token: String,
}

/// Why a text does not hold credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The text is not a sequence of PEM blocks.
    #[error("the credentials are not PEM")]
    NotPem,
    /// A block is missing, or is there twice.
    #[error("the credentials need one block {0:?}")]
    Block(&'static str),
    /// The key cannot be used.
    #[error("the private key is not a PKCS #8 key that can sign")]
    Key,
    /// The key is not that of the certificate.
    #[error("the private key is not that of the certificate")]
    Mismatch,
    /// The token is not made of visible ASCII characters.
    #[error("the token of the administrator is not a bearer token")]
    Token,
}

impl Credentials {
    /// A new certificate authority and a random token.
    ///
    /// # Panics
    ///
    /// When the system has no random numbers.
    #[must_use]
    pub fn generate() -> Self {
        let authority = tls::new_authority();
        let (certificate, key) = authority.unwrap_or_else(|error| panic!("no key could be generated: {error}"));
        Self { certificate, key, token: random::token() }
    }

    /// The credentials as PEM blocks, which [`parse`](str::parse) reads.
    ///
    /// The text holds the private key and the token: keep it where only its owner can read it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let block = |tag: &str, bytes: &[u8]| encoded(&Pem::new(tag, bytes));
        [block(CERTIFICATE, &self.certificate), block(KEY, &self.key), block(TOKEN, self.token.as_bytes())].concat()
    }

    /// The certificate of the authority, in PEM: what clients verify the server by.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        encoded(&Pem::new(CERTIFICATE, self.certificate.as_slice()))
    }
}

fn encoded(block: &Pem) -> String {
    pem::encode_config(block, pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF))
}

impl FromStr for Credentials {
    type Err = CredentialsError;

    fn from_str(text: &str) -> Result<Self, CredentialsError> {
        let blocks = pem::parse_many(text).map_err(|_| CredentialsError::NotPem)?;
        let block = |tag: &'static str| {
            let mut found = blocks.iter().filter(|block| block.tag() == tag);
            match (found.next(), found.next()) {
                (Some(one), None) => Ok(one.contents().to_vec()),
                _ => Err(CredentialsError::Block(tag)),
            }
        };
        let (certificate, key) = (block(CERTIFICATE)?, block(KEY)?);
        let token = String::from_utf8(block(TOKEN)?).map_err(|_| CredentialsError::Token)?;
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CredentialsError::Token);
        }
        let pair = KeyPair::try_from(key.as_slice()).map_err(|_| CredentialsError::Key)?;
        let public = pair.public_key_raw();
        // A certificate holds its public key as it is.
        if !certificate.windows(public.len()).any(|part| part == public) {
            return Err(CredentialsError::Mismatch);
        }
        Ok(Self { certificate, key, token })
    }
}

impl fmt::Debug for Credentials {
    /// Shows neither the key nor the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, CredentialsError};

    #[test]
    fn what_was_written_is_read_again() {
        let credentials = Credentials::generate();
        let again: Credentials = credentials.to_pem().parse().expect("it was written just now");
        assert_eq!(again.to_pem(), credentials.to_pem());
        assert!(credentials.to_pem().starts_with(&credentials.certificate_pem()));
        assert_eq!(format!("{credentials:?}"), "Credentials { .. }");
    }

    #[test]
    fn what_cannot_serve_is_refused() {
        let one = Credentials::generate();
        let other = Credentials::generate();
        let parse = |credentials: &Credentials| credentials.to_pem().parse::<Credentials>().err();
        assert_eq!("".parse::<Credentials>().err(), Some(CredentialsError::Block("CERTIFICATE")));
        assert_eq!(one.certificate_pem().parse::<Credentials>().err(), Some(CredentialsError::Block("PRIVATE KEY")));
        let cut = &one.to_pem()[..200];
        assert!(cut.parse::<Credentials>().is_err());
        assert_eq!(parse(&Credentials { key: other.key, ..one.clone() }), Some(CredentialsError::Mismatch));
        assert_eq!(parse(&Credentials { key: vec![1, 2, 3], ..one.clone() }), Some(CredentialsError::Key));
        assert_eq!(parse(&Credentials { token: "a\nb".to_owned(), ..one }), Some(CredentialsError::Token));
    }
}
