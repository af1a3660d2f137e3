//! Notes that the cloud stores with a volume, for every node to read: pairs of texts, in one form for all clouds. Old
//! notes stay readable, so the meaning of a key never changes.

use crate::model::cloud::request::AttachRequest;
use crate::model::disk::formatting::Life;
use crate::model::ids::{ServerId, VolumeName};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The orchestrator's name of the volume.
const NAME_KEY: &str = "incloud-disk-name";

/// An attach request with unknown outcome.
const REQUEST_KEY: &str = "incloud-disk-attach-asked";

/// The attach generation: how often the volume went to another server, and to which one last.
const TENURE_KEY: &str = "incloud-disk-tenure";

/// How far the volume has come. A volume that any server has mounted is never formatted.
const LIFE_KEY: &str = "incloud-disk-life";

/// The server that has mounted the volume.
const MOUNTED_KEY: &str = "incloud-disk-mounted-on";

/// The prefix of the key for each further server that has mounted it, followed by the server's id. Each has its own
/// key, so that none removes another's.
const BESIDE_KEY: &str = "incloud-disk-mounted-on.";

/// The last server that got a volume by our attach, and how often that was another server than before. Equal counts
/// prove that no other server had it in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenure {
    pub server: ServerId,
    pub count: u64,
}

/// A note to store, or to remove if it contains `None`.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// The orchestrator's name.
    Name(Option<&'a VolumeName>),
    /// An attach request with unknown outcome.
    Request(Option<&'a AttachRequest>),
    /// The server that gets the volume next, if it is another one.
    Tenure(Option<&'a Tenure>),
    /// How far the volume has come.
    Life(&'a Life),
    MountedOn(Option<&'a ServerId>),
    /// A further server that has mounted the volume.
    MountedBeside(&'a ServerId),
    /// A further server that no longer mounts the volume.
    NotMountedBeside(&'a ServerId),
}

impl Note<'_> {
    /// Its key.
    pub fn key(&self) -> Cow<'static, str> {
        match self {
            Self::Name(_) => NAME_KEY.into(),
            Self::Request(_) => REQUEST_KEY.into(),
            Self::Tenure(_) => TENURE_KEY.into(),
            Self::Life(_) => LIFE_KEY.into(),
            Self::MountedOn(_) => MOUNTED_KEY.into(),
            Self::MountedBeside(server) | Self::NotMountedBeside(server) => {
                format!("{BESIDE_KEY}{server}").into()
            }
        }
    }

    /// Its text; `None` removes the key.
    pub fn value(&self) -> Option<String> {
        match self {
            Self::Name(name) => name.map(ToString::to_string),
            Self::Request(request) => request.map(ToString::to_string),
            Self::Tenure(tenure) => {
                tenure.map(|tenure| format!("{} {}", tenure.count, tenure.server))
            }
            Self::Life(life) => Some(life.to_string()),
            Self::MountedOn(server) => server.map(ToString::to_string),
            Self::MountedBeside(server) => Some(server.to_string()),
            Self::NotMountedBeside(_) => None,
        }
    }
}

/// All notes of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The orchestrator's name.
    pub name: Option<VolumeName>,
    /// An attach request with unknown outcome.
    pub request: Option<AttachRequest>,
    /// The last server that had it.
    pub tenure: Option<Tenure>,
    /// How far the volume has come.
    pub life: Option<Life>,
    pub mounted_on: Option<ServerId>,
    /// Further servers that have mounted the volume.
    pub mounted_beside: BTreeSet<ServerId>,
}

impl Notes {
    /// Reads the notes from a volume's pairs; other keys belong to other programs.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut notes = Self::default();
        for (key, text) in pairs {
            match key {
                NAME_KEY => notes.name = VolumeName::parse(text).ok(),
                REQUEST_KEY => notes.request = AttachRequest::read(text),
                TENURE_KEY => notes.tenure = tenure(text),
                LIFE_KEY => notes.life = Some(Life::read(text)),
                MOUNTED_KEY => notes.mounted_on = ServerId::parse(text).ok(),
                _ => {
                    let server = key.strip_prefix(BESIDE_KEY).map(ServerId::parse);
                    notes.mounted_beside.extend(server.and_then(Result::ok));
                }
            }
        }
        notes
    }
}

fn tenure(text: &str) -> Option<Tenure> {
    let (count, server) = text.split_once(' ')?;
    Some(Tenure { server: ServerId::parse(server).ok()?, count: count.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let server = |text| ServerId::parse(text).unwrap();
        let (one, two) = (server("s1"), server("s2"));
        let name = VolumeName::parse("pv-1").unwrap();
        let request = AttachRequest { server: one.clone(), at: 7 };
        let tenure = Tenure { server: two.clone(), count: 3 };
        let all = [
            Note::Name(Some(&name)),
            Note::Request(Some(&request)),
            Note::Tenure(Some(&tenure)),
            Note::Life(&Life::HasData),
            Note::MountedOn(Some(&one)),
            Note::MountedBeside(&two),
        ];
        let kept: Vec<_> =
            all.iter().map(|note| (note.key().into_owned(), note.value().unwrap())).collect();
        let others = [("incloud-disk-tenure-of-another", "x"), ("readonly", "False")];
        let pairs = kept.iter().map(|(key, text)| (key.as_str(), text.as_str())).chain(others);
        assert_eq!(
            Notes::read(pairs),
            Notes {
                name: Some(name.clone()),
                request: Some(request.clone()),
                tenure: Some(tenure.clone()),
                life: Some(Life::HasData),
                mounted_on: Some(one.clone()),
                mounted_beside: BTreeSet::from([two.clone()]),
            }
        );
        for note in [
            Note::Name(None),
            Note::Request(None),
            Note::Tenure(None),
            Note::MountedOn(None),
            Note::NotMountedBeside(&two),
        ] {
            assert_eq!(note.value(), None);
            assert!(kept.iter().any(|(key, _)| *key == note.key()), "{note:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_note() {
        for (key, text) in [(REQUEST_KEY, "soon"), (TENURE_KEY, "s 1"), (MOUNTED_KEY, "")] {
            assert_eq!(Notes::read([(key, text)]), Notes::default(), "{key}");
        }
    }
}
