//! Several containers.

use super::methods;
use crate::support::disks::{Disks, switch, table_of};
use crate::support::pods::Plan;
use incloud_disk::model::mount::replacement::ReplacementOutcome;
use std::time::Duration;

#[test]
fn a_hundred_containers_come_to_the_new_disk() {
    needs!(containers);
    for method in methods() {
        let disks = Disks::with("ext4", |root| std::fs::create_dir(root.join("sub")).unwrap());
        let plan = Plan::outside()
            .seeing(&disks.old.place, "/data")
            .seeing(&disks.old.place.join("sub"), "/sub");
        let mut containers = Plan::start_all((0..100).map(|_| plan.clone()));
        for (nth, container) in containers.iter_mut().enumerate() {
            container.write(&format!("/sub/{nth}"), Duration::from_millis(10));
            container.must_write_on(1);
        }
        disks.old.die();
        for container in &mut containers {
            let answers = switch(container.pid(), method, &disks.old, &disks.new);
            let outcomes: Vec<_> = answers.iter().map(|one| one.outcome.clone()).collect();
            assert_eq!(
                outcomes,
                [ReplacementOutcome::Switched, ReplacementOutcome::Switched],
                "{method}: {answers:?}"
            );
        }
        for container in &mut containers {
            let before = container.report().writes;
            crate::checks::eventually("it writes again", || container.report().writes > before);
            let table = table_of(container.pid());
            assert_eq!((disks.old.among(&table).len(), disks.new.among(&table).len()), (0, 2));
            let report = container.report();
            assert!(report.file_systems.contains(&disks.new.number.to_string()), "{report:?}");
        }
    }
}
