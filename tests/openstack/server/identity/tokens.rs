//! Tokens: how they are made, checked and shown.

use super::super::clock::{Style, stamp};
use super::super::ids;
use super::super::reply::{Form, Refusal};
use super::super::world::World;
use super::{Identity, Token};
use serde_json::{Value, json};

/// What a login is worth.
#[derive(Debug, Default)]
pub struct Grant {
    pub user: String,
    pub project: Option<String>,
    pub methods: Vec<String>,
    pub roles: Vec<String>,
    pub credential: Option<String>,
    pub trust: Option<String>,
}

impl World {
    /// Makes a token; gives its text.
    pub fn issue(&mut self, grant: Grant) -> String {
        let issued = self.clock.unix();
        let lifetime = i64::try_from(self.settings.token_lifetime.as_secs()).unwrap_or(i64::MAX);
        // Fernet's length grows with what the token carries (A3, A9b, A14).
        let length = match &grant {
            Grant { credential: Some(_), .. } | Grant { trust: Some(_), .. } => 204,
            Grant { project: Some(_), .. } => 183,
            _ => 162,
        };
        let text = ids::token(length);
        let token = Token {
            user: grant.user,
            project: grant.project,
            methods: grant.methods,
            roles: grant.roles,
            credential: grant.credential,
            trust: grant.trust,
            audit: ids::audit(),
            issued,
            expires: issued.saturating_add(lifetime),
        };
        self.identity.tokens.insert(text.clone(), token);
        text
    }

    /// A token of a user for a project by their names, without a login; for tests.
    pub fn token(&mut self, user: &str, project: &str) -> String {
        let (user, project) = (self.identity.user_id(user), self.identity.project_id(project));
        let known = self.identity.users.iter().find(|known| known.id == user);
        let roles = known.and_then(|known| known.grants.get(&project)).cloned().unwrap_or_default();
        let methods = vec!["password".to_owned()];
        self.issue(Grant { user, project: Some(project), methods, roles, ..Grant::default() })
    }

    /// The token behind a text as Nova and Cinder see it, or their 401.
    pub fn check_token(&self, text: Option<&str>) -> Result<Token, Refusal> {
        let refused = || Refusal::unauthorized().form(Form::Token);
        let token = text.and_then(|text| self.identity.tokens.get(text)).ok_or_else(refused)?;
        let now = self.clock.unix();
        if now >= token.expires {
            return Err(refused());
        }
        Ok(token.clone())
    }
}

impl Identity {
    /// The body of a token, without a catalog.
    pub fn show_token(&self, token: &Token) -> Value {
        let user = self.users.iter().find(|user| user.id == token.user);
        let mut body = json!({
            "methods": token.methods,
            "user": {
                "domain": self.domain(user.map_or("", |user| &user.domain)),
                "id": token.user,
                "name": user.map(|user| &user.name),
                "password_expires_at": null,
            },
            "audit_ids": [token.audit],
            "expires_at": stamp(token.expires, Style::Identity),
            "issued_at": stamp(token.issued, Style::Identity),
        });
        if let Some(project) = self.projects.iter().find(|p| Some(&p.id) == token.project.as_ref())
        {
            body["project"] = json!({
                "domain": self.domain(&project.domain), "id": project.id, "name": project.name,
            });
            body["roles"] = token.roles.iter().map(|name| self.show_role(name, token)).collect();
            if token.trust.is_none() {
                body["is_domain"] = json!(false);
            }
        }
        if let Some(known) =
            self.credentials.iter().find(|c| Some(&c.id) == token.credential.as_ref())
        {
            body["application_credential"] =
                json!({"id": known.id, "name": known.name, "restricted": true});
        }
        if let Some(trust) = self.trusts.iter().find(|t| Some(&t.id) == token.trust.as_ref()) {
            body["OS-TRUST:trust"] = json!({
                "id": trust.id,
                "trustor_user": {"id": trust.trustor},
                "trustee_user": {"id": trust.trustee},
                "impersonation": true,
            });
        }
        body
    }

    /// A role; a trust's token shows more of it (A37).
    fn show_role(&self, name: &str, token: &Token) -> Value {
        let id = self.roles.iter().find(|role| role.name == name).map(|role| &role.id);
        if token.trust.is_none() {
            return json!({"id": id, "name": name});
        }
        let options = json!({"immutable": true});
        json!({"id": id, "name": name, "domain_id": null, "description": null, "options": options})
    }

    fn domain(&self, id: &str) -> Value {
        let name = self.domains.iter().find(|domain| domain.id == id).map(|domain| &domain.name);
        json!({"id": id, "name": name})
    }
}
