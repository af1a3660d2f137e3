//! `kubectl incloud roll-out` and `roll-back`, over a cluster that a script in kubectl's place plays: a first node, then
//! batches, and no node beyond the first that is not well. A real cluster plays them in the scenario `fleet` of
//! `test kubernetes`.

use crate::support::{output_of, start, write_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node gets a pod when it has the label, or when its pod is deleted: the one in `comes/NODE`.
const KUBECTL: &str = r#"#!/bin/sh
come() {
    if [ -e "$CLUSTER/comes/$1" ]; then cp "$CLUSTER/comes/$1" "$CLUSTER/pod/$1"; else
        printf '%s\tpod-%s\t%s\t\tTrue\t0\t\t\t\n' "$1" "$1" "$(cat "$CLUSTER/newest")" >"$CLUSTER/pod/$1"
    fi
    [ ! -x "$CLUSTER/then" ] || "$CLUSTER/then" "$1"
}
case "$*" in
    *get\ daemonsets*) [ ! -e "$CLUSTER/down" ] || exit 1; ! rm "$CLUSTER/busy" 2>/dev/null || exit 1; cat "$CLUSTER/sets" ;;
    *get\ controllerrevisions*) printf 'incloud-disk 1 old\nanother 9 no\nincloud-disk 2 %s\n' "$(cat "$CLUSTER/newest")" ;;
    *get\ nodes*status.conditions*)
        for node in "$CLUSTER"/node/*; do
            printf '%s\t%s\t%s\t%s\n' "${node##*/}" "$(cat "$node")" "$(cat "$CLUSTER/label/${node##*/}" 2>/dev/null)" "$(cat "$CLUSTER/system/${node##*/}" 2>/dev/null)"
        done ;;
    *get\ nodes*) ls "$CLUSTER/node" ;;
    *get\ pods*.status.phase*) awk -F '\t' '{ print $1, $2, "Running" }' "$CLUSTER"/pod/* ;;
    *get\ pods*) cat "$CLUSTER"/pod/* 2>/dev/null || true ;;
    *get\ pod\ *) printf 'disk: refused, nothing was changed\n  configuration: \033[1mwrong\n' ;;
    *label\ node*-) shift 3; echo "unlabel $1" >>"$CLUSTER/did"; rm "$CLUSTER/label/$1" ;;
    *label\ node*) shift 3; echo "label $1" >>"$CLUSTER/did"; echo "${3#*=}" >"$CLUSTER/label/$1"; [ -e "$CLUSTER/pod/$1" ] || come "$1" ;;
    *delete\ pod*) shift 3; echo "delete $1" >>"$CLUSTER/did"; come "${1#pod-}" ;;
    *exec*) echo "exec $*" >>"$CLUSTER/did"; echo 'the predecessor is there again'; 
        case "$*" in
            *bad*) echo 'command terminated with exit code 1' >&2; exit 1 ;;
            *killed*) echo 'command terminated with exit code 137' >&2; exit 137 ;;
            *lost*) echo 'error: unexpected EOF' >&2; exit 1 ;;
        esac ;;
esac
"#;

/// What the plugin waits between two looks is no time here.
const SLEEP: &str = "#!/bin/sh\n[ \"$1\" = 2 ] || exec /bin/sleep \"$@\"\n";

struct Fleet {
    folder: TempDir,
}

impl Fleet {
    fn of(nodes: &[&str]) -> Self {
        let fleet = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["node", "label", "pod", "comes", "scratch", "bin", "system"] {
            fs::create_dir(fleet.at(folder)).unwrap();
        }
        for (name, text) in [("bin/kubectl", KUBECTL), ("bin/sleep", SLEEP)] {
            fleet.program(name, text);
        }
        for node in nodes {
            fleet.put(&format!("node/{node}"), "True");
        }
        fleet.put("sets", "incloud-disk 3 3 OnDelete wanted\n");
        fleet.put("newest", "new");
        fleet
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn program(&self, name: &str, text: &str) {
        write_program(&self.at(name), text);
    }

    /// A pod as it comes to a node: its revision, whether it is ready, and the status of its installation.
    fn comes(&self, node: &str, revision: &str, ready: &str, status: &str) {
        self.put(
            &format!("comes/{node}"),
            &format!("{node}\tpod-{node}\t{revision}\t\t{ready}\t{status}\t\t\t\n"),
        );
    }

    /// It is there, of an older revision.
    fn has_old(&self, node: &str) {
        self.put(&format!("label/{node}"), "wanted");
        self.put(&format!("pod/{node}"), &format!("{node}\tpod-{node}\told\t\tTrue\t0\t\t\t\n"));
    }

    fn command(&self, shell: &[&str], words: &[&str]) -> Command {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kubectl-incloud");
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(plugin).args(words).stdin(Stdio::null());
        command.env("PATH", path).env("CLUSTER", self.folder.path());
        command.env("TMPDIR", self.at("scratch"));
        command
    }

    #[track_caller]
    fn says(&self, words: &[&str], status: i32) -> String {
        let output = output_of(&mut self.command(&["sh"], words));
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
        text
    }

    /// What was changed since the last time, in its order.
    fn did(&self) -> Vec<String> {
        let text = fs::read_to_string(self.at("did")).unwrap_or_default();
        let _ = fs::remove_file(self.at("did"));
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_first_node_alone_and_then_batches() {
    let fleet = Fleet::of(&["n1", "n2", "n3", "n4", "n5", "n6"]);
    let text = fleet.says(&["roll-out", "--batch", "3", "--dry-run"], 0);
    assert_eq!(text, "0 of 6 nodes have the revision new\nn1\nn2 n3 n4\nn5 n6\n");
    assert!(fleet.did().is_empty());
    let text = fleet.says(&["roll-out", "--batch", "3"], 0);
    assert!(text.ends_with("n1\nn2 n3 n4\nn5 n6\n6 of 6 nodes have the revision new\n"), "{text}");
    assert_eq!(fleet.did().join(","), "label n1,label n2,label n3,label n4,label n5,label n6");
    fleet.says(&["roll-out"], 0);
    assert!(fleet.did().is_empty(), "what is well is left alone");
}

#[test]
fn it_stops_at_the_first_node_that_is_not_well() {
    let fleet = Fleet::of(&["n1", "n2", "n3", "n4", "n5"]);
    fleet.comes("n3", "new", "False", "1");
    let text = fleet.says(&["roll-out", "--batch=2"], 1);
    assert!(text.contains("stopped at n3: its installation ended with status 1\n"), "{text}");
    assert!(text.contains("    disk: refused, nothing was changed\n"), "{text}");
    assert!(text.contains("kubectl logs -n kube-system pod-n3 -c install"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(fleet.did(), ["label n1", "label n2", "label n3"]);
    // Again: the one that was begun comes first, alone, in a pod that tries at once.
    fleet.says(&["roll-out"], 1);
    assert_eq!(fleet.did(), ["delete pod-n3"]);
    // Mended.
    fs::remove_file(fleet.at("comes/n3")).unwrap();
    fleet.says(&["roll-out", "--batch", "9"], 0);
    assert_eq!(fleet.did(), ["delete pod-n3", "label n4", "label n5"]);
}

#[test]
fn an_upgrade_replaces_one_pod_and_then_batches() {
    let fleet = Fleet::of(&["n1", "n2", "n3", "n4"]);
    for node in ["n1", "n2", "n3"] {
        fleet.has_old(node);
    }
    fleet.comes("n1", "new", "False", "2");
    let text = fleet.says(&["roll-out"], 1);
    assert!(text.contains("stopped at n1") && text.contains("\n0 of 4 nodes have"), "{text}");
    assert_eq!(fleet.did(), ["delete pod-n1"]);
    // Another revision mends it.
    fs::remove_file(fleet.at("comes/n1")).unwrap();
    fleet.put("newest", "mended");
    fleet.says(&["roll-out", "--batch", "2"], 0);
    assert_eq!(fleet.did(), ["delete pod-n1", "delete pod-n2", "delete pod-n3", "label n4"]);
}

#[test]
fn a_node_that_is_not_ready_stops_it_untouched() {
    let fleet = Fleet::of(&["n1", "n2", "n3"]);
    fleet.put("node/n2", "Unknown");
    let planned = fleet.says(&["roll-out", "--dry-run"], 1);
    assert!(planned.contains("stopped at n2: the node itself is not ready"), "{planned}");
    let text = fleet.says(&["roll-out"], 1);
    assert!(text.contains("stopped at n2: the node itself is not ready"), "{text}");
    assert_eq!(fleet.did(), ["label n1"], "nor the other of its batch");
    assert!(fleet.says(&["roll-out", "--without", "n2"], 0).contains("2 of 2 nodes"));
    assert_eq!(fleet.did(), ["label n3"]);
    assert!(fleet.says(&["roll-out", "n1", "n3"], 0).contains("2 of 2 nodes"));
    assert!(fleet.says(&["roll-out", "n9"], 2).contains("there is no node n9"));
    assert!(fleet.says(&["roll-out", "--without=n9"], 2).contains("there is no node n9"));
    assert!(fleet.did().is_empty());
}

/// The `DaemonSet` has no pod there.
#[test]
fn a_node_of_another_system_is_none() {
    let fleet = Fleet::of(&["n1", "n2", "n3"]);
    fleet.put("system/n1", "linux");
    fleet.put("system/n2", "windows");
    assert!(fleet.says(&["roll-out"], 0).contains("2 of 2 nodes"));
    assert_eq!(fleet.did(), ["label n1", "label n3"]);
    assert!(fleet.says(&["roll-out", "n2"], 2).contains("there is no node n2"));
}

/// A pod that never comes to be ready, and one whose image is not there.
#[test]
fn a_node_is_waited_for_and_not_for_ever() {
    let fleet = Fleet::of(&["n1", "n2"]);
    fleet.comes("n1", "new", "False", "0");
    let text = fleet.says(&["roll-out", "--timeout", "6"], 1);
    assert!(text.contains("stopped at n1: its pod is not ready"), "{text}");
    fleet.put("comes/n1", "n1\tpod-n1\tnew\t\t\t\t\tImagePullBackOff\t\n");
    let text = fleet.says(&["roll-out"], 1);
    assert!(text.contains("its installation does not start: ImagePullBackOff"), "{text}");
    assert!(!fleet.did().iter().any(|done| done.contains("n2")));
}

/// A first node that fails later, and a `DaemonSet` that another person changes.
#[test]
fn what_changes_meanwhile_stops_it() {
    let fleet = Fleet::of(&["n1", "n2", "n3", "n4"]);
    fleet.program(
        "then",
        "#!/bin/sh\n[ $1 != n2 ] || printf 'n1\\tpod-n1\\tnew\\t\\tFalse\\t0\\t\\t\\tCrashLoopBackOff\\n' >\"$CLUSTER/pod/n1\"\n",
    );
    let text = fleet.says(&["roll-out", "--batch", "1"], 1);
    assert!(text.contains("stopped at n1: its container does not run: CrashLoop"), "{text}");
    assert_eq!(fleet.did(), ["label n1", "label n2"]);

    let fleet = Fleet::of(&["n1", "n2", "n3", "n4"]);
    fleet.program("then", "#!/bin/sh\n[ $1 != n2 ] || echo third >\"$CLUSTER/newest\"\n");
    fleet.comes("n2", "new", "True", "0");
    let text = fleet.says(&["roll-out", "--batch", "1"], 1);
    assert!(text.contains("the DaemonSet has another revision now, third"), "{text}");
    assert_eq!(fleet.did(), ["label n1", "label n2"]);
}

/// As while another API server takes over.
#[test]
fn one_answer_that_fails_does_not_end_it() {
    let fleet = Fleet::of(&["n1", "n2", "n3"]);
    fleet.program("then", "#!/bin/sh\n[ $1 != n1 ] || : >\"$CLUSTER/busy\"\n");
    assert!(fleet.says(&["roll-out"], 0).contains("3 of 3 nodes"));
    assert!(!fleet.at("busy").exists());
}

/// Where Kubernetes would go on by itself no word of ours stops it.
#[test]
fn a_daemon_set_that_goes_on_by_itself_is_refused() {
    let fleet = Fleet::of(&["n1"]);
    for set in ["RollingUpdate wanted", "OnDelete ", "RollingUpdate "] {
        fleet.put("sets", &format!("incloud-disk 3 3 {set}\n"));
        let text = fleet.says(&["roll-out"], 2);
        assert!(text.contains("apply the overlay canary first"), "{text}");
    }
    fleet.put("sets", "");
    assert!(fleet.says(&["roll-out"], 2).contains("one DaemonSet is needed"));
    assert!(fleet.says(&["roll-out", "--batch", "0"], 2).contains("a number of nodes"));
    fleet.put("down", "");
    assert!(fleet.says(&["roll-out", "--timeout", "4"], 3).contains("the API server did not say"));
    assert!(fleet.did().is_empty());
}

#[test]
fn where_it_is_ended_nothing_goes_on() {
    let fleet = Fleet::of(&["n1", "n2", "n3"]);
    fleet.comes("n1", "new", "False", "");
    // It looks for ever, and takes its time.
    fleet.program("bin/sleep", "#!/bin/sh\nexec /bin/sleep 0.1\n");
    let mut command = fleet.command(&["sh"], &["roll-out", "--timeout", "100000"]);
    let mut plugin = start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let begin = Instant::now();
    while !fleet.at("pod/n1").exists() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(i32::try_from(plugin.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(plugin.wait().unwrap().code(), Some(143));
    assert_eq!(fleet.did(), ["label n1"]);
    assert_eq!(fs::read_dir(fleet.at("scratch")).unwrap().count(), 0);
}

#[test]
fn back_is_asked_of_the_pod_and_then_it_goes() {
    let fleet = Fleet::of(&["bad", "n1", "n2"]);
    for node in ["bad", "n1"] {
        fleet.has_old(node);
    }
    assert!(fleet.says(&["roll-back"], 2).contains("--to predecessor"));
    let text = fleet.says(&["roll-back", "--to", "predecessor", "--dry-run"], 3);
    assert!(text.contains("--- n1\nthe predecessor is there again\n"), "{text}");
    let did = fleet.did();
    assert!(did.iter().all(|one| one.ends_with("rollback --to predecessor --dry-run")), "{did:?}");
    let text = fleet.says(&["roll-back", "--to=predecessor"], 3);
    assert!(text.contains("n1: the predecessor is there again\n"), "{text}");
    assert!(text.contains("! bad: nothing was put back: "), "{text}");
    let mut did = fleet.did();
    did.sort();
    assert_eq!(
        did,
        [
            "exec exec -n kube-system pod-bad -c verify -- /disk node rollback --to predecessor",
            "exec exec -n kube-system pod-n1 -c verify -- /disk node rollback --to predecessor",
            "unlabel n1",
        ]
    );
}

/// What was not heard to its end may have been done; and a `--to 1` that is called twice goes forth and back.
#[test]
fn back_is_not_denied_where_it_is_not_known() {
    let fleet = Fleet::of(&["killed", "lost", "n1"]);
    for node in ["killed", "lost"] {
        fleet.has_old(node);
    }
    let text = fleet.says(&["roll-back", "--to", "1", "lost", "killed", "n1"], 3);
    for node in ["killed", "lost"] {
        assert!(
            text.contains(&format!("! {node}: it is not known whether that was put back: ")),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "exec -n kube-system pod-{node} -c verify -- /disk node verify"
            ))
        );
    }
    assert!(text.contains("! n1: nothing was put back: no pod"), "{text}");
}

/// Without the label each start of its pods would install this driver again.
#[test]
fn back_under_a_daemon_set_for_all_nodes_names_what_ends_it() {
    let fleet = Fleet::of(&["n1"]);
    fleet.has_old("n1");
    fleet.put("sets", "incloud-disk 3 3 RollingUpdate \n");
    let text = fleet.says(&["roll-back", "--to", "predecessor"], 3);
    assert!(text.contains("n1: the predecessor is there again\n"), "{text}");
    assert!(text.contains("kubectl delete daemonset -n kube-system incloud-disk\n"), "{text}");
    fleet.put("down", "");
    assert!(fleet.says(&["roll-back", "--to", "predecessor", "n1"], 3).contains("did not say"));
    assert_eq!(fleet.did().len(), 2);
}
