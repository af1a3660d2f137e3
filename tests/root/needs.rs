//! What a test needs of the machine that it runs on. `needs!(pods, seams);` ends a test where one of
//! these is missing, and says so on a line that is counted.

use crate::support::pods::{containers_are_possible, pods_are_possible};
use crate::support::{output_of, private_mounts, skip};
use std::process::Command;

pub use crate::support::may_trace as strace;
pub use crate::support::private_mounts as mounts;
pub use crate::support::private_mounts_and_fuse as fuse;
pub use crate::support::tracer::tracing_is_possible as tracer;

/// Mounts of its own, and processes with a root of their own.
pub fn containers(test: &str) -> bool {
    private_mounts(test) && containers_are_possible(test)
}

/// Mounts of its own, and pods.
pub fn pods(test: &str) -> bool {
    private_mounts(test) && pods_are_possible(test)
}

/// Pods, and a clock of the boot that can be set for a call.
pub fn boot_clock(test: &str) -> bool {
    if !pods(test) {
        return false;
    }
    let mut probe = Command::new("unshare");
    probe.args(["--time", "--fork", "--boottime", "5", "true"]);
    let is_possible = output_of(&mut probe).status.success();
    if !is_possible {
        skip(test, "needs time namespaces");
    }
    is_possible
}

/// Steps at which a call can be killed or held.
pub use crate::support::has_seams as seams;

/// Ends the test that it stands in, unless all of this is here.
macro_rules! needs {
    ($($need:ident),+) => {{
        fn here() {}
        let path = std::any::type_name_of_val(&here);
        let test = path.rsplit("::").nth(1).expect("the test's name");
        let is_possible = $($crate::needs::$need(test))&&+;
        if !is_possible {
            return;
        }
    }};
}
