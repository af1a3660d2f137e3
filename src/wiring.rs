//! The only place where ports meet their adapters.

use crate::cloud::local::LocalCloud;
use crate::cloud::openstack::{self, OpenStack, OwnNode};
use crate::cloud::unconfigured::Unconfigured;
use crate::configuration::{CloudKind, Config};
use crate::driver::call_counts::CallCounts;
use crate::driver::report::holders;
use crate::driver::{Context, Host, Policy, Store};
use crate::failpoints;
use crate::host::census::{Budget, KernelCensus};
use crate::host::device_mapper::KernelMaps;
use crate::host::devices::SysfsDevices;
use crate::host::filesystems::KernelFileSystems;
use crate::host::locks::LockFiles;
use crate::host::machine::{self, ThisMachine};
use crate::host::metrics::seen_before;
use crate::host::mounts::KernelMounts;
use crate::host::pace::PaceFile;
use crate::host::processes::KernelProcesses;
use crate::host::records::RecordFiles;
use crate::host::remount::KernelRemounts;
use crate::host::shared_answers::AnswerFiles;
use crate::host::worker;
use crate::model::error::{Error, Kind, Result};
use crate::model::face::{Face, Faces};
use crate::model::ids::NodeName;
use crate::model::report::metrics::Sample;
use crate::node::kubelet::ConfiguredKubelet;
use crate::ports::clock::Deadline;
use crate::ports::cloud::Cloud;
use crate::ports::host::Devices;
#[cfg(feature = "udev")]
use crate::ports::host::Udev;
use crate::shield::MapShield;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

/// The machine's configuration.
pub const ETC: &str = "/etc/incloud-disk/config.toml";
/// The one beside the executable.
pub const BESIDE: &str = ".config.toml";

/// The variable that names another one.
pub const VARIABLE: &str = "INCLOUD_DISK_CONFIG";

/// How long a command that only looks may take at other processes; other calls have more.
const LOOK: Duration = Duration::from_secs(10);

/// What a context is made for.
#[derive(Debug)]
pub struct Setting<'a> {
    pub config: &'a Config,
    /// The file that it came from.
    pub origin: Option<&'a Path>,
    /// Why it could not be read, where the defaults stand in for it.
    pub trouble: Option<&'a Error>,
    /// The faces of the driver.
    pub faces: Faces,
    /// The one that calls.
    pub face: &'static Face,
    /// The operation's name.
    pub operation: &'a str,
    /// The cloud's region, if the operation names one.
    pub region: Option<&'a str>,
    /// When to answer at the latest.
    pub deadline: Deadline,
    /// How long a volume's lock is waited for, if not so long.
    pub lock_patience: Option<Duration>,
}

/// Makes the context of a call, with the adapters of this machine.
pub fn with_context<T>(
    setting: &Setting<'_>,
    work: impl FnOnce(&Context<'_>) -> Result<T>,
) -> Result<T> {
    with_context_that_counts(setting, &CallCounts::default(), work)
}

/// Also returns what was counted on the way, and what is so afterwards; the sample's operation, outcome and time are
/// the caller's.
pub fn with_measured_context<T>(
    setting: &Setting<'_>,
    work: impl FnOnce(&Context<'_>) -> Result<T>,
) -> (Result<T>, Sample) {
    let Config { metrics, paths, .. } = setting.config;
    let (counts, mut gauges) = (CallCounts::default(), None);
    let done = with_context_that_counts(setting, &counts, |cx| {
        let done = work(cx);
        if metrics.textfile.is_some() {
            let before = seen_before(&paths.state_dir);
            gauges = holders::gauges(cx, &before);
            if let Some(gauges) = &mut gauges {
                gauges.healths = counts.healths().unwrap_or(before.healths);
            }
        }
        done
    });
    let (refusals, heals, waits) = (counts.refusals(), counts.heals(), counts.waits());
    (done, Sample { refusals, heals, waits, gauges, ..Sample::default() })
}

/// This node's devices, with libudev if this build has it.
pub fn devices() -> SysfsDevices {
    #[cfg(feature = "udev")]
    let udev: Option<&dyn Udev> = Some(&incloud_disk_udev::Libudev);
    #[cfg(not(feature = "udev"))]
    let udev = None;
    SysfsDevices::default().asking(udev)
}

fn with_context_that_counts<T>(
    setting: &Setting<'_>,
    counts: &CallCounts,
    work: impl FnOnce(&Context<'_>) -> Result<T>,
) -> Result<T> {
    let config = setting.config;
    let (this_node, is_certain) = node_named(config)?;
    let devices = devices().allowing(&config.disks.transports);
    let cloud = cloud(setting, (&this_node, is_certain), &devices)?;
    let run_dir = &config.paths.run_dir;
    let context = Context {
        cloud: cloud.as_ref(),
        host: Host {
            devices: &devices,
            shield: &MapShield { maps: &KernelMaps::default() },
            file_systems: &KernelFileSystems::below(run_dir),
            mounts: &KernelMounts { faces: setting.faces },
            remounts: &KernelRemounts::default(),
            census: &KernelCensus::default()
                .with_faces(setting.faces)
                .within(Budget::within(setting.deadline.remaining().max(LOOK)), run_dir),
            processes: &KernelProcesses,
            kubelets: &configured_kubelet(config),
            environment: &ThisMachine,
        },
        store: Store {
            records: &RecordFiles::below(&config.paths.state_dir, run_dir),
            locks: &LockFiles::below(run_dir).with_patience(setting.lock_patience),
            answers: &AnswerFiles::below(run_dir, scope_of(setting)),
            pace: &PaceFile::below(run_dir),
            scratch: &run_dir.join("scratch"),
        },
        policy: Policy {
            guard: &config.guard,
            heal: config.heal.mode,
            shield: &config.shield,
            after: &config.heal.after,
            takeover: config.attach.takeover,
        },
        this_node: &this_node,
        faces: setting.faces,
        face: setting.face,
        operation: setting.operation,
        deadline: setting.deadline,
        counts,
    };
    work(&context)
}

/// A mark of everything that tells which server a node is.
fn scope_of(setting: &Setting<'_>) -> String {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", (&setting.config.node, &setting.config.openstack, setting.region))
        .hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The name that Kubernetes has for this machine: as configured, else as its kubelet says, else the host's.
pub fn this_node(config: &Config) -> Result<NodeName> {
    node_named(config).map(|(name, _)| name)
}

/// This machine's node name, and whether the configuration or kubelet says so.
fn node_named(config: &Config) -> Result<(NodeName, bool)> {
    if let Some(name) = &config.node.name {
        return Ok((name.clone(), true));
    }
    match configured_kubelet(config).node_name(u32::try_from(worker::caller().as_raw()).ok()) {
        Some((name, _)) => Ok((name, true)),
        None => machine::node_name().map(|name| (name, false)),
    }
}

fn configured_kubelet(config: &Config) -> ConfiguredKubelet<'_> {
    ConfiguredKubelet {
        proc: failpoints::folder("INCLOUD_DISK_PROC", "/proc"),
        root: config.paths.kubelet_root.as_deref(),
    }
}

fn cloud<'a>(
    setting: &Setting<'_>,
    (this_node, is_certain): (&NodeName, bool),
    devices: &'a dyn Devices,
) -> Result<Box<dyn Cloud + 'a>> {
    let Setting { config, origin, trouble, region, .. } = *setting;
    if let Some(trouble) = trouble {
        return Ok(Box::new(Unconfigured { reason: trouble.clone(), is_kind_known: false }));
    }
    let reason = match (config.cloud.kind, origin) {
        (Some(CloudKind::Local), _) if region.is_some() => {
            return Err(Error::bad_call("the option region is set, but the local cloud has none"));
        }
        (Some(CloudKind::Local), _) => {
            return Ok(Box::new(LocalCloud::new(&config.local.dir, this_node, devices)?));
        }
        (Some(CloudKind::OpenStack), _) => {
            let origin = origin.map_or_else(|| "the configuration".to_owned(), |o| o.display().to_string());
            let get = |name: &str| std::env::var(name).ok();
            match openstack::access(&config.openstack, &origin, get) {
                Ok(access) => {
                    let node = OwnNode {
                        name: this_node.clone(),
                        is_name_certain: is_certain,
                        server: config.node.server_id.clone(),
                        others: config.node.servers.clone(),
                    };
                    let cloud = OpenStack::new(access, &config.paths.run_dir, node, region);
                    return Ok(Box::new(cloud));
                }
                Err(reason) => reason,
            }
        }
        (None, Some(origin)) => {
            Error::new(Kind::Config, format!("{} names no cloud", origin.display()))
                .hint("write [cloud] kind = \"local\" or \"openstack\" into it")
        }
        (None, None) => Error::new(Kind::Config, "there is no configuration").hint(format!(
            "write [cloud] kind = \"local\" or \"openstack\" into {ETC}, or into {BESIDE} beside the driver"
        )),
    };
    Ok(Box::new(Unconfigured { reason, is_kind_known: config.cloud.kind.is_some() }))
}
