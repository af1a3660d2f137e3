//! `disk node`: a word of this release's `install.sh` on the machine whose root is mounted here. An
//! image then needs nothing but the unpacked release: the shell is the machine's own.

use crate::failpoints;
use crate::host::left_behind::LeftProcess;
use crate::host::worker;
use crate::host::worker::parent::Signals;
use crate::model::error::{Error, Kind, Result};
use crate::watchdog::{self, PartPatience};
use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the release lies on the machine while the script runs: gone with its power.
const BELOW: &str = "run";

/// Runs the script; with `every`, again and again, and says what is new.
pub(super) fn run(root: &Path, every: Option<u64>, words: &[String]) -> Result<String> {
    let program =
        std::env::current_exe().map_err(|error| Error::io("find this executable", &error))?;
    match every {
        None => once(&program, root, words),
        Some(seconds) => again_and_again(&program, root, words, Duration::from_secs(seconds)),
    }
}

fn once(program: &Path, root: &Path, words: &[String]) -> Result<String> {
    if !root.join("bin/sh").exists() {
        return Err(Error::new(
            Kind::Config,
            format!("{} is no machine's root: it has no /bin/sh", root.display()),
        )
        .hint("mount the machine's / there, and say where by --root"));
    }
    let release = program.parent().unwrap_or(Path::new("/"));
    // Who only looks needs no driver.
    let parts: &[&str] = match words.first().map(String::as_str) {
        Some("verify") => &["install.sh"],
        _ => &["install.sh", "disk", "SHA256SUMS", "examples"],
    };
    let copy = Copy::of(release, parts, root)?;
    // The machine's root may be mounted without its /dev.
    let nothing =
        fs::File::open("/dev/null").map_err(|error| Error::io("open /dev/null", &error))?;
    nix::unistd::chroot(root)
        .and_then(|()| nix::unistd::chdir("/"))
        .map_err(|errno| Error::io(format!("enter {}", root.display()), &errno.into()))?;
    let wrong = |error| Error::io("run the machine's shell", &error);
    let named = worker::child(&format!("run install.sh {}", words.join(" ")));
    let mut command = Command::new("/bin/sh");
    command
        .arg(copy.inside.join("install.sh"))
        .args(words)
        .stdin(nothing)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if worker::waiting_process().is_some() {
        // Whoever ends it ends all of it; a person's terminal does that by itself.
        command.process_group(0);
    }
    let child = command.spawn().map_err(wrong)?;
    named.is(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let output = child.wait_with_output().map_err(wrong)?;
    drop(named);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let lines: Vec<_> = text.lines().collect();
    Err(Error::new(Kind::Host, format!("install.sh: {}: {}", output.status, lines.join(" | "))))
}

/// How long one time may take.
const AT_MOST: Duration = Duration::from_secs(600);

/// How long a script that runs may go on after a signal: it ends by itself, and clears up.
const TO_ITS_END: Duration = Duration::from_secs(20);

/// Each time by a process of its own, for there is no way back out of the machine's root; one that
/// hangs is said, and left alone until it ends.
fn again_and_again(
    program: &Path,
    root: &Path,
    words: &[String],
    pause: Duration,
) -> Result<String> {
    let mut signals = Signals::of_the_end()?;
    let mut last = Vec::new();
    let mut left: Vec<LeftProcess> = Vec::new();
    let in_all = failpoints::wish("INCLOUD_DISK_NODE_AT_MOST").and_then(|text| text.parse().ok());
    let in_all = in_all.map_or(AT_MOST, Duration::from_secs);
    let patience = PartPatience { in_all, with_hanging: None, after_a_signal: TO_ITS_END };
    loop {
        left.retain(LeftProcess::is_alive);
        if left.is_empty() {
            let part = watchdog::part(patience, || {
                let said =
                    once(program, root, words).unwrap_or_else(|error| format!("disk: {error}\n"));
                let _ = worker::out().write_all(said.as_bytes());
            });
            let given_up = part.given_up.map(|error| format!("disk: {error}\n"));
            let text = [part.said, given_up.unwrap_or_default().into_bytes()].concat();
            left = part.left;
            if last != text {
                // Whoever reads it may have gone; the next time there is somebody again.
                let mut out = std::io::stdout();
                let _ = out.write_all(&text).and_then(|()| out.flush());
                last = text;
            }
            if part.signal.is_some() {
                return Ok(String::new());
            }
        }
        if signals.within(pause).is_some() {
            return Ok(String::new());
        }
    }
}

/// The release on the machine, for as long as this lives.
struct Copy {
    /// Its path until the machine's root is ours.
    outside: PathBuf,
    /// Its path from then on.
    inside: PathBuf,
}

impl Copy {
    fn of(release: &Path, parts: &[&str], root: &Path) -> Result<Self> {
        let name = format!("incloud-disk-release.{}", crate::log::new_call_id());
        let folder = root.join(BELOW).join(&name);
        let copy = Self { outside: folder.clone(), inside: Path::new("/").join(BELOW).join(name) };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| Error::io(format!("make {}", folder.display()), &error))?;
        for name in parts {
            copy_all(&release.join(name), &folder.join(name)).map_err(|error| {
                Error::io(format!("copy {name} of {}", release.display()), &error)
                    .hint("this executable must lie in an unpacked release")
            })?;
        }
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // One of them is not there.
        let _ = fs::remove_dir_all(&self.outside);
        let _ = fs::remove_dir_all(&self.inside);
    }
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy_all(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
