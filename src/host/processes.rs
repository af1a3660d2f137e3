//! Other processes: held so that their ids cannot become another's, signalled; and programs of the
//! operator.

use super::tool;
use crate::failpoints;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::after_heal::Wakeup;
use crate::ports::clock::Deadline;
use crate::ports::host::Processes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The processes of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelProcesses;

impl Processes for KernelProcesses {
    fn pin(&self, pid: u32) -> Result<OwnedFd> {
        i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|errno| Error::io(format!("hold process {pid}"), &errno.into()))
    }

    fn signal(&self, pinned: &OwnedFd, wakeup: Wakeup) -> Result<()> {
        failpoints::effect("heal.after")?;
        let signal = match wakeup {
            Wakeup::Hup => Signal::HUP,
            Wakeup::Usr1 => Signal::USR1,
            Wakeup::Usr2 => Signal::USR2,
            Wakeup::Term => Signal::TERM,
            Wakeup::Kill => Signal::KILL,
        };
        match pidfd_send_signal(pinned, signal) {
            // It ended meanwhile, and so let go.
            Err(Errno::SRCH) => Ok(()),
            done => done.map_err(|errno| Error::io("signal a process", &errno.into())),
        }
    }

    fn has_ended(&self, pinned: &OwnedFd) -> bool {
        // pidfd_open(2): readable when the last thread has ended.
        let mut asked = [PollFd::new(pinned.as_fd(), PollFlags::POLLIN)];
        poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    fn run(&self, program: &Path, facts: &[(&str, String)], deadline: Deadline) -> Result<String> {
        failpoints::effect("heal.after")?;
        trusted(program)?;
        let outcome = tool::launch(program, &[], facts, deadline)?;
        match outcome.status {
            Some(0) => Ok(outcome.last_line().to_owned()),
            Some(status) => Err(Error::new(
                Kind::Host,
                format!(
                    "{} ended with status {status}: {}",
                    program.display(),
                    outcome.last_line()
                ),
            )),
            None => Err(Error::new(Kind::Host, format!("{} was killed", program.display()))),
        }
    }
}

/// The driver is root: what it runs only root may have written.
fn trusted(program: &Path) -> Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let found = fs::metadata(program)
        .map_err(|error| Error::io(format!("look at {}", program.display()), &error))?;
    if found.uid() == 0 && found.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(Error::new(
        Kind::Config,
        format!("{} can be written by others than root", program.display()),
    )
    .hint("chown root and chmod go-w it: it is run as root"))
}
