//! The volume that a person means: what was typed, among all that is known of volumes.

use super::journal::{self, LogQuery};
use crate::configuration::Config;
use crate::driver::Context;
use crate::driver::names::known_volumes;
use crate::host::records::RecordFiles;
use crate::host::{device_nodes, machine};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId, VolumeName};
use crate::model::known_volume::{Fit, KnownVolume, Meant, TypedName, meant};
use crate::model::text::visible;
use crate::ports::store::Records;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the cloud is waited for that may know another volume of a name that is known here.
const TO_CONFIRM: Duration = Duration::from_secs(5);

/// How long it is waited for where only it can know the name.
const TO_FIND: Duration = Duration::from_secs(10);

/// The volume that a verb takes.
pub(super) struct Taken {
    pub(super) id: VolumeId,
    /// Which one it is, where that is not what was typed.
    pub(super) taken: Option<String>,
}

/// The names that the log may have for a volume.
#[derive(Debug, Default)]
pub(super) struct NamesInTheLog {
    pub(super) names: BTreeSet<String>,
    /// Other names that are near, where nothing known goes by what was typed.
    pub(super) near: Vec<String>,
}

fn typed_name(text: &str) -> TypedName<'_> {
    TypedName { text, number: device_nodes::number_named(text) }
}

/// The volume that a verb acts on: the cloud is asked too, and a choice is never made.
pub(super) fn volume_to_act_on(cx: &Context<'_>, text: &str) -> Result<Taken> {
    let typed = typed_name(text);
    let here = known_volumes::here(cx, typed);
    let is_known = matches!(meant(typed, &here), Meant::One(_, fit) if fit != Fit::Prefix);
    let patience = if is_known { TO_CONFIRM } else { TO_FIND };
    let (known, silence) = known_volumes::everywhere(cx, typed, here, patience);
    let (one, fit) = only_one(text, meant(typed, &known), silence.clone())?;
    if let (Fit::Prefix, Some(why)) = (&fit, silence) {
        let label = one.label();
        let what = format!("{text} is how {label} begins, but the cloud did not answer: {why}");
        return Err(Error::new(why.kind, what)
            .hint("another volume may begin so too; give the whole id or name"));
    }
    let Some(id) = one.id.clone() else {
        return Err(Error::new(Kind::Missing, format!("which volume {text} is could not be told"))
            .hint(format!("disk explain {text} shows what is mounted under that name")));
    };
    let taken = (fit != Fit::Id).then(|| described(one, &fit));
    Ok(Taken { id, taken })
}

/// The volume that is looked at. The cloud is asked only about a name that this machine does not know
/// whole; what only the log tells of is known too.
pub(super) fn volume_to_look_at(
    cx: &Context<'_>,
    text: &str,
    config: &Config,
) -> Result<KnownVolume> {
    let typed = typed_name(text);
    let by_whole_name = |known: &[KnownVolume]| match meant(typed, known) {
        Meant::One(one, fit) if fit != Fit::Prefix => Some(Ok(one.clone())),
        Meant::Several(all) if all.iter().any(|(_, fit)| *fit != Fit::Prefix) => {
            Some(Err(several(text, &all)))
        }
        _ => None,
    };
    let here = known_volumes::here(cx, typed);
    if let Some(found) = by_whole_name(&here) {
        return found;
    }
    let (known, silence) = known_volumes::everywhere(cx, typed, here, TO_FIND);
    let found = only_one(text, meant(typed, &known), silence).map(|(one, _)| one.clone());
    found.or_else(|error| {
        if error.kind == Kind::BadCall {
            return Err(error);
        }
        by_whole_name(&with_the_log(Vec::new(), config)).unwrap_or_else(|| {
            if !is_in_older_log(text, config) {
                return Err(error);
            }
            let names = BTreeSet::from([text.to_owned()]);
            Ok(KnownVolume { names, ..KnownVolume::default() })
        })
    })
}

/// The names of a volume in the log, which may be the only place that knows it by now.
pub(super) fn names_in_the_log(
    cx: &Context<'_>,
    text: &str,
    config: &Config,
) -> Result<NamesInTheLog> {
    let typed = typed_name(text);
    let records = RecordFiles::below(&config.paths.state_dir, &config.paths.run_dir);
    let names = |one: &KnownVolume| {
        let id = one.id.as_ref().map(VolumeId::as_name);
        let mut names = id.map(|id| names_of(&id, &records)).unwrap_or_default();
        names.extend(one.names.iter().cloned());
        NamesInTheLog { names, near: Vec::new() }
    };
    let known = known_volumes::here(cx, typed);
    if let Meant::One(one, fit) = meant(typed, &known)
        && fit != Fit::Prefix
    {
        return Ok(names(one));
    }
    match meant(typed, &with_the_log(known, config)) {
        Meant::One(one, _) => Ok(names(one)),
        Meant::Several(all) => Err(several(text, &all)),
        Meant::None(near) => Ok(NamesInTheLog { names: BTreeSet::from([text.to_owned()]), near }),
    }
}

/// What is known, and what the log tells of volumes and their pods.
fn with_the_log(mut known: Vec<KnownVolume>, config: &Config) -> Vec<KnownVolume> {
    let all = journal::story(&config.paths, &LogQuery::default()).unwrap_or_default();
    for entry in all.entries {
        let Some(Ok(id)) = entry.volume.as_deref().map(VolumeId::parse) else { continue };
        let at = known.iter().position(|one| one.id.as_ref() == Some(&id)).unwrap_or_else(|| {
            known.push(KnownVolume::of(id));
            known.len() - 1
        });
        known[at].names.extend(entry.name);
        let pods = all.pods.iter().filter(|(_, name)| entry.pod.as_ref() == Some(name));
        let pods =
            pods.filter_map(|(uid, name)| Some((ConsumerId::parse(uid).ok()?, name.clone())));
        known[at].consumers.extend(pods);
    }
    known
}

/// Whether an older driver's log has the name.
fn is_in_older_log(text: &str, config: &Config) -> bool {
    let volume = BTreeSet::from([text.to_owned()]);
    let query = LogQuery { volume, with_older: true, ..LogQuery::default() };
    journal::story(&config.paths, &query).is_ok_and(|story| !story.older.is_empty())
}

/// All names of volumes and of those that have them, a line each, as far as this machine knows them.
pub(super) fn all(cx: &Context<'_>) -> String {
    let known = known_volumes::here(cx, TypedName { text: "", number: None });
    let mut names = BTreeSet::new();
    for one in known {
        names.extend(one.id.map(|id| id.to_string()));
        names.extend(one.names);
        let pods = one.consumers.into_iter();
        names.extend(pods.map(|(uid, name)| if name.is_empty() { uid.to_string() } else { name }));
    }
    names.iter().flat_map(|name| [visible(name), "\n".into()]).collect()
}

/// A volume's names: what was typed, and what this machine remembers beside it.
pub(super) fn names_of(name: &VolumeName, records: &dyn Records) -> BTreeSet<String> {
    let mut names = BTreeSet::from([name.to_string()]);
    names.extend(records.named(name).map(|id| id.to_string()));
    for record in records.list().unwrap_or_default() {
        if record.volume.as_str() == name.as_str() {
            names.extend(record.name.map(|name| name.to_string()));
        }
    }
    names
}

/// The one of these volumes that was typed; an id that is near none of them is for the cloud to refuse.
pub(super) fn one_of(text: &str, known: &[KnownVolume]) -> Result<VolumeId> {
    let meant = meant(typed_name(text), known);
    if let (Meant::None(near), Ok(id)) = (&meant, VolumeId::parse(text))
        && near.is_empty()
    {
        return Ok(id);
    }
    let (one, _) = only_one(text, meant, None)?;
    one.id.clone().ok_or_else(|| unknown(text, &[]))
}

fn only_one<'a>(
    text: &str,
    meant: Meant<'a>,
    silence: Option<Error>,
) -> Result<(&'a KnownVolume, Fit)> {
    match (meant, silence) {
        (Meant::One(one, fit), _) => Ok((one, fit)),
        (Meant::Several(all), _) => Err(several(text, &all)),
        (Meant::None(near), None) => Err(unknown(text, &near)),
        (Meant::None(near), Some(why)) => {
            let what = format!(
                "unknown: no volume goes by the name {text} on this machine, and the cloud did not answer: {why}"
            );
            let error = Error::new(why.kind, what);
            Err(match proposed(&near) {
                Some(near) => error.hint(near),
                None => error,
            })
        }
    }
}

/// No volume is called so.
pub(super) fn unknown(text: &str, near: &[String]) -> Error {
    Error::new(Kind::Missing, format!("no volume goes by the name {text}")).hint(
        proposed(near).unwrap_or_else(|| {
            if machine::is_root() {
                "disk status shows those of this machine; else give its id in the cloud".to_owned()
            } else {
                "what this machine remembers of names only root may read: try it with sudo"
                    .to_owned()
            }
        }),
    )
}

/// What may have been meant.
pub(super) fn proposed(near: &[String]) -> Option<String> {
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// It must be said which of them is meant.
fn several(text: &str, all: &[(&KnownVolume, Fit)]) -> Error {
    let each: Vec<_> = all.iter().map(|(one, fit)| described(one, fit)).collect();
    Error::bad_call(format!("{} volumes go by {text}: {}", all.len(), each.join("; ")))
        .hint("nothing was done; give the id of the one that you mean")
}

/// A volume with its names, and why it fits.
fn described(one: &KnownVolume, fit: &Fit) -> String {
    let because = match fit {
        Fit::Id => "by its id".to_owned(),
        Fit::Name => "by its name".to_owned(),
        Fit::Consumer(name) => format!("by its pod {name}"),
        Fit::Disk(number) => format!("its disk is {number}"),
        Fit::DeadMounts(number) => format!("its mounts stood on {number}, which is gone"),
        Fit::Link => "by a link of its disk".to_owned(),
        Fit::Prefix => "its name begins so".to_owned(),
    };
    let is_other = |name: &&String| one.id.as_ref().is_some_and(|id| id.as_str() != *name);
    let names: Vec<_> = one.names.iter().filter(is_other).cloned().collect();
    let pods =
        one.consumers.iter().map(|(uid, name)| if name.is_empty() { uid.as_str() } else { name });
    let pods: Vec<_> = pods.collect();
    let mut about = names;
    if !pods.is_empty() {
        about.push(format!("pods {}", pods.join(" ")));
    }
    about.push(because);
    format!("volume {} ({})", one.label(), about.join(", "))
}
