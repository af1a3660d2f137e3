//! Nova and Cinder told apart: whatever one says, the other need not know.

use super::cloud::{Cloud, rows};
use crate::runner::Test;

pub(super) const TESTS: &[Test] = &[
    ("views::every_status_with_every_view", every_status_with_every_view),
    ("views::an_orphaned_reservation", an_orphaned_reservation),
    ("views::two_attachments_of_one_server", two_attachments_of_one_server),
    ("views::a_deleted_server", a_deleted_server),
];

/// Statuses of Cinder as a client may see them, and one that it does not know.
const STATUSES: [&str; 24] = [
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
    "error_attaching",
    "tomorrows-status",
];

fn every_status_with_every_view() {
    for status in STATUSES {
        for (listed, holder) in
            [(None, None), (None, Some("a")), (Some("a"), None), (Some("a"), Some("b"))]
        {
            let cloud = Cloud::frozen();
            {
                let mut world = cloud.server.world();
                let attachment =
                    holder.map(|server| world.storage_lists("data", server, "attached"));
                if let Some(server) = listed {
                    world.compute_lists("data", server, attachment);
                }
                world.volume_mut("data").set_status(status);
            }
            let volume = cloud.get(&cloud.volume_path(&cloud.data)).json();
            assert_eq!(volume["volume"]["status"], status);
            let id = |name: &str| cloud.server.world().server_id(name);
            assert_eq!(cloud.holders(), holder.map(id).into_iter().collect::<Vec<_>>());
            assert_eq!(cloud.is_listed(&cloud.a), listed == Some("a"));
            assert!(!cloud.is_listed(&cloud.b));
        }
    }
}

fn an_orphaned_reservation() {
    let cloud = Cloud::new();
    cloud.server.world().storage_lists("data", "a", "reserved");
    cloud.server.world().volume_mut("data").set_status("reserved");
    assert_eq!((cloud.holders(), cloud.is_listed(&cloud.a)), (vec![], false));
    assert_eq!(cloud.attach(&cloud.b).status, 400);
    assert_eq!(cloud.detach(&cloud.a).status, 404);
}

fn two_attachments_of_one_server() {
    let cloud = Cloud::new();
    cloud.server.world().attached("data", "a");
    cloud.server.world().storage_lists("data", "a", "attached");
    assert_eq!(cloud.holders(), [cloud.a.clone(), cloud.a.clone()]);
}

fn a_deleted_server() {
    let cloud = Cloud::new();
    cloud.server.world().attached("data", "a");
    cloud.server.world().remove_server(&cloud.a, false);
    assert_eq!(cloud.holders(), vec![cloud.a.clone()]);
    assert_eq!(cloud.get(&rows(&cloud.a)).status, 404);
    assert_eq!(cloud.attach(&cloud.b).status, 400);
}
