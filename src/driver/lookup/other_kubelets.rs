//! Mounts of another kubelet on the same machine: its driver looks after them.

use crate::model::face::Faces;
use crate::model::mount::mountinfo::Mount;
use crate::ports::host::Kubelets;

/// Whether a mount is in a directory of a kubelet that another configuration of the driver serves. This only
/// decides who looks after it: a mount keeps its disk from being detached wherever it is.
pub(crate) fn is_anothers(faces: Faces, kubelets: &dyn Kubelets, mount: &Mount) -> bool {
    faces.root_above(&mount.target).is_some_and(|root| kubelets.is_root_of_another(root))
}
