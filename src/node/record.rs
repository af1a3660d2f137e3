//! What is noted of an installation, in lines `key=value`: older versions read them too.

use super::console::NodeResult;
use super::durable;
use super::site::{Plugins, Site};
use super::trial;
use crate::host::files;
use crate::model::error::Result;
use crate::model::timestamp;
use crate::ports::clock;
use std::path::PathBuf;

/// What was noted at the last installation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct InstallRecord(Vec<(String, String)>);

/// Where it stands.
pub(super) fn path(site: &Site) -> PathBuf {
    site.state().join("installed")
}

/// Reads it; nothing if there is none.
pub(super) fn load(site: &Site) -> Result<Option<InstallRecord>> {
    Ok(files::read_if_there(&path(site))?.map(|text| read(&text)))
}

fn read(text: &str) -> InstallRecord {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    InstallRecord(lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

impl InstallRecord {
    /// The value of a key; empty if it was not noted.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(one, _)| one == key).map_or("", |(_, value)| value)
    }

    /// Whether it was another maker's driver that was put back.
    pub(super) fn is_foreign(&self) -> bool {
        self.get("maker") == "another"
    }

    /// The checksum of a unit or rule as it was installed.
    pub(super) fn checksum_of(&self, file: &str) -> Option<&str> {
        let triggers = self.0.iter().filter(|(key, _)| key == "trigger");
        triggers
            .filter_map(|(_, value)| value.split_once("  "))
            .find(|(_, name)| *name == file)
            .map(|(sum, _)| sum)
    }

    /// The plugin folder that was installed into.
    pub(super) fn plugin_folder(&self, site: &Site) -> Option<PathBuf> {
        let noted = PathBuf::from(self.get("plugin_dir"));
        if noted.as_os_str().is_empty() {
            return None;
        }
        let below = site.at(&noted);
        Some(if below.join("incloud~disk").is_dir() { below } else { noted })
    }
}

/// Notes what is there now: the driver, and these units and rules.
pub(super) fn write(
    site: &Site,
    plugins: &Plugins,
    is_foreign: bool,
    triggers: &[(&str, PathBuf)],
) -> NodeResult {
    let driver = plugins.driver();
    let now = timestamp::text(clock::now());
    let second = now.split('.').next().unwrap_or_default();
    let mut text = format!(
        "sha256={}\nversion={}\ntime={second}Z\nplugin_dir={}\n",
        durable::checksum(&driver)?,
        trial::version(&driver),
        site.inside(&plugins.folder).display()
    );
    if is_foreign {
        text += "maker=another\n";
    }
    for (name, place) in triggers {
        if place.is_file() {
            text += &format!("trigger={}  {name}\n", durable::checksum(place)?);
        }
    }
    durable::replace(&path(site), text.as_bytes(), 0o644)?;
    site.step("noted");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_every_version_are_read() {
        let text = "sha256=ab\nversion=disk 0.1.0\ntime=2020-01-01T00:00:00Z\nplugin_dir=/a=b\n\
                    trigger=cd  x.service\ntrigger=ef  y.timer\nlater=1\n";
        let record = read(text);
        assert_eq!((record.get("sha256"), record.get("plugin_dir")), ("ab", "/a=b"));
        assert_eq!(record.get("none"), "");
        assert_eq!(record.checksum_of("y.timer"), Some("ef"));
        assert_eq!(record.checksum_of("z"), None);
    }
}
