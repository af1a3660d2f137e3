//! What the threads of a server share: the world behind a lock, the traffic, the end.

use super::compute::host::Job;
use super::connection::Wrap;
use super::hook::Hook;
use super::traffic::Traffic;
use super::world::World;
use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// What the threads of a server share.
pub struct Shared {
    world: Mutex<World>,
    /// The thread that has the world, as [`this_thread`] calls it; 0: none.
    holder: AtomicUsize,
    /// Told whenever the world may have changed.
    changed: Condvar,
    traffic: Mutex<Traffic>,
    /// The server's address, `http://127.0.0.1:4711`.
    pub(super) base: String,
    stopping: AtomicBool,
    /// Open connections, to be closed at the end.
    pub(super) connections: Mutex<BTreeMap<u64, TcpStream>>,
    pub(super) wrap: Box<dyn Wrap>,
    /// For threads that outlive the borrow of a request.
    own: Weak<Self>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("base", &self.base).finish_non_exhaustive()
    }
}

/// The world while no other thread has it; what is due happens when it is given back.
#[derive(Debug)]
pub struct Held<'a> {
    shared: &'a Shared,
    world: Option<MutexGuard<'a, World>>,
}

impl Held<'_> {
    /// Lets others at the world until it changes, at most so long.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        if let Some(world) = self.world.take() {
            self.shared.holder.store(0, Ordering::SeqCst);
            let waited = self.shared.changed.wait_timeout(world, limit);
            self.world = Some(waited.unwrap_or_else(PoisonError::into_inner).0);
            self.shared.holder.store(this_thread(), Ordering::SeqCst);
        }
        self
    }
}

impl Deref for Held<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_ref().expect("held")
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut World {
        self.world.as_mut().expect("held")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(world) = &mut self.world else { return };
        world.settle();
        let jobs = std::mem::take(&mut world.hosts.jobs);
        let hook = world.hook.clone();
        self.shared.holder.store(0, Ordering::SeqCst);
        self.world = None;
        self.shared.changed.notify_all();
        for job in jobs {
            self.shared.run_hook(hook.clone(), job);
        }
    }
}

impl Shared {
    pub(super) fn new(world: World, base: String, wrap: Box<dyn Wrap>) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            world: Mutex::new(world),
            holder: AtomicUsize::new(0),
            changed: Condvar::new(),
            traffic: Mutex::default(),
            base,
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            wrap,
            own: own.clone(),
        })
    }

    /// The world, with all that is due done.
    pub fn world(&self) -> Held<'_> {
        // Two guards in one statement are easily written, and would wait for each other for ever.
        let held = self.holder.load(Ordering::SeqCst) == this_thread();
        assert!(!held, "this thread has the world already: one world() in a statement");
        let mut world = lock(&self.world);
        self.holder.store(this_thread(), Ordering::SeqCst);
        world.settle();
        Held { shared: self, world: Some(world) }
    }

    pub fn traffic(&self) -> MutexGuard<'_, Traffic> {
        lock(&self.traffic)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The threads come to their end.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Lets steps happen when they are due, also when no request looks.
    pub(super) fn tick(&self) {
        while !self.is_stopping() {
            let world = self.world();
            let now = world.clock.now();
            let next = world.hosts.next_due().map(|due| due.saturating_sub(now));
            let frozen = world.clock.is_frozen();
            drop(world);
            // Giving the world back wakes this thread too: waiting on the bare lock does not.
            let pause = next.filter(|_| !frozen).unwrap_or(Duration::from_millis(50));
            let pause = pause.clamp(Duration::from_micros(200), Duration::from_millis(50));
            let world = lock(&self.world);
            drop(self.changed.wait_timeout(world, pause));
        }
    }

    fn run_hook(&self, hook: Hook, job: Job) {
        let Some(shared) = self.own.upgrade() else { return };
        thread::spawn(move || {
            let well = hook.run(&job.call);
            shared.world().hook_ended(&job.purpose, well);
        });
    }
}

/// A number of this thread's own while it lives.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// A lock that a panic elsewhere does not spoil: the test that panicked has failed by itself.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
