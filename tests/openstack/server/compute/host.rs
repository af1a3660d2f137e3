//! The compute hosts: one thing after another at each server, and the steps that are still to come.
//!
//! Reserve, attach and detach of one server share one lock on its host, so they queue here: an
//! attach of a second volume is answered only when the first is through (O2), a detach is answered
//! at once and waits in the queue (O4). Nothing runs by itself: who looks at the world first
//! lets all that is due happen, in the order in which it fell due.

use super::super::hook::Call;
use super::super::reply::Refusal;
use super::super::world::World;
use super::Host;
use serde::{Deserialize, Serialize};
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
    /// Steps that fell due while the host did not answer.
    stalled: Vec<Step>,
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
    /// Nova's API no longer waits for it (J4).
    pub abandoned: bool,
}

#[derive(Debug, Clone)]
pub enum Work {
    /// Finds a device name and makes Nova's row.
    Reserve { device: Option<String>, tag: Option<String>, delete_on_termination: bool },
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
    Created { volume: String },
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

/// How a coming operation fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Only for this volume's id; none: for any.
    #[serde(default)]
    pub volume: Option<String>,
    pub how: Failure,
    /// How many times; 0: always.
    #[serde(default = "once")]
    pub times: u64,
}

fn once() -> u64 {
    1
}

/// The ways in which an operation fails after its request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Cinder gives no connection; the attach is undone, seen is only `available` (D5).
    AttachInitialize,
    /// The hypervisor fails; the attach is undone (D1).
    AttachDriver,
    /// The attach never ends: `attaching` for good.
    AttachStuck,
    /// The guest keeps the disk; rolled back to `in-use` (D9).
    DetachDriver,
    /// The array keeps the connection: `detaching` for good, Nova keeps the row (D11).
    DetachStuck,
    /// The extend ends in `error_extending`.
    Extend,
}

impl Hosts {
    /// Forgets a deleted server's work.
    pub fn forget(&mut self, server: &str) {
        self.queues.remove(server);
        self.operations.retain(|_, operation| operation.server != server);
    }

    /// Takes a planned failure, if there is one of these kinds for a volume.
    pub fn failure(&mut self, volume: &str, kinds: &[Failure]) -> Option<Failure> {
        let fits = |plan: &Plan| {
            kinds.contains(&plan.how) && plan.volume.as_deref().is_none_or(|id| id == volume)
        };
        let at = self.plans.iter().position(fits)?;
        let how = self.plans[at].how;
        match self.plans[at].times {
            0 => {}
            1 => drop(self.plans.remove(at)),
            _ => self.plans[at].times -= 1,
        }
        Some(how)
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
            if let Some(server) = self.held_up(&due.step) {
                self.hosts.queues.entry(server).or_default().stalled.push(due.step);
            } else {
                self.run_step(due.step);
            }
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
        if operation.outcome.is_none() || operation.abandoned {
            self.hosts.operations.remove(&number);
        }
        if let Some(queue) = self.hosts.queues.get_mut(&server) {
            queue.running = None;
        }
        self.pump(&server);
    }

    /// Changes whether a server's host answers; what waited goes on when it does again.
    pub fn set_host(&mut self, server: &str, host: Host) {
        let Some(known) = self.compute.server_mut(server) else { return };
        known.host = host;
        if host != Host::Up {
            return;
        }
        let queue = self.hosts.queues.entry(server.to_owned()).or_default();
        for step in std::mem::take(&mut queue.stalled) {
            self.later(Duration::ZERO, step);
        }
        self.pump(server);
    }

    /// The server whose host is not there to do a step.
    fn held_up(&self, step: &Step) -> Option<String> {
        let (Step::Reserve(number)
        | Step::Connect(number)
        | Step::Plug(number)
        | Step::Unplug(number)
        | Step::DropRow(number)) = step
        else {
            return None;
        };
        let operation = self.hosts.operations.get(number)?;
        let server = self.compute.server(&operation.server)?;
        (server.host != Host::Up).then(|| server.id.clone())
    }

    fn pump(&mut self, server: &str) {
        if self.compute.server(server).is_some_and(|server| server.host != Host::Up) {
            return;
        }
        let Some(queue) = self.hosts.queues.get_mut(server) else { return };
        if queue.running.is_some() {
            return;
        }
        let Some(number) = queue.waiting.pop_front() else { return };
        queue.running = Some(number);
        let delays = self.settings.delays;
        let Some(operation) = self.hosts.operations.get(&number) else { return };
        let (delay, step) = match operation.work {
            Work::Reserve { .. } => (delays.reserve, Step::Reserve(number)),
            Work::Attach { .. } => (delays.reserved, Step::Connect(number)),
            Work::Detach => (delays.detaching, Step::Unplug(number)),
        };
        self.later(Duration::from_millis(delay), step);
    }
}
