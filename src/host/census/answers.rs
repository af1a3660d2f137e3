//! What a reader reads to answer a question.

use super::proc::{Proc, Task, has_ended};
use super::question::{Door, Excerpt, Filter, Found, Question};
use crate::kernel::{self, Direction, FileLocation, loop_status, mount_namespace_beside, place_of};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::errno_text;
use crate::model::mount::disk_users::{NamespaceId, Tie};
use crate::model::mount::label;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::ownership::beneath;
use crate::safe_path::Way;
use crate::{device_nodes, files, machine};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{FsType, fstatfs};
use rustix::fs::ResolveFlags;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `PROC_USER_INIT_INO`: the user namespace of the machine itself.
const INITIAL_USERS: u64 = 0xEFFF_FFFD;
/// `NSFS_MAGIC` of linux/magic.h; before Linux 3.19 namespaces were files of `/proc`.
const NAMESPACES: [FsType; 2] = [FsType(0x6e73_6673), nix::sys::statfs::PROC_SUPER_MAGIC];
/// What the kernel appends to the path of a file that was removed.
pub(super) const DELETED: &[u8] = b" (deleted)";
/// The longest mount table that is read of a namespace that root did not make: some 40,000 mounts.
const LONGEST_TABLE: usize = 4 << 20;
/// So many lines of other kinds are told of one table: users make as many as they like.
const MOST_LINES: usize = 64;
/// So many namespaces of ordinary users are named in one list.
const MOST_OF_USERS: usize = 4096;
/// So often the time is looked at.
const CLOCK_EVERY: usize = 64;

type Tell<'a> = &'a mut dyn FnMut(Found) -> io::Result<()>;

/// What a reader keeps between questions.
#[derive(Debug)]
pub(super) struct Reading {
    proc: Proc,
    /// The mounts of the namespace that was asked for last.
    last: RefCell<Option<(u64, Mounts)>>,
    own: RefCell<Option<Mounts>>,
}

/// A mount table by the ids of its mounts.
#[derive(Debug, Default)]
struct Mounts {
    table: MountTable,
    by_id: HashMap<u32, usize>,
}

impl Mounts {
    fn of(table: MountTable) -> Self {
        let by_id = table.mounts().iter().enumerate().map(|(at, mount)| (mount.id, at)).collect();
        Self { table, by_id }
    }

    fn get(&self, id: u32) -> Option<&Mount> {
        self.by_id.get(&id).map(|at| &self.table.mounts()[*at])
    }
}

impl Reading {
    pub(super) fn begin(proc: &Path, trusted: u32) -> io::Result<Self> {
        let proc = Proc::at(proc, trusted).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { proc, last: RefCell::default(), own: RefCell::default() })
    }

    /// Between batches mounts change.
    pub(super) fn forget(&self) {
        self.last.take();
        self.own.take();
    }

    /// Tells what it finds; an error of kind `TimedOut` if it was not done in time.
    pub(super) fn answer(
        &self,
        question: &Question,
        filter: &Filter,
        until: Instant,
        tell: Tell<'_>,
    ) -> io::Result<Option<File>> {
        match question {
            Question::Place { task, or_another } => {
                let (task, namespace) = self.place(*task, *or_another)?;
                tell(Found::Namespace { task, namespace })?;
            }
            Question::Table { namespace, tasks } => {
                self.table(*namespace, tasks, filter, until, tell)?;
            }
            Question::Listed(task) => {
                let text = self.proc.table(*task, until)?;
                let table = excerpt(&text, filter, true)?;
                tell(Found::Table { namespace: None, table })?;
            }
            Question::List { these, is_only } => self.list(these, *is_only, until, tell)?,
            Question::Enter(namespaces) => self.enter_listed(namespaces, filter, until, tell)?,
            Question::EnterBy { namespace, doors } => {
                let door = self.door_to(*namespace, doors)?.ok_or(Errno::ESRCH)?;
                self.tell_inside(&door, *namespace, filter, until, tell)?;
            }
            Question::References(pid) => self.references(*pid, until, tell)?,
            Question::Files { pid, namespace } => {
                Search { reading: self, filter, until, tell }.process(*pid, *namespace)?;
            }
            Question::Loop { node, number, file, may_be_ours } => {
                if is_behind(node, *number, file.as_ref(), *may_be_ours, &filter.numbers)? {
                    tell(Found::Yes)?;
                }
            }
            Question::Swap(area) => {
                let place = place_at(area.as_ref())?;
                if filter.numbers.contains(&place.disk.unwrap_or(place.file_system)) {
                    tell(Found::Yes)?;
                }
            }
            Question::ExtIds(tasks) => self.ext_ids(tasks, until, tell)?,
            Question::Open { namespace, doors, is_listed } => {
                if let Some(door) = self.door_to(*namespace, doors)? {
                    return Ok(Some(door));
                }
                if *is_listed {
                    let is_it = |id, _: &File| {
                        if id == *namespace {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    };
                    return files::unless_lack(self.walk(is_it)).map(Option::flatten);
                }
            }
            Question::State(pid) => {
                let text = self.proc.read(&format!("{pid}/stat"))?;
                let (state, began) = machine::state_in(&text).ok_or(Errno::EINVAL)?;
                tell(Found::State(state, began))?;
            }
        }
        Ok(None)
    }

    fn place(&self, task: Task, or_another: bool) -> io::Result<(Task, u64)> {
        let at = |task| self.proc.namespace(task).map(|id| (task, id.0));
        match at(task) {
            Err(error) if has_ended(&error) && or_another => {
                let others = self.proc.tasks(task.pid)?.into_iter().filter(|one| *one != task);
                for other in others {
                    match at(other) {
                        Err(error) if has_ended(&error) => {}
                        placed => return placed,
                    }
                }
                Err(error)
            }
            placed => placed,
        }
    }

    /// The mounts of the namespace in which these live. A process whose root is a directory further
    /// down sees only what is mounted below that: so one at the namespace's own root is asked, and where there is
    /// none this process goes in.
    fn table(
        &self,
        namespace: u64,
        tasks: &[Task],
        filter: &Filter,
        until: Instant,
        tell: Tell<'_>,
    ) -> io::Result<()> {
        let mut doors = tasks.iter().map(|task| self.open_door(&Door::Task(*task), namespace));
        let door = doors.find_map(Result::ok).flatten();
        let user = door.as_ref().and_then(|door| maker(door).ok()).flatten();
        if user.is_some() {
            tell(Found::Maker { namespace, user })?;
        }
        for task in tasks {
            match self.proc.link(&format!("{task}/root")) {
                // For a process of another namespace the kernel spells the path from the root of that.
                Ok(root) if root == Path::new("/") => match self.proc.table(*task, until) {
                    Ok(text) => {
                        let table = excerpt(checked(&text, user)?, filter, false)?;
                        return tell(Found::Table { namespace: Some(namespace), table });
                    }
                    Err(error) if has_ended(&error) => {}
                    Err(error) => return Err(error),
                },
                _ => {}
            }
        }
        let door = door.ok_or(Errno::ESRCH)?;
        self.tell_inside(&door, namespace, filter, until, tell)
    }

    fn tell_inside(
        &self,
        door: &File,
        namespace: u64,
        filter: &Filter,
        until: Instant,
        tell: Tell<'_>,
    ) -> io::Result<()> {
        let user = maker(door)?;
        tell(Found::Maker { namespace, user })?;
        let text =
            self.inside(door, || self.proc.read_table("thread-self/mountinfo", Some(until)))??;
        let table = excerpt(checked(&text, user)?, filter, false)?;
        tell(Found::Table { namespace: Some(namespace), table })
    }

    /// Does something inside a mount namespace, and comes back.
    fn inside<T>(&self, door: &File, work: impl FnOnce() -> T) -> io::Result<T> {
        let own = self.proc.open("thread-self/ns/mnt", OFlag::O_RDONLY)?;
        setns(door, CloneFlags::CLONE_NEWNS)?;
        let done = work();
        if setns(&own, CloneFlags::CLONE_NEWNS).is_err() {
            // All that follows would be about another namespace.
            std::process::abort();
        }
        Ok(done)
    }

    /// Names every namespace that root made, and at most [`MOST_OF_USERS`] of ordinary users.
    fn list(&self, these: &[u64], is_only: bool, until: Instant, tell: Tell<'_>) -> io::Result<()> {
        let these: HashSet<u64> = these.iter().copied().collect();
        let (mut ended, mut of_users, mut all) = (Ok(()), 0, 0);
        self.walk(|namespace, door| {
            ended = must_be_in_time(all, until);
            all += 1;
            if ended.is_ok() && these.contains(&namespace) == is_only {
                ended = maker(door).and_then(|user| {
                    of_users += usize::from(user.is_some());
                    let is_named = user.is_none() || of_users <= MOST_OF_USERS;
                    if is_named { tell(Found::Maker { namespace, user }) } else { Ok(()) }
                });
            }
            if ended.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match of_users.saturating_sub(MOST_OF_USERS) {
            0 => {}
            more => tell(Found::More(more))?,
        }
        ended
    }

    fn enter_listed(
        &self,
        namespaces: &[u64],
        filter: &Filter,
        until: Instant,
        tell: Tell<'_>,
    ) -> io::Result<()> {
        let mut wanted: BTreeSet<u64> = namespaces.iter().copied().collect();
        let mut ended = Ok(());
        self.walk(|namespace, door| {
            if !wanted.remove(&namespace) {
                return ControlFlow::Continue(());
            }
            if Instant::now() > until {
                ended = Err(io::ErrorKind::TimedOut.into());
                return ControlFlow::Break(());
            }
            let told = self.tell_inside(door, namespace, filter, until, tell);
            if let Err(why) = told {
                ended = tell(Found::Unread { namespace, why: why.into() });
            }
            if wanted.is_empty() || ended.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        ended
    }

    /// Goes through the mount namespaces but this thread's, by the kernel's own list (Linux 6.12), and returns the one
    /// at which the visitor stopped. One at a time: there may be more than a process may have descriptors.
    fn walk(
        &self,
        mut visit: impl FnMut(u64, &File) -> ControlFlow<()>,
    ) -> io::Result<Option<File>> {
        for direction in [Direction::Next, Direction::Previous] {
            let mut here = self.proc.open("thread-self/ns/mnt", OFlag::O_RDONLY)?;
            loop {
                here = match mount_namespace_beside(&here, direction) {
                    Ok(next) => next,
                    Err(Errno::ENOENT) => break,
                    Err(errno) => return Err(errno.into()),
                };
                if visit(here.metadata()?.ino(), &here).is_break() {
                    return Ok(Some(here));
                }
            }
        }
        Ok(None)
    }

    /// The first door that leads to this namespace; none if it is gone.
    fn door_to(&self, namespace: u64, doors: &[Door]) -> io::Result<Option<File>> {
        let mut failed = None;
        for door in doors {
            match self.open_door(door, namespace) {
                Ok(Some(door)) => return Ok(Some(door)),
                Ok(None) => {}
                Err(error) if has_ended(&error) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Opens a door, unless it leads elsewhere by now.
    ///
    /// The name may be a user's: a pipe would hold this process for ever, and a device does things when it is
    /// opened (a watchdog, a tape). So it is opened to be looked at alone, without following links, and to read only when
    /// it is known to be a namespace.
    fn open_door(&self, door: &Door, namespace: u64) -> io::Result<Option<File>> {
        let look = OFlag::O_PATH;
        let place = match door {
            Door::Task(task) => self.proc.open(format!("{task}/ns/mnt"), look)?,
            Door::Descriptor { pid, descriptor } => {
                self.proc.open(format!("{pid}/fd/{descriptor}"), look)?
            }
            Door::Mounted { within, place } => {
                let lead =
                    || Way::best().lead(Path::new(place)).map(File::from).map_err(io::Error::from);
                match within {
                    None => lead()?,
                    Some(task) => {
                        let way = self.proc.open(format!("{task}/ns/mnt"), look)?;
                        let found = self.inside(&self.reopened(&way)?, lead)?;
                        // File systems of users answer with any error that they like.
                        found.map_err(|error| io::Error::other(errno_text(&error)))?
                    }
                }
            }
        };
        if place.metadata()?.ino() != namespace {
            return Ok(None);
        }
        self.reopened(&place).map(Some)
    }

    fn reopened(&self, place: &File) -> io::Result<File> {
        if !NAMESPACES.contains(&fstatfs(place)?.filesystem_type()) {
            return Err(Errno::EINVAL.into());
        }
        self.proc.open(format!("thread-self/fd/{}", place.as_raw_fd()), OFlag::O_RDONLY)
    }

    fn references(&self, pid: u32, until: Instant, tell: Tell<'_>) -> io::Result<()> {
        for task in self.proc.tasks(pid)? {
            match self.proc.namespace(task) {
                Ok(NamespaceId(namespace)) => tell(Found::Namespace { task, namespace })?,
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for (at, descriptor) in self.proc.descriptors(Task::first_of(pid))?.into_iter().enumerate()
        {
            must_be_in_time(at, until)?;
            let link = files::unless_lack(self.proc.link(&format!("{pid}/fd/{descriptor}")))?;
            if let Some(NamespaceId(namespace)) = link.and_then(|link| named_by(&link)) {
                tell(Found::Descriptor { descriptor, namespace })?;
            }
        }
        Ok(())
    }

    /// The ids that statfs(2) tells of the ext file systems that are mounted where these live. Asked of the mount, never
    /// of the disk: a dead file system answers too.
    fn ext_ids(&self, tasks: &[Task], until: Instant, tell: Tell<'_>) -> io::Result<()> {
        let roots: Vec<String> = match tasks {
            [] => vec!["thread-self".to_owned()],
            tasks => tasks.iter().take(4).map(ToString::to_string).collect(),
        };
        let mut known = BTreeSet::new();
        for way in roots {
            let table =
                files::unless_lack(self.proc.read_table(&format!("{way}/mountinfo"), Some(until)))?;
            let root = files::unless_lack(self.proc.open(format!("{way}/root"), OFlag::O_PATH))?;
            let (Some(text), Some(root)) = (table, root) else { continue };
            for (at, line) in lines_of(&text).enumerate() {
                must_be_in_time(at, until)?;
                if !has(line, b" - ext") {
                    continue;
                }
                for mount in parsed(line)?.mounts() {
                    if !known.contains(&mount.number)
                        && let Some(id) = id_at(&root, mount)?
                    {
                        known.insert(mount.number);
                        tell(Found::ExtId(mount.number, id))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls with the mounts of this thread's namespace, and of the one in which a process lives.
    fn with_mounts<T>(
        &self,
        task: Task,
        namespace: Option<u64>,
        until: Instant,
        work: impl FnOnce(&Mounts, &Mounts) -> T,
    ) -> io::Result<T> {
        let mut own = self.own.borrow_mut();
        if own.is_none() {
            *own = Some(Mounts::of(parsed(&self.proc.read_table("thread-self/mountinfo", None)?)?));
        }
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(id, _)| Some(*id) != namespace) {
            let text = self.proc.table(task, until)?;
            let mounts = Mounts::of(parsed(checked(&text, Some(0))?)?);
            *last = Some((namespace.unwrap_or_default(), mounts));
        }
        let (Some(own), Some((_, last))) = (own.as_ref(), last.as_ref()) else {
            return Err(Errno::EINVAL.into());
        };
        Ok(work(own, last))
    }
}

/// The open files, maps and directories of a process.
///
/// A file is placed by the id of the mount that it was opened through, which the kernel prints, and the
/// mount by its table. Only what that leaves open (a mount that was unmounted lazily) is looked at itself.
struct Search<'a> {
    reading: &'a Reading,
    filter: &'a Filter,
    until: Instant,
    tell: Tell<'a>,
}

impl Search<'_> {
    fn process(&mut self, pid: u32, namespace: Option<u64>) -> io::Result<()> {
        let proc = &self.reading.proc;
        // A kernel thread has no program, and neither has a process that has ended.
        let mut task = Task::first_of(pid);
        match proc.link(&format!("{task}/exe")) {
            Err(error) if has_ended(&error) => match self.reading.place(task, true) {
                Ok((other, _)) if other != task => task = other,
                _ => return Ok(()),
            },
            Err(error) if !is_too_long(&error) => return Err(error),
            _ => {}
        }
        let descriptors = proc.descriptors(task)?;
        let (reading, until) = (self.reading, self.until);
        reading.with_mounts(task, namespace, until, |own, beside| {
            for (tie, link) in [(Tie::WorkingFolder, "cwd"), (Tie::RootFolder, "root")] {
                self.directory(task, (tie, link), beside)?;
            }
            for (at, number) in descriptors.into_iter().enumerate() {
                must_be_in_time(at, until)?;
                match self.descriptor(task, number, own, beside) {
                    Err(error) if !has_ended(&error) => return Err(error),
                    _ => {}
                }
            }
            self.maps(task)
        })?
    }

    /// Only a directory on a server is not looked at: the server may be gone.
    fn directory(
        &mut self,
        task: Task,
        (tie, link): (Tie, &str),
        beside: &Mounts,
    ) -> io::Result<()> {
        let link = format!("{task}/{link}");
        let path = self.reading.proc.link(&link).unwrap_or_default();
        if beside.table.covering(&path).is_some_and(is_of_a_server) {
            return Ok(());
        }
        self.look_at(&link, tie, &path, beside)
    }

    fn descriptor(
        &mut self,
        task: Task,
        descriptor: u32,
        own: &Mounts,
        beside: &Mounts,
    ) -> io::Result<()> {
        let proc = &self.reading.proc;
        let (tie, link) = (Tie::Descriptor(descriptor), format!("{task}/fd/{descriptor}"));
        let path = match proc.link(&link) {
            // Its mount tells where it is.
            Err(error) if is_too_long(&error) => PathBuf::from("/(a path of more than 4095 bytes)"),
            path => path?,
        };
        let information = format!("{task}/fdinfo/{descriptor}");
        if !path.has_root() {
            let kind = path.as_os_str().as_bytes();
            let may_keep = kind.starts_with(b"socket:") || kind == b"anon_inode:[io_uring]";
            return if may_keep {
                self.without_descriptor(&proc.read(&information)?, &path)
            } else {
                Ok(())
            };
        }
        let mount = proc.mount_of(&information)?;
        match mount.and_then(|id| beside.get(id).or_else(|| own.get(id))) {
            Some(mount) if self.filter.numbers.contains(&mount.number) => {
                self.found(tie, &path, mount.number)
            }
            Some(mount) if may_have_disks(mount) => match proc.place(&link) {
                Ok(FileLocation { disk: Some(disk), .. })
                    if self.filter.numbers.contains(&disk) =>
                {
                    (self.tell)(Found::Node { descriptor, path: path.into() })
                }
                Err(error) if files::is_shortage(&error) => Err(error),
                _ => Ok(()),
            },
            Some(_) => Ok(()),
            None => self.look_at(&link, tie, &path, beside),
        }
    }

    /// Looks at what no mount table places.
    fn look_at(&mut self, link: &str, tie: Tie, path: &Path, beside: &Mounts) -> io::Result<()> {
        let place = match self.reading.proc.place(link) {
            Ok(place) => place,
            Err(error) if has_ended(&error) => return Ok(()),
            // A dead xfs says EIO to every look.
            Err(error) => match self.by_mount(link, beside) {
                Some(file_system) => FileLocation { file_system, disk: None },
                None => {
                    return (self.tell)(Found::Unknown {
                        what: link.to_owned(),
                        why: errno_text(&error),
                    });
                }
            },
        };
        let is_asked = |number: &DeviceNumber| self.filter.numbers.contains(number);
        match (place.disk.filter(is_asked), tie) {
            _ if is_asked(&place.file_system) => self.found(tie, path, place.file_system),
            (Some(_), Tie::Descriptor(descriptor)) => {
                (self.tell)(Found::Node { descriptor, path: path.into() })
            }
            _ => Ok(()),
        }
    }

    /// The file system of a directory by the mount of a descriptor that reads nothing.
    fn by_mount(&self, link: &str, beside: &Mounts) -> Option<DeviceNumber> {
        let proc = &self.reading.proc;
        let place = proc.open(link, OFlag::O_PATH).ok()?;
        let id = proc.mount_of(&format!("thread-self/fdinfo/{}", place.as_raw_fd())).ok()??;
        beside.get(id).map(|mount| mount.number)
    }

    /// Files that a process keeps without a descriptor: that wait in a UNIX socket to be received, or were handed to an
    /// `io_uring`. The kernel tells how many there are, and not of which file system they are.
    fn without_descriptor(&mut self, information: &[u8], keeper: &Path) -> io::Result<()> {
        let counts = [&b"scm_fds:"[..], b"UserFiles:"];
        let has_any = lines_of(information).any(|line| {
            counts
                .iter()
                .filter_map(|count| line.strip_prefix(*count))
                .any(|count| count.trim_ascii() != b"0")
        });
        match self.filter.numbers.first().filter(|_| has_any) {
            Some(number) => self.found(Tie::Undescribed, keeper, *number),
            None => Ok(()),
        }
    }

    fn found(&mut self, tie: Tie, path: &Path, number: DeviceNumber) -> io::Result<()> {
        (self.tell)(Found::File { tie, path: path.into(), number })
    }

    fn maps(&mut self, task: Task) -> io::Result<()> {
        let text = self.reading.proc.read(&format!("{task}/maps"))?;
        let numbers = self.filter.numbers.iter();
        let wanted: Vec<(String, DeviceNumber)> =
            numbers.map(|one| (format!("{:02x}:{:02x}", one.major, one.minor), *one)).collect();
        let mut last = None;
        for line in lines_of(&text) {
            // `from-to rwxp offset device inode   path`
            let Some(device) = line.split(|byte| *byte == b' ').nth(3) else { continue };
            let Some((_, number)) = wanted.iter().find(|(text, _)| text.as_bytes() == device)
            else {
                continue;
            };
            let path = &line[line.iter().position(|byte| *byte == b'/').unwrap_or(line.len())..];
            // A library has several ranges, one after the other.
            if last != Some(path) {
                self.found(Tie::Map, Path::new(OsStr::from_bytes(path)), *number)?;
            }
            last = Some(path);
        }
        Ok(())
    }
}

/// Who made a mount namespace: none if the machine's own user namespace owns it.
fn maker(door: &File) -> io::Result<Option<u32>> {
    let users = match kernel::owner_of_namespace(door) {
        // Before Linux 4.9 it cannot be told.
        Err(Errno::ENOTTY) => return Ok(None),
        users => users?,
    };
    if users.metadata()?.ino() == INITIAL_USERS {
        return Ok(None);
    }
    Ok(Some(kernel::user_of_namespace(door)?))
}

pub(super) fn named_by(link: &Path) -> Option<NamespaceId> {
    super::proc::number_of_link(link.to_str()?, "mnt").map(NamespaceId)
}

/// Whether the kernel has no room for the path of an open file: users make paths as long as they like.
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENAMETOOLONG as i32)
}

fn must_be_in_time(at: usize, until: Instant) -> io::Result<()> {
    if at.is_multiple_of(CLOCK_EVERY) && Instant::now() > until {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(())
}

/// The text, unless a user made the table longer than anything that is read.
fn checked(text: &[u8], user: Option<u32>) -> io::Result<&[u8]> {
    if user.is_some() && text.len() > LONGEST_TABLE {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(text)
}

fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn parsed(text: &[u8]) -> io::Result<MountTable> {
    MountTable::parse(text).map_err(|error| io::Error::other(error.cause))
}

fn has(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// The lines that the filter asks for, with what those mounts are on, and what else tells whose the
/// namespace is; with the mounts of servers, if they are asked for.
fn excerpt(text: &[u8], filter: &Filter, with_servers: bool) -> io::Result<Excerpt> {
    let numbers: Vec<String> = filter.numbers.iter().map(ToString::to_string).collect();
    let label = filter.label.as_ref().map(|label| label.as_os_str().as_bytes());
    let is_asked = |line: &[u8]| -> io::Result<bool> {
        let Some(number) = line.split(|byte| *byte == b' ').nth(2) else {
            return parsed(line).map(|_| false);
        };
        Ok(numbers.iter().any(|one| one.as_bytes() == number)
            || label.is_some_and(|label| has(line, label)) && has_label(line, filter)?)
    };
    let mut kept: Vec<&[u8]> = Vec::new();
    let (mut asked, mut first) = (Vec::new(), None);
    for line in lines_of(text) {
        first = first.or_else(|| id_of(line));
        if is_asked(line)? {
            asked.push(line);
        } else if kept.len() < MOST_LINES
            && (has(line, b" - nsfs ")
                || with_servers && parsed(line)?.mounts().iter().any(is_of_a_server))
        {
            kept.push(line);
        }
    }
    if !asked.is_empty() {
        let mounts = parsed(&asked.join(&b'\n'))?;
        let table = parsed(text)?;
        let below: HashSet<u32> =
            beneath(mounts.mounts(), &table).iter().map(|one| one.id).collect();
        let is_containers = |mount: &Mount| {
            mount
                .root
                .iter()
                .any(|part| filter.container_files.iter().any(|name| part == name.as_str()))
        };
        let files = table.mounts().iter().filter(|mount| is_containers(mount)).take(MOST_LINES);
        let more: HashSet<u32> = files.map(|mount| mount.id).chain(below).collect();
        let is_more = |line: &&[u8]| id_of(line).is_some_and(|id| more.contains(&id));
        kept.retain(|line| !is_more(line));
        let lines = lines_of(text).filter(|line| is_more(line) || asked.contains(line));
        kept.extend(lines.collect::<Vec<_>>());
    }
    Ok(Excerpt { lines: kept.join(&b'\n'), first: first.unwrap_or_default() })
}

fn has_label(line: &[u8], filter: &Filter) -> io::Result<bool> {
    let label = filter.label.as_deref();
    Ok(parsed(line)?.mounts().iter().any(|mount| {
        label::is_labelled(mount)
            && label.is_some_and(|label| Path::new(&mount.source).starts_with(label))
    }))
}

fn id_of(line: &[u8]) -> Option<u32> {
    std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?.parse().ok()
}

fn id_at(root: &File, mount: &Mount) -> io::Result<Option<u64>> {
    let below = mount.target.strip_prefix("/").unwrap_or(&mount.target);
    let look = || -> io::Result<Option<u64>> {
        let place = File::from(Way::best().below(root.as_fd(), below, ResolveFlags::empty())?);
        // Something else may be mounted over it.
        if device_nodes::number_below(&place.metadata()?) != mount.number {
            return Ok(None);
        }
        Ok(Some(rustix::fs::fstatvfs(&place)?.f_fsid))
    };
    match look() {
        Err(error) if files::is_shortage(&error) => Err(error),
        told => Ok(told.ok().flatten()),
    }
}

/// Whether one of these is behind a loop device. As long as a device is open somewhere its owner cannot take
/// the file off at once: so only those are opened whose file may be one of these, is a disk, or cannot be seen.
fn is_behind(
    node: &Path,
    number: DeviceNumber,
    file: &Path,
    may_be_ours: bool,
    numbers: &[DeviceNumber],
) -> io::Result<bool> {
    if !may_be_ours {
        let seen = match file.as_os_str().as_bytes().strip_suffix(DELETED) {
            Some(_) => file.parent().unwrap_or(file),
            None => file,
        };
        if place_at(seen).is_ok_and(|place| place.disk.is_none()) {
            return Ok(false);
        }
    }
    let device = File::open(node)?;
    if device_nodes::number_of(&device.metadata()?) != Some(number) {
        return Err(io::Error::other(format!("{} is another device", node.display())));
    }
    let status = loop_status(&device)?;
    Ok(numbers.contains(&status.file_system()) || numbers.contains(&status.disk()))
}

fn place_at(path: &Path) -> io::Result<FileLocation> {
    let root = File::open("/")?;
    Ok(place_of(root, path.to_str().ok_or(Errno::EILSEQ)?)?)
}

/// Whether a server outside of this kernel answers for the mount's files, which may be gone.
pub(super) fn is_of_a_server(mount: &Mount) -> bool {
    const TYPES: [&str; 9] =
        ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "glusterfs"];
    TYPES.contains(&mount.fs_type.as_str()) || mount.fs_type.starts_with("fuse")
}

/// Whether an open file of this mount may be a disk's node, and can be asked without waiting for
/// a server.
fn may_have_disks(mount: &Mount) -> bool {
    const TYPES: [&str; 13] = [
        "devtmpfs", "tmpfs", "ramfs", "rootfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs",
        "f2fs", "squashfs", "erofs",
    ];
    TYPES.contains(&mount.fs_type.as_str()) && mount.options.split(',').all(|one| one != "nodev")
}
