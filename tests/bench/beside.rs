//! The programs that are measured beside the driver: made here, or said to be not here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program, or why there is none.
pub type Made = Result<PathBuf, String>;

#[derive(Debug)]
pub struct Beside {
    /// An empty static C program.
    pub floor: Made,
    /// Starts a program and tells what it took.
    pub launcher: Made,
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/beside")
}

impl Beside {
    pub fn made_in(folder: &Path) -> Self {
        let c = |name: &str| {
            let (source, made) = (sources().join(format!("{name}.c")), folder.join(name));
            let mut compiler = Command::new("cc");
            compiler.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(&made).arg(source).arg("-static");
            by(&mut compiler, made)
        };
        Self { floor: c("floor"), launcher: c("launch") }
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
