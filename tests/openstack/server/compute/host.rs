//! The compute hosts: one thing after another at each server, and the steps that are still to come.
//!
//! Reserve, attach and detach of one server share one lock on its host, so they queue here: an
//! attach of a second volume is answered only when the first is through (O2), a detach is answered
//! at once and waits in the queue (O4). Nothing runs by itself: who looks at the world first
//! lets all that is due happen, in the order in which it fell due.

use super::super::hook::Call;
use super::super::reply::Refusal;
use super::super::world::World;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What the hosts have to do.
#[derive(Debug, Default)]
pub struct Hosts {
    steps: Vec<Due>,
    /// The moment at which the step that runs now fell due.
    moment: Option<Duration>,
    numbers: u64,
    pub operations: BTreeMap<u64, Operation>,
    queues: BTreeMap<String, Queue>,
    /// Hook calls that wait for a thread of their own.
    pub jobs: Vec<Job>,
    /// How coming operations fail.
    pub plans: Vec<Plan>,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    number: u64,
    step: Step,
}

/// The queue of one server.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<u64>,
    running: Option<u64>,
}

/// Something that a host does for a server.
#[derive(Debug, Clone)]
pub struct Operation {
    pub server: String,
    pub volume: String,
    pub work: Work,
    /// The id of the request that asked for it.
    pub request: String,
    /// How a reservation of a device ended.
    pub outcome: Option<Result<(), Refusal>>,
    /// When Cinder has the reservation.
    pub recorded: Duration,
}

#[derive(Debug, Clone)]
pub enum Work {
    /// Finds a device name and makes Nova's row.
    Reserve,
    /// Plugs the disk of a Cinder attachment.
    Attach { attachment: String },
    /// Unplugs it.
    Detach,
}

/// A change that is to come.
#[derive(Debug, Clone)]
pub enum Step {
    Reserve(u64),
    Connect(u64),
    Plug(u64),
    Unplug(u64),
    DropRow(u64),
    Extend { volume: String, size: u64, back: String },
    Cleanup { volume: String, attachment: String },
}

/// A run of the hook, and what it is for.
#[derive(Debug)]
pub struct Job {
    pub call: Call,
    pub purpose: Purpose,
}

#[derive(Debug, Clone)]
pub enum Purpose {
    Operation(u64),
    Extend { volume: String, size: u64, back: String },
}

/// How the next operation on a volume fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub volume: String,
    pub how: Failure,
}

/// The ways in which an operation fails after its request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The hypervisor fails; the attach is undone (D1).
    AttachDriver,
    /// The guest keeps the disk; rolled back to `in-use` (D9).
    DetachDriver,
    /// The extend ends in `error_extending`.
    Extend,
}

impl Hosts {
    /// Forgets a deleted server's work.
    pub fn forget(&mut self, server: &str) {
        self.queues.remove(server);
        self.operations.retain(|_, operation| operation.server != server);
    }

    /// Takes a planned failure of this kind for a volume, if there is one.
    pub fn takes_failure(&mut self, volume: &str, how: Failure) -> bool {
        let fits = |plan: &Plan| plan.how == how && plan.volume == volume;
        let at = self.plans.iter().position(fits);
        at.map(|at| self.plans.remove(at)).is_some()
    }

    /// When the next step falls due.
    pub fn next_due(&self) -> Option<Duration> {
        self.steps.iter().map(|due| due.at).min()
    }

    /// Whether nothing is going on and nothing is to come.
    pub fn is_idle(&self) -> bool {
        let busy = |queue: &Queue| queue.running.is_some() || !queue.waiting.is_empty();
        self.steps.is_empty() && self.jobs.is_empty() && !self.queues.values().any(busy)
    }
}

impl World {
    /// A step that falls due after a delay.
    pub fn later(&mut self, delay: Duration, step: Step) {
        let from = self.hosts.moment.unwrap_or_else(|| self.clock.now());
        self.hosts.numbers += 1;
        let number = self.hosts.numbers;
        self.hosts.steps.push(Due { at: from + delay, number, step });
    }

    /// Lets everything happen that is due.
    pub fn settle(&mut self) {
        let now = self.clock.now();
        loop {
            let due = self.hosts.steps.iter().enumerate().filter(|(_, due)| due.at <= now);
            let first = due.min_by_key(|(_, due)| (due.at, due.number)).map(|(at, _)| at);
            let Some(first) = first else { break };
            let due = self.hosts.steps.swap_remove(first);
            self.hosts.moment = Some(due.at);
            self.run_step(due.step);
            self.hosts.moment = None;
        }
    }

    /// Puts an operation into its server's queue; gives its number.
    pub fn enqueue(&mut self, operation: Operation) -> u64 {
        self.hosts.numbers += 1;
        let number = self.hosts.numbers;
        let server = operation.server.clone();
        self.hosts.operations.insert(number, operation);
        self.hosts.queues.entry(server.clone()).or_default().waiting.push_back(number);
        self.pump(&server);
        number
    }

    /// The operation is through; the next one of the server begins.
    pub fn finish(&mut self, number: u64) {
        let Some(operation) = self.hosts.operations.get(&number) else { return };
        let server = operation.server.clone();
        // A reservation that a request waits for stays until it was looked at.
        if operation.outcome.is_none() {
            self.hosts.operations.remove(&number);
        }
        if let Some(queue) = self.hosts.queues.get_mut(&server) {
            queue.running = None;
        }
        self.pump(&server);
    }

    fn pump(&mut self, server: &str) {
        let Some(queue) = self.hosts.queues.get_mut(server) else { return };
        if queue.running.is_some() {
            return;
        }
        let Some(number) = queue.waiting.pop_front() else { return };
        queue.running = Some(number);
        let delays = self.settings.delays;
        let Some(operation) = self.hosts.operations.get(&number) else { return };
        let (delay, step) = match operation.work {
            Work::Reserve => (delays.reserve, Step::Reserve(number)),
            Work::Attach { .. } => (delays.reserved, Step::Connect(number)),
            Work::Detach => (delays.detaching, Step::Unplug(number)),
        };
        self.later(Duration::from_millis(delay), step);
    }
}
