//! Real paths, with their ids exchanged for these.

use super::*;

const UID: &str = "2f399ae2-a3cd-41e8-95ee-5254001f7ecb";
const UID_: &str = "2f399ae2_a3cd_41e8_95ee_5254001f7ecb";
const STATIC: &str = "8a7f2c3b1d4e5f60718293a4b5c6d7e8";
const ID: &str = "0d83d0f1c4a45b6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6";
const OUTER: &str = "fe12d0f1c4a45b6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6";

/// The pod and the container (`-`: none), and the line as the kernel writes it. `u` stands for the
/// pod's UID, `s` for it with underscores, `h` for a static pod's, `c` for the container, `o` for
/// one around it or inside of it.
const TABLE: &str = "\
# kubelet with cgroupfs; containerd, Docker.
u c 0::/kubepods/pod{u}/{c}
u c 0::/kubepods/burstable/pod{u}/{c}
u c 0::/kubepods/besteffort/pod{u}/{c}
u c 11:memory:/kubepods/burstable/pod{u}/{c}
u c 4:cpu,cpuacct:/kubepods/besteffort/pod{u}/{c}
u c 1:name=systemd:/kubepods/burstable/pod{u}/{c}
u - 0::/kubepods/burstable/pod{u}
h c 0::/kubepods/burstable/pod{h}/{c}
u c 0::/custom/kubepods/burstable/pod{u}/{c}
u c 0::/docker/{o}/kubelet/kubepods/besteffort/pod{u}/{c}
u c 9:pids:/docker/{o}/kubepods/besteffort/pod{u}/{c}
u c 0::/user.slice/user-1000.slice/user@1000.service/user.slice/k3s-rootless.scope/kubepods/pod{u}/{c}
u c 0::/../../pod{u}/{c}
u c 0::/kubepods/burstable/pod{u}/{c} (deleted)
u - 0::/kubepods/burstable/pod{u} (deleted)
# kubelet with cgroupfs; CRI-O, Kata.
u c 0::/kubepods/burstable/pod{u}/crio-{c}
u - 0::/kubepods/burstable/pod{u}/crio-conmon-{c}
u c 0::/kubepods/besteffort/pod{u}/kata_{c}
# kubelet with systemd; containerd.
u c 0::/kubepods.slice/kubepods-pod{s}.slice/cri-containerd-{c}.scope
u c 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/cri-containerd-{c}.scope
u c 0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{s}.slice/cri-containerd-{c}.scope
u c 12:freezer:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/cri-containerd-{c}.scope
u - 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice
h c 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{h}.slice/cri-containerd-{c}.scope
u c 0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{s}.slice/cri-containerd-{c}.scope
u c 0::/system.slice/docker-{o}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{s}.slice/cri-containerd-{c}.scope
u c 0::/docker/{o}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{s}.slice/cri-containerd-{c}.scope
u c 0::/../../kubelet-kubepods-besteffort-pod{s}.slice/cri-containerd-{c}.scope
# containerd that was not told of systemd.
u c 0::/kubepods-burstable-pod{s}.slice:cri-containerd:{c}
u c 8:cpuset:/kubepods-pod{s}.slice:cri-containerd:{c}
u c 0::/system.slice/containerd.service/kubepods-burstable-pod{s}.slice:cri-containerd:{c}
h c 11:devices:/system.slice/containerd.service/kubepods-besteffort-pod{h}.slice:cri-containerd:{c}
u c 0::/system.slice/k3s.service/kubepods-besteffort-pod{s}.slice:cri-containerd:{c}
# kubelet with systemd; CRI-O, Docker.
u c 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/crio-{c}.scope
u c 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/crio-{c}.scope/container
u - 0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/crio-conmon-{c}.scope
u c 0::/kubepods.slice/kubepods-pod{s}.slice/docker-{c}.scope
u c 3:memory:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{s}.slice/docker-{c}.scope
# systemd, or a cluster, inside the container.
u c 0::/kubepods.slice/kubepods-pod{s}.slice/cri-containerd-{c}.scope/init.scope
u c 0::/kubepods.slice/kubepods-pod{s}.slice/cri-containerd-{c}.scope/system.slice/nginx.service
u c 0::/kubepods/pod{u}/{c}/kubepods/besteffort/pod{h}/{o}
u c 0::/kubepods/pod{u}/{c}/docker/{o}
# Containers of no pod.
- c 0::/docker/{c}
- c 0::/system.slice/docker-{c}.scope
- c 0::/machine.slice/libpod-{c}.scope/container
- - 0::/machine.slice/libpod-conmon-{c}.scope
- c 0::/../cri-containerd-{c}.scope
# Of no pod.
- - 0::/
- - 0::/init.scope
- - 0::/system.slice/kubelet.service
- - 5:memory:/user.slice/user-0.slice/session-1.scope
- - 0::/kubepods.slice/kubepods-burstable.slice
- - 0::/system.slice/podman.service
- - 0::/machine.slice/machine-libpod_pod_{c}.slice
- - no line
";

fn filled(text: &str) -> String {
    [("{u}", UID), ("{s}", UID_), ("{h}", STATIC), ("{c}", ID), ("{o}", OUTER)]
        .iter()
        .fold(text.to_owned(), |text, (mark, word)| text.replace(mark, word))
}

/// Every folder is root's.
fn all(_: Step<'_>) -> bool {
    true
}

fn owner(text: &str) -> Owner {
    Owner::of(text, all)
}

/// Below a folder that a user was given no name counts; below a pod's own every one is the pod's.
#[test]
fn a_name_that_a_user_gave_is_not_believed() {
    let given = "/user.slice/user-1000.slice/user@1000.service";
    let is_believed = |step: Step<'_>| !step.path.starts_with(given) && !step.path.contains("/x");
    let line = format!("0::{given}/kubepods/pod{UID}/{ID}");
    assert_eq!(Owner::of(&line, is_believed), Owner::default());
    assert!(!PodFolder::of(&id(UID), true).has(&line, is_believed));
    let line = format!("0::{given}/docker/{ID}");
    assert_eq!(Owner::of(&line, is_believed), Owner::default());
    // The other hierarchy is root's.
    let two = format!("4:cpu:/kubepods/pod{UID}/{ID}\n0::{given}/app.scope\n");
    assert_eq!(Owner::of(&two, is_believed).pod, Some(id(UID)));
    assert!(PodFolder::of(&id(UID), true).has(&two, is_believed));
    // A container with users of its own has its own folder, and makes others in it.
    let inner = format!("0::/kubepods/pod{UID}/{ID}/x/pod{STATIC}");
    assert_eq!(Owner::of(&inner, is_believed).pod, Some(id(UID)));
    assert!(!PodFolder::of(&id(STATIC), true).has(&inner, is_believed));
    // What is root's there may be a container's root's.
    let nested = format!("0::/kubepods/pod{UID}/{ID}/pod{STATIC}");
    assert!(!PodFolder::of(&id(STATIC), false).has(&nested, all));
    assert!(PodFolder::of(&id(STATIC), true).has(&nested, all));
    assert!(PodFolder::of(&id(UID), false).has(&nested, all));
    // The path that is asked for ends with the folder.
    let asked = std::cell::RefCell::new(Vec::new());
    let note = |step: Step<'_>| {
        asked.borrow_mut().push(step.path.to_owned());
        true
    };
    let _ = Owner::of(&format!("0::/kubepods/pod{UID}/{ID}"), note);
    assert_eq!(asked.into_inner(), [format!("/kubepods/pod{UID}")]);
}

fn id(text: &str) -> ConsumerId {
    ConsumerId::parse(text).unwrap()
}

#[test]
fn every_real_path_is_read() {
    let rows: Vec<_> = TABLE.lines().filter(|row| !row.starts_with('#')).collect();
    assert!(rows.len() > 50);
    for row in rows {
        let mut fields = row.splitn(3, ' ');
        let mut mark = || fields.next().unwrap();
        let pod = match mark() {
            "u" => Some(UID),
            "h" => Some(STATIC),
            _ => None,
        };
        let container = (mark() == "c").then(|| ID.to_owned());
        let line = filled(mark());
        let expected = Owner { pod: pod.map(id), container };
        assert_eq!(owner(&line), expected, "{line}");
        // A hybrid machine has the line among others that say nothing.
        let hybrid = format!("10:cpu:/\n{line}\n0::/\n");
        assert_eq!(owner(&hybrid), expected, "{hybrid}");
        for uid in [UID, STATIC] {
            let is_in = line.contains(uid) || line.contains(&uid.replace('-', "_"));
            assert_eq!(PodFolder::of(&id(uid), true).has(&hybrid, all), is_in, "{uid} in {line}");
        }
    }
}

#[test]
fn any_line_makes_a_process_the_pods() {
    let text = format!("9:pids:/\n5:memory:/kubepods/pod{UID}/{ID}\n0::/system.slice/x.service\n");
    assert!(PodFolder::of(&id(UID), true).has(&text, all));
    let moved = format!("9:pids:/kubepods/pod{UID}\n5:memory:/kubepods/pod{UID}/{ID}\n");
    assert_eq!(owner(&moved).container.as_deref(), Some(ID), "the line that says most");
}

/// One character more or less, in front or behind, is another pod, or none.
#[test]
fn a_uid_that_another_begins_with_is_another_pod() {
    for uid in [UID, STATIC] {
        let folder = PodFolder::of(&id(uid), true);
        let escaped = uid.replace('-', "_");
        for near in [
            format!("/kubepods/pod{uid}0"),
            format!("/kubepods/pod{}", &uid[..uid.len() - 1]),
            format!("/kubepods/pod{}", &uid[1..]),
            format!("/kubepods/xpod{uid}"),
            format!("/kubepods/{uid}"),
            format!("/kubepods/pod{uid}.slice"),
            format!("/kubepods/pod{uid}-x/y"),
            format!("/kubepods.slice/kubepods-pod{escaped}0.slice"),
            format!("/kubepods.slice/kubepods-pod{escaped}-x.slice"),
            format!("/kubepods.slice/kubepods-xpod{escaped}.slice"),
            format!("/kubepods-pod{escaped}0.slice:cri-containerd:{ID}"),
            format!("/kubepods/podx:cri-containerd:pod{uid}"),
        ] {
            // With dashes in a slice's name the UID is not one step of it; without any it is the
            // one form that both drivers would write alike.
            let is_both = uid == STATIC && near.ends_with(&format!("/pod{uid}.slice"));
            assert_eq!(folder.has(&format!("0::{near}"), all), is_both, "{near}");
        }
    }
    // A UID of another make is found by its whole name, if not recognised as one.
    let odd = id("pod-7");
    assert!(PodFolder::of(&odd, true).has("0::/kubepods/podpod-7/x", all));
    assert!(PodFolder::of(&odd, true).has("0::/kubepods.slice/kubepods-podpod_7.slice", all));
    assert!(!PodFolder::of(&odd, true).has("0::/kubepods/podpod-70/x", all));
    assert_eq!(pod_of("podpod-7"), None);
}

#[test]
fn an_id_is_whole_or_none() {
    for folder in
        [&ID[1..], &format!("{ID}0"), &format!("x{ID}"), &format!("{}g", &ID[1..]), "", "ä", "-"]
    {
        assert_eq!(container_of(folder), None, "{folder}");
    }
    // Cut inside of a character.
    assert_eq!(container_of(&format!("ä{}", &ID[1..])), None);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = owner(&text);
        let _ = PodFolder::of(&id(UID), true).has(&text, all);
    }

    #[test]
    fn no_folder_makes_the_reader_panic(folders in proptest::collection::vec("(pod|kubepods-|\\.slice|\\.scope|:|[0-9a-f_-]{0,36}|[0-9a-f]{64}|ä| \\(deleted\\)){0,5}", 0..5)) {
        let text = format!("0::/{}", folders.join("/"));
        let owner = owner(&text);
        if let Some(pod) = owner.pod {
            proptest::prop_assert!(PodFolder::of(&pod, true).has(&text, all), "{}", text);
        }
    }
}
