//! A line of the kernel's log, and whether it tells of trouble with a disk, or that it went.
//!
//! ```text
//! 3,17821,3989688467,-;Buffer I/O error on dev vdc, logical block 0, async page read
//! ```

use crate::text::has_word;
use crate::timestamp::Millis;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLine {
    /// Its number since the boot; the ring forgets the lowest.
    pub sequence: u64,
    /// By the kernel's clock, which stands while the machine sleeps.
    pub since_boot: Duration,
    /// How bad it is: 0 the worst, 4 a warning, 6 a notice for people.
    pub level: u8,
    pub text: String,
}

/// From here on it is no trouble.
const NOTICE: u8 = 5;

/// What the kernel says as a mere notice, and yet is the end of a disk.
const ENDS: [&str; 8] = [
    "shut down requested",
    "Synchronizing SCSI cache",
    "Stopping disk",
    "Synchronize Cache(10) failed",
    "capacity change",
    "rejecting I/O",
    "emoved",
    "detached",
];

/// Reads a record of `/dev/kmsg`; nothing if it is none.
pub fn parse(record: &str) -> Option<KernelLine> {
    // Behind the first line are facts for programs.
    let (head, text) = record.lines().next()?.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let sequence = head.next()?.parse().ok()?;
    let micros = head.next()?.parse().ok()?;
    // The three lowest bits are the level, the rest says which part of the system.
    let level = u8::try_from(priority & 7).ok()?;
    let since_boot = Duration::from_micros(micros);
    Some(KernelLine { sequence, since_boot, level, text: text.to_owned() })
}

impl KernelLine {
    /// Whether it tells why the disk of this kernel's name is no good any more.
    pub fn tells_of(&self, disk: &str) -> bool {
        // What a disk cannot do and is asked for once, as mkfs does, is no trouble.
        let is_asked_for = self.text.contains("operation not supported error");
        self.names(disk) && !is_asked_for && (self.level < NOTICE || tells_an_end(&self.text))
    }

    /// `vdc` is not named by `vdc1`, nor by `xvdc`; `nvme0n1` not by `nvme0n10`.
    fn names(&self, disk: &str) -> bool {
        has_word(&self.text, disk, |sign| sign.is_ascii_alphanumeric() || sign == '_')
    }
}

/// Whether a line says that a disk, or the file system on it, has ended.
pub fn tells_an_end(text: &str) -> bool {
    // A disk that grows, or comes, changes its capacity too.
    let is_of_capacity = text.contains("capacity change");
    let is_end = ENDS.iter().any(|words| text.contains(words));
    is_end && (!is_of_capacity || text.trim_end().ends_with(" to 0"))
}

/// That a volume had a disk of this kernel's name from a moment on, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub at: Millis,
    /// Which volume; nothing where the volume gave it up.
    pub volume: Option<String>,
    /// The kernel's name of the disk.
    pub disk: String,
}

/// Whose disk had the name at a moment: the kernel gives names again.
pub fn owner_at<'a>(claims: &'a [Claim], disk: &str, at: Millis) -> Option<&'a str> {
    let until_then = claims.iter().filter(|claim| claim.disk == disk && claim.at <= at);
    until_then.max_by_key(|claim| claim.at)?.volume.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: u8, text: &str) -> KernelLine {
        parse(&format!("{level},7,5140900,-;{text}")).unwrap()
    }

    #[test]
    fn a_record_is_taken_apart() {
        let record = "30,17821,3989688467,c;EXT4-fs (vdc): x; y\n SUBSYSTEM=block\n DEVICE=b253:32";
        let line = parse(record).unwrap();
        assert_eq!((line.level, line.sequence), (6, 17821));
        assert_eq!(line.since_boot, Duration::from_micros(3_989_688_467));
        assert_eq!(line.text, "EXT4-fs (vdc): x; y");
        for other in ["", "x", "6,1;text", "x,1,2,-;text", "6,x,2,-;text", "6,1,x,-;text"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    /// As kernels of 5.4 to 6.18 write them.
    #[test]
    fn trouble_is_told_from_what_is_usual() {
        for (level, text, disk) in [
            (6, "EXT4-fs (vdc): shut down requested (2)", "vdc"),
            (
                2,
                "EXT4-fs error (device vdc): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
                "vdc",
            ),
            (
                4,
                "EXT4-fs warning (device sdb): ext4_end_bio:343: I/O error 10 writing to inode 12 starting block 8)",
                "sdb",
            ),
            (2, "EXT4-fs (loop7): Remounting filesystem read-only", "loop7"),
            (3, "Aborting journal on device loop7-8.", "loop7"),
            (3, "JBD2: I/O error when updating journal superblock for vdc-8.", "vdc"),
            (3, "Buffer I/O error on dev sdb, logical block 0, lost sync page write", "sdb"),
            (
                3,
                "I/O error, dev loop7, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
                "loop7",
            ),
            (
                3,
                "blk_update_request: I/O error, dev vdb, sector 2048 op 0x1:(WRITE) flags 0x800",
                "vdb",
            ),
            (1, "XFS (vdc): log I/O error -5", "vdc"),
            (1, "XFS (vdc): Log I/O Error Detected. Shutting down filesystem", "vdc"),
            (
                2,
                "BTRFS error (device vdc): bdev /dev/vdc errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
                "vdc",
            ),
            (5, "sd 2:0:0:1: [sdb] Synchronizing SCSI cache", "sdb"),
            (
                6,
                "sd 2:0:0:1: [sdb] Synchronize Cache(10) failed: Result: hostbyte=DID_NO_CONNECT",
                "sdb",
            ),
            (4, "nvme1n1: detected capacity change from 20971520 to 0", "nvme1n1"),
            (6, "loop3: detected capacity change from 131072 to 0", "loop3"),
        ] {
            assert!(line(level, text).tells_of(disk), "{text}");
        }
        for (level, text, disk) in [
            (6, "EXT4-fs (vdc): mounted filesystem 6fcfc3ca with ordered data mode.", "vdc"),
            (6, "EXT4-fs (vdc): unmounting filesystem 6fcfc3ca.", "vdc"),
            (6, "loop3: detected capacity change from 0 to 131072", "loop3"),
            (5, "virtio_blk virtio3: [vdc] 204800 512-byte logical blocks (105 MB/100 MiB)", "vdc"),
            (5, "sd 2:0:0:1: [sdb] Attached SCSI disk", "sdb"),
            (5, "XFS (vdc): Ending clean mount", "vdc"),
            (3, "Buffer I/O error on dev vdc1, logical block 0", "vdc"),
            (3, "Buffer I/O error on dev xvdc, logical block 0", "vdc"),
            (3, "I/O error, dev nvme0n10, sector 0", "nvme0n1"),
            (3, "I/O error, dev loop17, sector 0", "loop1"),
            (
                3,
                "operation not supported error, dev loop5, sector 130944 op 0x9:(WRITE_ZEROES) flags 0x800",
                "loop5",
            ),
        ] {
            assert!(!line(level, text).tells_of(disk), "{text}");
        }
    }

    #[test]
    fn a_name_is_whose_claimed_it_last() {
        let claim = |at, volume: Option<&str>| Claim {
            at,
            volume: volume.map(str::to_owned),
            disk: "vdc".to_owned(),
        };
        let claims = [claim(10, Some("a")), claim(20, None), claim(30, Some("b"))];
        let found: Vec<_> = [5, 10, 19, 20, 29, 30, 99]
            .iter()
            .map(|at| owner_at(&claims, "vdc", *at).unwrap_or("-"))
            .collect();
        assert_eq!(found, ["-", "a", "a", "-", "-", "b", "b"]);
        assert_eq!(owner_at(&claims, "vdd", 99), None);
    }

    proptest::proptest! {
        #[test]
        fn no_record_makes_the_reader_panic(text in ".{0,200}", disk in "[a-z0-9é]{0,5}") {
            let _ = parse(&text).map(|line| line.tells_of(&disk));
            let _ = parse(&format!("6,1,2,-;{text}")).map(|line| line.tells_of(&disk));
        }
    }
}
