//! Whose the mounts of a device number are: the one rule for the guard, the heal and what people are shown.
//!
//! While a mount exists the kernel gives its number to no other disk, so what one mount shows holds for all mounts of
//! its number.

use crate::disk::contents::FsType;
use crate::ids::VolumeId;
use crate::mount::label;
use crate::mount::mountinfo::Mount;
use crate::record::VolumeRecord;

/// Whose the mounts of a number are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribution {
    /// This volume's: they have its label, its folder or its file system.
    Proven(VolumeId),
    /// This volume's disk had the number, or another namespace shows its label, and nothing speaks against it.
    Possible(VolumeId),
    /// No candidate's.
    Unattributed,
}

/// Attributes the mounts of one number, of this namespace and of others, to a volume. The candidates are the volumes
/// whose disks had the number; `statfs_id` is what the kernel says of the mounted file system.
pub fn attribute(
    own: &[&Mount],
    elsewhere: &[&Mount],
    candidates: &[&VolumeRecord],
    statfs_id: impl Fn() -> Option<u64>,
) -> Attribution {
    // In another namespace a user names a source and a folder as he likes.
    let all = if own.is_empty() { elsewhere } else { own };
    if all.iter().any(|mount| label::is_labelled(mount)) {
        let labels = all.iter().find_map(|mount| label::owner_of(mount));
        return labels.map_or(Attribution::Unattributed, Attribution::Proven);
    }
    // What another namespace shows is no proof against this machine's own mounts, and more than a number.
    let mut possible = elsewhere.iter().find_map(|mount| label::owner_of(mount));
    for record in candidates {
        match is_mount_of(record, own, all, &statfs_id) {
            Some(true) => return Attribution::Proven(record.volume.clone()),
            Some(false) => {}
            None => possible = possible.or_else(|| Some(record.volume.clone())),
        }
    }
    possible.map_or(Attribution::Unattributed, Attribution::Possible)
}

/// Whether mounts without a label, such as the predecessor's, are the volume's: those in its stage folder are, and
/// those of its file system, whose id the kernel keeps also when the disk is dead.
fn is_mount_of(
    record: &VolumeRecord,
    own: &[&Mount],
    all: &[&Mount],
    statfs_id: impl Fn() -> Option<u64>,
) -> Option<bool> {
    let staged = record.mounts.mounted_as()?;
    if own.iter().any(|mount| mount.target == staged.folder) {
        return Some(true);
    }
    let is_its_type = |mount: &&Mount| family(&mount.fs_type) == family(&staged.fs_type);
    if !all.is_empty() && !all.iter().any(is_its_type) {
        return Some(false);
    }
    let wanted = id_by_statfs(FsType::named(&staged.fs_type)?, &staged.uuid)?;
    Some(statfs_id()? == wanted)
}

/// The kernel mounts an ext3 as either of the two.
fn family(fs_type: &str) -> &str {
    if fs_type.starts_with("ext") { "ext" } else { fs_type }
}

/// The id that statfs(2) gives for a file system, dead or alive: ext folds its UUID into 64 bits. xfs
/// gives its disk's number there, which proves nothing.
pub fn id_by_statfs(kind: FsType, uuid: &str) -> Option<u64> {
    if !matches!(kind, FsType::Ext3 | FsType::Ext4) {
        return None;
    }
    let digits: String = uuid.chars().filter(|c| *c != '-').collect();
    let bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    let half = |at: usize| bytes[at..].first_chunk().map(|half| u64::from_le_bytes(*half));
    (digits.len() == 32).then_some(half(0)? ^ half(8)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{DiskMoment, Staged};
    use std::path::Path;

    const UUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    const ITS_ID: u64 = 0x0808_0808_0808_0808;

    #[test]
    fn an_ext_folds_its_uuid() {
        assert_eq!(id_by_statfs(FsType::Ext4, UUID), Some(ITS_ID));
        assert_eq!(id_by_statfs(FsType::Xfs, UUID), None);
        assert_eq!(id_by_statfs(FsType::Ext4, ""), None);
        assert_eq!(id_by_statfs(FsType::Ext4, "08"), None);
    }

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    /// A mount of this file system and source at a folder.
    fn mount((folder, fs_type, source): (&str, &str, &str)) -> Mount {
        let (fs_type, source) = (fs_type.to_owned(), source.to_owned());
        Mount { fs_type, source, ..Mount::of_a_test("7:1", folder, "") }
    }

    /// A volume that was staged with this file system, or of which that is not known.
    fn volume(called: &str, fs_type: Option<&str>, uuid: &str) -> VolumeRecord {
        let mut record = VolumeRecord::new(id(called));
        let folder = Path::new("/k").join(called);
        let disk = DiskMoment::of_a_test(1, "");
        record.mounts.staged = fs_type.map(|fs_type| Staged::new(&folder, &disk, fs_type, uuid));
        record
    }

    type Words = (&'static str, &'static str, &'static str);
    const OURS: Words = ("/a", "ext4", "/dev/incloud-disk/v1");
    const ANOTHERS: Words = ("/b", "ext4", "/dev/incloud-disk/v2");
    const STAGED: Words = ("/k/v1", "ext4", "/dev/vdb");

    fn bare(fs_type: &'static str) -> Words {
        ("/x", fs_type, "/dev/vdb")
    }

    fn proven(called: &str) -> Attribution {
        Attribution::Proven(id(called))
    }

    fn possible(called: &str) -> Attribution {
        Attribution::Possible(id(called))
    }

    fn of(
        own: &[Words],
        elsewhere: &[Words],
        of: &[VolumeRecord],
        told: Option<u64>,
    ) -> Attribution {
        let mounts = |all: &[Words]| all.iter().map(|one| mount(*one)).collect::<Vec<_>>();
        let (own, elsewhere) = (mounts(own), mounts(elsewhere));
        let (own, elsewhere): (Vec<_>, Vec<_>) = (own.iter().collect(), elsewhere.iter().collect());
        attribute(&own, &elsewhere, &of.iter().collect::<Vec<_>>(), || told)
    }

    #[test]
    fn a_label_holds_for_all_mounts_of_a_number() {
        let (known, unknown) = ([volume("v1", Some("ext4"), UUID)], [volume("v1", None, "")]);
        assert_eq!(of(&[bare("ext4"), OURS], &[], &unknown, None), proven("v1"));
        assert_eq!(of(&[OURS], &[], &[], None), proven("v1"), "without a candidate");
        assert_eq!(of(&[], &[OURS], &unknown, None), proven("v1"));
        assert_eq!(of(&[ANOTHERS], &[], &known, Some(ITS_ID)), proven("v2"));
        assert_eq!(of(&[], &[ANOTHERS], &known, Some(ITS_ID)), proven("v2"));
        // This machine's own are nearer than those of others, who may name a source as they like.
        assert_eq!(of(&[STAGED], &[ANOTHERS], &known, None), proven("v1"));
        assert_eq!(of(&[bare("ext4")], &[OURS], &[], None), possible("v1"));
        assert_eq!(of(&[bare("ext4")], &[ANOTHERS], &unknown, None), possible("v2"));
        assert_eq!(of(&[bare("ext4")], &[ANOTHERS], &known, Some(ITS_ID)), proven("v1"));
        let no_id = ("/a", "ext4", "/dev/incloud-disk/");
        assert_eq!(of(&[no_id], &[], &known, Some(ITS_ID)), Attribution::Unattributed);
    }

    #[test]
    fn without_a_label_the_folder_decides_or_the_file_system() {
        let (known, unknown) = ([volume("v1", Some("ext4"), UUID)], [volume("v1", None, "")]);
        let xfs = [volume("v1", Some("xfs"), UUID)];
        let unattributed = Attribution::Unattributed;
        assert_eq!(of(&[STAGED], &[], &known, None), proven("v1"));
        assert_eq!(of(&[STAGED], &[], &unknown, Some(ITS_ID)), possible("v1"));
        // In another namespace a folder is named as its owner likes.
        assert_eq!(of(&[], &[STAGED], &known, Some(1)), unattributed);
        assert_eq!(of(&[bare("ext4")], &[], &known, Some(ITS_ID)), proven("v1"));
        // An ext3 is mounted as either.
        assert_eq!(of(&[bare("ext3")], &[], &known, Some(ITS_ID)), proven("v1"));
        assert_eq!(of(&[bare("ext4")], &[], &known, Some(1)), unattributed);
        assert_eq!(of(&[bare("ext4")], &[], &known, None), possible("v1"), "it could not be asked");
        assert_eq!(of(&[bare("xfs")], &[], &known, None), unattributed, "another type");
        assert_eq!(of(&[bare("xfs")], &[], &xfs, None), possible("v1"));
        assert_eq!(of(&[bare("btrfs")], &[], &xfs, None), unattributed);
        assert_eq!(of(&[], &[], &known, Some(ITS_ID)), proven("v1"), "seen by its id alone");
        assert_eq!(of(&[], &[], &known, None), possible("v1"));
        assert_eq!(of(&[bare("ext4")], &[], &[], Some(ITS_ID)), unattributed);
    }

    #[test]
    fn of_several_volumes_the_proven_one_counts_and_else_the_first_possible_one() {
        let (known, unknown) = (volume("v1", Some("ext4"), UUID), volume("v3", None, ""));
        let other = volume("v2", Some("ext4"), "00010203-0405-0607-0809-0a0b0c0d0e00");
        let of = |records: &[&VolumeRecord]| {
            let records: Vec<_> = records.iter().copied().cloned().collect();
            of(&[bare("ext4")], &[], &records, Some(ITS_ID))
        };
        assert_eq!(of(&[&unknown, &other, &known]), proven("v1"));
        assert_eq!(of(&[&other, &unknown]), possible("v3"));
        assert_eq!(of(&[&other]), Attribution::Unattributed);
    }
}
