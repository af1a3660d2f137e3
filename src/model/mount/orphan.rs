//! Whether a volume was left attached: kubelet has unstaged it and will never detach it.
//!
//! Since Kubernetes 1.26 a kubelet takes a volume that it finds after its restart for attachable only if
//! `node.status.volumesAttached` names it. Where kubelet itself attaches, nothing ever does. So once the pod is
//! deleted, the unmount of the stage directory is the last call.

use crate::kubelet::{Attacher, RunningKubelet};
use crate::timestamp::Uptime;
use std::time::Duration;

/// After so long without a call kubelet does not mean to detach: its back-off ends at two minutes and two seconds,
/// and a detach takes two minutes at most.
pub const SILENT_FOR: Duration = Duration::from_secs(300);

/// What is known of a volume that may have been left attached.
#[derive(Debug)]
pub struct UnstagedVolume<'a> {
    /// When a call unmounted the stage directory, if no call for the volume came after it.
    pub unstaged_at: Option<&'a Uptime>,
    /// Whether a mount of it is on record.
    pub is_staged: bool,
    /// Whether the cloud has it attached to this machine; nothing if that is not known.
    pub is_attached_here: Option<bool>,
    /// The kubelet, if it runs.
    pub kubelet: Option<&'a RunningKubelet>,
    /// Whether a pod's directory for the volume is there, or why that is not known.
    pub pod_directory: Result<bool, String>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// It was not left attached, or kubelet may still detach it.
    No,
    /// Nothing but the driver's timer will detach it.
    Yes,
    /// It looks so, but a fact of it is not known, for this reason: nothing may be done.
    Unknown(String),
}

impl UnstagedVolume<'_> {
    /// Whether it is attached and unstaged, and no call came for long. All times are counted since the machine's
    /// start, so no change of the clock matters.
    pub fn is_silent(&self, now: &Uptime) -> bool {
        let silence = self.unstaged_at.and_then(|at| now.since(at));
        !self.is_staged
            && self.is_attached_here == Some(true)
            && silence.is_some_and(|silence| silence >= SILENT_FOR)
    }

    /// Decides at this moment.
    pub fn judge(&self, now: &Uptime) -> Orphan {
        // While no kubelet runs, the next one may still have a pod for it.
        let (true, Some(kubelet)) = (self.is_silent(now), self.kubelet) else { return Orphan::No };
        match (&kubelet.attacher, kubelet.age, &self.pod_directory) {
            (Attacher::Controller, ..) | (_, _, Ok(true)) => Orphan::No,
            (_, Some(age), _) if age < SILENT_FOR => Orphan::No,
            (Attacher::Unknown(why), ..) => {
                Orphan::Unknown(format!("whether kubelet attaches is not known: {why}"))
            }
            (_, None, _) => {
                Orphan::Unknown("how long kubelet has been running is not known".to_owned())
            }
            (_, _, Err(why)) => {
                Orphan::Unknown(format!("whether a pod has a directory for it is not known: {why}"))
            }
            (Attacher::Kubelet, Some(_), Ok(false)) => Orphan::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: &str, seconds: u64) -> Uptime {
        Uptime { boot: boot.to_owned(), seconds }
    }

    fn kubelet(attacher: Attacher, age: Option<u64>) -> RunningKubelet {
        RunningKubelet { attacher, root: "/k".into(), age: age.map(Duration::from_secs) }
    }

    /// Unstaged 300 s ago, and all facts say that it was left attached; then something is otherwise.
    fn judged(
        (unstaged_at, is_staged, is_attached_here): (Option<Uptime>, bool, Option<bool>),
        kubelet: Option<&RunningKubelet>,
        pod_directory: Result<bool, String>,
    ) -> Orphan {
        let unstaged_at = unstaged_at.as_ref();
        UnstagedVolume { unstaged_at, is_staged, is_attached_here, kubelet, pod_directory }
            .judge(&at("this", 1300))
    }

    #[test]
    fn it_was_left_attached_only_where_every_fact_says_so() {
        let then = || Some(at("this", 1000));
        let left = || (then(), false, Some(true));
        let runs = kubelet(Attacher::Kubelet, Some(300));
        assert_eq!(judged(left(), Some(&runs), Ok(false)), Orphan::Yes);
        for (what, facts) in [
            ("a call came after it", (None, false, Some(true))),
            ("not long ago", (Some(at("this", 1001)), false, Some(true))),
            ("of another boot", (Some(at("that", 1000)), false, Some(true))),
            ("of no known boot", (Some(at("", 1000)), false, Some(true))),
            ("later than now", (Some(at("this", 1301)), false, Some(true))),
            ("mounted", (then(), true, Some(true))),
            ("attached elsewhere or nowhere", (then(), false, Some(false))),
            ("the cloud does not say", (then(), false, None)),
        ] {
            assert_eq!(judged(facts, Some(&runs), Ok(false)), Orphan::No, "{what}");
        }
        assert_eq!(judged(left(), Some(&runs), Ok(true)), Orphan::No, "a pod's directory");
        assert_eq!(judged(left(), None, Ok(false)), Orphan::No, "kubelet is down");
        let young = kubelet(Attacher::Kubelet, Some(299));
        assert_eq!(judged(left(), Some(&young), Ok(false)), Orphan::No, "kubelet has just begun");
        let other = kubelet(Attacher::Controller, Some(300));
        assert_eq!(judged(left(), Some(&other), Ok(false)), Orphan::No, "the controller attaches");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let unknown = |kubelet: &RunningKubelet, pod_directory| {
            let left = (Some(at("this", 1000)), false, Some(true));
            match judged(left, Some(kubelet), pod_directory) {
                Orphan::Unknown(why) => why,
                other => panic!("{other:?}"),
            }
        };
        let hidden = kubelet(Attacher::Unknown("cannot read /c".to_owned()), Some(300));
        assert!(unknown(&hidden, Ok(false)).contains("cannot read /c"));
        let ageless = kubelet(Attacher::Kubelet, None);
        assert!(unknown(&ageless, Ok(false)).contains("how long"));
        let runs = kubelet(Attacher::Kubelet, Some(300));
        assert!(unknown(&runs, Err("no access".to_owned())).contains("no access"));
    }
}
