//! The kubelets that run on a machine, and what they were told: the one place that looks for them.
//! `disk doctor` shows what is found here, an installation goes where this says, and `disk node status`
//! looks from where they live. So a process counts by what the kernel says of it: a tenant chooses the
//! name and the words of his.

use super::process::{self, arguments, as_it_sees, flag_of, is_roots, seen_below};
use crate::host::{files, machine, pod_directories, tool};
use crate::model::error::errno_text;
use crate::model::face::Faces;
use crate::model::ids::{NodeName, VolumeName};
use crate::model::kubelet::{Attacher, RunningKubelet};
use crate::model::sorting::sort_by;
use crate::model::yaml;
use crate::ports::clock::{self, Deadline};
use crate::ports::host::Kubelets;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Where kubelet looks for plugins if it is told nothing.
pub const USUAL_PLUGIN_DIR: &str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";

/// Where it works if it is told nothing.
pub const USUAL_ROOT: &str = "/var/lib/kubelet";

/// A kubelet that runs, and what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubelet {
    pub pid: u32,
    /// The folder of volume plugins.
    pub plugin_dir: PathBuf,
    pub plugin_dir_from: PluginDirSource,
    pub root_dir: PathBuf,
    /// Who attaches for it.
    pub attacher: Attacher,
    /// Its configuration file, if it names one, and why that cannot be read.
    pub config: Option<(PathBuf, Option<String>)>,
    /// Whether it lives in this process's mount namespace; nothing if that cannot be seen.
    pub shares_our_mounts: Option<bool>,
}

/// What says where a kubelet has its plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginDirSource {
    /// Its command line.
    Flag,
    /// Its configuration file.
    Configuration,
    /// It was told nothing.
    Usual,
}

impl fmt::Display for PluginDirSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "its flag --volume-plugin-dir",
            Self::Configuration => "volumePluginDir in its configuration",
            Self::Usual => "it was not told otherwise",
        })
    }
}

impl fmt::Display for Kubelet {
    /// What tells it from another one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {}: plugin folder {} ({}), root {}",
            self.pid,
            self.plugin_dir.display(),
            self.plugin_dir_from,
            self.root_dir.display()
        )?;
        if self.shares_our_mounts == Some(false) {
            f.write_str(", in another mount namespace")?;
        }
        Ok(())
    }
}

impl Kubelet {
    /// Why its plugin folder is not known for certain: its configuration may name one, and cannot be
    /// read.
    pub fn doubt(&self) -> Option<(&Path, &str)> {
        match &self.config {
            Some((path, Some(why))) if self.plugin_dir_from != PluginDirSource::Flag => {
                Some((path, why))
            }
            _ => None,
        }
    }
}

/// What says which name Kubernetes has for a node: kubelet's command line, or the certificate or kubeconfig by
/// which it logs in.
const BY_FLAG: &str = "its flag --hostname-override";
const BY_CERTIFICATE: &str = "the certificate of its node";

/// The name that Kubernetes has for a kubelet's node, as far as it is not the host's; and what says so.
pub(super) fn node_name(proc: &Path, kubelet: &Kubelet) -> Option<(NodeName, &'static str)> {
    let process = process::folder(proc, kubelet.pid);
    let arguments = arguments(&process);
    let flag = |name: &str| flag_of(&arguments, name).filter(|value| !value.is_empty());
    if let Some(name) = flag("hostname-override") {
        let name = NodeName::parse(&name.trim().to_lowercase()).ok()?;
        return Some((name, BY_FLAG));
    }
    let read = |path: &Path| as_it_sees(&process, path, files::read_text).ok();
    let place = flag("kubeconfig").map(PathBuf::from).unwrap_or_default();
    let kubeconfig: Value =
        read(&place).and_then(|text| yaml::read(&text).ok()).unwrap_or_default();
    let of_user = |user: &Value| {
        let certificate = |key: &str| user["user"][key].as_str();
        let data = || String::from_utf8(base64_of(certificate("client-certificate-data")?)?).ok();
        let file = || read(&place.parent()?.join(certificate("client-certificate")?));
        let named = user["name"].as_str().and_then(node_user);
        named.or_else(|| node_of(&data()?)).or_else(|| node_of(&file()?))
    };
    let usual = || {
        let folder = flag("cert-dir").map_or_else(|| kubelet.root_dir.join("pki"), PathBuf::from);
        node_of(&read(&folder.join("kubelet-client-current.pem"))?)
    };
    let users = kubeconfig["users"].as_array();
    let found = users.into_iter().flatten().find_map(of_user).or_else(usual)?;
    Some((found, BY_CERTIFICATE))
}

/// What the user that a node logs in as begins with.
const NODE_USER: &str = "system:node:";

fn node_user(user: &str) -> Option<NodeName> {
    NodeName::parse(user.strip_prefix(NODE_USER)?).ok()
}

/// The node that a certificate is of. Its common name is the one text in it that begins so; the byte before a text is
/// its length.
fn node_of(pem: &str) -> Option<NodeName> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let bytes = base64_of(rest.split_once("-----END")?.0)?;
    let start = bytes.windows(NODE_USER.len()).position(|part| part == NODE_USER.as_bytes())?;
    let length = usize::from(*bytes.get(start.checked_sub(1)?)?);
    node_user(std::str::from_utf8(bytes.get(start..start + length)?).ok()?)
}

/// The bytes that base64 stands for, perhaps in several lines.
fn base64_of(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok()
}

/// The keys of kubelet's configuration file that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletConfiguration {
    volume_plugin_dir: Option<PathBuf>,
    enable_controller_attach_detach: Option<bool>,
}

impl KubeletConfiguration {
    /// What a file says takes the place of what was said before.
    fn read(&mut self, process: &Path, path: &Path) -> Result<(), String> {
        let text = as_it_sees(process, path, files::read_text).map_err(|error| errno_text(&error));
        let read: Self = yaml::read(&text?)?;
        self.volume_plugin_dir = read.volume_plugin_dir.or(self.volume_plugin_dir.take());
        self.enable_controller_attach_detach =
            read.enable_controller_attach_detach.or(self.enable_controller_attach_detach);
        Ok(())
    }

    /// The files of a folder of more configuration, in the order in which kubelet reads them; with an
    /// error the file that has it.
    fn read_folder(&mut self, process: &Path, folder: &Path) -> Result<(), (PathBuf, String)> {
        let list = |place: PathBuf| {
            let entries = fs::read_dir(place)?;
            entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()
        };
        let wrong = |error: std::io::Error| (folder.to_path_buf(), errno_text(&error));
        let mut names = as_it_sees(process, folder, list).map_err(wrong)?;
        names.retain(|name| Path::new(name).extension().is_some_and(|ending| ending == "conf"));
        sort_by(&mut names, Ord::cmp);
        for path in names.into_iter().map(|name| folder.join(name)) {
            self.read(process, &path).map_err(|why| (path, why))?;
        }
        Ok(())
    }
}

/// All that run, by their numbers.
pub(super) fn running(proc: &Path) -> Vec<Kubelet> {
    processes(proc).into_iter().filter_map(|pid| look(proc, pid)).collect()
}

/// Their numbers, also of one that is ending and shows nothing more of itself.
pub(super) fn processes(proc: &Path) -> Vec<u32> {
    let mut pids = process::numbers(proc);
    pids.retain(|pid| is_kubelet(&process::folder(proc, *pid)));
    pids
}

/// What of a kubelet's environment its calls get, and the driver reads: where a cloud is, and the way there.
pub(super) fn environment(proc: &Path) -> Vec<(String, String)> {
    let all = running(proc);
    let Some(kubelet) = ours(&all, None) else { return Vec::new() };
    let is_read = |name: &str| {
        name.starts_with("OS_")
            || name.to_ascii_lowercase().ends_with("_proxy")
            || ["HOME", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"].contains(&name)
    };
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let variables = machine::variables_of(&process::folder(proc, kubelet.pid));
    let variables = variables.into_iter().map(|(name, value)| (text(name), text(value)));
    variables.filter(|(name, _)| is_read(name)).collect()
}

/// What of its surroundings a process shares with us: its network and the name of the host.
pub(super) fn shares(proc: &Path, pid: u32, namespace: &str) -> Option<bool> {
    let own = process::namespace(&proc.join("self"), namespace);
    Some(process::namespace(&process::folder(proc, pid), namespace)? == own?)
}

/// Of several the one that works in the configured root directory. Where none does, or none is configured, the
/// one whose mounts are ours: others may be those of clusters in containers. Else the first.
pub fn ours<'a>(all: &'a [Kubelet], root: Option<&Path>) -> Option<&'a Kubelet> {
    let shares = |kubelet: &&Kubelet| kubelet.shares_our_mounts == Some(true);
    let has_root = |kubelet: &&Kubelet| root == Some(kubelet.root_dir.as_path());
    let configured = || all.iter().filter(has_root);
    configured().find(shares).or(configured().next()).or(all.iter().find(shares)).or(all.first())
}

/// The kubelet whose calls the driver of this configuration answers. Unlike [`ours`] it is for decisions: a
/// kubelet with another root directory is none, and who attaches must be the same for all that remain.
#[derive(Debug)]
pub struct ConfiguredKubelet<'a> {
    /// Where processes are seen.
    pub proc: PathBuf,
    /// `paths.kubelet_root`.
    pub root: Option<&'a Path>,
}

impl ConfiguredKubelet<'_> {
    /// The node's name in Kubernetes. `None` if kubelet uses the host name, no kubelet is running, or several disagree.
    /// The kubelet that called this driver is found without a scan of all processes.
    pub fn node_name(&self, caller: Option<u32>) -> Option<(NodeName, &'static str)> {
        let its_own = caller.filter(|pid| is_kubelet(&process::folder(&self.proc, *pid)));
        let all = match its_own.and_then(|pid| look(&self.proc, pid)) {
            Some(kubelet) => vec![kubelet],
            None => self.all(),
        };
        // Its directory is where it is for this process, unless it is another machine's, in a container of this one.
        let is_elsewhere = |kubelet: &&Kubelet| {
            let place = |path: PathBuf| files::place(&path);
            let own = process::folder(&self.proc, kubelet.pid).join("root");
            let own = seen_below(&own, &kubelet.root_dir, place);
            own.is_ok_and(|own| files::place(&kubelet.root_dir).ok() != Some(own))
        };
        let all: Vec<_> =
            all.iter().filter(|one| Some(one.pid) == its_own || !is_elsewhere(one)).collect();
        let mut names = all.iter().map(|kubelet| node_name(&self.proc, kubelet));
        let first = names.next()??;
        names.all(|other| other.is_some_and(|other| other.0 == first.0)).then_some(first)
    }

    fn all(&self) -> Vec<Kubelet> {
        let mut all = running(&self.proc);
        all.retain(|kubelet| self.root.is_none_or(|root| kubelet.root_dir == root));
        // A kubelet in a container has mounts of its own: it counts where none shares ours.
        if all.iter().any(|kubelet| kubelet.shares_our_mounts == Some(true)) {
            all.retain(|kubelet| kubelet.shares_our_mounts == Some(true));
        }
        all
    }
}

impl Kubelets for ConfiguredKubelet<'_> {
    fn running_kubelet(&self) -> Option<RunningKubelet> {
        let all = self.all();
        let (first, others) = all.split_first()?;
        let is_other =
            |one: &&Kubelet| (&one.root_dir, &one.attacher) != (&first.root_dir, &first.attacher);
        let attacher = match others.iter().find(is_other) {
            Some(other) => Attacher::Unknown(format!(
                "kubelets run as process {} and {}; paths.kubelet_root must say which one is this driver's",
                first.pid, other.pid
            )),
            None => first.attacher.clone(),
        };
        let ages = all.iter().map(|one| age(&process::folder(&self.proc, one.pid)));
        let age = ages.min().flatten();
        Some(RunningKubelet { attacher, root: first.root_dir.clone(), age })
    }

    fn is_root_of_another(&self, root: &Path) -> bool {
        // One directory may have two names, by a link or a bind mount.
        let differs = |own: &Path| match (files::place(own), files::place(root)) {
            (Ok(own), Ok(other)) => own != other,
            _ => false,
        };
        self.root.is_some_and(|own| own != root && differs(own))
    }

    fn has_pod_directory(
        &self,
        root: &Path,
        faces: Faces,
        name: &VolumeName,
    ) -> crate::model::error::Result<bool> {
        pod_directories::has_one(root, faces, name)
    }
}

/// How long a process has been running.
fn age(process: &Path) -> Option<Duration> {
    let began = machine::start_of(&fs::read(process.join("stat")).ok()?)?;
    clock::since_boot().checked_sub(began)
}

/// Those that work in the machine whose root is mounted there: their root folder is the one that is seen
/// below it. Beside them may run kubelets of clusters in containers.
pub fn working_below<'a>(all: &'a [Kubelet], proc: &Path, root: &Path) -> Vec<&'a Kubelet> {
    let is_there = |kubelet: &&Kubelet| {
        let place = |path: PathBuf| files::place(&path);
        let process = process::folder(proc, kubelet.pid);
        let own = seen_below(&process.join("root"), &kubelet.root_dir, place);
        let there = seen_below(root, &kubelet.root_dir, place);
        own.is_ok_and(|own| there.is_ok_and(|there| own == there))
    };
    all.iter().filter(is_there).collect()
}

/// The version of a kubelet's program, as it says itself: `Kubernetes v1.36.2` is (1, 36). Nothing where this user may
/// not run it, or it says nothing.
pub(super) fn version(proc: &Path, kubelet: &Kubelet) -> Option<(u32, u32)> {
    let program = process::folder(proc, kubelet.pid).join("exe");
    let said = tool::launch(&program, &["--version"], &[], Deadline::after(VERSION_WITHIN)).ok()?;
    version_in(said.last_line())
}

/// How long kubelet may take to say its version.
const VERSION_WITHIN: Duration = Duration::from_secs(3);

fn version_in(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.strip_prefix("Kubernetes v")?.split('.');
    let mut part = || parts.next()?.trim_end_matches('+').parse().ok();
    Some((part()?, part()?))
}

/// By its name, and by what no tenant can choose.
fn is_kubelet(process: &Path) -> bool {
    // In this order: what is read of root's own processes does not wait for users.
    is_roots(process) && is_named(process)
}

/// By the name that the kernel has for the program, or by the one that it was called by: of a wrapper
/// only one of them may be its own.
fn is_named(process: &Path) -> bool {
    let kernels = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let arguments = arguments(process);
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    let is = |name: &str| kernels.trim_end() == name || called == Some(name.as_ref());
    // Of a program with all of Kubernetes' programs in it the first word says which.
    let word = || arguments.iter().skip(1).find(|word| !word.starts_with('-'));
    is("kubelet") || (is("hyperkube") && word().is_some_and(|word| word == "kubelet"))
}

/// Whether a process, by its open folder, is still that kubelet: its number may be another's by now.
pub fn is_still(kubelet: &Kubelet, proc: &Path, process: &Path) -> bool {
    let again = || look_at(process, kubelet.pid, proc);
    is_kubelet(process) && again().as_ref() == Some(kubelet)
}

fn look(proc: &Path, pid: u32) -> Option<Kubelet> {
    look_at(&process::folder(proc, pid), pid, proc)
}

fn look_at(process: &Path, pid: u32, proc: &Path) -> Option<Kubelet> {
    let arguments = arguments(process);
    if arguments.is_empty() {
        return None;
    }
    let flag = |name: &str| flag_of(&arguments, name).filter(|value| !value.is_empty());
    let folder = fs::read_link(process.join("cwd"));
    // A relative path is one from where it works.
    let whole = |path: PathBuf| match &folder {
        Ok(folder) if path.is_relative() => folder.join(path),
        _ => path,
    };
    let mut configuration = KubeletConfiguration::default();
    let mut config = flag("config").map(PathBuf::from).map(|path| {
        let trouble = configuration.read(process, &path).err();
        (whole(path), trouble)
    });
    if let Some(folder) = flag("config-dir").map(PathBuf::from)
        && let Err((path, why)) = configuration.read_folder(process, &folder)
        && config.as_ref().is_none_or(|(_, trouble)| trouble.is_none())
    {
        config = Some((whole(path), Some(why)));
    }
    let configured = configuration.volume_plugin_dir.filter(|path| !path.as_os_str().is_empty());
    let (plugin_dir, plugin_dir_from) = match (flag("volume-plugin-dir"), configured) {
        (Some(path), _) => (PathBuf::from(path), PluginDirSource::Flag),
        (None, Some(path)) => (path, PluginDirSource::Configuration),
        (None, None) => (PathBuf::from(USUAL_PLUGIN_DIR), PluginDirSource::Usual),
    };
    let by_flag = flag("enable-controller-attach-detach").map(|text| !is_false(&text));
    let by_file = match &config {
        Some((path, Some(why))) => Err(format!("cannot read {}: {why}", path.display())),
        _ => Ok(configuration.enable_controller_attach_detach),
    };
    let mounts = |process: &Path| process::namespace(process, "mnt");
    let both = mounts(process).zip(mounts(&proc.join("self")));
    let root_dir = flag("root-dir").map_or_else(|| PathBuf::from(USUAL_ROOT), PathBuf::from);
    Some(Kubelet {
        pid,
        plugin_dir: plain(&whole(plugin_dir)),
        plugin_dir_from,
        root_dir: plain(&whole(root_dir)),
        attacher: match (by_flag, by_file) {
            (Some(by_controller), _) => attacher(by_controller),
            (None, Ok(by_controller)) => attacher(by_controller.unwrap_or(true)),
            (None, Err(why)) => Attacher::Unknown(why),
        },
        config,
        shares_our_mounts: both.map(|(one, other)| one == other),
    })
}

fn attacher(is_controller: bool) -> Attacher {
    if is_controller { Attacher::Controller } else { Attacher::Kubelet }
}

/// Every spelling that kubelet's flags accept.
fn is_false(value: &str) -> bool {
    matches!(value, "false" | "False" | "FALSE" | "f" | "F" | "0")
}

/// A path without the signs that change nothing: `/a/./b/` is `/a/b`.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// As the kernel tells of root's own process.
    const ROOTS: &str = "Uid:\t0\t0\t0\t0\nNSpid:\t9\nCapEff:\t000001ffffffffff\n";

    fn process(root: &Path, pid: u32, arguments: &[&str]) -> PathBuf {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join("root/var/lib")).unwrap();
        fs::write(folder.join("status"), ROOTS).unwrap();
        fs::write(folder.join("cmdline"), arguments.join("\0") + "\0").unwrap();
        folder
    }

    fn only(proc: &Path) -> Kubelet {
        let mut all = running(proc);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn kubelet_is_asked_by_flag_and_then_by_file() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert_eq!(running(proc), []);
        process(proc, 7, &["/usr/bin/kubelet-wrapper"]);
        let folder =
            process(proc, 9, &["/usr/bin/kubelet", "--config=/var/lib/c.yaml", "--root-dir", "/k"]);
        let file = folder.join("root/var/lib/c.yaml");
        fs::write(&file, "kind: KubeletConfiguration\nvolumePluginDir: /plugins\nenableControllerAttachDetach: false\nother: [1]\n").unwrap();
        let found = only(proc);
        assert_eq!((found.pid, found.plugin_dir.as_path()), (9, Path::new("/plugins")));
        assert_eq!(found.root_dir, Path::new("/k"));
        assert_eq!(found.plugin_dir_from, PluginDirSource::Configuration);
        assert!(found.attacher == Attacher::Kubelet && found.doubt().is_none());
        fs::write(&file, "staticPodURLHeader:\n  Authorization: [hunter2]\nvolumePluginDir: [")
            .unwrap();
        let found = only(proc);
        let (_, why) = found.doubt().unwrap();
        assert!(why.starts_with("line 3: ") && !why.contains("hunter2"), "{why}");
        assert_eq!(found.plugin_dir, Path::new(USUAL_PLUGIN_DIR));
        fs::write(folder.join("cmdline"), "kubelet\0--config=/none\0--volume-plugin-dir=/a/\0")
            .unwrap();
        let found = only(proc);
        assert_eq!((found.doubt(), found.plugin_dir.as_path()), (None, Path::new("/a")));
        process(
            proc,
            8,
            &["hyperkube", "kubelet", "--volume-plugin-dir=/a", "--volume-plugin-dir", "/b"],
        );
        process(proc, 6, &["hyperkube", "--v=2", "proxy", "kubelet"]);
        let all = running(proc);
        assert_eq!(all.iter().map(|one| one.pid).collect::<Vec<_>>(), [8, 9]);
        assert_eq!(all[0].plugin_dir, Path::new("/b"));
    }

    #[test]
    fn a_nodes_name_is_kubelets_by_flag_and_then_by_certificate() {
        // Made by `openssl req -x509 -subj /O=system:nodes/CN=system:node:master2`.
        const PEM: &str = "-----BEGIN CERTIFICATE-----\n\
            MIIBwjCCAWegAwIBAgIUSAJRSP38J9C1nX1en2oUE4jKBSYwCgYIKoZIzj0EAwIw\n\
            NTEVMBMGA1UECgwMc3lzdGVtOm5vZGVzMRwwGgYDVQQDDBNzeXN0ZW06bm9kZTpt\n\
            YXN0ZXIyMCAXDTI2MTEyOTE4NDQ1NloYDzIxMjYxMTA1MTg0NDU2WjA1MRUwEwYD\n\
            VQQKDAxzeXN0ZW06bm9kZXMxHDAaBgNVBAMME3N5c3RlbTpub2RlOm1hc3RlcjIw\n\
            WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATff+fo+CVU7CYZqC/7sTp9gcst/a0Z\n\
            QQcIqt3Uh0xAOrbKQ1ztuOP3rduhrfUASeytKuIbPPVwG+Zw5Z/MNuybo1MwUTAd\n\
            BgNVHQ4EFgQUoKSdc4PKOdRKD0pY2gs4R5DQsM8wHwYDVR0jBBgwFoAUoKSdc4PK\n\
            OdRKD0pY2gs4R5DQsM8wDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBG\n\
            AiEA7WMbkCUY21tH/W68QjTo89nhmpMH7K+f170VGDqoDBsCIQDJkK3MQWBTDd6H\n\
            j2cUTCFcIcrL2Ic6oArhnSdUz284eQ==\n\
            -----END CERTIFICATE-----";
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        let kubelet = |more: &[&str]| {
            let words = [&["kubelet", "--root-dir=/k"], more].concat();
            process(proc, 9, &words);
            node_name(proc, &only(proc)).map(|(name, source)| (name.to_string(), source))
        };
        let folder = process(proc, 9, &["kubelet"]);
        let write = |path: &str, text: &str| {
            let path = folder.join("root").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(kubelet(&[]), None);
        let found = |name: &str, source| Some((name.to_owned(), source));
        write("k/pki/kubelet-client-current.pem", PEM);
        let by_certificate = found("master2", BY_CERTIFICATE);
        assert_eq!(kubelet(&[]), by_certificate);
        for flag in [&["--hostname-override=Other"][..], &["--hostname-override", "other"]] {
            assert_eq!(kubelet(flag), found("other", BY_FLAG));
        }
        let logs_in = |user: &str| {
            write("etc/kubelet.conf", &format!("kind: Config\nusers:\n- name: {user}\n"));
            kubelet(&["--kubeconfig=/etc/kubelet.conf"])
        };
        write("etc/own.pem", PEM);
        let data = BASE64_STANDARD.encode(PEM);
        let of_user = |name: &str| found(name, BY_CERTIFICATE);
        assert_eq!(logs_in("system:node:worker-1"), of_user("worker-1"));
        assert_eq!(logs_in("default-auth\n  user: {client-certificate: own.pem}"), by_certificate);
        fs::remove_file(folder.join("root/k/pki/kubelet-client-current.pem")).unwrap();
        let embedded = format!("a\n  user: {{client-certificate-data: {data}}}");
        assert_eq!(logs_in(&embedded), by_certificate);
        for broken in ["", "[", "default-auth\n  user: {client-certificate-data: c3lzdGVt}"] {
            assert_eq!(logs_in(broken), None, "{broken}");
        }
        for broken in [
            "",
            "-----BEGIN CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----c3lzdGVtOm5vZGU6\n-----END",
        ] {
            write("k/pki/kubelet-client-current.pem", broken);
            assert_eq!(kubelet(&[]), None, "{broken}");
        }
        // Its directory is seen, and is not ours: it is the kubelet of a machine in a container.
        process(proc, 9, &["kubelet", "--root-dir=/k", "--hostname-override=other"]);
        let here = ConfiguredKubelet { proc: proc.to_path_buf(), root: None };
        assert_eq!(here.node_name(None), None);
        assert!(here.node_name(Some(9)).is_some(), "it makes the call");
        fs::rename(folder.join("root/k"), folder.join("root/elsewhere")).unwrap();
        assert!(here.node_name(None).is_some(), "nothing is known of its directory");
    }

    /// Its name and its words are what a tenant chose for a process of his.
    #[test]
    fn a_name_makes_no_kubelet() {
        use std::os::unix::fs::PermissionsExt;
        let proc = tempfile::tempdir().unwrap();
        let folder = process(proc.path(), 7, &["kubelet", "--config=/etc/shadow"]);
        let is_one = || !running(proc.path()).is_empty() || !processes(proc.path()).is_empty();
        assert!(is_one());
        for (what, from, to) in [
            ("in a pod", "NSpid:\t9", "NSpid:\t9\t1"),
            ("of another user", "0\t0\t0\t0", "1000\t1000\t1000\t1000"),
            ("of another user, by a program with rights", "0\t0\t0\t0", "1000\t0\t0\t0"),
            ("with root of a namespace", "0\t0\t0\t0", "65536\t65536\t65536\t65536"),
            ("without the right to mount", "1ffffffffff", "1ffffdfffff"),
            ("nothing is known of the namespace", "NSpid:\t9\n", ""),
            ("nothing is known of the user", "Uid:", "Gid:"),
            ("nothing is known of the rights", "CapEff:", "CapPrm:"),
        ] {
            let status = ROOTS.replace(from, to);
            assert_ne!(status, ROOTS, "{what}");
            fs::write(folder.join("status"), status).unwrap();
            assert!(!is_one(), "{what}");
        }
        // An old kernel tells it by the namespace alone.
        fs::write(folder.join("status"), ROOTS.replace("NSpid:\t9\n", "")).unwrap();
        fs::create_dir(folder.join("ns")).unwrap();
        symlink("pid:[7]", folder.join("ns/pid")).unwrap();
        assert!(!is_one());
        fs::remove_file(folder.join("ns/pid")).unwrap();
        symlink(fs::read_link("/proc/self/ns/pid").unwrap(), folder.join("ns/pid")).unwrap();
        assert!(is_one());
        fs::write(folder.join("status"), ROOTS).unwrap();
        assert!(is_one());
        // A user who calls sudo under such a name is root in it until it asked for a password.
        let program = folder.join("exe");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(!is_one());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_one());
    }

    #[test]
    fn a_relative_path_begins_where_kubelet_works() {
        let proc = tempfile::tempdir().unwrap();
        let work = proc.path().join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("c.json"), "{\"volumePluginDir\": \"./p/q/\"}").unwrap();
        let folder = process(proc.path(), 5, &["kubelet", "--config", "c.json", "--root-dir=r"]);
        symlink(&work, folder.join("cwd")).unwrap();
        let found = only(proc.path());
        assert_eq!(found.plugin_dir, work.join("p/q"));
        assert_eq!(found.root_dir, work.join("r"));
        assert_eq!(found.config, Some((work.join("c.json"), None)));
    }

    /// In a container a link to `/x` leads to the container's `/x`.
    #[test]
    fn links_of_a_configuration_stay_below_the_root_of_its_process() {
        let proc = tempfile::tempdir().unwrap();
        let folder = process(proc.path(), 5, &["kubelet", "--config=/var/lib/link"]);
        symlink("/var/lib/c", folder.join("root/var/lib/link")).unwrap();
        fs::write(folder.join("root/var/lib/c"), "volumePluginDir: /p\n").unwrap();
        assert_eq!(only(proc.path()).plugin_dir, Path::new("/p"));
    }

    /// Kubernetes 1.28 and later: files beside the configuration, of which the last one counts.
    #[test]
    fn a_folder_of_more_configuration_counts_too() {
        let proc = tempfile::tempdir().unwrap();
        let words = ["kubelet", "--config=/var/lib/c", "--config-dir=/var/lib/more"];
        let folder = process(proc.path(), 5, &words).join("root/var/lib");
        fs::write(folder.join("c"), "volumePluginDir: /p\nenableControllerAttachDetach: false\n")
            .unwrap();
        assert!(only(proc.path()).doubt().is_some(), "the folder cannot be read");
        fs::create_dir(folder.join("more")).unwrap();
        assert_eq!(only(proc.path()).plugin_dir, Path::new("/p"));
        for (name, text) in [
            ("20-b.conf", "volumePluginDir: /b\n"),
            ("10-a.conf", "volumePluginDir: /a\n"),
            ("30.yaml", "volumePluginDir: /no\n"),
        ] {
            fs::write(folder.join("more").join(name), text).unwrap();
        }
        let found = only(proc.path());
        assert_eq!((found.plugin_dir.as_path(), found.doubt()), (Path::new("/b"), None));
        assert_eq!(found.attacher, Attacher::Kubelet);
        fs::write(folder.join("more/15.conf"), ": [").unwrap();
        let found = only(proc.path());
        assert_eq!(found.doubt().unwrap().0, Path::new("/var/lib/more/15.conf"));
    }

    #[test]
    fn of_several_the_one_that_lives_here_is_ours() {
        let proc = tempfile::tempdir().unwrap();
        let namespace = |name: &str, number: &str| {
            let folder = proc.path().join(name).join("ns");
            fs::create_dir_all(&folder).unwrap();
            symlink(format!("mnt:[{number}]"), folder.join("mnt")).unwrap();
        };
        for (pid, number) in [(3, "2"), (4, "1")] {
            process(proc.path(), pid, &["kubelet"]);
            namespace(&pid.to_string(), number);
        }
        let all = running(proc.path());
        assert_eq!(ours(&all, None).unwrap().pid, 3, "whose mounts are ours cannot be seen");
        namespace("self", "1");
        let all = running(proc.path());
        assert_eq!(ours(&all, None).unwrap().pid, 4);
        assert!(all[0].to_string().ends_with("in another mount namespace"), "{}", all[0]);
        assert_eq!(ours(&[], None), None);
    }

    /// Two clusters on one machine: each driver's configuration names its kubelet.
    #[test]
    fn the_configured_root_decides_which_kubelet_is_ours() {
        let proc = tempfile::tempdir().unwrap();
        let seen = |root: Option<&str>| {
            let root = root.map(Path::new);
            let ours = ours(&running(proc.path()), root).map(|one| one.pid);
            let configured = ConfiguredKubelet { proc: proc.path().into(), root };
            (ours, configured.running_kubelet().map(|one| (one.attacher, one.age)))
        };
        assert_eq!(seen(None), (None, None));
        let by_flag = "--enable-controller-attach-detach=false";
        process(proc.path(), 3, &["kubelet", "--root-dir=/one"]);
        let other = process(proc.path(), 4, &["kubelet", "--root-dir=/other", by_flag]);
        fs::write(other.join("stat"), "4 (kubelet) S".to_owned() + &" 0".repeat(18) + " 100 0")
            .unwrap();
        let (ours, of_other) = seen(Some("/other"));
        let (attacher, age) = of_other.unwrap();
        assert_eq!((ours, attacher), (Some(4), Attacher::Kubelet));
        let age = age.unwrap();
        let since_boot = age + Duration::from_secs(3);
        assert!(clock::since_boot() < since_boot, "it began after 1 s: {age:?}");
        let controller = Some((Attacher::Controller, None));
        assert_eq!(seen(Some("/one")), (Some(3), controller));
        assert_eq!(seen(Some("/third")), (Some(3), None), "for people it is better than none");
        let (_, both) = seen(None);
        let Some((Attacher::Unknown(why), None)) = both else { panic!("{both:?}") };
        assert!(why.contains("process 3 and 4") && why.contains("paths.kubelet_root"), "{why}");
    }

    #[test]
    fn who_attaches_is_unknown_where_the_configuration_cannot_be_read() {
        let proc = tempfile::tempdir().unwrap();
        let folder = process(proc.path(), 9, &["kubelet", "--config=/var/lib/c.yaml"]);
        assert!(matches!(only(proc.path()).attacher, Attacher::Unknown(_)));
        let file = folder.join("root/var/lib/c.yaml");
        for (text, attacher) in [
            ("kind: KubeletConfiguration\n", Attacher::Controller),
            ("enableControllerAttachDetach: false\n", Attacher::Kubelet),
            ("enableControllerAttachDetach: true\n", Attacher::Controller),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(only(proc.path()).attacher, attacher, "{text}");
        }
        // A flag comes before the file, read or not.
        fs::write(&file, "volumePluginDir: [").unwrap();
        for (value, attacher) in
            [("true", Attacher::Controller), ("false", Attacher::Kubelet), ("0", Attacher::Kubelet)]
        {
            let flag = format!("--enable-controller-attach-detach={value}");
            process(proc.path(), 9, &["kubelet", "--config=/var/lib/c.yaml", &flag]);
            assert_eq!(only(proc.path()).attacher, attacher, "{value}");
        }
    }

    #[test]
    fn versions_are_read() {
        for (said, version) in [
            ("Kubernetes v1.36.2", Some((1, 36))),
            ("Kubernetes v1.20.2-eks-1", Some((1, 20))),
            ("Kubernetes v1.9", Some((1, 9))),
            ("Kubernetes v1", None),
            ("it said nothing", None),
        ] {
            assert_eq!(version_in(said), version, "{said}");
        }
    }

    /// It has no command line any more, and its mounts are asked for by its number.
    #[test]
    fn one_that_has_ended_was_told_nothing() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("3")).unwrap();
        fs::write(proc.path().join("3/comm"), "kubelet\n").unwrap();
        fs::write(proc.path().join("3/status"), ROOTS).unwrap();
        fs::write(proc.path().join("3/cmdline"), "").unwrap();
        assert_eq!((running(proc.path()), processes(proc.path())), (Vec::new(), vec![3]));
    }
}
