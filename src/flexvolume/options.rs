//! The options JSON: a flat map of strings, with kubelet's keys and the `PersistentVolume`'s own.

use crate::model::cloud::attachment_state::Sharing;
use crate::model::error::{Error, Result};
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::mount::mount_options::{MkfsOptions, MountOptions};
use crate::model::policy::ShieldMode;
use crate::model::secret::Secret;
use std::collections::BTreeMap;

/// Whether the consumer may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// It may.
    ReadWrite,
    /// It must not.
    ReadOnly,
}

/// What we take from the options.
///
/// Secrets (`kubernetes.io/secret/…`) are dropped while reading: this driver's credentials never
/// come through a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The volume: `volumeID`, else the volume name when that is a UUID.
    pub volume: VolumeId,
    /// The orchestrator's name of it, the only thing that `detach` will be told.
    pub name: Option<VolumeName>,
    /// The file system asked for; empty means what is there.
    pub fs_type: String,
    /// Whether the consumer may write.
    pub access: AccessMode,
    /// Whether several nodes may have the volume.
    pub sharing: Sharing,
    /// What the volume's disk is mounted with.
    pub mount_options: MountOptions,
    /// What a new file system is made with.
    pub mkfs_options: MkfsOptions,
    /// Whether it is mounted through a map, if not as configured.
    pub shield: Option<ShieldMode>,
    /// The pod's namespace and name, where the call is told of it.
    pub pod: Option<String>,
    /// The cloud's region, if it is not the configured one.
    pub region: Option<String>,
}

const NAME: &str = "kubernetes.io/pvOrVolumeName";
const FS_TYPE: &str = "kubernetes.io/fsType";
const READ_WRITE: &str = "kubernetes.io/readwrite";
const POD_NAME: &str = "kubernetes.io/pod.name";
const POD_NAMESPACE: &str = "kubernetes.io/pod.namespace";
const VOLUME_ID: &str = "volumeID";
const SHARE: &str = "share";
const REGION: &str = "region";
const MOUNT_OPTIONS: &str = "mountOptions";
const MKFS_OPTIONS: &str = "mkfsOptions";
const SHIELD: &str = "shield";

impl Options {
    /// Reads the JSON of one argument.
    pub fn parse(text: &str) -> Result<Self> {
        // kubelet also passes secrets; each value is wiped.
        let map: BTreeMap<String, Secret> = serde_json::from_str(text).map_err(|error| {
            Error::bad_call(format!("the options are not a JSON map of strings: {}", place(&error)))
        })?;
        let get = |key: &str| map.get(key).map(Secret::reveal).filter(|value| !value.is_empty());

        let name = get(NAME).map(VolumeName::parse).transpose()?;
        let volume = match (get(VOLUME_ID), &name) {
            (Some(id), _) => VolumeId::parse(id)?,
            (None, Some(name)) => name.as_volume_id().ok_or_else(|| {
                Error::bad_call(format!("the options of volume {name} name no volume id"))
                    .hint("set flexVolume.options.volumeID in the PersistentVolume to the cloud's id of the volume")
            })?,
            (None, None) => return Err(Error::bad_call("the options name no volume")),
        };
        let access = match get(READ_WRITE) {
            None | Some("rw") => AccessMode::ReadWrite,
            Some("ro") => AccessMode::ReadOnly,
            Some(_) => return Err(Error::bad_call(format!("{READ_WRITE} is neither rw nor ro"))),
        };
        let sharing = match get(SHARE) {
            None => Sharing::Alone,
            Some("read-only") => Sharing::ReadOnly,
            Some(_) => return Err(Error::bad_call("the option share can only be read-only")),
        };
        let shield = match get(SHIELD) {
            None => None,
            Some("on") => Some(ShieldMode::On),
            Some("off") => Some(ShieldMode::Off),
            Some(_) => return Err(Error::bad_call("the option shield is neither on nor off")),
        };
        let region = get(REGION).map(str::to_owned);
        let fs_type = get(FS_TYPE).unwrap_or_default().to_owned();
        let mount_options = MountOptions::parse(get(MOUNT_OPTIONS).unwrap_or_default())?;
        let mkfs_options = MkfsOptions::parse(get(MKFS_OPTIONS).unwrap_or_default())?;
        // They stand in messages: whatever is no name in Kubernetes is left out.
        let is_name = |text: &&str| {
            text.len() <= 253 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
        };
        let pod = match (get(POD_NAMESPACE).filter(is_name), get(POD_NAME).filter(is_name)) {
            (Some(namespace), Some(name)) => Some(format!("{namespace}/{name}")),
            (None, name) => name.map(str::to_owned),
            (Some(_), None) => None,
        };
        Ok(Self {
            volume,
            name,
            fs_type,
            access,
            sharing,
            mount_options,
            mkfs_options,
            shield,
            pod,
            region,
        })
    }
}

/// Where the JSON is wrong and in which way, without a word of its contents: they may be secret.
fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "unreadable",
        serde_json::error::Category::Syntax => "broken syntax",
        serde_json::error::Category::Data => "a value is no string",
        serde_json::error::Category::Eof => "it ends too early",
    };
    format!("{what} at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_options_are_read() {
        let options = Options::parse(
            r#"{"kubernetes.io/fsType":"xfs","kubernetes.io/mounterArgs.FsGroup":"1000",
                "kubernetes.io/pod.name":"p","kubernetes.io/pvOrVolumeName":"pv-1",
                "kubernetes.io/readwrite":"ro","kubernetes.io/secret/key":"c2VjcmV0",
                "region":"r","shield":"on","volumeID":"v1"}"#,
        )
        .unwrap();
        assert_eq!(options.shield, Some(ShieldMode::On));
        assert_eq!(options.volume.as_str(), "v1");
        assert_eq!(options.name.as_ref().unwrap().as_str(), "pv-1");
        assert_eq!((options.fs_type.as_str(), options.access), ("xfs", AccessMode::ReadOnly));
        assert_eq!((options.region.as_deref(), options.sharing), (Some("r"), Sharing::Alone));
        assert!(!format!("{options:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn a_uuid_name_is_the_volume_when_no_id_is_given() {
        let uuid = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
        let text = format!(r#"{{"kubernetes.io/pvOrVolumeName":"{uuid}"}}"#);
        assert_eq!(Options::parse(&text).unwrap().volume.as_str(), uuid);
        let error = Options::parse(r#"{"kubernetes.io/pvOrVolumeName":"pv-1"}"#).unwrap_err();
        assert!(error.to_string().contains("volumeID"), "{error}");
    }

    #[test]
    fn broken_options_are_errors_that_quote_nothing() {
        for text in [
            "",
            "null",
            "[]",
            "7",
            "\"hunter2\"",
            "{",
            r#"{"volumeID":7}"#,
            r#"{"volumeID":null}"#,
            r#"{"volumeID":["hunter2"]}"#,
            r#"{"volumeID":"hunter2"#,
            r#"{"volumeID":"../hunter2"}"#,
            r#"{"volumeID":"v","kubernetes.io/readwrite":"maybe"}"#,
            r#"{"volumeID":"v","share":"hunter2"}"#,
            r#"{"volumeID":"v","shield":"hunter2"}"#,
            r#"{"volumeID":"v","kubernetes.io/secret/a":["hunter2"]}"#,
            r#"{"volumeID":"v","kubernetes.io/secret/a":1e999}"#,
            r#"{"volumeID":"v","kubernetes.io/secret/hunter2":"\ud800"}"#,
            r#"{"volumeID":"v","kubernetes.io/pvOrVolumeName":"a/b"}"#,
        ] {
            let error = Options::parse(text).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,200}") {
            let _ = Options::parse(&text);
        }
    }
}
