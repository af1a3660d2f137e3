//! What a container can be told, and what it answers.

use super::attacks::Attack;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// Moves the process into cgroups, by the files that list their processes.
    Join {
        lists: Vec<PathBuf>,
    },
    /// Gives it a mount namespace of its own with a copy of all mounts.
    CopyMounts {
        slave: bool,
    },
    /// Makes it an ordinary user's, with a copy of all mounts in a user namespace of his own.
    BecomeUser {
        user: u32,
    },
    /// Leaves it nothing but these folders, each with its place there.
    OwnRoot {
        binds: Vec<(PathBuf, PathBuf)>,
    },
    /// Mounts a folder at another place of its namespace.
    Bind {
        from: PathBuf,
        to: PathBuf,
    },
    /// Takes a mount off, in its namespace.
    Unmount {
        place: PathBuf,
    },
    /// Starts children that sleep and end with it. Only before it has threads.
    Fork {
        count: u32,
    },
    /// Starts a child that starts one and ends, and so on, until no process holds our stdin any more.
    /// Only before it has threads.
    Relay,
    /// Starts a thread that lives in a mount namespace of its own.
    ThreadWithMounts,
    /// Starts to write without an end.
    Write {
        path: PathBuf,
        pause: Duration,
    },
    /// Asks how the writing went so far.
    Report,
    /// Opens a file and holds it.
    Open {
        path: PathBuf,
    },
    /// The same with `O_EXCL`, for a disk.
    OpenAlone {
        path: PathBuf,
    },
    /// Copies all its mounts into a tree that no namespace has, and holds that by its descriptor.
    HoldTree,
    /// Maps a file into memory and closes it.
    Map {
        path: PathBuf,
    },
    /// Confines it, and what it starts later: what the kernel's security module is told as the thread's
    /// own label. It must see `/proc`.
    Confine {
        label: String,
    },
    /// Traces processes so that they stop in their end, and becomes an ordinary user's.
    StopAtTheirEnd {
        pids: Vec<u32>,
        user: u32,
    },
    ChangeFolder {
        path: PathBuf,
    },
    ChangeRoot {
        path: PathBuf,
    },
    /// Does what holds up whoever looks at it.
    Attack(Attack),
    /// Gives it a user namespace of its own, in which it stays who it is.
    OwnUsers,
    /// Closes all that it holds.
    LetGo,
    /// Ends its first thread, while another one goes on.
    EndFirstThread,
}

/// What became of an order.
pub type Reply = Result<Report, String>;

/// How a container's writing went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Writes that succeeded.
    pub writes: u64,
    /// Writes that did not.
    pub errors: u64,
    /// What the first of those said.
    pub first_error: Option<String>,
    /// The numbers of the file systems that the writes went to.
    pub file_systems: Vec<String>,
}
