//! Whether a udevd runs here.

use std::path::Path;

/// Its socket is there; systemd keeps that while udevd is started again.
pub(super) fn runs() -> bool {
    Path::new("/run/udev/control").exists()
}
