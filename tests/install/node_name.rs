//! The name that Kubernetes has for a node is written into its configuration.

use crate::machine::{Machine, must};
use std::fs;

#[test]
fn the_name_that_kubelet_has_for_the_node_is_written_down_once() {
    let machine = Machine::new();
    let driver = machine.make_driver("new");
    let own = "[cloud]\nkind = \"local\"\n[node] # this machine\nserver_id = \"s\"\n";
    fs::create_dir_all(machine.config().parent().unwrap()).unwrap();
    fs::write(machine.config(), own).unwrap();
    machine.installed(&driver);
    assert_eq!(
        fs::read_to_string(machine.config()).unwrap(),
        own,
        "kubelet goes by the host's name"
    );
    machine.runs(7, "kubelet", &["kubelet", "--hostname-override", "master2"]);
    for word in ["upgrade", "install"] {
        must(&mut machine.put(word, &driver));
        let text = fs::read_to_string(machine.config()).unwrap();
        assert_eq!(text, own.replace("machine\n", "machine\nname = \"master2\"\n"), "{word}");
        let before = machine.config().with_file_name("config.toml.before");
        assert_eq!(fs::read_to_string(before).unwrap(), own);
    }
    // The same configuration is brought again, whether kubelet runs or not.
    let brought = machine.at("brought.toml");
    fs::write(&brought, own).unwrap();
    for _ in 0..2 {
        must(machine.put("install", &driver).arg("--config").arg(&brought));
        assert!(fs::read_to_string(machine.config()).unwrap().contains("name = \"master2\""));
        let _ = fs::remove_dir_all(machine.proc().join("7"));
    }
}
