//! The secrets of this machine: what must not be in a report, wherever it was quoted.

use crate::app;
use crate::cloud::openstack;
use crate::host::files;
use crate::model::error::Error;
use crate::model::report::redaction::{
    Redaction, names_a_secret, secrets_in, secrets_of_url, values_in,
};
use crate::model::secret::Secret;
use crate::operator::configured::Configured;
use std::fs;
use std::path::{Path, PathBuf};

/// What takes all of them out of texts.
pub(super) fn known(configured: &Configured) -> Redaction {
    let config = &configured.config;
    let written = &config.openstack;
    let mut secrets: Vec<String> = Vec::new();
    let own = [&written.password, &written.application_credential_secret];
    secrets.extend(own.into_iter().flatten().map(revealed));
    let urls = [&written.auth_url, &written.proxy, &written.metadata_url];
    secrets.extend(urls.into_iter().flatten().flat_map(|url| secrets_of_url(url)));
    // The source that counts, and what stands in the others too: a message may quote each.
    let get = |name: &str| std::env::var(name).ok();
    if let Ok(access) = openstack::access(written, "", get) {
        secrets.extend(access.secrets().iter().map(revealed));
    }
    let named = [&written.cloud_conf, &written.clouds_file].into_iter().flatten();
    let beside = named.clone().flat_map(|path| {
        ["secure.yaml", "secure.yml"].map(|name| path.with_file_name(name)).into_iter()
    });
    let mut places: Vec<PathBuf> = named.cloned().chain(beside).collect();
    places.extend(app::configuration_places());
    // Those that were kept from one process to the next.
    places.extend(files_in(&config.paths.run_dir.join("tokens")));
    for path in &places {
        secrets.extend(files::read_text(path).iter().flat_map(|text| secrets_in(text)));
    }
    secrets.extend(of_the_environment());
    Redaction::of(secrets)
}

fn revealed(secret: &Secret) -> String {
    secret.reveal().to_owned()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// What a shell calls its working directories. In a text `PWD` may be a password, as ODBC has it.
const DIRECTORIES: [&str; 2] = ["PWD", "OLDPWD"];

fn of_the_environment() -> Vec<String> {
    let all = std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    let each = all.map(|(name, value)| {
        let is_secret = names_a_secret(&name) && !DIRECTORIES.contains(&name.as_str());
        if is_secret { vec![value] } else { secrets_in(&value) }
    });
    each.flatten().collect()
}

/// What is wrong with a configuration that cannot be read, without any of its values: a password may stand
/// at the wrong place.
pub(super) fn without_values(error: &Error) -> Error {
    let texts =
        app::configuration_places().into_iter().filter_map(|path| files::read_text(path).ok());
    Redaction::of(texts.flat_map(|text| values_in(&text))).error_without(error)
}
