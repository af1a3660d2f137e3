//! Logging in, and where the services are.

use super::catalog;
use super::http::{Http, HttpAnswer, Method, Request, failed};
use super::tokens::Session;
use crate::model::cloud::access::{Access, Domain, Login, Named, Scope};
use crate::model::error::{Error, Kind, Result};
use crate::model::report::redaction::Redaction;
use crate::model::timestamp;
use crate::ports::clock::{Deadline, seconds};
use reqwest::Url;
use serde_json::{Value, json};

const KEYSTONE: &str = "Keystone";

/// How a token's life is assumed where the answer does not say it.
const SHORT_LIFE: u64 = 300;

/// Logs in and picks the services' addresses from the catalog.
pub(super) fn log_in(http: &Http, deadline: Deadline) -> Result<Session> {
    let answer = log_in_at(http, &http.access().auth_url, deadline)?;
    // Keystone's own 404 is about a credential; any other says that the address is not quite it.
    if answer.status == 404
        && !answer.body["error"].is_object()
        && let Some(found) = discover(http, deadline)?
    {
        let answer = log_in_at(http, &found, deadline)?;
        return settle(http.access(), &answer);
    }
    settle(http.access(), &answer)
}

fn log_in_at(http: &Http, address: &str, deadline: Deadline) -> Result<HttpAnswer> {
    let request = Request {
        method: Method::POST,
        url: format!("{address}/auth/tokens"),
        service: KEYSTONE,
        about: "logins",
        // A login that took effect without an answer is a token that is not used: no harm.
        is_repeatable: true,
        token: None,
        version: None,
        body: Some(login_body(&http.access().login)),
    };
    http.send(&request, deadline)
}

pub(super) fn settle(access: &Access, answer: &HttpAnswer) -> Result<Session> {
    match answer.status {
        201 => session(access, answer),
        400 | 401 | 403 | 404 => Err(refused(answer, access)),
        _ => Err(failed(KEYSTONE, answer)),
    }
}

/// Where the list of versions says that version 3 is. Only its path is taken: behind a proxy the
/// list often has an inner name and no TLS.
fn discover(http: &Http, deadline: Deadline) -> Result<Option<String>> {
    let own = &http.access().auth_url;
    let root = own.strip_suffix("/v3").unwrap_or(own);
    let request = Request {
        method: Method::GET,
        url: format!("{root}/"),
        service: KEYSTONE,
        about: "logins",
        // A login that took effect without an answer is a token that is not used: no harm.
        is_repeatable: true,
        token: None,
        version: None,
        body: None,
    };
    let answer = http.send(&request, deadline)?;
    Ok(version_3(&answer.body).and_then(|href| rebased(root, href)))
}

fn version_3(body: &Value) -> Option<&str> {
    let versions = body["versions"]["values"].as_array().or_else(|| body["versions"].as_array())?;
    let third =
        versions.iter().find(|v| v["id"].as_str().is_some_and(|id| id.starts_with("v3")))?;
    let links = third["links"].as_array()?;
    links.iter().find(|link| link["rel"] == "self")?["href"].as_str()
}

/// The path of one address at the host of another.
fn rebased(host: &str, href: &str) -> Option<String> {
    let mut address = Url::parse(host).ok()?;
    address.set_path(Url::parse(href).ok()?.path());
    Some(address.as_str().trim_end_matches('/').to_owned())
}

/// Wrong secrets, unknown users and unknown projects all get the same answer: the message says
/// what was tried, without the secret.
fn refused(answer: &HttpAnswer, access: &Access) -> Error {
    let who = match &access.login {
        Login::Password { user, .. } => format!("user {user}"),
        Login::ApplicationCredential { credential, .. } => {
            format!("application credential {credential}")
        }
    };
    let error = failed(KEYSTONE, answer);
    let at = Redaction::default().redacted(&access.auth_url).into_owned();
    Error::new(Kind::Config, format!("{who} cannot log in at {at}: {}", error.cause))
        .hint("check the credentials and the project in the configuration")
}

fn session(access: &Access, answer: &HttpAnswer) -> Result<Session> {
    let token = &answer.body["token"];
    let wrong = |what: String| Error::new(Kind::Config, what);
    // A login without a project succeeds too; every list is empty with such a token.
    if token["project"]["id"].as_str().is_none() {
        return Err(wrong("Keystone gave a token without a project".to_owned())
            .hint("name the project in the configuration"));
    }
    let subject = answer
        .subject_token
        .clone()
        .ok_or_else(|| Error::new(Kind::Unreachable, "Keystone answered without a token"))?;
    let catalog = token["catalog"].as_array().map(Vec::as_slice).unwrap_or_default();
    let places = catalog::places(access, catalog).map_err(wrong)?;
    let life = life(token);
    Ok(Session { token: subject, expires: seconds() + life, life, places })
}

/// How long the token lives, by the service's own two times: its clock need not be ours.
fn life(token: &Value) -> u64 {
    // Both are UTC, however the end of the text says so.
    let moment = |key: &str| token[key].as_str()?.get(..19).and_then(timestamp::parse);
    match (moment("issued_at"), moment("expires_at")) {
        (Some(issued), Some(expires)) => expires.saturating_sub(issued) / 1000,
        _ => SHORT_LIFE,
    }
}

fn login_body(login: &Login) -> Value {
    let (identity, scope) = match login {
        Login::Password { user, password, scope } => {
            let mut user = named_body(user);
            user["password"] = json!(password.reveal());
            let identity = json!({"methods": ["password"], "password": {"user": user}});
            (identity, Some(scope_body(scope)))
        }
        Login::ApplicationCredential { credential, owner, secret } => {
            let mut body = named_body(credential);
            body["secret"] = json!(secret.reveal());
            if let (Named::Name(..), Some(owner)) = (credential, owner) {
                body["user"] = named_body(owner);
            }
            // Its project comes with it: a scope beside it is an error.
            (json!({"methods": ["application_credential"], "application_credential": body}), None)
        }
    };
    match scope {
        Some(scope) => json!({"auth": {"identity": identity, "scope": scope}}),
        None => json!({"auth": {"identity": identity}}),
    }
}

fn scope_body(scope: &Scope) -> Value {
    match scope {
        Scope::Project(project) => json!({"project": named_body(project)}),
        Scope::Trust(id) => json!({"OS-TRUST:trust": {"id": id}}),
    }
}

fn named_body(named: &Named) -> Value {
    match named {
        Named::Id(id) => json!({"id": id}),
        Named::Name(name, None) => json!({"name": name}),
        Named::Name(name, Some(Domain::Id(id))) => json!({"name": name, "domain": {"id": id}}),
        Named::Name(name, Some(Domain::Name(domain))) => {
            json!({"name": name, "domain": {"name": domain}})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::access::Written;

    #[test]
    fn version_3_is_found_where_the_list_says() {
        let body = json!({"versions": {"values": [
            {"id": "v2.0", "links": [{"rel": "self", "href": "http://inner/v2.0/"}]},
            {"id": "v3.14", "links": [{"rel": "self", "href": "http://inner:35357/identity/v3/"}]},
        ]}});
        let href = version_3(&body).unwrap();
        assert_eq!(rebased("https://outer", href).unwrap(), "https://outer/identity/v3");
        assert_eq!(rebased("https://outer:5000/x", "http://h").unwrap(), "https://outer:5000");
        assert_eq!(version_3(&json!({"versions": 7})), None);
    }

    #[test]
    fn a_token_lives_as_long_as_the_service_says() {
        let life = |issued: &str, expires: &str| {
            life(&json!({"issued_at": issued, "expires_at": expires}))
        };
        assert_eq!(life("2026-11-21T03:50:23.000000Z", "2026-11-21T04:50:23.000000Z"), 3600);
        assert_eq!(life("2024-02-28T23:59:59Z", "2024-03-01T00:00:00+00:00"), 86_401);
        assert_eq!(life("2026-11-21T03:50:23Z", "2026-11-21T03:50:22Z"), 0);
        for wrong in ["", "2026", "2026-13-01T00:00:00Z", "x026-11-21T03:50:23Z"] {
            assert_eq!(life("2026-11-21T03:50:23Z", wrong), SHORT_LIFE, "{wrong}");
        }
    }

    #[test]
    fn a_credential_brings_its_own_project() {
        let text = "[Global]\nauth-url=http://k\napplication-credential-id=i\napplication-credential-secret=s\nproject-id=p";
        let access = Written::from_cloud_conf(text, "f").unwrap().resolve("f").unwrap();
        let body = login_body(&access.login);
        assert!(body["auth"].get("scope").is_none(), "{body}");
        assert_eq!(body["auth"]["identity"]["application_credential"]["secret"], "s");
    }
}
