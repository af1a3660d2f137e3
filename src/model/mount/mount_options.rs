//! Options of a mount and of a new file system, as a volume's owner may wish them.
//!
//! Only what is on these lists is passed on: an option can name another device, another root or
//! another user's file, and those are not the owner's to choose.

use crate::disk::file_system::FsType;
use crate::error::{Error, Result};
use crate::text::shown;
use std::fmt;

/// What a mount of a volume is made with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Words for the mount itself, such as `nosuid`.
    pub flags: Vec<Flag>,
    /// Options of the file system: a key, and a value where it has one.
    pub data: Vec<(String, Option<String>)>,
}

/// A property of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    NoSuid,
    NoDev,
    NoExec,
    NoAtime,
    RelAtime,
    StrictAtime,
    NoDirAtime,
    LazyTime,
    Sync,
}

const FLAGS: [(&str, Flag); 9] = [
    ("nosuid", Flag::NoSuid),
    ("nodev", Flag::NoDev),
    ("noexec", Flag::NoExec),
    ("noatime", Flag::NoAtime),
    ("relatime", Flag::RelAtime),
    ("strictatime", Flag::StrictAtime),
    ("nodiratime", Flag::NoDirAtime),
    ("lazytime", Flag::LazyTime),
    ("sync", Flag::Sync),
];

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.flags.iter().filter_map(|flag| {
            FLAGS.iter().find(|(_, known)| known == flag).map(|(name, _)| (*name).to_owned())
        });
        let data = self.data.iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.clone(),
        });
        f.write_str(&flags.chain(data).collect::<Vec<_>>().join(","))
    }
}

const EXT: &str = "acl auto_da_alloc barrier commit data delalloc dioread_lock dioread_nolock \
    discard errors grpjquota grpquota i_version init_itable inode_readahead_blks \
    journal_checksum jqfmt max_batch_time min_batch_time noauto_da_alloc nodelalloc nodiscard \
    noinit_itable prjquota quota stripe user_xattr usrjquota usrquota";
const XFS: &str = "allocsize attr2 discard gqnoenforce gquota grpquota ikeep inode32 inode64 \
    largeio logbsize logbufs noalign nodiscard noikeep nolargeio pqnoenforce pquota prjquota \
    quota sunit swalloc swidth uqnoenforce uquota usrquota";
const BTRFS: &str = "acl autodefrag commit compress compress-force discard flushoncommit \
    max_inline noautodefrag nodiscard nossd space_cache ssd ssd_spread thread_pool";

fn allowed(kind: FsType) -> &'static str {
    match kind {
        FsType::Ext3 | FsType::Ext4 => EXT,
        FsType::Xfs => XFS,
        FsType::Btrfs => BTRFS,
    }
}

impl MountOptions {
    /// Reads `noatime,commit=30`. Which of them a file system has is known when the disk is seen.
    pub fn parse(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            if matches!(word, "defaults" | "rw") {
                continue;
            }
            if word == "ro" {
                return Err(Error::bad_call("ro cannot stand in mountOptions").hint(
                    "readOnly in the pod makes its own mount so; share: read-only every node's",
                ));
            }
            if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word) {
                options.flags.push(*flag);
                continue;
            }
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (word, None),
            };
            let is_known =
                [EXT, XFS, BTRFS].iter().any(|list| list.split_whitespace().any(|one| one == key));
            // A panic of the whole machine is not for one volume's owner to wish.
            if !is_known || !value.is_none_or(is_plain) || word == "errors=panic" {
                return Err(Error::bad_call(format!(
                    "the mount option {} is not allowed",
                    shown(word)
                ))
                .hint("docs/calls-and-options.md in the driver's source lists those that are"));
            }
            options.data.push((key.to_owned(), value.map(str::to_owned)));
        }
        Ok(options)
    }

    /// An error if the file system has no such option.
    pub fn check(&self, kind: FsType) -> Result<()> {
        let list = allowed(kind);
        match self.data.iter().find(|(key, _)| !list.split_whitespace().any(|one| one == *key)) {
            None => Ok(()),
            Some((key, _)) => Err(Error::bad_call(format!("{kind} has no mount option {key}"))
                .hint("change mountOptions in the PersistentVolume, or ask for another fsType")),
        }
    }
}

/// Options of mkfs, as words of its command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MkfsOptions(Vec<String>);

/// What each of a file system's makers may be told; every one of these takes a value.
fn mkfs_letters(kind: FsType) -> &'static str {
    match kind {
        FsType::Ext3 | FsType::Ext4 => "bCEGgiIJmNOT",
        FsType::Xfs => "bdilmnrs",
        FsType::Btrfs => "dmnOs",
    }
}

/// Values that lead to another device or file, or to another place on the disk.
const ELSEWHERE: [&str; 8] =
    ["device", "file", "logdev", "name", "offset", "rtdev", "root_owner", "uuid"];

/// Options that make something other than a file system, or nothing at all.
const NO_FILE_SYSTEM: [(FsType, &str, &str); 3] = [
    (FsType::Ext3, "-O", "journal_dev"),
    (FsType::Ext4, "-O", "journal_dev"),
    (FsType::Btrfs, "-O", "list-all"),
];

impl MkfsOptions {
    /// Reads `-m 1 -O ^metadata_csum`.
    pub fn parse(text: &str) -> Result<Self> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let wrong = |word: &str| {
            Error::bad_call(format!("the mkfs option {} is not allowed", shown(word)))
                .hint("options stand as pairs of a letter and a value, such as -m 1")
        };
        for pair in words.chunks(2) {
            let [letter, value] = pair else { return Err(wrong(&pair[0])) };
            let is_letter = letter.len() == 2
                && letter.starts_with('-')
                && letter.as_bytes()[1].is_ascii_alphabetic();
            let keys = || value.split(',').map(|part| part.split('=').next().unwrap_or_default());
            if !is_letter || !is_plain(value) || keys().any(|key| ELSEWHERE.contains(&key)) {
                return Err(wrong(letter));
            }
        }
        Ok(Self(words))
    }

    /// As it is read.
    pub fn text(&self) -> String {
        self.0.join(" ")
    }

    /// Whether none is wished.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An error if no new file system of this kind may be made with them. They are not checked before one is to be
    /// made: a volume that has its file system is mounted whatever they say.
    pub fn check_new(&self, kind: FsType) -> Result<()> {
        let pairs = self.words(kind)?.chunks_exact(2);
        let is_bad = |letter: &str, value: &str| {
            NO_FILE_SYSTEM.iter().any(|(of, bad_letter, bad)| {
                *of == kind && *bad_letter == letter && value.split(',').any(|one| one == *bad)
            })
        };
        for pair in pairs {
            if is_bad(&pair[0], &pair[1]) {
                // Plain words: that was checked when they were read.
                return Err(Self::makes_no_file_system(kind, &pair.join(" "), "no file system"));
            }
        }
        Ok(())
    }

    /// The refusal of options that make something other than the file system that is asked for.
    pub fn makes_no_file_system(kind: FsType, options: &str, what: &str) -> Error {
        Error::refused(format!("mkfs.{kind} with {options} makes {what}, and {kind} is asked for"))
            .hint("nothing was written; change mkfsOptions in the PersistentVolume")
    }

    /// The words for this file system's maker.
    pub fn words(&self, kind: FsType) -> Result<&[String]> {
        let letters = mkfs_letters(kind);
        let is_known = |word: &&String| word[1..].chars().all(|letter| letters.contains(letter));
        match self.0.iter().step_by(2).find(|word| !is_known(word)) {
            None => Ok(&self.0),
            Some(word) => {
                Err(Error::bad_call(format!("mkfs.{kind} is not given the option {word}"))
                    .hint("change mkfsOptions in the PersistentVolume"))
            }
        }
    }
}

/// Letters, digits and the signs that values need: no path, no quoting, no leading dash.
fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=,.^:_-".contains(c);
    !value.is_empty() && !value.starts_with('-') && value.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_options_are_read_and_checked() {
        let options = MountOptions::parse("defaults,noatime, commit=30,discard").unwrap();
        assert_eq!(options.flags, [Flag::NoAtime]);
        assert_eq!(options.data[0], ("commit".to_owned(), Some("30".to_owned())));
        assert!(options.check(FsType::Ext4).is_ok());
        assert!(options.check(FsType::Xfs).unwrap_err().cause.contains("commit"));
        assert_eq!(MountOptions::parse("").unwrap(), MountOptions::default());
        assert_eq!(options.to_string(), "noatime,commit=30,discard");
        assert_eq!(MountOptions::parse(&options.to_string()).unwrap(), options);
        for wrong in [
            "ro",
            "suid,dev=/dev/sda",
            "journal_dev=8",
            "errors=panic",
            "bind",
            "nouuid",
            "subvol=/x",
            "data=../x",
            "loop",
            "context=a",
            "commit=$(x)",
            "norecovery",
            "usrjquota=/x",
        ] {
            assert!(MountOptions::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mkfs_options_are_read_and_checked() {
        let options = MkfsOptions::parse("-m 1 -O ^metadata_csum,64bit -E stride=2").unwrap();
        assert_eq!(options.words(FsType::Ext4).unwrap().len(), 6);
        assert!(options.words(FsType::Xfs).is_err());
        let wrong = [
            "-F",
            "-m",
            "/dev/sda",
            "-U x -q",
            "-E offset=512",
            "-J device=8:1",
            "-d file,name=x",
            "-l logdev=x",
            "-m -F",
            "-n /x",
            "--help x",
            "-L $(x)",
            "-d a/b",
            "-J size=4,device=8:1",
            "-E root_owner=1000:1000",
            "-r rtdev=x",
            "-r name=x",
            "-l file,name=x",
            "-m uuid=x",
            "-p prototype",
            "-c options=x",
            "-S x",
            "-t ext2",
            "-F x",
            "-q -n",
        ];
        for wrong in wrong {
            let parsed = MkfsOptions::parse(wrong);
            let is_refused = parsed.is_err()
                || [FsType::Ext4, FsType::Xfs, FsType::Btrfs]
                    .iter()
                    .all(|kind| parsed.as_ref().unwrap().words(*kind).is_err());
            assert!(is_refused, "{wrong}");
        }
    }

    #[test]
    fn what_makes_no_file_system_is_refused_for_new_ones() {
        use FsType::{Btrfs, Ext3, Ext4, Xfs};
        let new = |text: &str, kind| MkfsOptions::parse(text).unwrap().check_new(kind);
        for (text, kind) in
            [("-O journal_dev", Ext4), ("-m 1 -O ^64bit,journal_dev", Ext3), ("-O list-all", Btrfs)]
        {
            let error = new(text, kind).unwrap_err();
            assert_eq!(error.kind, crate::error::Kind::Refused, "{error}");
            assert!(error.cause.contains(&format!("and {kind} is asked for")), "{error}");
        }
        for (text, kind) in [
            ("", Ext4),
            ("-O ^has_journal -E stride=2", Ext4),
            ("-O ^journal_dev", Ext4),
            ("-d agcount=4", Xfs),
            ("-O quota", Btrfs),
        ] {
            assert_eq!(new(text, kind), Ok(()), "{text}");
        }
        assert!(new("-O quota", Xfs).is_err(), "it has no such letter");
    }

    proptest::proptest! {
        #[test]
        fn no_text_gets_a_path_through(text in ".{0,60}") {
            if let Ok(options) = MountOptions::parse(&text) {
                assert!(!format!("{options:?}").contains('/'));
            }
            if let Ok(options) = MkfsOptions::parse(&text) {
                assert!(!format!("{options:?}").contains('/'));
            }
        }
    }
}
