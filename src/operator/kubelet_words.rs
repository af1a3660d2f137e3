//! What kubelet's own words say of a volume: a tear-down that it begins, its name, and its disk.

use crate::model::report::kubelet_line::KubeletLine;

/// How kubelet begins to tear down a volume, and the call that it makes then.
const TEAR_DOWNS: [(&str, &str); 3] =
    [("UnmountVolume", "unmount"), ("UnmountDevice", "unmountdevice"), ("DetachVolume", "detach")];

/// The kernel has no longer name for a disk.
const LONGEST_DISK: usize = 31;

/// The call that kubelet begins, to tear down a volume.
pub(super) fn tear_down(line: &KubeletLine) -> Option<&'static str> {
    let words = line.words()?.strip_prefix("operationExecutor.")?;
    let is_said = |(name, _): &&(&str, &str)| {
        words.strip_prefix(name).is_some_and(|rest| rest.starts_with(" started for volume "))
    };
    TEAR_DOWNS.iter().find(is_said).map(|(_, op)| *op)
}

/// The name that kubelet has for a `FlexVolume`: `pv-orders` of `incloud/disk/pv-orders`.
pub(super) fn flex_volume(line: &KubeletLine) -> Option<&str> {
    let name = line.quoted("(UniqueName: ").filter(|name| !name.starts_with("kubernetes.io/"))?;
    name.splitn(3, '/').nth(2).filter(|name| !name.is_empty())
}

/// The disk that a volume has (`vdd`), or had until it was detached, which is then true.
pub(super) fn disk(line: &KubeletLine) -> Option<(&str, bool)> {
    let words = line.words()?;
    let is_old = words.starts_with("Volume detached for volume ");
    if !is_old && !words.starts_with("MountVolume.WaitForAttach succeeded for volume ") {
        return None;
    }
    let disk = line.quoted("DevicePath ")?.strip_prefix("/dev/")?;
    let is_plain = (1..=LONGEST_DISK).contains(&disk.len())
        && disk.bytes().all(|sign| sign.is_ascii_alphanumeric());
    is_plain.then_some((disk, is_old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::kubelet_line::Shows;

    fn said(words: &str) -> KubeletLine {
        KubeletLine { at: 0, process: Some(7), shows: Shows::Nothing, text: words.to_owned() }
    }

    /// As kubelet 1.20 and 1.36 write it. What a container printed is quoted behind other words.
    #[test]
    fn a_tear_down_is_read_where_kubelet_itself_says_so() {
        let started = "started for volume \"pv-orders\"";
        for (words, op) in [
            (format!("a.go:1] operationExecutor.UnmountVolume {started}"), Some("unmount")),
            (format!("a.go:1] \"operationExecutor.UnmountDevice {started}"), Some("unmountdevice")),
            (format!("a.go:1] operationExecutor.DetachVolume {started}"), Some("detach")),
            (format!("a.go:1] operationExecutor.MountVolume {started}"), None),
            (format!("a.go:1] operationExecutor.UnmountVolumeX {started}"), None),
            (format!("a.go:1] probe failed: operationExecutor.DetachVolume {started}"), None),
            (format!("a.go:1] x] operationExecutor.DetachVolume {started}"), None),
            (format!("operationExecutor.DetachVolume {started}"), None),
        ] {
            assert_eq!(tear_down(&said(&words)), op, "{words}");
        }
        let words = format!("a.go:1] operationExecutor.DetachVolume {started}");
        let other = KubeletLine { process: None, ..said(&words) };
        assert_eq!(tear_down(&other), None, "no line of klog");
    }

    #[test]
    fn volumes_and_disks_are_read_in_both_ways_of_quoting() {
        const UID: &str = "4e51a3c2-7b1d-4f6e-9a08-5c3d2e1f0a9b";
        let both = |words: &str| {
            [words.to_owned(), format!("a.go:1] \"{}\"", words[8..].replace('"', "\\\""))]
        };
        let of = |name: &str, more: &str| {
            both(&format!(
                "a.go:1] MountVolume.WaitForAttach succeeded for volume \"data\" (UniqueName: \"{name}\") pod \"orders-0\" (UID: \"{UID}\") {more}"
            ))
        };
        for (name, volume) in [
            ("incloud/disk/pv-orders", Some("pv-orders")),
            ("kubernetes.io/secret/x-token", None),
            ("kubernetes.io/csi/a^b", None),
            ("incloud/disk/", None),
            ("x", None),
        ] {
            for words in of(name, "") {
                assert_eq!(flex_volume(&said(&words)), volume, "{words}");
            }
        }
        for (path, expected) in [
            ("/dev/vdd", Some(("vdd", false))),
            ("/dev/incloud-disk/vol-1", None),
            ("/dev/", None),
            ("", None),
            (&format!("/dev/{}", "v".repeat(99)), None),
        ] {
            for words in of("incloud/disk/pv-orders", &format!("DevicePath \"{path}\"")) {
                assert_eq!(disk(&said(&words)), expected, "{words}");
            }
        }
        let detached = "a.go:1] Volume detached for volume \"x\" (UniqueName: \"a/b/x\") on node \"n\" DevicePath \"/dev/vdc\"";
        assert_eq!(disk(&said(detached)), Some(("vdc", true)));
        let other = detached.replace("Volume detached", "said: Volume detached");
        assert_eq!(disk(&said(&other)), None);
    }
}
