//! A disk that held data is not formatted, whichever version remembers that it did.

use crate::checks::digest;
use crate::controller::two_servers;
use crate::files;
use crate::previous::{ORDERS, driven_by};
use crate::support::Node;
use crate::volume::Volume;
use std::fs;
use std::path::Path;

#[test]
fn a_volume_that_the_other_version_mounted_is_not_formatted() {
    needs!(mounts, previous);
    for order in ORDERS {
        // By the record of the node alone, and by the note in the cloud alone.
        for is_by_the_record in [true, false] {
            let node = Node::new();
            let [first, second] = order.map(|version| driven_by(&node, [version]));
            let volume = Volume::create(&first, "ext4", "16M");
            volume.bring();
            first.must(volume.unstage());
            if is_by_the_record {
                let entry = volume.image().with_extension("json");
                let text = fs::read(&entry).unwrap();
                let mut keys: serde_json::Value = serde_json::from_slice(&text).unwrap();
                keys.as_object_mut().unwrap().remove("life").expect("the note of its data");
                fs::write(&entry, keys.to_string()).unwrap();
            } else {
                first.must(volume.detach());
                assert!(!volume.record_path().exists());
                first.must(volume.attach());
            }
            files::write_at(&Path::new("/dev").join(volume.letter()), 0, &vec![0; 16 << 20]);
            let before = digest(&volume.image());
            second.fails(volume.stage());
            assert_eq!(digest(&volume.image()), before, "it was formatted");
            second.must(volume.detach());
        }
    }
}

/// The other server knows it from the cloud alone.
#[test]
fn a_volume_that_the_other_version_mounted_elsewhere_is_not_formatted() {
    needs!(mounts, seams, previous);
    for order in ORDERS {
        let life = two_servers(order);
        life.here.mount_volume();
        life.here.unstage();
        life.here.detach();
        let image = life.plug.image(&life.volume);
        let size = fs::metadata(&image).unwrap().len();
        fs::File::create(&image).unwrap().set_len(size).unwrap();
        life.there.bring_disk();
        life.there.stage_fails();
        assert_eq!(files::head::<4096>(&image), [0; 4096], "it was formatted");
        life.there.detach();
    }
}
