//! A defect inside is one more Failure, and the log says where it is.

use crate::calls;
use crate::scene::servers;
use crate::support::{Answer, Node, SEAM, has_seams};

/// The call's id, as the message gives it.
fn id_of(message: &str) -> &str {
    message.rsplit_once("[call ").and_then(|(_, id)| id.strip_suffix(']')).expect("a call id")
}

#[track_caller]
fn fails_by(node: &Node, call: &calls::Call, seam: &str) -> String {
    let mut command = node.command(call);
    command.env(SEAM, seam);
    let answer = Answer::of(command);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert_eq!(answer.json.as_object().unwrap().len(), 2, "{}", answer.text);
    answer.json["message"].as_str().unwrap().to_owned()
}

#[track_caller]
fn panics(node: &Node, call: &calls::Call, seam: &str) -> String {
    let message = fails_by(node, call, seam);
    assert!(message.contains("the driver failed inside"), "{message}");
    assert!(!message.contains("seam"), "a panic's words may be secret: {message}");
    message
}

#[test]
fn a_panic_before_anything_is_read_is_one_failure() {
    if !has_seams("a_panic_before_anything_is_read_is_one_failure") {
        return;
    }
    let node = Node::new();
    for call in calls::every(&node, "vol-1", "pv-1") {
        panics(&node, &call, "call=panic");
    }
    for word in ["init", "getvolumename", "frobnicate"] {
        panics(&node, &vec![word.into()], "call=panic");
    }
    // Even where the panic's own words, with a backtrace, would go to stderr.
    let mut command = node.command(["init"]);
    command.env(SEAM, "call=panic").env("RUST_BACKTRACE", "full");
    assert_eq!(Answer::of(command).json["status"], "Failure");
}

#[test]
fn a_call_whose_worker_uses_up_its_stack_is_one_failure() {
    if !has_seams("a_call_whose_worker_uses_up_its_stack_is_one_failure") {
        return;
    }
    for word in calls::WORKING {
        let node = Node::new();
        let json = crate::support::options("vol-1", "pv-1", "ext4");
        let call = calls::with_options(&node, word, "pv-1", &json);
        let message = fails_by(&node, &call, "begin=overflow");
        assert!(message.contains("was ended by SIGABRT"), "{word}: {message}");
    }
}

#[test]
fn a_panic_inside_a_call_is_logged_with_its_place_under_the_call_id() {
    if !has_seams("a_panic_inside_a_call_is_logged_with_its_place_under_the_call_id") {
        return;
    }
    for word in calls::WORKING {
        let node = Node::new();
        let json = crate::support::options("vol-1", "pv-1", "ext4");
        let call = calls::with_options(&node, word, "pv-1", &json);
        let message = panics(&node, &call, "begin=panic");
        let log = node.log();
        let panicked: Vec<_> = log.lines().filter(|line| line.contains("panicked")).collect();
        let [line] = panicked[..] else { panic!("{word}: {log}") };
        assert!(line.contains("src/failpoints/lib.rs:"), "{line}");
        let id = format!("id=\"{}\"", id_of(&message));
        for line in log.lines() {
            assert!(line.contains(&id) && line.contains(word), "{line}");
        }
        assert!(!log.contains("seam begin"), "a panic's words may be secret: {log}");
    }
}

#[test]
fn a_panic_in_the_middle_leaves_work_that_the_next_call_finishes() {
    if !has_seams("a_panic_in_the_middle_leaves_work_that_the_next_call_finishes") {
        return;
    }
    for step in ["attach.named", "local.attach.recorded", "attach.requested"] {
        let node = Node::new();
        node.create("vol-1", "1M");
        let attach = calls::attach("vol-1", "pv-1", "node-b");
        panics(&node, &attach, &format!("{step}=panic"));
        node.must(&attach);
        assert_eq!(servers(&node, "vol-1"), ["node-b"], "{step}");
        node.must(calls::detach("pv-1", "node-b"));
        assert!(servers(&node, "vol-1").is_empty(), "{step}");
    }
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    panics(&node, &calls::detach("pv-1", "node-b"), "detach.requested=panic");
    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
}
