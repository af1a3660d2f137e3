//! An OpenStack-compatible server for tests: Keystone v3, Nova 2.1 and Cinder v3 over real HTTP.
//!
//! It keeps Nova's and Cinder's views apart, so that they can disagree; it takes its time, fails
//! after it has answered, loses answers, and counts what it is asked. What it says and when was
//! recorded from real services: `tests/openstack/transcripts.md`, against which it is held by a
//! replay. Usable from any test binary by `#[path = "../openstack/server/mod.rs"] mod server;`.
//!
//! ```ignore
//! let cloud = Server::start(World::demo().server("node-a").volume("data", 1));
//! let node = cloud.world().server_id("node-a");
//! let data = cloud.world().volume_id("data");
//! cloud.fault(Fault::on("POST", "/servers/*/os-volume_attachments").cut(Cut::After));
//! // ... let the driver attach, with cloud.auth_url(), user demo, password demopass ...
//! assert_eq!(cloud.counters().attaches[&data], 1);
//! assert_eq!(cloud.world().storage.volume(&data).unwrap().servers(), [node]);
//! ```
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]
#![allow(
    clippy::expect_used,
    clippy::must_use_candidate,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::result_large_err,
    missing_docs,
    unreachable_pub,
    reason = "test code: what a name says is not said again, and a panic is a failed test"
)]

pub mod build;
pub mod clock;
pub mod compute;
pub mod connection;
pub mod fault;
pub mod handle;
pub mod hook;
pub mod http;
pub mod identity;
pub mod ids;
pub mod metadata;
pub mod reply;
pub mod route;
pub mod script;
pub mod shared;
pub mod storage;
pub mod tls;
pub mod traffic;
pub mod world;

pub use clock::Clock;
pub use compute::host::{Failure, Plan};
pub use connection::{Plain, Wrap};
pub use fault::{Cut, Fault};
pub use hook::{Call, Hook};
pub use shared::{Held, Shared};
pub use tls::Tls;
pub use traffic::{Counters, Entry};
pub use world::{Delays, Limit, World};

use shared::lock;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running server; it stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves a world on a free port of this machine.
    pub fn start(world: World) -> Self {
        Self::listen(world, "127.0.0.1:0", Box::new(Plain)).expect("a free port")
    }

    /// The same over TLS; clients need [`Server::ca_pem`].
    pub fn start_tls(world: World) -> Self {
        Self::start_with(world, Tls::new())
    }

    /// The same over TLS of a special kind.
    pub fn start_with(world: World, tls: Tls) -> Self {
        Self::listen(world, "127.0.0.1:0", Box::new(tls)).expect("a free port")
    }

    /// Serves a world on an address, with each connection wrapped.
    pub fn listen(world: World, address: &str, wrap: Box<dyn Wrap>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let host = wrap.host().map_or_else(|| address.ip().to_string(), str::to_owned);
        let base = format!("{}://{host}:{}", wrap.scheme(), address.port());
        let shared = Shared::new(world, base, wrap);
        let (accepting, ticking) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            thread::spawn(move || connection::accept(&accepting, &listener)),
            thread::spawn(move || ticking.tick()),
        ];
        Ok(Self { shared, address, threads })
    }

    /// The server's address, `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        self.shared.base.clone()
    }

    /// Keystone's address.
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.shared.base)
    }

    /// What a client over TLS must trust, as PEM.
    pub fn ca_pem(&self) -> &str {
        self.shared.wrap.authority().expect("a server with TLS")
    }

    /// Where a server of this cloud asks who it is, `http://127.0.0.1:4711`.
    pub fn metadata_url(&self) -> String {
        let url = self.url();
        assert!(url.starts_with("http://"), "metadata is not asked for over TLS");
        url
    }

    /// The world as it is now, to look at and to change; nothing moves while it is held, so not
    /// longer than a statement, and only once in it.
    pub fn world(&self) -> Held<'_> {
        self.shared.world()
    }

    /// One more fault.
    pub fn fault(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// One more failure after an answer.
    pub fn plan(&self, how: Failure, volume: &str) {
        let volume = volume.to_owned();
        self.world().hosts.plans.push(Plan { volume, how });
    }

    /// Lets time pass at once.
    pub fn advance(&self, by: Duration) {
        self.world().clock.advance(by);
    }

    /// Figures about the requests since the start or the last reset.
    pub fn counters(&self) -> Counters {
        self.shared.traffic().counters()
    }

    /// The requests since the start or the last reset.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.traffic().log().to_vec()
    }

    /// Starts counting anew.
    pub fn reset_counters(&self) {
        self.shared.traffic().reset();
    }

    /// Waits until something holds; says whether it came to that.
    pub fn wait_until(&self, limit: Duration, mut holds: impl FnMut(&World) -> bool) -> bool {
        let end = Instant::now() + limit;
        let mut world = self.world();
        loop {
            world.settle();
            if holds(&world) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            world = world.wait(Duration::from_millis(20));
        }
    }

    /// How many requests a fault keeps without an answer now.
    pub fn held(&self) -> u64 {
        self.shared.traffic().held()
    }

    /// Waits until a fault holds so many requests without an answer: then is the moment to kill
    /// who asked.
    pub fn wait_held(&self, count: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.held() != count {
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits until no operation goes on.
    pub fn wait_idle(&self) -> bool {
        self.wait_until(Duration::from_secs(10), |world| world.hosts.is_idle())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        // The accepting thread wakes by a connection, the others by the end of theirs.
        let _ = TcpStream::connect(self.address);
        for stream in lock(&self.shared.connections).values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
