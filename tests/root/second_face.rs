//! A second face on the same core: it calls by ids, with folders and words of its own, and one consumer
//! has a volume at several of them.

use crate::checks::{layers_at, nothing_is_left};
use crate::support::Node;
use crate::support::pods::{Naming, Pod};
use crate::volume::{Volume, make_folder};
use incloud_disk::configuration::Config;
use incloud_disk::driver::attachment::attach;
use incloud_disk::driver::attachment::detach;
use incloud_disk::driver::attachment::detach::Force;
use incloud_disk::driver::mount::publish;
use incloud_disk::driver::mount::publish::Publication;
use incloud_disk::driver::mount::stage;
use incloud_disk::driver::mount::stage::StageOptions;
use incloud_disk::driver::mount::unmount::{self, Occupant};
use incloud_disk::driver::report::survey;
use incloud_disk::driver::{self, Context, Outcome};
use incloud_disk::flexvolume::FACE;
use incloud_disk::model::cloud::attachment_state::Sharing;
use incloud_disk::model::error::{Kind, Result};
use incloud_disk::model::face::{Face, Faces};
use incloud_disk::model::ids::{ConsumerId, VolumeId};
use incloud_disk::model::mount::layout::{Layout, PublishTarget, StageTarget, Target};
use incloud_disk::model::report::tear_down::TearDownWords;
use incloud_disk::ports::clock::Deadline;
use incloud_disk::wiring::{self, Setting};
use std::fs;
use std::time::Duration;

const SECOND: Face = Face {
    name: "second",
    layout: Layout {
        stages: "plugins/second/stages",
        consumers: "pods",
        published: "volumes/second~disk",
        shares_published: false,
        parts: "volume-subpaths",
        for_containers: ["etc-hosts", "containers"],
    },
    words: TearDownWords {
        unpublish: "NodeUnpublishVolume",
        unstage: "NodeUnstageVolume",
        detach: "ControllerUnpublishVolume",
    },
};

/// One call through the second face.
fn call<T>(node: &Node, work: impl FnOnce(&Context<'_>) -> Result<T>) -> Result<T> {
    let path = node.config_path();
    let text = fs::read_to_string(path).unwrap();
    let config = Config::parse(&text, "the test's").unwrap();
    let setting = Setting {
        config: &config,
        origin: Some(path),
        trouble: None,
        faces: Faces(&[FACE, SECOND]),
        face: &SECOND,
        operation: "second",
        region: None,
        deadline: Deadline::after(Duration::from_secs(30)),
        lock_patience: None,
    };
    wiring::with_context(&setting, work)
}

fn target(node: &Node, below: &str) -> Target {
    let target = Target { root: node.kubelet_root(), below: below.into() };
    make_folder(&target.path());
    target
}

#[test]
fn a_second_face_calls_by_ids_and_has_several_folders_for_a_consumer() {
    needs!(pods);
    let node = Node::new();
    let (volume, stranger) =
        (Volume::create(&node, "ext4", "64M"), Volume::create(&node, "ext4", "64M"));
    let pod = Pod::new(Naming::Cgroupfs);
    let id = VolumeId::parse(&volume.id).unwrap();
    let other = VolumeId::parse(&stranger.id).unwrap();
    let (by_id, by_other) = (Occupant::Exactly(&id), Occupant::Exactly(&other));
    let named = driver::Volume::new(id.clone(), None);
    let consumer = ConsumerId::parse(pod.uid()).unwrap();
    let stage = StageTarget(target(&node, "plugins/second/stages/v"));
    let published = |name: &str| PublishTarget {
        consumer: consumer.clone(),
        folder: target(&node, &format!("pods/{}/volumes/second~disk/{name}", pod.uid())),
    };
    let [one, two] = [published("one"), published("two")];
    let options = StageOptions::default();

    call(&node, |cx| attach::attach(cx, &named, cx.this_node, Sharing::Alone)).unwrap();
    call(&node, |cx| stage::stage(cx, &named, &stage, &options, "")).unwrap();
    for target in [&one, &two] {
        let publication = Publication {
            target,
            label: Some("shop/orders-0"),
            stage: &stage,
            stage_options: &options,
            read_only: false,
        };
        let publish = || call(&node, |cx| publish::publish(cx, &named, &publication));
        assert_eq!(publish().unwrap(), Outcome::Done);
        assert_eq!(publish().unwrap(), Outcome::Already);
    }
    let record = volume.record();
    assert_eq!(record["published"][pod.uid()].as_array().unwrap().len(), 2);
    assert_eq!(record["faces"].as_object().unwrap().len(), 3, "{record}");
    assert_eq!(record["faces"][one.folder.path().to_str().unwrap()], "second");
    let shown = node.verb(&["status", "--json"]).unwrap();
    assert_eq!(shown.matches(r#""face": "second""#).count(), 3, "{shown}");

    // Another volume's id takes nothing off.
    for error in [
        call(&node, |cx| unmount::unpublish(cx, by_other, &one)).unwrap_err(),
        call(&node, |cx| unmount::unstage(cx, by_other, &stage)).unwrap_err(),
    ] {
        assert_eq!(error.kind, Kind::Refused);
        assert!(error.cause.contains(&volume.id) && error.cause.contains(&stranger.id), "{error}");
    }
    assert_eq!(layers_at(&one.folder.path()), 1);

    // One folder goes; the other stays, and a container that has it is in the way of the stage.
    let container = pod.container_with(&two.folder.path());
    call(&node, |cx| unmount::unpublish(cx, by_id, &one)).unwrap();
    assert_eq!((layers_at(&one.folder.path()), layers_at(&two.folder.path())), (0, 1));
    let left = &volume.record()["published"][pod.uid()];
    assert_eq!(left, two.folder.path().to_str().unwrap(), "as older versions read it");
    call(&node, |cx| unmount::unpublish(cx, by_id, &two)).unwrap();
    let refused = call(&node, |cx| unmount::unstage(cx, by_id, &stage)).unwrap_err();
    assert_eq!(refused.kind, Kind::Guarded, "{refused}");
    assert_eq!(volume.record()["refused"]["unstage"]["face"], "second");
    let what = call(&node, |cx| {
        let survey = survey::survey(cx, &[]);
        let refused = survey.volumes.iter().flat_map(|one| &one.refused);
        Ok(refused.map(|one| one.what.clone()).collect::<Vec<_>>())
    });
    assert_eq!(what.unwrap(), ["NodeUnstageVolume"]);

    drop(container);
    call(&node, |cx| unmount::unstage(cx, by_id, &stage)).unwrap();
    assert!(volume.record()["faces"].is_null() && volume.record()["refused"].is_null());
    call(&node, |cx| detach::detach(cx, &id, None, Force::No)).unwrap();
    nothing_is_left(&node, &[&volume, &stranger]);
}
