//! Where an `OpenStack` cloud is and who we are there, from one source: our own configuration,
//! a `cloud.conf`, a `clouds.yaml`, or the `OS_*` variables of a person's shell. Credentials of
//! two sources are never mixed.

pub mod clouds_yaml;
mod readers;

use crate::error::{Error, Kind, Result};
use crate::report::redaction::secrets_of_url;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Everything as written, nothing proven. The keys are those of `[openstack]` in our TOML.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Written {
    pub cloud_conf: Option<PathBuf>,
    pub clouds_file: Option<PathBuf>,
    pub cloud: Option<String>,
    pub auth_url: Option<String>,
    pub username: Option<String>,
    pub user_id: Option<String>,
    pub password: Option<Secret>,
    pub user_domain_name: Option<String>,
    pub user_domain_id: Option<String>,
    pub project_name: Option<String>,
    pub project_id: Option<String>,
    pub project_domain_name: Option<String>,
    pub project_domain_id: Option<String>,
    pub domain_name: Option<String>,
    pub domain_id: Option<String>,
    pub trust_id: Option<String>,
    pub application_credential_id: Option<String>,
    pub application_credential_name: Option<String>,
    pub application_credential_secret: Option<Secret>,
    pub region: Option<String>,
    pub interface: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub insecure: Option<bool>,
    pub http_services: Option<bool>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub proxy: Option<String>,
    pub metadata_url: Option<String>,
    pub limits: Limits,
    pub timeouts: Timeouts,
}

/// What a machine may ask of a cloud: all processes of the driver together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests per second, in the long run.
    pub per_second: f64,
    /// How many may come at once after a pause.
    pub burst: f64,
    /// How many may be under way at once.
    pub at_once: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_second: 20.0, burst: 40.0, at_once: 8 }
    }
}

impl Limits {
    fn check(&self) -> std::result::Result<(), String> {
        // Written so that "not a number" is out of range too.
        if !(0.1..=10_000.0).contains(&self.per_second) {
            return Err("openstack.limits.per_second must be from 0.1 to 10000".to_owned());
        }
        if !(1.0..=10_000.0).contains(&self.burst) {
            return Err("openstack.limits.burst must be from 1 to 10000".to_owned());
        }
        if !(1..=256).contains(&self.at_once) {
            return Err("openstack.limits.at_once must be from 1 to 256".to_owned());
        }
        Ok(())
    }
}

/// Seconds after which a request counts as lost; a call's own deadline ends it earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Longer than a connection should take anywhere.
    pub connect: u64,
    /// Reading is quick; a service that needs longer is in trouble.
    pub read: u64,
    /// A change may wait for a lock of the server in the compute service, up to that service's own
    /// limit of a minute for a dead host.
    pub change: u64,
    /// What the machine asks its own metadata service is answered at once, or there is none.
    pub metadata: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: 10, read: 30, change: 80, metadata: 2 }
    }
}

impl Timeouts {
    fn check(&self) -> std::result::Result<(), String> {
        let all = [
            ("connect", self.connect),
            ("read", self.read),
            ("change", self.change),
            ("metadata", self.metadata),
        ];
        match all.into_iter().find(|(_, seconds)| !(1..=600).contains(seconds)) {
            Some((name, _)) => {
                Err(format!("openstack.timeouts.{name} must be from 1 to 600 seconds"))
            }
            None => Ok(()),
        }
    }
}

/// Where a cloud usually tells its servers who they are.
const METADATA: &str = "http://169.254.169.254";

/// Where the cloud is and who we are.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// Keystone's address, with `/v3` at its end.
    pub auth_url: String,
    /// How we prove who we are.
    pub login: Login,
    /// The region, if several may be in the catalog.
    pub region: Option<String>,
    /// Which of a service's addresses is ours.
    pub interface: Interface,
    /// The authorities that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether certificates are not checked: only if a person wrote so.
    pub insecure: bool,
    /// Whether the services may be asked without TLS although the login has it: only if a person wrote so.
    pub http_services: bool,
    /// A certificate of our own and its key, for clouds that ask for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub proxy: Proxy,
    /// How much may be asked.
    pub limits: Limits,
    /// How long an answer is waited for.
    pub timeouts: Timeouts,
    /// Where the cloud tells a server who it is; nothing if it is not to be asked. Never reached
    /// through a proxy: a proxy's own machine would answer for itself.
    pub metadata_url: Option<String>,
}

/// The way to the cloud's services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// As the environment says: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.
    Environment,
    /// None, whatever the environment says.
    Direct,
    At(String),
}

/// How we prove who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A user and a password, for a project.
    Password { user: Named, password: Secret, scope: Scope },
    /// A credential that carries its project with it.
    ApplicationCredential {
        /// The credential's id, or its name.
        credential: Named,
        /// The owner, needed with a name.
        owner: Option<Named>,
        secret: Secret,
    },
}

/// For what we log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Project(Named),
    /// What another user entrusted to this one (a Keystone trust).
    Trust(String),
}

/// Something with an id, or with a name in a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// Its id: no domain is needed.
    Id(String),
    /// Its name, and the domain that it is unique in.
    Name(String, Option<Domain>),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(text) | Self::Name(text, _) => f.write_str(text),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    Id(String),
    Name(String),
}

/// Which of a service's addresses is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    Public,
    Internal,
    Admin,
}

impl Interface {
    /// The word in the catalog.
    pub fn word(self) -> &'static str {
        match self {
            Interface::Public => "public",
            Interface::Internal => "internal",
            Interface::Admin => "admin",
        }
    }
}

impl Written {
    /// Whether this source says who we are.
    pub fn has_login(&self) -> bool {
        self.password.is_some() || self.application_credential_secret.is_some()
    }

    /// This source, with what it leaves out taken from another one.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        let (upper, lower) = (self, below);
        Self {
            cloud_conf: upper.cloud_conf.or(lower.cloud_conf),
            clouds_file: upper.clouds_file.or(lower.clouds_file),
            cloud: upper.cloud.or(lower.cloud),
            auth_url: upper.auth_url.or(lower.auth_url),
            username: upper.username.or(lower.username),
            user_id: upper.user_id.or(lower.user_id),
            password: upper.password.or(lower.password),
            user_domain_name: upper.user_domain_name.or(lower.user_domain_name),
            user_domain_id: upper.user_domain_id.or(lower.user_domain_id),
            project_name: upper.project_name.or(lower.project_name),
            project_id: upper.project_id.or(lower.project_id),
            project_domain_name: upper.project_domain_name.or(lower.project_domain_name),
            project_domain_id: upper.project_domain_id.or(lower.project_domain_id),
            domain_name: upper.domain_name.or(lower.domain_name),
            domain_id: upper.domain_id.or(lower.domain_id),
            trust_id: upper.trust_id.or(lower.trust_id),
            application_credential_id: upper
                .application_credential_id
                .or(lower.application_credential_id),
            application_credential_name: upper
                .application_credential_name
                .or(lower.application_credential_name),
            application_credential_secret: upper
                .application_credential_secret
                .or(lower.application_credential_secret),
            region: upper.region.or(lower.region),
            interface: upper.interface.or(lower.interface),
            ca_file: upper.ca_file.or(lower.ca_file),
            insecure: upper.insecure.or(lower.insecure),
            http_services: upper.http_services.or(lower.http_services),
            cert_file: upper.cert_file.or(lower.cert_file),
            key_file: upper.key_file.or(lower.key_file),
            proxy: upper.proxy.or(lower.proxy),
            metadata_url: upper.metadata_url.or(lower.metadata_url),
            limits: upper.limits,
            timeouts: upper.timeouts,
        }
    }

    /// An error if a number is out of its range.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.limits.check()?;
        self.timeouts.check()
    }

    /// Proves that all is there that a login needs; `origin` is named in errors.
    pub fn resolve(self, origin: &str) -> Result<Access> {
        let wrong = |what: &str| Error::new(Kind::Config, format!("{origin}: {what}"));
        let auth_url = self.auth_url.as_deref().ok_or_else(|| wrong("it names no auth_url"))?;
        Ok(Access {
            auth_url: versioned(auth_url).map_err(&wrong)?,
            login: self.login().map_err(&wrong)?,
            interface: interface(self.interface.as_deref()).map_err(&wrong)?,
            region: self.region,
            ca_file: self.ca_file,
            insecure: self.insecure.unwrap_or(false),
            http_services: self.http_services.unwrap_or(false),
            certificate: match (self.cert_file, self.key_file) {
                (Some(certificate), Some(key)) => Some((certificate, key)),
                (None, None) => None,
                _ => return Err(wrong("cert_file and key_file need each other")),
            },
            proxy: match self.proxy.as_deref() {
                None => Proxy::Environment,
                Some("" | "none") => Proxy::Direct,
                Some(url) if is_http(url) => Proxy::At(url.to_owned()),
                Some(_) => return Err(wrong("proxy is neither none nor an http address")),
            },
            limits: self.limits,
            timeouts: self.timeouts,
            metadata_url: match self.metadata_url.as_deref() {
                None => Some(METADATA.to_owned()),
                Some("" | "none") => None,
                Some(url) if is_http(url) => Some(url.trim_end_matches('/').to_owned()),
                Some(_) => return Err(wrong("metadata_url is neither none nor an http address")),
            },
        })
    }

    fn login(&self) -> std::result::Result<Login, &'static str> {
        let named = |id: &Option<String>, name: &Option<String>, domain: Option<Domain>| {
            let by_id = id.clone().map(Named::Id);
            by_id.or_else(|| name.clone().map(|name| Named::Name(name, domain)))
        };
        let user = named(&self.user_id, &self.username, self.user_domain());
        let credential =
            named(&self.application_credential_id, &self.application_credential_name, None);
        match (credential, &self.application_credential_secret, &self.password) {
            (Some(_), Some(_), Some(_)) => Err("it has a password and an application credential"),
            (Some(Named::Name(..)), Some(_), None) if user.is_none() => {
                Err("an application credential's name needs its user beside it")
            }
            (Some(credential), Some(secret), None) => {
                Ok(Login::ApplicationCredential { credential, owner: user, secret: secret.clone() })
            }
            (Some(_), None, _) => Err("an application credential without its secret"),
            (None, Some(_), _) => Err("an application credential's secret without its id"),
            (None, None, None) => Err("it has neither a password nor an application credential"),
            (None, None, Some(password)) => {
                let user = user.ok_or("a password without a user")?;
                if matches!(user, Named::Name(_, None)) {
                    return Err("a user's name needs its domain beside it");
                }
                Ok(Login::Password { user, password: password.clone(), scope: self.scope()? })
            }
        }
    }

    fn scope(&self) -> std::result::Result<Scope, &'static str> {
        if let Some(trust) = &self.trust_id {
            return Ok(Scope::Trust(trust.clone()));
        }
        if let Some(id) = &self.project_id {
            return Ok(Scope::Project(Named::Id(id.clone())));
        }
        // A login without a scope succeeds, and every list is empty then.
        let name = self.project_name.clone().ok_or("it names no project")?;
        match self.project_domain() {
            None => Err("a project's name needs its domain beside it"),
            domain => Ok(Scope::Project(Named::Name(name, domain))),
        }
    }

    /// `domain_*` serves where no domain of its own is given, as other clients have it.
    fn user_domain(&self) -> Option<Domain> {
        domain(self.user_domain_id.as_ref(), self.user_domain_name.as_ref())
            .or_else(|| domain(self.domain_id.as_ref(), self.domain_name.as_ref()))
    }

    fn project_domain(&self) -> Option<Domain> {
        domain(self.project_domain_id.as_ref(), self.project_domain_name.as_ref())
            .or_else(|| self.user_domain())
    }
}

fn domain(id: Option<&String>, name: Option<&String>) -> Option<Domain> {
    id.cloned().map(Domain::Id).or_else(|| name.cloned().map(Domain::Name))
}

/// The address with `/v3` at its end, however it was written.
fn versioned(auth_url: &str) -> std::result::Result<String, &'static str> {
    let bare = auth_url.trim().trim_end_matches('/');
    if !is_http(bare) {
        // It is not quoted: a password may stand in it.
        return Err("auth_url is no http address");
    }
    let root = bare.strip_suffix("/v3").or_else(|| bare.strip_suffix("/v2.0")).unwrap_or(bare);
    Ok(format!("{root}/v3"))
}

fn is_http(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

impl Access {
    /// All that a message must not quote.
    pub fn secrets(&self) -> Vec<Secret> {
        let login = match &self.login {
            Login::Password { password, .. } => password,
            Login::ApplicationCredential { secret, .. } => secret,
        };
        let proxy = match &self.proxy {
            Proxy::At(url) => Some(url),
            Proxy::Environment | Proxy::Direct => None,
        };
        let urls = [Some(&self.auth_url), proxy, self.metadata_url.as_ref()];
        let of_urls = urls.into_iter().flatten().flat_map(|url| secrets_of_url(url));
        std::iter::once(login.clone()).chain(of_urls.map(Secret::from)).collect()
    }

    /// The project and the region that are looked at, for messages.
    pub fn scope(&self) -> String {
        let project = match &self.login {
            Login::Password { scope: Scope::Project(project), .. } => format!("project {project}"),
            Login::Password { scope: Scope::Trust(id), .. } => format!("the project of trust {id}"),
            Login::ApplicationCredential { credential, .. } => {
                format!("the project of application credential {credential}")
            }
        };
        let region = self.region.as_ref().map(|region| format!("region {region}"));
        format!("{project}, {}", region.as_deref().unwrap_or("every region"))
    }

    /// Whether a token may go to an address in the cloud's catalog: not in the clear where the login
    /// itself did not.
    pub fn trusts(&self, address: &str) -> bool {
        let is_plain = |url: &str| {
            url.trim_start().get(..5).is_none_or(|begin| !begin.eq_ignore_ascii_case("https"))
        };
        !is_plain(address) || is_plain(&self.auth_url) || self.http_services
    }
}

impl Timeouts {
    /// How long a request that only reads may take.
    pub fn of_a_read(&self) -> Duration {
        Duration::from_secs(self.read)
    }

    /// How long a request that changes something may take.
    pub fn of_a_change(&self) -> Duration {
        Duration::from_secs(self.change)
    }
}

/// `publicURL` is the old way to write `public`.
fn interface(word: Option<&str>) -> std::result::Result<Interface, &'static str> {
    let Some(word) = word else { return Ok(Interface::Public) };
    let bare = word.to_lowercase();
    let all = [Interface::Public, Interface::Internal, Interface::Admin];
    let known = all.into_iter().find(|one| one.word() == bare.trim_end_matches("url"));
    known.ok_or("interface is neither public, internal nor admin")
}
