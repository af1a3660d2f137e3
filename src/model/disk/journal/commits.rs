//! How soon a file system writes to its journal that it was written to. What a program overwrites in place changes no
//! journal until then: a disk that was set back to an earlier moment of that time looks the same.

/// Seconds from one commit of an ext4 to the next, at the most; also what it does unless it is told otherwise.
const EXT4_COMMITS: u64 = 5;

/// Hundredths of a second after which an xfs writes its log, at the most; also the kernel's own value.
const XFS_WRITES_ITS_LOG: u64 = 3000;

/// Why a mount with these options, as the kernel shows them, writes its journal too seldom; nothing if it does not.
pub fn come_too_late(super_options: &str) -> Option<String> {
    super_options.split(',').find_map(|option| {
        let seconds = option.strip_prefix("commit=").map(str::parse::<u64>);
        let is_late = match seconds {
            Some(Ok(seconds)) => seconds > EXT4_COMMITS,
            Some(Err(_)) => true,
            None => option == "lazytime",
        };
        is_late.then(|| too_seldom(option))
    })
}

/// The same of any xfs, by the kernel's setting for all of them: hundredths of a second.
pub fn of_an_xfs_come_too_late(setting: &str) -> Option<String> {
    let is_soon = setting.parse().is_ok_and(|time: u64| time <= XFS_WRITES_ITS_LOG);
    (!is_soon).then(|| too_seldom(&format!("xfssyncd_centisecs={setting}")))
}

fn too_seldom(because: &str) -> String {
    format!("its journal is written too seldom to tell who wrote it ({because})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_writes_its_journal_seldom_tells_too_little() {
        for options in ["rw", "rw,commit=5", "rw,commit=1,data=ordered", "rw,seclabel,logbsize=32k"]
        {
            assert_eq!(come_too_late(options), None, "{options}");
        }
        for options in ["rw,lazytime", "rw,commit=6", "rw,commit=3600,data=ordered", "commit=x"] {
            assert!(come_too_late(options).is_some(), "{options}");
        }
        let late = ["3000", "100", "3001", "720000", ""].map(of_an_xfs_come_too_late);
        assert_eq!(late.map(|why| why.is_some()), [false, false, true, true, true]);
    }
}
