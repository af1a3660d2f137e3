//! Pods for tests, as a node has them: cgroups with kubelet's names, and in them processes with
//! mount namespaces of their own that do what they are told. All of it goes with its owner.

mod attacks;
mod cgroups;
mod container;
mod inside;
mod orders;

pub use attacks::Attack;
pub use cgroups::Naming;
pub use container::Container;
pub use orders::{Order, Report};

use super::{skip, start};
use cgroups::{Folders, Roots, trees};
use incloud_disk::model::mount::mountinfo::MountTable;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Whether processes can be given a root of their own; called by a test that has its private
/// mounts.
pub fn containers_are_possible(test: &str) -> bool {
    let mounts = fs::read("/proc/thread-self/mountinfo").expect("the mounts");
    let table = MountTable::parse(&mounts).expect("the mount table");
    let is_possible = table.top_at(Path::new("/")).is_some();
    if !is_possible {
        skip(test, "needs a root that is a mount, which it is not in a plain chroot");
    }
    is_possible
}

/// Whether pods can be made here; called by a test that has its private mounts.
pub fn pods_are_possible(test: &str) -> bool {
    if !containers_are_possible(test) {
        return false;
    }
    let Some(tree) = trees().into_iter().next() else {
        skip(test, "needs a cgroup tree that can be written");
        return false;
    };
    let probe = tree.join(format!("incloud-disk-test-{}-{test}", std::process::id()));
    match fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)) {
        Ok(()) => true,
        Err(error) => {
            skip(test, &format!("needs a cgroup tree that can be written: {error}"));
            false
        }
    }
}

/// A pod.
#[derive(Debug, Clone)]
pub struct Pod {
    uid: String,
    folders: Arc<Folders>,
}

impl Pod {
    /// One whose folders are in one tree.
    pub fn new(naming: Naming) -> Self {
        Self::in_trees(&trees()[..1], naming, &uuid())
    }

    /// One with this UID.
    pub fn with_uid(naming: Naming, uid: &str) -> Self {
        Self::in_trees(&trees()[..1], naming, uid)
    }

    /// One whose folders are in every tree, as kubelet makes them.
    pub fn in_all_trees(naming: Naming) -> Self {
        Self::in_trees(&trees(), naming, &uuid())
    }

    /// One whose folders are in the last of the trees alone.
    pub fn in_the_last_tree(naming: Naming) -> Self {
        let trees = trees();
        Self::in_trees(&trees[trees.len() - 1..], naming, &uuid())
    }

    fn in_trees(trees: &[PathBuf], naming: Naming, uid: &str) -> Self {
        Self::below(Arc::new(Roots::make(trees)), naming, uid)
    }

    fn below(roots: Arc<Roots>, naming: Naming, uid: &str) -> Self {
        Self { folders: Arc::new(Folders::make(roots, naming, uid)), uid: uid.to_owned() }
    }

    /// Another pod of the same node.
    #[must_use]
    pub fn neighbour(&self, naming: Naming) -> Self {
        Self::below(self.folders.roots(), naming, &uuid())
    }

    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether no process of its node's pods is left, not even one that is just ending.
    pub fn is_empty(&self) -> bool {
        self.folders.are_empty()
    }

    /// The roots of its node's cgroups, one in each tree.
    pub fn cgroup_roots(&self) -> Vec<PathBuf> {
        self.folders.roots().paths().to_vec()
    }

    /// A container of it, to be described and started.
    pub fn container(&self) -> Plan {
        Plan { pod: Some(self.clone()), ..Plan::outside() }
    }

    /// A container as most are: the folder is its `/data`, and all that it has.
    pub fn container_with(&self, volume: &Path) -> Container {
        self.container().seeing(volume, "/data").start()
    }
}

fn uuid() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a UUID").trim().to_owned()
}

/// Whose mounts a process sees.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mounts {
    /// Those of the thread that started it.
    Shared,
    /// A copy of all of those.
    Copied,
    /// Only what it was given.
    Own(Vec<(PathBuf, PathBuf)>),
}

/// A process to be started.
#[derive(Debug, Clone)]
pub struct Plan {
    pod: Option<Pod>,
    mounts: Mounts,
    slave: bool,
    children: u32,
    user: Option<u32>,
}

impl Plan {
    /// In no pod: a service of the machine.
    pub fn outside() -> Self {
        let mounts = Mounts::Own(Vec::new());
        Self { pod: None, mounts, slave: false, children: 0, user: None }
    }

    /// With this folder at that place of its own root.
    #[must_use]
    pub fn seeing(mut self, folder: &Path, place: &str) -> Self {
        match &mut self.mounts {
            Mounts::Own(binds) => binds.push((folder.to_owned(), place.into())),
            mounts => *mounts = Mounts::Own(vec![(folder.to_owned(), place.into())]),
        }
        self
    }

    /// With a copy of all mounts of this thread, as a service with `PrivateMounts` has it.
    #[must_use]
    pub fn copying_all_mounts(self) -> Self {
        Self { mounts: Mounts::Copied, ..self }
    }

    /// An ordinary user's, with a copy of all mounts of this thread in a namespace of his own.
    #[must_use]
    pub fn of_user(self, user: u32) -> Self {
        Self { mounts: Mounts::Shared, user: Some(user), ..self }
    }

    /// In this thread's own mount namespace, as a runtime's watcher (conmon) lives.
    #[must_use]
    pub fn in_our_namespace(self) -> Self {
        Self { mounts: Mounts::Shared, ..self }
    }

    /// What is mounted and unmounted here later also is there, where mounts are shared.
    #[must_use]
    pub fn following_our_mounts(self) -> Self {
        Self { slave: true, ..self }
    }

    /// With children that sleep.
    #[must_use]
    pub fn with_children(self, children: u32) -> Self {
        Self { children, ..self }
    }

    #[track_caller]
    pub fn start(self) -> Container {
        let mut container = self.launch();
        container.settle();
        container
    }

    /// Starts many side by side.
    #[track_caller]
    pub fn start_all(plans: impl IntoIterator<Item = Self>) -> Vec<Container> {
        let mut containers: Vec<_> = plans.into_iter().map(Self::launch).collect();
        containers.iter_mut().for_each(Container::settle);
        containers
    }

    fn launch(self) -> Container {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(inside::MARK, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let folders = self.pod.as_ref().map(|pod| Arc::clone(&pod.folders));
        let id = format!("{}{}", uuid(), uuid()).replace('-', "");
        let mut container = Container::new(start(&mut command), id, folders);
        if let Some(pod) = &self.pod {
            let lists = pod.folders.add(container.id());
            container.send(&Order::Join { lists });
        }
        if let Some(user) = self.user {
            container.send(&Order::BecomeUser { user });
        }
        if self.mounts != Mounts::Shared {
            container.send(&Order::CopyMounts { slave: self.slave });
        }
        if let Mounts::Own(binds) = self.mounts {
            container.send(&Order::OwnRoot { binds });
        }
        if self.children > 0 {
            container.send(&Order::Fork { count: self.children });
        }
        container
    }
}
