//! Logging in, and where the services are.

use super::http::{Answer, Http, Method, Request, failed};
use super::tokens::{Session, now};
use crate::model::access::{Access, Domain, Login, Named, Scope};
use crate::model::error::{Error, Kind, Result};
use crate::model::time::Deadline;
use serde_json::{Value, json};

/// How a token's life is assumed where the answer does not say it.
const SHORT_LIFE: u64 = 300;

/// Logs in and picks the services' addresses from the catalog.
pub(super) fn log_in(http: &Http, deadline: Deadline) -> Result<Session> {
    let access = http.access();
    let request = Request {
        method: Method::POST,
        url: format!("{}/auth/tokens", access.auth_url),
        service: "Keystone",
        token: None,
        version: None,
        body: Some(login_body(&access.login)),
    };
    let answer = http.send(&request, deadline)?;
    match answer.status {
        201 => session(access, &answer),
        400 | 401 | 403 | 404 => Err(refused(&request, &answer, access)),
        _ => Err(failed(request.service, &answer)),
    }
}

/// Wrong secrets, unknown users and unknown projects all get the same answer: the message says
/// what was tried, without the secret.
fn refused(request: &Request<'_>, answer: &Answer, access: &Access) -> Error {
    let who = match &access.login {
        Login::Password { user, .. } => format!("user {}", text(user)),
        Login::ApplicationCredential { credential, .. } => {
            format!("application credential {}", text(credential))
        }
    };
    let error = failed(request.service, answer);
    Error::new(Kind::Config, format!("{who} cannot log in at {}: {}", access.auth_url, error.cause))
        .hint("check the credentials and the project in the configuration")
}

fn text(named: &Named) -> &str {
    match named {
        Named::Id(id) => id,
        Named::Name(name, _) => name,
    }
}

fn session(access: &Access, answer: &Answer) -> Result<Session> {
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
    let compute = endpoint(access, catalog, &["compute"]).map_err(wrong)?;
    let block = ["block-storage", "volumev3", "block-store"];
    let volume = endpoint(access, catalog, &block).map_err(wrong)?;
    Ok(Session { token: subject, expires: now() + life(token), compute, volume })
}

/// How long the token lives, by the service's own two times: its clock need not be ours.
fn life(token: &Value) -> u64 {
    let seconds = |key: &str| token[key].as_str().and_then(seconds_of);
    match (seconds("issued_at"), seconds("expires_at")) {
        (Some(issued), Some(expires)) => expires.saturating_sub(issued),
        _ => SHORT_LIFE,
    }
}

/// Days of the civil calendar before 1970, counted from March of the year 0.
const DAYS_TO_1970: u64 = 719_468;

/// Seconds since 1970 of `2026-11-21T03:50:23.000000Z`.
fn seconds_of(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the civil calendar, counted from March so that leap days come last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(((days - DAYS_TO_1970) * 24 + hour) * 3600 + minute * 60 + second)
}

/// The one address of the first of these types that the catalog has.
fn endpoint(
    access: &Access,
    catalog: &[Value],
    types: &[&str],
) -> std::result::Result<String, String> {
    let interface = access.interface.word();
    let of_type = |wanted: &str| -> Vec<&Value> {
        let services = catalog.iter().filter(|service| service["type"] == wanted);
        let all =
            services.flat_map(|service| service["endpoints"].as_array().into_iter().flatten());
        all.filter(|endpoint| endpoint["interface"] == interface).collect()
    };
    let found = types.iter().map(|wanted| of_type(wanted)).find(|found| !found.is_empty());
    let found = found.ok_or_else(|| {
        format!("the cloud's catalog has no {} with a {interface} address", types.join(" or "))
    })?;
    let is_ours = |endpoint: &&&Value| match &access.region {
        Some(region) => endpoint["region"] == **region || endpoint["region_id"] == **region,
        None => true,
    };
    let ours: Vec<_> = found.iter().filter(is_ours).collect();
    match ours.as_slice() {
        [one] => {
            let url = one["url"].as_str().ok_or("an address in the catalog is no text")?;
            Ok(url.trim_end_matches('/').to_owned())
        }
        several => {
            let mut regions: Vec<_> = found.iter().filter_map(|e| e["region"].as_str()).collect();
            regions.sort_unstable();
            regions.dedup();
            let regions = regions.join(", ");
            let what = types.first().copied().unwrap_or_default();
            Err(match (several.len(), &access.region) {
                (0, Some(region)) => {
                    format!(
                        "the cloud's catalog has no {what} in region {region}; its regions are {regions}"
                    )
                }
                _ => format!(
                    "the cloud's catalog has {what} in several regions ({regions}): name one"
                ),
            })
        }
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
    use crate::model::access::Written;

    fn access(more: &str) -> Access {
        let text =
            format!("[Global]\nauth-url=http://k\nuser-id=u\nproject-id=p\npassword=s\n{more}");
        Written::from_cloud_conf(&text, "f").unwrap().resolve("f").unwrap()
    }

    fn catalog() -> Vec<Value> {
        let at = |region: &str, interface: &str, url: &str| json!({"region": region, "region_id": region, "interface": interface, "url": url});
        vec![
            json!({"type": "compute", "endpoints": [at("A", "public", "http://c/a/"), at("B", "public", "http://c/b")]}),
            json!({"type": "volumev3", "endpoints": [at("A", "public", "http://v3/a"), at("A", "internal", "http://i")]}),
        ]
    }

    #[test]
    fn addresses_are_chosen_by_type_interface_and_region() {
        let pick = |more: &str, types: &[&str]| endpoint(&access(more), &catalog(), types);
        assert_eq!(pick("region=A", &["compute"]).unwrap(), "http://c/a");
        assert_eq!(pick("", &["block-storage", "volumev3"]).unwrap(), "http://v3/a");
        assert_eq!(pick("os-endpoint-type=internal", &["volumev3"]).unwrap(), "http://i");
        assert!(pick("", &["compute"]).unwrap_err().contains("A, B"));
        assert!(pick("region=C", &["compute"]).unwrap_err().contains("no compute in region C"));
        assert!(pick("os-endpoint-type=admin", &["compute"]).unwrap_err().contains("admin"));
    }

    #[test]
    fn times_are_read_as_the_service_writes_them() {
        assert_eq!(seconds_of("1970-01-01T00:00:00.000000Z"), Some(0));
        assert_eq!(seconds_of("2026-11-21T03:50:23.000000Z"), Some(1_795_233_023));
        assert_eq!(seconds_of("2024-02-29T12:00:00Z"), Some(1_709_208_000));
        for wrong in ["", "2026", "2026-13-01T00:00:00Z", "x026-11-21T03:50:23Z"] {
            assert_eq!(seconds_of(wrong), None, "{wrong}");
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
