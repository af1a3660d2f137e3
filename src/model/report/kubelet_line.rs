//! A line of kubelet's log, from the journal or from a file, and what it shows.
//!
//! ```text
//! I1129 22:20:18.123456    1234 operation_generator.go:797] UnmountVolume.TearDown succeeded for volume "pv-1"
//! ```

use crate::timestamp::{self, Millis};
use crate::zone::Zone;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubeletLine {
    /// When it was written.
    pub at: Millis,
    /// The process that wrote it, where the line says so.
    pub process: Option<u32>,
    /// What it shows of kubelet itself.
    pub shows: Shows,
    /// What it says, without the time.
    pub text: String,
}

/// What a line shows of kubelet itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shows {
    Start,
    /// It ended.
    Stop,
    /// A request of its to the API server failed, or had no answer in time.
    ApiFailure,
    /// Nothing.
    Nothing,
}

impl KubeletLine {
    /// The words without their place in kubelet's source; nothing for what is no line of klog.
    pub fn words(&self) -> Option<&str> {
        self.process?;
        Some(self.text.split_once("] ")?.1.trim_start_matches('"'))
    }

    /// Whether a pod was deleted through the API server.
    pub fn is_deletion(&self) -> bool {
        let begins = ["SyncLoop (DELETE", "SyncLoop (REMOVE", "SyncLoop DELETE", "SyncLoop REMOVE"];
        self.words().is_some_and(|words| begins.iter().any(|begin| words.starts_with(begin)))
    }

    /// The UID of the pod of an operation.
    pub fn pod_uid(&self) -> Option<&str> {
        self.quoted("(UID: ").filter(|uid| is_uid(uid))
    }

    /// A pod's name and UID, where one line has both: `orders-0_shop(4e51…)`, `pod="shop/orders-0" podUID="4e51…"`.
    pub fn named_pod(&self) -> Option<(String, &str)> {
        self.process?;
        if let Some(name) = self.quoted("pod=") {
            let (_, rest) = self.text.split_once("podUID=")?;
            let uid = rest.trim_start_matches('"').get(..UID)?;
            return (is_uid(uid) && name.contains('/')).then(|| (name.to_owned(), uid));
        }
        let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
        self.text.match_indices('(').find_map(|(at, _)| {
            let uid = self.text.get(at + 1..at + 1 + UID).filter(|uid| is_uid(uid))?;
            let before = &self.text[..at];
            let name = &before[before.trim_end_matches(is_of_name).len()..];
            let (name, namespace) = name.split_once('_')?;
            Some((format!("{namespace}/{name}"), uid))
        })
    }

    /// What is in quotation marks, which a structured log escapes, behind these words.
    pub fn quoted(&self, before: &str) -> Option<&str> {
        self.process?;
        let (_, rest) = self.text.split_once(before)?;
        rest.trim_start_matches('\\').strip_prefix('"')?.split(['"', '\\']).next()
    }

    /// The claim of a pod's volume that the API server did not answer for: `shop/data-orders-0`.
    pub fn unread_claim(&self) -> Option<&str> {
        let words = self.words().filter(|words| words.starts_with("Error processing volume"))?;
        let (claim, why) = words.split_once("error processing PVC ")?.1.split_once(": ")?;
        let is_plain = |sign: u8| sign.is_ascii_alphanumeric() || b"-./".contains(&sign);
        let is_name = claim.len() <= LONGEST_CLAIM && claim.bytes().all(is_plain);
        (is_name && why.starts_with("failed to fetch PVC from API server")).then_some(claim)
    }
}

/// A line's words without their place in kubelet's source, UIDs in brackets, addresses, and what else only
/// kubelet needs.
pub fn brief(text: &str) -> String {
    let place = text.split_once("] ").filter(|(place, _)| place.contains(".go:"));
    // As structured logs quote.
    let mut text = place.map_or(text, |(_, words)| words).replace("\\\"", "\"");
    for (begin, end, mark) in LEFT_OUT {
        let mut parts = text.split(begin);
        let mut left = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            match part.split_once(end) {
                Some((_, rest)) => left += &[mark, rest].concat(),
                None => left += &[begin, part].concat(),
            }
        }
        text = left;
    }
    let mut parts = text.split('(');
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((inner, rest)) if is_uid(inner) => left += rest,
            _ => left += &["(", part].concat(),
        }
    }
    left.trim_end().to_owned()
}

/// Whether this is a UID as Kubernetes writes one.
pub fn is_uid(text: &str) -> bool {
    let mut bytes = text.bytes().enumerate();
    text.len() == UID
        && bytes.all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// systemd's units in which kubelet runs.
pub const UNITS: [&str; 6] =
    ["kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "snap.microk8s.daemon-kubelite"];

/// How a file that has the lines of all units speaks of kubelet.
const NAMES: [&str; 6] = ["kubelet", "kubernetes", "k3s", "rke2", "microk8s", "hyperkube"];

/// What systemd says when a unit ends.
const ENDS: [&str; 5] =
    ["stopped ", "stopping ", "main process exited", "failed with result", "scheduled restart job"];

/// A request to the API server, as kubelet words it.
const API: [&str; 9] = [
    "/api/v1",
    "/apis/",
    "etcdserver:",
    "API server",
    "apiserver",
    "update lease",
    "ensure lease",
    "node status",
    "reflector.go",
];

/// Why such a request failed.
const FAILED: [&str; 14] = [
    "net/http: request canceled",
    "i/o timeout",
    "etcdserver: ",
    "context deadline exceeded",
    "connection refused",
    "connection reset by peer",
    "no route to host",
    "TLS handshake timeout",
    "Client.Timeout exceeded",
    "client connection lost",
    "unable to return a response in the time allotted",
    "unable to handle the request",
    "an error on the server",
    "Internal error occurred",
];

/// What stands before kubelet's words in a line is no longer: a host's name may have 64 characters.
const LONGEST_PREFIX: usize = 200;

/// How long a UID is.
const UID: usize = 36;

/// A moment without a year is no later than this after now: clocks differ.
const AHEAD: Millis = 86_400_000;

/// No claim has a longer name, with its namespace.
const LONGEST_CLAIM: usize = 63 + 1 + 253;

/// Parts of a line that say nothing to a reader: how each begins and ends, and what stands for it.
const LEFT_OUT: [(&str, &str, &str); 5] = [
    (" (UniqueName: \"", "\")", ""),
    (" (UID: \"", "\")", ""),
    (" %!(EXTRA ", ")", ""),
    ("&{", "}", "&{…}"),
    (" \"https://", "\"", " \"…\""),
];

/// A record of `journalctl --output=json`.
#[derive(Debug, Deserialize)]
struct Record {
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    micros: String,
    #[serde(rename = "MESSAGE", default)]
    message: Value,
    #[serde(rename = "_PID", default)]
    process: Value,
}

/// Reads a record of the journal of one of kubelet's units; nothing if it is none.
pub fn of_journal(record: &[u8]) -> Option<KubeletLine> {
    let record: Record = serde_json::from_slice(record).ok()?;
    let at = record.micros.parse::<u64>().ok()? / 1000;
    let message = text_of(&record.message);
    let process = text_of(&record.process).parse().ok();
    if let Some(head) = Head::of(&message) {
        // The journal knows the sender; the line only says who wrote it.
        return Some(KubeletLine { process, ..head.line(at) });
    }
    let shows = if process == Some(1) { of_systemd(&message) } else { Shows::Nothing };
    Some(KubeletLine { at, process: None, shows, text: message })
}

/// Reads a line of a file: of klog, with or without what syslog or `journalctl` puts before it, or a record
/// of the journal. Its moments have no year and no zone.
pub fn of_file(line: &str, zone: Zone, now: Millis) -> Option<KubeletLine> {
    if line.starts_with('{') {
        return of_journal(line.as_bytes());
    }
    if let Some(head) = Head::of(line) {
        // Before the words of another program that uses klog stands its name: kube-proxy[77]:
        let sender = head.before.split_whitespace().last().filter(|word| word.ends_with(':'));
        if sender.is_some_and(|name| !NAMES.iter().any(|of| name.contains(of))) {
            return None;
        }
        let at = moment(head.month, head.day, head.clock, zone, now)?;
        return Some(head.line(at));
    }
    let (before, text) = line.split_once(" systemd[1]: ")?;
    let at = of_syslog(before, zone, now)?;
    let lower = text.to_ascii_lowercase();
    let is_of_kubelet = NAMES.iter().any(|name| lower.contains(name));
    let shows = if is_of_kubelet { of_systemd(text) } else { Shows::Nothing };
    Some(KubeletLine { at, process: None, shows, text: text.to_owned() })
}

fn of_systemd(message: &str) -> Shows {
    let lower = message.to_ascii_lowercase();
    if lower.starts_with("started ") {
        Shows::Start
    } else if ENDS.iter().any(|words| lower.contains(words)) {
        Shows::Stop
    } else {
        Shows::Nothing
    }
}

/// journald writes what is no UTF-8 as an array of bytes, and a field that is there twice as an array of both.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let byte = |one: &Value| one.as_u64().and_then(|one| u8::try_from(one).ok());
            let bytes: Option<Vec<u8>> = all.iter().map(byte).collect();
            match bytes {
                Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                None => all.first().map(text_of).unwrap_or_default(),
            }
        }
        _ => String::new(),
    }
}

/// How klog begins a line, and what it says behind that.
struct Head<'a> {
    before: &'a str,
    month: &'a str,
    day: &'a str,
    clock: &'a str,
    process: Option<u32>,
    text: &'a str,
}

impl<'a> Head<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let levels = line.match_indices(['I', 'W', 'E', 'F']);
        let levels = levels.map(|(at, _)| at).take_while(|at| *at <= LONGEST_PREFIX);
        let mut levels = levels.filter(|at| *at == 0 || line.as_bytes()[at - 1] == b' ');
        levels.find_map(|at| Self::behind_level(&line[..at], &line[at + 1..]))
    }

    fn behind_level(before: &'a str, text: &'a str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(4)?;
        let (clock, rest) = rest.strip_prefix(' ')?.split_at_checked("22:20:18.123456".len())?;
        let has_shape = |text: &str, shape: &str| {
            text.bytes().zip(shape.bytes()).all(|(byte, of)| match of {
                b'0' => byte.is_ascii_digit(),
                of => byte == of,
            })
        };
        if !has_shape(date, "0000") || !has_shape(clock, "00:00:00.000000") {
            return None;
        }
        let rest = rest.trim_start();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (process, text) = rest.split_at(digits);
        let (month, day) = date.split_at(2);
        let (process, text) = (process.parse().ok(), text.trim_start());
        Some(Self { before, month, day, clock, process, text })
    }

    fn line(&self, at: Millis) -> KubeletLine {
        let says = self.text.split_once("] ").map_or(self.text, |(_, says)| says);
        let is_start = says.trim_start_matches('"').starts_with("Started kubelet");
        let has = |all: &[&str]| all.iter().any(|words| self.text.contains(words));
        // A container's probe fails for the same reasons.
        let is_of_api = has(&API) && has(&FAILED) && !has(&["probe", "Probe"]);
        let shows = match (is_start, is_of_api) {
            (true, _) => Shows::Start,
            (_, true) => Shows::ApiFailure,
            _ => Shows::Nothing,
        };
        KubeletLine { at, process: self.process, shows, text: self.text.to_owned() }
    }
}

/// The moment before a host's name: `Nov 29 22:20:18 node-a`, or `2026-11-29T22:20:18.123456+01:00 node-a`.
fn of_syslog(before: &str, zone: Zone, now: Millis) -> Option<Millis> {
    let words: Vec<_> = before.split_whitespace().collect();
    match words[..] {
        [written, _] if written.contains('T') => {
            // systemd writes +0100.
            let (begin, minutes) = written.split_at_checked(written.len().checked_sub(2)?)?;
            let has_colon = begin.ends_with([':', '.']) || written.ends_with('Z');
            let colon = if has_colon { "" } else { ":" };
            zone.since(&[begin, colon, minutes].concat(), now)
        }
        [month, day, clock, _] => {
            let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
            let month = months.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? / 3 + 1;
            moment(&format!("{month:02}"), &format!("{day:0>2}"), clock, zone, now)
        }
        _ => None,
    }
}

/// A moment without a year: the last one that was.
fn moment(month: &str, day: &str, clock: &str, zone: Zone, now: Millis) -> Option<Millis> {
    let year = timestamp::day(zone.shown(now))[..4].parse::<u64>().ok()?;
    [year, year - 1].into_iter().find_map(|year| {
        let local = timestamp::parse(&format!("{year}-{month}-{day} {clock}"))?;
        Some(zone.moment(local)?).filter(|at| *at <= now + AHEAD)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EAST: Zone = Zone(|_| 3600);

    fn now() -> Millis {
        timestamp::parse("2026-11-30T01:00:00Z").unwrap()
    }

    fn line(text: &str) -> Option<(String, Shows, Option<u32>)> {
        let line = of_file(text, EAST, now())?;
        Some((timestamp::text(line.at), line.shows, line.process))
    }

    #[test]
    fn a_line_of_klog_is_read_with_and_without_a_prefix() {
        let text =
            "I1129 22:20:18.123456    1234 operation_generator.go:797] UnmountVolume.TearDown";
        let at = "2026-11-29T21:20:18.123Z".to_owned();
        let expected = Some((at, Shows::Nothing, Some(1234)));
        assert_eq!(line(text), expected);
        assert_eq!(line(&format!("Nov 29 22:20:19 node-a kubelet[9]: {text}")), expected);
        assert_eq!(line(&format!("2026-11-29T22:20:18.123456789Z stderr F {text}")), expected);
        assert_eq!(line(&format!("Nov 29 22:20:19 node-a kube-proxy[9]: {text}")), None);
        let read = of_file(text, EAST, now()).unwrap();
        assert_eq!(read.text, "operation_generator.go:797] UnmountVolume.TearDown");
        // No year: the last one that was.
        assert_eq!(line(&text.replace("1129", "1201")).unwrap().0, "2025-12-01T21:20:18.123Z");
        for other in ["", "x", "I1129", "Info: of another kind", "I1399 22:20:18.123456 1 x] y"] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    /// As kubelet 1.20 and 1.36, and systemd 219 and 252, write them.
    #[test]
    fn starts_ends_and_failures_of_the_api_are_told_from_the_rest() {
        let begin = "1129 22:20:18.123456    1234";
        for (text, shows) in [
            ("server.go:1190] Started kubelet", Shows::Start),
            ("kubelet.go:1594] \"Started kubelet\"", Shows::Start),
            (
                "reflector.go:138] k8s.io/client-go/informers/factory.go:134: Failed to watch *v1.Node: failed to list *v1.Node: Get \"https://10.0.0.1:6443/api/v1/nodes?limit=500\": net/http: TLS handshake timeout",
                Shows::ApiFailure,
            ),
            (
                "kubelet_node_status.go:470] Error updating node status, will retry: error getting node \"node-a\": Get \"https://10.0.0.1:6443/api/v1/nodes/node-a\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
                Shows::ApiFailure,
            ),
            (
                "controller.go:187] failed to update lease, error: etcdserver: request timed out",
                Shows::ApiFailure,
            ),
            (
                "desired_state_of_world_populator.go:338] Error processing volume \"data\" for pod \"orders-0_shop(u)\": error processing PVC shop/data: failed to fetch PVC from API server: Get \"https://10.0.0.1:6443/api/v1/namespaces/shop/persistentvolumeclaims/data\": context deadline exceeded",
                Shows::ApiFailure,
            ),
            (
                "desired_state_of_world_populator.go:312] \"Error processing volume\" err=\"error processing PVC shop/data: failed to fetch PVC from API server: an error on the server (\\\"x\\\") has prevented the request from succeeding\"",
                Shows::ApiFailure,
            ),
            (
                "prober.go:117] Readiness probe for \"web-0_shop(u):web\" failed (failure): Get \"http://10.1.1.1:8080/api/v1/ok\": context deadline exceeded",
                Shows::Nothing,
            ),
            (
                "remote_runtime.go:116] RunPodSandbox from runtime service failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
                Shows::Nothing,
            ),
            (
                "status_manager.go:566] Failed to get status for pod: pods \"web-0\" is forbidden: /api/v1",
                Shows::Nothing,
            ),
        ] {
            assert_eq!(line(&format!("E{begin} {text}")).unwrap().1, shows, "{text}");
        }
        for (text, shows) in [
            ("Started kubelet: The Kubernetes Node Agent.", Shows::Start),
            ("Started Lightweight Kubernetes.", Shows::Start),
            ("Started kubelet.service - kubelet: The Kubernetes Node Agent.", Shows::Start),
            ("Stopped kubelet: The Kubernetes Node Agent.", Shows::Stop),
            ("kubelet.service: Main process exited, code=killed, status=9/KILL", Shows::Stop),
            ("kubelet.service: main process exited, code=killed, status=9/KILL", Shows::Stop),
            ("kubelet.service: Consumed 3h 2min CPU time.", Shows::Nothing),
            ("Started Session 5 of user root.", Shows::Nothing),
        ] {
            let text = format!("Nov 29 22:20:18 node-a systemd[1]: {text}");
            assert_eq!(line(&text).unwrap().1, shows, "{text}");
        }
        assert_eq!(line("Nov 29 22:20:18 node-a sshd[1]: Started kubelet"), None);
        for moment in [
            "Nov 29 22:20:18",
            "2026-11-29T22:20:18+01:00",
            "2026-11-29T21:20:18.000000+00:00",
            "2026-11-29T22:20:18+0100",
            "2026-11-29T21:20:18Z",
        ] {
            let read = line(&format!("{moment} node-a systemd[1]: Started Kubernetes Kubelet."));
            assert_eq!(read.unwrap().0, "2026-11-29T21:20:18.000Z", "{moment}");
        }
        for moment in ["2hT", "T", "é", "2026-11-29T", "1T23456+01:00"] {
            assert_eq!(line(&format!("{moment} node-a systemd[1]: Started kubelet")), None);
        }
    }

    fn of_process(words: &str) -> KubeletLine {
        of_file(&format!("I1129 22:20:18.123456    1234 {words}"), EAST, now()).unwrap()
    }

    /// As kubelet 1.20 and 1.36 write them. What a container printed is quoted behind other words.
    #[test]
    fn deletions_and_claims_are_read_where_kubelet_itself_says_so() {
        for (words, own) in
            [("a.go:1] x] y", Some("x] y")), ("a.go:1] \"x\" y", Some("x\" y")), ("no place", None)]
        {
            assert_eq!(of_process(words).words(), own);
        }
        for (words, is_one) in [
            ("kubelet.go:1904] SyncLoop (DELETE, \"api\"): \"orders-0_shop(u)\"", true),
            ("kubelet.go:1904] SyncLoop (REMOVE, \"api\"): \"orders-0_shop(u)\"", true),
            ("kubelet.go:2453] \"SyncLoop DELETE\" source=\"api\" pods=[\"shop/orders-0\"]", true),
            ("kubelet.go:1888] SyncLoop (ADD, \"api\"): \"orders-0_shop(u)\"", false),
            ("prober.go:117] x failed: SyncLoop (DELETE, \"api\"): \"orders-0_shop(u)\"", false),
        ] {
            assert_eq!(of_process(words).is_deletion(), is_one, "{words}");
        }
        let failed = "failed to fetch PVC from API server: x";
        for (words, claim) in [
            (
                format!(
                    "a.go:1] Error processing volume \"d\" for pod \"p\": error processing PVC shop/data-0: {failed}"
                ),
                Some("shop/data-0"),
            ),
            (
                format!(
                    "a.go:1] \"Error processing volume\" err=\"error processing PVC shop/data-0: {failed}\" pod=\"shop/p\""
                ),
                Some("shop/data-0"),
            ),
            (
                format!(
                    "a.go:1] Error processing volume: error processing PVC a b\u{1b}: {failed}"
                ),
                None,
            ),
            (
                format!(
                    "a.go:1] Error processing volume: error processing PVC {}: {failed}",
                    "a".repeat(999)
                ),
                None,
            ),
            (
                format!(
                    "a.go:1] said: Error processing volume: error processing PVC a/b: {failed}"
                ),
                None,
            ),
            (
                "a.go:1] Error processing volume: error processing PVC a/b: not bound".to_owned(),
                None,
            ),
        ] {
            assert_eq!(of_process(&words).unread_claim(), claim, "{words}");
        }
        let other = of_journal(br#"{"MESSAGE":"a] SyncLoop (DELETE","__REALTIME_TIMESTAMP":"1"}"#);
        assert!(!other.unwrap().is_deletion(), "no line of klog");
    }

    #[test]
    fn pods_are_read_in_both_ways_of_quoting() {
        const UID: &str = "4e51a3c2-7b1d-4f6e-9a08-5c3d2e1f0a9b";
        for words in [format!("x (UID: \"{UID}\") y"), format!("x (UID: \\\"{UID}\\\")")] {
            assert_eq!(of_process(&format!("a.go:1] {words}")).pod_uid(), Some(UID), "{words}");
        }
        let named = Some(("shop/orders-0".to_owned(), UID));
        for (words, pod) in [
            (
                format!("a.go:1] SyncLoop (ADD, \"api\"): \"b_a(x), orders-0_shop({UID})\""),
                named.clone(),
            ),
            (format!("a.go:1] \"Error\" pod=\"shop/orders-0\" podUID=\"{UID}\""), named.clone()),
            (format!("a.go:1] \"Error\" pod=\"shop/orders-0\" podUID={UID} x"), named),
            (format!("a.go:1] \"Error\" pod=\"shop/orders-0\" ({UID})"), None),
            (format!("a.go:1] volume ({UID})"), None),
        ] {
            assert_eq!(of_process(&words).named_pod(), pod, "{words}");
        }
    }

    #[test]
    fn what_only_kubelet_needs_is_left_out_of_its_words() {
        const UID: &str = "4e51a3c2-7b1d-4f6e-9a08-5c3d2e1f0a9b";
        for (words, left) in [
            (
                format!("a.go:1] operationExecutor.UnmountVolume started for volume \"pv\" (UniqueName: \"incloud/disk/pv\") pod \"{UID}\" (UID: \"{UID}\") "),
                format!("operationExecutor.UnmountVolume started for volume \"pv\" pod \"{UID}\""),
            ),
            (
                "a.go:1] DetachVolume.Detach succeeded for volume \"pv\" %!(EXTRA string=DetachVolume.Detach succeeded for volume \"pv\" (UniqueName: \"x\") on node \"n\" )".to_owned(),
                "DetachVolume.Detach succeeded for volume \"pv\"".to_owned(),
            ),
            (
                "a.go:1] update it: &{volumeName:x pod:0xc0 blockVolumeMapper:<nil>} now".to_owned(),
                "update it: &{…} now".to_owned(),
            ),
            (
                format!("a.go:1] \"Error\" err=\"Get \\\"https://10.0.0.1:6443/api/v1/x?y\\\": net/http: request canceled\" pod=\"p_shop({UID})\" x"),
                "\"Error\" err=\"Get \"…\": net/http: request canceled\" pod=\"p_shop\" x".to_owned(),
            ),
            ("a (b) &{ (UID: \"x".to_owned(), "a (b) &{ (UID: \"x".to_owned()),
        ] {
            assert_eq!(brief(&words), left);
        }
    }

    #[test]
    fn a_record_of_the_journal_is_read_whatever_its_message_is() {
        let record = |message: &str, process: &str| {
            let text = format!(
                r#"{{"MESSAGE":{message},"_PID":"{process}","__REALTIME_TIMESTAMP":"1795233023500999","X":[1]}}"#
            );
            of_journal(text.as_bytes())
        };
        let read = record(r#""I1129 22:20:18.123456   77 a.go:1] x""#, "1234").unwrap();
        assert_eq!((read.at, read.process), (1_795_233_023_500, Some(1234)));
        assert_eq!(read.text, "a.go:1] x");
        assert_eq!(record("[65,255,10]", "5").unwrap().text, "A\u{fffd}\n");
        assert_eq!(record(r#"["one","two"]"#, "5").unwrap().text, "one");
        assert_eq!(record("null", "5").unwrap().text, "");
        let started = r#""Started kubelet: The Kubernetes Node Agent.""#;
        assert_eq!(record(started, "1").unwrap().shows, Shows::Start);
        assert_eq!(record(started, "1234").unwrap().shows, Shows::Nothing, "not systemd's");
        for other in ["", "-- No entries --", "{}", r#"{"__REALTIME_TIMESTAMP":"x"}"#] {
            assert_eq!(of_journal(other.as_bytes()), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_the_reader_panic(text in ".{0,200}") {
            let _ = of_file(&text, EAST, 5);
            let _ = of_file(&format!("I1129 22:20:18.123456 {text}"), EAST, now());
            let _ = of_file(&format!("Nov 29 {text}"), EAST, now());
            let _ = of_file(&format!("{text} node-a systemd[1]: x"), EAST, now());
            let _ = of_journal(text.as_bytes());
            for begin in ["Error processing volume", "&{", "(UID: \"", "pod=\"", "podUID=", "_(", "(UID: \\"] {
                let line = KubeletLine { at: 0, process: Some(1), shows: Shows::Nothing, text: format!("a] {begin}{text}") };
                let _ = (line.unread_claim(), brief(&line.text), line.named_pod(), line.pod_uid());
            }
        }
    }
}
