//! The heal without a call, while the disk of one volume hangs: the others do not wait for it.

use crate::checks::{eventually, nothing_is_left, number_of, only_mount_at};
use crate::files;
use crate::heal::{goes_on, pull};
use crate::scene::{Scene, scene};
use crate::support::pods::{Container, Naming};
use crate::support::{FailingDisk, Node, start};
use crate::tend::{Watching, bring_back};
use nix::sys::signal::Signal;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Far less than the hanging disk hangs.
const OTHERS_WAIT: Duration = Duration::from_secs(40);

/// Its writes succeed again within this time.
#[track_caller]
fn goes_on_within(container: &mut Container, limit: Duration, node: &Node) {
    let before = container.report().writes;
    let end = Instant::now() + limit;
    while container.report().writes < before + 3 {
        assert!(Instant::now() < end, "its writes do not go on: {}", node.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    goes_on(container, 3);
}

/// Who heals.
enum Healer {
    /// A process that stays.
    Watching(Watching),
    /// The timer's, once.
    Timer(Child),
}

/// Two disks came back under other letters. The one that is looked at first hangs.
#[test]
fn a_disk_that_hangs_keeps_no_other_volume_from_its_heal() {
    needs!(fuse, pods);
    for stays in [true, false] {
        let node = Node::new();
        let mut scenes = [Naming::Systemd, Naming::Cgroupfs]
            .map(|naming| scene().on(&node).named(naming).start());
        scenes.sort_by(|one, other| one.volume.id.cmp(&other.volume.id));
        let [
            Scene { volume: first, pod: one, container: mut in_first, .. },
            Scene { volume: second, pod: two, container: mut in_second, .. },
        ] = scenes;
        pull(&first, &mut in_first);
        pull(&second, &mut in_second);
        let disk = FailingDisk::over(&first.image());
        bring_back(&first);
        bring_back(&second);
        disk.hang();

        let healer = if stays {
            Healer::Watching(Watching::begin(&node))
        } else {
            let mut command = node.command(["heal"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            Healer::Timer(start(&mut command))
        };
        goes_on_within(&mut in_second, OTHERS_WAIT, &node);
        assert_eq!(only_mount_at(&second.global()).number, number_of(&second.letter()));
        // The timer's process ends, so that the timer runs again.
        let healer = match healer {
            Healer::Watching(watching) => Some(watching),
            Healer::Timer(mut child) => {
                assert!(!child.wait().unwrap().success(), "one is not healed");
                None
            }
        };
        disk.release();
        let said = if let Some(watching) = healer {
            goes_on_within(&mut in_first, OTHERS_WAIT, &node);
            watching.end(Signal::SIGTERM)
        } else {
            // What hung was killed, and ends a moment after its disk answers again.
            let mut said = String::new();
            eventually("the released disk is healed", || match node.verb(&["heal"]) {
                Ok(words) => {
                    said = words;
                    true
                }
                Err(words) => {
                    assert!(words.contains(" hangs in "), "{words}");
                    false
                }
            });
            goes_on(&mut in_first, 3);
            said
        };
        if stays {
            let hangs = format!("volume {}: not healed: ", first.id);
            // A read of what is not in memory takes the signal that ends it: then nothing is left.
            let is_named = said.contains(" hangs in ") || said.contains("(read disk loop");
            assert!(said.contains(&hangs) && is_named, "{said}");
        }
        assert!(said.contains(&format!("volume {}: switched ", first.id)), "{said}");
        assert_eq!(files::read(first.global().join("kept")).unwrap(), b"from before");
        for (volume, pod, container) in [(&first, &one, in_first), (&second, &two, in_second)] {
            volume.take_away_with(pod, container);
        }
        drop(disk);
        first.must_be_sound();
        nothing_is_left(&node, &[&first, &second]);
    }
}
