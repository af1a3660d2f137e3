//! Paths in records. A path is bytes, and JSON is text: one that is no UTF-8 is written in hexadecimal
//! digits behind a mark that no absolute path begins with. Every other one is written as it always was.
//!
//! A user of the machine may give his mounts such names; nothing may fail for that.

use crate::hexadecimal::digits_of;
use serde::{Deserialize, Deserializer, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const MARK: &str = "bytes:";

fn text_of(path: &Path) -> String {
    if let Some(text) = path.to_str().filter(|text| !text.starts_with(MARK)) {
        return text.to_owned();
    }
    MARK.to_owned() + &digits_of(path.as_os_str().as_bytes())
}

fn path_of(text: String) -> PathBuf {
    let digits = text.strip_prefix(MARK).filter(|digits| digits.len().is_multiple_of(2));
    let bytes = digits.and_then(|digits| {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()
    });
    bytes.map_or_else(|| PathBuf::from(text), |bytes| PathBuf::from(OsString::from_vec(bytes)))
}

/// How many bytes a path takes in JSON at most: its namer decides whether it is text, and of which signs.
pub fn longest_written(path: &Path) -> usize {
    // A control sign is written by its number, quotes have a sign before them, and two digits are a byte.
    let each = |byte: &u8| if byte.is_ascii_control() { 6 } else { 2 };
    MARK.len() + path.as_os_str().as_bytes().iter().map(each).sum::<usize>()
}

/// Writes a path.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text_of(path))
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    String::deserialize(from).map(path_of)
}

/// Writes a path as people read it: what is no UTF-8 is shown by a sign.
pub fn shown<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// Sets of paths as the values of a map: one path alone is written as it was before there were several.
pub mod sets {
    use super::{PathBuf, path_of, text_of};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Several(Vec<String>),
    }

    /// Writes the map.
    pub fn serialize<K: Serialize + Ord, S: Serializer>(
        all: &BTreeMap<K, BTreeSet<PathBuf>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let texts = |paths: &BTreeSet<PathBuf>| {
            let mut texts: Vec<_> = paths.iter().map(|path| text_of(path)).collect();
            match texts.pop() {
                Some(one) if texts.is_empty() => Texts::One(one),
                other => Texts::Several(texts.into_iter().chain(other).collect()),
            }
        };
        to.collect_map(all.iter().map(|(key, paths)| (key, texts(paths))))
    }

    /// Reads the map.
    pub fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<K, BTreeSet<PathBuf>>, D::Error> {
        let paths = |texts| match texts {
            Texts::One(text) => BTreeSet::from([path_of(text)]),
            Texts::Several(texts) => texts.into_iter().map(path_of).collect(),
        };
        let all = BTreeMap::<K, Texts>::deserialize(from)?;
        Ok(all.into_iter().map(|(key, texts)| (key, paths(texts))).collect())
    }
}

/// Paths as the keys of a map.
pub mod keys {
    use super::{PathBuf, path_of, text_of};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    /// Writes the map.
    pub fn serialize<V: Serialize, S: Serializer>(
        all: &BTreeMap<PathBuf, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(all.iter().map(|(path, value)| (text_of(path), value)))
    }

    /// Reads the map.
    pub fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<PathBuf, V>, D::Error> {
        let all = BTreeMap::<String, V>::deserialize(from)?;
        Ok(all.into_iter().map(|(text, value)| (path_of(text), value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_path_comes_back(bytes in proptest::collection::vec(1u8.., 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let written = serde_json::to_string(&text_of(&path)).unwrap().len() - r#""""#.len();
            proptest::prop_assert!(written <= longest_written(&path), "{} bytes", written);
            proptest::prop_assert_eq!(path_of(text_of(&path)), path);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(bytes:)?[0-9a-f\u{e9}]{0,9}") {
            let _ = path_of(text);
        }
    }

    #[test]
    fn a_plain_path_is_written_as_it_is() {
        for plain in ["/a/b c", "/bytes:2f", "/\u{e9}\n"] {
            assert_eq!(text_of(Path::new(plain)), plain);
            assert_eq!(path_of(plain.to_owned()), Path::new(plain));
        }
        assert_eq!(text_of(Path::new(std::ffi::OsStr::from_bytes(b"/\xff"))), "bytes:2fff");
    }
}
