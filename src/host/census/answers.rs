//! What a reader reads to answer a question.

use super::proc::{INITIAL_USERS, Proc, Task, has_ended, named_by};
use super::question::{Batch, Door, Excerpt, Filter, Found, Line, Question, Why};
use super::scan::{SLICE, price};
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
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

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

/// The mounts of the namespace where a process lives.
struct Mounts {
    table: MountTable,
    /// By the id of a mount, with those of this thread's namespace: its file system, and whether device nodes work there.
    by_id: ById,
}

type ById = HashMap<u32, (DeviceNumber, bool)>;

fn by_id(table: &MountTable) -> impl Iterator<Item = (u32, (DeviceNumber, bool))> {
    table.mounts().iter().map(|mount| (mount.id, (mount.number, may_have_disks(mount))))
}

/// Tells what it finds, and the end of each question, until the time for the batch or its slice is over. What it opens
/// stays open until it is asked again.
pub(super) fn answer_all(
    proc: &Proc,
    batch: &Batch,
    opened: &mut Option<File>,
    say: &mut dyn FnMut(Line) -> io::Result<usize>,
) -> io::Result<()> {
    *opened = None;
    let (until, filter, paid) = (Instant::now(), &batch.filter, Duration::ZERO);
    let (slice, limit) = (until + SLICE, until + batch.limit);
    let known = filter.known.clone();
    let mut answering =
        Answering { proc, filter, until, paid, say, opened, known, own: None, last: None };
    for (at, question) in batch.questions.iter().enumerate() {
        let (begin, paid) = (Instant::now(), answering.paid);
        if at > 0 && begin + paid >= slice {
            break;
        }
        answering.until = earlier(limit, paid).min(begin + batch.each);
        let ended = answering.answer(question).map_err(Why::from);
        let took = begin.elapsed() + answering.paid.saturating_sub(paid);
        (answering.say)(Line::End(ended, took))?;
    }
    Ok(())
}

fn earlier(moment: Instant, by: Duration) -> Instant {
    moment.checked_sub(by).unwrap_or(moment)
}

/// Answers the questions of one batch.
///
/// An open file is placed by the id of the mount that it was opened through, which the kernel prints, and the
/// mount by its table. Only what that leaves open (a mount that was unmounted lazily) is looked at itself.
struct Answering<'a> {
    proc: &'a Proc,
    filter: &'a Filter,
    until: Instant,
    /// What the batch's answers cost so far.
    paid: Duration,
    /// Answers how many bytes it took.
    say: &'a mut dyn FnMut(Line) -> io::Result<usize>,
    opened: &'a mut Option<File>,
    known: BTreeSet<NamespaceId>,
    /// The mounts of this thread's namespace.
    own: Option<ById>,
    /// The mounts of the namespace whose files were asked for last.
    last: Option<(Option<NamespaceId>, Rc<Mounts>)>,
}

impl Answering<'_> {
    /// Tells what it finds; an error of kind `TimedOut` if it was not done in time.
    fn answer(&mut self, question: &Question) -> io::Result<()> {
        match question {
            Question::Home(task) => self.home(*task),
            Question::Listed(task) => {
                let text = self.proc.table(*task, self.until)?;
                self.tell(Found::Table(excerpt(&text, self.filter, true)?))
            }
            Question::List { these, is_only } => self.list(these, *is_only),
            Question::Enter(namespaces) => self.enter_listed(namespaces.clone()),
            Question::EnterBy { namespace, doors } => {
                let door = self.door_to(*namespace, doors)?.ok_or(Errno::ESRCH)?;
                self.tell_inside(*namespace, &door)
            }
            Question::References(pid) => self.references(*pid),
            Question::Files(pid) => self.files(*pid),
            Question::Loop { node, number, file, may_be_ours } => {
                self.tell_if(self.is_behind(node, *number, file.as_ref(), *may_be_ours)?)
            }
            Question::Swap(area) => {
                let place = place_at(area.as_ref())?;
                let number = place.disk.unwrap_or(place.file_system);
                self.tell_if(self.filter.numbers.contains(&number))
            }
            Question::ExtIds(tasks) => self.ext_ids(tasks),
            Question::Open { namespace, doors } => {
                let is_other = |id, _: &File| Ok(id != *namespace);
                let opened = match self.door_to(*namespace, doors)? {
                    None => files::unless_lack(walk(self.proc, is_other))?.flatten(),
                    opened => opened,
                };
                let number = opened.as_ref().map(AsRawFd::as_raw_fd);
                *self.opened = opened;
                number.map_or(Ok(()), |number| self.tell(Found::Opened(number)))
            }
            Question::Began(pid) => {
                let text = self.proc.read(&format!("{pid}/stat"))?;
                let (_, began) = machine::state_in(&text).ok_or(Errno::EINVAL)?;
                self.tell(Found::Began(began))
            }
        }
    }

    fn tell(&mut self, found: Found) -> io::Result<()> {
        let price = price((self.say)(Line::Found(found))?);
        self.paid += price;
        self.until = earlier(self.until, price);
        Ok(())
    }

    fn tell_if(&mut self, is_so: bool) -> io::Result<()> {
        if is_so { self.tell(Found::Yes) } else { Ok(()) }
    }

    /// Called for each of many things.
    fn must_be_in_time(&self, at: usize) -> io::Result<()> {
        if at.is_multiple_of(CLOCK_EVERY) && Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Where a thread lives, or another one of its process if it has ended.
    fn place(&self, task: Task) -> io::Result<(Task, NamespaceId)> {
        let at = |task: Task| self.proc.namespace(task).map(|id| (task, id));
        let mut placed = at(task);
        if placed.as_ref().is_err_and(has_ended) {
            for other in self.proc.tasks(task.pid)?.into_iter().filter(|one| *one != task) {
                placed = at(other);
                if !placed.as_ref().is_err_and(has_ended) {
                    break;
                }
            }
        }
        placed
    }

    fn home(&mut self, task: Task) -> io::Result<()> {
        let (task, namespace) = self.place(task)?;
        self.tell(Found::Home(task, namespace))?;
        if self.known.contains(&namespace) {
            return Ok(());
        }
        match self.table(task, namespace) {
            Err(error) if has_ended(&error) => return Err(error),
            Err(error) => self.tell(Found::Unread(namespace, error.into()))?,
            Ok(()) => {}
        }
        self.known.insert(namespace);
        Ok(())
    }

    /// The mounts where a process lives. If its root is a directory further down it sees only what is mounted below
    /// that: then this process goes in.
    fn table(&mut self, task: Task, namespace: NamespaceId) -> io::Result<()> {
        let door = self.open_door(&Door::Task(task), namespace);
        // For a process of another namespace the kernel spells the path from the root of that.
        if !self.proc.link(&format!("{task}/root")).is_ok_and(|root| root == Path::new("/")) {
            return self.tell_inside(namespace, &door?.ok_or(Errno::ESRCH)?);
        }
        let user = door.ok().flatten().and_then(|door| maker(&door).ok()).flatten();
        let text = self.proc.table(task, self.until)?;
        self.tell_table(namespace, user, &text)
    }

    fn tell_inside(&mut self, namespace: NamespaceId, door: &File) -> io::Result<()> {
        let user = maker(door)?;
        let read = || self.proc.read_table("thread-self/mountinfo", Some(self.until));
        let text = self.inside(door, read)??;
        self.tell_table(namespace, user, &text)
    }

    fn tell_table(
        &mut self,
        namespace: NamespaceId,
        user: Option<u32>,
        text: &[u8],
    ) -> io::Result<()> {
        let found = excerpt(checked(text, user)?, self.filter, false)?;
        self.tell(Found::Table(Excerpt { namespace: Some(namespace), user, ..found }))
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

    /// Names every namespace that root made, and as many of ordinary users as there is room for.
    fn list(&mut self, these: &BTreeSet<NamespaceId>, is_only: bool) -> io::Result<()> {
        let (mut of_users, mut all) = (0_usize, 0);
        let ended = walk(self.proc, |namespace, door| {
            self.must_be_in_time(all)?;
            all += 1;
            if these.contains(&namespace) == is_only {
                let user = maker(door)?;
                of_users += usize::from(user.is_some());
                if user.is_none() || of_users <= MOST_OF_USERS {
                    self.tell(Found::Listed(namespace, user))?;
                }
            }
            Ok(true)
        });
        if of_users > MOST_OF_USERS { Err(io::ErrorKind::TimedOut.into()) } else { ended.map(drop) }
    }

    fn enter_listed(&mut self, mut wanted: BTreeSet<NamespaceId>) -> io::Result<()> {
        let ended = walk(self.proc, |namespace, door| {
            if wanted.remove(&namespace) {
                self.must_be_in_time(0)?;
                if let Err(why) = self.tell_inside(namespace, door) {
                    self.tell(Found::Unread(namespace, why.into()))?;
                }
            }
            Ok(!wanted.is_empty())
        });
        ended.map(drop)
    }

    /// The first door that leads to this namespace; none if it is gone.
    fn door_to(&self, namespace: NamespaceId, doors: &[Door]) -> io::Result<Option<File>> {
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
    fn open_door(&self, door: &Door, namespace: NamespaceId) -> io::Result<Option<File>> {
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
        if place.metadata()?.ino() != namespace.0 {
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

    fn references(&mut self, pid: u32) -> io::Result<()> {
        for task in self.proc.tasks(pid)? {
            match self.proc.namespace(task) {
                Ok(namespace) => self.tell(Found::Home(task, namespace))?,
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let descriptors = self.proc.descriptors(Task::first_of(pid))?;
        for (at, descriptor) in descriptors.into_iter().enumerate() {
            self.must_be_in_time(at)?;
            let link = files::unless_lack(self.proc.link(&format!("{pid}/fd/{descriptor}")))?;
            if let Some(namespace) = link.and_then(|link| named_by(&link)) {
                self.tell(Found::Descriptor(descriptor, namespace))?;
            }
        }
        Ok(())
    }

    /// The ids that statfs(2) tells of the ext file systems that are mounted where these live. Asked of the mount, never
    /// of the disk: a dead file system answers too.
    fn ext_ids(&mut self, tasks: &[Task]) -> io::Result<()> {
        let mut ways: Vec<String> = tasks.iter().take(4).map(ToString::to_string).collect();
        if ways.is_empty() {
            ways.push("thread-self".to_owned());
        }
        let mut known = BTreeSet::new();
        for way in ways {
            let text = self.proc.read_table(&format!("{way}/mountinfo"), Some(self.until));
            let root = files::unless_lack(self.proc.open(format!("{way}/root"), OFlag::O_PATH))?;
            let (Some(text), Some(root)) = (files::unless_lack(text)?, root) else { continue };
            let table = parsed(&text)?;
            for mount in table.mounts().iter().filter(|one| one.fs_type.starts_with("ext")) {
                self.must_be_in_time(0)?;
                if !known.contains(&mount.number)
                    && let Some(id) = id_at(&root, mount)?
                {
                    known.insert(mount.number);
                    self.tell(Found::ExtId(mount.number, id))?;
                }
            }
        }
        Ok(())
    }

    fn mounts(&mut self, task: Task) -> io::Result<Rc<Mounts>> {
        let namespace = self.proc.namespace(task).ok();
        if let Some((id, last)) = &self.last
            && id.is_some()
            && *id == namespace
        {
            return Ok(Rc::clone(last));
        }
        let mut all = match self.own.take() {
            Some(own) => own,
            None => {
                by_id(&parsed(&self.proc.read_table("thread-self/mountinfo", None)?)?).collect()
            }
        };
        self.own = Some(all.clone());
        let table = parsed(checked(&self.proc.table(task, self.until)?, Some(0))?)?;
        all.extend(by_id(&table));
        let mounts = Rc::new(Mounts { table, by_id: all });
        self.last = Some((namespace, Rc::clone(&mounts)));
        Ok(mounts)
    }

    /// The open files, maps and directories of a process.
    fn files(&mut self, pid: u32) -> io::Result<()> {
        // A kernel thread has no program, and neither has a process that has ended.
        let mut task = Task::first_of(pid);
        match self.proc.link(&format!("{task}/exe")) {
            Err(error) if has_ended(&error) => match self.place(task) {
                Ok((other, _)) if other != task => task = other,
                _ => return Ok(()),
            },
            Err(error) if !is_too_long(&error) => return Err(error),
            _ => {}
        }
        let descriptors = self.proc.descriptors(task)?;
        let mounts = self.mounts(task)?;
        for (tie, link) in [(Tie::WorkingFolder, "cwd"), (Tie::RootFolder, "root")] {
            self.open_file(tie, &format!("{task}/{link}"), &mounts)?;
        }
        for (at, number) in descriptors.into_iter().enumerate() {
            self.must_be_in_time(at)?;
            let link = format!("{task}/fd/{number}");
            self.open_file(Tie::Descriptor(number), &link, &mounts)?;
        }
        self.maps(task)
    }

    fn open_file(&mut self, tie: Tie, link: &str, mounts: &Mounts) -> io::Result<()> {
        match self.placed_file(tie, link, mounts) {
            Err(error) if has_ended(&error) => Ok(()),
            placed => placed,
        }
    }

    fn placed_file(&mut self, tie: Tie, link: &str, mounts: &Mounts) -> io::Result<()> {
        let path = match self.proc.link(link) {
            // Its mount tells where it is.
            Err(error) if is_too_long(&error) => PathBuf::from("/(a path of more than 4095 bytes)"),
            path => path?,
        };
        let information = link.replace("/fd/", "/fdinfo/");
        let mount = match tie {
            Tie::Descriptor(_) if !path.has_root() => {
                let kind = path.as_os_str().as_bytes();
                if kind.starts_with(b"socket:") || kind == b"anon_inode:[io_uring]" {
                    self.without_descriptor(&self.proc.read(&information)?, &path)?;
                }
                return Ok(());
            }
            Tie::Descriptor(_) => self.proc.mount_of(&information)?,
            // Of a directory on a server nothing is asked: the server may be gone.
            _ if mounts.table.covering(&path).is_some_and(is_of_a_server) => return Ok(()),
            // By the mount of a descriptor that reads nothing: a dead xfs says EIO to every look.
            _ => self.mount_by_opening(link),
        };
        let is_asked = |number: &DeviceNumber| self.filter.numbers.contains(number);
        match (mount.and_then(|id| mounts.by_id.get(&id)), tie) {
            (Some((number, _)), _) if is_asked(number) => self.found(tie, &path, *number),
            (Some((_, true)), Tie::Descriptor(descriptor)) => match self.proc.place(link) {
                Ok(place) if place.disk.is_some_and(|disk| is_asked(&disk)) => {
                    self.tell(Found::Node(descriptor, path.into()))
                }
                Err(error) if files::is_shortage(&error) => Err(error),
                _ => Ok(()),
            },
            (Some(_), _) => Ok(()),
            (None, _) => self.look_at(link, tie, &path),
        }
    }

    fn mount_by_opening(&self, link: &str) -> Option<u32> {
        let place = self.proc.open(link, OFlag::O_PATH).ok()?;
        self.proc.mount_of(&format!("thread-self/fdinfo/{}", place.as_raw_fd())).ok()?
    }

    /// Looks at what no mount table places.
    fn look_at(&mut self, link: &str, tie: Tie, path: &Path) -> io::Result<()> {
        let place = match self.proc.place(link) {
            Ok(place) => place,
            Err(error) if has_ended(&error) => return Ok(()),
            Err(error) => {
                return self.tell(Found::Unknown(format!("{link}: {}", errno_text(&error))));
            }
        };
        let is_asked = |number: &DeviceNumber| self.filter.numbers.contains(number);
        match (place.disk.filter(is_asked), tie) {
            _ if is_asked(&place.file_system) => self.found(tie, path, place.file_system),
            (Some(_), Tie::Descriptor(descriptor)) => {
                self.tell(Found::Node(descriptor, path.into()))
            }
            _ => Ok(()),
        }
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
        self.tell(Found::File(tie, path.into(), number))
    }

    fn maps(&mut self, task: Task) -> io::Result<()> {
        let text = self.proc.read(&format!("{task}/maps"))?;
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

    /// Whether one of these is behind a loop device. As long as a device is open somewhere its owner cannot take
    /// the file off at once: so only those are opened whose file may be one of these, is a disk, or cannot be seen.
    fn is_behind(
        &self,
        node: &Path,
        number: DeviceNumber,
        file: &Path,
        may_be_ours: bool,
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
        let numbers = &self.filter.numbers;
        Ok(numbers.contains(&status.file_system()) || numbers.contains(&status.disk()))
    }
}

/// Goes through the mount namespaces but this thread's, by the kernel's own list (Linux 6.12), as long as the visitor says
/// so, and returns the one at which it stopped. One at a time: there may be more than a process may have descriptors.
fn walk(
    proc: &Proc,
    mut goes_on: impl FnMut(NamespaceId, &File) -> io::Result<bool>,
) -> io::Result<Option<File>> {
    for direction in [Direction::Next, Direction::Previous] {
        let mut here = proc.open("thread-self/ns/mnt", OFlag::O_RDONLY)?;
        loop {
            here = match mount_namespace_beside(&here, direction) {
                Ok(next) => next,
                Err(Errno::ENOENT) => break,
                Err(errno) => return Err(errno.into()),
            };
            if !goes_on(NamespaceId(here.metadata()?.ino()), &here)? {
                return Ok(Some(here));
            }
        }
    }
    Ok(None)
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

/// Whether the kernel has no room for the path of an open file: users make paths as long as they like.
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENAMETOOLONG as i32)
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
/// namespace is; with the mounts of servers, if they are asked for. And the id of the first mount of all.
fn excerpt(text: &[u8], filter: &Filter, with_servers: bool) -> io::Result<Excerpt> {
    let first = parsed(lines_of(text).next().unwrap_or_default())?;
    let first = first.mounts().first().map_or(0, |mount| mount.id);
    let numbers = filter.numbers.iter().map(|number| format!(" {number} ").into_bytes());
    let label = filter.label.iter().map(|label| label.as_os_str().as_bytes().to_vec());
    let marks: Vec<_> = numbers.chain(label).chain([b" - nsfs ".to_vec()]).collect();
    // Most tables of users have none of these, and are long.
    let is_marked = |line: &&[u8]| with_servers || marks.iter().any(|mark| has(line, mark));
    let mut table = parsed(&lines_of(text).filter(is_marked).collect::<Vec<_>>().join(&b'\n'))?;
    let is_labelled = |mount: &Mount| {
        let label = filter.label.as_deref();
        label.is_some_and(|label| Path::new(&mount.source).starts_with(label))
            && label::is_labelled(mount)
    };
    let asked = table.mounts().iter();
    let asked = asked.filter(|one| filter.numbers.contains(&one.number) || is_labelled(one));
    let asked: Vec<Mount> = asked.cloned().collect();
    if !asked.is_empty() {
        table = parsed(text)?;
    }
    let has_containers_file = |mount: &Mount| {
        mount
            .root
            .iter()
            .any(|part| filter.container_files.iter().any(|name| part == name.as_str()))
    };
    let leads_on =
        |mount: &&Mount| mount.fs_type == "nsfs" || with_servers && is_of_a_server(mount);
    let tells_whose = |mount: &&Mount| !asked.is_empty() && has_containers_file(mount);
    let mut ids: HashSet<u32> = asked.iter().map(|mount| mount.id).collect();
    ids.extend(beneath(&asked, &table).iter().map(|mount| mount.id));
    ids.extend(table.mounts().iter().filter(leads_on).take(MOST_LINES).map(|mount| mount.id));
    ids.extend(table.mounts().iter().filter(tells_whose).take(MOST_LINES).map(|mount| mount.id));
    let is_kept = |line: &&[u8]| id_of(line).is_some_and(|id| ids.contains(&id));
    let lines: Vec<&[u8]> = lines_of(text).filter(is_kept).collect();
    let lines = lines.join(&b'\n');
    Ok(Excerpt { lines: lines.into_iter().map(char::from).collect(), first, ..Excerpt::default() })
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
