//! What is noted with a volume in the cloud, for every machine to read: pairs of texts, in one form
//! for all clouds. Old notes stay readable, so a key's meaning never changes.

use crate::model::cloud::request::AttachRequest;
use crate::model::disk::formatting::Life;
use crate::model::ids::{ServerId, VolumeName};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The orchestrator's name of the volume.
const NAME_KEY: &str = "incloud-disk-name";

/// An attach that was asked for, until its outcome was seen.
const REQUEST_KEY: &str = "incloud-disk-attach-asked";

/// How often the volume went to another server, and to which it went last.
const TENURE_KEY: &str = "incloud-disk-tenure";

/// How far the volume has come. What any server once mounted is formatted by none.
const LIFE_KEY: &str = "incloud-disk-life";

/// The server which has the volume mounted.
const MOUNTED_KEY: &str = "incloud-disk-mounted-on";

/// What the key of each further server that has it mounted begins with; the server's id follows. Each has
/// a key of its own, so that none takes away another's.
const BESIDE_KEY: &str = "incloud-disk-mounted-on.";

/// Which server was the last to get a volume by an attach of ours, and how often it went to another
/// one than the time before: two equal counts mean that no other server had it in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenure {
    pub server: ServerId,
    /// How often the server was another one.
    pub count: u64,
}

/// One thing to note with a volume, or to remove: nothing in an `Option` removes it.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// The orchestrator's name of it.
    Name(Option<&'a VolumeName>),
    /// An attach that is about to be asked for, until its outcome was seen.
    Request(Option<&'a AttachRequest>),
    /// Who is about to have it, if that is another one than before.
    Tenure(Option<&'a Tenure>),
    /// How far it has come.
    Life(&'a Life),
    MountedOn(Option<&'a ServerId>),
    /// A further server that has it mounted.
    MountedBeside(&'a ServerId),
    /// A further server that has it mounted no more.
    NotMountedBeside(&'a ServerId),
}

impl Note<'_> {
    /// The key under which it is kept.
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

    /// The text that is kept; nothing if the key is to be removed.
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

/// All that is noted with a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The orchestrator's name of it.
    pub name: Option<VolumeName>,
    /// An attach that was asked for.
    pub request: Option<AttachRequest>,
    /// Who had it last.
    pub tenure: Option<Tenure>,
    /// How far it has come.
    pub life: Option<Life>,
    pub mounted_on: Option<ServerId>,
    /// Further servers that have it mounted.
    pub mounted_beside: BTreeSet<ServerId>,
}

impl Notes {
    /// Reads them from whatever pairs are kept with a volume; other keys are other programs'.
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
