//! Which configuration a machine gets: the one that is there, one that a person brings, one that names a
//! `cloud.conf`, or one that is to be filled in. Nothing is taken that a person did not name.

use super::console::{NodeResult, Stop, lines};
use super::site::Site;
use super::{durable, kubelet};
use crate::host::files;
use crate::model::cloud::access::Written;
use crate::model::error::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The configuration that a machine begins with.
const TEMPLATE: &str = include_str!("../../examples/config.toml");

/// A file that a person brought, read where the program was called: the machine's root may be another.
#[derive(Debug, Clone)]
pub struct BroughtConfiguration {
    /// Its path, for people.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
    /// Who else can change it.
    doubt: Option<&'static str>,
}

impl BroughtConfiguration {
    /// Reads it once: what is tried is what is installed.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            files::read_if_there(path).map_err(|error| Error { kind: Kind::Config, ..error })?;
        let none = || Error::new(Kind::Config, format!("there is no file {}", path.display()));
        let text = text.ok_or_else(none)?;
        let found = std::fs::metadata(path).ok();
        let doubt = found.and_then(|found| match (found.uid(), found.mode()) {
            (_, mode) if mode & 0o022 != 0 => Some("others may write"),
            (_, mode) if mode & 0o004 != 0 => Some("everyone may read"),
            (uid, _) if uid != 0 => Some("another user owns"),
            _ => None,
        });
        Ok(Self { path: path.to_path_buf(), text, doubt })
    }
}

/// What is to be done about the configuration.
#[derive(Debug)]
pub struct ConfigurationPlan {
    /// What is to be written; nothing if the one that is there stays.
    pub text: Option<String>,
    /// What is tried: it names files where they are now.
    pub tried: Option<String>,
    /// Where it comes from, for people.
    pub origin: String,
    /// Whether a person named it.
    pub is_named: bool,
    /// Whether it takes the place of another one.
    replaces: bool,
    /// A file that is copied beside it: from where.
    copied: Option<PathBuf>,
}

/// What is to be done on this machine.
pub fn plan(site: &Site, brought: Option<&BroughtConfiguration>) -> NodeResult<ConfigurationPlan> {
    let config = site.config();
    let there = files::read_if_there(&config)?;
    let unchanged = |origin: String, is_named: bool| ConfigurationPlan {
        text: None,
        tried: None,
        origin,
        is_named,
        replaces: false,
        copied: None,
    };
    let (text, tried, origin, copied) = if let Some(brought) = brought {
        let path = brought.path.display().to_string();
        if let Some(doubt) = brought.doubt {
            site.console.warn(&format!(
                "{doubt} {path}, which may hold credentials; what is installed is root's alone: remove {path} then"
            ));
        }
        (brought.text.clone(), brought.text.clone(), path, None)
    } else if let Some(path) = &site.options.cloud_config {
        let (told, copied) = cloud_conf(site, path)?;
        site.console.say(&format!("the cloud is taken from {}: {told}", path.display()));
        let named = copied.as_ref().map_or(path.clone(), |_| beside_configuration());
        let origin = format!("{} (--cloud-config)", path.display());
        (template(site, Some(&named)), template(site, Some(path)), origin, copied)
    } else if there.is_some() {
        return Ok(unchanged(config.display().to_string(), false));
    } else {
        let text = template(site, None);
        let origin = "a configuration to be filled in".to_owned();
        return Ok(ConfigurationPlan { text: Some(text), ..unchanged(origin, false) });
    };
    if let Some(from) = &copied
        && !site.options.consent.replace_config
        && is_another(from, &site.below(&beside_configuration()))
    {
        return Err(Stop::new(format!(
            "refused, nothing was changed: {} is there, and {} is another one\n\
             --replace-config takes the new one",
            beside_configuration().display(),
            from.display()
        )));
    }
    let same = there.as_ref().is_some_and(|there| differences(there, &text).is_empty());
    let replaces = there.is_some() && !same;
    if let Some(there) = there.filter(|_| replaces && !site.options.consent.replace_config) {
        return Err(Stop::new(format!(
            "refused, nothing was changed: {} is there, and {origin} says something else (values are not shown):{}\n\
             --replace-config takes the new one; the old one is kept as {}",
            config.display(),
            lines(&differences(&there, &text)),
            before(site).display()
        )));
    }
    Ok(ConfigurationPlan {
        text: (!same).then_some(text),
        tried: Some(tried),
        replaces,
        copied,
        ..unchanged(origin, true)
    })
}

/// The configuration that was there before a person replaced it.
fn before(site: &Site) -> PathBuf {
    site.config_folder().join("config.toml.before")
}

/// As the machine will see it.
fn beside_configuration() -> PathBuf {
    PathBuf::from("/etc/incloud-disk/cloud.conf")
}

/// Whether a file is there and says something else.
fn is_another(new: &Path, there: &Path) -> bool {
    let text = |path: &Path| files::read_text(path).ok();
    durable::is_there(there) && text(new) != text(there)
}

/// What a `cloud.conf` says, without its secrets; and whether it is to be copied: what lies in kubelet's plugin
/// folder goes with the driver that it was for.
fn cloud_conf(site: &Site, path: &Path) -> NodeResult<(String, Option<PathBuf>)> {
    let place = site.below(path);
    let text = files::read_text(&place).map_err(|error| {
        Stop::new(format!(
            "--cloud-config {}: {}",
            path.display(),
            crate::model::error::errno_text(&error)
        ))
    })?;
    let written = Written::from_cloud_conf(&text, &path.display().to_string())?;
    if written.auth_url.is_none() && written.cloud.is_none() {
        return Err(Stop::new(format!(
            "--cloud-config {}: it names no auth-url in [Global], so it is no cloud.conf of OpenStack",
            path.display()
        )));
    }
    let is_in_plugins = path.components().any(|part| part.as_os_str() == "incloud~disk");
    Ok((told(&written), is_in_plugins.then_some(place)))
}

fn told(written: &Written) -> String {
    let first = |all: &[(&str, &Option<String>)]| {
        all.iter().find_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?)))
    };
    let parts = [
        first(&[("auth-url", &written.auth_url), ("the clouds.yaml entry", &written.cloud)]),
        first(&[
            ("user", &written.username),
            ("user", &written.user_id),
            ("application credential", &written.application_credential_id),
            ("application credential", &written.application_credential_name),
        ]),
        first(&[("project", &written.project_name), ("project", &written.project_id)]),
        first(&[("region", &written.region)]),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("{}; secrets are not shown", parts.join(", "))
}

/// The file with each key, as it is written for a machine without one.
fn template(site: &Site, cloud_conf: Option<&Path>) -> String {
    let cloud = cloud_conf.map(|_| "openstack").or(site.options.cloud.as_deref());
    let kind =
        cloud.map_or("# kind = \"openstack\"".to_owned(), |cloud| format!("kind = \"{cloud}\""));
    let set = |key: &str, path: Option<&Path>| {
        let path = path?.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        Some((format!("# {key} = "), format!("{key} = \"{path}\"")))
    };
    let lines =
        [set("kubelet_root", site.options.kubelet_root.as_deref()), set("cloud_conf", cloud_conf)];
    let line = |line: &str| {
        if line.starts_with("kind = ") {
            return kind.clone();
        }
        let set = lines.iter().flatten().find(|(start, _)| line.starts_with(start));
        set.map_or_else(|| line.to_owned(), |(_, text)| text.clone())
    };
    TEMPLATE.lines().map(|text| line(text) + "\n").collect()
}

/// Which keys two configurations have another value for; values may be secrets.
fn differences(one: &str, other: &str) -> Vec<String> {
    if one == other {
        return Vec::new();
    }
    let (Some(one), Some(other)) = (keys(one), keys(other)) else {
        return vec!["one of them is no TOML".to_owned()];
    };
    let mut found = Vec::new();
    for (key, value) in &one {
        match other.get(key) {
            None => found.push(format!("{key}: only in the one that is there")),
            Some(new) if new != value => found.push(format!("{key}: another value")),
            Some(_) => {}
        }
    }
    let new = other.keys().filter(|key| !one.contains_key(*key));
    found.extend(new.map(|key| format!("{key}: only in the new one")));
    found
}

fn keys(text: &str) -> Option<BTreeMap<String, toml::Value>> {
    let mut all = BTreeMap::new();
    collect(&toml::Value::Table(text.parse().ok()?), "", &mut all);
    Some(all)
}

fn collect(value: &toml::Value, name: &str, all: &mut BTreeMap<String, toml::Value>) {
    if let toml::Value::Table(table) = value {
        for (key, value) in table {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            collect(value, &name, all);
        }
    } else {
        all.insert(name.to_owned(), value.clone());
    }
}

/// Writes it. It may come to hold credentials, so its owner alone reads it.
pub fn write(site: &Site, plan: &ConfigurationPlan) -> NodeResult {
    let (config, folder) = (site.config(), site.config_folder());
    let shown = config.display();
    let to = site.below(&beside_configuration());
    if let Some(copied) = &plan.copied
        && site.announces(&format!("copying {} to {}", copied.display(), to.display()))
    {
        durable::make_folder(&folder, 0o755)?;
        let text = files::read_text(copied).map_err(|error| Stop::new(error.to_string()))?;
        durable::replace(&to, &folder.join(".cloud.conf.new"), text.as_bytes(), 0o600)?;
    }
    let Some(text) = &plan.text else {
        site.console.say(&format!("the configuration stays as it is: {shown}"));
        return if plan.is_named { make_private(site, &config) } else { Ok(()) };
    };
    let from = if plan.is_named { format!(", taken from {}", plan.origin) } else { String::new() };
    if plan.replaces
        && site.announces(&format!("keeping the old one as {}", before(site).display()))
    {
        durable::copy(&config, &before(site))?;
        make_private(site, &before(site))?;
    }
    if site.announces(&format!("writing a configuration: {shown}{from}")) {
        durable::make_folder(&folder, 0o755)?;
        durable::replace(&config, &folder.join(".config.toml.new"), text.as_bytes(), 0o600)?;
    } else if plan.is_named {
        let keys = keys(text).unwrap_or_default();
        let names: Vec<_> = keys.keys().map(String::as_str).collect();
        site.console.say(&format!("it would set: {}", names.join(", ")));
    }
    if !plan.is_named && site.options.cloud.is_none() {
        site.console.warn(&format!("no cloud is chosen yet: set cloud.kind in {shown}"));
    }
    Ok(())
}

/// root's alone, whatever it was.
fn make_private(site: &Site, path: &Path) -> NodeResult {
    use std::os::unix::fs::PermissionsExt;
    if site.options.dry_run {
        return Ok(());
    }
    let change = || {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let is_ours = std::fs::metadata(path)?.uid() == nix::unistd::geteuid().as_raw();
        if is_ours { Ok(()) } else { std::os::unix::fs::chown(path, Some(0), Some(0)) }
    };
    change().map_err(|error| Stop::new(format!("make {} private: {error}", path.display())))
}

/// What Kubernetes was told of the cloud, and what lies beside the driver: a person may take it. Each is one
/// line, with what to type.
#[must_use]
pub fn found(site: &Site, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for told in kubelet::cloud_configs(&site.proc) {
        let path = told.path.display();
        found.push(match told.elsewhere {
            None => format!("{} has --cloud-config={path}; to take it: --cloud-config {path}", told.by),
            Some(why) => format!("{} has --cloud-config={path}, {why}; copy it to this machine, and name it by --cloud-config", told.by),
        });
    }
    for path in durable::entries(folder).unwrap_or_default() {
        let Ok(text) = files::read_text(&path) else { continue };
        let name = path.display();
        let conf = || Written::from_cloud_conf(&text, "").is_ok_and(|conf| conf.auth_url.is_some());
        let has_cloud = |keys: &BTreeMap<String, toml::Value>| keys.contains_key("cloud.kind");
        if keys(&text).as_ref().is_some_and(has_cloud) {
            found.push(format!("beside the driver is {name}; to take it: --config {name}"));
        } else if conf() {
            found.push(format!("beside the driver is {name}; to take it: --cloud-config {name}"));
        } else if text.lines().any(|line| line.trim_end() == "clouds:") {
            found.push(format!("beside the driver is {name}, a clouds.yaml: a configuration names it by openstack.clouds_file"));
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_keys_and_no_values() {
        let one =
            "[cloud]\nkind = \"openstack\"\n[openstack]\npassword = \"s3cret\"\nregion = \"a\"\n";
        let other = "[cloud]\nkind = \"openstack\"\n[openstack]\npassword = \"t0psec\"\n[node]\nname = \"n\"\n";
        let found = differences(one, other);
        assert_eq!(
            found,
            [
                "openstack.password: another value",
                "openstack.region: only in the one that is there",
                "node.name: only in the new one",
            ]
        );
        assert!(differences(one, &format!("# why\n{one}")).is_empty());
        assert_eq!(differences(one, "[").len(), 1);
    }
}
