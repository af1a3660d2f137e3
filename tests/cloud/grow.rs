//! `expandfs` with the cloud: its volume, the disk and the file system grow while pods run.

use crate::files;
use crate::life::{Life, PODS, nothing_is_left, random_bytes};
use crate::machine::size_at;
use crate::scene::configure;
use crate::server::Failure;
const GIB: u64 = 1 << 30;

#[test]
fn a_file_system_of_the_cloud_grows() {
    needs!(mounts, seams);
    let life = Life::new("xfs");
    let (machine, pod) = (&life.here, life.here.pod(PODS[0]));
    life.up(machine, "xfs");
    let data = random_bytes(1 << 20);
    files::write_synced(&pod.join("data"), &data);
    let before = size_at(&pod);
    assert!((GIB * 8 / 10..GIB).contains(&before), "{before}");

    // The cloud counts in GiB: what is asked for in between is rounded up.
    machine.expand(PODS[0], 2 * GIB - (100 << 20));
    assert_eq!(life.cloud.world().volume_mut("data").size, 2);
    let after = size_at(&pod);
    assert!((GIB * 17 / 10..2 * GIB).contains(&after), "{after}");
    let asked = || life.cloud.counters().route("POST volume/volumes/{volume}/action");
    assert_eq!(asked(), 1, "the second call had nothing to ask for");
    machine.expand(PODS[0], GIB);
    assert_eq!((size_at(&pod), asked()), (after, 1), "nothing ever shrinks");
    assert!(files::read(pod.join("data")).unwrap() == data, "the data is another");

    life.down(machine);
    life.up(machine, "xfs");
    assert_eq!(size_at(&pod), after, "the next attach has the same size");
    assert!(files::read(pod.join("data")).unwrap() == data, "the data is another");
    life.down(machine);
    nothing_is_left(&life);
}

#[test]
fn an_extension_that_the_cloud_breaks_off_is_a_failure() {
    needs!(mounts, seams);
    let life = Life::new("xfs");
    let (machine, pod) = (&life.here, life.here.pod(PODS[0]));
    machine.node.configure("");
    configure(&machine.node, &life.cloud, "deadline.expandfs = 4");
    life.up(machine, "xfs");
    let before = size_at(&pod);
    life.cloud.plan(Failure::Extend, &life.volume);
    machine.expand_fails(PODS[0], 2 * GIB);
    let message = machine.expand_fails(PODS[0], 2 * GIB);
    assert!(message.contains("error_extending"), "{message}");
    assert!(message.contains("could not extend"), "in our words, not in Cinder's: {message}");
    assert_eq!(size_at(&pod), before);
    // A person mends it; then it goes on.
    life.cloud.world().volume_mut("data").set_status("in-use");
    machine.expand(PODS[0], 2 * GIB);
    assert!(size_at(&pod) > GIB * 17 / 10);
    life.down(machine);
    nothing_is_left(&life);
}
