//! One bounded scan of other processes: readers are started, watched and abandoned here.

use super::inspection::CensusSetting;
use super::proc::{Task, fact_of};
use super::question::{Batch, Door, Filter, Found, Line, Question, Why};
use super::reader::WORD;
use crate::files;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{NamespaceId, Process};
use nix::errno::Errno;
use nix::libc;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
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
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// What an answer of this length costs of the time. The reader tells paths, which users make as long and as many as they
/// like, and the call keeps them: so one budget bounds its memory too, at 10 MB for each second.
pub(super) fn price(bytes: usize) -> Duration {
    Duration::from_nanos(100).saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Whose a process or namespace is, for the shares of a scan. A namespace where several live is the first one's: a pod's
/// has its processes, and perhaps a watcher or two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Party {
    Pod(ConsumerId),
    Container(String),
    /// This machine itself.
    Root,
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

/// What was found, and why that is not all.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) found: Vec<Found>,
    pub(super) end: Result<(), Why>,
}

impl Response {
    pub(super) fn nothing(why: Why) -> Self {
        Self { found: Vec::new(), end: Err(why) }
    }

    /// What was found, unless the process has ended; or why it could not be.
    pub(super) fn result(self) -> Result<Vec<Found>, Why> {
        match self.end {
            Ok(()) => Ok(self.found),
            Err(why) if why.is(Errno::ENOENT) || why.is(Errno::ESRCH) => Ok(Vec::new()),
            Err(why) => Err(why),
        }
    }
}

/// An answer, and what it took.
pub(super) type TimedAnswer = (Response, Duration);

/// Who answers.
#[derive(Debug, Clone)]
pub(super) enum Start {
    /// Processes of this program.
    Program(PathBuf),
    /// A test, which also says how long each answer took.
    #[cfg(test)]
    Test(fn(&Scan, &Batch) -> Vec<TimedAnswer>),
}

/// The scan of one call.
#[derive(Debug)]
pub(super) struct Scan {
    start: Start,
    pub(super) proc: PathBuf,
    pub(super) trusted: u32,
    reader: Option<ReaderProcess>,
    left: Budget,
    /// What pods and containers together leave to the machine itself.
    reserve: Duration,
    /// What one owner's processes may take: a pod's or container's, or an ordinary user's.
    share: Duration,
    /// What stalled. Processes that did are not asked again.
    stalls: Vec<(Party, Option<u32>)>,
    took: BTreeMap<Party, Duration>,
}

impl Scan {
    pub(super) fn new(setting: &CensusSetting) -> Self {
        let CensusSetting { start, root, trusted, budget: left, .. } = setting.clone();
        let (stalls, took) = (Vec::new(), BTreeMap::new());
        let (proc, reserve, share) = (root.join("proc"), left.system / 4, ONE_OWNER);
        Self { start, proc, trusted, reader: None, left, reserve, share, stalls, took }
    }

    /// From here on there is this much time, a quarter of it for what users made.
    pub(super) fn allow(&mut self, time: Duration) {
        self.left = Budget { system: time * 3 / 4, users: time / 4 };
        (self.reserve, self.share) = (self.left.system / 4, time / 8);
        self.took.clear();
    }

    /// How long this call may wait for others: longer than some of them are inside, and half of what it has left at most.
    pub(super) fn time_for_a_turn(&self) -> Duration {
        (self.left.system / 2).min(Duration::from_secs(5))
    }

    /// Leaves at most this much time for one look of a heal, and returns the rest of the budget for [`Scan::give_back`].
    pub(super) fn hold_back(&mut self, time: Duration) -> Budget {
        let all = self.left;
        self.left = Budget { system: all.system.min(time), users: all.users.min(time / 2) };
        self.reserve = self.left.system / 4;
        Budget {
            system: all.system.saturating_sub(self.left.system),
            users: all.users.saturating_sub(self.left.users),
        }
    }

    pub(super) fn give_back(&mut self, rest: Budget) {
        self.left.system += rest.system;
        self.left.users += rest.users;
        self.reserve = self.left.system / 4;
    }

    /// Asks about processes and namespaces of these owners, in this order. Ordinary users have a budget of their own:
    /// when it is used up, the rest of their questions are skipped.
    pub(super) fn ask(
        &mut self,
        filter: &mut Filter,
        asked: &[(Party, Question)],
    ) -> io::Result<Vec<Response>> {
        let mut told = Vec::with_capacity(asked.len());
        while let Some((owner, question)) = asked.get(told.len()) {
            if let Some(why) = self.why_not(owner, question) {
                told.push(Response::nothing(why));
                continue;
            }
            let class = owner.class();
            let is_next = |(owner, question): &&(Party, Question)| {
                owner.class() == class && self.why_not(owner, question).is_none()
            };
            let batch = asked[told.len()..].iter().take(AT_ONCE).take_while(is_next);
            let questions = batch.map(|(_, question)| question.clone()).collect();
            let each = match (class, question) {
                (Class::Root, _) | (_, Question::Enter(_) | Question::List { .. }) => ONE_OF_ROOT,
                (Class::Contained, _) => self.share_of(class),
                (Class::Users, _) => ONE_OF_USERS,
            };
            let left = self.left_for(class, question);
            let (answers, spent) = self.batch(filter, (left, each), questions)?;
            let has_stalled = answers.iter().any(|(one, _)| matches!(one.end, Err(Why::Stalled)));
            if class != Class::Users {
                self.left.system = self.left.system.saturating_sub(spent);
            } else if !has_stalled {
                // Stalls are limited by their number, so that the rest of what users have is still read.
                self.left.users = self.left.users.saturating_sub(spent);
            }
            for (mut one, took) in answers {
                let (owner, question) = &asked[told.len()];
                // It is known where the process lives, and other processes there need not be asked for the mounts.
                if let (Question::Home(_), Err(Why::Late)) = (question, &one.end)
                    && let Some(Found::Home(_, namespace)) = one.found.first()
                {
                    one.found.push(Found::Unread(*namespace, Why::Late));
                    one.end = Ok(());
                }
                filter.known.extend(one.found.iter().filter_map(Found::known));
                if matches!(one.end, Err(Why::Stalled)) {
                    self.stalls.push((owner.clone(), pid_of(question)));
                } else {
                    *self.took.entry(owner.clone()).or_default() += took;
                }
                told.push(one);
            }
        }
        Ok(told)
    }

    fn left_for(&self, class: Class, question: &Question) -> Duration {
        match (class, question) {
            (Class::Root, _) => self.left.system,
            (Class::Contained, _) => self.left.system.saturating_sub(self.reserve),
            // Half of it is for what processes hold: the holder of a busy volume should be named.
            (Class::Users, Question::Files(_) | Question::References(_) | Question::Listed(_)) => {
                self.left.users
            }
            (Class::Users, _) => self.left.users.saturating_sub(self.share),
        }
    }

    /// What one owner may take. More for a pod while there is time: on a machine under load it takes longer to read, and
    /// without it neither a heal nor a tear-down is whole.
    fn share_of(&self, class: Class) -> Duration {
        if class == Class::Users { self.share } else { self.share.max(self.left.system / 8) }
    }

    fn is_stuck(&self, pid: u32) -> bool {
        self.stalls.iter().any(|(_, stuck)| *stuck == Some(pid))
    }

    /// Why a question is not asked, if it is not.
    fn why_not(&self, owner: &Party, question: &Question) -> Option<Why> {
        let class = owner.class();
        // What mounts a process has, the kernel tells in any case.
        if !matches!(question, Question::Listed(_)) {
            if pid_of(question).is_some_and(|pid| self.is_stuck(pid)) {
                return Some(Why::Stalled);
            }
            let most = if class == Class::Users { STALLS_OF_USERS } else { STALLS_OF_OTHERS };
            let of_class = self.stalls.iter().filter(|(one, _)| one.class() == class).count();
            let of_this = self.stalls.iter().filter(|(one, _)| one == owner).count();
            if of_class >= most || *owner != Party::Root && of_this >= STALLS_OF_ONE {
                return Some(Why::Skipped);
            }
        }
        let took = self.took.get(owner).copied().unwrap_or_default();
        if !matches!(owner, Party::Root | Party::Users) && took >= self.share_of(class) {
            return Some(Why::Skipped);
        }
        let is_late = self.left_for(class, question).is_zero();
        is_late.then_some(if class == Class::Users { Why::Skipped } else { Why::Late })
    }

    /// Opens a namespace: by one of these, else by the kernel's list.
    pub(super) fn open(
        &mut self,
        namespace: NamespaceId,
        mut doors: Vec<Door>,
    ) -> io::Result<Option<File>> {
        doors.retain(|door| match door {
            Door::Task(Task { pid, .. }) | Door::Descriptor { pid, .. } => !self.is_stuck(*pid),
            Door::Mounted { .. } => true,
        });
        let (filter, limits) = (Filter::default(), (ONE_OF_ROOT, ONE_OF_ROOT));
        let question = Question::Open { namespace, doors };
        let (mut answers, spent) = self.batch(&filter, limits, vec![question])?;
        self.left.system = self.left.system.saturating_sub(spent);
        let (told, _) = answers.pop().ok_or(io::ErrorKind::TimedOut)?;
        told.end?;
        let (Some(Found::Opened(number)), Some(reader)) = (told.found.first(), &self.reader) else {
            return Ok(None);
        };
        let opened = File::open(format!("/proc/{}/fd/{number}", reader.child.id()))?;
        // The reader closes its own one before it answers, for it would keep the namespace.
        self.batch(&filter, limits, Vec::new())?;
        Ok(Some(opened))
    }

    /// The answers as far as they came, the last one perhaps a stall, and how long they took. One at least.
    fn batch(
        &mut self,
        filter: &Filter,
        (limit, each): (Duration, Duration),
        questions: Vec<Question>,
    ) -> io::Result<(Vec<TimedAnswer>, Duration)> {
        let batch = Batch { filter: filter.clone(), limit, each, questions };
        let begin = Instant::now();
        let (answers, price) = match &self.start {
            Start::Program(program) => {
                let patience = BEGINS.min(limit.max(Duration::from_secs(1)));
                let start = || ReaderProcess::start(program, &self.proc, self.trusted, patience);
                let mut reader = self.reader.take().map_or_else(start, Ok)?;
                let (answers, is_usable) = match reader.answers(&batch) {
                    // It ended since the last batch: with the thread that started it, or it was killed.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        reader = start()?;
                        reader.answers(&batch)?
                    }
                    answers => answers?,
                };
                let length = reader.answers.metadata()?.len();
                self.reader = is_usable.then_some(reader);
                (answers, price(usize::try_from(length).unwrap_or(usize::MAX)))
            }
            #[cfg(test)]
            Start::Test(script) => {
                let answers = script(self, &batch);
                let spent = answers.iter().map(|(_, took)| *took).sum();
                return Ok((answers, spent));
            }
        };
        Ok((answers, begin.elapsed() + price))
    }
}

/// The process that a question is about.
fn pid_of(question: &Question) -> Option<u32> {
    match question {
        Question::Home(task) | Question::Listed(task) => Some(task.pid),
        Question::ExtIds(tasks) => tasks.first().map(|task| task.pid),
        Question::References(pid) | Question::Files(pid) | Question::Began(pid) => Some(*pid),
        _ => None,
    }
}

/// A reader, seen from its parent.
#[derive(Debug)]
struct ReaderProcess {
    child: Child,
    /// Takes a line of questions, and says when they are answered.
    line: UnixStream,
    /// A file in memory: writing to it never waits, and its length shows what was answered before a stall.
    answers: File,
}

impl ReaderProcess {
    fn start(program: &Path, proc: &Path, trusted: u32, patience: Duration) -> io::Result<Self> {
        let (line, its) = UnixStream::pair()?;
        let answers = files::in_memory("incloud-disk-answers")?;
        let mut command = Command::new(program);
        command.arg0("disk").arg(WORD).arg(proc).arg(trusted.to_string());
        command.stdin(OwnedFd::from(its)).stdout(answers.try_clone()?).stderr(Stdio::null());
        let mut reader = Self { child: command.spawn()?, line, answers };
        if reader.is_done_within(patience)? {
            return Ok(reader);
        }
        let what = "the process that reads others did not start";
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    }

    /// The answers, with what each took; and whether this reader can answer more.
    fn answers(&mut self, batch: &Batch) -> io::Result<(Vec<TimedAnswer>, bool)> {
        self.answers.set_len(0)?;
        self.answers.rewind()?;
        let mut text = serde_json::to_vec(batch)?;
        text.push(b'\n');
        self.line.write_all(&text)?;
        // A question that runs on is given a moment beyond its time to notice that.
        let end = Instant::now() + batch.limit.min(SLICE + batch.each) + STALL * 2;
        let (mut length, mut since) = (0, Instant::now());
        let unfinished = loop {
            match self.is_done_within(TICK) {
                Ok(true) => break None,
                Ok(false) => {}
                // It was killed, by a person or for want of memory: that says nothing of what it read.
                Err(_) => break Some(io::Error::from(Errno::EAGAIN).into()),
            }
            let now = Instant::now();
            let longer = self.answers.metadata()?.len();
            if longer != length || self.runs() {
                (length, since) = (longer, now);
            }
            if now > end {
                break Some(Why::Late);
            }
            if now >= since + STALL {
                break Some(Why::Stalled);
            }
        };
        let is_usable = unfinished.is_none();
        let mut bytes =
            vec![0; usize::try_from(self.answers.metadata()?.len()).unwrap_or_default()];
        let read = self.answers.read_at(&mut bytes, 0)?;
        // What follows the last end of a line is not whole.
        let lines = bytes[..read].split_inclusive(|byte| *byte == b'\n');
        let lines = lines.filter(|line| line.ends_with(b"\n")).map(serde_json::from_slice);
        let (mut all, found) = gathered(lines.collect::<Result<_, _>>()?);
        if let Some(end) = unfinished.filter(|_| all.len() < batch.questions.len()) {
            all.push((Response { found, end: Err(end) }, STALL));
        }
        Ok((all, is_usable))
    }

    fn is_done_within(&mut self, time: Duration) -> io::Result<bool> {
        self.line.set_read_timeout(Some(time))?;
        match self.line.read(&mut [0]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                Ok(false)
            }
            said => said.map(|_| true),
        }
    }

    /// Whether it runs, or would if there were a processor for it: then it does not wait for anybody. Its `status` can
    /// be read whatever it does.
    fn runs(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        fact_of(&status.unwrap_or_default(), "State:").is_some_and(|state| state.starts_with('R'))
    }
}

/// The answers that are whole, and what was found of the one that is not.
pub(super) fn gathered(lines: Vec<Line>) -> (Vec<TimedAnswer>, Vec<Found>) {
    let (mut all, mut found) = (Vec::new(), Vec::new());
    for line in lines {
        match line {
            Line::Found(one) => found.push(one),
            Line::End(end, took) => {
                all.push((Response { found: std::mem::take(&mut found), end }, took));
            }
        }
    }
    (all, found)
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
    fn answers(batch: &Batch, each: u64, end: &Result<(), Why>) -> Vec<TimedAnswer> {
        let each = Duration::from_millis(each);
        let (mut spent, mut all) = (Duration::ZERO, Vec::new());
        for _ in &batch.questions {
            if spent >= SLICE {
                break;
            }
            let took = each.min(batch.limit.saturating_sub(spent)).min(batch.each);
            spent += took;
            all.push((Response { found: Vec::new(), end: end.clone() }, took));
            if matches!(end, Err(Why::Stalled)) {
                break;
            }
        }
        all
    }

    fn asked(count: u32, owner: impl Fn(u32) -> Party) -> Vec<(Party, Question)> {
        let one = |pid| (owner(pid), Question::References(pid));
        (0..count).map(one).collect()
    }

    fn scan(script: fn(&Scan, &Batch) -> Vec<TimedAnswer>) -> Scan {
        Scan::new(&CensusSetting { start: Start::Test(script), ..CensusSetting::default() })
    }

    fn count(all: &[Response], is_it: impl Fn(&Result<(), Why>) -> bool) -> usize {
        all.iter().filter(|one| is_it(&one.end)).count()
    }

    #[test]
    fn what_users_made_takes_a_second_of_a_call_however_many_they_are() {
        let mut scan = scan(|_, batch| answers(batch, 50, &Ok(())));
        let mut filter = Filter::default();
        let mut done = 0;
        for _ in 0..3 {
            let told = scan.ask(&mut filter, &asked(5000, Party::User)).unwrap();
            assert_eq!(told.len(), 5000);
            done += count(&told, Result::is_ok);
        }
        // The scripted reader finishes what it began; a real one answers that it is late.
        assert_eq!(scan.left.users, Duration::ZERO);
        assert!(done <= AT_ONCE, "{done}");
        let told = scan.ask(&mut filter, &asked(3, |_| Party::Root)).unwrap();
        assert_eq!(count(&told, Result::is_ok), 3, "the machine's own are read");
    }

    #[test]
    fn an_owner_with_many_takes_its_share_and_no_more() {
        let mut scan = scan(|_, batch| answers(batch, 10_000, &Ok(())));
        let container = |_| Party::Container("c".to_owned());
        let told = scan.ask(&mut Filter::default(), &asked(1000, container)).unwrap();
        // The first one takes all of it.
        assert_eq!(scan.left.system, Budget::USUAL.system * 7 / 8);
        assert_eq!(count(&told, Result::is_ok), 1);
        assert_eq!(count(&told, |end| matches!(end, Err(Why::Skipped))), 999);
        let other = |_| Party::Container("d".to_owned());
        let told = scan.ask(&mut Filter::default(), &asked(1, other)).unwrap();
        assert_eq!(count(&told, Result::is_ok), 1);
    }

    #[test]
    fn after_some_stalls_no_other_process_is_asked() {
        let mut scan = scan(|_, batch| answers(batch, 100, &Err(Why::Stalled)));
        let told = scan.ask(&mut Filter::default(), &asked(1000, |_| Party::User(7))).unwrap();
        assert_eq!(count(&told, |end| matches!(end, Err(Why::Stalled))), STALLS_OF_ONE);
        let told = scan.ask(&mut Filter::default(), &asked(1000, Party::User)).unwrap();
        assert_eq!(count(&told, |end| matches!(end, Err(Why::Stalled))), STALLS_OF_USERS);
        let told = scan.ask(&mut Filter::default(), &asked(1000, |_| Party::Root)).unwrap();
        assert_eq!(
            count(&told, |end| matches!(end, Err(Why::Stalled))),
            STALLS_OF_OTHERS + STALLS_OF_USERS
        );
        assert_eq!(told.len(), 1000);
    }

    /// Else no container could be reached by a heal while users' processes hang.
    #[test]
    fn stalls_of_users_keep_no_pod_from_being_read() {
        let mut scan = scan(|_, batch| answers(batch, 100, &Err(Why::Stalled)));
        scan.ask(&mut Filter::default(), &asked(1000, Party::User)).unwrap();
        scan.start = Start::Test(|_, batch| answers(batch, 1, &Ok(())));
        let pod = |pid: u32| Party::Container(pid.to_string());
        let mut all = asked(2000, pod);
        all.drain(..1000);
        let told = scan.ask(&mut Filter::default(), &all).unwrap();
        assert_eq!(count(&told, Result::is_ok), 1000);
    }

    #[test]
    fn a_look_with_less_time_gives_back_what_it_did_not_take() {
        let mut scan = scan(|_, batch| answers(batch, 10, &Ok(())));
        let rest = scan.hold_back(Duration::from_secs(2));
        scan.ask(&mut Filter::default(), &asked(10, |_| Party::Root)).unwrap();
        // Also of a pod, although the look is shorter than what pods leave to the machine in a whole scan.
        let pod = |_| Party::Container("c".to_owned());
        let told = scan.ask(&mut Filter::default(), &asked(1, pod)).unwrap();
        assert_eq!(count(&told, Result::is_ok), 1);
        scan.give_back(rest);
        assert_eq!(scan.left.system, Duration::from_millis(19_890));
        scan.allow(Duration::from_secs(2));
        assert_eq!(scan.left.system, Duration::from_millis(1500));
    }
}
