//! `SELinux`: a policy that gives containers and their files labels, as runtimes do.

use super::pods::Running;
use super::{Outcome, Scene, Stop, Volume};
use crate::support::pods::Order;

const POLICY: &str = include_str!("labels.cil");

/// What a runtime makes of a container, and of the files of its volumes.
const CONTAINER: &str = "system_u:system_r:container_t:s0:c1,c2";
const ITS_FILES: &str = "system_u:object_r:container_file_t:s0:c1,c2";
/// A file of another container's on the same volume.
const OF_ANOTHER: &str = "system_u:object_r:container_file_t:s0:c0";

/// Loaded once in a life of the machine; from then on it is enforced.
const LOAD: &str = "cd /run; [ \"$(cat /sys/fs/selinux/enforce)\" = 1 ] || { \
    secilc -M true -c 30 -o labels.policy -f /dev/null labels.cil && \
    cat labels.policy >/sys/fs/selinux/load && echo 1 >/sys/fs/selinux/enforce; }; \
    cat /sys/fs/selinux/enforce";

impl Scene<'_> {
    /// From here on `SELinux` enforces the policy.
    pub(crate) fn enforce_labels(&mut self) -> Outcome {
        self.machine.put("/run/labels.cil", POLICY)?;
        let said = self.machine.shell(LOAD)?;
        self.check("SELinux enforces a policy", said == "1", said)
    }

    /// A container that has a label, as the files of its volume have; one file there is another container's.
    pub(crate) fn start_labelled(
        &mut self,
        name: &str,
        volume: &Volume,
        uid: &str,
    ) -> Outcome<Running> {
        let folder = volume.pod(uid);
        self.machine.shell(&format!(
            "touch {folder}/of-another && chcon -R {ITS_FILES} {folder} && chcon {OF_ANOTHER} {folder}/of-another"
        ))?;
        let running = self.start_with_label(name, volume, uid, CONTAINER.to_owned())?;
        self.write(&running, "/data/log")?;
        Ok(running)
    }

    /// The container and its files have the labels that they were given, and `SELinux` goes by them.
    pub(crate) fn has_its_labels(
        &mut self,
        container: &Running,
        volume: &Volume,
        uid: &str,
    ) -> Outcome {
        let said =
            self.machine.shell(&format!("tr -d '\\0' </proc/{}/attr/current", container.pid))?;
        self.check("the container has its label", said == CONTAINER, said)?;
        let folder = volume.pod(uid);
        let said =
            self.machine.shell(&format!("stat -c %C {folder} {folder}/log {folder}/of-another"))?;
        let are_right = said.lines().eq([ITS_FILES, ITS_FILES, OF_ANOTHER]);
        self.check("its files have theirs", are_right, said)?;
        let open = Order::Open { path: "/data/of-another".into() };
        self.is_forbidden("another container's file is closed to it", container, &open)?;
        let bind = Order::Bind { from: "/data".into(), to: "/proc".into() };
        self.is_forbidden("it may mount nothing", container, &bind)
    }

    fn is_forbidden(&mut self, what: &str, container: &Running, order: &Order) -> Outcome {
        let answer = self.tell(container, order);
        let is_forbidden =
            matches!(&answer, Err(Stop::Broken(why)) if why.contains("ermission denied"));
        self.check(what, is_forbidden, format!("{answer:?}"))
    }

    /// `SELinux` denied the container what it must, and nothing to the driver.
    pub(crate) fn was_denied_nothing(&mut self) -> Outcome {
        let said = self.machine.shell("dmesg | grep 'avc: *denied' || true")?;
        let (containers, others): (Vec<_>, Vec<_>) =
            said.lines().partition(|line| line.contains(&format!("scontext={CONTAINER}")));
        self.check(
            "what was denied is told",
            !containers.is_empty(),
            containers.len().to_string(),
        )?;
        self.check("the driver was denied nothing", others.is_empty(), others.join("\n"))
    }
}
