//! `OpenStack`'s words for what volumes and servers do, and its people's commands.

use crate::model::cloud::attachment_state::{VolumePhase, VolumeStatus};
use crate::ports::cloud::{ServerState, Trouble};

/// The status of a volume. One that is not known counts as work, which is waited for.
pub fn volume_status(word: &str) -> VolumeStatus {
    let phase = match word {
        "available" => VolumePhase::Available,
        "reserved" | "attaching" => VolumePhase::Attaching,
        "in-use" => VolumePhase::Attached,
        "detaching" => VolumePhase::Detaching,
        "deleting" | "awaiting-transfer" => VolumePhase::Leaving,
        error if error.starts_with("error") => VolumePhase::Failed,
        _ => VolumePhase::Working,
    };
    VolumeStatus::new(phase, word)
}

/// The status of a server.
pub(super) fn server_state(word: &str) -> ServerState {
    match word {
        "ACTIVE" => ServerState::Running,
        "SHUTOFF" => ServerState::Stopped,
        "SHELVED_OFFLOADED" => ServerState::Offloaded,
        _ => ServerState::Other,
    }
}

/// What a person does about it.
pub(super) fn advice(trouble: Trouble<'_>) -> String {
    match trouble {
        Trouble::FailedVolume => {
            "an operator of the cloud must mend it: openstack volume show has the details"
                .to_owned()
        }
        Trouble::FailedWhileAttached(volume) => format!(
            "only an operator of the cloud can fix this: openstack volume set --state in-use {volume}; the next detach then \
             works"
        ),
        Trouble::LeftMapping(server, volume) => format!(
            "no request of the cloud ends this, only an operator of the cloud: once the guest does not have the disk (virsh \
             domblklist on the compute host), mark the row of volume {volume} and instance {server} in Nova's table \
             block_device_mapping as deleted"
        ),
        Trouble::LeftAttachment(id) => format!(
            "if no attach or migration is under way: openstack --os-volume-api-version 3.27 volume attachment delete {id}"
        ),
        Trouble::ForgottenAttachment(id) => format!(
            "once that server certainly does not use it: openstack --os-volume-api-version 3.27 \
             volume attachment delete {id}; if it was deleted, attach.takeover = \"deleted\" does that"
        ),
        Trouble::NotesForbidden => "let this user change the metadata of volumes \
            (volume:create_volume_metadata in Cinder's policy)"
            .to_owned(),
    }
}

/// What ends a state of a server in which Nova refuses to change its volumes; nothing if the refusal has another reason.
pub(super) fn advice_on_server(server: &str, status: u16, said: &str) -> Option<String> {
    let after =
        |mark: &str| said.split_once(mark).map(|(_, rest)| rest.trim_end_matches('.').trim());
    if said.contains("root device volume") {
        return Some(format!(
            "server {server} boots from this volume, and keeps it until the server is deleted: use another volume"
        ));
    }
    if status != 409 {
        return None;
    }
    let by_itself = "this ends by itself, and the call is repeated until then";
    Some(match (after("in vm_state "), after("in task_state ")) {
        (Some("building"), _) | (_, Some(_)) => by_itself.to_owned(),
        (Some("suspended"), _) => format!("a person must end this: openstack server resume {server}"),
        (Some("rescued"), _) => format!("a person must end this: openstack server unrescue {server}"),
        (Some("error"), _) => format!(
            "only an operator of the cloud can fix this: openstack server show {server} has the fault, and openstack server \
             set --state active {server} follows the repair"
        ),
        (Some(_), _) => format!("a person must end this state: openstack server show {server}"),
        _ if said.contains("is locked") => {
            format!("a person locked it; to end this: openstack server unlock {server}")
        }
        _ if said.contains("Service is unavailable") => {
            "the server's compute host is down: the call is repeated until an operator of the cloud has it back".to_owned()
        }
        _ => return None,
    })
}

/// Every status that a volume can have, and one that it cannot.
#[cfg(any(test, debug_assertions))]
pub const STATUSES: [&str; 23] = [
    "creating",
    "available",
    "reserved",
    "attaching",
    "in-use",
    "detaching",
    "maintenance",
    "retyping",
    "extending",
    "downloading",
    "uploading",
    "backing-up",
    "restoring-backup",
    "awaiting-transfer",
    "managing",
    "deleting",
    "error",
    "error_deleting",
    "error_extending",
    "error_restoring",
    "error_backing-up",
    "error_managing",
    "never-heard-of",
];

#[cfg(test)]
mod tests {
    use super::*;
    use ServerState::{Offloaded, Other, Running, Stopped};

    #[test]
    fn a_word_that_is_not_known_is_waited_for() {
        for (word, phase) in [
            ("available", VolumePhase::Available),
            ("reserved", VolumePhase::Attaching),
            ("error_extending", VolumePhase::Failed),
            ("deleting", VolumePhase::Leaving),
            ("extending", VolumePhase::Working),
            ("never-heard-of", VolumePhase::Working),
            ("", VolumePhase::Working),
        ] {
            assert_eq!(volume_status(word), VolumeStatus::new(phase, word));
        }
        let certain: Vec<_> = ["ACTIVE", "SHUTOFF", "SHELVED_OFFLOADED", "REBOOT", ""]
            .into_iter()
            .map(server_state)
            .collect();
        assert_eq!(certain, [Running, Stopped, Offloaded, Other, Other]);
    }
}
