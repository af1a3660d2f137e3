//! All the ways in which containers have a volume: two pods, several containers, a subPath as
//! kubelet makes it, read-only, and a process that has a file open.

use super::{Kernels, OTHER_POD, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Running, Scene};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "all-kinds-of-mounts",
    about: "two pods, three containers, a subPath and a read-only mount: each is healed as it was",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let data = scene.volume("data")?;
    scene.up(&data, POD, "")?;
    scene.publish(&data, OTHER_POD)?;
    let (folder, other) = (data.pod(POD), data.pod(OTHER_POD));
    // kubelet binds a subPath on the machine, and the runtime that bind.
    let sub = format!("/var/lib/kubelet/pods/{POD}/volume-subpaths/{}/writer/0", data.pv);
    let read_only = "/run/scene/read-only";
    scene.machine.shell(&format!(
        "mkdir -p {folder}/inner {sub} {read_only} && mount --bind {folder}/inner {sub} && \
         mount --bind {other} {read_only} && mount -o remount,bind,ro {read_only}"
    ))?;
    let writer = scene.start_seeing("writer", POD, &[(&folder, "/data"), (&sub, "/sub")])?;
    let second = scene.start_seeing("second", POD, &[(&sub, "/sub")])?;
    let reader = scene.start_seeing("reader", OTHER_POD, &[(read_only, "/data")])?;
    scene.machine.shell(&format!("umount {read_only}"))?;
    scene.write(&writer, "/data/log")?;
    scene.write(&second, "/sub/log")?;
    let all: [(&Running, &str); 4] =
        [(&writer, "/data"), (&writer, "/sub"), (&second, "/sub"), (&reader, "/data")];
    for (container, place) in all {
        scene.pod_begins(container, place, &data)?;
    }

    scene.detach_by_force(&data)?;
    scene.attach(&data)?;
    for (container, place) in all {
        scene.pod_has_its_disk(container, place, &data)?;
    }
    let now = scene.mount_at(&second, "/sub")?;
    let well = now[3] == "/inner" && now[5].starts_with("rw");
    scene.check("the subPath is the folder that it was", well, now.join(" "))?;
    let now = scene.mount_at(&reader, "/data")?;
    scene.check("what was read-only still is", now[5].starts_with("ro"), now.join(" "))?;
    let now = scene.machine.shell(&format!("findmnt -no SOURCE,FSROOT {sub}"))?;
    scene.check("the machine's subPath is healed too", now.contains("/inner"), now)?;
    let lines = scene.lines(&format!("{folder}/inner/log"))?;
    scene.check("what was written below the subPath is there", lines > 0, lines.to_string())?;

    scene.end(&writer)?;
    scene.end(&second)?;
    scene.machine.ask(&crate::orders::Ask::End { name: reader.name.clone() })?;
    scene.machine.shell(&format!("umount {sub}"))?;
    scene.down(&data, &[POD, OTHER_POD])
}
