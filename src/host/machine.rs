//! Who and where this machine is.

use crate::model::error::{Error, Kind, Result};
use crate::model::ids::NodeName;

/// The host's name as Kubernetes makes a node name of it: in lower case.
pub fn node_name() -> Result<NodeName> {
    let name = nix::unistd::gethostname().map_err(|errno| {
        Error::new(Kind::Host, format!("read the host's name: {}", errno.desc()))
    })?;
    NodeName::parse(&name.to_string_lossy().to_lowercase()).map_err(|error| {
        Error::new(Kind::Config, format!("the host's name is no node name: {}", error.cause))
            .hint("set node.name in the configuration")
    })
}

/// A text that differs after each boot: device numbers and disk counts begin anew with it.
#[must_use]
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The name of the process that called us, for the log.
#[must_use]
pub fn parent_name() -> String {
    let path = format!("/proc/{}/comm", nix::unistd::getppid());
    std::fs::read_to_string(path).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

/// Whether this process may mount.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
