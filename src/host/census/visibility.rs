//! Whether every process of the machine can be seen from here. Where it cannot, no user may be
//! called absent.

use super::proc::{INITIAL_USERS, Proc};
use crate::machine;
use crate::model::error::errno_text;
use crate::model::mount::mountinfo::MountTable;
use nix::fcntl::OFlag;
use std::io::Read;

/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`: the namespace that all processes are in.
const INITIAL_PIDS: u64 = 0xEFFF_FFFC;
/// `CAP_SYS_PTRACE`: with it `hidepid` hides nothing, and links of others can be read.
const TRACE: u64 = 1 << 19;

/// What stands between us and the machine's processes, if anything does.
pub(super) fn obstacle(proc: &Proc, own: &MountTable) -> Option<String> {
    let root = proc.root.display();
    let Some(pids) = proc.own_number("pid") else {
        return Some(format!("{root} shows no processes"));
    };
    if pids != INITIAL_PIDS {
        return Some("this process is in a PID namespace of its own".to_owned());
    }
    // A procfs belongs to one PID namespace, and that need not be the reader's.
    let own_id = std::process::id().to_string();
    if proc.link("self").ok().is_none_or(|link| link.as_os_str() != own_id.as_str()) {
        return Some(format!("{root} shows another PID namespace than this process's"));
    }
    if let Some(option) = hiding_option(proc, own)
        && !(proc.own_number("user") == Some(INITIAL_USERS) && may_trace(proc))
    {
        return Some(format!("{root} is mounted with {option}"));
    }
    // Others can be seen: whatever hides processes hides this one first. Its first lines say so; the whole is
    // as long as this machine's table.
    let seen =
        proc.open("1/mountinfo", OFlag::O_RDONLY).and_then(|mut file| file.read(&mut [0; 64]));
    match seen {
        Ok(_) => None,
        Err(error) => Some(format!("{root} does not show process 1: {}", errno_text(&error))),
    }
}

fn hiding_option(proc: &Proc, own: &MountTable) -> Option<String> {
    let mount = own.covering(&proc.root)?;
    let mut options = mount.super_options.split(',');
    let hides = |option: &&str| {
        option.strip_prefix("hidepid=").is_some_and(|value| !matches!(value, "0" | "off"))
    };
    options.find(hides).map(str::to_owned)
}

fn may_trace(proc: &Proc) -> bool {
    let status = proc.read("thread-self/status").unwrap_or_default();
    let effective = machine::capabilities(&String::from_utf8_lossy(&status));
    effective.is_some_and(|effective| effective & TRACE != 0)
}
