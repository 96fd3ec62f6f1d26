//! A certificate in files that are read again when they change, as those of a mounted
//! Secret do.

use parking_lot::Mutex;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Minimum time between two comparisons of the files. A kubelet updates them once a minute.
const COMPARE: Duration = Duration::from_secs(5);

/// A certificate and its key in two files in PEM.
pub struct FileCertificate {
    files: Files,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Files {
    /// Whose certificate it is, for messages, such as `the metrics`.
    owner: &'static str,
    certificate: PathBuf,
    key: PathBuf,
}

struct Loaded {
    acceptor: TlsAcceptor,
    /// The content that was last tried, usable or not.
    content: Content,
    compared: Instant,
}

/// The content of both files.
#[derive(Default, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("the file {} of {owner}' certificate or key cannot be read: {error}", file.display())]
    Unreadable {
        /// Whose certificate it is.
        owner: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file has no certificate.
    #[error("the file {} contains no certificate in PEM, which begins with `-----BEGIN CERTIFICATE-----`", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A file has no key.
    #[error("the file {} contains no private key in PEM, such as PKCS #8", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// They do not belong together, or are of a kind that is not supported.
    #[error(
        "the certificate {} and the key {} cannot be used: {error}", certificate.display(), key.display()
    )]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of rustls.
        error: rustls::Error,
    },
}

impl FileCertificate {
    /// Loads the files. `owner` is whose certificate it is, for messages, such as `the metrics`.
    ///
    /// # Errors
    /// When they cannot be read or used.
    pub fn load(owner: &'static str, certificate: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let files = Files { owner, certificate, key };
        let content = files.read()?;
        let loaded = Loaded { acceptor: files.acceptor(&content)?, content, compared: Instant::now() };
        Ok(Self { files, loaded: Mutex::new(loaded) })
    }

    /// Returns the TLS acceptor of the newest usable certificate.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        let now = Instant::now();
        if now.saturating_duration_since(loaded.compared) >= COMPARE {
            loaded.compared = now;
            self.files.update(&mut loaded);
        }
        loaded.acceptor.clone()
    }
}

impl fmt::Debug for FileCertificate {
    /// The files alone, as their content is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCertificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Files {
    fn read(&self) -> Result<Content, CertificateError> {
        let unreadable =
            |file: &Path, error| CertificateError::Unreadable { owner: self.owner, file: file.to_owned(), error };
        let read = |file: &Path| fs::read(file).map_err(|error| unreadable(file, error));
        Ok(Content { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    /// Reads the files again. If they cannot be used, the certificate stays, and one
    /// line is logged for each content of the files.
    fn update(&self, loaded: &mut Loaded) {
        let Some(mut tried) = self.attempt(&loaded.content) else { return };
        if tried.1.is_err() {
            // The files may have been replaced between the first read and the second.
            let Some(again) = self.attempt(&loaded.content) else { return };
            tried = again;
        }
        // Not the content at this moment: it would count as tried.
        loaded.content = tried.0;
        match tried.1 {
            Ok(acceptor) => {
                loaded.acceptor = acceptor;
                tracing::info!("the certificate of {} has been replaced", self.owner);
            }
            Err(error) => {
                tracing::warn!("the certificate of {} cannot be replaced and stays in use: {error}", self.owner);
            }
        }
    }

    /// Reads the files, and makes an acceptor of their content, which is empty if they cannot be
    /// read. Returns `None` if this content was tried before.
    fn attempt(&self, before: &Content) -> Option<(Content, Result<TlsAcceptor, CertificateError>)> {
        let (content, error) = match self.read() {
            Ok(content) => (content, None),
            Err(error) => (Content::default(), Some(error)),
        };
        if content == *before {
            return None;
        }
        let made = error.map_or_else(|| self.acceptor(&content), Err);
        Some((content, made))
    }

    fn acceptor(&self, content: &Content) -> Result<TlsAcceptor, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(&content.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| CertificateError::NoCertificate { file: self.certificate.clone() })?;
        let key = PrivateKeyDer::from_pem_slice(&content.key);
        let key = key.map_err(|_| CertificateError::NoKey { file: self.key.clone() })?;
        crate::acceptor(chain, key).map_err(|error| CertificateError::Unusable {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tempfile::TempDir;

    use super::*;

    /// A Secret that is mounted as a volume: its files are links to those of a folder, which is swapped.
    struct Mount {
        folder: TempDir,
        version: AtomicU64,
    }

    impl Mount {
        fn new() -> Self {
            let mount = Self { folder: tempfile::tempdir().expect("a folder"), version: AtomicU64::new(0) };
            for file in ["tls.crt", "tls.key"] {
                symlink(format!("..data/{file}"), mount.path(file)).expect("a link");
            }
            mount
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn swap(&self, certificate: &str, key: &str) {
            let version = self.version.fetch_add(1, Ordering::Relaxed);
            let data = self.path(&format!("..{version}"));
            fs::create_dir_all(&data).expect("a folder");
            fs::write(data.join("tls.crt"), certificate).expect("written");
            fs::write(data.join("tls.key"), key).expect("written");
            let next = self.path("..data_tmp");
            symlink(&data, &next).expect("a link");
            fs::rename(next, self.path("..data")).expect("renamed");
        }

        fn load(&self) -> Result<FileCertificate, CertificateError> {
            FileCertificate::load("the metrics", self.path("tls.crt"), self.path("tls.key"))
        }
    }

    /// A new certificate and its key.
    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn is_same(one: &TlsAcceptor, other: &TlsAcceptor) -> bool {
        Arc::ptr_eq(one.config(), other.config())
    }

    #[tokio::test(start_paused = true)]
    async fn a_replaced_certificate_is_used_and_a_bad_one_is_not() {
        let mount = Mount::new();
        let (a, b) = (pair(), pair());
        mount.swap(&a.0, &a.1);
        let certificate = mount.load().expect("a certificate and its key");
        let first = certificate.acceptor();
        mount.swap(&b.0, &b.1);
        assert!(is_same(&certificate.acceptor(), &first), "the files are not read for each connection");
        tokio::time::advance(COMPARE).await;
        let second = certificate.acceptor();
        assert!(!is_same(&second, &first));
        for (text, key) in [(&*a.0, &*b.1), ("", ""), (&a.0, "nonsense")] {
            mount.swap(text, key);
            tokio::time::advance(COMPARE).await;
            assert!(is_same(&certificate.acceptor(), &second), "it stays in use");
        }
        fs::remove_file(mount.path("..data")).expect("removed");
        tokio::time::advance(COMPARE).await;
        assert!(is_same(&certificate.acceptor(), &second));
        mount.swap(&a.0, &a.1);
        tokio::time::advance(COMPARE).await;
        assert!(!is_same(&certificate.acceptor(), &second), "a good one is used again");
    }

    #[tokio::test]
    async fn bad_files_are_reported_with_their_path_and_without_their_content() {
        let mount = Mount::new();
        let of = |name: &str| mount.path(name).display().to_string();
        let problem = || mount.load().map(drop).expect_err("it cannot be used").to_string();
        let unreadable = problem();
        assert!(unreadable.starts_with(&format!("the file {} of the metrics' ", of("tls.crt"))), "{unreadable}");
        let (a, b) = (pair(), pair());
        for (certificate, key, expected) in [
            ("canary", &*a.1, format!("the file {} contains no certificate in PEM", of("tls.crt"))),
            (&a.0, "canary", format!("the file {} contains no private key in PEM", of("tls.key"))),
            (&a.0, &a.0, format!("the file {} contains no private key in PEM", of("tls.key"))),
            (&a.0, &b.1, format!("the certificate {} and the key {} cannot be used: ", of("tls.crt"), of("tls.key"))),
        ] {
            mount.swap(certificate, key);
            let problem = problem();
            assert!(problem.starts_with(&expected) && !problem.contains("canary"), "{problem}");
        }
    }
}
