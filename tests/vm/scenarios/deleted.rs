//! With the shield: a pod is deleted while its disk is away. No event and no timer look at the disk that comes back,
//! so kubelet's own call must.

use super::shielded::{ON, a_database_runs, ends, is_pulled};
use super::usual::is_itself;
use super::{Kernels, POD, Scenario};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene, Volume};

const NO_LOOK: &str = "[Unit]\nConditionPathExists=/nowhere\n";
const REFUSED: &str = "unmountdevice is refused while it would wait";

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shield-deleted",
    about: "a pod is deleted while its disk is away: what it wrote is on the disk when kubelet has unmounted it, and nothing but kubelet calls",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: REFUSED,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let (data, _) = a_database_runs(scene, "data")?;
    scene.with_the_events_service(NO_LOOK, |scene| is_taken_down(scene, &data))?;
    scene.up(&data, POD, "")?;
    let last = scene.machine.shell(&format!("cat {}/last", data.pod(POD)))?;
    scene.check("what no program had flushed is there", last == "kept", last)?;
    scene.database_is_whole(&data.pod(POD))?;
    is_itself(scene, &data, POD)?;
    ends(scene, &data)
}

fn is_taken_down(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    scene.database_ends()?;
    scene.machine.shell(&format!("echo kept >{}/last", data.pod(POD)))?;
    is_pulled(scene, data)?;
    let reply = scene.try_unpublish(data, POD)?;
    scene.check("the pod lets go of it", reply.is_success(), reply.message())?;
    scene.machine.shell(&format!("rmdir {}", data.pod(POD)))?;
    let reply = scene.try_unstage(data)?;
    let is_refused = !reply.is_success() && reply.message().contains("would wait too");
    scene.check(REFUSED, is_refused, reply.message())?;
    scene.console_attaches(data, NODE)?;
    scene.letter(data)?;
    let reply = scene.try_unstage(data)?;
    scene.check("and with the disk it unmounts", reply.is_success(), reply.message())?;
    scene.machine.shell(&format!("rmdir {}", data.global()))?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))?;
    scene.must(&["detach", &data.pv, NODE])?;
    scene.check_image(data)
}
