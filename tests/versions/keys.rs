//! The names under which a version stores what a later call needs: adding one is compatible, renaming or moving one
//! is not.

use crate::volume::Volume;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Keys, each with the file and the keys that it is in.
#[derive(Debug, Default)]
pub struct Keys(BTreeSet<String>);

impl Keys {
    /// Adds the keys of the volume's records and of its entry in the local cloud.
    pub fn note(&mut self, volume: &Volume) {
        let entry = volume.image().with_extension("json");
        for (file, path) in [
            ("lasting", volume.record_path()),
            ("boot", volume.boot_record_path()),
            ("cloud", entry),
        ] {
            let Ok(text) = fs::read(path) else { continue };
            self.add(file, &serde_json::from_slice(&text).expect("JSON"));
        }
    }

    fn add(&mut self, path: &str, value: &Value) {
        match value {
            Value::Object(keys) => {
                for (key, value) in keys {
                    // Pods and paths are data, not names.
                    let is_name = key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                    let path = format!("{path}.{}", if is_name { key } else { "*" });
                    self.add(&path, value);
                    self.0.insert(path);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.add(path, value)),
            _ => {}
        }
    }

    /// Everything that the previous version stores the current one stores under the same name.
    #[track_caller]
    pub fn must_include(&self, previous: &Self) {
        assert!(previous.0.len() > 20, "{previous:?}");
        let missing: Vec<_> = previous.0.difference(&self.0).collect();
        assert!(missing.is_empty(), "the current version does not store {missing:?}: {self:#?}");
    }
}
