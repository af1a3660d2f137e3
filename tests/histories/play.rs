//! One event after the other.

use crate::server::{Cut, Fault};
use crate::steps::{Action, BY_TIMER, Step};
use crate::support::pods::{Order, Plan};
use crate::world::{
    Caller, Contents, Ended, Held, Inside, Seams, Violation, World, broken, make_folder, number_at,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `nobody`
const USER: u32 = 65_534;
/// Where a person's archive has its parts: the first is missing where a disk looks blank at its head.
const ARCHIVE: [u64; 2] = [0, 300 << 20];
/// A kill at a seam of this number or more is one after so many milliseconds above it.
pub const AFTER: usize = 1000;

/// How often what happened, and how it ended.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub ends: BTreeMap<(Action, &'static str), u64>,
    pub histories: u64,
    pub steps: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        for (key, count) in &other.ends {
            *self.ends.entry(*key).or_default() += count;
        }
        self.histories += other.histories;
        self.steps += other.steps;
    }

    pub fn count(&mut self, action: Action, how: &'static str) {
        *self.ends.entry((action, how)).or_default() += 1;
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

impl World {
    /// The words of a call, and the node that it is made on.
    fn words(&self, step: &Step) -> (usize, Vec<String>) {
        let Step { node, volume, pod, form, .. } = *step;
        let volume_of = &self.volumes[volume];
        let (id, pv, name) = (&volume_of.id, &volume_of.pv, &self.machines[node].node.name);
        let there = (node + 1) % self.machines.len();
        let options = self.options(volume);
        let global = text(&self.global(node, volume));
        let folder = text(&self.folder(node, volume, pod));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let here = match step.action {
            Action::Attach | Action::AttachFromAfar => words(&["attach", &options, name]),
            Action::IsAttached => words(&["isattached", &options, name]),
            Action::WaitForAttach => {
                words(&["waitforattach", &self.hint(node, volume, form), &options])
            }
            Action::MountDevice => {
                words(&["mountdevice", &global, &self.hint(node, volume, form), &options])
            }
            Action::Mount | Action::StartPod => words(&["mount", &folder, &options]),
            Action::Unmount => words(&["unmount", &folder]),
            Action::UnmountDevice => words(&["unmountdevice", &global]),
            Action::Detach | Action::DetachFromAfar => words(&["detach", pv, name]),
            Action::ExpandFs => {
                let (device, size) = (self.hint(node, volume, 0), 2_u64 << 30);
                words(&["expandfs", &options, &device, &folder, &size.to_string(), "1"])
            }
            Action::DetachForce => words(&["detach", "--force", id, name]),
            Action::Release => words(&["release", id]),
            Action::Heal if form == BY_TIMER => words(&["heal"]),
            Action::Heal => words(&["heal", id]),
            Action::Status => words(&["status"]),
            Action::Format => words(&["format", id, "--yes", "--fs-type", volume_of.fs_type]),
            other => unreachable!("{other:?} is no call"),
        };
        let is_afar = matches!(step.action, Action::AttachFromAfar | Action::DetachFromAfar);
        (if is_afar { there } else { node }, here)
    }

    /// The device that kubelet remembers: the link mostly, else nothing or another disk.
    fn hint(&self, node: usize, volume: usize, form: usize) -> String {
        let other = (volume + 1) % self.volumes.len();
        let link = |volume: usize| text(&self.machines[node].shown.link(&self.volumes[volume].id));
        match form % 6 {
            0 => String::new(),
            1 => link(other),
            2 => {
                self.disk(node, other).map_or("/dev/vdz".to_owned(), |name| format!("/dev/{name}"))
            }
            _ => link(volume),
        }
    }

    /// Makes the folders as kubelet does before the call.
    fn prepare(&self, step: &Step) {
        let Step { node, volume, pod, .. } = *step;
        let folder = match step.action {
            Action::MountDevice => self.global(node, volume),
            Action::Mount | Action::StartPod => self.folder(node, volume, pod),
            _ => return,
        };
        // Below a cover that a person mounted kubelet makes them there.
        self.machines[node].inside(|| make_folder(&folder));
    }

    /// The call itself; nothing of the model changes by it.
    pub fn call(&self, step: &Step, seams: &Seams) -> Result<Ended, Violation> {
        self.ready(step).make(seams)
    }

    /// A call that can be made while the world goes on.
    pub fn ready(&self, step: &Step) -> Ready {
        self.prepare(step);
        let (node, words) = self.words(step);
        Ready { step: step.clone(), words, caller: self.machines[node].caller() }
    }

    /// What follows from a call that ended, in the model; and whether what it said is so.
    pub fn settle(&mut self, step: &Step, ended: &Ended, beside: Option<&Step>) -> Held {
        let Step { node, volume, pod, .. } = *step;
        let is_undone = beside
            .is_some_and(|other| other.volume == volume && step.action.is_undone_by(other.action));
        if ended.is_success() && !ended.is_killed() && !is_undone {
            self.must_be_so(step, ended)?;
        }
        if step.action == Action::Format && ended.is_killed() {
            self.volumes[volume].files.clear();
            self.volumes[volume].contents = Contents::Unknown;
        }
        if !ended.is_success() || ended.is_killed() {
            return Ok(());
        }
        match step.action {
            Action::MountDevice if !is_undone => {
                let root = self.machines[node].sees(&self.global(node, volume));
                self.after_mount(volume, &root)?;
            }
            Action::Mount if !is_undone => {
                let root = self.machines[node].sees(&self.folder(node, volume, pod));
                self.after_mount(volume, &root)?;
            }
            Action::StartPod if !is_undone => {
                let root = self.machines[node].sees(&self.folder(node, volume, pod));
                self.after_mount(volume, &root)?;
                self.start_container(node, volume, pod);
            }
            // kubelet removes the folder after an unmount that succeeded.
            Action::Unmount if !is_undone => {
                let folder = self.folder(node, volume, pod);
                self.machines[node].inside(|| drop(fs::remove_dir(folder)));
            }
            Action::UnmountDevice if !is_undone => {
                let folder = self.global(node, volume);
                self.machines[node].inside(|| drop(fs::remove_dir(folder)));
            }
            Action::Detach | Action::DetachFromAfar if !is_undone => {
                self.away.insert((node, volume));
            }
            Action::Format => {
                self.volumes[volume].files.clear();
                self.volumes[volume].contents = Contents::Blank;
            }
            _ => {}
        }
        Ok(())
    }

    fn start_container(&mut self, node: usize, volume: usize, pod: usize) {
        if self.containers.contains_key(&(node, volume, pod)) {
            return;
        }
        let folder = self.folder(node, volume, pod);
        let is_outside = !self.has_cgroups || pod + 1 == self.uids[node].len();
        let plan = if is_outside { Plan::outside() } else { self.pod(node, pod).container() };
        // A container mounts where it likes.
        let pv = &self.volumes[volume].pv;
        let place = match pod {
            0 => "/data".to_owned(),
            1 => format!("/x/{pv}"),
            _ => self.forging_place(volume),
        };
        let container = self.machines[node].start(plan.seeing(&folder, &place));
        let found = number_at(&container.sees(&place));
        let is_live = found.is_some() && found == self.number(node, volume);
        self.containers.insert((node, volume, pod), Inside { container, place, is_live });
    }

    /// Plays a step, and holds what is then so against what must be.
    pub fn play(&mut self, step: &Step, tally: &mut Tally) -> Held {
        tally.steps += 1;
        let mut may_kill = takes_disks(step.action);
        let is_out_of_order = step.form.is_multiple_of(4) || step.beside.is_some();
        if step.action.needs_attachment()
            && !is_out_of_order
            && !self.is_listed(step.node, step.volume)
        {
            tally.count(step.action, "not possible");
        } else if step.action.is_call() {
            self.asks_for(step);
            if let Some(beside) = &step.beside {
                self.asks_for(beside);
            }
            let after = step.killed_at.and_then(|seam| seam.checked_sub(AFTER));
            let at = step.killed_at.filter(|_| after.is_none());
            let seams = Seams {
                killed_at: at,
                killed_after: after.map(|time| Duration::from_millis(time as u64)),
                list: at.map(|_| self.list()),
                held_at: None,
            };
            let was_mounted = self.mounted_anywhere(step.volume);
            let (ended, other) = match step.beside.as_deref() {
                None => (self.call(step, &seams)?, None),
                Some(beside) => {
                    may_kill |= takes_disks(beside.action);
                    let (one, two) = std::thread::scope(|scope| {
                        let world = &*self;
                        let other = scope.spawn(|| world.call(beside, &Seams::default()));
                        let one = world.call(step, &seams);
                        (one, other.join())
                    });
                    let two = two.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                    (one?, Some((beside, two)))
                }
            };
            let all = [(step, &ended)].into_iter().chain(other.as_ref().map(|(s, e)| (*s, e)));
            for (step, ended) in all.clone() {
                tally.count(step.action, how(ended));
                explain(step, ended);
                self.blames_who_failed(ended)?;
                if step.action == Action::Format
                    && ended.is_success()
                    && was_mounted
                    && other.is_none()
                {
                    return broken("a format", format!("{step}: it was mounted"));
                }
            }
            for (step_of, ended) in all {
                let beside = match &other {
                    None => None,
                    Some((beside, _)) if std::ptr::eq(step_of, *beside) => Some(step),
                    Some((beside, _)) => Some(*beside),
                };
                self.settle(step_of, ended, beside)?;
            }
        } else {
            let done = self.happen(step)?;
            tally.count(step.action, if done { "done" } else { "not possible" });
        }
        let others = step.beside.iter().map(|other| other.action);
        if others
            .chain([step.action])
            .any(|one| matches!(one, Action::Release | Action::DetachForce))
        {
            // They take all of the machine's mounts, a person's own too.
            let by_hand = std::mem::take(&mut self.by_hand);
            let stands =
                |(node, place): &(usize, PathBuf)| !self.machines[*node].layers(place).is_empty();
            self.by_hand = by_hand.into_iter().filter(stands).collect();
        }
        self.always_holds(step, may_kill)
    }

    /// What is asked for may come.
    pub fn asks_for(&mut self, step: &Step) {
        use Action::{Attach, AttachByHand, AttachFromAfar};
        if matches!(step.action, Attach | AttachByHand | AttachFromAfar) {
            self.away.remove(&(step.node, step.volume));
        }
    }

    fn mounted_anywhere(&self, volume: usize) -> bool {
        let mut inside = self.containers.iter().filter(|((_, of, _), _)| *of == volume);
        if inside.any(|(_, inside)| inside.is_live) {
            return true;
        }
        (0..self.machines.len()).any(|node| {
            let Some(number) = self.number(node, volume) else { return false };
            self.machines[node].mounts().iter().any(|(other, ..)| *other == number)
        })
    }

    /// Something that is no call; answers whether it could happen.
    pub fn happen(&mut self, step: &Step) -> Result<bool, Violation> {
        let Step { node, volume, pod, form, .. } = *step;
        let done = match step.action {
            Action::Container => {
                let folder = self.machines[node].sees(&self.folder(node, volume, pod));
                if !folder.is_dir() || number_at(&folder) != self.number(node, volume) {
                    return Ok(false);
                }
                self.start_container(node, volume, pod);
                true
            }
            Action::EndPod => self.containers.remove(&(node, volume, pod)).is_some(),
            Action::Write => {
                let key = (node, volume, pod);
                let Some(inside) = self.containers.get(&key) else { return Ok(false) };
                let root = inside.container.sees(&inside.place);
                self.confirm(volume, &root)?;
                true
            }
            Action::Pull => self.pull(node, volume),
            Action::NewLetter => {
                let (server, id) = (&self.machines[node].server, &self.volumes[volume].id);
                let size = self.volumes[volume].size;
                self.hypervisor.pull(server, id).is_ok()
                    && self.hypervisor.plug(server, id, size).is_ok()
            }
            Action::SwapLinks => {
                let other = &self.volumes[(volume + 1) % self.volumes.len()].id;
                let server = &self.machines[node].server;
                self.hypervisor.swap_links(server, &self.volumes[volume].id, other);
                true
            }
            Action::AttachByHand => {
                self.asks_for(step);
                self.attach_by_hand(node, volume)
            }
            Action::MountByHand => self.mount_by_hand(node, volume),
            Action::LostAnswer => {
                let method = ["GET", "POST", "PUT", "DELETE"][form % 4];
                let cut = [Cut::Before, Cut::After, Cut::Middle][form % 3];
                self.cloud.fault(Fault::on(method, "/**").cut(cut));
                true
            }
            Action::LateAnswer => {
                let method = ["GET", "POST", "POST", "DELETE"][form % 4];
                // The request to attach itself, or any.
                let path = ["/**", "/servers/*/os-volume_attachments"][form % 2];
                let late = Duration::from_millis(2500);
                self.cloud.fault(Fault::on(method, path).delay(late));
                true
            }
            Action::BrokenService => {
                let service = ["compute", "volume", "identity"][form % 3];
                self.cloud.fault(Fault::on("*", "/**").service(service).proxy(503).times(2));
                true
            }
            Action::ServiceDown => {
                self.service_down(form);
                true
            }
            Action::ForgottenMapping => self.forget_mapping(node, volume),
            Action::FalseMark => self.false_mark(volume),
            Action::CloudClock => {
                if form % 4 == 0 {
                    self.cloud.world().clock.skew += [-3600, 3600][form / 4 % 2];
                } else {
                    self.cloud.advance(Duration::from_secs(150));
                }
                true
            }
            Action::Cover => self.cover(node, volume, pod, form),
            Action::Reboot => {
                self.reboot(node);
                true
            }
            Action::WipeRecords => {
                fs::remove_dir_all(self.machines[node].node.own().join("state")).is_ok()
            }
            Action::WipeRunFolder => {
                fs::remove_dir_all(self.machines[node].node.own().join("run")).is_ok()
            }
            Action::ZeroDisk | Action::WriteArchive => self.overwrite(step.action, volume, form),
            Action::UserNamespace | Action::BindStorm | Action::FalsePod => {
                self.tenant(step.action, node, volume, pod)
            }
            Action::Calm => {
                self.calm();
                true
            }
            other => unreachable!("{other:?} is a call"),
        };
        Ok(done)
    }

    /// The cloud takes the volume from the server without a question.
    fn pull(&self, node: usize, volume: usize) -> bool {
        self.cloud.wait_idle();
        let (server, id) = (&self.machines[node].server, &self.volumes[volume].id);
        if self.hypervisor.pull(server, id).is_err() {
            return false;
        }
        let mut world = self.cloud.world();
        world.compute_forgets(id, server);
        let found = world.volume_mut(id);
        found.attachments.retain(|attachment| attachment.server != *server);
        found.settle_status();
        true
    }

    /// A person attaches a volume that several servers may have.
    fn attach_by_hand(&self, node: usize, volume: usize) -> bool {
        self.cloud.wait_idle();
        let (server, id) = (&self.machines[node].server, &self.volumes[volume].id);
        {
            let mut world = self.cloud.world();
            let found = world.storage.volume(id).expect("the volume");
            // A volume that the cluster knows: one that no call ever attached is a person's own.
            let is_possible = found.multiattach
                && found.status == "in-use"
                && found.metadata.contains_key("incloud-disk-name");
            if !is_possible || found.attachments.iter().any(|one| one.server == *server) {
                return false;
            }
            world.attached(id, server);
        }
        self.hypervisor.plug(server, id, self.volumes[volume].size).is_ok()
    }

    /// A person mounts something over kubelet's folders.
    fn cover(&mut self, node: usize, volume: usize, pod: usize, form: usize) -> bool {
        let root = self.machines[node].node.kubelet_root();
        let place = match form % 4 {
            0 => root,
            1 => root.join("pods"),
            2 => root.join("pods").join(&self.uids[node][pod]),
            _ => self.global(node, volume).parent().expect("a folder").to_owned(),
        };
        let is_there = self.machines[node].sees(&place).is_dir();
        if !is_there || self.covers.iter().any(|(at, _)| *at == node) {
            return false;
        }
        let done = self.machines[node].inside(|| {
            mount(Some("cover"), &place, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
        });
        if done.is_ok() {
            self.covers.push((node, place));
        }
        done.is_ok()
    }

    /// A person mounts the disk at a place of his own.
    fn mount_by_hand(&mut self, node: usize, volume: usize) -> bool {
        let Some(name) = self.disk(node, volume) else { return false };
        let place = self.base().join(format!("hand-{node}-{volume}"));
        if self.volumes[volume].contents != Contents::Data
            || self.by_hand.iter().any(|(_, other)| *other == place)
        {
            return false;
        }
        make_folder(&place);
        let (device, fs_type) = (Path::new("/dev").join(name), self.volumes[volume].fs_type);
        let done = self.machines[node]
            .inside(|| mount(Some(&device), &place, Some(fs_type), MsFlags::empty(), None::<&str>));
        if done.is_ok() {
            self.by_hand.push((node, place));
        }
        done.is_ok()
    }

    /// A person writes to a disk that is not mounted: to its image, or where it is attached.
    fn overwrite(&mut self, action: Action, volume: usize, form: usize) -> bool {
        self.cloud.wait_idle();
        let image = self.hypervisor.image(&self.volumes[volume].id);
        let contents = self.volumes[volume].contents;
        let disk = (0..self.machines.len()).find_map(|node| self.disk(node, volume));
        if !image.exists() || self.mounted_anywhere(volume) {
            return false;
        }
        match (action, contents) {
            (Action::ZeroDisk, Contents::Data) if !self.is_anywhere(volume) => {
                let file = fs::OpenOptions::new().write(true).open(&image).expect("the image");
                let size = file.metadata().expect("its size").len();
                file.set_len(0).and_then(|()| file.set_len(size)).expect("zeros");
                self.volumes[volume].files.clear();
                self.volumes[volume].contents = Contents::Zeroed;
            }
            (Action::WriteArchive, Contents::Blank) => {
                let target = disk.map_or(image, |name| Path::new("/dev").join(name));
                let file = fs::OpenOptions::new().write(true).open(&target).expect("the disk");
                // What a killed call made may be a whole file system, which is rightly mounted: then
                // its head goes too.
                let mut head = vec![0; 1 << 20];
                let read =
                    fs::File::open(&target).and_then(|file| file.read_exact_at(&mut head, 0));
                let is_blank = read.is_ok() && head.iter().all(|byte| *byte == 0);
                let first = if is_blank { form % 2 } else { 0 };
                for place in &ARCHIVE[first..] {
                    file.write_all_at(&archive(*place), *place).expect("an archive");
                }
                file.sync_all().expect("it is on the disk");
                self.volumes[volume].contents = Contents::Archive(first);
            }
            _ => return false,
        }
        true
    }

    /// The archive is as it was written.
    pub fn has_archive(&self, volume: usize, first: usize) -> Held {
        let file = fs::File::open(self.hypervisor.image(&self.volumes[volume].id));
        let file = file.expect("the image");
        for place in ARCHIVE.into_iter().skip(first) {
            let mut found = vec![0; archive(place).len()];
            let read = file.read_exact_at(&mut found, place);
            if read.is_err() || found != archive(place) {
                return broken("lost data", format!("the archive of volume {volume} at {place}"));
            }
        }
        Ok(())
    }

    fn tenant(&mut self, action: Action, node: usize, volume: usize, pod: usize) -> bool {
        let machine = &self.machines[node];
        if action == Action::FalsePod {
            if !self.has_cgroups {
                return false;
            }
            let user = machine.start(Plan::outside().of_user(USER));
            let root = self.pod(node, pod).cgroup_roots()[0].clone();
            let folder = delegated(&root, &format!("pod{}", self.uids[node][pod]));
            let joined = fs::write(folder.join("cgroup.procs"), user.pid().to_string());
            self.tenants.push((node, self.trick(action, node), user));
            return joined.is_ok();
        }
        let mut user = machine.start(Plan::outside().of_user(USER));
        if action == Action::BindStorm {
            let home = self.base().join("home");
            make_folder(&home);
            chown(&home, Some(USER), Some(USER)).expect("a home");
            let from = self.global(node, volume);
            // He may not see it: then it is only his copy that is in the way.
            if machine.sees(&from).is_dir() {
                for n in 0..150 {
                    let to = home.join(n.to_string());
                    user.must(&Order::Bind { from: from.clone(), to });
                }
            }
        }
        self.tenants.push((node, self.trick(action, node), user));
        true
    }

    /// All troubles end but those that the driver's own calls have to end.
    pub fn calm(&mut self) {
        self.tenants.clear();
        self.end_troubles();
    }

    /// The same, and tenants go on.
    pub fn end_troubles(&mut self) {
        self.services_up();
        self.cloud.world().clock.skew = 0;
        for (node, place) in std::mem::take(&mut self.covers) {
            let done = self.machines[node].inside(|| umount2(&place, MntFlags::MNT_DETACH));
            done.expect("the cover goes");
        }
        for (node, place) in std::mem::take(&mut self.by_hand) {
            let done = self.machines[node].inside(|| umount2(&place, MntFlags::MNT_DETACH));
            done.expect("it goes");
        }
        for machine in &self.machines {
            self.hypervisor.mend_links(&machine.server);
        }
        self.mend_mappings();
        // What is asked for and was not answered is over by then.
        self.cloud.wait_idle();
        self.cloud.advance(Duration::from_secs(300));
    }
}

/// A call that is about to be made.
pub struct Ready {
    step: Step,
    words: Vec<String>,
    caller: Caller,
}

impl Ready {
    pub fn make(&self, seams: &Seams) -> Result<Ended, Violation> {
        let (step, words) = (&self.step, &self.words);
        let ended = self.caller.call(words, seams)?;
        let is_verb = ["heal", "release", "status", "format"].contains(&words[0].as_str())
            || words[1] == "--force";
        let has_reply = ended.reply.is_object() && ended.code == Some(0);
        let is_struck = seams.killed_at.is_some() || seams.killed_after.is_some();
        let may_end_silently = is_verb || (ended.is_killed() && is_struck);
        if !has_reply && !may_end_silently {
            let text = format!("{step}: {:?}, exit {:?}", ended.text, ended.code);
            return Err(Violation { kind: "no reply", text });
        }
        if ended.text.contains("failed inside") || ended.text.contains("panicked") {
            return Err(Violation { kind: "a panic", text: format!("{step}: {}", ended.text) });
        }
        Ok(ended)
    }
}

/// Whether a disk may go by it, or what people force.
pub fn takes_disks(action: Action) -> bool {
    use Action::{DetachForce, EndPod, ForgottenMapping, Format, NewLetter, Pull, Reboot, Release};
    let pulls = matches!(action, Pull | NewLetter | Reboot | ForgottenMapping);
    pulls || matches!(action, DetachForce | Release | EndPod | Format)
}

pub fn how(ended: &Ended) -> &'static str {
    match () {
        () if ended.is_killed() => "killed",
        () if ended.is_success() => "success",
        () => "failure",
    }
}

/// What was said, where a person replays one history.
pub fn explain(step: &Step, ended: &Ended) {
    if std::env::var_os("HISTORIES_TOLD").is_some() {
        println!("    {step} [{:.1?}]: {}", ended.time, ended.text.trim());
    }
}

fn archive(place: u64) -> Vec<u8> {
    let line = format!("an archive of a person, at {place}\n");
    line.bytes().cycle().take(1 << 20).collect()
}

/// A folder that systemd gave the user, and in it one that he named.
fn delegated(root: &Path, name: &str) -> PathBuf {
    let given = root.join("user.slice/user-65534.slice/user@65534.service");
    let folder = given.join(name);
    fs::create_dir_all(&folder).expect("a cgroup");
    for path in folder.ancestors().take_while(|path| path.starts_with(&given)) {
        for path in [path.to_owned(), path.join("cgroup.procs")] {
            chown(&path, Some(USER), Some(USER)).expect("an owner");
        }
    }
    folder
}
