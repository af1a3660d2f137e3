//! What kubelet calls the tear-downs.

use crate::model::report::tear_down::TearDownWords;

/// They stand in the log, in the metrics' labels and in reports.
pub const TEAR_DOWNS: TearDownWords =
    TearDownWords { unpublish: "unmount", unstage: "unmountdevice", detach: "detach" };
