//! One bounded scan of other processes: readers are started, watched and abandoned here.

use super::answers::Reading;
use super::proc::Proc;
use super::question::{Batch, Door, Filter, Found, Line, Question, Why};
use super::reader::{DONE, GO, READY, WORD};
use crate::files;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::Process;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a scan may take of a call in all.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// For this machine's own processes and namespaces, and for pods and containers.
    pub system: Duration,
    /// For what ordinary users made.
    pub users: Duration,
}

impl Budget {
    /// What a call has that says nothing else.
    pub const USUAL: Self = Self { system: Duration::from_secs(20), users: Duration::from_secs(1) };

    /// The budget of a call that must end within this time.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        Self { system: Self::USUAL.system.min(time / 2), users: Self::USUAL.users.min(time / 4) }
    }
}

/// A reader that neither answers nor runs for so long has stalled. What does not wait takes microseconds.
const STALL: Duration = Duration::from_millis(300);
/// How often a reader is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long a reader may take to begin: its program may have to come from a slow disk.
const BEGINS: Duration = Duration::from_secs(5);
/// After so many stalls no more is asked of the same owner, of all users, and of root or all pods and containers: what users
/// do never keeps a pod from being read.
const STALLS_OF_ONE: usize = 2;
const STALLS_OF_USERS: usize = 3;
const STALLS_OF_OTHERS: usize = 8;
/// What one owner's processes may take, of a call that says nothing else.
const ONE_OWNER: Duration = Duration::from_millis(500);
/// What one question may take: about what root, a pod or a user made.
const ONE_OF_USERS: Duration = Duration::from_millis(100);
const ONE_OF_ROOT: Duration = Duration::from_secs(5);
/// So many questions are asked at once, and for so long: after that it is decided again who may be asked.
const AT_ONCE: usize = 512;
const SLICE: Duration = Duration::from_millis(100);

/// Whose a process or namespace is, for the shares of a scan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Party {
    /// This machine itself.
    Root,
    Pod(ConsumerId),
    Container(String),
    User(u32),
    /// All ordinary users together.
    Users,
}

/// Parties that share a budget or a limit, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Root,
    Contained,
    Users,
}

impl Party {
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Root => Class::Root,
            Self::Pod(_) | Self::Container(_) => Class::Contained,
            Self::User(_) | Self::Users => Class::Users,
        }
    }

    pub(super) fn of(process: &Process) -> Self {
        let owner = &process.owner;
        match (&owner.pod, &owner.container, process.user) {
            (Some(pod), _, _) => Self::Pod(pod.clone()),
            (None, Some(container), _) => Self::Container(container.clone()),
            (None, None, Some(user)) if user != 0 => Self::User(user),
            _ => Self::Root,
        }
    }
}

/// What is asked, and of whose process or namespace.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) question: Question,
    /// None for a question without a share of its own: then the owner is looked up once something stalls.
    pub(super) owner: Option<Party>,
}

/// What was found, and why that is not all.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) found: Vec<Found>,
    pub(super) end: Result<(), Why>,
}

impl Response {
    fn nothing(why: Why) -> Self {
        Self { found: Vec::new(), end: Err(why) }
    }

    /// What was found, unless the process has ended; or why it could not be.
    pub(super) fn result(self) -> Result<Vec<Found>, Why> {
        match self.end {
            Ok(()) => Ok(self.found),
            Err(Why::Failed(failure)) if failure.has_ended() => Ok(Vec::new()),
            Err(why) => Err(why),
        }
    }
}

/// How readers are started.
#[derive(Debug, Clone)]
pub(super) enum Start {
    /// As processes, by this program.
    Program(PathBuf),
    /// In this process: for trees that a test made.
    Here,
    /// Made-up answers with made-up times.
    #[cfg(test)]
    Scripted(fn(&Batch) -> Vec<(Response, Duration)>),
}

/// The scan of one call.
#[derive(Debug)]
pub(super) struct Scan {
    start: Start,
    proc: PathBuf,
    trusted: u32,
    reader: Option<Reader>,
    left: Budget,
    /// What one owner's processes may take: a pod's or container's, or an ordinary user's.
    share: Duration,
    stalls: BTreeMap<Party, usize>,
    /// The processes that stalled: they are not asked again.
    stuck: BTreeSet<u32>,
    took: BTreeMap<Party, Duration>,
}

#[derive(Debug)]
enum Reader {
    Process(Box<ReaderProcess>),
    Here(Box<Reading>),
}

impl Scan {
    pub(super) fn new(start: Start, proc: &Path, trusted: u32, left: Budget) -> Self {
        let (stalls, stuck, took) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let proc = proc.to_owned();
        Self { start, proc, trusted, reader: None, left, share: ONE_OWNER, stalls, stuck, took }
    }

    /// From here on there is this much time, a quarter of it for what users made.
    pub(super) fn allow(&mut self, time: Duration) {
        self.left = Budget { system: time * 3 / 4, users: time / 4 };
        self.share = time / 8;
        self.took.clear();
    }

    /// How long this call may wait for others: half of what it has left.
    pub(super) fn time_for_a_turn(&self) -> Duration {
        self.left.system / 2
    }

    /// Leaves at most this much time for one look of a heal, and returns the rest of the budget for [`Scan::give_back`].
    pub(super) fn hold_back(&mut self, time: Duration) -> Budget {
        let most =
            Budget { system: self.left.system.min(time), users: self.left.users.min(time / 2) };
        let rest = Budget {
            system: self.left.system.saturating_sub(most.system),
            users: self.left.users.saturating_sub(most.users),
        };
        self.left = most;
        rest
    }

    pub(super) fn give_back(&mut self, rest: Budget) {
        self.left.system += rest.system;
        self.left.users += rest.users;
    }

    /// Asks all of them, in this order. Ordinary users have a budget of their own: when it is used up, the rest of
    /// their questions are skipped.
    pub(super) fn ask(
        &mut self,
        proc: &Proc,
        filter: &Filter,
        asked: impl IntoIterator<Item = Asked>,
    ) -> io::Result<Vec<Response>> {
        let asked: Vec<Asked> = asked.into_iter().collect();
        let mut told = Vec::with_capacity(asked.len());
        let mut looked_up: HashMap<u32, Party> = HashMap::new();
        let mut owner_of = |one: &Asked, is_needed: bool| {
            one.owner.clone().or_else(|| {
                let pid = pid_of(&one.question).filter(|_| is_needed)?;
                let of = || proc.describe(pid).map_or(Party::Root, |process| Party::of(&process));
                Some(looked_up.entry(pid).or_insert_with(of).clone())
            })
        };
        let class_of = |owner: &Option<Party>| owner.as_ref().map_or(Class::Root, Party::class);
        while let Some(first) = asked.get(told.len()) {
            let is_careful = !self.stalls.is_empty();
            let owner = owner_of(first, is_careful);
            let class = class_of(&owner);
            if let Some(why) = self.why_not(owner.as_ref(), first) {
                told.push(Response::nothing(why));
                continue;
            }
            let mut owners = vec![owner];
            for next in asked[told.len() + 1..].iter().take(AT_ONCE - 1) {
                let owner = owner_of(next, is_careful);
                if class_of(&owner) != class || self.why_not(owner.as_ref(), next).is_some() {
                    break;
                }
                owners.push(owner);
            }
            let questions = asked[told.len()..][..owners.len()].iter();
            let questions: Vec<Question> = questions.map(|one| one.question.clone()).collect();
            let each = match (class, &first.question) {
                (Class::Root, _) | (_, Question::Enter(_) | Question::List { .. }) => ONE_OF_ROOT,
                (Class::Contained, _) => self.share_of(class),
                (Class::Users, _) => ONE_OF_USERS,
            };
            let left = self.left_for(class, &first.question);
            let (answers, spent) = self.batch(filter, (left, each), questions)?;
            let has_stalled = answers.iter().any(|(one, _)| matches!(one.end, Err(Why::Stalled)));
            if class != Class::Users {
                self.left.system = self.left.system.saturating_sub(spent);
            } else if !has_stalled {
                // Stalls are limited by their number, so that the rest of what users have is still read.
                self.left.users = self.left.users.saturating_sub(spent);
            }
            for ((one, took), owner) in answers.into_iter().zip(owners) {
                if matches!(one.end, Err(Why::Stalled)) {
                    let stalled = &asked[told.len()];
                    let owner = owner_of(stalled, true).unwrap_or(Party::Root);
                    *self.stalls.entry(owner).or_default() += 1;
                    self.stuck.extend(pid_of(&stalled.question));
                } else if let Some(owner) = owner {
                    *self.took.entry(owner).or_default() += took;
                }
                told.push(one);
            }
        }
        Ok(told)
    }

    fn left_for(&self, class: Class, question: &Question) -> Duration {
        match (class, question) {
            (Class::Root, _) => self.left.system,
            // Pods together leave a quarter to the machine itself.
            (Class::Contained, _) => {
                let took = self.took.iter().filter(|(owner, _)| owner.class() == class);
                let took: Duration = took.map(|(_, took)| *took).sum();
                if took > self.left.system * 3 { Duration::ZERO } else { self.left.system }
            }
            // Half of it is for what processes hold: the holder of a busy volume should be named.
            (
                Class::Users,
                Question::Files { .. } | Question::References(_) | Question::Listed(_),
            ) => self.left.users,
            (Class::Users, _) => self.left.users.saturating_sub(self.share),
        }
    }

    /// Why a question is not asked, if it is not.
    fn why_not(&self, owner: Option<&Party>, asked: &Asked) -> Option<Why> {
        let waits = may_wait(&asked.question);
        if waits && pid_of(&asked.question).is_some_and(|pid| self.stuck.contains(&pid)) {
            return Some(Why::Stalled);
        }
        if owner.is_some_and(|owner| self.is_over(owner, waits)) {
            return Some(Why::Skipped);
        }
        let class = owner.map_or(Class::Root, Party::class);
        let is_late = self.left_for(class, &asked.question).is_zero();
        is_late.then_some(if class == Class::Users { Why::Skipped } else { Why::Late })
    }

    /// Asks one question, of which the answer is an open file.
    pub(super) fn open(
        &mut self,
        namespace: u64,
        doors: Vec<Door>,
        is_listed: bool,
    ) -> io::Result<Option<File>> {
        let question = Question::Open { namespace, doors, is_listed };
        let limits = (ONE_OF_ROOT, ONE_OF_ROOT);
        let (mut answers, spent) = self.batch(&Filter::default(), limits, vec![question])?;
        self.left.system = self.left.system.saturating_sub(spent);
        let opened = self.reader.as_mut().and_then(Reader::take_opened);
        match answers.pop().map(|(told, _)| told.end) {
            Some(Ok(())) => Ok(opened),
            Some(Err(Why::Failed(failure))) => Err(failure.into()),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// What one owner may take. More for a pod while there is time: on a machine under load it takes longer to read, and
    /// without it neither a heal nor a tear-down is whole.
    fn share_of(&self, class: Class) -> Duration {
        if class == Class::Users { self.share } else { self.share.max(self.left.system / 8) }
    }

    /// Whether this owner has had its share; `waits` is whether a question may wait for it.
    fn is_over(&self, owner: &Party, waits: bool) -> bool {
        let stalls_of = |is_it: &dyn Fn(&Party) -> bool| -> usize {
            let all = self.stalls.iter().filter(|(one, _)| is_it(one));
            all.map(|(_, count)| count).sum()
        };
        let of_this = stalls_of(&|one| one == owner);
        let of_class = stalls_of(&|one| one.class() == owner.class());
        let most = if owner.class() == Class::Users { STALLS_OF_USERS } else { STALLS_OF_OTHERS };
        if *owner == Party::Root {
            return waits && of_class >= most;
        }
        let has_stalled = of_class >= most;
        waits && (of_this >= STALLS_OF_ONE || has_stalled)
            || *owner != Party::Users
                && self.took.get(owner).is_some_and(|took| *took >= self.share_of(owner.class()))
    }

    /// The answers as far as they came, the last one perhaps a stall, and how long they took. One at least.
    fn batch(
        &mut self,
        filter: &Filter,
        (limit, each): (Duration, Duration),
        questions: Vec<Question>,
    ) -> io::Result<(Vec<(Response, Duration)>, Duration)> {
        let milliseconds =
            |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let batch = Batch {
            filter: filter.clone(),
            limit: milliseconds(limit),
            slice: milliseconds(SLICE),
            each: milliseconds(each),
            questions,
        };
        #[cfg(test)]
        if let Start::Scripted(script) = self.start {
            let answers = script(&batch);
            let spent = answers.iter().map(|(_, took)| *took).sum();
            return Ok((answers, spent));
        }
        let begin = Instant::now();
        let patience = BEGINS.min(limit.max(Duration::from_secs(1)));
        let start = || Reader::start(&self.start, &self.proc, self.trusted, patience);
        let mut reader = self.reader.take().map_or_else(start, Ok)?;
        let (answers, is_usable) = match reader.answers(&batch, limit) {
            // It ended since the last batch: with the thread that started it, or it was killed.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                reader = start()?;
                reader.answers(&batch, limit)?
            }
            answers => answers?,
        };
        if is_usable {
            self.reader = Some(reader);
        }
        Ok((answers, begin.elapsed()))
    }
}

/// Whether an answer may wait for the process: what mounts it has, the kernel tells in any case.
fn may_wait(question: &Question) -> bool {
    !matches!(question, Question::Listed(_))
}

/// The process that a question is about.
fn pid_of(question: &Question) -> Option<u32> {
    match question {
        Question::Place { task, .. } | Question::Listed(task) => Some(task.pid),
        Question::Table { tasks, .. } | Question::ExtIds(tasks) => {
            tasks.first().map(|task| task.pid)
        }
        Question::References(pid) | Question::Files { pid, .. } | Question::State(pid) => {
            Some(*pid)
        }
        _ => None,
    }
}

impl Reader {
    fn start(start: &Start, proc: &Path, trusted: u32, patience: Duration) -> io::Result<Self> {
        match start {
            Start::Program(program) => {
                let process = ReaderProcess::start(program, proc, trusted, patience)?;
                Ok(Self::Process(Box::new(process)))
            }
            Start::Here => Ok(Self::Here(Box::new(Reading::begin(proc, trusted)?))),
            #[cfg(test)]
            Start::Scripted(_) => unreachable!("it starts nothing"),
        }
    }

    fn take_opened(&mut self) -> Option<File> {
        match self {
            Self::Process(process) => process.opened.take(),
            Self::Here(_) => None,
        }
    }

    /// The answers, with what each took; and whether this reader can answer more.
    fn answers(
        &mut self,
        batch: &Batch,
        limit: Duration,
    ) -> io::Result<(Vec<(Response, Duration)>, bool)> {
        match self {
            Self::Process(process) => process.answers(batch, limit),
            Self::Here(reading) => {
                reading.forget();
                let answer = |question| {
                    let (begin, mut found) = (Instant::now(), Vec::new());
                    let end = begin + limit;
                    let mut tell = |one| {
                        found.push(one);
                        Ok(())
                    };
                    let ended = reading.answer(question, &batch.filter, end, &mut tell);
                    let end = ended.map(drop).map_err(|error| Why::Failed(error.into()));
                    (Response { found, end }, begin.elapsed())
                };
                Ok((batch.questions.iter().map(answer).collect(), true))
            }
        }
    }
}

/// A reader, seen from its parent.
#[derive(Debug)]
struct ReaderProcess {
    child: Child,
    line: UnixStream,
    questions: File,
    answers: File,
    opened: Option<File>,
}

impl ReaderProcess {
    fn start(program: &Path, proc: &Path, trusted: u32, patience: Duration) -> io::Result<Self> {
        let (line, its) = UnixStream::pair()?;
        let questions = files::in_memory("incloud-disk-questions")?;
        let answers = files::in_memory("incloud-disk-answers")?;
        let mut command = Command::new(program);
        command.arg0("disk").arg(WORD).arg(proc).arg(trusted.to_string());
        command.stdin(Stdio::from(OwnedFd::from(its)));
        command.stdout(questions.try_clone()?).stderr(answers.try_clone()?);
        let child = command.spawn()?;
        let mut reader = Self { child, line, questions, answers, opened: None };
        if reader.heard(patience)? == Some(READY) {
            return Ok(reader);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the process that reads others did not start"))
    }

    fn answers(
        &mut self,
        batch: &Batch,
        limit: Duration,
    ) -> io::Result<(Vec<(Response, Duration)>, bool)> {
        self.questions.set_len(0)?;
        self.answers.set_len(0)?;
        self.questions.write_all_at(&serde_json::to_vec(batch)?, 0)?;
        (&self.line).write_all(&[GO])?;
        // A question that runs on is given a moment beyond its time to notice that.
        let each = Duration::from_millis(batch.each);
        let end = Instant::now() + limit.min(SLICE + each) + STALL * 2;
        let (mut seen, mut since) = (0, Instant::now());
        let unfinished = loop {
            match self.heard(TICK) {
                Ok(Some(DONE)) => break None,
                Ok(None) => {}
                // It was killed, by a person or for want of memory: that says nothing of what it read.
                Ok(Some(_)) | Err(_) => {
                    let killed = io::Error::from_raw_os_error(nix::libc::EAGAIN);
                    break Some(Why::Failed(killed.into()));
                }
            }
            let length = self.answers.metadata()?.len();
            if length != seen || self.runs() {
                (seen, since) = (length, Instant::now());
            }
            if Instant::now() > end {
                break Some(Why::Late);
            }
            if since.elapsed() >= STALL {
                break Some(Why::Stalled);
            }
        };
        let (mut answers, found) = self.read_answers()?;
        let is_usable = unfinished.is_none();
        if let Some(end) = unfinished.filter(|_| answers.len() < batch.questions.len()) {
            answers.push((Response { found, end: Err(end) }, STALL));
        }
        Ok((answers, is_usable))
    }

    /// What it says within this time, if anything.
    #[allow(unsafe_code)]
    fn heard(&mut self, time: Duration) -> io::Result<Option<u8>> {
        let mut waited = [PollFd::new(self.line.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
        match poll(&mut waited, timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => return Ok(None),
            ready => ready?,
        };
        let mut word = [0];
        let mut room = nix::cmsg_space!([RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut word)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let taken = recvmsg::<UnixAddr>(self.line.as_raw_fd(), &mut parts, Some(&mut room), flags)?;
        for one in taken.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = one {
                // SAFETY: the kernel just gave us these files, and no other code owns them.
                self.opened = numbers.first().map(|number| unsafe { File::from_raw_fd(*number) });
            }
        }
        match taken.bytes {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Some(word[0])),
        }
    }

    /// Whether it runs, or would if there were a processor for it: then it does not wait for anybody. Its `status` can
    /// be read whatever it does.
    fn runs(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        status.lines().any(|line| {
            line.strip_prefix("State:").is_some_and(|state| state.trim().starts_with('R'))
        })
    }

    /// The answers that are whole, and what was found of the one that is not.
    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn read_answers(&self) -> io::Result<(Vec<(Response, Duration)>, Vec<Found>)> {
        let length = usize::try_from(self.answers.metadata()?.len()).unwrap_or_default();
        let mut bytes = vec![0; length];
        let read = self.answers.read_at(&mut bytes, 0)?;
        let whole = bytes[..read].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (mut answers, mut found) = (Vec::new(), Vec::new());
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line)? {
                Line::Found(one) => found.push(one),
                Line::End(end, took) => {
                    let found = std::mem::take(&mut found);
                    answers.push((Response { found, end }, Duration::from_micros(took)));
                }
            }
        }
        Ok((answers, found))
    }
}

impl Drop for ReaderProcess {
    /// One that hangs may take its end when it comes back: it holds nothing, and is not waited for.
    fn drop(&mut self) {
        let _ = self.child.kill();
        for _ in 0..10 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that take so long each, until the batch is over; a reader that stalls does so at the first one.
    fn answers(batch: &Batch, each: u64, end: &Result<(), Why>) -> Vec<(Response, Duration)> {
        let (mut spent, mut all) = (0, Vec::new());
        for _ in &batch.questions {
            if spent >= batch.slice {
                break;
            }
            let took = each.min(batch.limit - spent).min(batch.each);
            spent += took;
            all.push((
                Response { found: Vec::new(), end: end.clone() },
                Duration::from_millis(took),
            ));
            if matches!(end, Err(Why::Stalled)) {
                break;
            }
        }
        all
    }

    fn asked(count: u32, owner: impl Fn(u32) -> Party) -> Vec<Asked> {
        let one = |pid| Asked { question: Question::References(pid), owner: Some(owner(pid)) };
        (0..count).map(one).collect()
    }

    fn scan(script: fn(&Batch) -> Vec<(Response, Duration)>) -> (Scan, Proc) {
        let proc = Proc::at(Path::new("/proc"), 0).unwrap();
        (Scan::new(Start::Scripted(script), Path::new("/proc"), 0, Budget::USUAL), proc)
    }

    fn count(all: &[Response], is_it: impl Fn(&Result<(), Why>) -> bool) -> usize {
        all.iter().filter(|one| is_it(&one.end)).count()
    }

    #[test]
    fn what_users_made_takes_a_second_of_a_call_however_many_they_are() {
        let (mut scan, proc) = scan(|batch| answers(batch, 50, &Ok(())));
        let filter = Filter::default();
        let mut done = 0;
        for _ in 0..3 {
            let told = scan.ask(&proc, &filter, asked(5000, Party::User)).unwrap();
            assert_eq!(told.len(), 5000);
            done += count(&told, Result::is_ok);
        }
        // The scripted reader finishes what it began; a real one answers that it is late.
        assert_eq!(scan.left.users, Duration::ZERO);
        assert!(done <= AT_ONCE, "{done}");
        let told = scan.ask(&proc, &filter, asked(3, |_| Party::Root)).unwrap();
        assert_eq!(count(&told, Result::is_ok), 3, "the machine's own are read");
    }

    #[test]
    fn an_owner_with_many_takes_its_share_and_no_more() {
        let (mut scan, proc) = scan(|batch| answers(batch, 10_000, &Ok(())));
        let container = |_| Party::Container("c".to_owned());
        let told = scan.ask(&proc, &Filter::default(), asked(1000, container)).unwrap();
        // The first one takes all of it.
        assert_eq!(scan.left.system, Budget::USUAL.system * 7 / 8);
        assert_eq!(count(&told, Result::is_ok), 1);
        assert_eq!(count(&told, |end| matches!(end, Err(Why::Skipped))), 999);
        let other = |_| Party::Container("d".to_owned());
        let told = scan.ask(&proc, &Filter::default(), asked(1, other)).unwrap();
        assert_eq!(count(&told, Result::is_ok), 1);
    }

    #[test]
    fn after_some_stalls_no_other_process_is_asked() {
        let (mut scan, proc) = scan(|batch| answers(batch, 100, &Err(Why::Stalled)));
        let told = scan.ask(&proc, &Filter::default(), asked(1000, |_| Party::User(7))).unwrap();
        assert_eq!(count(&told, |end| matches!(end, Err(Why::Stalled))), STALLS_OF_ONE);
        let told = scan.ask(&proc, &Filter::default(), asked(1000, Party::User)).unwrap();
        assert_eq!(count(&told, |end| matches!(end, Err(Why::Stalled))), STALLS_OF_USERS);
        let told = scan.ask(&proc, &Filter::default(), asked(1000, |_| Party::Root)).unwrap();
        assert_eq!(
            count(&told, |end| matches!(end, Err(Why::Stalled))),
            STALLS_OF_OTHERS + STALLS_OF_USERS
        );
        assert_eq!(told.len(), 1000);
    }

    /// Else no container could be reached by a heal while users' processes hang.
    #[test]
    fn stalls_of_users_keep_no_pod_from_being_read() {
        let (mut scan, proc) = scan(|batch| answers(batch, 100, &Err(Why::Stalled)));
        scan.ask(&proc, &Filter::default(), asked(1000, Party::User)).unwrap();
        scan.start = Start::Scripted(|batch| answers(batch, 1, &Ok(())));
        let pod = |pid: u32| Party::Container(pid.to_string());
        let mut all = asked(2000, pod);
        all.drain(..1000);
        let told = scan.ask(&proc, &Filter::default(), all).unwrap();
        assert_eq!(count(&told, Result::is_ok), 1000);
    }

    #[test]
    fn a_look_with_less_time_gives_back_what_it_did_not_take() {
        let (mut scan, proc) = scan(|batch| answers(batch, 10, &Ok(())));
        let rest = scan.hold_back(Duration::from_secs(2));
        scan.ask(&proc, &Filter::default(), asked(10, |_| Party::Root)).unwrap();
        scan.give_back(rest);
        assert_eq!(scan.left.system, Duration::from_millis(19_900));
        scan.allow(Duration::from_secs(2));
        assert_eq!(scan.left.system, Duration::from_millis(1500));
    }
}
