//! The cloud's letter on a config drive, as the tool makes it that the cloud uses.

use crate::support::skip;
use incloud_disk::model::cloud::iso9660;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

#[test]
fn the_letter_is_read_from_an_image_of_the_real_tool() {
    let test = "the_letter_is_read_from_an_image_of_the_real_tool";
    let folder = tempfile::tempdir().unwrap();
    let letter = folder.path().join("tree/openstack/latest/meta_data.json");
    fs::create_dir_all(letter.parent().unwrap()).unwrap();
    fs::write(&letter, br#"{"uuid": "11111111-2222-4333-8444-555555555555"}"#).unwrap();
    for number in 0..200 {
        let other = folder.path().join(format!("tree/openstack/{number:04}-01-01"));
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("meta_data.json"), "{}").unwrap();
    }
    let image = folder.path().join("image");
    // As Nova calls it (nova/virt/configdrive.py).
    let made = Command::new("genisoimage")
        .args(["-quiet", "-ldots", "-allow-lowercase", "-allow-multidot", "-l", "-r", "-J"])
        .args(["-V", "config-2", "-o"])
        .args([&image, &folder.path().join("tree")])
        .output();
    match made {
        Ok(made) if made.status.success() => {}
        Ok(made) => panic!("{}", String::from_utf8_lossy(&made.stderr)),
        Err(_) => return skip(test, "needs genisoimage"),
    }
    let disk = fs::File::open(&image).unwrap();
    let read = |offset, length: usize| {
        let mut bytes = vec![0; length];
        disk.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    };
    let found = iso9660::read_file(read, "openstack/latest/meta_data.json");
    assert_eq!(found.as_deref(), Some(&fs::read(&letter).unwrap()[..]));
    assert_eq!(iso9660::read_file(read, "openstack/latest/user_data"), None);
}
