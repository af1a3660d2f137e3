//! Whether kubelet has a directory for a volume in any pod's directory.

use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::ids::VolumeName;
use std::fs;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::Path;

/// Looks below kubelet's root directory. What cannot be listed is an error.
pub fn has_one(root: &Path, faces: Faces, name: &VolumeName) -> Result<bool> {
    for face in faces.0 {
        let pods = root.join(face.layout.consumers);
        let error = |error: &std::io::Error| Error::io(format!("list {}", pods.display()), error);
        for pod in fs::read_dir(&pods).map_err(|e| error(&e))? {
            let pod = pod.map_err(|e| error(&e))?;
            let directory = pod.path().join(face.layout.published).join(name.as_str());
            match directory.symlink_metadata() {
                Ok(_) => return Ok(true),
                Err(found) if matches!(found.kind(), NotFound | NotADirectory) => {}
                Err(found) => {
                    return Err(Error::io(format!("look at {}", directory.display()), &found));
                }
            }
        }
    }
    Ok(false)
}
