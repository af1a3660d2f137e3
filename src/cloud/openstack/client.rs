//! The HTTP client: whom it trusts, and which way it goes.

use crate::host::files;
use crate::model::cloud::access::{Access, Proxy};
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use reqwest::blocking::{Client, ClientBuilder, Response};
use std::io::{Error as IoError, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

/// A client for the cloud's services. Building it reads every certificate of the machine.
pub(super) fn build(access: &Access) -> Result<Client> {
    // Installing it twice is no error that matters: it was done already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = base(Duration::from_secs(access.timeouts.connect))
        .min_tls_version(reqwest::tls::Version::TLS_1_2);
    builder = trust(builder, access)?;
    if let Some((certificate, key)) = &access.certificate {
        let mut pem = read(certificate, "cert_file")?;
        pem.push(b'\n');
        pem.extend(read(key, "key_file")?);
        let identity = reqwest::Identity::from_pem(&pem).map_err(|error| {
            wrong(format!("the cert_file {} cannot be used: {error}", certificate.display()))
        })?;
        builder = builder.identity(identity);
    }
    builder = match &access.proxy {
        Proxy::Environment => builder,
        Proxy::Direct => builder.no_proxy(),
        Proxy::At(url) => builder
            .proxy(reqwest::Proxy::all(url).map_err(|error| wrong(format!("the proxy: {error}")))?),
    };
    builder.build().map_err(|error| {
        let file =
            access.ca_file.as_ref().map(|path| format!(" with the ca_file {}", path.display()));
        let file = file.unwrap_or_default();
        wrong(format!("no client for the cloud can be made{file}: {}", innermost(&error)))
            .hint("name the cloud's authority in openstack.ca_file")
    })
}

/// A client for the address that a machine asks about itself: plain, direct and quick.
pub(super) fn for_metadata(access: &Access) -> Option<Client> {
    let limit = Duration::from_secs(access.timeouts.metadata);
    base(limit).timeout(limit).no_proxy().tls_certs_only([]).build().ok()
}

/// An answer's body, bounded by bytes (`FileTooLarge`) and by time (`TimedOut`): a service that
/// sends a little now and then would never end.
pub(super) fn body_of(
    response: Response,
    most: usize,
    until: Deadline,
) -> std::result::Result<Vec<u8>, IoError> {
    let mut bytes = Vec::new();
    let mut body = response.take(most as u64 + 1);
    let mut part = vec![0; 64 << 10];
    loop {
        match body.read(&mut part) {
            Ok(0) if bytes.len() > most => return Err(ErrorKind::FileTooLarge.into()),
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if until.over() {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

fn base(connect: Duration) -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(connect)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("incloud-disk/", env!("CARGO_PKG_VERSION")))
}

fn trust(builder: ClientBuilder, access: &Access) -> Result<ClientBuilder> {
    let builder = match &access.ca_file {
        Some(path) => {
            let certificates = reqwest::Certificate::from_pem_bundle(&read(path, "ca_file")?)
                .map_err(|error| {
                    let why = innermost(&error);
                    wrong(format!("the ca_file {} cannot be read: {why}", path.display()))
                })?;
            if certificates.is_empty() {
                return Err(wrong(format!("the ca_file {} holds no certificate", path.display())));
            }
            builder.tls_certs_only(certificates)
        }
        // Without TLS no certificate is needed, and a machine may have none.
        None if access.auth_url.starts_with("http://") => builder.tls_certs_only([]),
        None => builder,
    };
    Ok(if access.insecure { builder.danger_accept_invalid_certs(true) } else { builder })
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    files::read_whole(path).map_err(|error| {
        wrong(Error::io(format!("read the {what} {}", path.display()), &error).cause)
    })
}

fn wrong(what: String) -> Error {
    Error::new(Kind::Config, what)
}

/// The innermost reason: the outer ones say little.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
