//! TLS: a certificate authority in memory, and the server's certificate, which it signs.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::Credentials;
use crate::tls::provider;

/// The names by which clients on this machine, and pods of a cluster, call an API server.
const NAMES: [&str; 8] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The certificate and the key of a new authority, in DER.
pub(super) fn new_authority() -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params().self_signed(&key)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}

/// The same for every authority: the key makes the difference.
fn authority_params() -> CertificateParams {
    let mut params = named("kooper-apiserver-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // The clock of a machine may be wrong, and no one but this server has the key.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    params
}

/// Accepts connections with a new certificate for this address.
pub(super) fn acceptor(credentials: &Credentials, address: IpAddr) -> io::Result<TlsAcceptor> {
    let (certificate, key) = issue(credentials, address).map_err(io::Error::other)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate], key);
    let mut config = config.map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn issue(
    credentials: &Credentials,
    address: IpAddr,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let issuer = Issuer::new(authority_params(), KeyPair::try_from(credentials.key.as_slice())?);
    let mut names: Vec<String> = NAMES.map(ToOwned::to_owned).into();
    if !address.is_unspecified() && !names.contains(&address.to_string()) {
        names.push(address.to_string());
    }
    let mut params = named("kooper-apiserver");
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}
