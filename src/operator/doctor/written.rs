//! The configuration as it is written: whether it can be read, names a cloud, and says how to log in there. The
//! cloud is not asked. Also which disks of this machine it leaves unused.

use super::transports;
use crate::cloud::openstack;
use crate::configuration::CloudKind;
use crate::model::error::Error;
use crate::model::report::finding::{Finding, Level};
use crate::operator::configured::Configured;

/// Whether it can be read.
pub(super) fn configuration(configured: &Configured) -> Finding {
    const CHECK: &str = "configuration";
    match (&configured.trouble, &configured.origin) {
        (Some(error), _) if configured.is_hidden() => Finding::skipped(CHECK, error.cause.clone()),
        (Some(error), _) => Finding::error(
            CHECK,
            error.cause.clone(),
            error.hint.as_ref().map_or_else(
                || "every call that is not init fails until it is right".to_owned(),
                ToString::to_string,
            ),
        ),
        (None, Some(origin)) => Finding::ok(CHECK, origin.display().to_string()),
        (None, None) => Finding::error(
            CHECK,
            "there is no configuration",
            "sudo ./install.sh install --cloud openstack writes one; examples/config.toml shows every key",
        ),
    }
}

/// All of it.
pub(super) fn look(configured: &Configured) -> Vec<Finding> {
    const CHECK: &str = "configuration";
    let mut found = vec![configuration(configured)];
    if found[0].level != Level::Ok {
        return found;
    }
    let origin = configured.origin.as_ref().map(|path| path.display().to_string());
    let origin = origin.unwrap_or_default();
    match configured.config.cloud.kind {
        None => found.push(Finding::error(
            CHECK,
            format!("{origin} names no cloud"),
            "write [cloud] kind = \"local\" or \"openstack\" into it",
        )),
        Some(CloudKind::Local) => {}
        Some(CloudKind::OpenStack) => {
            let get = |name: &str| std::env::var(name).ok();
            if let Err(Error { cause, hint, .. }) =
                openstack::access(&configured.config.openstack, &origin, get)
            {
                let fix = hint.unwrap_or_else(|| "put that right".into());
                found.push(Finding::error(CHECK, cause, fix.to_string()));
            }
        }
    }
    found.extend(transports::look(&configured.config));
    found
}
