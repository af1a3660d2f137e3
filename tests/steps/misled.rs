//! A detach by a name that is recorded for one volume, and is the id of another one: what is recorded
//! comes first.

use super::kubelet::end_of_call;
use super::play::{End, Play, Scene};
use super::trace::Traced;
use super::volume::{Kind, State, Templates, Volume, uuid};
use std::process::Command;

pub fn plays() -> Vec<Play> {
    vec![Play {
        name: "misleddetach/ext4/openstack".to_owned(),
        follow_ups: &["same"],
        demand: None,
        baseline: End::Success,
        set_up: Box::new(|templates| Misled::set_up(templates)),
    }]
}

struct Misled {
    volume: Volume,
    /// The name by which it was attached first, and by which it is used again.
    usual: String,
}

impl Misled {
    fn set_up(templates: &Templates) -> Box<dyn Scene> {
        let mut volume = templates.volume(Kind::Openstack, "ext4", true);
        volume.bring_to(State::Attached);
        let name = uuid();
        {
            let mut world = volume.cloud().expect("a cloud").world();
            world.add_volume("idle", &name, 1, "demo");
            let recorded = ("incloud-disk-name".to_owned(), name.clone().into());
            world.volume_mut(&volume.id).metadata.extend([recorded]);
        }
        let usual = std::mem::replace(&mut volume.pv, name);
        Box::new(Self { volume, usual })
    }
}

impl Scene for Misled {
    fn command(&self) -> Command {
        self.volume.command(&self.volume.call("detach"))
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    fn end_of(&self, traced: &Traced) -> End {
        end_of_call(&self.volume, traced)
    }

    fn must_be_so(&mut self, _said: &str) {
        self.volume.must_be_detached();
    }

    fn go_on(&mut self, _follow_up: &str) {
        self.volume.through("detach");
        self.volume.must_be_detached();
        self.volume.pv.clone_from(&self.usual);
        self.volume.lives_on(true);
    }
}
