//! What this process knows and no service may make it say: the one place where the cloud's text loses it.
//!
//! A service, or a proxy before it, may quote what it was sent. So each answer passes here before anything is made
//! of it: its words lose all that may be a secret, and its data what certainly is one.

use crate::model::cloud::access::{Access, Proxy};
use crate::model::error::Error;
use crate::model::report::redaction::{Redaction, is_no_name, secrets_of_url};
use crate::model::secret::Secret;
use serde_json::Value;
use std::cell::RefCell;

/// The variables that name a proxy; each may have its password.
const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// The secrets of a login, and its tokens as they come.
#[derive(Default)]
pub(super) struct KnownSecrets {
    all: RefCell<Vec<Secret>>,
}

impl KnownSecrets {
    pub(super) fn of(access: &Access) -> Self {
        let mut all = access.secrets();
        if access.proxy == Proxy::Environment {
            let urls = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
            all.extend(urls.flat_map(|url| secrets_of_url(&url)).map(Secret::from));
        }
        Self { all: RefCell::new(all) }
    }

    pub(super) fn add(&self, secret: &Secret) {
        let mut all = self.all.borrow_mut();
        if !all.contains(secret) {
            all.push(secret.clone());
        }
    }

    /// A text for people, without anything that may be a secret.
    pub(super) fn text_without(&self, text: &str) -> String {
        self.redaction(|_| true).redacted(text).into_owned()
    }

    /// The same for an error.
    pub(super) fn error_without(&self, error: &Error) -> Error {
        self.redaction(|_| true).error_without(error)
    }

    /// Takes out of an answer's data what is known and can be nothing else: a password that is also the name
    /// of a server must not hide that server.
    pub(super) fn strip(&self, body: &mut Value) {
        let redaction = self.redaction(is_no_name);
        strip(body, &redaction);
    }

    fn redaction(&self, is_meant: impl Fn(&str) -> bool) -> Redaction {
        let all = self.all.borrow();
        let texts = all.iter().map(Secret::reveal).filter(|text| is_meant(text));
        Redaction::of(texts.map(str::to_owned))
    }
}

fn strip(value: &mut Value, redaction: &Redaction) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(told) = redaction.without_known(text) {
                *text = told;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| strip(one, redaction)),
        Value::Object(map) => {
            let has_one = map.keys().any(|key| redaction.without_known(key) != key.as_str());
            if has_one {
                let pairs = std::mem::take(map).into_iter();
                *map = pairs
                    .map(|(key, one)| (redaction.without_known(&key).into_owned(), one))
                    .collect();
            }
            map.values_mut().for_each(|one| strip(one, redaction));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn data_loses_what_can_be_nothing_else() {
        let secrets = KnownSecrets::default();
        for secret in ["available", "hunter2!canary", "gAAAAABmQWERTY-uiop_1234567890"] {
            secrets.add(&secret.into());
        }
        let mut body = json!({"volume": {"status": "available", "name": "of hunter2!canary", "size": 1,
            "metadata": {"hunter2!canary": ["aHVudGVyMiFjYW5hcnk=", null, true]},
            "id": "gAAAAABmQWERTY-uiop_1234567890"}});
        secrets.strip(&mut body);
        let expected = json!({"volume": {"status": "available", "name": "of (redacted)", "size": 1,
            "metadata": {"(redacted)": ["(redacted)=", null, true]}, "id": "(redacted)"}});
        assert_eq!(body, expected);
        assert_eq!(secrets.text_without("it is available"), "it is (redacted)");
    }

    #[test]
    fn what_stands_before_a_host_is_known() {
        let access = |more: &str| {
            let text = format!("[Global]\nuser-id=u\nproject-id=p\npassword=s3cret\n{more}");
            crate::model::cloud::access::Written::from_cloud_conf(&text, "f")
        };
        let written = access("auth-url=https://me:p%40ss%2Fword@cloud:5000").unwrap();
        let mut access = written.resolve("f").unwrap();
        access.proxy = Proxy::At("http://us:hunter2@proxy:3128".to_owned());
        let secrets = KnownSecrets::of(&access);
        for quoted in ["p%40ss%2Fword", "p@ss/word", "p%40ss%2fword", "hunter2", "dXM6aHVudGVyMg=="]
        {
            let told = secrets.text_without(&format!("as {quoted} "));
            assert!(told.starts_with("as (redacted)") && !told.contains(quoted), "{told}");
        }
    }
}
