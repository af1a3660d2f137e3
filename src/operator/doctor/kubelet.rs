//! Whether kubelet will find this driver, and nothing that it takes for another one.

use super::for_root::{is_for_root, or_for_root};
use crate::host::machine;
use crate::model::error::{Error, Kind};
use crate::model::ids::NodeName;
use crate::model::kubelet::Attacher;
use crate::model::report::finding::{Finding, Level};
use crate::node::kubelet::{Kubelet, USUAL_PLUGIN_DIR, ours};
use crate::node::system;
use crate::operator::configured::Configured;
use std::path::{Path, PathBuf};

const FOLDER: &str = "incloud~disk";

pub(super) fn look(all: &[Kubelet], configured: &Configured) -> Vec<Finding> {
    let wanted = configured.config.paths.kubelet_root.as_deref();
    let Some(kubelet) = ours(all, wanted) else {
        let mut found = vec![Finding::warning(
            "kubelet",
            "no kubelet runs here, or its process cannot be seen",
            "on a node: start it; where only the controller-manager runs nothing is to be done",
        )];
        if Path::new(USUAL_PLUGIN_DIR).is_dir() {
            found.extend(plugins(Path::new(USUAL_PLUGIN_DIR), "where kubelet usually looks"));
        }
        return found;
    };
    let mut found = vec![told(kubelet)];
    found.extend(several(all, kubelet, wanted));
    // Where its configuration is hidden from this user, what it may say of its folders is not known.
    let is_told = found.iter().all(|one| one.level != Level::Skipped);
    if is_told {
        found.extend(plugins(&kubelet.plugin_dir, &kubelet.plugin_dir_from.to_string()));
    }
    if is_told && !configured.is_hidden() {
        found.push(root(kubelet, configured));
    }
    found.extend(namespace(kubelet));
    found
}

/// What kubelet asks for must be asked for at the same server as what this machine asks for.
pub(super) fn node_name(
    (name, source): &(NodeName, &str),
    configured: Option<&NodeName>,
) -> Finding {
    const CHECK: &str = "node name";
    let fix = format!(
        "set node.name = \"{name}\" in the configuration, also in that of the controller-manager on this machine"
    );
    match configured {
        Some(own) if own != name => Finding::error(
            CHECK,
            format!("kubelet calls this node {name} ({source}), node.name is {own}"),
            fix,
        ),
        None if machine::node_name().is_ok_and(|host| host != *name) => Finding::warning(
            CHECK,
            format!(
                "kubelet calls this node {name} ({source}), which is not the name of the host, and node.name is not set"
            ),
            fix,
        ),
        _ => Finding::ok(CHECK, format!("{name}: {source}")),
    }
}

fn told(kubelet: &Kubelet) -> Finding {
    if let Some((path, Some(why))) = &kubelet.config {
        let error = Error::new(Kind::Host, format!("read {}: {why}", path.display()));
        let found = format!(
            "process {} reads its configuration from {}, which cannot be read: {why}",
            kubelet.pid,
            path.display()
        );
        let fix = "mend it: kubelet does not start again with it";
        return or_for_root(&error, Finding::warning("kubelet", found, fix));
    }
    let who = match &kubelet.attacher {
        Attacher::Controller => "the controller-manager attaches",
        Attacher::Kubelet => "kubelet itself attaches",
        Attacher::Unknown(why) => why,
    };
    Finding::ok("kubelet", format!("process {}; {who}", kubelet.pid))
}

/// What follows is about one of them: which one, and why.
fn several(all: &[Kubelet], taken: &Kubelet, wanted: Option<&Path>) -> Option<Finding> {
    if all.len() < 2 {
        return None;
    }
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    let why = if wanted == Some(taken.root_dir.as_path()) {
        "its root directory is paths.kubelet_root"
    } else if taken.shares_our_mounts == Some(true) {
        "it is the first one that lives in this mount namespace"
    } else {
        "it is the first one, and none is seen to live in this mount namespace"
    };
    Some(Finding::warning(
        "kubelet",
        format!(
            "{} kubelets run here ({}); what follows is about process {}: {why}",
            all.len(),
            names.join("; "),
            taken.pid
        ),
        "where each of them is to have the driver, install it for each: sudo ./install.sh install --plugin-dir DIR",
    ))
}

fn plugins(folder: &Path, from: &str) -> Vec<Finding> {
    const CHECK: &str = "plugin folder";
    let driver = folder.join(FOLDER).join("disk");
    let place = format!("{} ({from})", folder.display());
    if let Err(error) = driver.metadata() {
        let error = Error::io(format!("look at {}", driver.display()), &error);
        if is_for_root(&error) {
            return vec![Finding::skipped(CHECK, error.cause)];
        }
    }
    if !system::is_executable(&driver) {
        return vec![Finding::error(
            CHECK,
            format!("kubelet looks in {place}, and there is no executable {FOLDER}/disk"),
            format!("sudo ./install.sh install --plugin-dir {}", folder.display()),
        )];
    }
    let mut found = Vec::new();
    match system::is_this_program(&driver) {
        Some(false) => found.push(Finding::warning(
            CHECK,
            format!("{} is another build than the one that looks now", driver.display()),
            "run that one, or sudo ./install.sh upgrade",
        )),
        _ => found.push(Finding::ok(CHECK, format!("{} is there: {place}", driver.display()))),
    }
    let visible = visible_beside(&driver);
    if !visible.is_empty() {
        found.push(Finding::warning(
            CHECK,
            format!("kubelet probes the driver on every change of {}", visible.join(", ")),
            "move them elsewhere: only disk, and names that begin with a dot, belong there",
        ));
    }
    match system::broken_plugins(folder) {
        Ok(broken) if broken.is_empty() => {}
        Ok(broken) => found.push(Finding::warning(
            CHECK,
            format!("kubelet takes {} for drivers, and they have no program", broken.join(", ")),
            "remove them, or put their drivers there: before Kubernetes 1.24 one broken driver keeps kubelet from seeing the others",
        )),
        Err(error) => {
            let broken = Finding::warning(CHECK, &*error.cause, "mend that folder");
            found.push(or_for_root(&error, broken));
        }
    }
    found
}

fn visible_beside(driver: &Path) -> Vec<String> {
    let entries = driver.parent().map(std::fs::read_dir);
    let names = entries.into_iter().flatten().flatten().flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name != "disk" && !name.starts_with('.')).collect();
    names.sort();
    names
}

pub(super) fn root(kubelet: &Kubelet, configured: &Configured) -> Finding {
    const CHECK: &str = "kubelet root";
    let root: &PathBuf = &kubelet.root_dir;
    match &configured.config.paths.kubelet_root {
        Some(configured) if configured != root => Finding::error(
            CHECK,
            format!(
                "kubelet works in {}, and paths.kubelet_root is {}: every mount is refused",
                root.display(),
                configured.display()
            ),
            format!("set paths.kubelet_root to {}", root.display()),
        ),
        Some(_) => Finding::ok(CHECK, format!("{}, as configured", root.display())),
        None => Finding::ok(
            CHECK,
            format!("{}; paths.kubelet_root binds folders to none", root.display()),
        ),
    }
}

fn namespace(kubelet: &Kubelet) -> Option<Finding> {
    const CHECK: &str = "namespace";
    match kubelet.shares_our_mounts {
        Some(true) => None,
        Some(false) => Some(Finding::warning(
            CHECK,
            "kubelet lives in another mount namespace than this shell: what is shown here is not what its calls see",
            format!("nsenter --target {} --mount -- disk doctor", kubelet.pid),
        )),
        None if !machine::is_root() => {
            Some(Finding::skipped(CHECK, "only root can see whether kubelet has the same mounts"))
        }
        None => Some(Finding::warning(
            CHECK,
            "whether kubelet sees the same mounts cannot be seen",
            "run the driver with CAP_SYS_PTRACE",
        )),
    }
}
