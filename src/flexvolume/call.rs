//! `argv` -> [`Call`]: every argument is proven before anything is done.

use super::folders::{self, Folder};
use super::options::Options;
use crate::model::error::{Error, Result};
use crate::model::ids::{ConsumerId, NodeName, VolumeId, VolumeName};
use std::ffi::OsString;
use std::path::PathBuf;

/// One call of kubelet or the controller-manager, fully typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Are you there, and what can you do.
    Init,
    /// A word that this driver never implements, or does not know.
    NotSupported,
    /// Attach the volume to a node.
    Attach { options: Options, node: NodeName },
    /// Detach the volume of this name, or of this id, as a person writes it where the name is in
    /// doubt, perhaps with the name that is in doubt; without a node from this machine.
    Detach {
        name: VolumeName,
        id: Option<VolumeId>,
        node: Option<NodeName>,
        settles: Option<VolumeName>,
    },
    /// Is the volume attached to a node.
    IsAttached { options: Options, node: NodeName },
    /// Wait for the disk on this machine. The device is what kubelet remembers: a hint.
    WaitForAttach { device: String, options: Options },
    /// Format if blank, mount at the global folder.
    MountDevice { folder: Folder, device: String, options: Options },
    /// Unmount the global folder.
    UnmountDevice { folder: Folder },
    /// Bind into the pod's folder.
    Mount { folder: Folder, pod: ConsumerId, options: Options },
    /// Unmount the pod's folder.
    Unmount { folder: Folder, pod: ConsumerId },
    /// Grow cloud volume and file system.
    ExpandFs { options: Options, device: String, folder: Folder, bytes: u64 },
}

/// What a call names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About<'a> {
    pub volume: Option<&'a str>,
    pub name: Option<&'a str>,
    pub pod: Option<&'a str>,
    pub pod_name: Option<&'a str>,
    pub node: Option<&'a str>,
    pub folder: Option<PathBuf>,
    pub device: Option<&'a str>,
}

/// The call words of `FlexVolume`, in the order of a volume's life.
pub const WORDS: [&str; 12] = [
    "init",
    "getvolumename",
    "attach",
    "waitforattach",
    "mountdevice",
    "mount",
    "isattached",
    "unmount",
    "unmountdevice",
    "detach",
    "expandvolume",
    "expandfs",
];

/// What a person writes before a volume's id: no name has a colon.
const BY_ID: &str = "id:";

/// The node argument that people used to type with the predecessor: this machine.
const THIS_MACHINE: &str = "1";

impl Call {
    /// Whether the answer is a constant: no configuration, no log, no thread.
    ///
    /// `init` runs under a lock of kubelet's plugin manager, without a time limit, again and again
    /// while any driver on the machine is broken. `getvolumename`: its answer is not used since
    /// Kubernetes 1.6, and "Not supported" ends the calls. Kubernetes never calls `expandvolume`.
    pub fn is_constant(word: &str) -> bool {
        matches!(word, "init" | "getvolumename" | "expandvolume") || !WORDS.contains(&word)
    }

    /// Reads the call word and its arguments.
    pub fn parse(word: &str, arguments: &[OsString]) -> Result<Self> {
        let mut arguments = Arguments { word, rest: arguments.iter() };
        let call = match word {
            "init" => return Ok(Call::Init),
            "attach" => {
                let (options, node) = arguments.options_and_node()?;
                Call::Attach { options, node }
            }
            "isattached" => {
                let (options, node) = arguments.options_and_node()?;
                Call::IsAttached { options, node }
            }
            "detach" => {
                let text = arguments.next("volume name")?;
                let id = text.strip_prefix(BY_ID).map(VolumeId::parse).transpose()?;
                let name = match &id {
                    Some(id) => id.as_name(),
                    None => VolumeName::parse(text)?,
                };
                let node = match arguments.optional()? {
                    None | Some("" | THIS_MACHINE) => None,
                    Some(text) => Some(NodeName::parse(text)?),
                };
                let settles = match &id {
                    Some(_) => arguments.optional()?.map(VolumeName::parse).transpose()?,
                    None => None,
                };
                Call::Detach { name, id, node, settles }
            }
            "waitforattach" => Call::WaitForAttach {
                device: arguments.next("device")?.to_owned(),
                options: arguments.options()?,
            },
            "mountdevice" => Call::MountDevice {
                folder: folders::global(arguments.next("folder")?)?,
                device: arguments.next("device")?.to_owned(),
                options: arguments.options()?,
            },
            "unmountdevice" => {
                Call::UnmountDevice { folder: folders::global(arguments.next("folder")?)? }
            }
            "mount" => {
                let (folder, pod) = folders::pod(arguments.next("folder")?)?;
                Call::Mount { folder, pod, options: arguments.options()? }
            }
            "unmount" => {
                let (folder, pod) = folders::pod(arguments.next("folder")?)?;
                Call::Unmount { folder, pod }
            }
            "expandfs" => {
                let options = arguments.options()?;
                let device = arguments.next("device")?.to_owned();
                let folder = folders::either(arguments.next("folder")?)?;
                let bytes = arguments.bytes("new size")?;
                let _old = arguments.bytes("old size")?;
                Call::ExpandFs { options, device, folder, bytes }
            }
            _ => return Ok(Call::NotSupported),
        };
        arguments.end()?;
        call.names_agree()?;
        Ok(call)
    }

    /// The folder that the call works on, if any.
    pub fn folder(&self) -> Option<&Folder> {
        match self {
            Call::MountDevice { folder, .. }
            | Call::UnmountDevice { folder }
            | Call::Mount { folder, .. }
            | Call::Unmount { folder, .. }
            | Call::ExpandFs { folder, .. } => Some(folder),
            Call::Init
            | Call::NotSupported
            | Call::Attach { .. }
            | Call::Detach { .. }
            | Call::IsAttached { .. }
            | Call::WaitForAttach { .. } => None,
        }
    }

    /// The volume whose id came with the call, if one did.
    pub fn volume(&self) -> Option<&VolumeId> {
        self.options().map(|options| &options.volume)
    }

    /// The options that came with the call, if any.
    pub fn options(&self) -> Option<&Options> {
        match self {
            Call::Attach { options, .. }
            | Call::IsAttached { options, .. }
            | Call::WaitForAttach { options, .. }
            | Call::MountDevice { options, .. }
            | Call::Mount { options, .. }
            | Call::ExpandFs { options, .. } => Some(options),
            Call::Init
            | Call::NotSupported
            | Call::Detach { .. }
            | Call::UnmountDevice { .. }
            | Call::Unmount { .. } => None,
        }
    }

    /// The cloud's region that the volume's options name.
    pub fn region(&self) -> Option<&str> {
        self.options()?.region.as_deref()
    }

    /// What the call is about, for messages and the log.
    pub fn object(&self) -> String {
        if let Call::Detach { name, .. } = self {
            return format!("volume {name}");
        }
        if let Some(options) = self.options() {
            return format!("volume {}", options.volume);
        }
        self.folder().map_or_else(String::new, |folder| format!("volume {}", folder.name))
    }

    /// What the call names, for the log: its reader finds the volume by each of them.
    pub fn about(&self) -> About<'_> {
        let options = self.options();
        let name = match self {
            Call::Detach { name, .. } => Some(name),
            _ => options
                .and_then(|options| options.name.as_ref())
                .or_else(|| self.folder().map(|folder| &folder.name)),
        };
        let (pod, node) = match self {
            Call::Mount { pod, .. } | Call::Unmount { pod, .. } => (Some(pod), None),
            Call::Attach { node, .. } | Call::IsAttached { node, .. } => (None, Some(node)),
            Call::Detach { node, .. } => (None, node.as_ref()),
            _ => (None, None),
        };
        let device = match self {
            Call::WaitForAttach { device, .. }
            | Call::MountDevice { device, .. }
            | Call::ExpandFs { device, .. } => Some(device.as_str()),
            _ => None,
        };
        // Whatever stands in its place may hold secrets.
        let device = device.filter(|device| device.starts_with('/'));
        About {
            folder: self.folder().map(|folder| folder.target.path()),
            device,
            volume: options.map(|options| options.volume.as_str()),
            name: name.map(VolumeName::as_str),
            pod: pod.map(ConsumerId::as_str),
            pod_name: options.and_then(|options| options.pod.as_deref()),
            node: node.map(NodeName::as_str),
        }
    }

    /// Binds the folder to the configured root: a folder elsewhere is none of ours.
    pub fn within(&self, kubelet_root: Option<&PathBuf>) -> Result<()> {
        match (self.folder(), kubelet_root) {
            (Some(folder), Some(root)) if folder.target.root != *root => {
                Err(Error::bad_call(format!(
                    "the folder {} is not below {}",
                    folder.target.path().display(),
                    root.display()
                ))
                .hint("paths.kubelet_root binds folders to that root"))
            }
            _ => Ok(()),
        }
    }

    /// kubelet names the volume twice where it gives a folder and options: they must agree.
    fn names_agree(&self) -> Result<()> {
        match (self.folder(), self.options()) {
            (Some(folder), Some(options)) if options.name.as_ref() != Some(&folder.name) => {
                let named = options.name.as_ref().map_or("no volume", VolumeName::as_str);
                Err(Error::bad_call(format!(
                    "the folder belongs to volume {}, the options name {named}",
                    folder.name
                )))
            }
            _ => Ok(()),
        }
    }
}

struct Arguments<'a> {
    word: &'a str,
    rest: std::slice::Iter<'a, OsString>,
}

impl<'a> Arguments<'a> {
    fn optional(&mut self) -> Result<Option<&'a str>> {
        let Some(argument) = self.rest.next() else { return Ok(None) };
        match argument.to_str() {
            Some(text) => Ok(Some(text)),
            None => Err(Error::bad_call("an argument is not UTF-8")),
        }
    }

    fn next(&mut self, what: &str) -> Result<&'a str> {
        self.optional()?.ok_or_else(|| {
            Error::bad_call(format!("{} was called without its argument: {what}", self.word))
        })
    }

    fn options(&mut self) -> Result<Options> {
        Options::parse(self.next("options")?)
    }

    /// Older and newer kubelets give options and node name in either order.
    fn options_and_node(&mut self) -> Result<(Options, NodeName)> {
        let (first, second) = (self.next("options")?, self.next("node name")?);
        let (options, node) =
            if second.trim_start().starts_with('{') { (second, first) } else { (first, second) };
        Ok((Options::parse(options)?, NodeName::parse(node)?))
    }

    fn bytes(&mut self, what: &str) -> Result<u64> {
        let text = self.next(what)?;
        text.parse().map_err(|_| Error::bad_call(format!("the {what} is no number of bytes")))
    }

    fn end(&mut self) -> Result<()> {
        match self.rest.next() {
            None => Ok(()),
            Some(_) => {
                Err(Error::bad_call(format!("{} was called with too many arguments", self.word)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"kubernetes.io/fsType":"","kubernetes.io/pvOrVolumeName":"pv-1","kubernetes.io/readwrite":"rw","volumeID":"v1"}"#;

    fn parse(words: &[&str]) -> Result<Call> {
        let arguments: Vec<OsString> = words[1..].iter().map(Into::into).collect();
        Call::parse(words[0], &arguments)
    }

    #[test]
    fn both_orders_of_options_and_node_are_read() {
        let one = parse(&["isattached", JSON, "node-a"]).unwrap();
        assert_eq!(one, parse(&["isattached", "node-a", JSON]).unwrap());
        assert!(matches!(one, Call::IsAttached { node, .. } if node.as_str() == "node-a"));
    }

    #[test]
    fn the_predecessors_node_one_is_this_machine() {
        for words in [&["detach", "pv-1", "1"][..], &["detach", "pv-1"], &["detach", "pv-1", ""]] {
            assert!(matches!(parse(words).unwrap(), Call::Detach { node: None, .. }));
        }
        assert!(matches!(
            parse(&["detach", "pv-1", "n1"]).unwrap(),
            Call::Detach { node: Some(_), .. }
        ));
    }

    #[test]
    fn missing_and_surplus_arguments_are_errors() {
        for words in [
            &["attach"][..],
            &["attach", JSON],
            &["attach", JSON, "n", "x"],
            &["waitforattach", "/dev/vdb"],
            &["mountdevice", "/x"],
            &["detach"],
            &["unmount"],
            &["expandfs", JSON, "", "/k/pods/u/volumes/incloud~disk/pv-1", "-1", "0"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn an_empty_device_is_normal() {
        let folder = "/k/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv-1";
        assert!(parse(&["waitforattach", "", JSON]).is_ok());
        assert!(parse(&["mountdevice", folder, "", JSON]).is_ok());
    }

    #[test]
    fn a_folder_of_another_volume_is_refused() {
        let folder = "/k/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv-2";
        let error = parse(&["mountdevice", folder, "", JSON]).unwrap_err();
        assert!(error.cause.contains("pv-2") && error.cause.contains("pv-1"), "{error}");
    }

    #[test]
    fn a_bound_root_refuses_other_roots() {
        let folder = "/k/pods/u/volumes/incloud~disk/pv-1";
        let call = parse(&["unmount", folder]).unwrap();
        assert!(call.within(None).is_ok());
        assert!(call.within(Some(&PathBuf::from("/k"))).is_ok());
        assert!(call.within(Some(&PathBuf::from("/var/lib/kubelet"))).is_err());
    }

    #[test]
    fn only_three_words_and_strangers_are_constant() {
        let constant: Vec<_> = WORDS.into_iter().filter(|word| Call::is_constant(word)).collect();
        assert_eq!(constant, ["init", "getvolumename", "expandvolume"]);
        assert!(Call::is_constant("frobnicate"));
        assert_eq!(parse(&["frobnicate", "x"]).unwrap(), Call::NotSupported);
    }
}
