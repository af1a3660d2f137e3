//! A `cloud.conf` and the variables of a shell, as Kubernetes' provider and `OpenStack`'s own tools
//! read them.

use super::Written;
use crate::cloud::gcfg::{self, GcfgEntry};
use crate::error::{Error, Kind, Result};
use std::path::PathBuf;

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

    fn take(&mut self, entry: &GcfgEntry) -> std::result::Result<(), String> {
        if entry.key == "tls-insecure" {
            let value = gcfg::boolean(entry.value.as_deref());
            self.insecure = Some(value.ok_or("tls-insecure is neither true nor false")?);
            return Ok(());
        }
        if entry.key == "use-clouds" {
            let value = gcfg::boolean(entry.value.as_deref());
            // Without a name it is the file's only cloud.
            if value.ok_or("use-clouds is neither true nor false")? {
                self.cloud.get_or_insert_default();
            }
            return Ok(());
        }
        let Some(value) = entry.value.clone().filter(|value| !value.is_empty()) else {
            return Ok(());
        };
        let text = Some(value.clone());
        match entry.key.as_str() {
            "auth-url" => self.auth_url = text,
            "username" => self.username = text,
            // The one to whom a trust was given logs in as itself.
            "user-id" | "trustee-id" => self.user_id = text,
            "password" | "trustee-password" => self.password = Some(value.into()),
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
            "clouds-file" => self.clouds_file = Some(PathBuf::from(value)),
            "cloud" => self.cloud = text,
            "cert-file" => self.cert_file = Some(PathBuf::from(value)),
            "key-file" => self.key_file = Some(PathBuf::from(value)),
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
            clouds_file: get("OS_CLIENT_CONFIG_FILE").map(PathBuf::from),
            cloud: get("OS_CLOUD"),
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
            cert_file: get("OS_CERT").map(PathBuf::from),
            key_file: get("OS_KEY").map(PathBuf::from),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
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
