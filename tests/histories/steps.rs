//! What can happen in a history, and how histories are made.

use crate::play::AFTER;
use crate::seeded::Seeded;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Servers of a world.
pub const NODES: usize = 2;
/// Pods of each node; the last one is a container without a pod, as plain Docker starts it.
pub const PODS: usize = 3;

/// The form of a heal that the timer asks for: of all volumes of the node.
pub const BY_TIMER: usize = 1000;

/// One kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    // kubelet's calls, and the controller's.
    Attach,
    WaitForAttach,
    IsAttached,
    MountDevice,
    Mount,
    Unmount,
    UnmountDevice,
    Detach,
    ExpandFs,
    // A controller on the other node asks for this one.
    AttachFromAfar,
    DetachFromAfar,
    // People.
    DetachForce,
    Release,
    Heal,
    Status,
    Format,
    // Pods.
    StartPod,
    /// The runtime alone, where the folder is mounted.
    Container,
    EndPod,
    Write,
    // The cloud and the disks.
    Pull,
    NewLetter,
    SwapLinks,
    AttachByHand,
    LostAnswer,
    LateAnswer,
    BrokenService,
    /// One of the services, until all troubles end.
    ServiceDown,
    /// The compute service forgets an attachment, and the disk goes.
    ForgottenMapping,
    CloudClock,
    // The machine.
    MountByHand,
    Cover,
    Reboot,
    WipeRecords,
    WipeRunFolder,
    // A volume that is attached nowhere.
    ZeroDisk,
    WriteArchive,
    /// Its data looks like another thing than a file system.
    FalseMark,
    // Tenants.
    UserNamespace,
    BindStorm,
    FalsePod,
    /// All of these troubles end.
    Calm,
}

use Action::{
    Attach, AttachByHand, AttachFromAfar, BindStorm, BrokenService, Calm, CloudClock, Cover,
    Detach, DetachForce, DetachFromAfar, EndPod, ExpandFs, FalseMark, FalsePod, ForgottenMapping,
    Format, Heal, IsAttached, LateAnswer, LostAnswer, Mount, MountByHand, MountDevice, NewLetter,
    Pull, Reboot, Release, ServiceDown, StartPod, Status, SwapLinks, Unmount, UnmountDevice,
    UserNamespace, WaitForAttach, WipeRecords, WipeRunFolder, Write, WriteArchive, ZeroDisk,
};

impl Action {
    /// Whether the driver is called for it.
    pub fn is_call(self) -> bool {
        self <= Format || self == StartPod
    }

    /// Whether kubelet makes it only where the volume is attached, by what it knows.
    pub fn needs_attachment(self) -> bool {
        matches!(self, WaitForAttach | MountDevice | Mount | StartPod | ExpandFs)
    }

    /// Whether what a Success of this one says may be undone at once by a Success of the other one.
    pub fn is_undone_by(self, other: Self) -> bool {
        // A disk may go after the last look at it, and before the reply.
        let pulled = matches!(other, Pull | NewLetter | ForgottenMapping);
        let forced = pulled || matches!(other, DetachForce | Release | Format);
        let detached = matches!(other, Detach | DetachFromAfar);
        let attached = matches!(other, Attach | AttachFromAfar);
        match self {
            IsAttached => forced || detached || attached,
            Attach | AttachFromAfar | WaitForAttach => forced || detached,
            MountDevice => forced || other == UnmountDevice,
            Mount | StartPod | ExpandFs => forced || other == Unmount,
            Unmount => matches!(other, Mount | StartPod),
            UnmountDevice => matches!(other, MountDevice | Mount | StartPod | Format | Heal),
            Detach | DetachFromAfar => attached,
            _ => true,
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub action: Action,
    pub node: usize,
    pub volume: usize,
    pub pod: usize,
    /// Which of its forms.
    pub form: usize,
    /// Killed at this seam of the call, counted from one.
    pub killed_at: Option<usize>,
    /// Another call at the same time.
    pub beside: Option<Box<Step>>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, node, volume, pod, form, .. } = self;
        write!(f, "{action:?} volume {volume}, node {node}, pod {pod}, form {form}")?;
        match self.killed_at {
            Some(after) if after >= AFTER => write!(f, ", killed after {} ms", after - AFTER)?,
            Some(seam) => write!(f, ", killed at its seam {seam}")?,
            None => {}
        }
        if let Some(beside) = &self.beside {
            write!(f, "; beside it {beside}")?;
        }
        Ok(())
    }
}

/// What a history is made of: rows of events that belong together, cut and mixed.
#[derive(Debug, Clone, Copy)]
enum Scene {
    Bring,
    Down,
    Incident,
    Pulled,
    Moved,
    Rebooted,
    BadLinks,
    TwoWriters,
    LostNote,
    Covered,
    LostFormat,
    Zeroed,
    Tenants,
    BadCloud,
    LateAttach,
    ByHand,
    Forgotten,
    Blamed,
    Lookalike,
    FromAfar,
    Killed,
    AtOnce,
    Any,
}

const SCENES: &[(usize, Scene)] = &[
    (14, Scene::Bring),
    (8, Scene::Down),
    (7, Scene::Incident),
    (7, Scene::Pulled),
    (5, Scene::Moved),
    (3, Scene::Rebooted),
    (3, Scene::BadLinks),
    (3, Scene::TwoWriters),
    (2, Scene::LostNote),
    (3, Scene::Covered),
    (3, Scene::LostFormat),
    (3, Scene::Zeroed),
    (4, Scene::Tenants),
    (4, Scene::BadCloud),
    (3, Scene::LateAttach),
    (3, Scene::ByHand),
    (2, Scene::Forgotten),
    (2, Scene::Blamed),
    (2, Scene::Lookalike),
    (4, Scene::FromAfar),
    (8, Scene::Killed),
    (8, Scene::AtOnce),
    (10, Scene::Any),
];

const CALLS: &[(usize, Action)] = &[
    (4, Attach),
    (3, WaitForAttach),
    (1, IsAttached),
    (5, MountDevice),
    (5, Mount),
    (5, Unmount),
    (5, UnmountDevice),
    (5, Detach),
    (1, ExpandFs),
    (2, AttachFromAfar),
    (2, DetachFromAfar),
    (1, DetachForce),
    (1, Release),
    (2, Heal),
    (1, Status),
    (1, Format),
];

const TROUBLES: &[(usize, Action)] = &[
    (4, Write),
    (3, EndPod),
    (3, StartPod),
    (2, Pull),
    (2, NewLetter),
    (1, SwapLinks),
    (1, LostAnswer),
    (1, LateAnswer),
    (1, CloudClock),
    (1, Cover),
    (1, Reboot),
    (1, WipeRecords),
    (1, WipeRunFolder),
    (1, UserNamespace),
    (2, Calm),
];

/// Makes histories.
pub struct Maker {
    seeded: Seeded,
    volumes: usize,
    /// Where each volume was sent last.
    place: Vec<usize>,
    /// Every other scene is this one.
    often: Option<Scene>,
    made: Vec<Step>,
}

impl Maker {
    /// The history of a seed.
    pub fn history(seed: u64, steps: usize, volumes: usize, only: Option<&str>) -> Vec<Step> {
        let mut seeded = Seeded::new(seed);
        let place = (0..volumes).map(|_| seeded.below(NODES)).collect();
        let named = |scene: &Scene| only.is_some_and(|only| format!("{scene:?}") == only);
        let often = SCENES.iter().map(|(_, scene)| *scene).find(named);
        let mut maker = Self { seeded, volumes, place, often, made: Vec::new() };
        while maker.made.len() < steps {
            maker.scene();
        }
        maker.made.truncate(steps);
        maker.made
    }

    fn push(&mut self, action: Action, node: usize, volume: usize, pod: usize) -> &mut Step {
        let form = self.seeded.below(60);
        let step = Step { action, node, volume, pod, form, killed_at: None, beside: None };
        self.made.push(step);
        self.made.last_mut().expect("just pushed")
    }

    fn row(&mut self, volume: usize, pod: usize, actions: &[Action]) {
        for action in actions {
            self.push(*action, self.place[volume], volume, pod);
        }
    }

    fn scene(&mut self) {
        let volume = self.seeded.below(self.volumes);
        let pod = self.seeded.below(PODS);
        let other_pod = (pod + 1) % PODS;
        let node = self.place[volume];
        let there = (node + 1) % NODES;
        let any = self.seeded.weighted(SCENES);
        match self.often.filter(|_| self.made.len().is_multiple_of(2)).unwrap_or(any) {
            Scene::Bring => {
                self.bring(volume, pod);
                if self.seeded.one_in(2) {
                    self.row(volume, other_pod, &[StartPod, Write]);
                }
            }
            Scene::Down => self.down(volume),
            // kubelet takes all down while the pod runs, and learns better.
            Scene::Incident => {
                self.running(volume, pod);
                self.row(volume, pod, &[Unmount, UnmountDevice, Detach, Write]);
                self.row(volume, pod, &[WaitForAttach, MountDevice, Mount, Write]);
            }
            Scene::Pulled => {
                self.running(volume, other_pod);
                self.row(volume, pod, &[StartPod, Write]);
                let how = self.seeded.one_of(&[Pull, Pull, NewLetter]);
                self.row(volume, pod, &[how]);
                let then = self.seeded.one_of(&[Attach, Heal, MountDevice]);
                self.row(volume, pod, &[then, Attach, Heal, Write]);
            }
            Scene::Moved => {
                self.down(volume);
                self.place[volume] = there;
                self.bring(volume, pod);
            }
            Scene::Rebooted => {
                self.row(volume, pod, &[Reboot]);
                self.bring(volume, pod);
            }
            Scene::BadLinks => {
                self.row(volume, pod, &[Attach, SwapLinks, WaitForAttach, MountDevice, StartPod]);
            }
            Scene::FromAfar => {
                self.running(volume, pod);
                self.row(volume, pod, &[DetachFromAfar, Write, AttachFromAfar]);
            }
            Scene::Killed => {
                let action = self.seeded.weighted(CALLS);
                let seam = 1 + self.seeded.below(12);
                self.push(action, node, volume, pod).killed_at = Some(seam);
                if self.seeded.one_in(2) {
                    self.row(volume, pod, &[action]);
                }
            }
            Scene::AtOnce => {
                let (one, two) = (self.seeded.weighted(CALLS), self.seeded.weighted(CALLS));
                let (where_two, pod_two) = (self.seeded.below(NODES), self.seeded.below(PODS));
                self.push(two, where_two, volume, pod_two);
                let beside = self.made.pop().map(Box::new);
                self.push(one, node, volume, pod).beside = beside;
            }
            Scene::Any => {
                let node = self.seeded.below(NODES);
                let call = self.seeded.weighted(CALLS);
                let trouble = self.seeded.weighted(TROUBLES);
                let action = self.seeded.one_of(&[call, trouble]);
                self.push(action, node, volume, pod);
            }
            other => self.trouble(other, volume, pod),
        }
    }

    /// Rows about what goes wrong.
    fn trouble(&mut self, scene: Scene, volume: usize, pod: usize) {
        let node = self.place[volume];
        let there = (node + 1) % NODES;
        match scene {
            Scene::TwoWriters => {
                self.row(volume, pod, &[Attach]);
                for action in [AttachByHand, WaitForAttach, MountDevice, StartPod] {
                    self.push(action, there, volume, pod);
                }
            }
            // The answer to the end of an attach's note is lost.
            Scene::LostNote => {
                self.down(volume);
                self.row(volume, pod, &[LostAnswer]);
                self.made.last_mut().expect("just pushed").form = 3;
                self.row(volume, pod, &[Attach]);
                self.push(AttachByHand, there, volume, pod);
                self.row(volume, pod, &[Detach]);
            }
            Scene::Covered => {
                self.row(
                    volume,
                    pod,
                    &[Attach, MountDevice, Cover, MountDevice, StartPod, Write, Unmount],
                );
            }
            Scene::LostFormat => {
                self.row(volume, pod, &[Attach, MountDevice]);
                let seam = 8 + self.seeded.below(18);
                self.made.last_mut().expect("just pushed").killed_at = Some(seam);
                let then = self.seeded.one_of(&[Detach, WriteArchive]);
                self.row(volume, pod, &[then, WriteArchive, Attach, MountDevice]);
            }
            Scene::Zeroed => {
                self.row(volume, pod, &[Attach, MountDevice]);
                self.down(volume);
                self.row(volume, pod, &[ZeroDisk]);
                self.place[volume] = self.seeded.one_of(&[node, there]);
                self.bring(volume, pod);
            }
            Scene::Tenants => {
                let trick = self.seeded.one_of(&[UserNamespace, BindStorm, FalsePod]);
                self.running(volume, pod);
                self.row(volume, pod, &[trick]);
                if self.seeded.one_in(2) {
                    self.down(volume);
                }
            }
            Scene::BadCloud => {
                let trouble = self.seeded.one_of(&[LostAnswer, LateAnswer, BrokenService]);
                self.row(volume, pod, &[trouble]);
                let calls = self.seeded.one_of(&[[Attach, Attach], [Detach, Attach]]);
                self.row(volume, pod, &calls);
            }
            // The request to attach takes its time, and its caller is killed meanwhile.
            Scene::LateAttach => {
                self.down(volume);
                self.row(volume, pod, &[LateAnswer]);
                self.made.last_mut().expect("just pushed").form = 1;
                self.row(volume, pod, &[Attach]);
                let kill = AFTER + 500 + 100 * self.seeded.below(8);
                self.made.last_mut().expect("just pushed").killed_at = Some(kill);
                self.row(volume, pod, &[Detach, IsAttached, Status, Detach]);
            }
            Scene::Forgotten => {
                self.running(volume, pod);
                self.row(volume, pod, &[ForgottenMapping, Attach, WaitForAttach, MountDevice]);
                let then = self.seeded.one_of(&[Detach, Attach]);
                self.row(volume, pod, &[then, Calm, Attach, MountDevice]);
            }
            // A service fails often enough to be left alone, and then the others are needed.
            Scene::Blamed => {
                let service = self.seeded.one_of(&[0, 1, 1, 2]);
                self.row(volume, pod, &[Attach]);
                self.push(ServiceDown, node, volume, pod).form = service;
                self.row(volume, pod, &[Detach, IsAttached, Attach, IsAttached]);
                // Of the other server, which this machine has to ask for.
                self.push(AttachFromAfar, there, volume, pod);
                self.push(DetachFromAfar, there, volume, pod);
                self.row(volume, pod, &[Detach, Calm]);
            }
            Scene::Lookalike => {
                self.bring(volume, pod);
                self.down(volume);
                self.row(volume, pod, &[FalseMark]);
                self.bring(volume, pod);
            }
            Scene::ByHand => {
                self.row(
                    volume,
                    pod,
                    &[Attach, MountDevice, MountByHand, EndPod, Unmount, UnmountDevice, Detach],
                );
            }
            other => unreachable!("{other:?} is played by its caller"),
        }
    }

    fn running(&mut self, volume: usize, pod: usize) {
        self.row(volume, pod, &[Attach, MountDevice, StartPod, Write]);
    }

    fn bring(&mut self, volume: usize, pod: usize) {
        self.row(volume, pod, &[Attach, WaitForAttach, MountDevice, StartPod, Write]);
    }

    fn down(&mut self, volume: usize) {
        for pod in 0..PODS {
            self.row(volume, pod, &[EndPod, Unmount]);
        }
        self.row(volume, 0, &[UnmountDevice, Detach]);
    }
}
