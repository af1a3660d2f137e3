//! A worker's exit status is known with its last word, however long its process takes to end.

use crate::support::{Node, SEAM, has_seams};

/// Without the processes that other tests, or a driver at work, have on this machine: those come and go.
fn of_this_node(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout);
    let lines = text.lines().take_while(|line| !line.starts_with("! Mounted in containers"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_verb_that_is_done_says_so_though_its_process_does_not_end() {
    if !has_seams("a_verb_that_is_done_says_so_though_its_process_does_not_end") {
        return;
    }
    let node = Node::new();
    let held = node.base().join("held");
    for words in [&["status"][..], &["explain", "no-such-volume"][..]] {
        let usual = node.command(words).output().unwrap();
        let seam = format!("worker.said=hold:{}", held.display());
        // With the usual patience, not that of other tests.
        let mut held_up = node.command(words);
        held_up.env(SEAM, seam).env_remove("INCLOUD_DISK_PATIENT");
        let held_up = held_up.output().unwrap();
        std::fs::remove_file(&held).expect("the worker was held");
        let told = String::from_utf8_lossy(&held_up.stderr);
        assert_eq!(held_up.status.code(), usual.status.code(), "{words:?}: {told}");
        assert_eq!(of_this_node(&held_up.stdout), of_this_node(&usual.stdout), "{words:?}: {told}");
    }
}
