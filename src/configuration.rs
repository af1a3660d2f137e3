//! The configuration file, read from its text: TOML, unknown keys are errors that name the line.

mod toml_text;

use crate::model::cloud::access::Written;
use crate::model::disk::transport::Transports;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId};
use crate::model::mount::after_heal::After;
use crate::model::policy::{GuardPolicy, HealMode, ShieldMode, ShieldPolicy, Takeover};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The whole configuration; every key has a default except `cloud.kind`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub cloud: CloudConfig,
    /// Where an `OpenStack` cloud is and who we are there.
    pub openstack: Written,
    /// How volumes are attached.
    pub attach: AttachConfig,
    /// Which disks may be volumes.
    pub disks: DisksConfig,
    /// The embedded local cloud.
    pub local: LocalConfig,
    pub node: NodeConfig,
    pub paths: Paths,
    pub log: LogConfig,
    /// Whether tear-downs of volumes in use are refused.
    pub guard: GuardPolicy,
    /// Whether mounts of a disk that came back are repaired.
    pub heal: HealConfig,
    /// Whether I/O waits for a disk that is away.
    pub shield: ShieldPolicy,
    /// What is shown to monitoring.
    pub metrics: MetricsConfig,
    /// Seconds per call.
    pub deadline: Deadlines,
}

/// `[cloud]`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CloudConfig {
    /// The one key without a default.
    pub kind: Option<CloudKind>,
}

/// The clouds we can speak to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CloudKind {
    /// The embedded one, on loop devices.
    Local,
    /// Keystone, Nova and Cinder.
    OpenStack,
}

impl CloudKind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "the local cloud",
            Self::OpenStack => "OpenStack",
        }
    }

    /// Whether what says where it is says also how to log in there.
    pub fn has_secrets(self) -> bool {
        match self {
            Self::Local => false,
            Self::OpenStack => true,
        }
    }
}

/// `[attach]`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttachConfig {
    /// From which servers a volume may be taken.
    pub takeover: Takeover,
}

/// `[disks]`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DisksConfig {
    /// How a disk may be connected whose serial makes it a volume's.
    pub transports: Transports,
}

/// `[local]`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalConfig {
    /// Where images and records are.
    pub dir: PathBuf,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self { dir: PathBuf::from("/var/lib/incloud-disk/local") }
    }
}

/// `[node]`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// This machine's Kubernetes node name; the host's name if not given.
    pub name: Option<NodeName>,
    /// This machine's id in the cloud; found by the machine itself if not given.
    pub server_id: Option<ServerId>,
    /// Other machines' ids in the cloud, by node name, where the server's name is not the node's.
    pub servers: BTreeMap<NodeName, ServerId>,
}

/// `[paths]`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Paths {
    /// Binds the folders of calls to this root when given.
    pub kubelet_root: Option<PathBuf>,
    /// What must survive a reboot.
    pub state_dir: PathBuf,
    /// What must not.
    pub run_dir: PathBuf,
    pub log_dir: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            kubelet_root: None,
            state_dir: PathBuf::from("/var/lib/incloud-disk"),
            run_dir: PathBuf::from("/run/incloud-disk"),
            log_dir: PathBuf::from("/var/log/incloud-volume"),
        }
    }
}

/// `[log]`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// The least important level that is written.
    pub level: LogLevel,
    /// How many daily files are kept.
    pub max_files: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: LogLevel::Info, max_files: 14 }
    }
}

/// `log.level`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// `[heal]`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealConfig {
    /// Whether mounts of a disk that came back are repaired.
    pub mode: HealMode,
    /// What is done for those who still hold the dead disk then.
    pub after: After,
}

/// `[metrics]`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// A file in the folder of `node_exporter`'s textfile collector.
    pub textfile: Option<PathBuf>,
}

/// `[deadline]`: seconds after which a call answers, whatever it waits for.
///
/// `waitforattach` stays well below the 10 minutes after which kubelet stops the process; the
/// other calls have no limit of kubelet's, so a hung one would block its volume for ever.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Deadlines {
    pub attach: u64,
    pub detach: u64,
    pub isattached: u64,
    pub waitforattach: u64,
    pub mountdevice: u64,
    pub unmountdevice: u64,
    pub mount: u64,
    pub unmount: u64,
    pub expandfs: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            attach: 180,
            detach: 180,
            isattached: 30,
            waitforattach: 300,
            mountdevice: 300,
            unmountdevice: 60,
            mount: 120,
            unmount: 60,
            expandfs: 300,
        }
    }
}

/// The longest deadline that can be asked for: a day.
const LONGEST_DEADLINE: u64 = 86_400;

/// The longest that I/O may be made to wait for a disk: an hour. What waits cannot be killed.
const LONGEST_PATIENCE: u64 = 3_600;

/// kubelet stops a `waitforattach` after ten minutes; a call that dies then loses its message.
const LONGEST_WAIT_FOR_ATTACH: u64 = 540;

impl Config {
    /// Reads the text of a configuration file; `origin` is named in errors, values never are.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let wrong = |what: String| {
            Error::new(Kind::Config, format!("{origin}: {what}"))
                .hint("examples/config.toml in the driver's source shows every key")
        };
        let config: Self = toml_text::read(text).map_err(wrong)?;
        config.check().map_err(wrong)?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let paths = [
            ("local.dir", Some(&self.local.dir)),
            ("paths.kubelet_root", self.paths.kubelet_root.as_ref()),
            ("paths.state_dir", Some(&self.paths.state_dir)),
            ("paths.run_dir", Some(&self.paths.run_dir)),
            ("paths.log_dir", Some(&self.paths.log_dir)),
            ("metrics.textfile", self.metrics.textfile.as_ref()),
        ];
        for (key, path) in paths {
            if path.is_some_and(|path| !path.is_absolute()) {
                return Err(format!("{key} must be an absolute path"));
            }
        }
        for (call, seconds) in self.deadline.all() {
            let longest = match call {
                "waitforattach" => LONGEST_WAIT_FOR_ATTACH,
                _ => LONGEST_DEADLINE,
            };
            if seconds == 0 || seconds > longest {
                return Err(format!("deadline.{call} must be from 1 to {longest} seconds"));
            }
        }
        let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "prom");
        if self.metrics.textfile.as_ref().is_some_and(|path| !is_page(path)) {
            return Err(
                "metrics.textfile must end in .prom: the collector takes no other".to_owned()
            );
        }
        if self.shield.patience == 0 || self.shield.patience > LONGEST_PATIENCE {
            return Err(format!("shield.patience must be from 1 to {LONGEST_PATIENCE} seconds"));
        }
        // The same look that heals ends the wait, and a wait that nothing ends is the worst outage.
        if self.shield.mode == ShieldMode::On && self.heal.mode != HealMode::Auto {
            return Err("shield.mode \"on\" needs heal.mode \"auto\"".to_owned());
        }
        self.openstack.check()?;
        self.disks.transports.check()?;
        if self.log.max_files == 0 {
            return Err("log.max_files must be at least 1".to_owned());
        }
        Ok(())
    }
}

impl Deadlines {
    fn all(&self) -> [(&'static str, u64); 9] {
        [
            ("attach", self.attach),
            ("detach", self.detach),
            ("isattached", self.isattached),
            ("waitforattach", self.waitforattach),
            ("mountdevice", self.mountdevice),
            ("unmountdevice", self.unmountdevice),
            ("mount", self.mount),
            ("unmount", self.unmount),
            ("expandfs", self.expandfs),
        ]
    }

    /// The deadline of the call of this name; a minute for anything else.
    pub fn of(&self, call: &str) -> Duration {
        let found = self.all().into_iter().find(|(name, _)| *name == call);
        Duration::from_secs(found.map_or(60, |(_, seconds)| seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::GuardMode;

    #[test]
    fn an_empty_file_is_all_defaults() {
        let config = Config::parse("", "x").unwrap();
        assert_eq!(config.cloud.kind, None);
        assert_eq!(config.guard.mode, GuardMode::Enforce);
        assert_eq!(config.log.max_files, 14);
        assert_eq!(config.deadline.of("waitforattach"), Duration::from_secs(300));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error =
            Config::parse("[cloud]\nkind = \"local\"\n\n[paths]\nrum_dir = \"/x\"\n", "f.toml")
                .unwrap_err();
        assert_eq!(error.kind, Kind::Config);
        assert!(error.cause.starts_with("f.toml: line 5: "), "{error}");
        assert!(error.cause.contains("rum_dir"), "{error}");
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, word) in [
            ("[cloud]\nkind = \"aws\"", "line 2"),
            ("[paths]\nrun_dir = \"run\"", "paths.run_dir"),
            ("[deadline]\nwaitforattach = 600", "deadline.waitforattach"),
            ("[deadline]\nmount = 0", "deadline.mount"),
            ("[node]\nname = \"a/b\"", "line 2"),
            ("[log]\nmax_files = 0", "log.max_files"),
            ("[shield]\npatience = 0", "shield.patience"),
            ("[shield]\npatience = 3601", "shield.patience"),
            ("[shield]\nmode = \"auto\"", "line 2"),
            ("[shield]\nmode = \"on\"\n[heal]\nmode = \"report\"", "needs heal.mode"),
            ("[metrics]\ntextfile = \"/x/disk.txt\"", "metrics.textfile"),
            ("[metrics]\ntextfile = \"disk.prom\"", "metrics.textfile"),
            ("[disks]\ntransports = [\"virtio-blk\", \"iscsi\"]", "disks.transports: iscsi"),
            ("[disks]\ntransports = []", "disks.transports"),
            ("[disks]\ntransports = [\"\"]", "disks.transports"),
            ("kind = ", "line 1"),
        ] {
            let error = Config::parse(text, "f").unwrap_err();
            assert!(error.cause.contains(word), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,200}") {
            let _ = Config::parse(&text, "f");
        }
    }
}
