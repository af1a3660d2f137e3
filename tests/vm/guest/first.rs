//! The first process: makes a root that containers can leave, and becomes systemd.

use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The root of an initramfs is not a mount like others: `pivot_root` refuses there. So a bind of
/// it is moved over it first.
pub(crate) fn become_systemd() -> ExitCode {
    let error = match move_root() {
        Ok(()) => Command::new("/usr/lib/systemd/systemd").exec(),
        Err(error) => error,
    };
    eprintln!("init: {error}");
    // The kernel panics when its first process ends, and says so on the console.
    ExitCode::FAILURE
}

fn move_root() -> io::Result<()> {
    let none = None::<&str>;
    mount(Some("/"), "/mnt", none, MsFlags::MS_BIND, none)?;
    chdir("/mnt")?;
    mount(Some("."), "/", none, MsFlags::MS_MOVE, none)?;
    chroot(".")?;
    Ok(chdir("/")?)
}
