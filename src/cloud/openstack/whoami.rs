//! Which server this machine is: ids that the machine itself shows. Each is only a candidate: the
//! cloud must know the server, and the source must be one that tenants cannot write (`is_believed`).

use super::client;
use super::tokens::Tokens;
use crate::failpoints;
use crate::host::files::{self, LockedFile};
use crate::host::{devices, machine};
use crate::model::cloud::access::Access;
use crate::model::cloud::iso9660;
use crate::model::ids::{NodeName, ServerId, is_uuid};
use crate::model::report::redaction::Redaction;
use crate::ports::clock::Deadline;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// What the hypervisor shows as the machine's id; Nova sets it to the server's. Root only.
const DMI: &str = "/sys/class/dmi/id/product_uuid";

/// The disk with the cloud's letter to the server. Its label is what the cloud promises; but a volume can have
/// it too, so a disk that may be one is not read.
const CONFIG_DRIVES: [&str; 2] = ["config-2", "CONFIG-2"];

/// The letter, there and at the metadata service.
const LETTER: &str = "openstack/latest/meta_data.json";

/// What cloud-init noted at the first boot.
const CLOUD_INIT: &str = "/var/lib/cloud/data/instance-id";

/// Where the machine can tell who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Dmi,
    ConfigDrive,
    CloudInit,
    Metadata,
}

/// The cheapest first; the network last.
pub(super) const SOURCES: [Source; 4] =
    [Source::Dmi, Source::ConfigDrive, Source::CloudInit, Source::Metadata];

/// Those that need no network, and that prove it whatever the server's name is.
pub(super) const LOCAL_SOURCES: [Source; 2] = [Source::Dmi, Source::ConfigDrive];

impl Source {
    /// Whether the machine is the server that it shows, and that the cloud knows by this name.
    /// cloud-init's note also lies in an image that was made of another machine's disk, and that machine
    /// exists: it counts only with the node's own name.
    pub(super) fn is_believed(self, server: &str, node: &NodeName) -> bool {
        match self {
            Source::Dmi | Source::ConfigDrive | Source::Metadata => true,
            Source::CloudInit => is_name_of(server, node),
        }
    }

    /// The ids that it shows, the likeliest first.
    pub(super) fn candidates(self, access: &Access) -> Vec<ServerId> {
        let read = |path: &str| files::read_text(path).unwrap_or_default();
        match self {
            Source::Dmi => ids_in_firmware(&read(DMI)),
            // With the EC2 source it is no UUID, and then no help.
            Source::CloudInit => ids([read(CLOUD_INIT).trim().to_lowercase()]),
            Source::ConfigDrive => from_letter(config_drive()),
            Source::Metadata => from_letter(metadata(access)),
        }
    }
}

fn ids(texts: impl IntoIterator<Item = String>) -> Vec<ServerId> {
    let uuids = texts.into_iter().filter(|text| is_uuid(text));
    uuids.filter_map(|text| ServerId::parse(&text).ok()).collect()
}

/// The ids that a text of the firmware may mean.
pub fn ids_in_firmware(text: &str) -> Vec<ServerId> {
    // Kernels before 4.15 show capitals, and firmware and kernel do not always agree on the byte
    // order of the first three fields.
    let text = text.trim().to_lowercase();
    let swapped = swapped(&text);
    ids(std::iter::once(text).chain(swapped))
}

fn from_letter(letter: Option<Vec<u8>>) -> Vec<ServerId> {
    let letter: Value = letter.and_then(|l| serde_json::from_slice(&l).ok()).unwrap_or_default();
    ids(letter["uuid"].as_str().map(str::to_lowercase))
}

fn config_drive() -> Option<Vec<u8>> {
    let labels = failpoints::folder("INCLOUD_DISK_BY_LABEL", "/dev/disk/by-label");
    let disk = CONFIG_DRIVES.iter().find_map(|name| File::open(labels.join(name)).ok())?;
    if let Some(why) = devices::may_be_a_volume(&disk) {
        tracing::warn!(why, "a disk that is labelled as this machine's config drive is not read");
        return None;
    }
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        disk.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    };
    let found = iso9660::read_file(read, LETTER);
    if found.is_none() {
        tracing::debug!("the config drive holds no {LETTER} that can be read");
    }
    found
}

fn metadata(access: &Access) -> Option<Vec<u8>> {
    const LONGEST: usize = 1 << 20;
    let url = format!("{}/{LETTER}", access.metadata_url.as_ref()?);
    let answered = client::for_metadata(access)?.get(&url).send();
    let url = &*Redaction::default().redacted(&url);
    match answered {
        Ok(response) if response.status().is_success() => {
            let until = Deadline::after(Duration::from_secs(access.timeouts.metadata));
            client::body_of(response, LONGEST, until).ok()
        }
        Ok(response) => {
            tracing::debug!(url, status = response.status().as_u16(), "no metadata");
            None
        }
        Err(error) => {
            tracing::debug!(url, error = client::innermost(&error), "no metadata");
            None
        }
    }
}

/// Whether a server of this name may be the node: node names are often the server's, with a domain
/// or in small letters.
pub(super) fn is_name_of(server: &str, node: &NodeName) -> bool {
    let bare = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    !server.is_empty() && bare(server) == bare(node.as_str())
}

/// The same id with the bytes of its first three fields the other way round.
fn swapped(uuid: &str) -> Option<String> {
    if !is_uuid(uuid) {
        return None;
    }
    let reversed = |field: &str| -> String {
        let bytes: Vec<&str> = (0..field.len()).step_by(2).map(|at| &field[at..at + 2]).collect();
        bytes.into_iter().rev().collect()
    };
    Some(
        [&reversed(&uuid[..8]), &reversed(&uuid[9..13]), &reversed(&uuid[14..18]), &uuid[19..]]
            .join("-"),
    )
}

/// What was found out, for the next process of this boot: the network need not be asked again.
#[derive(Debug)]
pub(super) struct OwnServer {
    path: PathBuf,
    node: NodeName,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    boot: String,
    node: NodeName,
    server: ServerId,
    place: usize,
}

impl OwnServer {
    pub(super) fn beside(tokens: &Tokens, node: &NodeName) -> Self {
        Self { path: tokens.sibling("server"), node: node.clone() }
    }

    /// The server, and the number of its region.
    pub(super) fn kept(&self) -> Option<(ServerId, usize)> {
        let text = files::read_if_there(&self.path).ok()??;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        let is_ours = kept.node == self.node && kept.boot == machine::boot_id();
        is_ours.then_some((kept.server, kept.place))
    }

    pub(super) fn keep(&self, server: &ServerId, place: usize) {
        // One writer is enough, and only one may replace a file.
        let Ok(lock) = files::open_shared(&self.path.with_extension("server-lock")) else { return };
        if lock.try_lock().is_err() {
            return;
        }
        let _lock = LockedFile::of(lock);
        let boot = machine::boot_id();
        let kept = Kept { boot, node: self.node.clone(), server: server.clone(), place };
        let json = serde_json::to_vec(&kept).unwrap_or_default();
        if let Err(error) = files::replace(&self.path, &json) {
            tracing::debug!(%error, "who this machine is will be asked again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: &[ServerId]) -> Vec<&str> {
        found.iter().map(ServerId::as_str).collect()
    }

    #[test]
    fn both_byte_orders_and_small_letters_are_tried() {
        let found = ids_in_firmware("00112233-4455-6677-8899-AABBCCDDEEFF\n");
        assert_eq!(
            texts(&found),
            ["00112233-4455-6677-8899-aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff"]
        );
        assert!(ids_in_firmware("").is_empty() && ids_in_firmware("Not Settable").is_empty());
    }

    #[test]
    fn a_letter_names_the_server() {
        let letter = br#"{"uuid": "00112233-4455-6677-8899-AABBCCDDEEFF", "name": "n"}"#.to_vec();
        assert_eq!(texts(&from_letter(Some(letter))), ["00112233-4455-6677-8899-aabbccddeeff"]);
        for wrong in [&b"{}"[..], b"", b"<html>", br#"{"uuid": "i-0000abcd"}"#, br#"{"uuid": 7}"#] {
            assert!(from_letter(Some(wrong.to_vec())).is_empty());
        }
    }

    #[test]
    fn a_server_has_the_nodes_name_with_or_without_a_domain() {
        let node = |name: &str| NodeName::parse(name).unwrap();
        assert!(is_name_of("Node-1", &node("node-1.cluster.example")));
        assert!(is_name_of("node-1.cluster.example", &node("node-1")));
        assert!(!is_name_of("node-10", &node("node-1")) && !is_name_of("", &node("n")));
    }
}
