//! What the guest can be told, one JSON value a line, and what it answers.

use crate::support::pods::{Order, Report};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Runs a program to its end, both its streams in one pipe as kubelet has them; it is killed
    /// when it takes longer.
    Run { argv: Vec<String>, limit: Duration },
    /// Writes a file, with its folders.
    Put { path: PathBuf, text: String },
    /// Reads a file.
    Read { path: PathBuf },
    /// Looks at all disks.
    Disks,
    /// Puts a map of the driver's own over the volume's disk.
    Cover { volume: String },
    /// Puts the volume's disk, which came back, under its map.
    Switch { volume: String },
    /// What waits in maps fails; those that nothing has open are removed.
    EndMaps,
    /// Starts a container of a pod, which sees these folders at those places.
    Start { name: String, pod: String, sees: Vec<(PathBuf, PathBuf)> },
    /// Tells a container to do something.
    Tell { name: String, order: Order },
    /// Ends a container, as a runtime kills it.
    End { name: String },
    /// Ends all containers, and removes the cgroups of their pods.
    EndAll,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Said {
    /// The first line, not asked for: seconds since the kernel began.
    Ready {
        uptime: f64,
        kernel: String,
    },
    /// How a program ended: its exit status, none if it was killed.
    Ended {
        code: Option<i32>,
        text: String,
    },
    /// The PID of what was started.
    Started {
        pid: u32,
    },
    /// How long the switch of a map took.
    Switched {
        took: Duration,
    },
    Told(Report),
    Text(String),
    Disks(Vec<Disk>),
    Done,
}

/// A disk of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    /// The kernel's name, such as `vdb`.
    pub(crate) name: String,
    /// Major and minor number, such as `253:16`.
    pub(crate) number: String,
    /// All that it shows of a serial, on whatever bus.
    pub(crate) serial: String,
    /// The kernel's name of the one disk that it is made of, if that is there.
    pub(crate) below: Option<String>,
}

/// What became of a request.
pub(crate) type Answer = Result<Said, String>;

/// The name of the channel on both sides.
pub(crate) const CHANNEL: &str = "incloud-disk-vm";
