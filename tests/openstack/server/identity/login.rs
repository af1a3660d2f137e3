//! `POST /v3/auth/tokens`: every way in, and every way to be turned away.

use super::super::reply::Refusal;
use super::super::world::World;
use super::tokens::Grant;
use super::{Identity, User};
use serde_json::Value;

/// What Keystone adds to its complaints about a body (A12).
const MALFORMED: &str = "The server could not comply with the request since it is either malformed \
                         or otherwise incorrect. The client is assumed to be in error.";

fn expecting(what: &str) -> Refusal {
    Refusal::bad(format!("Expecting to find {what}. {MALFORMED}"))
}

impl World {
    /// Checks a login's body; gives what it is worth.
    pub fn log_in(&self, body: Option<&Value>) -> Result<Grant, Refusal> {
        let body = body.ok_or_else(|| expecting("valid JSON in request body"))?;
        let auth = body.get("auth").ok_or_else(|| expecting("auth in request body"))?;
        let identity = auth.get("identity").ok_or_else(|| expecting("identity in auth"))?;
        let methods = identity.get("methods").and_then(Value::as_array);
        let methods = methods.ok_or_else(|| expecting("methods in identity"))?;
        let scope = auth.get("scope");
        let people = &self.identity;
        match methods.iter().filter_map(Value::as_str).collect::<Vec<_>>()[..] {
            ["password"] => {
                let user = people.password(identity)?;
                people.scoped(user, scope)
            }
            ["application_credential"] => people.application_credential(identity),
            _ => Err(Refusal::new(401, "Attempted to authenticate with an unsupported method.")),
        }
    }
}

impl Identity {
    /// The user of a password login.
    fn password(&self, identity: &Value) -> Result<&User, Refusal> {
        let asked =
            identity.pointer("/password/user").ok_or_else(|| expecting("user in password"))?;
        let user = self.named_user(asked)?.ok_or_else(Refusal::unauthorized)?;
        if asked.get("password").and_then(Value::as_str) != Some(&user.password) {
            return Err(Refusal::unauthorized());
        }
        Ok(user)
    }

    /// The user that a body names by id, or by name and domain.
    fn named_user(&self, asked: &Value) -> Result<Option<&User>, Refusal> {
        if let Some(id) = asked.get("id").and_then(Value::as_str) {
            return Ok(self.users.iter().find(|user| user.id == id));
        }
        let name = asked.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| expecting("name in user"))?;
        let domain = self.named_domain(asked).ok_or_else(|| expecting("domain in user"))?;
        Ok(self.users.iter().find(|user| user.name == name && user.domain == domain))
    }

    /// The id of the domain that a body names; none if it names none, empty if there is no such.
    fn named_domain(&self, asked: &Value) -> Option<String> {
        let asked = asked.get("domain")?;
        let of = |key: &str| asked.get(key).and_then(Value::as_str);
        let known = self
            .domains
            .iter()
            .find(|domain| of("id") == Some(&domain.id) || of("name") == Some(&domain.name));
        Some(known.map(|domain| domain.id.clone()).unwrap_or_default())
    }

    /// What a user gets for a scope.
    fn scoped(&self, user: &User, scope: Option<&Value>) -> Result<Grant, Refusal> {
        let project = match scope {
            Some(scope) if scope.get("OS-TRUST:trust").is_some() => return self.trust(user, scope),
            Some(scope) if scope.get("project").is_some() => {
                Some(self.named_project(&scope["project"])?.ok_or_else(Refusal::unauthorized)?)
            }
            _ => None,
        };
        let roles = match &project {
            None => Vec::new(),
            Some(project) => user.grants.get(project).cloned().ok_or_else(Refusal::unauthorized)?,
        };
        let methods = vec!["password".to_owned()];
        Ok(Grant { user: user.id.clone(), project, methods, roles, ..Grant::default() })
    }

    fn named_project(&self, asked: &Value) -> Result<Option<String>, Refusal> {
        let mut all = self.projects.iter();
        if let Some(id) = asked.get("id").and_then(Value::as_str) {
            return Ok(all.find(|project| project.id == id).map(|project| project.id.clone()));
        }
        let name = asked.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| expecting("name in project"))?;
        let domain = self.named_domain(asked).ok_or_else(|| expecting("domain in project"))?;
        let found = all.find(|project| project.name == name && project.domain == domain);
        Ok(found.map(|project| project.id.clone()))
    }

    /// A trustee's login: the token says the trustor as user (A37).
    fn trust(&self, trustee: &User, scope: &Value) -> Result<Grant, Refusal> {
        let id = scope.pointer("/OS-TRUST:trust/id").and_then(Value::as_str);
        let trust =
            self.trusts.iter().find(|t| Some(t.id.as_str()) == id && t.trustee == trustee.id);
        let trust = trust.ok_or_else(Refusal::unauthorized)?;
        Ok(Grant {
            user: trust.trustor.clone(),
            project: Some(trust.project.clone()),
            methods: vec!["password".to_owned()],
            roles: trust.roles.clone(),
            credential: None,
            trust: Some(trust.id.clone()),
        })
    }

    fn application_credential(&self, identity: &Value) -> Result<Grant, Refusal> {
        let asked = identity.get("application_credential");
        let asked = asked.ok_or_else(|| expecting("application_credential in identity"))?;
        let known = if let Some(id) = asked.get("id").and_then(Value::as_str) {
            let missing = || format!("Could not find Application Credential: {id}.");
            let known = self.credentials.iter().find(|known| known.id == id);
            known.ok_or_else(|| Refusal::missing(missing()))?
        } else {
            let name = asked.get("name").and_then(Value::as_str);
            let user =
                asked.get("user").ok_or_else(|| expecting("user in application_credential"))?;
            let user = self.named_user(user)?.ok_or_else(Refusal::unauthorized)?;
            let mut found = self.credentials.iter();
            let known =
                found.find(|known| known.user == user.id && Some(known.name.as_str()) == name);
            known.ok_or_else(Refusal::unauthorized)?
        };
        let owner = self.users.iter().find(|user| user.id == known.user);
        let roles = owner.and_then(|owner| owner.grants.get(&known.project)).cloned();
        let right = asked.get("secret").and_then(Value::as_str) == Some(&known.secret);
        let (Some(roles), true) = (roles, right) else { return Err(Refusal::unauthorized()) };
        Ok(Grant {
            user: known.user.clone(),
            project: Some(known.project.clone()),
            methods: vec!["application_credential".to_owned()],
            roles,
            credential: Some(known.id.clone()),
            trust: None,
        })
    }
}
