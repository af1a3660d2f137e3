//! Find the volume's disk on this node, or explain why it is uncertain.
//!
//! virtio shows 20 characters of a serial, and a volume id has 36, so two volumes can look alike. Then the whole id
//! decides if another bus shows it, otherwise the cloud's list of attached volumes together with their sizes. Whatever
//! is still uncertain is refused, with all candidates.
//!
//! A serial proves nothing unless the disk's transport is one of the cloud's: on others the target chooses the serial.
//! Such a disk can neither replace a volume's disk nor block it.

use crate::context::Context;
use crate::lookup::attachment_view;
use crate::model::advice::{Remedy, advise};
use crate::model::disk::device::{Device, Identity, Link, Proof};
use crate::model::disk::transport::Admission;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::label;
use crate::model::record::Staged;
use crate::model::text::shown;
use crate::operation::{Volume, moment};
use crate::ports::clock::Deadline;
use crate::ports::cloud::CloudVolume;
use crate::ports::host::{Held, Proven};
use std::path::Path;
use std::time::Duration;

/// How long to wait before asking the cloud why the disk is missing, and how often to ask again.
const ASK_AFTER: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_secs(20);

/// The longest pause between two searches, in case an event is lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the volume's own disk may still appear before a disk of another transport is reported as the reason.
const STRANGER_AFTER: Duration = Duration::from_secs(10);

/// The volume's disk, if it is attached.
pub fn find_disk(cx: &Context<'_>, id: &VolumeId) -> Result<Option<Device>> {
    Ok(find_among(cx, id)?.0)
}

/// The volume's disk, and the disks with its serial on transports that are not allowed.
fn find_among(cx: &Context<'_>, id: &VolumeId) -> Result<(Option<Device>, Vec<Device>)> {
    let wanted = cx.cloud.identity(id);
    let (mut found, mut strangers) = claimants(cx, &wanted)?;
    // Prefer the disk that is mounted to one that may have come back.
    for is_its in [is_mounted_from, may_have_come_back] {
        if found.is_empty() && !strangers.is_empty() {
            (found, strangers) = strangers.into_iter().partition(|disk| is_its(cx, id, disk));
        }
    }
    if found.iter().any(|disk| disk.proof == Proof::Whole) {
        found.retain(|disk| disk.proof == Proof::Whole);
    }
    let disk = match found.as_slice() {
        [] => None,
        [one] if one.proof == Proof::Whole => found.pop(),
        [_] if cx.store.records.others_with_serial(id).is_empty() => found.pop(),
        [_, ..] if found[0].proof == Proof::Whole => {
            return Err(wanted.shown_by_several(&found));
        }
        _ => Some(tell_apart(cx, id, &wanted, &found)?),
    };
    Ok((disk, strangers))
}

/// The volume's disk; an error if it is missing.
pub fn disk(cx: &Context<'_>, id: &VolumeId) -> Result<Device> {
    find_disk(cx, id)?.ok_or_else(|| missing(cx, id))
}

/// The error that explains a missing disk.
pub(crate) fn missing(cx: &Context<'_>, id: &VolumeId) -> Error {
    let wanted = cx.cloud.identity(id);
    let strangers = match refuse_strangers(cx, id).and_then(|()| claimants(cx, &wanted)) {
        Ok((_, strangers)) => strangers,
        Err(error) => return error,
    };
    let cause = format!("no disk of this machine shows {wanted}{}", ignored(&strangers));
    Error::new(Kind::Missing, cause).hint("is the volume attached to this machine?")
}

/// The disks with this identity: those with an allowed transport, and the others.
fn claimants(cx: &Context<'_>, wanted: &Identity) -> Result<(Vec<Device>, Vec<Device>)> {
    Ok(cx.host.devices.claimants(wanted)?.into_iter().partition(Device::is_allowed))
}

/// Whether this node mounted the volume from this very disk and may still have it mounted. A mount of an earlier
/// version or configuration must still be guarded and unmounted.
fn is_mounted_from(cx: &Context<'_>, id: &VolumeId, disk: &Device) -> bool {
    let (record, now) = (cx.store.records.load(id), moment(cx, disk));
    let staged = record.mounts.staged.as_ref().map(|staged| &staged.disk);
    record.disk.former.iter().chain(staged).any(|one| one.is_of(&now))
        || cx.host.mounts.table().is_ok_and(|table| {
            table.of(disk.number).any(|one| label::owner_of(one).as_ref() == Some(id))
        })
}

/// Whether the disk has the transport from which the volume is mounted, so that it can heal those mounts.
fn may_have_come_back(cx: &Context<'_>, id: &VolumeId, disk: &Device) -> bool {
    let staged = cx.store.records.load(id).mounts.staged;
    let is_now = |staged: &Staged| staged.disk.boot == moment(cx, disk).boot;
    let transport = staged.filter(is_now).and_then(|staged| staged.transport);
    transport.is_some() && transport.as_ref() == disk.transport()
}

/// Refuses if a disk with the volume's serial is on a transport that the configuration could allow.
fn refuse_strangers(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let (_, others) = claimants(cx, &cx.cloud.identity(id))?;
    let one = others.iter().find(|disk| disk.admission() == Admission::NotConfigured);
    one.map_or(Ok(()), |disk| Err(stranger(id, disk)))
}

/// Holds the disk open, so that the kernel cannot give its number to another one.
pub fn hold(cx: &Context<'_>, id: &VolumeId, disk: &Device) -> Result<Held> {
    cx.host.devices.hold(&cx.cloud.identity(id), disk)
}

/// Proves that this is still the volume's disk, before or after a change.
pub fn prove<'a>(cx: &Context<'_>, id: &'a VolumeId, disk: &'a Device) -> Result<Proven<'a>> {
    cx.host.devices.prove(id, &cx.cloud.identity(id), disk)
}

/// Logs links that name the volume but lead elsewhere. The driver follows no link, but other programs may.
pub(crate) fn report_links(cx: &Context<'_>, id: &VolumeId) {
    for Link { link, fault, .. } in
        cx.host.devices.links(&cx.cloud.identity(id), &cx.cloud.link(id))
    {
        if let Some(what) = fault {
            tracing::warn!(volume = %id, link = %link.display(), what, "a link lies");
        }
    }
}

/// Logs a remembered device that is not the volume's disk. It may be from before a reboot and is never followed.
pub(crate) fn report_hint(cx: &Context<'_>, id: &VolumeId, hint: &str, disk: &Device) {
    let path = Path::new(hint);
    if !hint.is_empty() && path != cx.cloud.link(id) && path != disk.kernel_node() {
        let hint = shown(hint);
        tracing::warn!(volume = %id, hint, disk = %disk.kernel_name, "the remembered device is another one");
    }
}

/// Decides between disks or volumes that share a truncated serial.
fn tell_apart(
    cx: &Context<'_>,
    id: &VolumeId,
    wanted: &Identity,
    disks: &[Device],
) -> Result<Device> {
    let rivals = cx.store.records.others_with_serial(id);
    let refuse = |why: &str| {
        let names = disks.iter().map(|d| format!("{} ({})", d.kernel_name, d.number));
        let others = rivals.iter().map(|rival| format!("volume {rival}"));
        let all: Vec<_> = names.chain(others).collect();
        Err(Error::refused(format!(
            "{wanted} is all that the disk shows of volume {id}, and it is not the only one: {}; {why}",
            all.join(", ")
        ))
        .hint(advise("detach the volume that is not needed here in the cloud (openstack server remove volume), or from another machine: {}", [Remedy::DetachById(None, None).of("<volumeID>")])))
    };
    let attached = match attached_with_serial_of(cx, id) {
        Ok(attached) => attached,
        Err(error) => return refuse(&format!("the cloud cannot tell them apart: {error}")),
    };
    let Some(ours) = attached.iter().find(|volume| volume.id == *id) else {
        return refuse("by the cloud's word the volume is not attached here");
    };
    if attached.len() != disks.len() {
        return refuse(&format!(
            "{} of them are attached by the cloud's word, {} disks are there",
            attached.len(),
            disks.len()
        ));
    }
    // One volume and one disk are unambiguous; several need distinct sizes.
    let of_our_size = disks.iter().filter(|disk| disk.size == ours.size).collect::<Vec<_>>();
    let same_size = attached.iter().filter(|volume| volume.size == ours.size).count();
    match (disks, of_our_size.as_slice()) {
        ([only], _) => Ok(only.clone()),
        (_, [one]) if same_size == 1 => Ok((*one).clone()),
        _ => refuse("their sizes do not tell them apart"),
    }
}

fn attached_with_serial_of(cx: &Context<'_>, id: &VolumeId) -> Result<Vec<CloudVolume>> {
    let server = attachment_view::existing_server(cx, cx.this_node)?;
    let mut attached = cx.cloud.attached_to(&server, cx.deadline)?;
    attached.retain(|volume| volume.id.virtio_serial() == id.virtio_serial());
    Ok(attached)
}

/// Waits for the disk. Subscribes to events before it searches, so that none is missed.
pub(crate) fn wait_for(cx: &Context<'_>, volume: &Volume, deadline: Deadline) -> Result<Device> {
    wait_while(cx, volume, deadline, &mut Err)
}

/// Waits for the disk. If the volume is attached nowhere, `may_come` receives that error and returns when to ask the
/// cloud again, or gives up.
pub(crate) fn wait_while(
    cx: &Context<'_>,
    volume: &Volume,
    deadline: Deadline,
    may_come: &mut dyn FnMut(Error) -> Result<Duration>,
) -> Result<Device> {
    let mut events = None;
    let mut ask = Deadline::after(ASK_AFTER);
    let stranger = Deadline::after(STRANGER_AFTER);
    loop {
        let (disk, strangers) = find_among(cx, &volume.id)?;
        if let Some(disk) = disk.filter(|disk| disk.size > 0) {
            if !strangers.is_empty() {
                tracing::warn!(volume = %volume.id, "other disks show the volume's serial{}", ignored(&strangers));
            }
            tracing::info!(volume = %volume.id, disk = %disk.kernel_name, number = %disk.number, "its disk");
            return Ok(disk);
        }
        if events.is_none() {
            // Usually the disk is already here, and no subscription is needed. Every later search comes after it.
            events = Some(cx.host.devices.watch());
            continue;
        }
        if ask.over() {
            let soon = say_if_not_attached(cx, volume)?.map(&mut *may_come).transpose()?;
            ask = Deadline::after(soon.unwrap_or(ASK_EVERY));
        }
        let left = deadline.remaining();
        if left.is_zero() || stranger.over() {
            refuse_strangers(cx, &volume.id)?;
        }
        if left.is_zero() {
            return Err(never_came(cx, volume, deadline));
        }
        let nap = left.min(LOOK_EVERY).min(ask.remaining().max(Duration::from_millis(1)));
        if let Some(events) = &mut events {
            events.wait(nap);
        }
    }
}

fn never_came(cx: &Context<'_>, volume: &Volume, deadline: Deadline) -> Error {
    let wanted = cx.cloud.identity(&volume.id);
    report_links(cx, &volume.id);
    let (_, strangers) = claimants(cx, &wanted).unwrap_or_default();
    let known = cx.host.devices.udev_says(&wanted);
    let udev = match known.as_slice() {
        [] => String::new(),
        known => format!(" (udev names {})", known.join(", ")),
    };
    let seconds = deadline.total().as_secs();
    Error::new(
        Kind::Timeout,
        format!("no disk with {wanted} appeared within {seconds} s{udev}{}", ignored(&strangers)),
    )
    .hint("is the volume attached to this machine, and does the kernel's log show the disk?")
}

/// Gives up if the cloud has not attached the volume to this node. An unreachable cloud is no reason to stop waiting; a
/// volume that is attached nowhere may be attached any moment, so the caller decides.
fn say_if_not_attached(cx: &Context<'_>, volume: &Volume) -> Result<Option<Error>> {
    let asked = cx
        .cloud
        .server(cx.this_node, cx.deadline)
        .and_then(|server| Ok((server, cx.cloud.volume(&volume.id, cx.deadline)?)));
    match asked {
        Ok((Some(server), Some(state))) if state.attachment_to(&server).is_none() => {
            let not_attached = |at: String| {
                let cause = format!("volume {} is not attached to {server}: {at}", volume.id);
                Error::new(Kind::Missing, cause)
                    .hint("it must be attached again before its disk can appear")
            };
            match state.attachments.first() {
                Some(other) => {
                    let (other, node) = (&other.server, cx.this_node);
                    Err(not_attached(format!("it is attached to {other}")).hint(format!(
                        "it must be attached again before its disk can appear; if {other} is this machine, set \
                         node.name (which is {node} now) to the name that Kubernetes has for it"
                    )))
                }
                None => Ok(Some(not_attached("it is attached nowhere".to_owned()))),
            }
        }
        Ok((_, None)) => Err(Error::new(
            Kind::Missing,
            format!("volume {} does not exist in the cloud", volume.id),
        )),
        Ok(_) => Ok(None),
        Err(error) => {
            tracing::warn!(volume = %volume.id, %error, "the disk is not there, and the cloud cannot say why");
            Ok(None)
        }
    }
}

/// Whether nothing uses the disk. An error if that is uncertain.
pub(crate) fn is_free(cx: &Context<'_>, disk: &Device) -> Result<bool> {
    cx.host.devices.exclusive_open(disk)?.is_free()
}

/// The ignored disks, for a message.
fn ignored(strangers: &[Device]) -> String {
    let names: Vec<_> = strangers.iter().map(connected).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(
            " (ignored, because such a disk chooses its serial itself: {})",
            names.join(", ")
        ),
    }
}

/// A disk with its number and transport, for a message.
fn connected(disk: &Device) -> String {
    let transport = disk.transport().map(|transport| format!(", {transport}")).unwrap_or_default();
    format!("{} ({}{transport})", disk.kernel_name, disk.number)
}

/// Refuses to use the disk for anything new if it was found only because the volume is already mounted from it.
pub(crate) fn must_be_allowed(id: &VolumeId, disk: &Device) -> Result<()> {
    if disk.is_allowed() { Ok(()) } else { Err(stranger(id, disk)) }
}

/// The refusal of a disk whose transport is not allowed.
fn stranger(id: &VolumeId, disk: &Device) -> Error {
    let Some(transport) = disk.transport() else {
        return Error::new(Kind::Bug, format!("{} has no transport", disk.kernel_name));
    };
    let name = &disk.kernel_name;
    if disk.admission() == Admission::Never {
        return Error::refused(format!(
            "refusing to use {name} for volume {id}: it is connected by {transport}, where the hypervisor \
             does not choose the serial"
        ))
        .hint("no configuration allows that; detach the disk, and attach the volume through the cloud");
    }
    Error::refused(format!(
        "refusing to use {name} for volume {id}: it shows the volume's serial, but its transport {transport} \
         is not in disks.transports"
    ))
    .hint(format!(
        "if your cloud attaches disks this way, add \"{transport}\" to disks.transports in the configuration; \
         otherwise find out who connected {name}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, MadeUp, moment};
    use crate::model::disk::transport::Transport;

    const ONE: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000001";
    const TWO: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000002";
    const CUT: &str = "6f1c2d3e-4a5b-4c6d-8";

    /// What is asked on a machine whose disks are these.
    fn at<T>(cloud: &FakeCloud, devices: &FakeDevices, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        MadeUp::with(cloud, devices).drive(|cx| ask(cx))
    }

    /// Asks for volume ONE on a machine that has also seen `seen`.
    fn ask(cloud: &FakeCloud, devices: &FakeDevices, seen: &[&str]) -> Result<Option<String>> {
        let found = at(cloud, devices, |cx| {
            for id in seen {
                let id = VolumeId::parse(id).unwrap();
                cx.store.records.update(&id, |record| record.disk.was_mounted = true).unwrap();
            }
            find_disk(cx, &VolumeId::parse(ONE).unwrap())
        })?;
        Ok(found.map(|disk| disk.kernel_name))
    }

    #[track_caller]
    fn refused(result: Result<Option<String>>, words: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.kind, Kind::Refused, "{error}");
        for word in words {
            assert!(error.cause.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn one_disk_of_a_volume_without_rivals_needs_no_cloud() {
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        let disks = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 5, "other");
        assert_eq!(ask(&down, &disks, &[]).unwrap().as_deref(), Some("vdb"));
        assert_eq!(ask(&down, &FakeDevices::default(), &[TWO]).unwrap(), None);
    }

    #[test]
    fn the_whole_id_decides_where_a_bus_shows_it() {
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        let disks =
            FakeDevices::default().with("sda", 5, TWO).with("sdb", 5, ONE).with("vdb", 5, CUT);
        assert_eq!(ask(&down, &disks, &[TWO]).unwrap().as_deref(), Some("sdb"));
    }

    #[test]
    fn a_disk_of_another_transport_neither_wins_nor_blocks() {
        let down = || FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        for (admission, serial) in [
            (Admission::Never, ONE),
            (Admission::Never, CUT),
            (Admission::NotConfigured, ONE),
            (Admission::NotConfigured, CUT),
        ] {
            let disks = FakeDevices::default().with("sda", 5, serial).on("a-network", admission);
            assert_eq!(ask(&down(), &disks, &[]).unwrap(), None, "{admission:?} {serial}");
            let disks = disks.with("vdb", 5, CUT);
            let found = ask(&down(), &disks, &[]).unwrap();
            assert_eq!(found.as_deref(), Some("vdb"), "{admission:?} {serial}");
        }
    }

    #[test]
    fn a_disk_of_another_transport_is_named_where_a_disk_is_missing() {
        let missing = |admission| {
            let disks = FakeDevices::default().with("sda", 5, ONE).on("a-network", admission);
            let id = VolumeId::parse(ONE).unwrap();
            at(&FakeCloud::default(), &disks, |cx| disk(cx, &id)).unwrap_err()
        };
        let error = missing(Admission::NotConfigured);
        assert_eq!(error.kind, Kind::Refused);
        let hint = error.hint.unwrap().to_string();
        assert!(hint.contains("\"a-network\"") && hint.contains("disks.transports"), "{hint}");
        let error = missing(Admission::Never);
        assert_eq!(error.kind, Kind::Missing);
        assert!(error.cause.contains("ignored") && error.cause.contains("sda"), "{error}");
    }

    #[test]
    fn a_disk_that_the_volume_is_mounted_from_is_found_whatever_its_transport() {
        let network =
            || FakeDevices::default().with("sda", 5, ONE).on("a-network", Admission::Never);
        let id = VolumeId::parse(ONE).unwrap();
        let found = |devices: &FakeDevices, mounted: &Device, transport: Option<&str>| {
            at(&FakeCloud::default(), devices, |cx| {
                let mut staged = Staged::new("/s".as_ref(), &moment(mounted), "", "");
                staged.transport = transport.map(Transport::named);
                cx.store.records.update(&id, |record| record.is_staged(staged)).unwrap();
                find_disk(cx, &id).unwrap()
            })
        };
        let (same, again) = (network(), network());
        let disk = &same.disks[0].0;
        let seen = found(&same, disk, None).unwrap();
        assert!(must_be_allowed(&id, &seen).unwrap_err().cause.contains("a-network"));
        // It came back, but only on the recorded transport.
        let former =
            &Device { sequence: Some(99), number: "8:99".parse().unwrap(), ..disk.clone() };
        assert_eq!(found(&again, former, None), None);
        assert_eq!(found(&again, former, Some("another")), None);
        assert!(found(&again, former, Some("a-network")).is_some());
        // The volume's own disk still comes first.
        let both = network().with("vdb", 5, CUT);
        assert_eq!(found(&both, disk, Some("a-network")).unwrap().kernel_name, "vdb");
    }

    #[test]
    fn two_disks_that_show_the_whole_id_are_refused() {
        let disks = FakeDevices::default().with("sda", 5, ONE).with("sdb", 5, ONE);
        refused(ask(&FakeCloud::default(), &disks, &[]), &["sda", "sdb"]);
    }

    #[test]
    fn two_disks_of_one_cut_serial_are_told_apart_by_size_alone() {
        let disks = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 7, CUT);
        let both = FakeCloud::default().with(ONE, 7, &["here"]).with(TWO, 5, &["here"]);
        assert_eq!(ask(&both, &disks, &[]).unwrap().as_deref(), Some("vdc"));
        let same = FakeCloud::default().with(ONE, 5, &["here"]).with(TWO, 5, &["here"]);
        refused(ask(&same, &disks, &[]), &["vdb", "vdc"]);
        let neither = FakeCloud::default().with(ONE, 6, &["here"]).with(TWO, 5, &["here"]);
        refused(ask(&neither, &disks, &[]), &["vdb", "vdc"]);
    }

    #[test]
    fn two_disks_and_a_cloud_that_knows_of_one_are_refused() {
        let disks = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 7, CUT);
        let one = FakeCloud::default().with(ONE, 7, &["here"]).with(TWO, 5, &["there"]);
        refused(ask(&one, &disks, &[]), &["vdb", "vdc", "1 of them"]);
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        refused(ask(&down, &disks, &[]), &["vdb", "vdc", "the cloud is down"]);
    }

    #[test]
    fn the_disk_of_a_rival_is_not_taken_for_ours() {
        let disks = FakeDevices::default().with("vdb", 5, CUT);
        let rival = FakeCloud::default().with(ONE, 5, &["there"]).with(TWO, 5, &["here"]);
        refused(ask(&rival, &disks, &[TWO]), &["vdb", TWO, "not attached here"]);
        let ours = FakeCloud::default().with(ONE, 5, &["here"]).with(TWO, 5, &["there"]);
        assert_eq!(ask(&ours, &disks, &[TWO]).unwrap().as_deref(), Some("vdb"));
    }

    #[test]
    fn what_tells_disks_apart_is_a_size_that_one_of_them_and_one_volume_has() {
        let three = "6f1c2d3e-4a5b-4c6d-8e7f-000000000003";
        let disks =
            FakeDevices::default().with("vdb", 5, CUT).with("vdc", 7, CUT).with("vdd", 5, CUT);
        let with = |sizes: [u64; 3]| {
            let cloud = FakeCloud::default().with(ONE, sizes[0], &["here"]);
            cloud.with(TWO, sizes[1], &["here"]).with(three, sizes[2], &["here"])
        };
        assert_eq!(ask(&with([7, 5, 5]), &disks, &[]).unwrap().as_deref(), Some("vdc"));
        refused(ask(&with([7, 7, 5]), &disks, &[]), &["vdb", "vdc", "vdd", "sizes"]);
        // The only disk here; it grew in the cloud.
        let one = FakeDevices::default().with("vdb", 5, CUT);
        let grown = FakeCloud::default().with(ONE, 7, &["here"]).with(TWO, 5, &["there"]);
        assert_eq!(ask(&grown, &one, &[TWO]).unwrap().as_deref(), Some("vdb"));
    }

    #[test]
    fn a_disk_is_proven_again_by_what_it_shows_then_and_told_free_or_in_use() {
        let (cloud, id) = (FakeCloud::default(), VolumeId::parse(ONE).unwrap());
        let devices = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 5, "other");
        let both: Vec<_> = devices.disks.iter().map(|(disk, _)| disk.clone()).collect();
        let proven = |disk: &Device| at(&cloud, &devices, |cx| prove(cx, &id, disk).map(drop));
        assert_eq!(proven(&both[0]), Ok(()));
        assert_eq!(proven(&both[1]).unwrap_err().kind, Kind::Refused);
        let is_free = |devices| at(&cloud, devices, |cx| is_free(cx, &both[0]));
        assert_eq!(is_free(&devices), Ok(true));
        let used = FakeDevices { used: 1.into(), ..FakeDevices::default() };
        assert_eq!(is_free(&used), Ok(false));
    }

    #[test]
    fn a_disk_without_a_size_has_not_come_yet() {
        let volume = Volume::new(VolumeId::parse(ONE).unwrap(), None);
        let came = |size| {
            let devices = FakeDevices::default().with("vdb", size, CUT);
            let soon = Deadline::after(Duration::from_millis(20));
            at(&FakeCloud::default(), &devices, |cx| wait_for(cx, &volume, soon))
                .map_err(|error| error.kind)
        };
        assert!(came(1).is_ok());
        assert_eq!(came(0).unwrap_err(), Kind::Timeout);
    }

    #[test]
    fn a_wait_that_the_cloud_will_not_end_is_ended_and_no_other() {
        let volume = Volume::new(VolumeId::parse(ONE).unwrap(), None);
        let say = |cloud: &FakeCloud| {
            let told = at(cloud, &FakeDevices::default(), |cx| say_if_not_attached(cx, &volume));
            told.map(|may_come| may_come.map(|error| error.cause)).map_err(|error| error.cause)
        };
        assert_eq!(say(&FakeCloud::default().with(ONE, 1, &["here"])), Ok(None));
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        assert_eq!(say(&down), Ok(None));
        for (cloud, words) in [
            (FakeCloud::default().with(ONE, 1, &["there"]), "it is attached to there"),
            (FakeCloud::default(), "does not exist in the cloud"),
        ] {
            let why = say(&cloud).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        // Attached nowhere: the caller decides.
        let nowhere = say(&FakeCloud::default().with(ONE, 1, &[])).unwrap().unwrap();
        assert!(nowhere.contains("it is attached nowhere"), "{nowhere}");
    }
}
