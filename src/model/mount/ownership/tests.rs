use super::*;
use crate::cgroup::Owner;
use crate::face::OF_TESTS;
use crate::ids::VolumeId;
use crate::mount::disk_users::{NamespaceId, Process};

const UID: &str = "2f399ae2-a3cd-41e8-95ee-5254001f7ecb";
const GLOBAL: &str = "/var/lib/nodeagent/plugins/stages/pv";

/// The machine: `/` on 254:0, `/var` apart on 254:1, the volume 7:0 at its global folder; a runtime
/// shows the root of a container.
const MACHINE: &str = "\
1 1 254:0 / / rw - ext4 root rw
2 1 254:1 / /var rw - ext4 var rw
3 2 7:0 / /var/lib/nodeagent/plugins/stages/pv rw - ext4 v rw
4 1 0:60 / /run/c/rootfs rw - overlay overlay rw
";

const VOLUME: DeviceNumber = DeviceNumber { major: 7, minor: 0 };

fn table(text: &str) -> MountTable {
    MountTable::parse(text.as_bytes()).unwrap()
}

/// A namespace with these mounts, and with a process of this pod, of none, or without a process.
fn namespace(text: &str, processes: &[Option<&str>]) -> NamespaceUse {
    let table = table(text);
    let mounts: Vec<_> = table.of(VOLUME).cloned().collect();
    let process = |pod: Option<&str>| {
        let pod = pod.map(|pod| ConsumerId::parse(pod).unwrap());
        Process { owner: Owner { pod, container: None }, ..Process::of_a_test(7) }
    };
    let processes = processes.iter().copied().map(process).collect();
    NamespaceUse {
        id: Some(NamespaceId(1)),
        beneath: beneath(&mounts, &table),
        ..NamespaceUse::of_a_test(mounts, processes)
    }
}

/// The mounts of a namespace, who lives in it (`-`: a process of no pod; nothing: no process), and
/// what it is. `{G}` is the machine's global folder, `{K}` kubelet's root there.
const ROWS: &str = "\
# Copies of everything: a supervisor, a service, a shell.
1 1 254:0 / / r;2 1 254:1 / /var r;3 2 7:0 / {G} r|-|View
1 1 254:0 / / r;2 1 254:1 / /var r;3 2 7:0 / {G} r||View
# An agent with the machine's root at /host, or kubelet's root, or a part of it, at another place.
1 1 0:60 / / r;2 1 254:0 / /host r;3 2 254:1 / /host/var r;4 3 7:0 / /host{G} r|a|View
1 1 0:60 / / r;3 1 254:1 /lib/nodeagent /kubelet r;4 3 7:0 / /kubelet/pods/{U}/volumes/ours~disk/pv r|a|View
1 1 0:60 / / r;3 1 254:1 /lib/nodeagent/pods /pods r;4 3 7:0 / /pods/{U}/volumes/ours~disk/pv r|a|View
1 1 0:60 / / r;3 1 254:1 /lib/nodeagent/plugins/stages /mounts r;4 3 7:0 / /mounts/pv r|a|View
1 1 0:60 / / r;3 1 254:1 /lib/nodeagent/pods /pods r;4 3 7:0 /x /pods/{U}/volume-subpaths/pv/main/0 r|a|View
# Two mounts stacked at the folder.
1 1 254:0 / / r;2 1 254:1 / /var r;3 2 7:0 / {G} r;4 3 7:0 / {G} r|-|View
# A container was given it: at a place of its own, whatever that is called.
1 1 0:60 / / r;2 1 7:0 / /data r|a|Claim
1 1 0:60 / / r;2 1 7:0 / /data r|-|Claim
1 1 0:60 / / r;2 1 7:0 / /x/pv r|a|Claim
1 1 0:60 / / r;2 1 7:0 / /mounts/pv r|a|Claim
1 1 0:60 / / r;2 1 7:0 / {G} r|a|Claim
1 1 0:60 / / r;2 1 7:0 / /pods/{U}/volumes/ours~disk/pv r|a|Claim
1 1 0:60 / / r;2 1 7:0 / /a/{U}/volumes/ours~disk/pv r|-|Claim
1 1 0:60 / / r;2 1 7:0 / /pods/{U}/volume-subpaths/pv/main/0 r|-|Claim
# It is the root of the namespace.
1 1 7:0 / / r|-|Claim
# At the machine's root, elsewhere than in kubelet's folders: a person's bind.
1 1 254:0 / / r;2 1 7:0 / /mnt/pv r|-|Claim
1 1 254:0 / / r;2 1 7:0 / /mnt/pods/{U}/volumes/ours~disk/pv r|-|Claim
# The same folder of another file system.
1 1 254:9 / / r;2 1 254:8 / /var r;3 2 7:0 / {G} r|-|Claim
# A view and a claim together.
1 1 0:60 / / r;2 1 254:0 / /host r;3 2 254:1 / /host/var r;4 3 7:0 / /host{G} r;5 1 7:0 / /data r|a|Claim
# No process is left.
1 1 0:60 / / r;2 1 7:0 / /data r||Abandoned
# This driver bound it for the pod: a view is enough.
1 1 0:60 / / r;2 1 254:0 / /host r;3 2 254:1 / /host/var r;4 3 7:0 / /host{G} r|bound|Claim
# What it stands on is not known.
9 8 7:0 / {G} r|-|Claim
";

#[test]
fn every_namespace_is_what_it_is() {
    let own = table(MACHINE);
    let id = VolumeId::parse("v").unwrap();
    let mut record = VolumeRecord::new(id);
    record.mounts.consumers.insert(ConsumerId::parse("bound").unwrap(), String::new());
    let machine = Machine::new(OF_TESTS, &own, Some(&record), &[VOLUME]);
    let rows: Vec<_> = ROWS.lines().filter(|row| !row.starts_with('#')).collect();
    assert!(rows.len() > 20);
    for row in rows {
        let fields: Vec<_> = row.split('|').collect();
        let text = fields[0].replace("{G}", GLOBAL).replace("{U}", UID);
        let lines =
            text.split(';').map(|line| line.trim_end_matches(" r").to_owned() + " rw - t s o\n");
        let processes: &[Option<&str>] = match fields[1] {
            "" => &[],
            "-" => &[None],
            pod => &[Some(pod)],
        };
        let one = namespace(&lines.collect::<String>(), processes);
        assert_eq!(format!("{:?}", machine.role(&one)), fields[2], "{row}");
    }
}

/// The namespace with a claim may be where a process lives that could not be examined.
#[test]
fn what_may_be_inhabited_is_not_abandoned() {
    let own = table(MACHINE);
    let machine = Machine::new(OF_TESTS, &own, None, &[VOLUME]);
    let claim = "1 1 0:60 / / rw - t s o\n2 1 7:0 / /data rw - t s o\n";
    let view = "1 1 254:0 / / rw - t s o\n2 1 254:1 / /var rw - t s o\n";
    let view = format!("{view}3 2 7:0 / {GLOBAL} rw - t s o\n");
    for (text, role) in [(claim, NamespaceRole::Claim), (&view, NamespaceRole::View)] {
        let mut one = namespace(text, &[]);
        one.keepers = vec![NamespaceKeeper::Unexamined(Process::of_a_test(7))];
        assert_eq!(machine.role(&one), role);
    }
}

/// Where no record and no mount tells kubelet's root no path is believed.
#[test]
fn without_a_root_nothing_is_a_view() {
    let bare: String = MACHINE
        .lines()
        .filter(|line| !line.starts_with('3'))
        .fold(String::new(), |text, line| text + line + "\n");
    let copy = MACHINE.replace("4 1 0:60", "4 1 0:61");
    let one = namespace(&copy, &[None]);
    let own = table(&bare);
    assert_eq!(Machine::new(OF_TESTS, &own, None, &[VOLUME]).role(&one), NamespaceRole::Claim);
    // Any volume of kubelet's tells it.
    let more =
        bare + "9 2 0:70 / /var/lib/nodeagent/pods/u/volumes/other~secret/t rw - tmpfs t rw\n";
    let own = table(&more);
    assert_eq!(Machine::new(OF_TESTS, &own, None, &[VOLUME]).role(&one), NamespaceRole::View);
}

#[test]
fn a_pod_is_told_by_the_files_that_kubelet_made_for_it() {
    let own = table(MACHINE);
    let machine = Machine::new(OF_TESTS, &own, None, &[VOLUME]);
    let root = "1 1 0:60 / / rw - overlay o rw\n";
    let file =
        |id: u32, number: &str, path: &str| format!("{id} 1 {number} {path} /x rw - ext4 v rw\n");
    let served = |lines: &[String]| {
        let found = machine.pod_served(&table(&(root.to_owned() + &lines.concat())));
        found.map(|pod| pod.to_string())
    };
    let hosts = |pod: &str| file(2, "254:1", &format!("/lib/nodeagent/pods/{pod}/etc-hosts"));
    let log =
        |pod: &str| file(3, "254:1", &format!("/lib/nodeagent/pods/{pod}/containers/main/1a2b"));
    assert_eq!(served(&[]), None);
    assert_eq!(served(&[hosts("u-1")]).as_deref(), Some("u-1"));
    assert_eq!(served(&[log("u-1")]).as_deref(), Some("u-1"));
    assert_eq!(served(&[hosts("u-1"), log("u-1")]).as_deref(), Some("u-1"));
    assert_eq!(served(&[hosts("u-1"), log("u-2")]), None, "two pods' files are no pod's");
    // A file of that name in a volume, or in a folder of another name, is the tenant's own.
    for (number, path) in [
        ("7:0", "/pods/u-1/etc-hosts"),
        ("7:0", "/lib/nodeagent/pods/u-1/etc-hosts"),
        ("254:1", "/tenant/pods/u-1/etc-hosts"),
        ("254:1", "/lib/nodeagent/pods/u-1/volumes/x~y/z/etc-hosts"),
        ("254:1", "/lib/nodeagent/pods/u-1/volumes/x~y/z/pods/u-2/containers/a/b"),
    ] {
        assert_eq!(served(&[file(2, number, path)]), None, "{number} {path}");
    }
}
