//! What the services write, as far as we read it. Fields that a newer version adds are ignored;
//! one that is missing is an error of that answer, not a guess.

use serde::Deserialize;
use std::collections::BTreeMap;

/// `GET /volumes/{id}` (Cinder 3.0).
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VolumeBody {
    pub(super) volume: Volume,
}

/// A volume.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Volume {
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
}

/// One finished attachment.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VolumeAttachment {
    /// Its own id; the field `id` is the volume's.
    pub(super) attachment_id: Option<String>,
    pub(super) server_id: String,
    pub(super) attached_at: Option<String>,
}

/// `GET /volumes/detail`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VolumesBody {
    pub(super) volumes: Vec<Volume>,
    #[serde(default)]
    pub(super) volumes_links: Vec<Link>,
}

/// `GET /servers?name=`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServersBody {
    pub(super) servers: Vec<Server>,
    #[serde(default)]
    pub(super) servers_links: Vec<Link>,
}

/// `GET /servers/{id}`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServerBody {
    pub(super) server: Server,
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
pub(super) struct Link {
    pub(super) rel: String,
    pub(super) href: String,
}

/// `GET /servers/{id}/os-volume_attachments`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AttachmentsBody {
    #[serde(rename = "volumeAttachments")]
    pub(super) attachments: Vec<ServerAttachment>,
}

/// A mapping of a volume to a server. The field `id` went with microversion 2.89; this one stays.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServerAttachment {
    #[serde(rename = "volumeId")]
    pub(super) volume: String,
}

/// `GET /attachments` (Cinder 3.27)
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ClaimsBody {
    pub(super) attachments: Vec<Claim>,
}

/// An attachment that is finished, on its way, or only reserved.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Claim {
    pub(super) id: String,
    pub(super) volume_id: String,
    pub(super) status: String,
    /// The server; nothing for somebody else's reservation.
    pub(super) instance: Option<String>,
}
