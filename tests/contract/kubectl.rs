//! The plugin of kubectl, over a cluster that a script in kubectl's place plays: one table, the worst first,
//! and no node left out. Two real nodes are asked by the scenario `eyes` of `test kubernetes`.

use crate::support::{output_of, start, write_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What it is asked goes to a log; what a node says is in files of its pod: `POD.rows` and so on.
const KUBECTL: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"$CLUSTER/asked"
echo "${KUBECONFIG-}" >>"$CLUSTER/kubeconfig"
case "$*" in
    *get\ nodes*) [ ! -e "$CLUSTER/down" ] || exit 1; cat "$CLUSTER/nodes"; exit ;;
    *get\ pods*) cat "$CLUSTER/pods"; exit ;;
esac
while [ "$1" != exec ]; do shift; done
pod=$4
shift 9
case $pod in
    hangs) exec sleep 60 ;;
    warns) printf 'Warning: an old flag\nDefaulted container\nE1123 10:00:00.1 1 memcache.go:265] no list\nerror: the reason\n' >&2; exit 1 ;;
    paints) printf 'error: \033]0;title\007 painted\n' >&2; exit 1 ;;
    broken) echo 'error: unable to upgrade connection' >&2; exit 1 ;;
esac
cat "$CLUSTER/$pod.$1" || exit 1
exit "$(cat "$CLUSTER/$pod.$1.status" 2>/dev/null || echo 0)"
"#;

const SENTENCE: &str = "Reads and writes fail: the disk went away and came back as loop5, and 3 mounts stand on the lost one.";

struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// Nodes by their names, each with its pod; `-` is none.
    fn of(nodes: &[(&str, &str)]) -> Self {
        let cluster = Self { folder: tempfile::tempdir().unwrap() };
        let program = cluster.at("kubectl");
        write_program(&program, KUBECTL);
        let names: Vec<_> = nodes.iter().map(|(node, _)| *node).collect();
        let pods = nodes.iter().filter(|(_, pod)| *pod != "-");
        let pods = pods.map(|(node, pod)| {
            let phase = if *pod == "pends" { "Pending" } else { "Running" };
            format!("{node} {pod} {phase}\n")
        });
        fs::write(cluster.at("nodes"), names.join("\n") + "\n").unwrap();
        fs::write(cluster.at("pods"), pods.collect::<Vec<_>>().concat()).unwrap();
        cluster
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A pod's answer to a verb.
    fn answers(&self, pod: &str, verb: &str, text: &str, status: u8) {
        fs::write(self.at(&format!("{pod}.{verb}")), text).unwrap();
        fs::write(self.at(&format!("{pod}.{verb}.status")), status.to_string()).unwrap();
    }

    /// Its rows: rank, health, pod, volume, and the id.
    fn has(&self, pod: &str, volumes: &[(&str, &str, &str, &str)]) {
        let mut text = format!("node\tits-name\t{}\tanswers\t-\n", volumes.len());
        for (rank, health, user, id) in volumes {
            let (meaning, command) = match *health {
                "ok" => ("-", "-".to_owned()),
                _ => (SENTENCE, format!("disk heal {id}")),
            };
            text += &format!(
                "volume\t{rank}\t{health}\t{user}\t{id}\tvdb\t{meaning}\t-\t{command}\t{id}\tpv-{id}\n"
            );
        }
        self.answers(pod, "status", &text, 0);
    }

    /// By this shell.
    fn command(&self, shell: &[&str], words: &[&str]) -> Command {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kubectl-incloud");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.folder.path().display());
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(plugin).args(words).current_dir(self.folder.path());
        command.env("PATH", path).env("CLUSTER", self.folder.path()).env("TMPDIR", self.scratch());
        command
    }

    /// Where it has its files, by a name with blanks.
    fn scratch(&self) -> PathBuf {
        let folder = self.at("its own files");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn plugin(&self, words: &[&str]) -> Output {
        output_of(&mut self.command(&["sh"], words))
    }

    /// Started in the background, with all that it is to be asked for so far.
    #[allow(unsafe_code)]
    fn begins(&self, shell: &[&str], words: &[&str]) -> Child {
        use nix::sys::signal::{SigHandler, Signal, signal};
        let mut command = self.command(shell, words);
        // No shell catches what is ignored from its start on, as by nohup or in a shell's background.
        let as_usual = || {
            for one in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM] {
                // SAFETY: the usual disposition is no function of ours.
                unsafe { signal(one, SigHandler::SigDfl) }?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec only signal(2) is called.
        unsafe { command.pre_exec(as_usual) };
        // Signals are for it and all that it starts, as those of a terminal are.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        start(&mut command)
    }

    /// What runs for it.
    fn processes(&self) -> Vec<String> {
        let mark = format!("CLUSTER={}\0", self.folder.path().display());
        let all = fs::read_dir("/proc").unwrap().flatten().filter(|process| {
            let text = fs::read(process.path().join("environ")).unwrap_or_default();
            text.windows(mark.len()).any(|part| part == mark.as_bytes())
        });
        all.map(|process| fs::read_to_string(process.path().join("cmdline")).unwrap_or_default())
            .collect()
    }

    /// Nothing of it is left.
    #[track_caller]
    fn is_left_clean(&self, what: &str) {
        until(|| self.processes().is_empty(), || format!("{what}: {:?}", self.processes()));
        let left: Vec<_> = fs::read_dir(self.scratch()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }

    #[track_caller]
    fn says(&self, words: &[&str], status: i32) -> String {
        let output = self.plugin(words);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
        text
    }
}

#[track_caller]
fn until(is_so: impl Fn() -> bool, found: impl Fn() -> String) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", found());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Those that are here.
fn shells() -> Vec<Vec<&'static str>> {
    let all = [&["dash"][..], &["bash", "--posix"], &["busybox", "sh"], &["ksh"]];
    let is_here = |shell: &&[&str]| {
        let tried = Command::new(shell[0]).args(&shell[1..]).args(["-c", ":"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    all.into_iter().filter(is_here).map(<[&str]>::to_vec).collect()
}

fn first_words(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect()
}

#[test]
fn the_worst_comes_first_and_no_node_is_left_out() {
    let cluster =
        Cluster::of(&[("n1", "p1"), ("n2", "p2"), ("n3", "broken"), ("n4", "-"), ("n5", "pends")]);
    cluster.has("p1", &[("2", "guarded", "shop/a-0", "v1"), ("0", "ok", "shop/b-0", "v2")]);
    cluster.has("p2", &[("7", "dead", "shop/c-0", "v3"), ("6", "stale", "shop/d-0", "v4")]);
    let text = cluster.says(&["--timeout", "20"], 1);
    assert_eq!(
        first_words(&text)[..7],
        ["HEALTH", "DEAD", "STALE", "NOT-SEEN", "NOT-SEEN", "NOT-SEEN", "GUARDED"],
        "{text}"
    );
    assert!(text.contains("n2$ disk heal v3") && text.contains("unable to upgrade"), "{text}");
    assert!(!text.contains("v2"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(SENTENCE), "{text}");
    assert!(
        text.contains(
            "4 volumes on 5 nodes: 1 dead, 1 stale, 1 guarded, 1 ok; 3 nodes were not seen"
        ),
        "{text}"
    );
    assert!(cluster.says(&["status", "--all", "n1"], 0).contains("v2"));
    assert!(cluster.says(&["n4"], 2).contains("there is no word n4"));
    assert!(cluster.says(&["status", "n9"], 2).contains("there is no node n9"));
    assert!(cluster.says(&["status", "n3"], 3).contains("1 node was not seen"));
}

/// Its clock is the plugin's own: no request has one that holds for `exec`.
#[test]
fn a_node_that_hangs_is_said_and_the_others_are_shown() {
    let cluster = Cluster::of(&[("n1", "hangs"), ("n2", "p2")]);
    cluster.has("p2", &[("0", "ok", "shop/c-0", "v3")]);
    let text = cluster.says(&["--timeout=1", "status", "--all"], 3);
    assert!(text.contains("no answer within 1 s") && text.contains("v3"), "{text}");
}

/// More nodes than are asked at once: none is lost on the way.
#[test]
fn every_node_is_asked_once() {
    let names: Vec<_> = (0..60).map(|nth| (format!("n{nth}"), format!("p{nth}"))).collect();
    let nodes: Vec<_> = names.iter().map(|(node, pod)| (node.as_str(), pod.as_str())).collect();
    let cluster = Cluster::of(&nodes);
    for (_, pod) in &nodes {
        cluster.has(pod, &[("0", "ok", "shop/a-0", &format!("v-{pod}"))]);
    }
    let text = cluster.says(&[], 0);
    assert_eq!(text, "60 volumes on 60 nodes: 60 ok\n");
    let asked = fs::read_to_string(cluster.at("asked")).unwrap();
    for (_, pod) in &nodes {
        let call = format!("exec -n kube-system {pod} -c verify -- /disk node status --rows");
        assert_eq!(asked.lines().filter(|line| *line == call).count(), 1, "{pod}");
    }
}

#[test]
fn a_volume_is_explained_by_the_nodes_that_have_it() {
    let cluster = Cluster::of(&[("n1", "p1"), ("n2", "p2"), ("n3", "broken")]);
    cluster.has("p1", &[("0", "ok", "shop/a-0", "11112222-v1")]);
    cluster.has("p2", &[("0", "ok", "shop/b-0", "33334444-v2")]);
    cluster.answers("p1", "explain", "of n1\n", 0);
    cluster.answers("p2", "explain", "of n2\n", 0);
    for typed in ["11112222-v1", "1111", "pv-11112222-v1", "shop/a-0", "a-0"] {
        let text = cluster.says(&["explain", typed], 3);
        assert!(text.contains("--- n1\nof n1") && !text.contains("of n2"), "{typed}: {text}");
        assert!(text.contains("n3 was not seen, and may have it too"), "{typed}: {text}");
    }
    // Of no node: then by what the cloud says.
    assert!(cluster.says(&["explain", "elsewhere"], 3).contains("of n1"));
    assert!(cluster.says(&["explain"], 2).contains("needs one volume"));
    let asked = fs::read_to_string(cluster.at("asked")).unwrap();
    assert!(asked.contains("/disk node explain 11112222-v1\n"), "{asked}");
}

#[test]
fn doctors_words_of_a_node_in_order_are_one_number() {
    let cluster = Cluster::of(&[("n1", "p1"), ("n2", "p2"), ("n3", "p3")]);
    cluster.answers("p1", "doctor", "ok       udev   all is well\n\n1 in order\n", 0);
    let bad = "ok       udev   all is well\nerror    cloud  no answer\n         -> see the network\nok       clock  right\n";
    cluster.answers("p2", "doctor", bad, 2);
    cluster.answers("p3", "doctor", "warning  udev   no rule\n", 1);
    let text = cluster.says(&["doctor"], 1);
    assert_eq!(
        text,
        "--- n2\nerror    cloud  no answer\n         -> see the network\n--- n3\nwarning  udev   no rule\n1 of 3 nodes are in order\n"
    );
}

#[test]
fn reports_are_files_of_their_owner_alone() {
    let cluster = Cluster::of(&[("n1", "p1"), ("n2", "broken")]);
    cluster.answers("p1", "report", "<html>the page</html>", 0);
    let text = cluster.says(&["report", "--out", "all"], 3);
    assert!(text.contains("n2: no report: error: unable to upgrade"), "{text}");
    let file = cluster.at("all/n1.html");
    assert_eq!(fs::read_to_string(&file).unwrap(), "<html>the page</html>");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!cluster.at("all/n2.html").exists());
    assert!(cluster.says(&["report", "--out", "all"], 2).contains("is not overwritten"));
}

#[test]
fn a_cluster_that_does_not_answer_is_not_an_empty_one() {
    let cluster = Cluster::of(&[("n1", "p1")]);
    fs::write(cluster.at("down"), "").unwrap();
    assert!(cluster.says(&[], 3).contains("did not say which nodes there are"));
    fs::remove_file(cluster.at("down")).unwrap();
    fs::write(cluster.at("nodes"), "").unwrap();
    assert!(cluster.says(&[], 2).contains("no nodes"));
}

/// While the `DaemonSet` is rolled out a node has two pods that run.
#[test]
fn a_pod_that_is_being_deleted_is_not_asked() {
    let cluster = Cluster::of(&[("n1", "p1")]);
    cluster.has("p1", &[("0", "ok", "shop/a-0", "v1")]);
    let new = "n1 p1 Running \n";
    let old = "n1 broken Running 2026-11-23T10:00:00Z\n";
    for pods in [[new, old].concat(), [old, new].concat()] {
        fs::write(cluster.at("pods"), &pods).unwrap();
        assert_eq!(cluster.says(&[], 0), "1 volume on 1 node: 1 ok\n", "{pods}");
    }
    fs::write(cluster.at("pods"), old).unwrap();
    assert!(cluster.says(&[], 3).contains("unable to upgrade"));
}

#[test]
fn the_reason_is_told_and_not_a_warning_before_it() {
    let cluster = Cluster::of(&[("n1", "warns"), ("n2", "paints")]);
    let text = cluster.says(&[], 3);
    assert!(text.contains("error: the reason") && !text.contains("Warning"), "{text}");
    assert!(text.contains("painted") && !text.contains(['\x1b', '\x07']), "{text}");
}

/// A connection that breaks may look like an end.
#[test]
fn an_answer_that_is_cut_off_is_no_whole_one() {
    let cluster = Cluster::of(&[("n1", "p1")]);
    cluster.has("p1", &[("0", "ok", "shop/a-0", "v1"), ("0", "ok", "shop/b-0", "v2")]);
    let whole = fs::read_to_string(cluster.at("p1.status")).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    for (kept, volumes) in [(1, "0 volumes"), (2, "1 volume")] {
        cluster.answers("p1", "status", &(lines[..kept].join("\n") + "\n"), 0);
        let text = cluster.says(&[], 3);
        assert!(text.contains("its answer is cut off") && text.contains(volumes), "{text}");
    }
}

#[test]
fn names_with_blanks_and_signs_are_kept() {
    let cluster = Cluster::of(&[("n1", "p1")]);
    cluster.has("p1", &[("0", "ok", "shop/a-0", "v1")]);
    cluster.answers("p1", "explain", "of n1\n", 0);
    cluster.says(&["--kubeconfig", "/a folder/*"], 0);
    let seen = fs::read_to_string(cluster.at("kubeconfig")).unwrap();
    assert_eq!(seen, "/a folder/*\n".repeat(3));
    cluster.says(&["--context", "my cluster", "status"], 0);
    let asked = fs::read_to_string(cluster.at("asked")).unwrap();
    assert_eq!(asked.matches("--context=my cluster ").count(), 3, "{asked}");
    // There are files p1.status and so on.
    for typed in ["p1.*", "a\\tb"] {
        cluster.says(&["explain", typed], 0);
        let asked = fs::read_to_string(cluster.at("asked")).unwrap();
        assert!(asked.contains(&format!("/disk node explain {typed}\n")), "{asked}");
    }
    for words in [&["--timeout="][..], &["--timeout", "0"], &["--watch=x"], &["--watch=0"]] {
        assert!(cluster.says(words, 2).contains("a number of seconds"), "{words:?}");
    }
}

/// As Ctrl-C does, which goes to the whole group, and as one who ends a single process does.
#[test]
fn nothing_is_left_of_one_that_is_ended() {
    let nodes: Vec<_> = (0..20).map(|nth| format!("n{nth}")).collect();
    let nodes: Vec<_> = nodes.iter().map(|node| (node.as_str(), "hangs")).collect();
    for shell in shells() {
        for (signal, is_to_group, status) in [
            (Signal::SIGINT, true, 130),
            (Signal::SIGTERM, false, 143),
            (Signal::SIGHUP, true, 129),
        ] {
            let cluster = Cluster::of(&nodes);
            let mut plugin = cluster.begins(&shell, &["status"]);
            let waits =
                || cluster.processes().iter().filter(|words| *words == "sleep\x0060\x00").count();
            until(|| waits() == 16, || format!("{shell:?}: {:?}", cluster.processes()));
            let pid = i32::try_from(plugin.id()).unwrap();
            kill(Pid::from_raw(if is_to_group { -pid } else { pid }), signal).unwrap();
            let ended = plugin.wait().unwrap();
            assert_eq!(ended.code(), Some(status), "{shell:?} {signal}");
            cluster.is_left_clean(&format!("{shell:?} {signal}"));
        }
    }
}

#[test]
fn to_watch_ends_with_its_reader() {
    for shell in shells() {
        let cluster = Cluster::of(&[("n1", "p1")]);
        cluster.has("p1", &[("0", "ok", "shop/a-0", "v1")]);
        let mut plugin = cluster.begins(&shell, &["status", "--watch=1"]);
        let mut reader = plugin.stdout.take().unwrap();
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 8);
        drop(reader);
        let begin = Instant::now();
        while plugin.try_wait().unwrap().is_none() {
            if begin.elapsed() > Duration::from_secs(20) {
                plugin.kill().unwrap();
                plugin.wait().unwrap();
                panic!("{shell:?}: it goes on");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        cluster.is_left_clean(shell[0]);
    }
}
