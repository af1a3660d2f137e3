//! What kubelet, people and the driver itself write.

use crate::text_of;
use incloud_disk::configuration::Config;
use incloud_disk::flexvolume::call::Call;
use incloud_disk::flexvolume::options::Options;
use incloud_disk::model::cloud::access::Written;
use incloud_disk::model::cloud::access::clouds_yaml::Clouds;
use incloud_disk::model::cloud::request::AttachRequest;
use incloud_disk::model::disk::file_system::FsType;
use incloud_disk::model::disk::formatting::Life;
use incloud_disk::model::ids::{NodeName, VolumeId, VolumeName};
use incloud_disk::model::mount::mount_options::{MkfsOptions, MountOptions};
use incloud_disk::model::record::VolumeRecord;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use toml::de::{DeTable, DeValue};

/// No message may show it.
const PASSWORD: &str = "Hx7-canary-9qWz";

/// A text without it: the fuzzer sees what is compared, and may write it anywhere.
fn text_without_password(bytes: &[u8]) -> Option<&str> {
    Some(text_of(bytes)).filter(|text| !text.contains(PASSWORD))
}

pub fn call(bytes: &[u8]) {
    let mut words = bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let Some(word) = words.next().and_then(|word| word.into_string().ok()) else { return };
    let arguments: Vec<OsString> = words.collect();
    if let Err(error) = Call::parse(&word, &arguments) {
        assert!(!error.cause.is_empty());
    }
}

pub fn options(bytes: &[u8]) {
    let text = text_of(bytes);
    if Options::parse(text).is_ok() {
        let map: serde_json::Value = serde_json::from_str(text).expect("what was read is JSON");
        let values = map.as_object().expect("a map").values();
        assert!(values.into_iter().all(serde_json::Value::is_string), "a map of strings");
    }
}

/// Mount options that lead to another device, folder or file.
const ELSEWHERE: [&str; 8] =
    ["device", "journal_dev", "journal_path", "loop", "logdev", "rtdev", "subvol", "subvolid"];

pub fn words(bytes: &[u8]) {
    let text = text_of(bytes);
    for id in [
        VolumeId::parse(text).map(|id| id.to_string()),
        VolumeName::parse(text).map(|name| name.to_string()),
        NodeName::parse(text).map(|name| name.to_string()),
    ]
    .into_iter()
    .flatten()
    {
        // It becomes a part of a path.
        assert!(id == text && !id.contains('/') && !id.starts_with('.') && !id.is_empty());
    }
    if let Ok(options) = MountOptions::parse(text) {
        for (key, value) in &options.data {
            assert!(!ELSEWHERE.contains(&key.as_str()), "{options:?}");
            assert!((key.as_str(), value.as_deref()) != ("errors", Some("panic")), "{options:?}");
            // The kernel parts them at commas.
            assert!(!value.as_ref().is_some_and(|value| value.contains([',', '/'])), "{options:?}");
        }
        assert_eq!(MountOptions::parse(&options.to_string()).as_ref(), Ok(&options));
        for kind in [FsType::Ext3, FsType::Ext4, FsType::Xfs, FsType::Btrfs] {
            let _ = options.check(kind);
        }
    }
    if let Ok(options) = MkfsOptions::parse(text) {
        for kind in [FsType::Ext4, FsType::Xfs, FsType::Btrfs] {
            let Ok(words) = options.words(kind) else { continue };
            assert!(words.iter().all(|word| !word.contains("/dev/")), "{words:?}");
        }
    }
    if let Some(request) = AttachRequest::read(text) {
        assert_eq!(AttachRequest::read(&request.to_string()), Some(request));
    }
    let life = Life::read(text);
    assert_eq!(Life::read(&life.to_string()), life);
}

pub fn configuration(bytes: &[u8]) {
    let Some(text) = text_without_password(bytes) else { return };
    if let Err(error) = Config::parse(text, "config.toml") {
        assert!(!error.cause.is_empty());
    }
    // Its own place is the one where a value is hidden that is right.
    let own = format!("[openstack]\npassword = \"{PASSWORD}\"\n{text}");
    match Config::parse(&own, "config.toml") {
        Ok(config) => shows_none(&format!("{config:?}")),
        Err(error) => shows_none(&format!("{error:?} {error}")),
    }
    // An error shows none at any place.
    let around = with_password(text);
    if let Err(error) = Config::parse(&around, "config.toml") {
        let told = format!("{error:?} {error}");
        let is_key = || {
            DeTable::parse(&around).is_ok_and(|table| has_key(&DeValue::Table(table.into_inner())))
        };
        assert!(!told.contains(PASSWORD) || is_key(), "a password is shown: {told}");
    }
}

/// Whether it is a part of a key: keys are shown.
fn has_key(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(table) => table
            .iter()
            .any(|(key, value)| key.get_ref().contains(PASSWORD) || has_key(value.get_ref())),
        DeValue::Array(values) => values.iter().any(|value| has_key(value.get_ref())),
        _ => false,
    }
}

pub fn cloud_conf(bytes: &[u8]) {
    let Some(text) = text_without_password(bytes) else { return };
    let around = format!("[Global]\npassword = {PASSWORD}\n{text}");
    match Written::from_cloud_conf(&around, "cloud.conf") {
        Ok(written) => shows_none(&format!("{written:?}")),
        Err(error) => shows_none(&format!("{error:?} {error}")),
    }
    let _ = Written::from_cloud_conf(text, "cloud.conf");
}

pub fn clouds_yaml(bytes: &[u8]) {
    let Some(text) = text_without_password(bytes) else { return };
    let (text, secure) = match text.split_once('\u{0}') {
        Some((text, secure)) => (text, Some(secure)),
        None => (text, None),
    };
    let entries = |text: &str, secure: Option<&str>| {
        let clouds = Clouds::parse(text, secure, "clouds.yaml");
        ["", "one"]
            .map(|name| clouds.as_ref().map_err(Clone::clone).and_then(|all| all.entry(name)))
    };
    let _ = entries(text, secure);
    // Its own place is the one where a value is hidden that is right.
    let own = format!("clouds: {{one: {{auth: {{password: {PASSWORD}}}}}}}");
    for entry in entries(text, Some(&own)) {
        match entry {
            Ok(written) => shows_none(&format!("{written:?}")),
            Err(error) => shows_none(&format!("{error:?} {error}")),
        }
    }
    // An error shows none at any place.
    let (text, secure) = (with_password(text), secure.map(with_password));
    for error in entries(&text, secure.as_deref()).into_iter().filter_map(Result::err) {
        let told = format!("{error:?} {error}");
        let has_name = |text: &str| serde_saphyr::from_str(text).is_ok_and(|all| has_name(&all));
        let is_name =
            || [Some(text.as_str()), secure.as_deref()].into_iter().flatten().any(has_name);
        assert!(!told.contains(PASSWORD) || is_name(), "a password is shown: {told}");
    }
}

/// Whether it is a part of the name of a cloud: names are shown.
fn has_name(value: &serde_json::Value) -> bool {
    let clouds = value.get("clouds").and_then(serde_json::Value::as_object);
    clouds.is_some_and(|clouds| clouds.keys().any(|name| name.contains(PASSWORD)))
}

pub fn record(bytes: &[u8]) {
    let Ok(record) = serde_json::from_slice::<VolumeRecord>(bytes) else { return };
    let text = serde_json::to_string(&record).expect("a record can be written");
    let again: VolumeRecord = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, record);
    let _ = (record.mark.is_known(), record.mark.may_exist(), record.mounts.mounted_as());
    assert!(record.mounts.published_folders().count() <= bytes.len());
}

/// The first sign that stands for it, where a value begins, becomes the password.
fn with_password(text: &str) -> String {
    let begins = ["= @", "= \"@", "= '@", ": @", ": \"@", ": '@"];
    let places = begins.iter().filter_map(|begin| Some(text.find(begin)? + begin.len()));
    match places.min() {
        Some(end) => format!("{}{PASSWORD}{}", &text[..end - 1], &text[end..]),
        None => text.to_owned(),
    }
}

#[track_caller]
fn shows_none(told: &str) {
    assert!(!told.contains(PASSWORD), "a password is shown: {told}");
}
