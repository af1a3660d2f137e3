//! A call that is told to end answers, from the first thing that its program does.

use crate::calls;
use crate::support::{DISK, Node, may_trace, output_of};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Runs a call under strace with these options; answers what it printed and what it asked of the
/// kernel, its own process alone.
fn traced(node: &Node, call: &[String], options: &[&str]) -> (String, Vec<String>) {
    let log = node.own().join("calls-of-the-kernel");
    let mut command = Command::new("strace");
    command.args(["-qq", "-o"]).arg(&log).args(options).arg(DISK).args(call);
    command.env("INCLOUD_DISK_CONFIG", node.config_path());
    let output = output_of(&mut command);
    let text = fs::read_to_string(log).unwrap();
    (String::from_utf8(output.stdout).unwrap(), text.lines().map(str::to_owned).collect())
}

fn name_of(line: &str) -> &str {
    line.split('(').next().unwrap()
}

/// At fee4868 signals were held only after the configuration was read and the log was open.
#[test]
fn a_signal_at_any_call_of_the_kernel_leaves_an_answer() {
    if !may_trace("a_signal_at_any_call_of_the_kernel_leaves_an_answer") {
        return;
    }
    let node = Node::new();
    node.create("vol-1", "1M");
    let init = vec!["init".to_owned()];
    let attached: Vec<String> = calls::is_attached("vol-1", "pv-1", "node-b")
        .iter()
        .map(|word| word.to_str().unwrap().to_owned())
        .collect();
    for (call, signals) in [(&init, &["TERM", "INT", "HUP"][..]), (&attached, &["TERM", "QUIT"])] {
        let (_, lines) = traced(&node, call, &[]);
        let held = lines.iter().position(|line| {
            line.starts_with("rt_sigprocmask(SIG_BLOCK")
                && line.contains("TERM")
                && line.contains("HUP")
        });
        let held = held.unwrap_or_else(|| panic!("signals are never held: {lines:#?}"));
        let first =
            lines.iter().position(|line| line.contains("fcntl(") && line.contains("F_DUPFD"));
        assert!(first.is_none_or(|first| held < first), "{lines:#?}");
        let mut counts = BTreeMap::new();
        for (place, line) in lines.iter().enumerate() {
            let count = counts.entry(name_of(line)).or_insert(0);
            *count += 1;
            let is_call =
                line.contains('(') && !line.starts_with("+++") && !line.starts_with("---");
            if place <= held || !is_call || name_of(line) == "exit_group" {
                continue;
            }
            for signal in signals {
                let inject = format!("inject={}:signal=SIG{signal}:when={count}", name_of(line));
                let (said, _) = traced(&node, call, &["-e", &inject]);
                let json: Result<serde_json::Value, _> = serde_json::from_str(&said);
                assert!(json.is_ok_and(|json| json["status"].is_string()), "{inject}: {said:?}");
            }
        }
    }
}
