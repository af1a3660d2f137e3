//! The face that kubelet and the controller-manager see: their words, folders and JSON.
//!
//! Facts that shaped it, read in the sources of Kubernetes 1.20.2
//! (`pkg/volume/flexvolume/driver-call.go`): stdout and stderr are one buffer that must hold one
//! JSON value; a process that does not exit with 0 has all its arguments logged; "Not supported"
//! is remembered until the driver is probed again.

pub mod answer;
pub mod call;
pub mod folders;
pub mod options;
pub mod reply;

use crate::model::face::Face;
use crate::model::report::tear_down::TearDownWords;

/// This face. Its words for tear-downs stand in the log, in the metrics' labels and in reports.
pub const FACE: Face = Face {
    name: "flexvolume",
    layout: folders::LAYOUT,
    words: TearDownWords { unpublish: "unmount", unstage: "unmountdevice", detach: "detach" },
};
