//! A cloud, or something before it, that answers what it should not.

use crate::scene::{Scene, access};
use crate::server::{Fault, Server, World};
use crate::support::Answer;
use crate::support::server_disks::{device, losetup};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

const OTHER: &str = "0badc0de-0000-4000-8000-000000000001";

/// A volume as Cinder shows it.
fn volume(id: &str) -> Value {
    json!({"volume": {"id": id, "status": "available", "size": 1, "name": "x", "attachments": [],
        "metadata": {}, "multiattach": false}})
}

/// The call fails with these words, and the cloud was asked to change nothing.
#[track_caller]
fn is_not_believed(scene: &Scene, call: [String; 3], words: &str) {
    scene.cloud.reset_counters();
    let message = scene.node.fails(call);
    assert!(message.contains(words), "{words:?} is not in: {message}");
    let changes: Vec<_> =
        scene.cloud.log().into_iter().filter(|entry| entry.method != "GET").collect();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn an_answer_about_another_volume_is_not_believed() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-b"));
    scene.cloud.fault(Fault::on("GET", "/volumes/*").always().reply(200, volume(OTHER)));
    let words = format!("asked for volume {}, and answered with volume {OTHER}", scene.volume);
    is_not_believed(&scene, scene.attach("node-b"), &words);
    is_not_believed(&scene, scene.is_attached("node-a"), &words);
}

#[test]
fn another_volumes_attachment_is_not_believed() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-b"));
    let mut body = volume(&scene.volume);
    body["volume"]["status"] = json!("in-use");
    let server = scene.server("node-b");
    body["volume"]["attachments"] =
        json!([{"id": OTHER, "volume_id": OTHER, "attachment_id": OTHER, "server_id": server}]);
    scene.cloud.fault(Fault::on("GET", "/volumes/*").always().reply(200, body));
    let words = format!("answered with volume {OTHER}");
    is_not_believed(&scene, scene.attach("node-b"), &words);
    is_not_believed(&scene, scene.is_attached("node-a"), &words);
}

#[test]
fn a_mapping_of_another_volume_or_server_is_not_believed() {
    let scene = Scene::new();
    let server = scene.server("node-b");
    scene.node.must(scene.attach("node-b"));
    for (about, one, at) in
        [("volume", OTHER, server.as_str()), ("server", scene.volume.as_str(), OTHER)]
    {
        let mapping =
            json!({"volumeAttachment": {"volumeId": one, "serverId": at, "device": "/dev/vdb"}});
        let path = "/servers/*/os-volume_attachments/*";
        scene.cloud.fault(Fault::on("GET", path).always().reply(200, mapping));
        // A machine that did not ask a moment ago.
        let machine = scene.neighbour(about);
        let message = machine.fails(scene.attach("node-b"));
        assert!(message.contains(&format!("answered with {about} {OTHER}")), "{message}");
        scene.cloud.world().faults.clear();
        machine.must(scene.attach("node-b"));
    }
}

#[test]
fn an_answer_about_another_server_is_not_believed() {
    let scene = Scene::new();
    scene.configure(&format!("node.server_id = {:?}", scene.server("node-a")));
    scene.node.must(scene.is_attached("node-b"));
    let body = json!({"server": {"id": OTHER, "name": "node-a", "status": "ACTIVE"}});
    scene.cloud.fault(Fault::on("GET", "/servers/*").always().reply(200, body));
    is_not_believed(&scene, scene.attach("node-a"), &format!("answered with server {OTHER}"));
}

#[test]
fn answers_of_wrong_types_are_failures_that_change_nothing() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-b"));
    let mut bodies = vec![json!([]), json!({}), json!({"volume": null}), json!({"volume": [1]})];
    for (key, value) in [
        ("id", json!(7)),
        ("size", json!(-1)),
        ("size", json!("1")),
        ("status", json!(null)),
        ("attachments", json!({"0": 1})),
        ("attachments", json!([{"server_id": ["x"]}])),
        ("metadata", json!([["a", "b"]])),
        ("multiattach", json!("yes")),
    ] {
        let mut body = volume(&scene.volume);
        body["volume"][key] = value;
        bodies.push(body);
    }
    for body in bodies {
        scene.cloud.fault(Fault::on("GET", "/volumes/*").always().reply(200, body));
        is_not_believed(&scene, scene.attach("node-b"), "Cinder answered what cannot be read");
        scene.cloud.world().faults.clear();
    }
}

#[test]
fn neither_password_nor_token_follows_to_another_host() {
    for status in [302, 307] {
        let scene = Scene::new();
        let other = Server::start(World::demo());
        for (path, name) in [("/auth/tokens", "Keystone"), ("/volumes/**", "Cinder")] {
            let fault = Fault::on("*", path).always().reply(status, json!({}));
            scene.cloud.fault(
                fault.header("Location", &format!("{}/identity/v3/auth/tokens", other.url())),
            );
            let message = scene.node.fails(scene.attach("node-b"));
            let words = format!("{name} answered {status}");
            assert!(message.contains(&words), "{message}");
            scene.cloud.world().faults.clear();
        }
        assert_eq!(other.counters().total, 0, "{status}: it was followed");
    }
}

/// A cloud behind TLS whose catalog has its services without.
fn downgraded() -> (Scene, Server) {
    let plain = Server::start(World::demo());
    let mut world = World::demo();
    let region = world.settings.regions[0].clone();
    world.settings.addresses.insert(region, plain.url());
    let scene = Scene::served(world, Server::start_tls);
    (scene, plain)
}

fn trusting(scene: &Scene, more: &str) {
    let path = scene.node.base().join("ca.pem");
    fs::write(&path, scene.cloud.ca_pem()).unwrap();
    let path = path.display();
    scene.configure(&format!("openstack.ca_file = \"{path}\"\ndeadline.attach = 3\n{more}"));
}

#[test]
fn a_token_goes_nowhere_in_the_clear_after_a_login_with_tls() {
    let (scene, plain) = downgraded();
    trusting(&scene, "");
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("without TLS") && message.contains("http_services"), "{message}");
    assert_eq!(plain.counters().total, 0, "the token went there");
    // Only because the configuration says so.
    trusting(&scene, "openstack.http_services = true");
    scene.node.fails(scene.attach("node-b"));
    assert!(plain.counters().total > 0, "it was not asked");
}

/// What is in another region is found; that a server is nowhere is not said before each was asked.
#[test]
fn a_region_that_cannot_be_asked_is_told() {
    for (address, words) in [("ftp://south", "no http address"), ("", "no http address")] {
        let mut world = World::demo();
        world.settings.regions = vec!["North".to_owned(), "South".to_owned()];
        world.settings.addresses.insert("South".to_owned(), address.to_owned());
        let scene = Scene::of(world);
        let message = scene.node.fails(scene.attach("node-z"));
        assert!(message.contains("region South") && message.contains(words), "{message}");
        scene.node.must(scene.attach("node-b"));
    }
}

/// An image with a letter of the cloud for a server, as small as it can be.
fn letter_for(server: &str) -> Vec<u8> {
    const BLOCK: usize = 2048;
    let record = |name: &[u8], block: u8, length: u16| {
        let mut record = vec![0; 33];
        record[2] = block;
        record[10..12].copy_from_slice(&length.to_le_bytes());
        record[32] = u8::try_from(name.len()).unwrap();
        record.extend_from_slice(name);
        record.resize(record.len().next_multiple_of(2), 0);
        record[0] = u8::try_from(record.len()).unwrap();
        record
    };
    let letter = json!({"uuid": server}).to_string().into_bytes();
    let length = u16::try_from(letter.len()).unwrap();
    let mut image = vec![0; 512 * BLOCK];
    let mut put = |block: usize, at: usize, bytes: &[u8]| {
        image[block * BLOCK + at..block * BLOCK + at + bytes.len()].copy_from_slice(bytes);
    };
    put(16, 0, b"\x01CD001");
    put(16, 156, &record(&[0], 18, 2048));
    put(18, 0, &record(b"OPENSTACK", 19, 2048));
    put(19, 0, &record(b"LATEST", 20, 2048));
    put(20, 0, &record(b"META_DATA.JSON;1", 21, length));
    put(21, 0, &letter);
    image
}

/// A disk that is labelled as the machine's config drive, as sysfs shows it.
struct Labelled {
    name: String,
    folder: PathBuf,
    labels: PathBuf,
}

impl Labelled {
    fn new(scene: &Scene, server: &str) -> Self {
        let image = scene.node.base().join("labelled");
        let file = fs::File::create(&image).unwrap();
        file.write_all_at(&letter_for(server), 0).unwrap();
        let name = losetup(&[Path::new("--find"), Path::new("--show"), &image]).unwrap();
        let labels = scene.node.base().join("by-label");
        fs::create_dir(&labels).unwrap();
        symlink(device(&name), labels.join("config-2")).unwrap();
        let sysfs = scene.node.base().join("sys");
        let (folder, numbers) = (sysfs.join("block/vdx"), sysfs.join("dev/block"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&numbers).unwrap();
        let number = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        symlink("../../block/vdx", numbers.join(number.trim())).unwrap();
        for (file, text) in [("dev", number.as_str()), ("size", "2048"), ("ro", "1")] {
            fs::write(folder.join(file), text).unwrap();
        }
        Self { name, folder, labels }
    }

    /// Which server this machine takes itself for.
    fn server_of(&self, scene: &Scene) -> Vec<String> {
        let mut command = scene.node.command(scene.attach("worker-7"));
        command.env("INCLOUD_DISK_BY_LABEL", &self.labels);
        command.env("INCLOUD_DISK_SYSFS", scene.node.base().join("sys"));
        let answer = Answer::of(command);
        let servers = scene.attached_to();
        assert_eq!(answer.json["status"] == "Success", !servers.is_empty(), "{}", answer.text);
        servers
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        let _ = losetup(&[Path::new("--detach"), &device(&self.name)]);
    }
}

/// A tenant can give a volume any label and any content.
#[test]
fn a_volume_that_is_labelled_as_a_config_drive_is_not_read() {
    needs!(mounts, seams);
    let scene = Scene::of_immediate();
    let text = fs::read_to_string(scene.node.config_path()).unwrap();
    let text = text.replace("node.name = \"node-a\"", "node.name = \"worker-7\"");
    assert!(text.starts_with(&access(&scene.cloud)), "the cloud is the test's");
    fs::write(scene.node.config_path(), text).unwrap();
    let disk = Labelled::new(&scene, &scene.server("node-b"));
    for (file, what) in [
        ("serial", "6f1c2d3e-4a5b-4c6d-8"),
        ("device/wwid", "t10.QEMU    QEMU HARDDISK   6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5"),
        ("wwid", "uuid.6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5"),
        ("partition", "1"),
        ("dm/name", "a-volume-of-lvm"),
        ("loop/backing_file", "/x"),
    ] {
        let path = disk.folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, what).unwrap();
        assert_eq!(disk.server_of(&scene), [""; 0], "{file}");
        assert!(scene.node.log().contains("config drive is not read"), "{file}");
        let gone =
            if path.parent() == Some(&disk.folder) { path } else { path.parent().unwrap().into() };
        if gone.is_dir() {
            fs::remove_dir_all(gone).unwrap();
        } else {
            fs::remove_file(gone).unwrap();
        }
    }
    // The cloud's own shows no id of a volume.
    fs::write(disk.folder.join("serial"), "QM00001").unwrap();
    assert_eq!(disk.server_of(&scene), [scene.server("node-b")]);
}
