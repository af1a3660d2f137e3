//! Which volume a person means by what was typed: a rule over the volumes that are known.

use super::disk::device::DeviceNumber;
use super::ids::{ConsumerId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use strsim::levenshtein;

/// A beginning that is shorter than this means nothing.
const SHORTEST_PREFIX: usize = 4;

/// So many names are proposed where none fits.
const MOST_PROPOSED: usize = 3;

/// A volume, and what people may call it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownVolume {
    /// The cloud's id; nothing where only a folder of it was found.
    pub id: Option<VolumeId>,
    /// The names that orchestrators have for it.
    pub names: BTreeSet<String>,
    /// Who has or had it, with the name that people know them by, which may be empty.
    pub consumers: BTreeMap<ConsumerId, String>,
    pub disk: Option<DeviceNumber>,
    /// Numbers of disks that are gone, and that its mounts stood on.
    pub dead: BTreeSet<DeviceNumber>,
    /// Links that name it.
    pub links: BTreeSet<PathBuf>,
}

/// What a person typed for a volume.
#[derive(Debug, Clone, Copy)]
pub struct TypedName<'a> {
    pub text: &'a str,
    /// The number of the block device that they name now, if they name one.
    pub number: Option<DeviceNumber>,
}

/// Why a volume fits what was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    Id,
    Name,
    /// It is the name or the id of one that has it.
    Consumer(String),
    /// It is its proven disk.
    Disk(DeviceNumber),
    /// Its dead mounts stood on a disk of that number.
    DeadMounts(DeviceNumber),
    /// The link names it.
    Link,
    /// Its id or its name begins so.
    Prefix,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meant<'a> {
    One(&'a KnownVolume, Fit),
    /// Any of these: it must be asked which.
    Several(Vec<(&'a KnownVolume, Fit)>),
    /// None; these names are near.
    None(Vec<String>),
}

impl KnownVolume {
    /// One of which the id is known.
    pub fn of(id: VolumeId) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// How the volume is called: by its id, else by a name.
    pub fn label(&self) -> &str {
        let name = || self.names.first().map(String::as_str);
        self.id.as_ref().map(VolumeId::as_str).or_else(name).unwrap_or("?")
    }

    /// Whether what was typed is one of its names, whole.
    fn exact(&self, typed: TypedName<'_>) -> Option<Fit> {
        let TypedName { text, number } = typed;
        if self.id.as_ref().is_some_and(|id| id.as_str() == text) {
            return Some(Fit::Id);
        }
        if self.names.contains(text) {
            return Some(Fit::Name);
        }
        let is_called = |(uid, name): &(&ConsumerId, &String)| {
            uid.as_str() == text || *name == text || bare(name) == Some(text)
        };
        if let Some((uid, name)) = self.consumers.iter().find(is_called) {
            let name = if name.is_empty() { uid.as_str() } else { name };
            return Some(Fit::Consumer(name.to_owned()));
        }
        if let Some(number) = number {
            if self.disk == Some(number) {
                return Some(Fit::Disk(number));
            }
            if self.dead.contains(&number) {
                return Some(Fit::DeadMounts(number));
            }
        }
        let is_link = |link: &PathBuf| link == Path::new(text) || link.ends_with(text);
        (!text.is_empty() && self.links.iter().any(is_link)).then_some(Fit::Link)
    }

    fn begins_with(&self, text: &str) -> bool {
        self.called().any(|name| name.starts_with(text))
    }

    /// Its id and its names.
    fn called(&self) -> impl Iterator<Item = &str> {
        let id = self.id.iter().map(VolumeId::as_str);
        id.chain(self.names.iter().map(String::as_str))
    }
}

/// `web-0` of `shop/web-0`.
fn bare(name: &str) -> Option<&str> {
    name.split_once('/').map(|(_, name)| name)
}

/// The volume that is meant. Whole names come before beginnings of them; names of different kinds that
/// lead to different volumes are several answers.
pub fn meant<'a>(typed: TypedName<'_>, known: &'a [KnownVolume]) -> Meant<'a> {
    let exact = known.iter().filter_map(|one| Some((one, one.exact(typed)?)));
    let mut fits: Vec<_> = exact.collect();
    if fits.is_empty() && typed.text.len() >= SHORTEST_PREFIX {
        let begun = known.iter().filter(|one| one.begins_with(typed.text));
        fits.extend(begun.map(|one| (one, Fit::Prefix)));
    }
    if fits.len() > 1 {
        return Meant::Several(fits);
    }
    match fits.pop() {
        Some((one, fit)) => Meant::One(one, fit),
        None => Meant::None(nearest(typed.text, known)),
    }
}

/// Known names that differ little from what was typed, the nearest first.
fn nearest(text: &str, known: &[KnownVolume]) -> Vec<String> {
    let consumers = known.iter().flat_map(|one| one.consumers.values().filter(|n| !n.is_empty()));
    let all = known.iter().flat_map(KnownVolume::called).chain(consumers.map(String::as_str));
    let most = (text.chars().count() / 4).clamp(1, 4);
    let is_part = |name: &str| text.len() >= SHORTEST_PREFIX && name.contains(text);
    let far = |name: &str| {
        let whole = levenshtein(text, name);
        bare(name).map_or(whole, |bare| whole.min(levenshtein(text, bare)))
    };
    let near = all.filter_map(|name| {
        let far = if is_part(name) { 0 } else { far(name) };
        (far <= most).then(|| (far, name.to_owned()))
    });
    let sorted: BTreeSet<_> = near.collect();
    sorted.into_iter().map(|(_, name)| name).take(MOST_PROPOSED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
    const B: &str = "6f1c9999-4a5b-4c6d-8e7f-90a1b2c3d4e5";

    fn volume(id: &str, name: &str, pod: (&str, &str), disk: &str) -> KnownVolume {
        KnownVolume {
            names: BTreeSet::from([name.to_owned()]),
            consumers: BTreeMap::from([(ConsumerId::parse(pod.0).unwrap(), pod.1.to_owned())]),
            disk: disk.parse().ok(),
            links: BTreeSet::from([PathBuf::from(format!("/dev/disk/by-id/virtio-{}", &id[..20]))]),
            ..KnownVolume::of(VolumeId::parse(id).unwrap())
        }
    }

    fn known() -> Vec<KnownVolume> {
        vec![
            volume(A, "pvc-orders", ("uid-1", "shop/orders-0"), "7:3"),
            volume(B, "pvc-web", ("uid-2", "shop/web-0"), "7:4"),
        ]
    }

    fn typed(text: &str) -> TypedName<'_> {
        TypedName { text, number: text.parse().ok() }
    }

    #[test]
    fn each_kind_of_name_means_its_volume() {
        let known = known();
        let link = format!("/dev/disk/by-id/virtio-{}", &A[..20]);
        let file = format!("virtio-{}", &A[..20]);
        for text in [
            A,
            "6f1c2",
            "pvc-orders",
            "pvc-o",
            "shop/orders-0",
            "orders-0",
            "uid-1",
            "7:3",
            &link,
            &file,
        ] {
            let Meant::One(one, _) = meant(typed(text), &known) else { panic!("{text}") };
            assert_eq!(one.label(), A, "{text}");
        }
    }

    #[test]
    fn what_fits_several_is_never_chosen() {
        let mut known = known();
        let several = |known: &[KnownVolume], text: &str| -> Vec<String> {
            match meant(typed(text), known) {
                Meant::Several(all) => all.iter().map(|(one, _)| one.label().to_owned()).collect(),
                other => panic!("{text}: {other:?}"),
            }
        };
        let both = vec![A.to_owned(), B.to_owned()];
        assert_eq!(several(&known, "6f1c"), both);
        assert_eq!(several(&known, "pvc-"), both);
        // The disk that is here now, and the one that died under mounts, are two answers.
        known[1].dead.insert("7:3".parse().unwrap());
        assert_eq!(several(&known, "7:3"), both);
        // So are an id and another volume's name.
        known[1].names.insert(A.to_owned());
        assert_eq!(several(&known, A), both);
        known[1].consumers.insert(ConsumerId::parse("uid-1").unwrap(), String::new());
        assert_eq!(several(&known, "uid-1"), both);
    }

    #[test]
    fn a_whole_name_comes_before_a_beginning() {
        let known =
            [volume(A, "orders", ("uid-1", ""), ""), volume(B, "orders-2", ("uid-2", ""), "")];
        assert!(
            matches!(meant(typed("orders"), &known), Meant::One(one, Fit::Name) if one.label() == A)
        );
        assert!(matches!(meant(typed("orde"), &known), Meant::Several(_)));
        assert!(
            matches!(meant(typed("ord"), &known), Meant::None(_)),
            "three signs are no beginning"
        );
    }

    #[test]
    fn what_nothing_fits_has_its_neighbours_proposed() {
        let known = known();
        let near = |text: &str| match meant(typed(text), &known) {
            Meant::None(near) => near,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(near("pvc-oders"), ["pvc-orders"]);
        assert_eq!(near("ordres-0"), ["shop/orders-0"]);
        assert_eq!(near("rders"), ["pvc-orders", "shop/orders-0"]);
        assert_eq!(near("something-else"), Vec::<String>::new());
        assert_eq!(near(""), Vec::<String>::new());
        assert_eq!(near("7:9"), Vec::<String>::new());
    }
}
