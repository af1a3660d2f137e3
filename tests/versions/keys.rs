//! The names under which a version stores what a later call needs: adding one is compatible, renaming or moving one
//! is not.

use crate::volume::Volume;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Keys, each with the file and the keys that it is in.
#[derive(Debug, Default)]
pub struct Keys(BTreeSet<String>);

/// What the current version needs no more: with their defaults the previous one refuses what it would have completed.
const GIVEN_UP: [&str; 4] = ["by_person", "options", "seed", "at"];

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
        let is_given_up = |key: &&String| {
            let key = key.strip_prefix("lasting.formatting.");
            key.is_some_and(|key| GIVEN_UP.contains(&key))
        };
        let missing: Vec<_> =
            previous.0.difference(&self.0).filter(|key| !is_given_up(key)).collect();
        assert!(missing.is_empty(), "the current version does not store {missing:?}: {self:#?}");
    }
}
