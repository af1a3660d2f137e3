//! The properties of a mount alone, from the words of the mount table to the numbers of
//! `mount_setattr(2)`.

const READ_ONLY: u64 = 0x1;
const NO_SUID: u64 = 0x2;
const NO_DEV: u64 = 0x4;
const NO_EXEC: u64 = 0x8;
const NO_ATIME: u64 = 0x10;
const STRICT_ATIME: u64 = 0x20;
const NO_DIR_ATIME: u64 = 0x80;
const NO_SYMLINK_FOLLOW: u64 = 0x20_0000;
/// The kernel wants the whole mask cleared where the way of access times is set (EINVAL).
const ATIME_MASK: u64 = 0x70;
/// What a clone may have from its source and the old mount need not. Not the one for symbolic
/// links: kernels before 5.14 refuse to hear of it.
const USUAL: u64 = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC | NO_DIR_ATIME;

/// The owners of files are shown through a user namespace.
pub(super) const ID_MAPPED: u64 = 0x10_0000;

/// What a clone gets and loses to become what these options of a mount say.
pub(super) fn of(options: &str) -> (u64, u64) {
    let mut set = 0;
    // Access times that are always written have no word of their own.
    let mut atime = STRICT_ATIME;
    for option in options.split(',') {
        match option {
            "ro" => set |= READ_ONLY,
            "nosuid" => set |= NO_SUID,
            "nodev" => set |= NO_DEV,
            "noexec" => set |= NO_EXEC,
            "nodiratime" => set |= NO_DIR_ATIME,
            "nosymfollow" => set |= NO_SYMLINK_FOLLOW,
            "noatime" => atime = NO_ATIME,
            "relatime" => atime = 0,
            _ => {}
        }
    }
    (set | atime, (USUAL & !set) | ATIME_MASK)
}

/// Whether the options say that owners are shown through a user namespace.
pub(super) fn is_id_mapped(options: &str) -> bool {
    options.split(',').any(|option| option == "idmapped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_kernels_numbers() {
        for (options, set, clear) in [
            ("rw,relatime", 0, 0xff),
            ("rw", 0x20, 0xff),
            ("ro,nosuid,nodev,noexec,relatime", 0xf, 0xf0),
            ("rw,noatime,nodiratime,nosymfollow", 0x20_0090, 0x7f),
            ("rw,relatime,idmapped", 0, 0xff),
        ] {
            assert_eq!(of(options), (set, clear), "{options}");
        }
        assert!(is_id_mapped("rw,relatime,idmapped") && !is_id_mapped("rw,relatime"));
    }
}
