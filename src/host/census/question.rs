//! What the parent asks of a reader process, and what the reader answers.
//!
//! Paths of others are `OsString`s: they need not be UTF-8, and a `PathBuf` that is not cannot be sent.

use super::proc::Task;
use crate::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, errno_text};
use crate::model::mount::disk_users::{NamespaceId, Tie};
use crate::model::mount::mountinfo::MountTable;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Questions that share a filter and a time limit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) filter: Filter,
    /// How long all of them may take.
    pub(super) limit: Duration,
    /// How long one of them may take.
    pub(super) each: Duration,
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
    /// Namespaces whose mounts the parent has already, or that could not be read.
    pub(super) known: BTreeSet<NamespaceId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Question {
    /// The mount namespace of a thread, or of another thread of its process if that one has ended; with the namespace's
    /// mounts, unless they are known.
    Home(Task),
    /// The mounts that a thread lists, with the servers among them: readable also while the thread's links
    /// are not.
    Listed(Task),
    /// The namespaces that the kernel lists: only these, or all but these.
    List { these: BTreeSet<NamespaceId>, is_only: bool },
    /// The mounts of namespaces that the kernel lists.
    Enter(BTreeSet<NamespaceId>),
    /// The mounts of a namespace to which one of these leads.
    EnterBy { namespace: NamespaceId, doors: Vec<Door> },
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
    Open { namespace: NamespaceId, doors: Vec<Door> },
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
    /// The question is done; it took so long.
    End(Result<(), Why>, Duration),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Found {
    Home(Task, NamespaceId),
    /// A namespace, and the ordinary user who made it.
    Listed(NamespaceId, Option<u32>),
    Table(Excerpt),
    Unread(NamespaceId, Why),
    Descriptor(u32, NamespaceId),
    File(Tie, OsString, DeviceNumber),
    Node(u32, OsString),
    /// What a process holds that could not be looked at, and why.
    Unknown(String),
    ExtId(DeviceNumber, u64),
    Began(u64),
    /// The reader's descriptor of a namespace, which it closes when it is asked again.
    Opened(i32),
    Yes,
}

impl Found {
    /// The namespace that is known by this, or known to be unreadable.
    pub(super) fn known(&self) -> Option<NamespaceId> {
        match self {
            Self::Table(excerpt) => excerpt.namespace,
            Self::Unread(namespace, _) => Some(*namespace),
            _ => None,
        }
    }
}

/// What the filter asks for of a mount table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Excerpt {
    /// The namespace, unless these are the mounts that one process lists; and the ordinary user who made it.
    pub(super) namespace: Option<NamespaceId>,
    pub(super) user: Option<u32>,
    /// They need not be UTF-8, so each byte is sent as one character: as a list of numbers they take four times as long.
    pub(super) lines: String,
    /// The id of the table's first mount: ids are unique, so it tells which namespace a table is of.
    pub(super) first: u32,
}

impl Excerpt {
    pub(super) fn table(&self) -> Result<MountTable, Error> {
        let bytes = self.lines.chars().filter_map(|one| u8::try_from(one).ok());
        MountTable::parse(&bytes.collect::<Vec<_>>())
    }
}

/// Why a question has no whole answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Why {
    /// An error of the kernel's, or another one.
    Failed(Option<i32>, String),
    /// Its time was over.
    Late,
    /// The reader did not come back from it.
    Stalled,
    /// It was not asked, because others of the same owner had stalled or taken all the time.
    Skipped,
}

impl Why {
    pub(super) fn is(&self, errno: Errno) -> bool {
        matches!(self, Self::Failed(Some(failed), _) if *failed == errno as i32)
    }

    pub(super) fn is_lack(&self) -> bool {
        matches!(self, Self::Failed(Some(errno), _) if files::is_lack(&io::Error::from_raw_os_error(*errno)))
    }

    /// Whether the kernel refuses, however often it is asked.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Failed(..)) && !self.is_lack()
    }

    pub(super) fn text(&self) -> String {
        let text = match self {
            Self::Failed(_, text) => text,
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
impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Failed(error.raw_os_error(), errno_text(&error)),
        }
    }
}

impl From<Why> for io::Error {
    fn from(why: Why) -> Self {
        match why {
            Why::Failed(Some(errno), _) => Self::from_raw_os_error(errno),
            Why::Failed(None, text) => Self::other(text),
            _ => io::ErrorKind::TimedOut.into(),
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
