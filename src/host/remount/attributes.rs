//! The properties of a mount alone, from the words of the mount table to the numbers of
//! `mount_setattr(2)`, or to the flags of mount(2).

use nix::mount::MsFlags;

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
pub(in crate::remount) const ID_MAPPED: u64 = 0x10_0000;

/// What a clone gets and loses to become what these options of a mount say.
pub(in crate::remount) fn of(options: &str) -> (u64, u64) {
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

/// The same as flags of mount(2), which are all that the mount then has.
pub(in crate::remount) fn flags_of(options: &str) -> MsFlags {
    /// `MS_NOSYMFOLLOW`, Linux 5.10.
    const NO_SYMLINK_FOLLOW: MsFlags = MsFlags::from_bits_retain(0x100);
    let mut flags = MsFlags::empty();
    // Without a word for it the kernel would leave the way of access times as it is.
    let mut atime = MsFlags::MS_STRICTATIME;
    for option in options.split(',') {
        flags |= match option {
            "ro" => MsFlags::MS_RDONLY,
            "nosuid" => MsFlags::MS_NOSUID,
            "nodev" => MsFlags::MS_NODEV,
            "noexec" => MsFlags::MS_NOEXEC,
            "nodiratime" => MsFlags::MS_NODIRATIME,
            "nosymfollow" => NO_SYMLINK_FOLLOW,
            _ => MsFlags::empty(),
        };
        match option {
            "noatime" => atime = MsFlags::MS_NOATIME,
            "relatime" => atime = MsFlags::MS_RELATIME,
            _ => {}
        }
    }
    flags | atime
}

/// Whether the options say that owners are shown through a user namespace.
pub(in crate::remount) fn is_id_mapped(options: &str) -> bool {
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
        let strict = MsFlags::MS_STRICTATIME | MsFlags::MS_RDONLY | MsFlags::MS_NODEV;
        assert_eq!(flags_of("ro,nodev"), strict);
        assert_eq!(flags_of("rw,noatime"), MsFlags::MS_NOATIME);
        assert_eq!(flags_of("rw,relatime,nosymfollow").bits(), MsFlags::MS_RELATIME.bits() | 0x100);
        assert!(is_id_mapped("rw,relatime,idmapped") && !is_id_mapped("rw,relatime"));
    }
}
