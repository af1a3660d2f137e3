use super::*;
use crate::MapShield;
use crate::driver::Store;
use crate::fakes::moment;
use crate::fakes::{FakeCloud, FakeDevices, MadeUp, records_in};
use crate::host::records::RecordFiles;
use crate::model::policy::ShieldPolicy;
use crate::model::record::{Staged, VolumeRecord};
use crate::model::shield::own_map::OwnMap;
use crate::ports::store::Records as _;
use crate::tests::fake_map::FakeMap;

const ID: &str = "v-1";

/// A machine with a volume's disk, and perhaps its map.
struct Scene {
    devices: FakeDevices,
    maps: FakeMap,
    heal_mode: HealMode,
    mode: ShieldMode,
    /// How long a call may take.
    limit: Duration,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(map: Option<OwnMap>, devices: FakeDevices) -> Self {
        Self {
            devices,
            maps: FakeMap::of(map),
            heal_mode: HealMode::Auto,
            mode: ShieldMode::On,
            limit: Duration::from_millis(100),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A map that is over its disk; both show the volume's serial no more, but the map does.
    fn covered(opened: u32) -> Self {
        let map = OwnMap { opened, ..OwnMap::of_a_test(true, true, true) };
        let path = map.table.unwrap().path;
        let mut devices = FakeDevices::default().with("dm-0", 1 << 30, ID).with("vdb", 1 << 30, "");
        devices.disks[1].0.number = path;
        Self::new(Some(map), devices)
    }

    fn records(&self) -> RecordFiles {
        records_in(&self.folder)
    }

    fn id() -> VolumeId {
        VolumeId::parse(ID).unwrap()
    }

    fn record(&self) -> VolumeRecord {
        self.records().load(&Self::id())
    }

    fn remembers(self, change: impl FnOnce(&mut VolumeRecord)) -> Self {
        self.records().update(&Self::id(), change).unwrap();
        self
    }

    fn disk(&self) -> Device {
        self.devices.disks[0].0.clone()
    }

    fn with<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let (cloud, records) = (FakeCloud::default(), self.records());
        let shield = ShieldPolicy { mode: self.mode, patience: 2 };
        let (heal, limit) = (self.heal_mode, self.limit);
        let machine = MadeUp::with(&cloud, &self.devices);
        let machine = MadeUp {
            shield_hooks: &MapShield { maps: &self.maps },
            heal,
            shield,
            limit,
            ..machine
        };
        machine.drive(|cx| work(&Context { store: Store { records: &records, ..cx.store }, ..*cx }))
    }

    /// What a new mount of this kind is made through.
    fn cover(
        &self,
        kind: FsType,
        (mode, untouched): (Option<ShieldMode>, bool),
    ) -> Result<Option<MapOverDisk>> {
        let found = FileSystem { kind, ..FileSystem::of_a_test("", 1 << 30) };
        let options = StageOptions { shield: mode, untouched, ..StageOptions::default() };
        self.with(|cx| cx.host.shield.before_mount(cx, &Self::id(), &self.disk(), &found, &options))
    }

    fn done(&self) -> Vec<&'static str> {
        self.maps.done.borrow().clone()
    }
}

fn first(number: u32) -> JournalMark {
    JournalMark::FirstTransaction(number)
}

fn staged(disk: &Device, journal: Option<JournalMark>) -> Staged {
    Staged { journal, ..Staged::new("/g".as_ref(), &moment(disk), "ext4", "") }
}

/// The made-up map has a disk whose journal cannot be read.
#[test]
fn a_map_that_no_disk_would_be_put_under_waits_for_none() {
    for (mark, was_open, done) in [
        (Some(first(7)), false, vec!["end"]),
        (Some(first(7)), true, vec![]),
        (None, false, vec!["end"]),
        (None, true, vec![]),
    ] {
        let devices = FakeDevices::default().with("dm-0", 5, ID);
        let scene = Scene::new(Some(OwnMap::of_a_test(true, true, true)), devices);
        let covered = MapOverDisk { map: scene.disk(), mark: mark.clone(), was_open };
        let told = scene.with(|cx| cx.host.shield.after_mount(cx, &Scene::id(), &covered));
        assert_eq!((told, scene.done()), (mark.filter(|_| was_open), done));
    }
}

#[test]
fn a_new_mount_goes_through_a_map_only_where_that_is_wished_and_its_end_can_be_told() {
    let scene = || {
        // The map that is made shows the serial from then on.
        let mut scene = Scene::new(None, FakeDevices::default().with("vdb", 1 << 30, ID));
        scene.maps.sights = Some(JournalSights::of_a_test(None, 105));
        scene
    };
    let on = (Some(ShieldMode::On), false);
    let is_none = |scene: &Scene, kind, wish| {
        assert!(scene.cover(kind, wish).unwrap().is_none());
        assert_eq!(scene.done(), Vec::<&str>::new());
    };
    is_none(&scene(), FsType::Ext4, (Some(ShieldMode::Off), false));
    is_none(&scene(), FsType::Ext4, (Some(ShieldMode::On), true));
    is_none(&Scene { mode: ShieldMode::Off, ..scene() }, FsType::Ext4, (None, false));
    for kind in [FsType::Ext3, FsType::Btrfs] {
        is_none(&scene(), kind, on);
    }
    is_none(&Scene { heal_mode: HealMode::Off, ..scene() }, FsType::Ext4, on);
    is_none(&scene().remembers(|record| record.mark.is_shareable = Some(true)), FsType::Ext4, on);
    let mut unread = scene();
    unread.maps.sights = None;
    is_none(&unread, FsType::Ext4, on);

    let one = scene();
    let error = one.cover(FsType::Ext4, (None, false)).unwrap_err();
    assert!(error.cause.contains("the map over vdb is not seen"), "{error}");
    assert_eq!(one.done(), ["cover"]);
}

/// Through a map that is there it is mounted, whatever is wished.
#[test]
fn what_a_map_that_is_there_is_remembered_by_is_told_by_a_journal_at_work() {
    let off = (Some(ShieldMode::Off), false);
    let covered = |scene: &Scene| scene.cover(FsType::Ext4, off).unwrap();
    let intended = |scene: &Scene| scene.record().shield.map_intent.map(|intent| intent.journal);

    // Mounted: as it was written down then.
    let mut scene = Scene::covered(0);
    scene.maps.sights = Some(JournalSights::of_a_test(Some(4), 105));
    let disk = scene.disk();
    let scene = scene.remembers(|record| record.is_staged(staged(&disk, Some(first(101)))));
    let told = covered(&scene).unwrap();
    assert_eq!((told.mark, told.was_open, intended(&scene)), (Some(first(101)), true, None));

    // udev has it open, and nothing has mounted it: it is written down anew.
    let mut scene = Scene::covered(1);
    scene.maps.sights = Some(JournalSights::of_a_test(None, 105));
    let told = covered(&scene).unwrap();
    assert_eq!((told.mark, told.was_open), (Some(first(106)), false));
    assert_eq!(intended(&scene), Some(first(106)));

    // What cannot be read is mounted if it is open; else what an earlier mount was to be remembered by says nothing.
    for opened in [0, 1, 2] {
        let scene = Scene::covered(opened);
        let intent = MapIntent { map: moment(&scene.disk()), journal: first(7) };
        let scene = scene.remembers(|record| record.shield.map_intent = Some(intent));
        let told = covered(&scene).unwrap();
        assert_eq!(told.was_open, opened > 0);
        assert_eq!(told.mark, Some(first(7)).filter(|_| opened > 0));
        assert_eq!(intended(&scene), Some(first(7)).filter(|_| opened > 0));
    }

    // Another map is none of the volume's.
    let mut scene = Scene::covered(1);
    scene.devices.disks[0].0.number.minor = 9;
    assert!(covered(&scene).is_none());
    assert_eq!(scene.done(), Vec::<&str>::new());
}

#[test]
fn a_mount_that_a_killed_call_made_is_compared_and_remembered() {
    let noted = |scene: &Scene, disk: &Device| {
        scene.with(|cx| cx.host.shield.mount_found(cx, &Scene::id(), disk));
        scene.record().mounts.staged.and_then(|staged| staged.journal)
    };
    let scene = |sights, journal| {
        let mut scene = Scene::covered(1);
        scene.maps.sights = sights;
        let disk = scene.disk();
        scene.remembers(|record| record.is_staged(staged(&disk, journal)))
    };
    let sights = Some(JournalSights::of_a_test(Some(4), 105));
    // Two looks agree where nothing is written down.
    let one = scene(sights.clone(), None);
    assert_eq!(noted(&one, &one.disk()), Some(first(101)));
    assert!(!one.record().shield.superblocks_through(&moment(&one.disk())).is_empty());
    // Of another mark it is another mount's.
    let one = scene(sights.clone(), None);
    let intent = MapIntent { map: moment(&one.disk()), journal: first(99) };
    let one = one.remembers(|record| record.shield.map_intent = Some(intent));
    assert_eq!(noted(&one, &one.disk()), None);
    assert_eq!(
        one.done(),
        Vec::<&str>::new(),
        "its shield stays, for what runs writes all the time"
    );
    // What is remembered stays, and a disk without a map, or another map's moment, is left alone.
    let one = scene(sights.clone(), Some(first(7)));
    assert_eq!(noted(&one, &one.disk()), Some(first(7)));
    let one = scene(sights.clone(), None);
    assert_eq!(noted(&one, &Device { kernel_name: "vdb".to_owned(), ..one.disk() }), None);
    assert_eq!(noted(&one, &Device { sequence: Some(99), ..one.disk() }), None);
    assert_eq!(noted(&scene(None, None), &one.disk()), None);
}
