//! The other file systems of Linux that can be written, and swap.

use super::image::made;
use super::variant::Variant;

images! {
    f2fs: made(64, "f2fs", "mkfs.f2fs -q disk");
    jfs: made(64, "jfs", "mkfs.jfs -q disk");
    jfs_journal: made(16, "", "mkfs.jfs -q -J journal_dev disk");
    reiserfs: made(64, "reiserfs", "mkfs.reiserfs -q -f -f disk");
    reiser4: made(64, "reiser4", "mkfs.reiser4 -f -y disk");
    nilfs2: made(160, "nilfs2", "mkfs.nilfs2 -q -f disk");
    ocfs2: made(64, "ocfs2", "mkfs.ocfs2 -q -F -x -M local disk");
    gfs2: made(64, "gfs2", "mkfs.gfs2 -q -O -J 8 -p lock_nolock disk");
    minix_1: made(16, "minix", "mkfs.minix -1 -n 14 disk");
    minix_3: made(16, "minix", "mkfs.minix -3 disk");
    bfs: made(16, "bfs", "mkfs.bfs disk");
    // Not in every Debian.
    bcachefs: made(64, "", "bcachefs format --quiet --force disk");
    swap: made(16, "swap", "mkswap -q disk").blank_when(&[Variant::WithoutFirstPage]);
}
