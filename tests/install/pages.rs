//! What people type with: the command itself, completions and manual pages.

use crate::machine::{Machine, must, text_of};
use std::fs;

#[test]
fn the_command_and_its_pages_come_and_go_with_the_driver() {
    let machine = Machine::new();
    let share = machine.at("usr/local/share");
    let fish = share.join("fish/vendor_completions.d/disk.fish");
    fs::create_dir_all(fish.parent().unwrap()).unwrap();
    fs::write(&fish, "another's").unwrap();
    let output = machine.put("install", &machine.make_driver("a")).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("left as it is"), "{output:?}");
    let command = machine.at("usr/local/sbin/disk");
    assert_eq!(fs::read_link(&command).unwrap(), machine.driver());
    let bash = share.join("bash-completion/completions/disk");
    let zsh = share.join("zsh/site-functions/_disk");
    let manual = share.join("man/man8");
    for round in ["install", "upgrade"] {
        assert!(fs::read_to_string(&bash).unwrap().contains("explain"), "{round}");
        assert!(fs::read_to_string(&zsh).unwrap().starts_with("#compdef disk"), "{round}");
        for page in ["disk.8", "disk-status.8", "disk-history.8"] {
            assert!(fs::read_to_string(manual.join(page)).unwrap().contains(".TH"), "{page}");
        }
        must(&mut machine.put("upgrade", &machine.make_driver("b")));
    }
    fs::write(manual.join("disk-free.8"), "another program's").unwrap();
    must(&mut machine.command(["uninstall"]));
    assert!(fs::symlink_metadata(&command).is_err() && !bash.exists() && !zsh.exists());
    let left: Vec<_> =
        fs::read_dir(&manual).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["disk-free.8"]);
    assert_eq!(fs::read_to_string(&fish).unwrap(), "another's");
}

#[test]
fn a_command_of_somebody_elses_stays() {
    let machine = Machine::new();
    let command = machine.at("usr/local/sbin/disk");
    fs::create_dir_all(command.parent().unwrap()).unwrap();
    fs::write(&command, "another's").unwrap();
    must(&mut machine.put("install", &machine.make_driver("a")));
    must(&mut machine.command(["uninstall"]));
    assert_eq!(fs::read_to_string(&command).unwrap(), "another's");
}
