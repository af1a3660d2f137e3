//! The end of each history: all troubles end, all pods end, and kubelet's calls in order must take
//! everything away; then the volumes are used once more, and their data is read.

use crate::play::Tally;
use crate::steps::{Action, BY_TIMER, NODES, PODS, Step};
use crate::support::server_disks::losetup;
use crate::world::{Contents, Held, Seams, World, broken};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a call is repeated whose causes are gone.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn step(action: Action, node: usize, volume: usize, pod: usize) -> Step {
    Step { action, node, volume, pod, form: 5, killed_at: None, beside: None }
}

impl World {
    pub fn close(&mut self, tally: &mut Tally) -> Held {
        self.containers.clear();
        // From here on each volume is attached again.
        self.away.clear();
        self.tenants_keep_nothing(tally)?;
        self.calm();
        self.take_away(tally)?;
        self.timers_turn()?;
        self.nothing_is_left()?;
        for volume in 0..self.volumes.len() {
            match self.volumes[volume].contents {
                Contents::Archive(first) => {
                    self.must_refuse(volume)?;
                    self.has_archive(volume, first)?;
                }
                Contents::Zeroed => self.must_refuse(volume)?,
                _ => self.use_again(volume, tally)?,
            }
        }
        self.timers_turn()?;
        self.nothing_is_left()?;
        for volume in 0..self.volumes.len() {
            if self.volumes[volume].contents == Contents::Data {
                self.is_sound(volume)?;
            }
        }
        self.nothing_is_forged()
    }

    /// What no call comes for any more (the lock of a killed one, on a server that it was not about)
    /// goes within the timer's minute.
    fn timers_turn(&mut self) -> Held {
        for node in 0..NODES {
            let heal = Step { form: BY_TIMER, ..step(Action::Heal, node, 0, 0) };
            self.call(&heal, &Seams::default())?;
        }
        Ok(())
    }

    /// Made again until it succeeds.
    pub fn repeat(&mut self, step: &Step, tally: &mut Tally) -> Held {
        let begin = Instant::now();
        loop {
            let ended = self.call(step, &Seams::default())?;
            tally.steps += 1;
            if ended.is_success() {
                return self.must_be_so(step, &ended);
            }
            if begin.elapsed() > PATIENCE {
                let text = format!("{step}: {}", ended.text.trim());
                return broken("a refusal without an end", text);
            }
            std::thread::sleep(Duration::from_millis(200));
            // Two minutes pass for the cloud, for what it was asked and never got.
            self.cloud.advance(Duration::from_secs(150));
        }
    }

    pub fn take_away(&mut self, tally: &mut Tally) -> Held {
        for node in 0..NODES {
            for volume in 0..self.volumes.len() {
                for pod in 0..PODS {
                    let folder = self.folder(node, volume, pod);
                    if self.machines[node].has(&folder) {
                        self.repeat(&step(Action::Unmount, node, volume, pod), tally)?;
                        self.machines[node].inside(|| drop(fs::remove_dir(folder)));
                    }
                }
                let global = self.global(node, volume);
                if self.machines[node].has(&global) {
                    self.repeat(&step(Action::UnmountDevice, node, volume, 0), tally)?;
                    self.machines[node].inside(|| drop(fs::remove_dir(global)));
                }
                self.repeat(&step(Action::Detach, node, volume, 0), tally)?;
            }
        }
        Ok(())
    }

    fn use_again(&mut self, volume: usize, tally: &mut Tally) -> Held {
        let node = volume % NODES;
        for action in [Action::Attach, Action::WaitForAttach, Action::MountDevice, Action::Mount] {
            self.repeat(&step(action, node, volume, 0), tally)?;
        }
        let root = self.machines[node].sees(&self.folder(node, volume, 0));
        self.after_mount(volume, &root)?;
        self.take_away(tally)
    }

    /// A disk that is not formatted by itself: refused, with a reason, and as it was afterwards.
    fn must_refuse(&mut self, volume: usize) -> Held {
        let node = volume % NODES;
        let tally = &mut Tally::default();
        self.repeat(&step(Action::Attach, node, volume, 0), tally)?;
        let mounts = step(Action::MountDevice, node, volume, 0);
        let ended = self.call(&mounts, &Seams::default())?;
        if ended.is_success() {
            return broken("a format", format!("{mounts}: {}", ended.text));
        }
        self.take_away(tally)
    }

    /// Its file system has no flaw, and the data is there without the driver too.
    fn is_sound(&self, volume: usize) -> Held {
        let image = self.hypervisor.image(&self.volumes[volume].id);
        let fs_type = self.volumes[volume].fs_type;
        let checker = if fs_type == "xfs" { "xfs_repair" } else { "fsck.ext4" };
        let mut check = Command::new(checker);
        let output = crate::support::output_of(check.args(["-n", "-f"]).arg(&image));
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            return broken("a damaged file system", format!("volume {volume}: {said}"));
        }
        let place = self.base().join("read");
        fs::create_dir_all(&place).expect("a folder");
        let name = losetup(&[Path::new("--find"), Path::new("--show"), &image]).expect("a disk");
        let device = Path::new("/dev").join(&name);
        let read = self.machines[0].inside(|| {
            let options = MsFlags::MS_RDONLY;
            mount(Some(&device), &place, Some(fs_type), options, None::<&str>)?;
            let found = self.has_all(volume, &place);
            umount2(&place, MntFlags::empty())?;
            Ok::<_, nix::Error>(found)
        });
        let _ = losetup(&[Path::new("--detach"), &device]);
        match read {
            Ok(found) => found,
            Err(errno) => broken("a damaged file system", format!("volume {volume}: {errno}")),
        }
    }
}
