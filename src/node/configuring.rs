//! Which configuration a machine gets: the one that is there, one that a person brings, one that names a
//! `cloud.conf`, or one that is to be filled in. Nothing is taken that a person did not name.

use super::brought::{BroughtFile, BroughtFiles};
use super::console::{NodeResult, Stop, lines};
use super::site::Site;
use super::{durable, kubelet, process};
use crate::host::{files, machine};
use crate::model::cloud::access::Written;
use crate::model::ids::NodeName;
use crate::model::report::redaction::Redaction;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The configuration that a machine begins with.
const TEMPLATE: &str = include_str!("../../examples/config.toml");

/// What is to be done about the configuration.
#[derive(Debug)]
pub(super) struct ConfigurationPlan {
    /// What it is to say.
    pub(super) text: String,
    /// Whether that is to be written; else the one that is there stays.
    pub(super) is_new: bool,
    /// Where it comes from, for people.
    pub(super) origin: String,
    /// Whether a person named it, or what it is to name.
    pub(super) is_named: bool,
    /// Whether it takes the place of another one.
    replaces: bool,
    /// A `cloud.conf` that is kept beside it.
    pub(super) credentials: Option<BroughtFile>,
}

/// Where a `cloud.conf` is kept, as the machine sees it and the configuration names it.
pub(super) const CREDENTIALS: &str = "/etc/incloud-disk/cloud.conf";

/// What is to be done on this machine.
pub(super) fn plan(site: &Site, brought: &BroughtFiles) -> NodeResult<ConfigurationPlan> {
    let there = files::read_if_there(&site.config())?;
    for brought in [&brought.config, &brought.credentials].into_iter().flatten() {
        if let Some(warning) = brought.warning() {
            site.console.warn(&warning);
        }
    }
    let credentials = credentials(site, brought.credentials.as_ref())?;
    must_be_agreed(site, credentials.as_ref())?;
    let kept = credentials.as_ref().map(|_| Path::new(CREDENTIALS));
    let named = kept.or(site.options.cloud_config.as_deref());
    let (text, origin) = if let Some(brought) = &brought.config {
        (brought.text.clone(), brought.path.display().to_string())
    } else if let Some(path) = &site.options.cloud_config {
        (template(site, named), format!("{} (--cloud-config)", path.display()))
    } else if let Some(there) = &there {
        (there.clone(), site.config().display().to_string())
    } else {
        (template(site, named), "a configuration to be filled in".to_owned())
    };
    let is_agreed = site.options.consent.replace_config;
    let name = name_of_kubelets_node(site).or_else(|| {
        // kubelet may just not be running: what an earlier installation wrote stays.
        match keys(there.as_ref().filter(|_| !is_agreed)?)?.get("node.name")? {
            toml::Value::String(name) => NodeName::parse(name).ok(),
            _ => None,
        }
    });
    let text = with_node_name(name.as_ref(), text);
    if let Some(brought) = &brought.credentials {
        must_name(&text, &origin, &brought.path)?;
    }
    let is_same = there.as_ref().is_some_and(|there| differences(there, &text).is_empty());
    let replaces = there.is_some() && !is_same;
    let is_other = |there: &String| {
        !differences(&with_node_name(name.as_ref(), there.clone()), &text).is_empty()
    };
    if let Some(there) = there.filter(|there| replaces && !is_agreed && is_other(there)) {
        return Err(Stop::new(format!(
            "refused, nothing was changed: {} is there, and {origin} says something else (values are not shown):{}\n\
             --replace-config takes the new one; the old one is kept as {}",
            site.config().display(),
            lines(&differences(&there, &text)),
            before(&site.config()).display()
        )));
    }
    let is_named = [&brought.config, &brought.credentials].into_iter().any(Option::is_some)
        || site.options.cloud_config.is_some();
    Ok(ConfigurationPlan { text, is_new: !is_same, origin, is_named, replaces, credentials })
}

/// Which `cloud.conf` is to be kept: one that a person brought, or one that goes with the driver that it was
/// for, since it lies in kubelet's plugin folder.
fn credentials(site: &Site, brought: Option<&BroughtFile>) -> NodeResult<Option<BroughtFile>> {
    let (option, file, is_kept) = match (brought, &site.options.cloud_config) {
        (Some(brought), _) => ("--credentials", brought.clone(), true),
        (None, Some(path)) => {
            let text = files::read_text(site.at(path)).map_err(|error| {
                let why = crate::model::error::errno_text(&error);
                Stop::new(format!("--cloud-config {}: {why}", path.display()))
            })?;
            let is_in_plugins = path.components().any(|part| part.as_os_str() == "incloud~disk");
            let file = BroughtFile { path: path.clone(), text, doubt: None };
            ("--cloud-config", file, is_in_plugins)
        }
        (None, None) => return Ok(None),
    };
    let told = checked(option, &file)?;
    site.console.say(&format!("the cloud is taken from {}: {told}", file.path.display()));
    Ok(is_kept.then_some(file))
}

/// Another one that is there is not replaced without a word.
fn must_be_agreed(site: &Site, credentials: Option<&BroughtFile>) -> NodeResult {
    let Some(new) = credentials.filter(|_| !site.options.consent.replace_config) else {
        return Ok(());
    };
    match files::read_if_there(&site.at(CREDENTIALS))? {
        Some(there) if there != new.text => Err(Stop::new(format!(
            "refused, nothing was changed: {} is there, and {} is another one\n\
             --replace-config takes the new one; the old one is kept as {}",
            CREDENTIALS,
            new.path.display(),
            before(Path::new(CREDENTIALS)).display()
        ))),
        _ => Ok(()),
    }
}

/// Credentials that no configuration reads would be believed to be in use.
fn must_name(text: &str, origin: &str, credentials: &Path) -> NodeResult {
    let place = CREDENTIALS;
    // One that is no TOML is told by what reads it.
    let named = keys(text).map(|keys| keys.get("openstack.cloud_conf").cloned());
    match named {
        Some(Some(toml::Value::String(named))) if named == place => Ok(()),
        None => Ok(()),
        Some(_) => Err(Stop::new(format!(
            "refused, nothing was changed: --credentials {} is kept as {place}, and {origin} does not name that\n\
             to do: write cloud_conf = \"{place}\" below [openstack] there",
            credentials.display()
        ))),
    }
}

/// What a person replaced is kept beside it.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".before");
    name.into()
}

/// What a `cloud.conf` says, without its secrets.
fn checked(option: &str, file: &BroughtFile) -> NodeResult<String> {
    let path = file.path.display().to_string();
    let written = Written::from_cloud_conf(&file.text, &path)?;
    if written.auth_url.is_none() && written.cloud.is_none() {
        return Err(Stop::new(format!(
            "{option} {path}: it names no auth-url in [Global], so it is no cloud.conf of OpenStack"
        )));
    }
    Ok(told(&written))
}

fn told(written: &Written) -> String {
    let first = |all: &[(&str, &Option<String>)]| {
        let redaction = Redaction::default();
        all.iter().find_map(|(what, value)| {
            Some(format!("{what} {}", redaction.redacted(value.as_ref()?)))
        })
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

/// The name that Kubernetes has for this node, where that is not the host's.
fn name_of_kubelets_node(site: &Site) -> Option<NodeName> {
    // The kubelet that is seen while an image is made is not the image's.
    if !site.is_this_machine() && site.proc == Path::new("/proc") {
        return None;
    }
    let root = site.options.kubelet_root.as_deref();
    let kubelet = kubelet::ConfiguredKubelet { proc: site.proc.clone(), root };
    let (name, _) = kubelet.node_name(None)?;
    let is_hosts = machine::node_name().is_ok_and(|host| host == name);
    (!is_hosts).then_some(name)
}

/// The configuration with this name as `node.name`, unless it has one: a call need not search for it, and the
/// controller-manager's container does not see kubelet.
fn with_node_name(name: Option<&NodeName>, text: String) -> String {
    let Some(name) = name.filter(|_| keys(&text).is_some_and(|all| !all.contains_key("node.name")))
    else {
        return text;
    };
    let line = format!("name = \"{name}\"");
    let is_table = |line: &str| line.split('#').next().is_some_and(|line| line.trim() == "[node]");
    let named = match text.lines().position(is_table) {
        Some(at) => {
            let mut lines: Vec<_> = text.lines().collect();
            lines.insert(at + 1, &line);
            lines.join("\n") + "\n"
        }
        None => format!("node.{line}\n{text}"),
    };
    // A table may be written in other ways: then calls go on to ask kubelet.
    if keys(&named).is_some() { named } else { text }
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
pub(super) fn write(site: &Site, plan: &ConfigurationPlan) -> NodeResult {
    let config = site.config();
    let shown = config.display();
    if let Some(credentials) = &plan.credentials {
        keep(site, credentials)?;
    }
    if !plan.is_new {
        site.console.say(&format!("the configuration stays as it is: {shown}"));
        return if plan.is_named { make_private(site, &config) } else { Ok(()) };
    }
    let from = if plan.is_named { format!(", taken from {}", plan.origin) } else { String::new() };
    if plan.replaces {
        keep_before(site, &config)?;
    }
    if site.announces(&format!("writing a configuration: {shown}{from}")) {
        durable::replace(&config, plan.text.as_bytes(), 0o600)?;
    } else if plan.is_named {
        let keys = keys(&plan.text).unwrap_or_default();
        let names: Vec<_> = keys.keys().map(String::as_str).collect();
        site.console.say(&format!("it would set: {}", names.join(", ")));
    }
    if !plan.is_named && !plan.replaces && site.options.cloud.is_none() {
        site.console.warn(&format!("no cloud is chosen yet: set cloud.kind in {shown}"));
    }
    Ok(())
}

/// The `cloud.conf` that the configuration names.
fn keep(site: &Site, new: &BroughtFile) -> NodeResult {
    let to = site.at(CREDENTIALS);
    let there = files::read_if_there(&to)?;
    if there.as_ref() == Some(&new.text) {
        return make_private(site, &to);
    }
    if there.is_some() {
        keep_before(site, &to)?;
    }
    if site.announces(&format!("copying {} to {}", new.path.display(), to.display())) {
        durable::replace(&to, new.text.as_bytes(), 0o600)?;
    }
    Ok(())
}

fn keep_before(site: &Site, path: &Path) -> NodeResult {
    let kept = before(path);
    if site.announces(&format!("keeping the old one as {}", kept.display())) {
        durable::copy(path, &kept)?;
        make_private(site, &kept)?;
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
pub(super) fn found(site: &Site, folder: &Path) -> Vec<String> {
    let kubelets = kubelet::processes(&site.proc);
    let told = |pid: u32| told_cloud_config(&site.proc, pid, kubelets.contains(&pid));
    let mut found: Vec<_> = process::numbers(&site.proc).into_iter().filter_map(told).collect();
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

/// The `--cloud-config` flag of a kubelet or a controller-manager, with what to type.
fn told_cloud_config(proc: &Path, pid: u32, is_kubelet: bool) -> Option<String> {
    let process = process::folder(proc, pid);
    let arguments = process::arguments(&process);
    let called = arguments.first().map(Path::new).and_then(Path::file_name)?.to_str()?;
    let is_manager = called.ends_with("controller-manager")
        || called == "hyperkube"
            && arguments.iter().any(|word| word.ends_with("controller-manager"));
    if !is_manager && !is_kubelet {
        return None;
    }
    let path = process::flag_of(&arguments, "cloud-config").filter(|path| !path.is_empty())?;
    let who = if is_manager { called } else { "kubelet" };
    let told = format!("{who} (process {pid}) has --cloud-config={path}");
    let ours = files::place(Path::new(&path)).ok();
    let theirs = process::as_it_sees(&process, Path::new(&path), |path| files::place(&path)).ok();
    let why = match theirs {
        None => "which cannot be read",
        theirs if theirs != ours => "which is a file of its container",
        _ => return Some(format!("{told}; to take it: --cloud-config {path}")),
    };
    Some(format!("{told}, {why}; copy it to this machine, and name it by --cloud-config"))
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
