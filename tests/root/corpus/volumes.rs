//! Parts of volumes: LVM, DRBD, bcache, and the metadata of device mapper targets.

use super::image::made;
use super::variant::Variant;

/// The number is that of a DRBD device that does not exist: drbdmeta locks it, and leaves the lock.
macro_rules! drbdmeta {
    ($number:literal, $command:literal) => {
        concat!(
            "drbdmeta --force ",
            $number,
            " ",
            $command,
            "\nset -- $?; rm -f /var/lock/drbd-147-",
            $number,
            "; exit $1",
        )
    };
}

images! {
    lvm_physical_volume: made(32, "LVM2_member", "on_loop pvcreate -q -y");
    // Nothing about it is kept in /etc, no driver is asked, nothing activates it.
    lvm_volume_group: made(
        32,
        "LVM2_member",
        "set_up() {
            set -- $1 corpus$$ 'backup { backup = 0 archive = 0 } devices { use_devicesfile = 0 }'
            vgcreate -q -y --config \"$3\" --devices $1 --setautoactivation n $2 $1 &&
                lvcreate -q -y --config \"$3\" --devices $1 --driverloaded n \
                    -an -Zn -Wn -l 2 -n v $2
         }
         on_loop set_up",
    ).grabbed_by_udev();
    drbd_9: made(64, "drbd", drbdmeta!(7772, "v09 disk internal create-md 3"))
        .blank_when(&[Variant::FirstHalf]);
    /// The file system on a DRBD disk begins where the disk begins: mounted beside DRBD, the two
    /// copies drift apart.
    drbd_with_an_ext4: made(
        64,
        "drbd",
        concat!("mkfs.ext4 -q -d tree disk 48M &&", drbdmeta!(7774, "v08 disk internal create-md")),
    );
    bcache_backing: made(16, "bcache", "make-bcache -B disk").grabbed_by_udev();
    bcache_cache: made(64, "bcache", "make-bcache -C disk").grabbed_by_udev();
    dm_thin_metadata: made(
        16,
        "",
        "echo '<superblock uuid=\"\" time=\"0\" transaction=\"1\" flags=\"0\" version=\"2\"
            data_block_size=\"128\" nr_data_blocks=\"100\"></superblock>' >xml &&
         thin_restore -q -i xml -o disk",
    );
}
