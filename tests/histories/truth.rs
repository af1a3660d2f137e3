//! What must be so, by the kernel's and the cloud's own state; the driver's word is no proof.

use crate::steps::{Action, NODES, Step};
use crate::world::{Contents, Ended, Held, World, broken, number_at};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

impl World {
    /// One living mount of the volume's disk stands at this place, and the place leads to it.
    fn is_right_at(&self, node: usize, volume: usize, place: &Path) -> Result<(), String> {
        let layers = self.machines[node].layers(place);
        let Some(number) = self.number(node, volume) else {
            return Err(format!("{}: the volume has no disk here", place.display()));
        };
        if layers != [number.clone()] {
            return Err(format!("{}: {layers:?} is mounted, not {number}", place.display()));
        }
        let found = number_at(&self.machines[node].sees(place));
        if found.as_deref() != Some(&number) {
            return Err(format!("{} leads to {found:?}, not to {number}", place.display()));
        }
        Ok(())
    }

    /// What a Success says is looked up.
    pub fn must_be_so(&self, step: &Step, ended: &Ended) -> Held {
        let Step { node, volume, pod, .. } = *step;
        let (global, folder) = (self.global(node, volume), self.folder(node, volume, pod));
        let untrue = |result: Result<(), String>| match result {
            Ok(()) => Ok(()),
            Err(found) => broken("an untrue success", format!("{step}: {found}")),
        };
        match step.action {
            Action::Attach | Action::AttachFromAfar => {
                let is_so = self.is_listed(node, volume) && self.disk(node, volume).is_some();
                untrue(is_so.then_some(()).ok_or_else(|| "it is not attached".to_owned()))
            }
            Action::WaitForAttach => untrue(self.is_the_disk(node, volume, &ended.reply["device"])),
            Action::IsAttached => {
                let (said, is_so) = (&ended.reply["attached"], self.is_listed(node, volume));
                let right = *said == is_so || !self.cloud.world().hosts.is_idle();
                untrue(right.then_some(()).ok_or_else(|| format!("said {said}, it is {is_so}")))
            }
            Action::MountDevice => untrue(self.is_right_at(node, volume, &global)),
            Action::Mount | Action::StartPod => untrue(self.is_right_at(node, volume, &folder)),
            Action::Unmount => untrue(self.is_bare(node, &folder)),
            Action::UnmountDevice => {
                untrue(self.is_bare(node, &global).and_then(|()| self.is_free(node, volume)))
            }
            Action::Detach | Action::DetachFromAfar => untrue(self.is_away(node, volume)),
            Action::ExpandFs => {
                let place = self.machines[node].sees(&folder);
                let size = nix::sys::statvfs::statvfs(&place)
                    .map_or(0, |found| found.blocks() * found.fragment_size());
                let wanted = (self.volumes[volume].size << 30) / 10 * 9;
                let is_so = size >= wanted;
                untrue(is_so.then_some(()).ok_or_else(|| format!("{size} bytes, not {wanted}")))
            }
            Action::Heal => untrue(self.is_healed(node, volume)),
            _ => Ok(()),
        }
    }

    fn is_the_disk(
        &self,
        node: usize,
        volume: usize,
        said: &serde_json::Value,
    ) -> Result<(), String> {
        let said = said.as_str().ok_or("no device was named")?;
        let device = fs::canonicalize(said).map_err(|error| format!("{said}: {error}"))?;
        let disk = self.disk(node, volume).map(|name| Path::new("/dev").join(name));
        if Some(&device) == disk.as_ref() {
            return Ok(());
        }
        Err(format!("{said} leads to {}, and the disk is {disk:?}", device.display()))
    }

    fn is_bare(&self, node: usize, place: &Path) -> Result<(), String> {
        let layers = self.machines[node].layers(place);
        if layers.is_empty() { Ok(()) } else { Err(format!("{}: {layers:?}", place.display())) }
    }

    /// No process has the disk for itself: kubelet asks the same.
    fn is_free(&self, node: usize, volume: usize) -> Result<(), String> {
        let Some(name) = self.disk(node, volume) else { return Ok(()) };
        let mut alone = fs::OpenOptions::new();
        alone.read(true).custom_flags(nix::libc::O_EXCL);
        match alone.open(Path::new("/dev").join(&name)) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{name} is still in use: {error}")),
        }
    }

    /// Nothing of it is at the node's server, and nothing comes any more.
    fn is_away(&self, node: usize, volume: usize) -> Result<(), String> {
        let server = &self.machines[node].server;
        if self.disk(node, volume).is_some() {
            return Err("its disk is there".to_owned());
        }
        let world = self.cloud.world();
        let found = world.storage.volume(&self.volumes[volume].id).expect("the volume");
        if found.attachments.iter().any(|attachment| attachment.server == *server) {
            return Err(format!("the cloud lists it as {}", found.status));
        }
        Ok(())
    }

    /// Where the disk is here, nothing of the machine or of a container stands on a dead one.
    fn is_healed(&self, node: usize, volume: usize) -> Result<(), String> {
        let Some(number) = self.number(node, volume) else { return Ok(()) };
        for (other, place, _) in self.machines[node].mounts() {
            // What a person mounted he mounts again.
            let is_by_hand = self.by_hand.contains(&(node, place.clone()));
            if !is_by_hand && other != number && self.volume_of(&other) == Some(volume) {
                return Err(format!("{} stands on the dead disk {other}", place.display()));
            }
        }
        for ((_, _, pod), inside) in
            self.containers.iter().filter(|((at, of, _), _)| (*at, *of) == (node, volume))
        {
            let found = number_at(&inside.container.sees(&inside.place));
            if found.as_deref() != Some(&number) {
                return Err(format!("pod {pod} stands on {found:?}, and the disk is {number}"));
            }
        }
        Ok(())
    }

    /// What holds at any moment.
    pub fn always_holds(&mut self, step: &Step, may_kill: bool) -> Held {
        for volume in 0..self.volumes.len() {
            self.has_one_writer(volume)?;
            for node in 0..NODES {
                self.has_no_strangers(node, volume)?;
            }
        }
        for (node, volume) in &self.away {
            if self.is_listed(*node, *volume) {
                let text = format!("volume {volume} is at node {node}, from which it was detached");
                return broken("an attach that came after a detach", text);
            }
        }
        self.containers_stand(step, may_kill)
    }

    fn has_one_writer(&self, volume: usize) -> Held {
        let has_it = |node: &usize| {
            let Some(number) = self.number(*node, volume) else { return false };
            let mounts = self.machines[*node].mounts();
            mounts.iter().any(|(other, _, is_writable)| *other == number && *is_writable)
        };
        let writers: Vec<_> = (0..NODES).filter(has_it).collect();
        if writers.len() > 1 {
            return broken("two writers", format!("volume {volume} at the nodes {writers:?}"));
        }
        Ok(())
    }

    /// No other volume's disk stands where this volume belongs.
    fn has_no_strangers(&self, node: usize, volume: usize) -> Held {
        let pods = (0..self.uids[node].len()).map(|pod| self.folder(node, volume, pod));
        let places: Vec<PathBuf> = pods.chain([self.global(node, volume)]).collect();
        for (number, place, _) in self.machines[node].mounts() {
            if !places.contains(&place) || !number.starts_with("7:") {
                continue;
            }
            let of = self.volume_of(&number);
            if of != Some(volume) {
                let text = format!("{} has {number}, of volume {of:?}", place.display());
                return broken("a wrong disk", text);
            }
        }
        Ok(())
    }

    /// A container that had the volume has it, unless its disk went.
    fn containers_stand(&mut self, step: &Step, may_kill: bool) -> Held {
        let mut found = Vec::new();
        for ((node, volume, pod), inside) in &self.containers {
            let number = number_at(&inside.container.sees(&inside.place));
            let is_live = number.is_some() && number == self.number(*node, *volume);
            found.push(((*node, *volume, *pod), is_live, number));
        }
        for (key, is_live, number) in found {
            let inside = self.containers.get_mut(&key).expect("just seen");
            let was = std::mem::replace(&mut inside.is_live, is_live);
            if was && !is_live && !may_kill {
                let (node, volume, pod) = key;
                let text = format!(
                    "{step}: pod {pod} of node {node} had volume {volume}, now its /data is {number:?}"
                );
                return broken("torn down under a pod that runs", text);
            }
        }
        Ok(())
    }

    /// Each confirmed write is there.
    pub fn has_all(&self, volume: usize, root: &Path) -> Held {
        for (name, content) in &self.volumes[volume].files {
            let found = crate::support::with_files(|| fs::read_to_string(root.join(name)));
            match found {
                Ok(found) if found == *content => {}
                Ok(_) => {
                    return broken("other data", format!("volume {volume}: {name} is another"));
                }
                Err(error) => {
                    let text = format!("volume {volume}: {name}: {error}");
                    return broken("lost data", text);
                }
            }
        }
        Ok(())
    }

    /// After a mount: the disk was not formatted that had something, and all data is there.
    pub fn after_mount(&mut self, volume: usize, root: &Path) -> Held {
        match self.volumes[volume].contents {
            Contents::Archive(_) => broken("a format", format!("volume {volume} had an archive")),
            Contents::Zeroed => {
                broken("a format", format!("volume {volume} had data before its disk was zeroed"))
            }
            Contents::Data if !self.volumes[volume].files.is_empty() => self.has_all(volume, root),
            Contents::Data => self.confirm(volume, root),
            Contents::Blank | Contents::Unknown => {
                self.volumes[volume].contents = Contents::Data;
                self.confirm(volume, root)
            }
        }
    }

    /// A write that is confirmed, if it succeeds.
    pub fn confirm(&mut self, volume: usize, root: &Path) -> Held {
        use std::io::Write;
        self.written += 1;
        let name = format!("w{}", self.written);
        let content = format!("{} {}\n", self.volumes[volume].id, self.written).repeat(80);
        let written = crate::support::with_files(|| {
            let mut file = fs::File::create(root.join(&name))?;
            file.write_all(content.as_bytes())?;
            file.sync_all()?;
            fs::File::open(root)?.sync_all()
        });
        if written.is_err() {
            return Ok(());
        }
        let number = number_at(root).unwrap_or_default();
        if self.volume_of(&number) != Some(volume) {
            let text = format!("{name} of volume {volume} went to {number}: {}", root.display());
            return broken("a write to another disk", text);
        }
        self.volumes[volume].files.insert(name, content);
        Ok(())
    }

    /// No loop device, mount, label, lock, mark or scratch is left.
    pub fn nothing_is_left(&self) -> Held {
        const PATIENCE: Duration = Duration::from_secs(20);
        let begin = Instant::now();
        loop {
            let left = self.left();
            let Some(first) = left.first() else { return Ok(()) };
            if begin.elapsed() > PATIENCE {
                return broken("something is left", format!("{first} (of {})", left.len()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let base = self.base();
        left.extend(crate::support::loop_devices_below(&base).iter().map(|device| {
            let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{name}, of {:?}", crate::hypervisor::backing_of(&name))
        }));
        for machine in &self.machines {
            let own = machine.node.own();
            let below = machine
                .mounts()
                .into_iter()
                .filter(|(_, place, _)| place.starts_with(&base) && *place != own);
            left.extend(below.map(|(number, place, _)| format!("{number} at {}", place.display())));
            for folder in ["run/scratch", "run/locks"] {
                let files = fs::read_dir(own.join(folder)).into_iter().flatten().flatten();
                left.extend(files.map(|file| file.path().display().to_string()));
            }
        }
        for volume in &self.volumes {
            for path in [
                format!("/dev/incloud-disk/.locks/{}.lock", volume.id),
                format!("/dev/incloud-disk/{}", volume.id),
            ] {
                if fs::symlink_metadata(&path).is_ok() {
                    left.push(path);
                }
            }
            let world = self.cloud.world();
            let found = world.storage.volume(&volume.id).expect("the volume");
            let stays = ["incloud-disk-life", "incloud-disk-tenure"];
            let marks = found
                .metadata
                .keys()
                .filter(|key| key.starts_with("incloud-disk") && !stays.contains(&key.as_str()));
            left.extend(marks.map(|key| format!("{key} in the metadata of {}", volume.id)));
        }
        left
    }
}
