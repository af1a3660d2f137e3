//! System calls that neither nix nor rustix wraps: loop devices, growing and shutting down file systems,
//! device mapper, mount attributes, mount namespaces, single mounts, and the page cache.
//!
//! Each function is one request with its numbers from the kernel's headers. Other unsafe code is next to
//! what needs it, under its own `allow(unsafe_code)`: forks, signal handlers, descriptors that arrive by
//! number, memory shared between processes, and calls of the C library.
#![allow(unsafe_code)]

use crate::model::disk::device::DeviceNumber;
use nix::errno::Errno;
use nix::libc;
use rustix::fs::{AtFlags, StatxFlags};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

type Result<T> = std::result::Result<T, Errno>;

mod requests {
    // linux/loop.h
    nix::ioctl_write_int_bad!(loop_set_fd, 0x4c00);
    nix::ioctl_none_bad!(loop_clr_fd, 0x4c01);
    nix::ioctl_none_bad!(loop_set_capacity, 0x4c07);
    nix::ioctl_none_bad!(loop_ctl_get_free, 0x4c82);
    nix::ioctl_read_bad!(loop_get_status, 0x4c05, super::LoopStatus);
    // linux/ext4.h: EXT4_IOC_RESIZE_FS
    nix::ioctl_write_ptr!(ext4_resize, b'f', 16, u64);
    // EXT4_IOC_SHUTDOWN, the same number as XFS_IOC_GOINGDOWN
    nix::ioctl_read!(shutdown, b'X', 125, u32);
    // xfs/libxfs/xfs_fs.h
    nix::ioctl_read!(xfs_geometry, b'X', 100, super::XfsGeometry);
    nix::ioctl_write_ptr!(xfs_grow, b'X', 110, super::XfsGrow);
    // linux/btrfs.h: BTRFS_IOC_RESIZE, BTRFS_IOC_FS_INFO
    nix::ioctl_write_ptr!(btrfs_resize, 0x94, 3, super::BtrfsName);
    nix::ioctl_read!(btrfs_info, 0x94, 31, super::BtrfsInfo);
    // linux/nsfs.h: NS_GET_USERNS
    nix::ioctl_none!(owner_of_namespace, 0xb7, 1);
    // NS_GET_OWNER_UID: a request without a direction, with a pointer
    nix::ioctl_read_bad!(user_of_namespace, 0xb704, u32);
    // NS_GET_MNTNS_ID, Linux 6.11
    nix::ioctl_read!(id_of_mount_namespace, 0xb7, 5, u64);
    // NS_MNT_GET_NEXT and NS_MNT_GET_PREV, Linux 6.12
    nix::ioctl_read!(next_mount_namespace, 0xb7, 11, super::MountNamespaceInfo);
    nix::ioctl_read!(previous_mount_namespace, 0xb7, 12, super::MountNamespaceInfo);
    /// linux/dm-ioctl.h: `_IOWR(DM_IOCTL, command, struct dm_ioctl)`
    pub(super) const fn device_mapper(command: u8) -> nix::libc::Ioctl {
        nix::request_code_readwrite!(0xfd, command, super::DEVICE_MAPPER_HEADER)
    }
}

/// `struct xfs_fsop_geom_v1`; only the first fields matter here.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct XfsGeometry {
    /// Bytes per block.
    pub block_size: u32,
    _rt_extent: u32,
    _ag_blocks: u32,
    _ag_count: u32,
    _log_blocks: u32,
    _sector_size: u32,
    _inode_size: u32,
    inode_max_percent: u32,
    /// Blocks of the data section.
    pub data_blocks: u64,
    _rt_blocks: u64,
    _rt_extents: u64,
    _log_start: u64,
    pub uuid: [u8; 16],
    _stripes: [u32; 2],
    _version: i32,
    _flags: u32,
    _log_sector: u32,
    _rt_sector: u32,
    _dir_block: u32,
}

/// `struct xfs_growfs_data`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct XfsGrow {
    new_blocks: u64,
    inode_max_percent: u32,
}

/// `struct btrfs_ioctl_vol_args`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BtrfsName {
    descriptor: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_fs_info_args`; only the UUID matters here.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BtrfsInfo {
    _max_id: u64,
    /// How many disks it has.
    pub disks: u64,
    pub uuid: [u8; 16],
    _rest: [u64; 124],
}

/// Grows a mounted btrfs to the whole of its first disk.
pub fn btrfs_grow(root: &File) -> Result<()> {
    let mut name = [0; 4088];
    name[..3].copy_from_slice(b"max");
    let request = BtrfsName { descriptor: 0, name };
    // SAFETY: the structure has the size and layout that the request's number carries and lives
    // until the call returns.
    unsafe { requests::btrfs_resize(root.as_raw_fd(), &raw const request) }.map(drop)
}

/// What a mounted btrfs is.
pub fn btrfs_info(root: &File) -> Result<BtrfsInfo> {
    let mut info = BtrfsInfo { _max_id: 0, disks: 0, uuid: [0; 16], _rest: [0; 124] };
    // SAFETY: the structure has the size and layout that the request's number carries; the kernel
    // writes into it while we hold it exclusively.
    unsafe { requests::btrfs_info(root.as_raw_fd(), &raw mut info) }?;
    Ok(info)
}

/// What of a mount is to be other than it is (`struct mount_attr`, linux/mount.h).
#[derive(Debug, Clone, Copy, Default)]
pub struct MountChange<'a> {
    /// Attributes that it gets.
    pub set: u64,
    /// Attributes that it loses before.
    pub clear: u64,
    /// Its propagation, as a flag of mount(2); none if it stays.
    pub propagation: u64,
    /// The user namespace whose owners the files are shown with: only with the attribute for it.
    pub owners: Option<&'a File>,
}

/// Sets properties of a detached mount, such as read-only (`mount_setattr(2)`, Linux 5.12).
pub fn set_mount_attributes(mount: &OwnedFd, attributes: u64) -> Result<()> {
    change_mount(mount, MountChange { set: attributes, ..MountChange::default() })
}

/// Changes a mount, detached or not (`mount_setattr(2)`, Linux 5.12).
pub fn change_mount(mount: &OwnedFd, change: MountChange<'_>) -> Result<()> {
    let namespace = change.owners.map_or(0, AsRawFd::as_raw_fd);
    let namespace = u64::try_from(namespace).map_err(|_| Errno::EBADF)?;
    let wanted: [u64; 4] = [change.set, change.clear, change.propagation, namespace];
    // SAFETY: the path is empty and terminated; the structure, four numbers of 64 bits, has the
    // size that is passed and lives until the call returns.
    let result = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            nix::libc::AT_EMPTY_PATH,
            wanted.as_ptr(),
            std::mem::size_of_val(&wanted),
        )
    };
    Errno::result(result).map(drop)
}

/// The user namespace that a namespace belongs to; EPERM if it is above our own.
pub fn owner_of_namespace(namespace: &File) -> Result<File> {
    // SAFETY: the request takes no argument; what it answers is a new descriptor that no other code
    // knows.
    unsafe {
        let found = requests::owner_of_namespace(namespace.as_raw_fd())?;
        Ok(File::from_raw_fd(found))
    }
}

/// The user who made the user namespace that a namespace belongs to.
pub fn user_of_namespace(namespace: &File) -> Result<u32> {
    let users = owner_of_namespace(namespace)?;
    let mut user = 0;
    // SAFETY: the kernel writes one u32, which lives until the call returns.
    unsafe { requests::user_of_namespace(users.as_raw_fd(), &raw mut user) }?;
    Ok(user)
}

/// The number of a mount namespace that no other one of this boot ever has: the inode's is given
/// away again. ENOTTY before Linux 6.11.
pub fn id_of_mount_namespace(namespace: &File) -> Result<u64> {
    let mut id = 0;
    // SAFETY: the kernel writes one u64, which lives until the call returns.
    unsafe { requests::id_of_mount_namespace(namespace.as_raw_fd(), &raw mut id) }?;
    Ok(id)
}

/// `struct loop_info64`; only the first fields matter here.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LoopStatus {
    /// The file system that the file behind the device is on, in the kernel's own packing.
    device: u64,
    _inode: u64,
    /// The number of the file itself, if it is a device node.
    node: u64,
    _offset: u64,
    _size_limit: u64,
    _number: u32,
    _encryption: [u32; 2],
    _flags: u32,
    _names: [[u8; 64]; 2],
    _key: [u8; 32],
    _init: [u64; 2],
}

impl LoopStatus {
    /// The file system that the file behind the device is on.
    pub fn file_system(&self) -> DeviceNumber {
        unpacked(self.device)
    }

    /// The disk behind the device, if it is one and no file.
    pub fn disk(&self) -> DeviceNumber {
        unpacked(self.node)
    }
}

/// The size of `struct dm_ioctl`, which every message to device mapper begins with.
pub const DEVICE_MAPPER_HEADER: usize = 312;

/// A number of that header's: the third says how long the message is.
const LENGTH_IN_HEADER: std::ops::Range<usize> = 12..16;

/// Sends a message to device mapper, and has its answer in its place.
pub fn device_mapper(control: &File, command: u8, message: &mut [u8]) -> Result<()> {
    let told = message.get(LENGTH_IN_HEADER).and_then(|four| four.try_into().ok());
    let told = told.map(u32::from_ne_bytes).ok_or(Errno::EINVAL)?;
    let length = u32::try_from(message.len()).map_err(|_| Errno::EINVAL)?;
    if told != length || message.len() < DEVICE_MAPPER_HEADER {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the kernel reads and writes no more than the length that the message tells of itself, which
    // is the slice's, as was just checked; we hold it exclusively until the call returns.
    let answer = unsafe {
        libc::ioctl(control.as_raw_fd(), requests::device_mapper(command), message.as_mut_ptr())
    };
    Errno::result(answer).map(drop)
}

/// The kernel's `new_decode_dev`: 12 bits of the major number amid 20 of the minor one.
pub fn unpacked(packed: u64) -> DeviceNumber {
    let part = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    DeviceNumber {
        major: part((packed & 0xf_ff00) >> 8),
        minor: part((packed & 0xff) | ((packed >> 12) & 0xf_ff00)),
    }
}

/// `struct mnt_ns_info`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MountNamespaceInfo {
    size: u32,
    _mounts: u32,
    _id: u64,
}

/// Where a file is, and what it is if it is a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLocation {
    pub file_system: DeviceNumber,
    /// The disk whose node it is.
    pub disk: Option<DeviceNumber>,
}

/// The number of a loop device that is free now; another process may take it first.
pub fn loop_free_number(control: &File) -> Result<u32> {
    // SAFETY: the request takes no argument; the descriptor is open for the whole call.
    let number = unsafe { requests::loop_ctl_get_free(control.as_raw_fd()) }?;
    u32::try_from(number).map_err(|_| Errno::EIO)
}

/// Puts a file behind a loop device; EBUSY if it has one already.
pub fn loop_bind(device: &File, backing: &File) -> Result<()> {
    // SAFETY: the argument is a descriptor by value; both are open for the whole call, and the
    // kernel keeps its own reference to the file.
    unsafe { requests::loop_set_fd(device.as_raw_fd(), backing.as_raw_fd()) }.map(drop)
}

/// Takes the file from behind a loop device: at once if no other process has it open, else when the
/// last user closes it.
pub fn loop_unbind(device: &File) -> Result<()> {
    // SAFETY: the request takes no argument; the descriptor is open for the whole call.
    unsafe { requests::loop_clr_fd(device.as_raw_fd()) }.map(drop)
}

/// Makes a loop device as large as its file is now.
pub fn loop_resize(device: &File) -> Result<()> {
    // SAFETY: the request takes no argument; the descriptor is open for the whole call.
    unsafe { requests::loop_set_capacity(device.as_raw_fd()) }.map(drop)
}

/// What is behind a loop device; ENXIO if nothing is.
pub fn loop_status(device: &File) -> Result<LoopStatus> {
    let mut status = MaybeUninit::<LoopStatus>::zeroed();
    // SAFETY: the structure has the kernel's size (tested below), and all its fields are integers,
    // for which zeros and whatever the kernel writes are values.
    unsafe {
        requests::loop_get_status(device.as_raw_fd(), status.as_mut_ptr())?;
        Ok(status.assume_init())
    }
}

/// The direction of a walk over all mount namespaces, in the order of their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To younger ones.
    Next,
    /// To older ones.
    Previous,
}

/// The mount namespace after or before an open one; ENOENT at the end, ENOTTY before Linux 6.12.
pub fn mount_namespace_beside(namespace: &File, direction: Direction) -> Result<File> {
    let size = u32::try_from(size_of::<MountNamespaceInfo>()).unwrap_or_default();
    let mut info = MountNamespaceInfo { size, _mounts: 0, _id: 0 };
    let descriptor = namespace.as_raw_fd();
    // SAFETY: the structure has the size that it says and that the request's number carries; the
    // kernel writes into it while we hold it exclusively. What it answers is a new descriptor that
    // no other code knows.
    unsafe {
        let found = match direction {
            Direction::Next => requests::next_mount_namespace(descriptor, &raw mut info),
            Direction::Previous => requests::previous_mount_namespace(descriptor, &raw mut info),
        }?;
        Ok(File::from_raw_fd(found))
    }
}

/// Where the thing is that a path leads to, links followed. No attributes are brought up to date:
/// a server or a daemon behind the file system is not asked for them.
pub fn place_of(folder: impl AsFd, path: &str) -> Result<FileLocation> {
    let how = AtFlags::NO_AUTOMOUNT;
    let (file_system, disk, mode) =
        match rustix::fs::statx(&folder, path, how | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE) {
            Ok(found) => (
                DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor },
                DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor },
                found.stx_mode.into(),
            ),
            // Before Linux 4.11.
            Err(rustix::io::Errno::NOSYS) => {
                let found = rustix::fs::statat(folder, path, how).map_err(errno)?;
                (number(found.st_dev), number(found.st_rdev), found.st_mode)
            }
            Err(error) => return Err(errno(error)),
        };
    let is_disk = mode & libc::S_IFMT == libc::S_IFBLK;
    Ok(FileLocation { file_system, disk: is_disk.then_some(disk) })
}

fn number(raw: u64) -> DeviceNumber {
    DeviceNumber { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}

/// Ends a mounted file system as if its disk was pulled: nothing is written any more, every call
/// answers EIO. Only ext3, ext4 and xfs can.
pub fn shutdown_file_system(root: &File) -> Result<()> {
    /// Not even the journal is flushed.
    const NO_LOG_FLUSH: u32 = 2;
    let mut flag = NO_LOG_FLUSH;
    // SAFETY: the kernel reads one u32 (the header calls the request a read, from the user's
    // side it is a write); it lives until the call returns.
    unsafe { requests::shutdown(root.as_raw_fd(), &raw mut flag) }.map(drop)
}

/// Grows a mounted ext file system to this many of its blocks.
pub fn ext_grow(root: &File, blocks: u64) -> Result<()> {
    // SAFETY: the kernel reads one u64 that lives until the call returns.
    unsafe { requests::ext4_resize(root.as_raw_fd(), &raw const blocks) }.map(drop)
}

/// How large a mounted xfs is.
pub fn xfs_geometry(root: &File) -> Result<XfsGeometry> {
    let mut geometry = XfsGeometry::default();
    // SAFETY: the structure has the size and layout that the request's number carries; the kernel
    // writes into it while we hold it exclusively.
    unsafe { requests::xfs_geometry(root.as_raw_fd(), &raw mut geometry) }?;
    Ok(geometry)
}

/// Grows a mounted xfs to this many of its blocks.
pub fn xfs_grow(root: &File, blocks: u64) -> Result<()> {
    let now = xfs_geometry(root)?;
    // The share of inodes is part of the same request: it stays what it is.
    let request = XfsGrow { new_blocks: blocks, inode_max_percent: now.inode_max_percent };
    // SAFETY: the structure has the size and layout that the request's number carries and lives
    // until the call returns.
    unsafe { requests::xfs_grow(root.as_raw_fd(), &raw const request) }.map(drop)
}

/// A stretch of a file as the kernel has it in memory; nothing if it is not there. It is not read from a disk:
/// one that does not answer would be waited for. (`preadv2` with `RWF_NOWAIT` is refused on a multipath map by Linux 7.3.)
pub fn in_memory(file: &File, at: u64, length: usize) -> Result<Option<Vec<u8>>> {
    /// The most that a pipe takes at once without a wait.
    const LONGEST: usize = 4096;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.ok_or(Errno::EINVAL)?;
    let page = u64::try_from(page).map_err(|_| Errno::EINVAL)?;
    let begin = at - at % page;
    let before = usize::try_from(at - begin).map_err(|_| Errno::EINVAL)?;
    let whole = before.checked_add(length).ok_or(Errno::EINVAL)?;
    if length == 0 || length > LONGEST {
        return Err(Errno::EINVAL);
    }
    let offset = libc::off_t::try_from(begin).map_err(|_| Errno::EINVAL)?;
    let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new place is asked for, which no other code has; it is given back below.
    let place =
        unsafe { libc::mmap(std::ptr::null_mut(), whole, read, shared, file.as_raw_fd(), offset) };
    if place == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    let told = || -> Result<Option<Vec<u8>>> {
        let mut pages = [0_u8; 3];
        // SAFETY: 4096 bytes and what is before them in their page are in three pages at most, and each has
        // a byte there.
        Errno::result(unsafe { libc::mincore(place, whole, pages.as_mut_ptr()) })?;
        let count = usize::try_from((whole as u64).div_ceil(page)).map_err(|_| Errno::EINVAL)?;
        if pages.iter().take(count).any(|one| one & 1 == 0) {
            return Ok(None);
        }
        // By a pipe: what is wrong with such memory is an error of the call then, and no signal.
        let (output, input) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        // SAFETY: the bytes are within the mapping, which stands until the end of this function.
        let written = unsafe {
            libc::write(input.as_raw_fd(), place.cast::<u8>().add(before).cast(), length)
        };
        if usize::try_from(Errno::result(written)?) != Ok(length) {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        let count = nix::unistd::read(&output, &mut bytes)?;
        Ok((count == length).then_some(bytes))
    };
    let answer = told();
    // SAFETY: it is the place from above, and nothing refers to it any more.
    let _ = unsafe { libc::munmap(place, whole) };
    answer
}

/// A mount as the kernel tells of it alone (`struct statmount`, Linux 6.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountState {
    /// Its id in mount tables, which another one gets when it has gone.
    pub id: u32,
    /// That of the mount that it stands on.
    pub parent: u32,
    /// The id of that one which no other mount of this boot ever has.
    pub unique_parent: u64,
    /// The number of its file system.
    pub number: DeviceNumber,
    /// Flags of mount(2): with whom it shares.
    pub propagation: u64,
    /// Its peer group, or 0.
    pub group: u64,
    /// The peer group that it follows, or 0.
    pub master: u64,
    /// Which folder of the file system is mounted.
    pub root: Vec<u8>,
    /// Where it is, from this thread's root on.
    pub target: Vec<u8>,
}

/// The numbers of two system calls, the same on all kinds of machines.
const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;

/// `struct mnt_id_req`
type MountRequest = [u64; 3];

fn mount_request(unique: u64, what: u64) -> MountRequest {
    let size = std::mem::size_of::<MountRequest>() as u64;
    // The size has the first 32 bits, and nothing is in the others.
    let size = if cfg!(target_endian = "little") { size } else { size << 32 };
    [size, unique, what]
}

/// `STATMOUNT_SB_BASIC`, `_MNT_BASIC`, `_MNT_ROOT`, `_MNT_POINT`
const OF_A_MOUNT: u64 = 0x1 | 0x2 | 0x8 | 0x10;

/// Asks for one mount of this thread's namespace by the id that no other one ever has. No file system
/// is asked. ENOENT if it is not there any more.
pub fn state_of_mount(unique: u64) -> Result<MountState> {
    /// Two paths.
    const ROOM: usize = 512 + 2 * 4096;
    let request = mount_request(unique, OF_A_MOUNT);
    let mut told = vec![0_u8; ROOM];
    // SAFETY: the request has the size that it tells and lives until the call returns; the kernel writes no
    // more than the length that is passed.
    let answer = unsafe {
        let (request, room) = (request.as_ptr(), told.as_mut_ptr());
        libc::syscall(STATMOUNT, request, room, told.len(), 0)
    };
    Errno::result(answer)?;
    mount_state(&told).ok_or(Errno::EINVAL)
}

fn mount_state(told: &[u8]) -> Option<MountState> {
    /// Where the texts begin.
    const TEXTS: usize = 512;
    let word = |at: usize| Some(u32::from_ne_bytes(*told.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_ne_bytes(*told.get(at..)?.first_chunk()?));
    let text = |at: usize| {
        let from = TEXTS.checked_add(usize::try_from(word(at)?).ok()?)?;
        let mut parts = told.get(from..)?.split(|byte| *byte == 0);
        parts.next().map(<[u8]>::to_vec)
    };
    if long(8)? & OF_A_MOUNT != OF_A_MOUNT {
        return None;
    }
    Some(MountState {
        number: DeviceNumber { major: word(16)?, minor: word(20)? },
        unique_parent: long(48)?,
        id: word(56)?,
        parent: word(60)?,
        propagation: long(72)?,
        group: long(80)?,
        master: long(88)?,
        root: text(104)?,
        target: text(108)?,
    })
}

/// All mounts of this thread's namespace, by the ids that no other ones ever have.
pub fn all_mounts() -> Result<Vec<u64>> {
    let mut all = Vec::new();
    loop {
        let mut some = [0; 256];
        let count = list_mounts(None, all.last().copied(), &mut some)?;
        all.extend(some.iter().take(count));
        if count < some.len() {
            return Ok(all);
        }
    }
}

/// Whether another mount stands on this one.
pub fn is_anything_on(unique: u64) -> Result<bool> {
    Ok(list_mounts(Some(unique), None, &mut [0])? > 0)
}

/// Mounts that stand on one, and on those, behind the last one that is known (`listmount(2)`, Linux 6.8).
fn list_mounts(on: Option<u64>, last: Option<u64>, found: &mut [u64]) -> Result<usize> {
    /// `LSMT_ROOT`
    const ROOT: u64 = u64::MAX;
    let request = mount_request(on.unwrap_or(ROOT), last.unwrap_or_default());
    // SAFETY: the request has the size that it tells and lives until the call returns; the kernel writes no
    // more ids than there is room for.
    let answer =
        unsafe { libc::syscall(LISTMOUNT, request.as_ptr(), found.as_mut_ptr(), found.len(), 0) };
    usize::try_from(Errno::result(answer)?).map_err(|_| Errno::EINVAL)
}

/// The id of the mount that a place is on, which no other mount of this boot ever has (Linux 6.8). It
/// asks the file system, so it is not for a dead one.
pub fn unique_id_of_mount(place: &OwnedFd) -> Result<u64> {
    /// `STATX_MNT_ID_UNIQUE`
    const WANTED: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let told = rustix::fs::statx(place, c"", how, WANTED).map_err(errno)?;
    if told.stx_mask & WANTED.bits() == 0 { Err(Errno::ENOSYS) } else { Ok(told.stx_mnt_id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(std::mem::size_of::<XfsGeometry>(), 112);
        assert_eq!(std::mem::size_of::<XfsGrow>(), 16);
        assert_eq!(std::mem::size_of::<BtrfsName>(), 4096);
        assert_eq!(std::mem::size_of::<BtrfsInfo>(), 1024);
        assert_eq!(std::mem::size_of::<LoopStatus>(), 232);
        assert_eq!(std::mem::size_of::<MountNamespaceInfo>(), 16);
    }

    #[test]
    fn a_message_that_lies_about_its_length_is_not_sent() {
        let file = File::open("/dev/null").unwrap();
        let mut message = vec![0; DEVICE_MAPPER_HEADER];
        let mut told = |length: u32, room: usize| {
            message.resize(room, 0);
            message[LENGTH_IN_HEADER].copy_from_slice(&length.to_ne_bytes());
            device_mapper(&file, 0, &mut message)
        };
        assert_eq!(told(400, DEVICE_MAPPER_HEADER), Err(Errno::EINVAL));
        assert_eq!(told(100, 100), Err(Errno::EINVAL));
        // The kernel has it, and this is no device mapper.
        assert_eq!(told(400, 400), Err(Errno::ENOTTY));
        assert_eq!(device_mapper(&file, 0, &mut []), Err(Errno::EINVAL));
    }

    #[test]
    fn what_is_in_memory_is_told_and_nothing_else_is() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..20_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        file.write_all(&bytes).unwrap();
        for (at, length) in [(0, 1), (1024, 1024), (4000, 4096), (4096, 4096), (19_000, 1000)] {
            let told = in_memory(&file, at as u64, length).unwrap();
            assert_eq!(told.as_deref(), Some(&bytes[at..at + length]), "{at} {length}");
        }
        // A hole that was never read is nowhere.
        file.set_len(1 << 20).unwrap();
        assert_eq!(in_memory(&file, 1 << 19, 1024), Ok(None));
        assert_eq!(in_memory(&file, 0, 4097), Err(Errno::EINVAL));
        assert_eq!(in_memory(&file, 0, 0), Err(Errno::EINVAL));
    }

    /// What the kernel tells of single mounts is what its table says of them.
    #[test]
    fn a_mount_is_told_alone_as_in_the_table() {
        use crate::model::mount::mountinfo::MountTable;
        let Ok(all) = all_mounts() else { return };
        let states: Vec<_> = all.iter().filter_map(|one| state_of_mount(*one).ok()).collect();
        let table = std::fs::read("/proc/thread-self/mountinfo").unwrap();
        let table = MountTable::parse(&table).unwrap();
        // Other processes mount and unmount meanwhile, and the root stays.
        let root = table.top_at(std::path::Path::new("/")).map(|root| root.id);
        let Some(root) = table.mounts().iter().find(|mount| Some(mount.id) == root) else { return };
        let found = states.iter().find(|state| state.id == root.id).expect("the root is told");
        assert_eq!((found.number, found.target.as_slice()), (root.number, b"/".as_slice()));
        assert_eq!(found.parent, root.parent);
        let place = OwnedFd::from(File::open("/").unwrap());
        let unique = unique_id_of_mount(&place).unwrap();
        assert_eq!(state_of_mount(unique).as_ref(), Ok(found));
        assert!(all.contains(&unique) && is_anything_on(unique).unwrap());
        assert!(state_of_mount(1).is_err(), "ids of tables are no such ids");
    }

    #[test]
    fn numbers_are_unpacked_as_the_kernel_packs_them() {
        assert_eq!(unpacked(0x0701).to_string(), "7:1");
        assert_eq!(unpacked(0xfd00).to_string(), "253:0");
        // Minor numbers above 255 have their rest above the major number.
        assert_eq!(unpacked(0x0010_0703).to_string(), "7:259");
        assert_eq!(unpacked(0x0011_0302).to_string(), "259:258");
    }

    #[test]
    fn a_place_is_told_by_number() {
        let root = File::open("/").unwrap();
        let null = place_of(&root, "dev/null").unwrap();
        assert_eq!(null.disk, None, "it is a character device");
        assert_ne!(null.file_system, place_of(&root, "proc/self/stat").unwrap().file_system);
        assert_eq!(place_of(&root, "nowhere"), Err(Errno::ENOENT));
        assert_eq!(place_of(&root, "no\0where"), Err(Errno::EINVAL));
    }
}
