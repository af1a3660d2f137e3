//! What disks show of themselves in sysfs, read with few system calls: a machine may have
//! hundreds of disks, and every call looks at all of them.

use crate::device_mapper::seen::{self, SeenMap};
use crate::files::{errno_of, is_absence};
use crate::model::advice::{Advice, Remedy, advise};
use crate::model::disk::device::{Device, DeviceNumber, Identity, Proof, Shown};
use crate::model::error::{Error, Result};
use crate::model::ids::shows_a_uuid;
use crate::model::mount::staleness::Doubt;
use crate::model::shield::own_map::MapState;
use crate::model::sorting::sort_by;
use crate::{device_mapper, files};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The kernel counts a disk's size in these, whatever its own sectors are.
const SECTOR: u64 = 512;

/// What the kernel appends to the name of a file that was removed.
const DELETED: &[u8] = b" (deleted)";

/// Longer than any serial, page or path in sysfs (one page).
const LARGEST: usize = 4096;

/// A tree such as `/sys`.
#[derive(Debug, Clone)]
pub(super) struct Sysfs {
    root: PathBuf,
    moment: Rc<RefCell<Moment>>,
}

/// What all disks showed at one moment, as long as a caller asks for that one.
#[derive(Debug, Default)]
struct Moment {
    users: usize,
    /// By whether it was loop devices or all others that were looked at.
    seen: BTreeMap<bool, Rc<Disks>>,
}

/// Disks by their names, and what each of them shows.
type Disks = Vec<(String, Vec<Shown>)>;

/// Until this ends all looks are of one moment.
struct OneMoment(Rc<RefCell<Moment>>);

impl Drop for OneMoment {
    fn drop(&mut self) {
        let mut moment = self.0.borrow_mut();
        moment.users -= 1;
        if moment.users == 0 {
            moment.seen.clear();
        }
    }
}

/// One disk's folder, open.
pub(super) struct DiskFolder {
    descriptor: OwnedFd,
    sysfs: PathBuf,
    path: PathBuf,
    kernel_name: String,
}

impl Sysfs {
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root, moment: Rc::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// All disks are looked at once, until what this answers ends.
    pub(super) fn one_moment(&self) -> Box<dyn Any> {
        self.moment.borrow_mut().users += 1;
        Box::new(OneMoment(Rc::clone(&self.moment)))
    }

    /// Whether there is certainly no list of disks; an error is no such certainty.
    pub(super) fn has_no_disks(&self) -> bool {
        matches!(self.root.join("block").try_exists(), Ok(false))
    }

    /// Every whole disk that shows the identity. One that is under the volume's own map is used through
    /// that, and not otherwise.
    pub(super) fn search(&self, wanted: &Identity) -> Result<Vec<(DiskFolder, Proof)>> {
        let mut found = Vec::new();
        for (name, shown) in self.disks(wanted)?.iter() {
            let Some(proof) = wanted.proven_by(shown) else { continue };
            let Some(mut folder) = self.disk(name)? else { continue };
            if let Some(map) = folder.map_over(wanted)? {
                let Some(over) = self.disk(&map.kernel_name)? else { continue };
                // One that was not finished is none: what has the disk is then its holder.
                if over.text("size")?.is_some_and(|size| size != "0") {
                    folder = over;
                }
            }
            found.push((folder, proof));
        }
        Ok(found)
    }

    /// Every disk of this machine that shows a serial.
    pub(super) fn disks_with_serials(&self) -> Result<Vec<(DiskFolder, Vec<Shown>)>> {
        let mut found = Vec::new();
        for (name, shown) in self.disks_that_show(None, serial_files)? {
            found.extend(self.disk(&name)?.map(|folder| (folder, shown)));
        }
        Ok(found)
    }

    /// A map that has no disk, and waits for one that shows what this disk does.
    pub(super) fn map_that_waits_for(&self, disk: &DiskFolder) -> Result<Option<SeenMap>> {
        let mut maps = seen::maps(&self.root)?;
        maps.retain(|map| map.disk.is_none());
        if maps.is_empty() {
            return Ok(None);
        }
        let shown = disk.shown()?;
        Ok(maps.into_iter().find(|map| {
            let volume = map.uuid.volume();
            let wanted = Identity::Serial(volume.clone());
            wanted.proven_by(&shown).is_some() && !device_mapper::fails(&self.root, volume)
        }))
    }

    /// Whether this is a map of ours whose requests fail, for its disk is gone.
    pub(super) fn is_dead_map(&self, folder: &DiskFolder) -> Result<bool> {
        let without = folder.own_map()?.filter(|map| map.disk.is_none());
        Ok(without.is_some_and(|map| device_mapper::fails(&self.root, map.uuid.volume())))
    }

    fn disks(&self, wanted: &Identity) -> Result<Rc<Disks>> {
        let kind = matches!(wanted, Identity::BackingFile(_));
        let is_asked_for = {
            let moment = self.moment.borrow();
            if let Some(seen) = moment.seen.get(&kind) {
                return Ok(Rc::clone(seen));
            }
            moment.users > 0
        };
        let files_of = |name: &str| kind_of(name, wanted);
        let disks = Rc::new(self.disks_that_show(self.used_loops(wanted).as_ref(), files_of)?);
        if is_asked_for {
            self.moment.borrow_mut().seen.insert(kind, Rc::clone(&disks));
        }
        Ok(disks)
    }

    /// The disks that have any of these files, and what they show in them.
    fn disks_that_show(
        &self,
        used: Option<&BTreeSet<String>>,
        files_of: impl Fn(&str) -> &'static [&'static str],
    ) -> Result<Disks> {
        let block = self.root.join("block");
        let io = |error: std::io::Error| {
            Error::io(format!("look for this machine's disks in {}", block.display()), &error)
                .hint("they can be seen only beside their kernel, where sysfs is mounted")
        };
        let all = File::open(&block).map_err(io)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&block).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if used.is_some_and(|used| name.starts_with("loop") && !used.contains(name)) {
                continue;
            }
            let shown = shown(all.as_fd(), name, files_of(name))?;
            if !shown.is_empty() {
                found.push((name.to_owned(), shown));
            }
        }
        // A folder's order is not the same each time; what is said of several is.
        sort_by(&mut found, |(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// The loop devices that have a size, where the search is among them: the kernel keeps dozens
    /// that have none, and to ask each takes longer than the mount. Nothing where that is unknown.
    fn used_loops(&self, wanted: &Identity) -> Option<BTreeSet<String>> {
        if !matches!(wanted, Identity::BackingFile(_)) || self.root != Path::new("/sys") {
            return None;
        }
        let text = String::from_utf8(files::read_proc("/proc/partitions").ok()?).ok()?;
        let names = text.lines().filter_map(|line| line.split_whitespace().nth(3));
        Some(names.map(str::to_owned).collect())
    }

    pub(super) fn disk(&self, kernel_name: &str) -> Result<Option<DiskFolder>> {
        DiskFolder::open(&self.root, &self.root.join("block").join(kernel_name))
    }

    /// An error where sysfs cannot be seen: then nothing is known to be gone.
    pub(super) fn must_be_there(&self) -> Result<()> {
        let folder = self.root.join("dev/block");
        std::fs::read_dir(&folder)
            .map(drop)
            .map_err(|error| Error::io(format!("read {}", folder.display()), &error))
    }

    /// The folder of the device of this number, whole disk or not.
    pub(super) fn numbered(&self, number: DeviceNumber) -> Result<Option<DiskFolder>> {
        DiskFolder::open(&self.root, &self.root.join("dev/block").join(number.to_string()))
    }
}

impl DiskFolder {
    /// Nothing if there is no such disk. That it could not be looked for is an error: a
    /// caller that takes a disk for gone gives its mounts up.
    pub(super) fn open(sysfs: &Path, path: &Path) -> Result<Option<Self>> {
        let failed =
            |error: &std::io::Error| Error::io(format!("look at {}", path.display()), error);
        let descriptor = match File::open(path) {
            Ok(folder) => OwnedFd::from(folder),
            Err(error) if is_absence(errno_of(&error)) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        // `/sys/dev/block/NUMBER` is a link: the kernel's name is at the end of where it leads.
        let real = match fs::read_link(path) {
            Ok(real) => real,
            Err(error) if errno_of(&error) == Errno::EINVAL => path.to_path_buf(),
            Err(error) if is_absence(errno_of(&error)) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        let kernel_name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (sysfs, path) = (sysfs.to_path_buf(), path.to_path_buf());
        Ok(Some(Self { descriptor, sysfs, path, kernel_name }))
    }

    pub(super) fn kernel_name(&self) -> String {
        self.kernel_name.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The tree that it is in.
    pub(super) fn sysfs(&self) -> &Path {
        &self.sysfs
    }

    /// What it is as a map of ours; nothing if it is none.
    pub(super) fn own_map(&self) -> Result<Option<SeenMap>> {
        seen::map_called(&self.sysfs, &self.kernel_name)
    }

    /// The map of this very volume that holds the disk, if nothing else does.
    fn map_over(&self, wanted: &Identity) -> Result<Option<SeenMap>> {
        let Identity::Serial(volume) = wanted else { return Ok(None) };
        let holders = self.entries("holders")?;
        let [holder] = holders.as_slice() else { return Ok(None) };
        let map = seen::map_called(&self.sysfs, holder)?;
        let is_its = |map: &SeenMap| {
            map.uuid.volume() == volume && map.disk.as_ref() == Some(&self.kernel_name)
        };
        Ok(map.filter(is_its))
    }

    /// Everything that the disk shows of itself; of a map of ours, what its disk shows.
    pub(super) fn shown(&self) -> Result<Vec<Shown>> {
        let name = self.kernel_name();
        if let Some(map) = self.own_map()? {
            let Some(disk) = map.disk else { return Ok(Vec::new()) };
            let path = self.sysfs.join("block").join(disk);
            return Ok(match Self::open(&self.sysfs, &path)? {
                Some(disk) if !disk.kernel_name.starts_with("dm-") => disk.shown()?,
                _ => Vec::new(),
            });
        }
        let files = if name.starts_with("loop") { LOOP } else { serial_files(&name) };
        let all = files.iter().map(|file| read_shown(self.descriptor.as_fd(), file, file));
        all.filter_map(Result::transpose).collect()
    }

    /// What speaks for a volume of the cloud: the beginning of an id in whatever the disk shows, or that it is
    /// made of another disk, which may be one.
    pub(super) fn sign_of_a_volume(&self) -> Option<String> {
        const MADE_OF_OTHERS: [&str; 5] = ["partition", "dm", "md", "loop", "bcache"];
        let name = &self.kernel_name;
        if let Some(what) = MADE_OF_OTHERS.into_iter().find(|what| self.has(what)) {
            return Some(format!("{name} is made of another disk ({what})"));
        }
        for file in [VIRTIO, SCSI, NVME].into_iter().flatten() {
            match read_shown(self.descriptor.as_fd(), file, file) {
                Ok(Some(shown)) if shows_a_uuid(&shown.to_string()) => {
                    return Some(format!("{name} shows {shown}, as a volume does"));
                }
                Ok(_) => {}
                Err(error) => return Some(error.cause),
            }
        }
        None
    }

    /// The facts of a disk; nothing if it vanishes while we look.
    pub(super) fn facts(&self, kernel_name: &str, proof: Proof) -> Result<Option<Device>> {
        let [number, size, read_only] = [self.text("dev")?, self.text("size")?, self.text("ro")?]
            .map(Option::unwrap_or_default);
        let sequence = self.sequence()?;
        let size = size.parse::<u64>().ok().and_then(|sectors| sectors.checked_mul(SECTOR));
        let (Ok(number), Some(size), false) = (number.parse(), size, read_only.is_empty()) else {
            return Ok(None);
        };
        let (kernel_name, read_only) = (kernel_name.to_owned(), read_only == "1");
        let connection = None;
        Ok(Some(Device { kernel_name, number, size, read_only, sequence, proof, connection }))
    }

    /// The state of a disk that the kernel has, and gives no work to, and what ends that.
    pub(super) fn halted(&self) -> Result<Option<Doubt>> {
        let works = if self.kernel_name.starts_with("nvme") { "live" } else { "running" };
        if let Some(map) = self.own_map()? {
            let is_suspended = self.text("dm/suspended")?.is_some_and(|text| text == "1");
            let what = match (&map.disk, is_suspended) {
                (None, _) => MapState::WaitsForDisk.words(),
                (Some(_), true) => MapState::Suspended.words(),
                (Some(_), false) => match device_mapper::state_of(&self.sysfs, map.uuid.volume()) {
                    Some(state) if state.waits() => state.words(),
                    _ => return Ok(None),
                },
            };
            return Ok(Some(waits(&map, what)));
        }
        let state = self.text("device/state")?.filter(|state| state != works);
        let is_suspended = self.text("dm/suspended")?.is_some_and(|text| text == "1");
        let state = state.or_else(|| is_suspended.then(|| "suspended".to_owned()));
        let Some(state) = state else { return Ok(None) };
        let state = format!("{} is {state}", self.kernel_name);
        Ok(Some(Doubt {
            state,
            way: self.way_out(is_suspended).map(Advice::from),
            is_pause: false,
        }))
    }

    /// The one place that says what gives a disk work again, or takes it away for good: each kind
    /// of disk has another file for that. What cannot be read is not named.
    fn way_out(&self, is_suspended: bool) -> Option<String> {
        /// SCSI; `NVMe` over a network; `NVMe` on PCI; virtio on PCI.
        const REMOVERS: [&str; 4] = [
            "device/delete",
            "device/delete_controller",
            "device/device/remove",
            "device/../remove",
        ];
        let read = |file| self.text(file).ok().flatten();
        if is_suspended {
            let name = read("dm/name").unwrap_or_else(|| self.kernel_name.clone());
            return Some(format!("dmsetup resume {name} lets it work on"));
        }
        let remover = REMOVERS.into_iter().find(|file| self.has(file))?;
        let number = read("dev")?;
        Some(format!(
            "if it is known to be gone, echo 1 > /sys/dev/block/{number}/{remover} removes it"
        ))
    }

    pub(super) fn sequence(&self) -> Result<Option<u64>> {
        Ok(self.text("diskseq")?.and_then(|text| text.parse().ok()))
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.path.join(file).exists()
    }

    /// The names in a folder of the disk; none if there is no such folder.
    pub(super) fn entries(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path.join(folder);
        files::all_names_in(&path).map_err(|errno| unread(&path, errno))
    }

    pub(super) fn text(&self, file: &str) -> Result<Option<String>> {
        match read(self.descriptor.as_fd(), file) {
            Ok(bytes) => Ok(bytes.map(|bytes| trimmed(&bytes))),
            Err(errno) => Err(unread(&self.path.join(file), errno)),
        }
    }
}

/// The one place that says what a map of ours that waits is, and what ends that.
pub(super) fn waits(map: &SeenMap, what: &str) -> Doubt {
    let volume = map.uuid.volume();
    Doubt {
        state: format!("{}, the map of volume {volume}, {what}", map.kernel_name),
        way: Some(advise(
            "{} ends the wait with errors, and unmounts it; {} ends it and leaves the mounts, which a heal moves when the disk is back",
            [Remedy::Release.of(volume), Remedy::DetachByForce.of(volume)],
        )),
        is_pause: true,
    }
}

const BACKING_FILE: &[&str] = &["loop/backing_file"];
/// The kernel's own loop devices have no serial; one that shows one is believed like any disk.
const LOOP: &[&str] = &["loop/backing_file", "serial"];
const VIRTIO: &[&str] = &["serial"];
const SCSI: &[&str] = &["device/vpd_pg80", "device/vpd_pg83", "device/wwid"];
const NVME: &[&str] = &["wwid", "device/serial"];

/// Where a disk of this name shows serials. Devices that are made of others show none.
fn serial_files(kernel_name: &str) -> &'static [&'static str] {
    let starts = |start: &str| kernel_name.starts_with(start);
    if starts("sd") {
        SCSI
    } else if starts("nvme") {
        NVME
    } else if ["dm-", "md", "ram", "zram", "nbd", "sr", "fd"].into_iter().any(starts) {
        &[]
    } else {
        VIRTIO
    }
}

/// The files that can show this identity on a disk of this name.
fn kind_of(kernel_name: &str, wanted: &Identity) -> &'static [&'static str] {
    match wanted {
        Identity::BackingFile(_) if kernel_name.starts_with("loop") => BACKING_FILE,
        Identity::BackingFile(_) => &[],
        Identity::Serial(_) => serial_files(kernel_name),
    }
}

fn shown(all: impl AsFd, kernel_name: &str, files: &'static [&'static str]) -> Result<Vec<Shown>> {
    let all = all.as_fd();
    let each = files.iter().map(|file| read_shown(all, &format!("{kernel_name}/{file}"), file));
    each.filter_map(Result::transpose).collect()
}

/// For a serial the kernel may ask the disk: one that gives no answer shows none, and must not stand
/// in the way of all others. What the kernel knows by itself is there, or it cannot be told.
fn read_shown(folder: impl AsFd, path: &str, file: &'static str) -> Result<Option<Shown>> {
    let is_ours = |errno| matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM);
    match read(folder, path) {
        Ok(bytes) => Ok(bytes.and_then(|bytes| shown_in(&bytes, file))),
        // Another program's loop device must not stand in the way of all.
        Err(Errno::ENAMETOOLONG) => Ok(Some(Shown::LongBackingFile)),
        Err(errno) if file == "loop/backing_file" || is_ours(errno) => {
            Err(unread(Path::new(path), errno))
        }
        Err(_) => Ok(None),
    }
}

pub(super) fn shown_in(bytes: &[u8], file: &'static str) -> Option<Shown> {
    /// Device type, page code, and the length in two bytes.
    const PAGE_HEADER: usize = 4;
    let text = match file {
        "loop/backing_file" => return backing_file(bytes).map(Shown::BackingFile),
        "device/vpd_pg80" => trimmed(bytes.get(PAGE_HEADER..)?),
        "device/vpd_pg83" => identifier_of_page_83(bytes)?,
        _ => trimmed(bytes),
    };
    (!text.is_empty()).then_some(Shown::Serial { file, text })
}

/// The first identifier in ASCII of SCSI's page 0x83 (SPC-4, 7.8.6): after the page's header each
/// has 4 bytes (code set, kind, a reserved one, length) before its text.
fn identifier_of_page_83(page: &[u8]) -> Option<String> {
    const ASCII: u8 = 2;
    let mut rest = page.get(4..)?;
    while let [code_set, _, _, length, after @ ..] = rest {
        let text = after.get(..usize::from(*length))?;
        if code_set & 0xf == ASCII {
            return Some(trimmed(text));
        }
        rest = &after[usize::from(*length)..];
    }
    None
}

/// The file behind a loop device. One that was removed counts as no file: the disk was pulled.
fn backing_file(bytes: &[u8]) -> Option<PathBuf> {
    let path = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let is_there = !path.is_empty() && !path.ends_with(DELETED);
    is_there.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// Nothing if there is no such file, or no such disk any more.
fn read(folder: impl AsFd, path: &str) -> nix::Result<Option<Vec<u8>>> {
    let folder = folder.as_fd();
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let mut buffer = [0; LARGEST];
    loop {
        let opened = openat(folder, path, flags, Mode::empty());
        match opened.and_then(|file| nix::unistd::read(&file, &mut buffer)) {
            Ok(length) => return Ok(Some(buffer[..length].to_vec())),
            Err(Errno::EINTR) => {}
            Err(errno) if is_absence(errno) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

pub(super) fn unread(path: &Path, errno: Errno) -> Error {
    Error::io(format!("read {}", path.display()), &errno.into())
        .hint("whether the disk is there cannot be told without it")
}

fn trimmed(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_83_is_read_to_its_first_text() {
        let mut page = vec![0, 0x83, 0, 0];
        page.extend([1, 3, 0, 4, 9, 9, 9, 9]);
        page.extend([2, 1, 0, 6]);
        page.extend(b" text ");
        assert_eq!(identifier_of_page_83(&page).as_deref(), Some("text"));
        for cut in 0..page.len() {
            assert_eq!(identifier_of_page_83(&page[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_removed_file_is_no_file() {
        assert_eq!(backing_file(b"/a b\n"), Some(PathBuf::from("/a b")));
        assert_eq!(backing_file(b"/a b (deleted)\n"), None);
        assert_eq!(backing_file(b"\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_page_makes_the_reader_panic(page in proptest::collection::vec(0u8.., 0..80)) {
            let _ = identifier_of_page_83(&page);
        }
    }
}
