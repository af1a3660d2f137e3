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

/// No message may show it.
const PASSWORD: &str = "Hx7-canary-9qWz";

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
        assert!(map.is_object());
    }
}

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
        let told = format!("{options:?}");
        assert!(!told.contains("errors=panic") && !told.contains("device="), "{told}");
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
    let text = text_of(bytes);
    if let Err(error) = Config::parse(text, "config.toml") {
        assert!(!error.cause.is_empty());
    }
    // A credential at any place of a text that is right or wrong.
    for around in [format!("[openstack]\npassword = \"{PASSWORD}\"\n{text}"), with_password(text)] {
        match Config::parse(&around, "config.toml") {
            Ok(config) => shows_none(&format!("{config:?}")),
            Err(error) => shows_none(&format!("{error:?} {error}")),
        }
    }
}

pub fn cloud_conf(bytes: &[u8]) {
    let text = text_of(bytes);
    let around = format!("[Global]\npassword = {PASSWORD}\n{text}");
    match Written::from_cloud_conf(&around, "cloud.conf") {
        Ok(written) => shows_none(&format!("{written:?}")),
        Err(error) => shows_none(&format!("{error:?} {error}")),
    }
    let _ = Written::from_cloud_conf(text, "cloud.conf");
}

pub fn clouds_yaml(bytes: &[u8]) {
    let text = text_of(bytes);
    let (text, secure) = match text.split_once('\u{0}') {
        Some((text, secure)) => (text, Some(secure)),
        None => (text, None),
    };
    for text in [text.to_owned(), with_password(text)] {
        match Clouds::parse(&text, secure, "clouds.yaml") {
            Ok(clouds) => {
                for name in ["", "one"] {
                    if let Ok(written) = clouds.entry(name) {
                        shows_none(&format!("{written:?}"));
                    }
                }
            }
            Err(error) => shows_none(&format!("{error:?} {error}")),
        }
    }
}

pub fn record(bytes: &[u8]) {
    let Ok(record) = serde_json::from_slice::<VolumeRecord>(bytes) else { return };
    let text = serde_json::to_string(&record).expect("a record can be written");
    let again: VolumeRecord = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, record);
    let _ = (record.has_mark(), record.may_have_mark(), record.mounted_as());
    assert!(record.published_folders().count() <= bytes.len());
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
