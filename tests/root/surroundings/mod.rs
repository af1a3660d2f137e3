//! The machine around the driver is full, gone, slow or crowded. `SURROUNDINGS=full` is the long form.

mod crowd;
mod folders;
mod memory;

use crate::checks::{layers_at, number_of, only_mount_at};
use crate::files;
use crate::support::loop_devices_below;
use crate::volume::{Call, POD, Volume, make_folder};

/// So much in the ring, and so much in the long form.
fn either(short: usize, long: usize) -> usize {
    let is_long = std::env::var("SURROUNDINGS").is_ok_and(|value| value == "full");
    if is_long { long } else { short }
}

/// The calls of one life, in order; but for `expandfs`, which takes more of the machine for ext4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Attach,
    IsAttached,
    Wait,
    Stage,
    Publish,
    Unpublish,
    Unstage,
    Detach,
}

const LIFE: [Step; 8] = [
    Step::Attach,
    Step::IsAttached,
    Step::Wait,
    Step::Stage,
    Step::Publish,
    Step::Unpublish,
    Step::Unstage,
    Step::Detach,
];

impl Step {
    fn call(self, volume: &Volume) -> Call {
        match self {
            Self::Attach => volume.attach(),
            Self::IsAttached => volume.is_attached(),
            Self::Wait => volume.wait(""),
            Self::Stage => volume.stage(),
            Self::Publish => volume.publish(POD),
            Self::Unpublish => volume.unpublish(POD),
            Self::Unstage => volume.unstage(),
            Self::Detach => volume.detach(),
        }
    }

    /// What kubelet does before it.
    fn prepare(self, volume: &Volume) {
        match self {
            Self::Stage => make_folder(&volume.global()),
            Self::Publish => make_folder(&volume.pod(POD)),
            _ => {}
        }
    }

    /// What a success of it says, is so.
    #[track_caller]
    fn is_true(self, volume: &Volume, answer: &serde_json::Value) {
        let disks = loop_devices_below(&volume.image());
        let (global, pod) = (layers_at(&volume.global()), layers_at(&volume.pod(POD)));
        let is_so = match self {
            Self::Attach | Self::Wait => disks.len() == 1,
            Self::IsAttached => answer["attached"] == !disks.is_empty(),
            Self::Stage => global == 1 && stands_on_its_disk(volume),
            Self::Publish => (global, pod) == (1, 1) && stands_on_its_disk(volume),
            Self::Unpublish => pod == 0,
            Self::Unstage => global == 0 && files::can_be_opened_alone(&disks[0]),
            Self::Detach => disks.is_empty(),
        };
        assert!(is_so, "an untrue {answer} of {self:?}: {global} {pod} {disks:?}");
    }
}

/// What a pod wrote in the first life is there in the second; kubelet removes its folders.
#[track_caller]
fn keeps_data(volume: &Volume, step: Step, life: usize) {
    let data = volume.pod(POD).join("data");
    match (step, life) {
        (Step::Publish, 0) => files::write_synced(&data, b"kept"),
        (Step::Publish, _) => assert_eq!(files::read(&data).unwrap(), b"kept"),
        (Step::Unpublish, _) => std::fs::remove_dir(volume.pod(POD)).unwrap(),
        (Step::Unstage, _) => std::fs::remove_dir(volume.global()).unwrap(),
        _ => {}
    }
}

fn stands_on_its_disk(volume: &Volume) -> bool {
    let disks = loop_devices_below(&volume.image());
    let letter = disks[0].file_name().expect("a name").to_string_lossy().into_owned();
    only_mount_at(&volume.global()).number == number_of(&letter)
}
