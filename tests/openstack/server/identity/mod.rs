//! Keystone: who there is, what they may, and their tokens.

pub mod catalog;
pub mod login;
pub mod routes;
pub mod tokens;

use super::ids;
use catalog::Offer;
use std::collections::BTreeMap;

/// Keystone's view.
#[derive(Debug, Default)]
pub struct Identity {
    pub domains: Vec<Named>,
    pub projects: Vec<Project>,
    pub users: Vec<User>,
    pub credentials: Vec<Credential>,
    pub trusts: Vec<Trust>,
    pub roles: Vec<Named>,
    /// By the token's text.
    pub tokens: BTreeMap<String, Token>,
    /// What the catalog offers.
    pub offers: Vec<Offer>,
}

/// Something with an id and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone)]
pub struct Project {
    pub id: String,
    pub name: String,
    /// The domain's id.
    pub domain: String,
}

#[derive(Debug, Clone)]
pub struct User {
    pub id: String,
    pub name: String,
    /// The domain's id.
    pub domain: String,
    pub password: String,
    /// Role names by the id of a project.
    pub grants: BTreeMap<String, Vec<String>>,
}

/// An application credential.
#[derive(Debug, Clone)]
pub struct Credential {
    pub id: String,
    pub name: String,
    pub secret: String,
    /// The owner's id.
    pub user: String,
    /// The project's id.
    pub project: String,
}

#[derive(Debug, Clone)]
pub struct Trust {
    pub id: String,
    pub trustor: String,
    pub trustee: String,
    pub project: String,
    pub roles: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Token {
    pub user: String,
    pub project: Option<String>,
    pub methods: Vec<String>,
    pub roles: Vec<String>,
    pub credential: Option<String>,
    pub trust: Option<String>,
    pub audit: String,
    /// Seconds since 1970.
    pub issued: i64,
    pub expires: i64,
}

impl Token {
    /// Whether its bearer may do everything.
    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role == "admin")
    }

    /// Whether its bearer may change things.
    pub fn may_write(&self) -> bool {
        self.roles.iter().any(|role| matches!(role.as_str(), "member" | "admin"))
    }
}

impl Identity {
    /// Project `demo` with user `demo`, project `other` with user `other`, project `admin` with
    /// user `admin`; every password is `<name>pass`.
    pub fn demo() -> Self {
        let mut identity = Self { offers: catalog::recorded(), ..Self::default() };
        identity.domains.push(Named { id: "default".to_owned(), name: "Default".to_owned() });
        for (name, role) in [("demo", "member"), ("other", "member"), ("admin", "admin")] {
            let project = identity.add_project(name);
            let user = identity.add_user(name, &format!("{name}pass"));
            identity.grant(&user, &project, &[role, "reader"]);
        }
        identity
    }

    /// Adds a project to the default domain; gives its id.
    pub fn add_project(&mut self, name: &str) -> String {
        let project =
            Project { id: ids::hex(), name: name.to_owned(), domain: "default".to_owned() };
        self.projects.push(project);
        self.project_id(name)
    }

    /// Adds a user to the default domain; gives their id.
    pub fn add_user(&mut self, name: &str, password: &str) -> String {
        let id = ids::hex();
        self.users.push(User {
            id: id.clone(),
            name: name.to_owned(),
            domain: "default".to_owned(),
            password: password.to_owned(),
            grants: BTreeMap::new(),
        });
        id
    }

    /// Adds an application credential of a user for a project; gives its id.
    pub fn add_credential(
        &mut self,
        name: &str,
        secret: &str,
        user: &str,
        project: &str,
    ) -> String {
        let id = ids::hex();
        self.credentials.push(Credential {
            id: id.clone(),
            name: name.to_owned(),
            secret: secret.to_owned(),
            user: user.to_owned(),
            project: project.to_owned(),
        });
        id
    }

    /// Adds a trust with all that the trustor may in the project; gives its id.
    pub fn add_trust(&mut self, trustor: &str, trustee: &str, project: &str) -> String {
        let id = ids::hex();
        let user = self.users.iter().find(|user| user.id == trustor);
        let roles = user.and_then(|user| user.grants.get(project)).cloned().unwrap_or_default();
        let (trustor, trustee) = (trustor.to_owned(), trustee.to_owned());
        let project = project.to_owned();
        self.trusts.push(Trust { id: id.clone(), trustor, trustee, project, roles });
        id
    }

    /// Gives a user roles in a project, and takes what they had there.
    pub fn grant(&mut self, user: &str, project: &str, roles: &[&str]) {
        for role in roles {
            if !self.roles.iter().any(|known| known.name == *role) {
                self.roles.push(Named { id: ids::hex(), name: (*role).to_owned() });
            }
        }
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        if let Some(user) = self.users.iter_mut().find(|known| known.id == user) {
            user.grants.insert(project.to_owned(), roles);
        }
    }

    /// The id of a project by name or id; panics if there is none, as only tests ask.
    pub fn project_id(&self, name: &str) -> String {
        let found = self.projects.iter().find(|project| project.name == name || project.id == name);
        found.unwrap_or_else(|| panic!("no project {name}")).id.clone()
    }

    /// The id of a user by name or id; panics if there is none, as only tests ask.
    pub fn user_id(&self, name: &str) -> String {
        let found = self.users.iter().find(|user| user.name == name || user.id == name);
        found.unwrap_or_else(|| panic!("no user {name}")).id.clone()
    }
}
