//! Where an `OpenStack` cloud is and who we are there, from one source: our own configuration,
//! a `cloud.conf`, or the `OS_*` variables of a person's shell. Credentials of two sources are
//! never mixed.

use super::error::{Error, Kind, Result};
use super::gcfg::{self, Entry};
use super::secret::Secret;
use serde::Deserialize;
use std::path::PathBuf;

/// Everything as written, nothing proven. The keys are those of `[openstack]` in our TOML.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the names are OpenStack's own")]
pub struct Written {
    pub cloud_conf: Option<PathBuf>,
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
}

/// Where the cloud is and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Whether certificates are not checked: only if somebody wrote so.
    pub insecure: bool,
}

/// How we prove who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A user and a password, for a project.
    Password {
        /// Who.
        user: Named,
        /// Its password.
        password: Secret,
        /// For what.
        scope: Scope,
    },
    /// A credential that carries its project with it.
    ApplicationCredential {
        /// The credential's id, or its name.
        credential: Named,
        /// The owner, needed with a name.
        owner: Option<Named>,
        /// Its secret.
        secret: Secret,
    },
}

/// For what we log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A project.
    Project(Named),
    /// What somebody else entrusted to us.
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

/// A domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    /// By id.
    Id(String),
    /// By name.
    Name(String),
}

/// Which of a service's addresses is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are OpenStack's own")]
pub enum Interface {
    Public,
    Internal,
    Admin,
}

impl Interface {
    /// The word in the catalog.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Interface::Public => "public",
            Interface::Internal => "internal",
            Interface::Admin => "admin",
        }
    }
}

impl Written {
    /// Reads `[Global]` of a `cloud.conf`. Keys that are not ours are left alone, as Kubernetes'
    /// provider leaves them.
    pub fn from_cloud_conf(text: &str, origin: &str) -> Result<Self> {
        let mut written = Self::default();
        for entry in gcfg::parse(text, origin)? {
            if entry.section == "global" && entry.subsection.is_none() {
                written.take(&entry).map_err(|what| {
                    Error::new(Kind::Config, format!("{origin}: line {}: {what}", entry.line))
                })?;
            }
        }
        Ok(written)
    }

    fn take(&mut self, entry: &Entry) -> std::result::Result<(), String> {
        if entry.key == "tls-insecure" {
            let value = gcfg::boolean(entry.value.as_deref());
            self.insecure = Some(value.ok_or("tls-insecure is neither true nor false")?);
            return Ok(());
        }
        let Some(value) = entry.value.clone().filter(|value| !value.is_empty()) else {
            return Ok(());
        };
        let text = Some(value.clone());
        match entry.key.as_str() {
            "auth-url" => self.auth_url = text,
            "username" => self.username = text,
            "user-id" => self.user_id = text,
            "password" => self.password = Some(value.into()),
            "tenant-id" | "project-id" => self.project_id = text,
            "tenant-name" | "project-name" => self.project_name = text,
            "domain-id" => self.domain_id = text,
            "domain-name" => self.domain_name = text,
            "tenant-domain-id" | "project-domain-id" => self.project_domain_id = text,
            "tenant-domain-name" | "project-domain-name" => self.project_domain_name = text,
            "user-domain-id" => self.user_domain_id = text,
            "user-domain-name" => self.user_domain_name = text,
            "trust-id" => self.trust_id = text,
            "region" => self.region = text,
            "os-endpoint-type" => self.interface = text,
            "ca-file" => self.ca_file = Some(PathBuf::from(value)),
            "application-credential-id" => self.application_credential_id = text,
            "application-credential-name" => self.application_credential_name = text,
            "application-credential-secret" => {
                self.application_credential_secret = Some(value.into());
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads `OS_*` variables through the given look-up.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        Self {
            cloud_conf: None,
            auth_url: get("OS_AUTH_URL"),
            username: get("OS_USERNAME"),
            user_id: get("OS_USER_ID"),
            password: get("OS_PASSWORD").map(Into::into),
            user_domain_name: get("OS_USER_DOMAIN_NAME"),
            user_domain_id: get("OS_USER_DOMAIN_ID"),
            project_name: get("OS_PROJECT_NAME").or_else(|| get("OS_TENANT_NAME")),
            project_id: get("OS_PROJECT_ID").or_else(|| get("OS_TENANT_ID")),
            project_domain_name: get("OS_PROJECT_DOMAIN_NAME"),
            project_domain_id: get("OS_PROJECT_DOMAIN_ID"),
            domain_name: get("OS_DOMAIN_NAME"),
            domain_id: get("OS_DOMAIN_ID").or_else(|| get("OS_DEFAULT_DOMAIN")),
            trust_id: get("OS_TRUST_ID"),
            application_credential_id: get("OS_APPLICATION_CREDENTIAL_ID"),
            application_credential_name: get("OS_APPLICATION_CREDENTIAL_NAME"),
            application_credential_secret: get("OS_APPLICATION_CREDENTIAL_SECRET").map(Into::into),
            region: get("OS_REGION_NAME"),
            interface: get("OS_INTERFACE").or_else(|| get("OS_ENDPOINT_TYPE")),
            ca_file: get("OS_CACERT").map(PathBuf::from),
            insecure: get("OS_INSECURE").and_then(|value| gcfg::boolean(Some(&value))),
        }
    }

    /// Whether this source says who we are.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.password.is_some() || self.application_credential_secret.is_some()
    }

    /// Proves that all is there that a login needs; `origin` is named in errors.
    pub fn resolve(self, origin: &str) -> Result<Access> {
        let wrong = |what: &str| Error::new(Kind::Config, format!("{origin}: {what}"));
        let auth_url = self.auth_url.as_deref().ok_or_else(|| wrong("it names no auth_url"))?;
        Ok(Access {
            auth_url: versioned(auth_url).map_err(|what| wrong(&what))?,
            login: self.login().map_err(&wrong)?,
            interface: interface(self.interface.as_deref()).map_err(|what| wrong(&what))?,
            region: self.region,
            ca_file: self.ca_file,
            insecure: self.insecure.unwrap_or(false),
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
fn versioned(auth_url: &str) -> std::result::Result<String, String> {
    let bare = auth_url.trim().trim_end_matches('/');
    if !bare.starts_with("http://") && !bare.starts_with("https://") {
        return Err(format!("auth_url {bare:?} is no http address"));
    }
    let root = bare.strip_suffix("/v3").or_else(|| bare.strip_suffix("/v2.0")).unwrap_or(bare);
    Ok(format!("{root}/v3"))
}

/// `publicURL` is the old way to write `public`.
fn interface(word: Option<&str>) -> std::result::Result<Interface, String> {
    let Some(word) = word else { return Ok(Interface::Public) };
    let bare = word.to_lowercase();
    let all = [Interface::Public, Interface::Internal, Interface::Admin];
    let known = all.into_iter().find(|one| one.word() == bare.trim_end_matches("url"));
    known.ok_or_else(|| format!("interface {word:?} is neither public, internal nor admin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(lines: &str) -> Result<Access> {
        Written::from_cloud_conf(&format!("[Global]\n{lines}"), "f").unwrap().resolve("f")
    }

    const URL: &str = "auth-url = http://k:5000\n";

    #[test]
    fn a_cloud_conf_becomes_an_access() {
        let access = conf(&format!(
            "{URL}username=u\npassword=\"hunter2\"\ntenant-name=p\ndomain-name=Default\n\
             region=R\nos-endpoint-type=internalURL\nca-file=/ca\nunknown-key=1\n"
        ))
        .unwrap();
        assert_eq!(access.auth_url, "http://k:5000/v3");
        let default = Some(Domain::Name("Default".into()));
        let Login::Password { user, scope, .. } = &access.login else { panic!("{access:?}") };
        assert_eq!(*user, Named::Name("u".into(), default.clone()));
        assert_eq!(*scope, Scope::Project(Named::Name("p".into(), default)));
        assert_eq!(access.interface, Interface::Internal);
        assert!(!format!("{access:?}").contains("hunter2"));
    }

    #[test]
    fn addresses_of_every_form_end_in_v3() {
        for url in [
            "http://k:5000",
            "http://k:5000/",
            "http://k:5000/v3",
            "http://k:5000/v3/",
            "http://k:5000/v2.0",
        ] {
            assert_eq!(versioned(url).unwrap(), "http://k:5000/v3");
        }
        assert_eq!(versioned("https://k/identity").unwrap(), "https://k/identity/v3");
        assert!(versioned("k:5000").is_err());
    }

    #[test]
    fn what_a_login_lacks_is_named() {
        for (lines, word) in [
            ("username=u\npassword=p\nproject-id=i\n".to_owned(), "auth_url"),
            (URL.to_owned(), "neither a password"),
            (
                format!("{URL}username=u\npassword=p\nproject-id=i\n"),
                "user's name needs its domain",
            ),
            (format!("{URL}user-id=u\npassword=p\n"), "names no project"),
            (format!("{URL}user-id=u\npassword=p\nproject-name=x\n"), "project's name needs"),
            (format!("{URL}application-credential-id=i\n"), "without its secret"),
            (
                format!("{URL}application-credential-name=i\napplication-credential-secret=s\n"),
                "needs its user",
            ),
            (
                format!(
                    "{URL}user-id=u\npassword=p\napplication-credential-id=i\napplication-credential-secret=s\n"
                ),
                "a password and an application credential",
            ),
        ] {
            let error = conf(&lines).unwrap_err();
            assert!(error.cause.contains(word), "{lines}: {error}");
        }
        let wrong = Written::from_cloud_conf("[Global]\n\ntls-insecure = maybe", "f").unwrap_err();
        assert!(wrong.cause.contains("line 3"), "{wrong}");
    }

    #[test]
    fn variables_of_a_shell_are_read() {
        let variables = [
            ("OS_AUTH_URL", "https://k/v3"),
            ("OS_APPLICATION_CREDENTIAL_ID", "i"),
            ("OS_APPLICATION_CREDENTIAL_SECRET", "hunter2"),
            ("OS_REGION_NAME", ""),
        ];
        let get = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let access = Written::from_variables(get).resolve("the environment").unwrap();
        assert!(matches!(access.login, Login::ApplicationCredential { owner: None, .. }));
        assert_eq!(access.region, None);
    }
}
