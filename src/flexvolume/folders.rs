//! The shapes of kubelet's folders (`pkg/volume/flexvolume/util.go`, `pkg/volume/util`):
//! `<root>/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/<volume>` for the device and
//! `<root>/pods/<uid>/volumes/incloud~disk/<volume>` for a pod.

use crate::model::error::{Error, Result};
use crate::model::ids::{ConsumerId, VolumeName};
use crate::model::mount::layout::{Layout, Target, above};
use crate::model::text::shown;
use std::path::{Component, Path, PathBuf};

const GLOBAL: &str = "plugins/kubernetes.io/flexvolume/incloud/disk/mounts";
const IN_POD: &str = "volumes/incloud~disk";
const PODS: &str = "pods";

/// kubelet's folders for this driver.
pub const LAYOUT: Layout = Layout {
    stages: GLOBAL,
    consumers: PODS,
    published: IN_POD,
    shares_published: false,
    parts: "volume-subpaths",
    for_containers: ["etc-hosts", "containers"],
};

/// A folder of kubelet's for one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub target: Target,
    /// The volume's name, the folder's last segment.
    pub name: VolumeName,
}

/// The path of a volume's global folder below the root.
pub fn global_below(name: &VolumeName) -> PathBuf {
    Path::new(GLOBAL).join(name.as_str())
}

/// The global folder that belongs to a pod's folder.
pub fn global_of(folder: &Folder) -> Target {
    Target { root: folder.target.root.clone(), below: global_below(&folder.name) }
}

/// Reads the path of a global folder.
pub fn global(text: &str) -> Result<Folder> {
    let path = normal(text)?;
    read_global(&path)?
        .ok_or_else(|| misshapen(&path, &format!("<kubelet root>/{GLOBAL}/<volume>")))
}

/// Reads the path of a pod's folder.
pub fn pod(text: &str) -> Result<(Folder, ConsumerId)> {
    let path = normal(text)?;
    read_pod(&path)?
        .ok_or_else(|| misshapen(&path, &format!("<kubelet root>/{PODS}/<uid>/{IN_POD}/<volume>")))
}

/// Reads a path that may be of either shape.
pub fn either(text: &str) -> Result<Folder> {
    let path = normal(text)?;
    match read_global(&path)? {
        Some(folder) => Ok(folder),
        None => pod(text).map(|(folder, _)| folder),
    }
}

fn read_global(path: &Path) -> Result<Option<Folder>> {
    let (Some(name), Some(root)) = (last(path), root_above(path, GLOBAL)) else {
        return Ok(None);
    };
    let name = VolumeName::parse(name)?;
    let below = global_below(&name);
    Ok(Some(Folder { target: Target { root, below }, name }))
}

fn read_pod(path: &Path) -> Result<Option<(Folder, ConsumerId)>> {
    let Some(in_pod) = root_above(path, IN_POD) else { return Ok(None) };
    let (Some(name), Some(uid), Some(root)) =
        (last(path), last(&in_pod), root_above(&in_pod, PODS))
    else {
        return Ok(None);
    };
    let (name, uid) = (VolumeName::parse(name)?, ConsumerId::parse(uid)?);
    let below = Path::new(PODS).join(uid.as_str()).join(IN_POD).join(name.as_str());
    Ok(Some((Folder { target: Target { root, below }, name }, uid)))
}

fn last(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// What stands above `tail` in a path that ends with it and one folder more.
fn root_above(path: &Path, tail: &str) -> Option<PathBuf> {
    above(path.parent()?, tail).map(Path::to_path_buf)
}

/// An absolute path without dots, doubled slashes, a slash at its end, or control characters.
fn normal(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    let plain = path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    let same = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    if !path.is_absolute() || !plain || !same || text.chars().any(char::is_control) {
        let text = shown(text);
        return Err(Error::bad_call(format!("{text} is not an absolute path in its plain form")));
    }
    Ok(path)
}

fn misshapen(path: &Path, shape: &str) -> Error {
    let path = shown(path.to_str().unwrap_or_default());
    Error::bad_call(format!("{path} does not look like {shape}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_folders_are_taken_apart() {
        let folder =
            global("/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv")
                .unwrap();
        assert_eq!(folder.target.root, Path::new("/var/lib/kubelet"));
        assert_eq!(folder.name.as_str(), "pv");
        let (pod, uid) = pod("/var/lib/kubelet/pods/1-2/volumes/incloud~disk/pv").unwrap();
        assert_eq!(uid.as_str(), "1-2");
        assert_eq!(global_of(&pod).path(), folder.target.path());
        assert_eq!(either(folder.target.path().to_str().unwrap()).unwrap(), folder);
    }

    #[test]
    fn a_folder_of_csi_is_no_folder_of_ours() {
        let faces = crate::app::FACES;
        for path in [
            "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv",
            "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount",
            "/var/lib/kubelet/plugins/kubernetes.io/csi/pv/pv/globalmount",
        ] {
            assert_eq!(faces.place_of(Path::new(path)), None, "{path}");
        }
        let part = Path::new("/var/lib/kubelet/pods/u/volume-subpaths/pv/main/0");
        assert!(faces.place_of(part).is_some() && faces.name_of_own(part).is_none());
    }

    #[test]
    fn other_paths_are_refused() {
        let good = "/k/pods/u/volumes/incloud~disk/pv";
        assert!(pod(good).is_ok());
        for bad in [
            "",
            "/",
            "pods/u/volumes/incloud~disk/pv",
            "/k/pods/u/volumes/incloud~disk/",
            "/k/pods/u/volumes/incloud~disk/pv/",
            "/k/pods/u/volumes/incloud~disk//pv",
            "/k/pods/u/volumes/incloud~disk/./pv",
            "/k/../pods/u/volumes/incloud~disk/pv",
            "/k/pods/../volumes/incloud~disk/pv",
            "/k/pods/u/volumes/incloud~disk/..",
            "/k/pods/u/volumes/incloud~disk/a b",
            "/k/pods/u/volumes/other~disk/pv",
            "/k/pods/u/v/volumes/incloud~disk/pv",
            "/k/pods/u/volumes/incloud~disk/pv\n",
            "/etc",
        ] {
            assert!(pod(bad).is_err(), "{bad:?}");
            assert!(global(bad).is_err(), "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_taken_is_written_back_the_same(text in "(/[a-z.~-]{0,4}){0,3}(/pods/u/volumes/incloud~disk)?/[a-z.]{0,3}") {
            if let Ok((folder, _)) = pod(&text) {
                proptest::prop_assert_eq!(folder.target.path(), PathBuf::from(text));
            }
        }
    }
}
