//! TLS in front of the services: an authority made at the start, and a certificate of it.

use super::connection::{Stream, Wrap};
use super::ids;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS12;
use rustls::{ALL_VERSIONS, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// TLS with a certificate that no machine knows, but by its authority.
pub struct Tls {
    host: Option<String>,
    authority: String,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self::new()
    }
}

impl Tls {
    /// For clients that come to `127.0.0.1` or `localhost`.
    pub fn new() -> Self {
        Self::of(&["127.0.0.1", "localhost"], ALL_VERSIONS, |_| {})
    }

    /// For clients that come by this name and no other; the catalog has it too.
    pub fn for_host(name: &str) -> Self {
        Self { host: Some(name.to_owned()), ..Self::of(&[name], ALL_VERSIONS, |_| {}) }
    }

    /// With a certificate for another host.
    pub fn of_another_host() -> Self {
        Self::of(&["elsewhere.test"], ALL_VERSIONS, |_| {})
    }

    /// With a certificate that ended long ago.
    pub fn expired() -> Self {
        Self::of(&["127.0.0.1"], ALL_VERSIONS, |wanted| {
            wanted.not_after = rcgen::date_time_ymd(2001, 1, 1);
        })
    }

    /// With nothing newer than TLS 1.2, as behind an old load balancer.
    pub fn old() -> Self {
        Self::of(&["127.0.0.1"], &[&TLS12], |_| {})
    }

    /// A certificate for these names and addresses, with more done to it.
    fn of(
        names: &[&str],
        versions: &[&'static SupportedProtocolVersion],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Self {
        let (authority, issuer) = authority();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut wanted = CertificateParams::new(names).expect("names");
        wanted.distinguished_name.push(DnType::CommonName, "the cloud of a test");
        wanted.use_authority_key_identifier_extension = true;
        wanted.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        change(&mut wanted);
        let key = KeyPair::generate().expect("a key");
        let certificate = wanted.signed_by(&key, &issuer).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a key for its certificate");
        Self { host: None, authority, config: Arc::new(config) }
    }
}

/// An authority: its certificate for clients, and what signs.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut wanted = CertificateParams::default();
    wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    wanted.key_usages.push(KeyUsagePurpose::KeyCertSign);
    // A name of its own: the same one with another key would be another mistake.
    let name = format!("the authority {}", ids::hex());
    wanted.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let certificate = wanted.self_signed(&key).expect("a certificate");
    (certificate.pem(), Issuer::new(wanted, key))
}

impl Wrap for Tls {
    fn scheme(&self) -> &'static str {
        "https"
    }

    fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    fn authority(&self) -> Option<&str> {
        Some(&self.authority)
    }

    fn wrap(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        let connection =
            ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        // The handshake is made with the first read, in the connection's own thread.
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }
}
