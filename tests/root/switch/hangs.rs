//! A dead disk that hangs: the process that lets go of it last waits for it.

use super::methods;
use crate::checks::eventually;
use crate::support::disks::{Disks, switch, table_of, within};
use crate::support::pods::Plan;
use crate::support::{FailingDisk, with_files};
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::mount::replacement::ReplacementOutcome;
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::host::Remounts;
use nix::mount::{MntFlags, umount2};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::time::{Duration, Instant};

/// What waits for the disk must come to its end before anything else of a failed test goes.
struct Released<'a>(&'a FailingDisk);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A container has the only mounts of it, with data that is not written yet. All is switched at
/// once; only the process that lets go at the end waits, and nothing waits for that.
#[test]
fn a_disk_that_hangs_holds_up_only_the_process_that_lets_go_of_it() {
    needs!(fuse, containers);
    for method in methods() {
        let sub = |root: &std::path::Path| fs::create_dir(root.join("sub")).unwrap();
        let (disks, failing) = Disks::prepared("ext4", FailingDisk::over, sub);
        let mut container = Plan::outside()
            .seeing(&disks.old.place, "/data")
            .seeing(&disks.old.place.join("sub"), "/sub")
            .start();
        let pid = container.pid();
        umount2(&disks.old.place, MntFlags::empty()).unwrap();
        within(pid, || with_files(|| fs::write("/data/late", vec![7; 1 << 20]).unwrap()));
        let _in_the_end = Released(&failing);
        failing.hang();
        let stale = disks.old.among(&table_of(pid));
        let door = File::open(format!("/proc/{pid}/ns/mnt")).unwrap();
        let soon = || Deadline::after(Duration::from_secs(20));
        let begin = Instant::now();
        let keeper = KernelRemounts::by(method).keep(Some(&door), &stale, soon()).unwrap().unwrap();
        let keeping = Pid::from_raw(keeper.pid());
        let answers = switch(pid, method, &disks.old, &disks.new);
        let outcomes: Vec<_> = answers.iter().map(|one| one.outcome.clone()).collect();
        assert_eq!(
            outcomes,
            [ReplacementOutcome::Switched, ReplacementOutcome::Switched],
            "{method}: {answers:?}"
        );
        container.write("/data/log", Duration::from_millis(2));
        container.must_write_on(5);
        assert_eq!(container.report().file_systems, [disks.new.number.to_string()]);
        let ended = keeper.release(Deadline::after(Duration::from_millis(300)));
        assert!(!ended, "{method}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        let told = || fs::read_to_string(format!("/proc/{keeping}/stat")).unwrap();
        assert!(told().contains(") D "), "{method}: {}", told());
        // What it waited for comes: it is gone then, and so is the file system.
        failing.release();
        waitpid(keeping, None).unwrap();
        eventually("nothing holds the disk", || {
            let mut alone = File::options();
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut alone, nix::libc::O_EXCL);
            alone.read(true).open(&disks.old.device).is_ok()
        });
    }
}
