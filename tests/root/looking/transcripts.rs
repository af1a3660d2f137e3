//! The transcripts in docs/operating.md are what the program says: the scene is set, the verb runs, and
//! what differs from machine to machine is put aside on both sides. `TRANSCRIPTS=write` writes them anew.

use super::healths::{self, Healths, Incident};
use super::{as_another_user, words_of};
use crate::scene::{Scene, scene};
use crate::support::pods::Order;
use crate::support::server_disks::serial;
use crate::support::{DISK, Node, output_of};
use crate::tend::bring_back;
use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the page calls the volumes of the scene, in the order of `Healths::each`.
const VOLUMES: [(&str, &str); 6] = [
    ("8b0cc218-640f-44f3-8288-d7b57835a084", "pvc-78dece18-205d-4acf-b432-2ba27f817dfb"),
    ("279d20f6-c62b-4416-a47d-390849f8855b", "pvc-caf14e73-1372-4bfb-b294-6897af298ec6"),
    ("16e93911-1e8c-470c-b618-a213c97886f2", "pvc-3b4a90ab-991d-4c3c-9764-2a94a204bcdd"),
    ("404e40c0-cf98-45e4-97fc-5ee21f84f927", "pvc-b99b7561-9a21-4995-8c2d-899f7cdc0387"),
    ("4e4f80c6-7958-422c-912f-64b300fd2d4a", "pvc-bd021d49-a284-4b0c-ba19-49d081cfdc25"),
    ("94590724-eab1-46d0-af0b-59f19c349b48", "pvc-9ee53cae-1967-46f9-830f-f28c5fde731b"),
];

/// And its pods and their containers.
const PODS: [&str; 4] = [
    "3af0204e-101c-491d-b8ae-e8df64f4ef40",
    "926545c1-e1eb-48fa-988b-4469cccecb1d",
    "62dcafb7-955c-4878-b5f8-d28e0cec0d87",
    "10e69c53-11d0-4974-a536-10f4f86b5596",
];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operating.md")
}

/// The page around the answer that it shows to a command below a heading: what is before, the answer, what
/// is after.
fn around(heading: &str, command: &str) -> (String, String, String) {
    let text = fs::read_to_string(page()).unwrap();
    let cut = |text: &str, at: &str| {
        let (before, rest) = text
            .split_once(at)
            .unwrap_or_else(|| panic!("docs/operating.md shows no {command} below {heading}"));
        (before.to_owned() + at, rest.to_owned())
    };
    let (above, rest) = cut(&text, &format!("\n{heading}\n"));
    let (before, rest) = cut(&rest, &format!("```console\n$ {command}\n"));
    let (answer, after) = rest.split_once("```").unwrap();
    (above + &before, answer.to_owned(), "```".to_owned() + after)
}

/// What is the same on every machine.
fn normal(text: &str) -> String {
    let mut text = text.to_owned();
    let of_this_machine =
        Regex::new(r"(?m)^! (Not seen|Mounted in containers).*\n(  .*\n)*").unwrap();
    text = of_this_machine.replace_all(&text, "").into_owned();
    // Here it is the test that calls, and no kubelet has a log.
    let who = Regex::new(r"(?s)^(kubelet|root-[0-9a-f]+) called .*?\n([0-9a-f-]{36}  )").unwrap();
    text = who.replace(&text, "${2}").into_owned();
    // What each kernel says of a disk that goes, and of its file system.
    let of_the_kernel = Regex::new(r"(?m)^[\d:.]+  kernel .*\n(   .*\n)*").unwrap();
    text = of_the_kernel.replace_all(&text, "").into_owned();
    for (pattern, same) in [
        (r"loop\d+", "loopN"),
        (r"\b7:\d+", "7:N"),
        (r"\d{4}-\d\d-\d\d", "DAY"),
        (r"\d\d:\d\d:\d\d\.\d{3}", "TIME"),
        (r"\b(\d+\s+ms|\d+\.\d\s+s|\d+\s+s|\d+\s+min)\b", "SPAN"),
        (r"mnt:\[\d+\]", "mnt:[N]"),
        (r"covered\s+by\s+mount\s+\d+", "covered by mount N"),
        (r"\d\d:\d\d:\d\d UTC", "TIME UTC"),
        (r"disk\s+\d+\s+since", "disk N since"),
        (r"\d+\s+\(?(root-[0-9a-f]+|prometheus\b)\)?", "PROCESS"),
        (r"(container|PROCESS)\s+[0-9a-f]{12}", "${1} ID"),
        // Here it is the test that calls.
        (r"\(by\s+[a-z0-9-]+\)", ""),
        (r"done\s+by\s+(root-[0-9a-f]+|PROCESS|systemd)", "done by CALLER"),
        (r"\[call\s+[0-9a-z-]+\]", "[call ID]"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, same).into_owned();
    }
    // Mounts are put right in any order.
    let mut lines: Vec<&str> = text.lines().collect();
    for group in lines.chunk_by_mut(|one, next| is_switched(one) && is_switched(next)) {
        group.sort_unstable();
    }
    let text = lines.join("\n");
    // Lines are broken where the paths of the machine have them.
    text.split_whitespace().collect()
}

fn is_switched(line: &str) -> bool {
    line.starts_with("  switched ")
}

/// The names of the page in the place of a node's own.
fn renamed(text: &str, node: &Node, names: &[(String, &str)]) -> String {
    let own = node.own();
    let mut text = text.to_owned();
    for (path, name) in [
        (own.join("kubelet"), "/var/lib/kubelet"),
        (own.join("state"), "/var/lib/incloud-disk"),
        (node.base().join("cloud"), "/var/lib/incloud-disk/local"),
    ] {
        // A long path is broken into lines at its slashes.
        let parts: Vec<_> = path.iter().skip(1).map(|part| part.to_str().unwrap()).collect();
        let parts: Vec<_> = parts.into_iter().map(regex_lite::escape).collect();
        let pattern = Regex::new(&format!("/{}", parts.join(r"\s*/"))).unwrap();
        text = pattern.replace_all(&text, name).into_owned();
    }
    for (own, name) in names {
        text = text.replace(own.as_str(), name);
        text = text.replace(serial(own), serial(name));
        // As status shortens them.
        if let Some(rest) = own.len().checked_sub(28) {
            text = text.replace(&own[..rest], &name[..rest]);
        }
    }
    text
}

/// A command, as the page writes it below a heading.
struct Shown<'a> {
    heading: &'a str,
    written: &'a str,
}

impl Shown<'_> {
    #[track_caller]
    fn is(&self, node: &Node, names: &[(String, &str)], command: &[&str]) {
        self.says(node, names, &words_of(node, command));
    }

    #[track_caller]
    fn says(&self, node: &Node, names: &[(String, &str)], text: &str) {
        let text = renamed(text, node, names);
        let (before, shown, after) = around(self.heading, self.written);
        if std::env::var_os("TRANSCRIPTS").is_some_and(|word| word == "write") {
            let text = Regex::new(r"(?m)^! (Not seen|Mounted in containers).*\n(  .*\n)*")
                .unwrap()
                .replace_all(&text, "")
                .into_owned();
            let by_caller = Regex::new(r"done by root-[0-9a-f]+").unwrap();
            let text = by_caller.replace_all(&text, "done by systemd");
            // In a column it keeps its width.
            let in_a_column = Regex::new(r"root-[0-9a-f]{10}(  +)").unwrap();
            let text = in_a_column.replace_all(&text, "prometheus     $1");
            let text = Regex::new(r"root-[0-9a-f]+").unwrap().replace_all(&text, "prometheus");
            let text = Regex::new(r"\s*\(by\s+prometheus\)").unwrap().replace_all(&text, "");
            fs::write(page(), before + &text + &after).unwrap();
            return;
        }
        assert_eq!(
            normal(&text),
            normal(&shown),
            "docs/operating.md shows another answer below {}; TRANSCRIPTS=write writes it:\n{text}",
            self.heading
        );
    }
}

/// One volume and its pod, as the page calls them.
fn called(scene: &Scene) -> Vec<(String, &'static str)> {
    let (id, pv) = VOLUMES[0];
    vec![
        (scene.volume.id.clone(), id),
        (scene.volume.pv.clone(), pv),
        (scene.pod.uid().to_owned(), PODS[0]),
    ]
}

#[test]
fn status_and_explain_are_as_the_page_shows_them() {
    needs!(pods);
    // The page is of a machine without udevd.
    if Path::new("/run/udev").exists() {
        crate::udevd::hide();
    }
    let node = Node::new();
    let scene = Healths::set(&node);
    let mut names = Vec::new();
    for ((_, volume), (id, pv)) in scene.each().into_iter().zip(VOLUMES) {
        names.extend([(volume.id.clone(), id), (volume.pv.clone(), pv)]);
    }
    names.extend(scene.pods.iter().map(|pod| pod.uid().to_owned()).zip(PODS));
    let status = Shown { heading: "## Status", written: "disk status" };
    status.is(&node, &names, &["status"]);
    let written = format!("disk explain {}", VOLUMES[3].1);
    let explain = Shown { heading: "## Explain", written: &written };
    explain.is(&node, &names, &["explain", &scene.stale.pv]);
}

#[test]
fn the_incident_is_told_as_the_page_shows_it() {
    needs!(pods);
    let node = Node::new();
    let Incident { volume, pod, container } = Incident::happens(&node);
    let names = [
        (volume.id.clone(), VOLUMES[3].0),
        (volume.pv.clone(), VOLUMES[3].1),
        (pod.uid().to_owned(), PODS[3]),
    ];
    let written = format!("disk history {}", VOLUMES[3].1);
    let history = Shown { heading: "## History", written: &written };
    history.is(&node, &names, &["history", &volume.pv]);
    volume.take_away_with(&pod, container);
}

/// A heal by hand, which leaves what a process has open on the lost disk.
#[test]
fn a_half_done_heal_is_told_as_the_page_shows_it() {
    needs!(pods);
    let mut scene = scene().called("db-0").start();
    let names = called(&scene);
    let Scene { node, volume, container, .. } = &mut scene;
    container.must(&Order::Open { path: "/data/log".into() });
    healths::pull(volume, container);
    node.configure("[heal]\nmode = \"off\"");
    node.must(volume.attach());
    let shown = |written| Shown { heading: "### A heal, and what it cannot move", written };
    shown("disk heal shop/db-0 --dry-run").is(node, &names, &["heal", "shop/db-0", "--dry-run"]);
    shown("disk heal shop/db-0").is(node, &names, &["heal", "shop/db-0"]);
    node.configure("");
    shown("disk status").is(node, &names, &["status"]);
    let Scene { volume, pod, container, .. } = scene;
    volume.take_away_with(&pod, container);
}

/// What udev's event and the timer run when the disk comes back.
#[test]
fn a_heal_by_the_disks_event_is_told_as_the_page_shows_it() {
    needs!(pods);
    let mut scene = scene().called("mail-0").start();
    let names = called(&scene);
    let Scene { node, volume, container, .. } = &mut scene;
    healths::pull(volume, container);
    let disk = bring_back(volume);
    node.verb(&["heal", "--device", disk.to_str().unwrap()]).unwrap();
    let shown =
        Shown { heading: "### A heal by the disk's own event", written: "disk history mail-0" };
    shown.is(node, &names, &["history", "mail-0"]);
    let Scene { volume, pod, container, .. } = scene;
    volume.take_away_with(&pod, container);
}

/// kubelet unmounts a pod's folder, and does not mount it again.
#[test]
fn a_folder_that_is_let_go_is_told_as_the_page_shows_it() {
    needs!(boot_clock);
    let scene = scene().called("web-0").start();
    let names = called(&scene);
    let Scene { node, volume, pod, .. } = &scene;
    node.must(volume.unpublish(pod.uid()));
    let mut status = Command::new("unshare");
    // Eleven minutes later, by the clock that cannot be set.
    status.args(["--time", "--fork", "--boottime", "660", "--", DISK, "status"]);
    status.env("INCLOUD_DISK_CONFIG", node.config_path()).stdin(Stdio::null());
    let text = String::from_utf8(output_of(&mut status).stdout).unwrap();
    let shown = Shown { heading: "### kubelet let go of a folder", written: "disk status" };
    shown.says(node, &names, &text);
    let Scene { volume, pod, container, .. } = scene;
    volume.take_away_with(&pod, container);
}

/// A user who may not look into containers.
#[test]
fn what_a_user_cannot_see_is_told_as_the_page_shows_it() {
    needs!(pods);
    let scene = scene().called("web-0").start();
    let names = called(&scene);
    let (text, _) = as_another_user(&scene.node, &["status"]);
    // He sees the mounts of other tests too, and cannot see whose they are.
    let (head, rows) = text.split_once('\n').unwrap();
    let id = &scene.volume.id[..8];
    let row = rows.lines().skip_while(|line| line.starts_with(' ') || !line.contains(id));
    let row = row.enumerate().take_while(|(nth, line)| *nth == 0 || line.starts_with(' '));
    let text = row.fold(format!("{head}\n"), |text, (_, line)| format!("{text}{line}\n"));
    let shown = Shown { heading: "### A user who is not root", written: "disk status" };
    shown.says(&scene.node, &names, &text);
    let Scene { volume, pod, container, .. } = scene;
    volume.take_away_with(&pod, container);
}

#[test]
fn what_is_mounted_over_it_is_told_as_the_page_shows_it() {
    needs!(pods);
    let scene = scene().called("web-0").start();
    let names = called(&scene);
    let global = scene.volume.global();
    crate::holders::run("mount", &["-t", "tmpfs", "none", global.to_str().unwrap()]);
    let shown = Shown { heading: "### Something is mounted over it", written: "disk status" };
    shown.is(&scene.node, &names, &["status"]);
    crate::holders::run("umount", &[global.to_str().unwrap()]);
    let Scene { volume, pod, container, .. } = scene;
    volume.take_away_with(&pod, container);
}

/// What kubelet is answered, and what a person is told who tries the same by hand.
#[test]
fn refusals_are_told_as_the_page_shows_them() {
    needs!(pods);
    let scene = scene().called("orders-0").start();
    let names = called(&scene);
    let Scene { node, volume, pod, .. } = &scene;
    node.must(volume.unpublish(pod.uid()));
    let (folder, pv) = (volume.global(), volume.pv.as_str());
    let shown = |written| Shown { heading: "### Refusals", written };
    let of_page = format!("disk unmountdevice {}/{} --json", GLOBAL_OF_PAGE, VOLUMES[0].1);
    shown(&of_page).is(node, &names, &["unmountdevice", folder.to_str().unwrap(), "--json"]);
    let of_page = format!("disk detach {} 1 --json", VOLUMES[0].1);
    shown(&of_page).is(node, &names, &["detach", pv, "1", "--json"]);
    shown("disk release shop/orders-0 --dry-run").is(
        node,
        &names,
        &["release", "shop/orders-0", "--dry-run"],
    );
    let Scene { volume, pod, container, .. } = scene;
    volume.take_away_with(&pod, container);
}

/// Where the page has the global mounts.
const GLOBAL_OF_PAGE: &str =
    "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts";
