//! The hook: what really plugs and unplugs a disk.
//!
//! A program is called as `PROGRAM attach|detach|extend VOLUME SERVER`, with `DEVICE` (Nova's
//! guess) and `SIZE` (GiB; for extend the new one) in its environment. Its failure makes the attach
//! fail as a hypervisor's does: the request was answered long ago, the attach is undone (D1), a
//! detach is rolled back (D9). A test in the same process may give a function instead.

use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A program that takes longer than this has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// What is run when a disk comes or goes.
#[derive(Clone, Default)]
pub enum Hook {
    #[default]
    None,
    Program(PathBuf),
    Function(Arc<Function>),
}

/// A hook in the same process; what it says when it fails goes to standard error.
pub type Function = dyn Fn(&Call) -> Result<(), String> + Send + Sync;

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("None"),
            Self::Program(path) => formatter.debug_tuple("Program").field(path).finish(),
            Self::Function(_) => formatter.write_str("Function"),
        }
    }
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    pub action: Action,
    pub volume: String,
    pub server: String,
    pub device: String,
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Attach,
    Detach,
    Extend,
}

impl Action {
    pub fn word(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::Extend => "extend",
        }
    }
}

impl Hook {
    /// A function as a hook.
    pub fn function(call: impl Fn(&Call) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self::Function(Arc::new(call))
    }

    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Runs it; says whether it went well.
    pub fn run(&self, call: &Call) -> bool {
        let result = match self {
            Self::None => Ok(()),
            Self::Function(function) => function(call),
            Self::Program(program) => run_program(program, call),
        };
        if let Err(why) = &result {
            let (action, volume) = (call.action.word(), &call.volume);
            eprintln!("hook: {action} {volume} at {}: {why}", call.server);
        }
        result.is_ok()
    }
}

fn run_program(program: &PathBuf, call: &Call) -> Result<(), String> {
    let mut child = Command::new(program)
        .args([call.action.word(), &call.volume, &call.server])
        .env("DEVICE", &call.device)
        .env("SIZE", call.size.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    wait(&mut child, Instant::now() + LIMIT)
}

fn wait(child: &mut Child, end: Instant) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("killed after {} s", LIMIT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
