//! The programs that are measured beside the driver: made here, or said to be not here.

use crate::support::write_program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program, or why there is none.
pub type Made = Result<PathBuf, String>;

#[derive(Debug)]
pub struct Beside {
    /// An empty static C program.
    pub floor: Made,
    /// A Go program that prints the answer to init.
    pub go: Made,
    /// A driver as a shell script.
    pub shell: Made,
    /// Requests by libcurl.
    pub requests: Made,
    /// Starts a program and tells what it took.
    pub launcher: Made,
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/beside")
}

impl Beside {
    pub fn made_in(folder: &Path) -> Self {
        let c = |name: &str, more: &[&str]| {
            let (source, made) = (sources().join(format!("{name}.c")), folder.join(name));
            let mut compiler = Command::new("cc");
            compiler.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(&made).arg(source).args(more);
            by(&mut compiler, made)
        };
        Self {
            floor: c("floor", &["-static"]),
            launcher: c("launch", &["-static"]),
            requests: c("requests", &["-lcurl"]),
            go: go(folder),
            shell: shell(folder),
        }
    }
}

fn by(maker: &mut Command, made: PathBuf) -> Made {
    let name = maker.get_program().to_string_lossy().into_owned();
    let output = maker.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(made);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    Err(format!("{name}: {}", first.unwrap_or_default()))
}

fn go(folder: &Path) -> Made {
    let made = folder.join("init-in-go");
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
        .arg(&made)
        .arg(sources().join("init.go"));
    go.env("CGO_ENABLED", "0").env("GOFLAGS", "").env("GO111MODULE", "off");
    go.env("GOCACHE", folder.join("go-cache")).env("GOPATH", folder.join("go-path"));
    by(&mut go, made)
}

/// The script itself, copied to where programs may be started.
fn shell(folder: &Path) -> Made {
    for tool in ["bash", "jq", "lsblk", "findmnt", "blkid", "fsck", "mount", "readlink"] {
        let found = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", tool]).status();
        if !found.is_ok_and(|found| found.success()) {
            return Err(format!("no {tool}"));
        }
    }
    let made = folder.join("driver.sh");
    write_program(&made, fs::read(sources().join("driver.sh")).map_err(|error| error.to_string())?);
    Ok(made)
}
