//! What the parent asks of a reader process, and what the reader answers.
//!
//! Paths of others are `OsString`s: they need not be UTF-8, and a `PathBuf` that is not cannot be sent.

use super::proc::Task;
use crate::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::errno_text;
use crate::model::mount::disk_users::Tie;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Questions that share a filter and a time limit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) filter: Filter,
    /// How long all of them may take, in milliseconds.
    pub(super) limit: u64,
    /// After this time no further question is begun: the parent then decides whose turn it is.
    pub(super) slice: u64,
    /// How long one of them may take.
    pub(super) each: u64,
    pub(super) questions: Vec<Question>,
}

/// Which mounts the parent wants to know. The reader keeps no others, so that the memory of both
/// depends on the volumes in question and not on how many mounts users make.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Filter {
    /// The file systems.
    pub(super) numbers: Vec<DeviceNumber>,
    /// Also mounts whose source is one of our labels at or below this path.
    pub(super) label: Option<PathBuf>,
    /// Names of files that an orchestrator makes for each container.
    pub(super) container_files: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Question {
    /// The mount namespace of a thread, or of another one of its process if it has ended.
    Place(Task),
    /// The mounts of a namespace, where these live or to which these lead.
    Table { namespace: u64, doors: Vec<Door> },
    /// The mounts that a thread lists, with the servers among them: readable also while the thread's links
    /// are not.
    Listed(Task),
    /// The namespaces that the kernel lists: only these, or all but these.
    List { these: Vec<u64>, is_only: bool },
    /// The mounts of namespaces that the kernel lists.
    Enter(Vec<u64>),
    /// What of a process keeps a mount namespace alive.
    References(u32),
    /// What a process holds of the file systems.
    Files(u32),
    /// What is behind a loop device: its name, number and node, the file as the kernel spells it, and
    /// whether that file may be on one of the file systems.
    Loop { node: PathBuf, number: DeviceNumber, file: OsString, may_be_ours: bool },
    /// Where a swap area is.
    Swap(OsString),
    /// The ids of the ext file systems that are mounted where these live.
    ExtIds(Vec<Task>),
    /// Opens a namespace: by one of these, else by the kernel's list.
    Open { namespace: u64, doors: Vec<Door> },
    /// When a process began.
    Began(u32),
}

/// A way to a mount namespace. Each is a name that others may have given to something else meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Door {
    Task(Task),
    Descriptor {
        pid: u32,
        descriptor: u32,
    },
    /// A mount of it, in the namespace where this thread lives; in the reader's own if none is given.
    Mounted {
        within: Option<Task>,
        place: OsString,
    },
}

/// One line of a reader's answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Line {
    Found(Found),
    /// The question is done; it took so many microseconds.
    End(Result<(), Why>, u64),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Found {
    Namespace {
        task: Task,
        namespace: u64,
    },
    /// Who made a namespace; none if the machine's own user namespace owns it.
    Maker {
        namespace: u64,
        user: Option<u32>,
    },
    /// So many more namespaces of ordinary users are listed.
    More(usize),
    /// The lines of a mount table that the filter asks for.
    Table {
        namespace: Option<u64>,
        lines: Bytes,
        /// The id of the table's first mount: ids are unique, so it tells which namespace a table is of.
        first: u32,
    },
    Unread {
        namespace: u64,
        why: KernelError,
    },
    Descriptor {
        descriptor: u32,
        namespace: u64,
    },
    File {
        tie: Tie,
        path: OsString,
        number: DeviceNumber,
    },
    Node {
        descriptor: u32,
        path: OsString,
    },
    Unknown {
        what: String,
        why: String,
    },
    ExtId(DeviceNumber, u64),
    Began(u64),
    /// The reader's descriptor of a namespace, which it closes when it is asked again.
    Opened(i32),
    Yes,
}

/// Bytes that need not be UTF-8, each as the character of its number: a list of numbers takes four times as long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bytes(String);

impl Bytes {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().map(char::from).collect())
    }

    pub(super) fn get(&self) -> Vec<u8> {
        self.0.chars().filter_map(|one| u8::try_from(one).ok()).collect()
    }
}

/// Why a question has no whole answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Why {
    Failed(KernelError),
    /// Its time was over.
    Late,
    /// The reader did not come back from it.
    Stalled,
    /// It was not asked, because others of the same owner had stalled or taken all the time.
    Skipped,
}

impl Why {
    pub(super) fn is_lack(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_lack())
    }

    pub(super) fn text(&self) -> String {
        let text = match self {
            Self::Failed(failure) => &failure.text,
            Self::Late => "it has so many mounts or open files that reading them was given up",
            Self::Stalled => "the kernel does not answer questions about it",
            Self::Skipped => {
                "not examined: other processes of the same owner do not answer, or there are too many of them"
            }
        };
        text.to_owned()
    }
}

/// An error of the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KernelError {
    errno: Option<i32>,
    text: String,
}

impl KernelError {
    pub(super) fn is_lack(&self) -> bool {
        self.errno.is_some_and(|errno| files::is_lack(&io::Error::from_raw_os_error(errno)))
    }

    pub(super) fn is(&self, errno: Errno) -> bool {
        self.errno == Some(errno as i32)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.is(Errno::ENOENT) || self.is(Errno::ESRCH)
    }
}

impl From<io::Error> for KernelError {
    fn from(error: io::Error) -> Self {
        Self { errno: error.raw_os_error(), text: errno_text(&error) }
    }
}

impl From<KernelError> for io::Error {
    fn from(failure: KernelError) -> Self {
        match failure.errno {
            Some(errno) => Self::from_raw_os_error(errno),
            None => Self::other(failure.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn paths_need_not_be_utf_8() {
        let path = OsString::from_vec(b"/a\xff".to_vec());
        let text = serde_json::to_vec(&Question::Swap(path.clone())).unwrap();
        let Question::Swap(read) = serde_json::from_slice(&text).unwrap() else { panic!() };
        assert_eq!(read, path);
    }
}
