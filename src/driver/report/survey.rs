//! A read-only look at every volume of this node: what the cloud, sysfs, the mount tables and the records say, each
//! under its own name. Whatever is not visible is reported, and never taken for absent.

use crate::context::Context;
use crate::guard::{let_go_volumes, orphans};
use crate::lookup::lost_disks::{lost_numbers, users_of_lost};
use crate::lookup::other_kubelets::is_anothers;
use crate::lookup::{disk_numbers, find_disk};
use crate::model::disk::device::{DeviceNumber, Shown};
use crate::model::error::{Error, Kind};
use crate::model::ids::{ServerId, VolumeId, VolumeName};
use crate::model::mount::attribution::Attribution;
use crate::model::mount::disk_users::{Answer, FileUse, NAMESPACE_GOES_WITHIN, NamespaceUse};
use crate::model::mount::label;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::orphan::Orphan;
use crate::model::mount::ownership::{Machine, NamespaceRole};
use crate::model::mount::staleness::{Here, MountVerdict, Presence, judge};
use crate::model::record::VolumeRecord;
use crate::model::report::facts::{
    CloudFact, Disk, DiskFact, LeftAttached, MapFact, MountFact, RecordFact, Role, VolumeFacts,
    WaitFact,
};
use crate::model::report::health::{self, Health, Verdict};
use crate::model::sorting::sort_by_key;
use crate::model::text::several;
use crate::names;
use crate::ownership::mount_place;
use crate::ports::cloud::CloudVolume;
use crate::report::facts::{name_of, own_role, pods_of, refusals_of, view};
use crate::report::holders::file_user;
use crate::shield;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The result.
#[derive(Debug)]
pub struct Survey {
    /// The volumes of this node.
    pub volumes: Vec<VolumeFacts>,
    /// Volumes with our label that the cloud certainly does not know and that are only mounted in other namespaces
    /// here: another cloud's, or deleted while in use.
    pub not_ours: Vec<String>,
    /// Why the cloud did not answer.
    pub cloud_silence: Option<String>,
    /// What is not visible from here, in words.
    pub unseen: Vec<String>,
}

/// The owner of a mount: a volume, or a name if the volume is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Volume(VolumeId),
    Name(VolumeName),
}

/// The cloud's answers during one survey. After one failure it is not asked again, because people wait.
struct CloudLook {
    server: Option<ServerId>,
    attached: Vec<CloudVolume>,
    silence: Option<String>,
}

/// Looks at every volume of this node, and at the given ones wherever they are.
pub fn survey(cx: &Context<'_>, also: &[VolumeId]) -> Survey {
    let _moment = cx.host.devices.one_moment();
    survey_with(cx, look_at_cloud(cx), also)
}

/// Counts volumes by health, for the metrics. Does not ask the cloud, which costs nothing for volumes that are not
/// here.
pub fn count_healths(cx: &Context<'_>) {
    let mut counts: BTreeMap<String, u64> =
        Health::ALL.iter().map(|health| (health.to_string(), 0)).collect();
    for facts in without_cloud(cx, &[]) {
        *counts.entry(health::judge(&facts).health.to_string()).or_default() += 1;
    }
    cx.counts.saw(counts);
}

/// The volume's health on this node, without asking the cloud.
pub fn verdict_here(cx: &Context<'_>, id: &VolumeId) -> Option<Verdict> {
    let volumes = without_cloud(cx, std::slice::from_ref(id));
    volumes.iter().find(|facts| facts.id.as_ref() == Some(id)).map(health::judge)
}

/// The volume's health after a heal. Mounts of a lost disk count only if they are still there at a second look.
pub fn verdict_after_heal(cx: &Context<'_>, id: &VolumeId) -> Option<Verdict> {
    let now = verdict_here(cx, id)?;
    let is_off = matches!(now.health, Health::Stale | Health::Dead | Health::HalfHealed);
    if is_off && cx.deadline.pause(NAMESPACE_GOES_WITHIN) {
        return verdict_here(cx, id);
    }
    Some(now)
}

fn without_cloud(cx: &Context<'_>, also: &[VolumeId]) -> Vec<VolumeFacts> {
    let _moment = cx.host.devices.one_moment();
    let silence = Some("not asked".to_owned());
    let cloud = CloudLook { server: None, attached: Vec::new(), silence };
    let mut volumes = survey_with(cx, cloud, also).volumes;
    for facts in &mut volumes {
        facts.cloud = CloudFact::Missing;
    }
    volumes
}

fn survey_with(cx: &Context<'_>, mut cloud: CloudLook, also: &[VolumeId]) -> Survey {
    let mut unseen = Vec::new();
    let mut note = |error: Error, what: &str| unseen.push(format!("{what}: {}", error.cause));
    // Without the configuration the place of the records is unknown.
    let hidden = cx.cloud.identity_doubt().filter(|doubt| doubt.is_denied());
    let mut unseen_records = hidden.map(|doubt| doubt.cause.clone());
    let records = cx.store.records.list().unwrap_or_else(|error| {
        unseen_records = Some(error.cause.clone());
        note(error, "what this machine remembers");
        Vec::new()
    });
    let table = cx.host.mounts.table().unwrap_or_else(|error| {
        note(error, "this machine's mounts");
        MountTable::default()
    });
    let mut ids: BTreeSet<VolumeId> = also.iter().cloned().collect();
    ids.extend(records.iter().map(|record| record.volume.clone()));
    ids.extend(cloud.attached.iter().map(|volume| volume.id.clone()));
    ids.extend(shield::volumes(cx));
    let mut disks: BTreeMap<VolumeId, DiskFact> =
        ids.iter().map(|id| (id.clone(), disk_fact(cx, id))).collect();

    let boot = cx.host.environment.boot_id();
    let mut numbers: BTreeSet<DeviceNumber> = disks.values().filter_map(number_of).collect();
    let former = records.iter().flat_map(|record| &record.disk.former);
    numbers.extend(former.filter(|former| former.boot == boot).map(|former| former.number));
    // Another kubelet's mounts belong to its driver, unless the disk is one of ours.
    let table = table.without(|mount| {
        !numbers.contains(&mount.disk) && is_anothers(cx.faces, cx.host.kubelets, mount)
    });
    let labels = table.mounts().iter().filter_map(label::owner_of);
    let named = table.mounts().iter().filter_map(|mount| volume_in(cx, mount));
    for id in labels.chain(named) {
        let disk = disks.entry(id).or_insert_with_key(|id| disk_fact(cx, id));
        numbers.extend(number_of(disk));
    }
    let is_ours = |mount: &&Mount| {
        numbers.contains(&mount.disk)
            || label::owner_of(mount).is_some()
            || cx.faces.name_of_own(&mount.target).is_some()
    };
    let own: BTreeSet<_> = table.mounts().iter().filter(is_ours).map(|m| m.number).collect();
    numbers.extend(own);
    let asked: Vec<_> = numbers.iter().copied().collect();
    let (elsewhere, unseen_mounts) =
        match cx.host.census.namespaces_of(&asked, Path::new(label::FOLDER)) {
            Answer::Told(uses) => {
                if let Some(first) = uses.untold.first() {
                    let count = several(uses.untold.len(), "place", "places");
                    unseen.push(format!("{count} where mounts may be, the first {first}"));
                }
                (uses.namespaces, None)
            }
            Answer::CannotTell(why) => (Vec::new(), Some(why)),
        };
    for id in elsewhere.iter().flat_map(|one| &one.mounts).filter_map(label::owner_of) {
        disks.entry(id.clone()).or_insert_with(|| disk_fact(cx, &id));
    }
    let mounted = table.mounts().iter().filter(|mount| numbers.contains(&mount.number));
    let mounted = mounted.chain(elsewhere.iter().flat_map(|one| &one.mounts));
    let mounted: BTreeSet<_> = mounted.map(|mount| mount.number).collect();
    let owners = owners(cx, mounted, &disks, &records, &table, &elsewhere);
    let mut all_owners: BTreeSet<Owner> = disks.keys().cloned().map(Owner::Volume).collect();
    all_owners.extend(owners.values().cloned());
    let around =
        Surroundings { records: &records, table: &table, elsewhere: &elsewhere, owners: &owners };
    let (mut volumes, mut not_ours) = (Vec::new(), Vec::new());
    let lost = users_of_lost_disks(cx, &records, &boot);
    for owner in all_owners {
        let mut facts = facts(cx, &owner, &around, &disks, &mut cloud, unseen_mounts.as_deref());
        lost.tell(&mut facts);
        facts.record.unseen.clone_from(&unseen_records);
        let is_asked = matches!(&owner, Owner::Volume(id) if also.contains(id));
        if !is_asked && is_not_ours(&facts) {
            let id = facts.id.as_ref().map(ToString::to_string).unwrap_or_default();
            not_ours.push(format!("{id}: {}", who_has(&facts)));
        } else if is_asked || is_here(&facts) {
            volumes.push(facts);
        }
    }
    if let Some(why) = unseen_mounts {
        unseen.push(format!("mounts in containers, and who uses what: {why}"));
    }
    Survey { volumes, not_ours, cloud_silence: cloud.silence, unseen }
}

/// Processes with open files on lost disks of volumes. Only searched if there is such a disk, since it reads every open
/// file of the node.
fn users_of_lost_disks(cx: &Context<'_>, records: &[VolumeRecord], boot: &str) -> LostDisks {
    let numbers = lost_numbers(records, boot, cx.host.devices);
    let asked: Vec<_> = numbers.keys().copied().collect();
    if asked.is_empty() {
        return LostDisks { numbers, users: Answer::Told(Vec::new()) };
    }
    let users = match users_of_lost(cx.host.census, cx.host.devices, &asked) {
        Answer::Told(uses) => Answer::Told(uses.files),
        Answer::CannotTell(why) => Answer::CannotTell(why),
    };
    LostDisks { numbers, users }
}

fn look_at_cloud(cx: &Context<'_>) -> CloudLook {
    let mut look = CloudLook { server: None, attached: Vec::new(), silence: None };
    let asked = cx.cloud.server(cx.this_node, cx.deadline).and_then(|server| {
        let attached = match &server {
            Some(server) => cx.cloud.attached_to(server, cx.deadline)?,
            None => Vec::new(),
        };
        Ok((server, attached))
    });
    match asked {
        Ok((server, attached)) => (look.server, look.attached) = (server, attached),
        Err(error) => look.silence = Some(error.to_string()),
    }
    look
}

fn cloud_fact(cx: &Context<'_>, id: &VolumeId, look: &mut CloudLook) -> CloudFact {
    if let Some(why) = &look.silence {
        return CloudFact::Unknown { why: why.clone() };
    }
    let listed = look.attached.iter().find(|volume| volume.id == *id).cloned();
    let asked = match listed {
        Some(volume) => Ok(Some(volume)),
        None => cx.cloud.volume(id, cx.deadline),
    };
    match asked {
        Ok(Some(volume)) => CloudFact::Known(view(volume, look.server.as_ref())),
        Ok(None) => CloudFact::Missing,
        Err(error) => {
            let is_silent =
                matches!(error.kind, Kind::Unreachable | Kind::Timeout | Kind::Config | Kind::Busy);
            if is_silent {
                look.silence = Some(error.to_string());
            }
            CloudFact::Unknown { why: error.to_string() }
        }
    }
}

fn disk_fact(cx: &Context<'_>, id: &VolumeId) -> DiskFact {
    if let Some(doubt) = cx.cloud.identity_doubt() {
        let check = doubt.hint.as_ref().filter(|_| !doubt.is_denied()).map(ToString::to_string);
        return DiskFact::Unseen { why: doubt.cause.clone(), check };
    }
    match find_disk::find_disk(cx, id) {
        Ok(Some(disk)) => {
            let shown = cx.host.devices.shown_by(disk.number).ok().flatten().unwrap_or_default();
            DiskFact::Proven(Disk::new(disk, shown.iter().map(Shown::to_string).collect()))
        }
        Ok(None) => DiskFact::None,
        Err(error) if error.kind == Kind::Refused => {
            let shown = cx.host.devices.search(&cx.cloud.identity(id)).unwrap_or_default();
            let among = shown.iter().map(|disk| disk.number).collect();
            DiskFact::Ambiguous { why: error.cause, among }
        }
        Err(error) => DiskFact::Unseen { why: error.cause, check: None },
    }
}

/// Whether the configuration is for another cloud, rather than the volume missing: its mounted disk names it, but the
/// configured cloud does not know it.
fn of_another_cloud(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &DiskFact,
    cloud: &CloudFact,
    numbers: &BTreeSet<DeviceNumber>,
) -> Option<DiskFact> {
    if *disk != DiskFact::None || matches!(cloud, CloudFact::Known(_)) {
        return None;
    }
    let wanted = cx.cloud.identity(id);
    let mark = |number: &DeviceNumber| {
        let shown = cx.host.devices.shown_by(*number).ok().flatten()?;
        // The volume's own identity: its disk appeared in between.
        if wanted.proven_by(&shown).is_some() {
            return None;
        }
        Some((*number, shown.into_iter().find(|shown| shown.names(id))?))
    };
    let (number, shown) = numbers.iter().find_map(mark)?;
    Some(DiskFact::Unseen {
        why: format!(
            "the mounted disk {number} shows {shown}, which names this volume, but the \
             configured cloud does not know the volume and marks its disks differently"
        ),
        check: Some(
            "check cloud.kind in the configuration (and local.dir, for the local cloud); the \
             disk and its pods need nothing"
                .to_owned(),
        ),
    })
}

/// The volume of a mount in one of the orchestrator's directories, if known.
fn volume_in(cx: &Context<'_>, mount: &Mount) -> Option<VolumeId> {
    let name = cx.faces.name_of_own(&mount.target)?;
    names::volume_mounted_at(cx, &name, &mount.target).ok().flatten()
}

/// The owner of each mounted number: the volume whose disk has it now, otherwise by the rule that all calls use,
/// otherwise by the orchestrator's directory.
fn owners(
    cx: &Context<'_>,
    mounted: BTreeSet<DeviceNumber>,
    disks: &BTreeMap<VolumeId, DiskFact>,
    records: &[VolumeRecord],
    table: &MountTable,
    elsewhere: &[NamespaceUse],
) -> BTreeMap<DeviceNumber, Owner> {
    let boot = cx.host.environment.boot_id();
    let on_disk = disks.iter().filter_map(|(id, disk)| Some((number_of(disk)?, id)));
    let on_disk: BTreeMap<_, _> = on_disk.collect();
    let by_folder = |mount: &Mount| {
        let name = cx.faces.name_of_own(&mount.target)?;
        Some(volume_in(cx, mount).map_or(Owner::Name(name), Owner::Volume))
    };
    let owner_of = |number: DeviceNumber| {
        // btrfs has an anonymous device number.
        let disk = table.of(number).next().map_or(number, |mount| mount.disk);
        if let Some(id) = on_disk.get(&disk) {
            return Some(Owner::Volume((*id).clone()));
        }
        let had_it = |record: &&VolumeRecord| {
            record.disk.former_numbers(&boot).any(|former| former == number)
                && !is_given_away(cx, &record.volume, number)
        };
        let candidates: Vec<_> = records.iter().filter(had_it).collect();
        let possible = match disk_numbers::attribution(cx, number, table, elsewhere, &candidates) {
            Attribution::Proven(id) => return Some(Owner::Volume(id)),
            Attribution::Possible(id) => Some(Owner::Volume(id)),
            Attribution::Unattributed => None,
        };
        table.of(number).find_map(by_folder).or(possible)
    };
    mounted.into_iter().filter_map(|number| Some((number, owner_of(number)?))).collect()
}

/// Whether another disk has got the number since.
fn is_given_away(cx: &Context<'_>, id: &VolumeId, number: DeviceNumber) -> bool {
    let presence = || cx.host.devices.presence(number, &cx.cloud.identity(id));
    cx.cloud.identity_doubt().is_none() && matches!(presence(), Ok(Presence::Other(_)))
}

fn facts(
    cx: &Context<'_>,
    owner: &Owner,
    around: &Surroundings<'_>,
    disks: &BTreeMap<VolumeId, DiskFact>,
    cloud: &mut CloudLook,
    unseen_mounts: Option<&str>,
) -> VolumeFacts {
    let id = match owner {
        Owner::Volume(id) => Some(id),
        Owner::Name(_) => None,
    };
    let record = around.records.iter().find(|record| Some(&record.volume) == id);
    let disk = id.and_then(|id| disks.get(id).cloned()).unwrap_or_else(|| DiskFact::Unseen {
        why: "which volume it is could not be told".to_owned(),
        check: None,
    });
    let cloud = match id {
        Some(id) => cloud_fact(cx, id, cloud),
        None => CloudFact::Unknown { why: "its id is not known".to_owned() },
    };
    let numbers = around.disks_of(owner);
    let is_here = around.table.mounts().iter().any(|mount| numbers.contains(&mount.disk));
    // A cloud that does not know the volume may be right about mounts in other namespaces.
    let disk = id
        .filter(|_| is_here || cloud != CloudFact::Missing)
        .and_then(|id| of_another_cloud(cx, id, &disk, &cloud, &numbers))
        .unwrap_or(disk);
    let mounts = mount_facts(cx, owner, around, record, &disk);
    let name = match owner {
        Owner::Name(name) => Some(name.clone()),
        Owner::Volume(id) => name_of(cx.faces, record, &cloud, &mounts).filter(|name| !name.is(id)),
    };
    let wanted = id.filter(|_| cx.cloud.identity_doubt().is_none());
    let wanted = wanted.map(|id| cx.cloud.identity(id));
    let links = match (id, &wanted) {
        (Some(id), Some(wanted)) => cx.host.devices.links(wanted, &cx.cloud.link(id)),
        _ => Vec::new(),
    };
    VolumeFacts {
        id: id.cloned(),
        name,
        identity: wanted.map(|wanted| wanted.to_string()).unwrap_or_default(),
        disk,
        map: id
            .and_then(|id| shield::seen(cx, id))
            .map(|map| MapFact::new(map, record.and_then(|record| wait_fact(cx, record)))),
        users_of_lost_disk: Vec::new(),
        unseen_users: None,
        pods: pods_of(record, &mounts),
        mounts,
        unseen_mounts: unseen_mounts.map(str::to_owned),
        refused: record.map(|record| refusals_of(cx, record)).unwrap_or_default(),
        let_go: record.map(|record| let_go_volumes::let_go_facts(cx, record)).unwrap_or_default(),
        left_attached: record.and_then(|record| left_attached(cx, record, &cloud)),
        cloud,
        record: id.map(|id| record_fact(cx, id, record)).unwrap_or_default(),
        links,
        lock: id.and_then(|id| cx.store.locks.holder(id)),
    }
}

fn left_attached(
    cx: &Context<'_>,
    record: &VolumeRecord,
    cloud: &CloudFact,
) -> Option<LeftAttached> {
    let is_here = match cloud {
        CloudFact::Known(view) => Some(view.is_here),
        CloudFact::Missing => Some(false),
        CloudFact::Unknown { .. } => None,
    };
    let doubt = match orphans::judge_record(cx, record, is_here) {
        Orphan::No => return None,
        Orphan::Yes => None,
        Orphan::Unknown(why) => Some(why),
    };
    let silent_for =
        cx.host.environment.uptime().since(record.mounts.unstaged_at.as_ref()?)?.as_secs();
    Some(LeftAttached { silent_for, doubt })
}

fn wait_fact(cx: &Context<'_>, record: &VolumeRecord) -> Option<WaitFact> {
    let wait = record.shield.map_wait.as_ref()?;
    let paused = cx.host.environment.uptime().since(&wait.since)?.as_secs();
    let patience_left = cx.policy.shield.patience.saturating_sub(paused);
    Some(WaitFact { paused, patience_left, not_switched: wait.not_switched.clone() })
}

fn mount_facts(
    cx: &Context<'_>,
    owner: &Owner,
    around: &Surroundings<'_>,
    record: Option<&VolumeRecord>,
    disk: &DiskFact,
) -> Vec<MountFact> {
    let is_ours = |mount: &&Mount| around.owners.get(&mount.number) == Some(owner);
    let id = match owner {
        Owner::Volume(id) => Some(id),
        Owner::Name(_) => None,
    };
    // Five hundred containers may mount the same disk; check it once.
    let mut known = BTreeMap::new();
    let mut verdict = |mount: &Mount| {
        let number = around.disk_under(mount);
        known.entry(number).or_insert_with(|| verdict_of(cx, id, number, disk)).clone()
    };
    // A foreign mount at the volume's directory counts as the volume's above.
    let is_the_volumes = |top: &Mount| {
        id.is_some() && label::owner_of(top).as_ref() == id
            || number_of(disk) == Some(around.disk_under(top))
    };
    let mut mounts = Vec::new();
    for mount in around.table.mounts().iter().filter(is_ours) {
        let (role, pod) = own_role(cx.faces, mount, record);
        // Another user cannot enter the directory, which hides nothing.
        let is_root = cx.host.environment.is_root();
        let hidden = is_root
            .then(|| mount_place::out_of_reach(cx, mount, around.table, is_the_volumes))
            .flatten();
        let (out_of_reach, way_out) = hidden.unzip();
        let fact = MountFact::new(mount, role, verdict(mount));
        mounts.push(MountFact {
            pod,
            face: record.and_then(|record| record.mounts.faces.get(&mount.target).cloned()),
            out_of_reach,
            way_out,
            ..fact
        });
    }
    for one in around.elsewhere {
        let pod = one.processes.iter().find_map(|process| process.owner.pod.clone());
        let numbers = numbers_in(one);
        let machine = Machine::new(cx.faces, around.table, record, &numbers);
        let is_given = machine.role(one) == NamespaceRole::Claim;
        let role = if is_given { Role::Container } else { Role::Stranger };
        for mount in one.mounts.iter().filter(is_ours) {
            mounts.push(MountFact {
                namespace: one.id.map(|id| id.0),
                pod: pod.clone(),
                processes: one.processes.iter().map(Into::into).collect(),
                ..MountFact::new(mount, role, verdict(mount))
            });
        }
    }
    sort_by_key(&mut mounts, |mount| mount.role);
    mounts
}

/// The state of a mount from this number, as the heal sees it; `None` if unknown.
fn verdict_of(
    cx: &Context<'_>,
    id: Option<&VolumeId>,
    number: DeviceNumber,
    disk: &DiskFact,
) -> Option<MountVerdict> {
    if let (Some(id), Some(here)) = (id, disk.here()) {
        // An anonymous number whose disk is unknown.
        let is_disks = number.major != 0;
        let presence = || cx.host.devices.presence(number, &cx.cloud.identity(id)).ok();
        return is_disks.then(presence)?.map(|presence| judge(number, &presence, here));
    }
    // The disk's identity is unknown, so only its loss can be recognised.
    let is_gone = cx.host.devices.is_gone(number).ok()?;
    is_gone.then(|| judge(number, &Presence::Absent, Here::Nothing))
}

fn record_fact(cx: &Context<'_>, id: &VolumeId, record: Option<&VolumeRecord>) -> RecordFact {
    let file = cx.store.records.file(id);
    let Some(record) = record else { return RecordFact { file, ..RecordFact::default() } };
    let staged = record.mounts.staged.as_ref();
    let uuid = staged.map(|staged| staged.uuid.clone()).filter(|uuid| !uuid.is_empty());
    RecordFact {
        is_there: true,
        unseen: None,
        file,
        staged: staged.map(|staged| staged.folder.clone()),
        uuid,
        staged_from: staged.map(|staged| staged.disk.number),
        former: record.disk.former.iter().map(|former| former.number).collect(),
        is_formatting: record.disk.formatting.is_some(),
        was_mounted: record.disk.was_mounted,
        notes_forbidden: record.mark.notes_forbidden.clone(),
        refusals: record.guard.refusals,
    }
}

/// Lost disks of volumes, and processes with open files on them.
struct LostDisks {
    numbers: BTreeMap<DeviceNumber, VolumeId>,
    users: Answer<Vec<FileUse>>,
}

impl LostDisks {
    fn tell(&self, facts: &mut VolumeFacts) {
        let is_its = |number: &DeviceNumber| self.numbers.get(number) == facts.id.as_ref();
        if facts.id.is_none() || !self.numbers.keys().any(is_its) {
            return;
        }
        match &self.users {
            Answer::Told(users) => {
                let its = users.iter().filter(|one| is_its(&one.number));
                facts.users_of_lost_disk = its.map(|one| file_user(facts, one, true)).collect();
            }
            Answer::CannotTell(why) => facts.unseen_users = Some(why.clone()),
        }
    }
}

/// What the facts of every volume are derived from.
struct Surroundings<'a> {
    records: &'a [VolumeRecord],
    table: &'a MountTable,
    elsewhere: &'a [NamespaceUse],
    owners: &'a BTreeMap<DeviceNumber, Owner>,
}

impl Surroundings<'_> {
    /// The disks of a volume's mounts in all namespaces.
    fn disks_of(&self, owner: &Owner) -> BTreeSet<DeviceNumber> {
        let elsewhere = self.elsewhere.iter().flat_map(|one| &one.mounts);
        let all = self.table.mounts().iter().chain(elsewhere);
        let its = all.filter(|mount| self.owners.get(&mount.number) == Some(owner));
        its.map(|mount| self.disk_under(mount)).collect()
    }

    /// The disk of a mount. For btrfs in another namespace, looked up by its anonymous number in this one.
    fn disk_under(&self, mount: &Mount) -> DeviceNumber {
        self.table.of(mount.number).next().map_or(mount.disk, |known| known.disk)
    }
}

fn number_of(disk: &DiskFact) -> Option<DeviceNumber> {
    disk.proven().map(|disk| disk.number)
}

fn numbers_in(one: &NamespaceUse) -> Vec<DeviceNumber> {
    one.mounts.iter().map(|mount| mount.number).collect()
}

fn is_not_ours(facts: &VolumeFacts) -> bool {
    facts.cloud == CloudFact::Missing
        && facts.disk == DiskFact::None
        && !facts.record.is_there
        && !facts.mounts.iter().any(MountFact::is_own)
}

fn who_has(facts: &VolumeFacts) -> String {
    let processes = facts.mounts.iter().filter_map(|mount| mount.processes.first());
    let names: BTreeSet<_> =
        processes.map(|one| format!("{} ({})", one.pid, one.command)).collect();
    if names.is_empty() {
        return "without a process".to_owned();
    }
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Whether anything of the volume is on this node. A record alone may be of a controller that attaches volumes to other
/// nodes.
fn is_here(facts: &VolumeFacts) -> bool {
    !matches!(facts.disk, DiskFact::None | DiskFact::Unseen { .. })
        || !facts.mounts.is_empty()
        || matches!(&facts.cloud, CloudFact::Known(view) if view.is_here)
        || facts.refused.iter().any(|refusal| refusal.is_current)
        || facts.record.staged.is_some()
        || facts.record.is_formatting
        || facts.lock.is_some()
        || facts.map.is_some()
}
