//! What the services write, as far as we read it. Fields that a newer version adds are ignored;
//! one that is missing is an error of that answer, not a guess.

use crate::model::timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct CinderVolume {
    pub(super) id: String,
    pub(super) status: String,
    /// In GiB.
    pub(super) size: u64,
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) multiattach: bool,
    /// Only finished attachments: empty while one is on its way.
    pub(super) attachments: Vec<VolumeAttachment>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) encrypted: bool,
    /// What it was made from.
    pub(super) snapshot_id: Option<String>,
    pub(super) source_volid: Option<String>,
    /// There only if it was made from an image, or a copy of such a one.
    #[serde(rename = "volume_image_metadata")]
    pub(super) image: Option<BTreeMap<String, serde_json::Value>>,
    /// `"true"`, as a text; an older service may write a boolean.
    #[serde(default)]
    pub(super) bootable: serde_json::Value,
}

impl CinderVolume {
    /// What the cloud made the volume from, in words; nothing if it began blank.
    pub(super) fn origin(&self) -> Option<String> {
        /// Cinder's own key: the backup that was restored into the volume.
        const BACKUP: &str = "src_backup_id";
        let named = |kind: &str, id: Option<&str>| {
            id.filter(|id| !id.is_empty()).map(|id| format!("{kind} {id}"))
        };
        let is_bootable = self.bootable == true || self.bootable == "true";
        let image = self.image.as_ref().filter(|image| !image.is_empty());
        named("snapshot", self.snapshot_id.as_deref())
            .or_else(|| named("volume", self.source_volid.as_deref()))
            .or_else(|| named("backup", self.metadata.get(BACKUP).map(String::as_str)))
            .or_else(|| {
                let id = image?.get("image_id").and_then(serde_json::Value::as_str);
                Some(named("image", id).unwrap_or_else(|| "an image".to_owned()))
            })
            .or_else(|| is_bootable.then(|| "something bootable".to_owned()))
    }
}

/// One finished attachment.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VolumeAttachment {
    /// Its own id; the field `id` is the volume's.
    pub(super) attachment_id: Option<String>,
    pub(super) volume_id: Option<String>,
    pub(super) server_id: String,
    pub(super) attached_at: Option<String>,
    /// The hypervisor's guess; right for the first disk alone.
    pub(super) device: Option<String>,
}

impl VolumeAttachment {
    /// Whether the server starts from the volume: the first disk, whatever the bus is called.
    pub(super) fn is_root(&self) -> bool {
        const FIRST: [&str; 4] = ["/dev/vda", "/dev/sda", "/dev/xvda", "/dev/hda"];
        self.device.as_deref().is_some_and(|device| FIRST.contains(&device))
    }
}

/// `GET /volumes/detail`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VolumesBody {
    pub(super) volumes: Vec<CinderVolume>,
    #[serde(default)]
    pub(super) volumes_links: Vec<NextPage>,
}

/// `GET /servers?name=`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServersBody {
    pub(super) servers: Vec<Server>,
    #[serde(default)]
    pub(super) servers_links: Vec<NextPage>,
}

/// A server; in a list it has no status.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Server {
    pub(super) id: String,
    /// Missing where its part of the cloud cannot be reached.
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) status: String,
}

/// Where a list goes on.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct NextPage {
    pub(super) rel: String,
    pub(super) href: String,
}

/// A mapping of a volume to a server. The field `id` went with microversion 2.89; this one stays.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServerAttachment {
    #[serde(rename = "volumeId")]
    pub(super) volume: String,
    #[serde(rename = "serverId")]
    pub(super) server: Option<String>,
}

/// An attachment that is finished, on its way, or only reserved.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StoredAttachment {
    pub(super) id: String,
    pub(super) volume_id: String,
    pub(super) status: String,
    /// The server; nothing for another's reservation.
    pub(super) instance: Option<String>,
}

/// Something that was done with a server.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Action {
    #[serde(rename = "request_id")]
    pub(super) request: String,
    start_time: Option<String>,
    updated_at: Option<String>,
    /// In a list, and below `compute 2.51`, there are none.
    pub(super) events: Option<Vec<Event>>,
}

/// What a host did for an action.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Event {
    /// Nothing while it goes on.
    pub(super) finish_time: Option<String>,
}

impl Action {
    /// When it was asked for, in seconds since 1970.
    pub(super) fn started(&self) -> Option<u64> {
        seconds(self.start_time.as_deref())
    }

    /// The last moment from which something is known of it.
    pub(super) fn last_sign(&self) -> Option<u64> {
        seconds(self.updated_at.as_deref()).max(self.started())
    }
}

impl Event {
    /// When it ended.
    pub(super) fn finished(&self) -> Option<u64> {
        seconds(self.finish_time.as_deref())
    }
}

fn seconds(text: Option<&str>) -> Option<u64> {
    timestamp::parse(text?).map(|millis| millis / 1000)
}

/// Reads a text as each of the bodies.
#[cfg(fuzzing)]
pub(super) fn garbage(text: &str) {
    fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
        serde_json::from_str(text).ok()
    }
    if let Some(volume) = read::<CinderVolume>(text) {
        let _ = volume.origin();
        let _ = volume.attachments.iter().any(VolumeAttachment::is_root);
    }
    if let Some(action) = read::<Action>(text) {
        let _ = (action.started(), action.last_sign());
    }
    let _ = (read::<VolumesBody>(text), read::<ServersBody>(text), read::<Server>(text));
    let _ = (read::<ServerAttachment>(text), read::<StoredAttachment>(text));
}
