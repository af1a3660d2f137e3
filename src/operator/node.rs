//! `disk node`: installs, verifies and removes the driver on the machine whose root this is, or whose
//! root is mounted here. Nothing of the machine is called for it but its systemd: an image needs no
//! more than this executable.

use crate::failpoints;
use crate::host::left_behind::LeftProcess;
use crate::host::worker::parent::Signals;
use crate::host::{files, tool, worker};
use crate::model::error::{Error, Kind, Result};
use crate::node::console::Console;
use crate::node::work;
use crate::operator::on_node;
use crate::supervisor::{self, PartPatience};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where an image has the machine's root, if nothing else is said.
const OF_AN_IMAGE: &str = "/host";

/// Does what the words say; with `every`, again and again, and says what is new. Answers the exit
/// status.
pub(super) fn run(root: Option<&Path>, every: Option<u64>, words: &[String]) -> Result<u8> {
    let root = match root {
        Some(root) => root.to_path_buf(),
        None => usual_root()?,
    };
    if on_node::looks(words) {
        must_be_seen(every)?;
        return on_node::run(&root, words);
    }
    match every {
        None => once(&root, words, Console::default()),
        Some(seconds) => again_and_again(&root, words, Duration::from_secs(seconds)),
    }
}

/// A folder that is to become a machine runs nothing, and what is looked at again has its own flag.
fn must_be_seen(every: Option<u64>) -> Result<()> {
    if every.is_some() {
        return Err(Error::bad_call("--every is for verify; status has --watch"));
    }
    if std::env::var_os("DESTDIR").is_some_and(|folder| !folder.is_empty()) {
        return Err(Error::bad_call(
            "what looks needs a machine that runs, and DESTDIR is a folder",
        )
        .hint("unset DESTDIR"));
    }
    Ok(())
}

/// The machine's root where an image has it, else our own. In a container that is not the machine's.
fn usual_root() -> Result<PathBuf> {
    let (image, own) = (PathBuf::from(OF_AN_IMAGE), PathBuf::from("/"));
    if std::env::var_os("DESTDIR").is_some_and(|folder| !folder.is_empty()) {
        return Ok(own);
    }
    if is_root_of_machine(&image) {
        return Ok(image);
    }
    let place = |path: &str| files::place(Path::new(path)).ok();
    let is_another = place("/proc/1/root").is_some_and(|first| Some(first) != place("/"));
    if is_another {
        return Err(no_root(&image));
    }
    Ok(own)
}

/// Every machine has such a folder, and an image of this executable alone has not.
fn is_root_of_machine(root: &Path) -> bool {
    root.join("usr").is_dir()
}

fn no_root(root: &Path) -> Error {
    let cause = format!("{} is no machine's root: it has no folder usr", root.display());
    Error::new(Kind::Config, cause).hint("mount the machine's / there, and say where by --root")
}

fn once(root: &Path, words: &[String], console: Console) -> Result<u8> {
    if !is_root_of_machine(root) {
        return Err(no_root(root));
    }
    Ok(work::run(words, console, || enter(root)))
}

fn enter(root: &Path) -> Result<()> {
    if root == Path::new("/") {
        return Ok(());
    }
    // The machine's root may be mounted without its /dev.
    tool::keep_nothing()?;
    nix::unistd::chroot(root)
        .and_then(|()| nix::unistd::chdir("/"))
        .map_err(|errno| Error::io(format!("enter {}", root.display()), &errno.into()))
}

/// How long one time may take.
const AT_MOST: Duration = Duration::from_secs(600);

/// How long one that runs may go on after a signal: it ends by itself.
const TO_ITS_END: Duration = Duration::from_secs(20);

/// Each time by a process of its own, for there is no way back out of the machine's root; one that
/// hangs is said, and left alone until it ends.
fn again_and_again(root: &Path, words: &[String], pause: Duration) -> Result<u8> {
    let mut signals = Signals::of_the_end()?;
    let mut last = Vec::new();
    let mut left: Vec<LeftProcess> = Vec::new();
    let in_all = failpoints::wish("INCLOUD_DISK_NODE_AT_MOST").and_then(|text| text.parse().ok());
    let in_all = in_all.map_or(AT_MOST, Duration::from_secs);
    let patience = PartPatience { in_all, with_hanging: None, after_a_signal: TO_ITS_END };
    loop {
        left.retain(LeftProcess::is_alive);
        if left.is_empty() {
            let part = supervisor::part(patience, || {
                let done = once(root, words, Console { is_one_stream: true });
                if let Err(error) = done {
                    let _ = worker::out().write_all(format!("disk: {error}\n").as_bytes());
                }
            });
            let given_up = part.given_up.map(|error| format!("disk: {error}\n"));
            let text = [part.said, given_up.unwrap_or_default().into_bytes()].concat();
            left = part.left;
            if last != text {
                // The reader may have gone; the next time there is one again.
                let mut out = std::io::stdout();
                let _ = out.write_all(&text).and_then(|()| out.flush());
                last = text;
            }
            if part.signal.is_some() {
                return Ok(0);
            }
        }
        if signals.within(pause).is_some() {
            return Ok(0);
        }
    }
}
