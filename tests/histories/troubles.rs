//! Troubles of the cloud and of images that ordinary use does not make, and what must be so of them.

use crate::play::Tally;
use crate::steps::{Action, NODES};
use crate::world::{Contents, Ended, Held, Seams, World, broken};
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The cloud's services, by the test server's word and by the driver's.
const SERVICES: [(&str, &str); 3] =
    [("compute", "Nova"), ("volume", "Cinder"), ("identity", "Keystone")];

/// The call id of a row that a container forges.
const FORGED: &str = "forged";

/// The four bytes by which Linux knows a member of a RAID, and where they stand from a disk's end.
const RAID: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
const RAID_FROM_END: u64 = 8192;

impl World {
    /// The service of a form is down until all troubles end.
    pub fn service_down(&mut self, form: usize) {
        let (word, name) = SERVICES[form % SERVICES.len()];
        self.were_down.insert(name, None);
        self.cloud.fault(crate::server::Fault::on("*", "/**").service(word).always().proxy(503));
    }

    /// A service that is left alone is one that failed.
    pub fn blames_who_failed(&self, ended: &Ended) -> Held {
        /// It is left alone for a while after it is well again, and a call takes its time.
        const LEFT_ALONE: Duration = Duration::from_secs(30);
        for (_, name) in SERVICES {
            let is_known = match self.were_down.get(name) {
                Some(Some(end)) => end.elapsed() < LEFT_ALONE,
                Some(None) => true,
                None => false,
            };
            // `Nova at HOST is left alone`. `status` also quotes how an earlier call ended.
            let begin = format!("{name} at ");
            let now = ended.text.lines().filter(|line| !line.trim_start().starts_with("last: "));
            let is_blamed = now.flat_map(|line| line.split(&begin).skip(1)).any(|rest| {
                rest.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("is left alone"))
            });
            if is_blamed && !is_known {
                let text = format!("{:?} were down: {}", self.were_down.keys(), ended.text);
                return broken("a service that did not fail is blamed", text);
            }
        }
        Ok(())
    }

    /// The host loses the disk and what it knew of it; the block service goes on to list the server.
    pub fn forget_mapping(&mut self, node: usize, volume: usize) -> bool {
        /// An answer of the cloud also serves calls that begin a moment after it was asked for.
        const FRESH: Duration = Duration::from_millis(1600);
        self.cloud.wait_idle();
        let (server, id) = (&self.machines[node].server, &self.volumes[volume].id);
        if !self.is_listed(node, volume) || self.hypervisor.pull(server, id).is_err() {
            return false;
        }
        self.cloud.world().compute_forgets(id, server);
        std::thread::sleep(FRESH);
        self.forgotten.push((node, volume));
        true
    }

    /// All services are well again.
    pub fn services_up(&mut self) {
        self.cloud.world().faults.clear();
        for end in self.were_down.values_mut() {
            end.get_or_insert_with(Instant::now);
        }
    }

    /// The operator mends the block service's list.
    pub fn mend_mappings(&mut self) {
        self.cloud.wait_idle();
        for (node, volume) in std::mem::take(&mut self.forgotten) {
            let (server, id) = (&self.machines[node].server, &self.volumes[volume].id);
            let mut world = self.cloud.world();
            if world.server_mut(server).rows.iter().all(|row| row.volume != *id) {
                let found = world.volume_mut(id);
                found.attachments.retain(|attachment| attachment.server != *server);
                found.settle_status();
            }
        }
    }

    /// What an application wrote looks like a member of a RAID, where the file system has no other use
    /// of the place.
    pub fn false_mark(&mut self, volume: usize) -> bool {
        self.cloud.wait_idle();
        let image = self.hypervisor.image(&self.volumes[volume].id);
        let is_possible =
            self.volumes[volume].contents == Contents::Data && !self.is_anywhere(volume);
        if !is_possible || !image.exists() {
            return false;
        }
        let file = fs::OpenOptions::new().write(true).open(&image).expect("the image");
        let size = file.metadata().expect("its size").len();
        file.write_all_at(&RAID, size - RAID_FROM_END).expect("four bytes");
        true
    }

    /// Where a plain container has a volume: the rest of the path would be a row of the log.
    pub fn forging_place(&self, volume: usize) -> String {
        let object = &self.volumes[volume].id;
        format!(
            "/x\"}}}}\n{{\"timestamp\":\"2026-11-21T03:50:23Z\",\"level\":\"INFO\",\"fields\":{{\"message\":\"begin\",\"who\":\"alice\",\"object\":\"volume {object}\"}},\"span\":{{\"id\":\"{FORGED}\",\"op\":\"release\",\"name\":\"verb\"}}}}\nx"
        )
    }

    /// The story of each volume has no row that a container wrote.
    pub fn nothing_is_forged(&self) -> Held {
        for node in 0..NODES {
            let words = ["history", "--json"].map(str::to_owned);
            let ended = self.machines[node].call(&words, &Seams::default())?;
            let told: serde_json::Value = serde_json::from_str(&ended.text).unwrap_or_default();
            let rows = told["entries"].as_array().cloned().unwrap_or_default();
            if !ended.is_success() || rows.is_empty() {
                return broken("a story is not told", format!("node {node}: {}", ended.text));
            }
            if let Some(row) = rows.iter().find(|row| row["call"] == FORGED) {
                return broken("a forged row of the log", format!("node {node}: {row}"));
            }
        }
        Ok(())
    }

    /// What a user tries. With the machine's mounts he copies those that a person made at a place of
    /// his own: these are no view of kubelet's folders, and he keeps them too.
    pub fn trick(&self, action: Action, node: usize) -> Action {
        let is_copied = self.by_hand.iter().any(|(at, _)| *at == node);
        if is_copied { Action::MountByHand } else { action }
    }

    /// Who has copies of the machine's mounts in a namespace of his own, or a cgroup named like a
    /// pod's, keeps no volume. What he mounted at a place of his own he keeps.
    pub fn tenants_keep_nothing(&mut self, tally: &mut Tally) -> Held {
        let keeps = |trick: Action| matches!(trick, Action::BindStorm | Action::MountByHand);
        self.tenants.retain(|(_, trick, _)| !keeps(*trick));
        if self.tenants.is_empty() {
            return Ok(());
        }
        self.end_troubles();
        self.take_away(tally)
    }
}
